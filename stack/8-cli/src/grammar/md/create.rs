//! `md create`.

use clap::{Args, ValueEnum};

use crate::show::parse_size;

/// Make a new array
///
/// The defaults are mdadm's: superblock 1.2, chunks of 512 KiB, its layouts, its places for data,
/// bitmap and bad-block log. Unless --assume-clean says that members agree, that is left to
/// `xfskit md rebuild`, or to the kernel when it assembles the array
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit md create --level 6 --member-size 1G d0.img d1.img d2.img d3.img
                                                 four new files of 1 GiB
  xfskit md create --level 5 --chunk 64K --layout right-symmetric a.img b.img c.img
  xfskit md create --level 6 --members 4 --spare-devices 1 a.img b.img c.img d.img spare.img
  xfskit md create --level 1 --bitmap internal /dev/sdb1 missing")]
pub(crate) struct Create {
    /// linear, 0, 1, 4, 5, 6 or 10
    #[arg(long, short, value_name = "LEVEL")]
    pub level: String,
    /// The members, in role order; `missing` for one that comes later; spares last
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// How many members the array has, spares not counted
    #[arg(long, short = 'n', value_name = "N", visible_alias = "raid-devices")]
    pub members: Option<usize>,
    /// How many of the targets are spares
    #[arg(long, short = 'x', value_name = "N", default_value = "0")]
    pub spare_devices: usize,
    /// Bytes that lie together on a member
    #[arg(long, short, value_name = "SIZE", default_value = "512K", value_parser = parse_size)]
    pub chunk: u64,
    /// How chunks lie: left-symmetric, ddf-N-restart, near=2, f2, …
    #[arg(long, short = 'p', value_name = "LAYOUT")]
    pub layout: Option<String>,
    /// Version of the superblocks
    #[arg(long, short = 'e', value_name = "VERSION", default_value = "1.2")]
    pub metadata: MetadataVersion,
    /// The array's name, usually host:name
    #[arg(long, short = 'N', value_name = "NAME", default_value = "")]
    pub name: String,
    /// The array's identity; a new one unless given
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,
    /// A write-intent bitmap; by default where members give more than 100 GiB
    #[arg(long, value_name = "WHERE")]
    pub bitmap: Option<BitmapKind>,
    /// Bytes that a bit of the bitmap covers
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub bitmap_chunk: Option<u64>,
    /// Use this much of each member
    #[arg(long, short = 'z', value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Where the data begin on each member
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub data_offset: Option<u64>,
    /// Members that are not there are made: files of this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub member_size: Option<u64>,
    /// The members agree already (all zero, say): nothing needs to be brought into agreement
    #[arg(long)]
    pub assume_clean: bool,
    /// Take members that hold something: a superblock, a file system, partitions
    #[arg(long, short)]
    pub force: bool,
}

/// Versions of superblocks that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetadataVersion {
    /// At the end of the member
    #[value(name = "1.0")]
    V1_0,
    /// At its start
    #[value(name = "1.1")]
    V1_1,
    /// 4 KiB behind its start
    #[value(name = "1.2", alias = "1")]
    V1_2,
}

/// Where the write-intent bitmap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BitmapKind {
    /// On every member, beside the superblock
    Internal,
    /// There is none
    None,
}
