//! `md create`.

use clap::{Args, ValueEnum};

use crate::show::parse_size;

/// Make a new array
///
/// The defaults are those of mdadm: superblock 1.2, chunks of 512 KiB, its layouts, its offsets of
/// data, bitmap and bad-block log. The initial resync is left to `xfskit md rebuild`, or to the
/// kernel when it assembles the array; --assume-clean omits it
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
    /// The members, in role order; `missing` for one that is added later; spares last
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// Number of members without spares
    #[arg(long, short = 'n', value_name = "N", visible_alias = "raid-devices")]
    pub members: Option<usize>,
    /// Number of spares among the targets
    #[arg(long, short = 'x', value_name = "N", default_value = "0")]
    pub spare_devices: usize,
    /// Chunk size: contiguous bytes on a member
    #[arg(long, short, value_name = "SIZE", default_value = "512K", value_parser = parse_size)]
    pub chunk: u64,
    /// Layout of the chunks: left-symmetric, ddf-N-restart, near=2, f2, …
    #[arg(long, short = 'p', value_name = "LAYOUT")]
    pub layout: Option<String>,
    /// Version of the superblocks
    #[arg(long, short = 'e', value_name = "VERSION", default_value = "1.2")]
    pub metadata: MetadataVersion,
    /// The array's name, usually host:name
    #[arg(long, short = 'N', value_name = "NAME", default_value = "")]
    pub name: String,
    /// The array's UUID [default: a new one]
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,
    /// Write-intent bitmap [default: internal if members give more than 100 GiB, else none]
    #[arg(long, value_name = "WHERE")]
    pub bitmap: Option<BitmapKind>,
    /// Bytes of one bit of the bitmap
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub bitmap_chunk: Option<u64>,
    /// Bytes to use of each member
    #[arg(long, short = 'z', value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// First byte of the data on each member
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub data_offset: Option<u64>,
    /// Make missing members: files of this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub member_size: Option<u64>,
    /// Omit the initial resync: the members agree already (all zero, for example)
    #[arg(long)]
    pub assume_clean: bool,
    /// Use members that have contents: a superblock, a filesystem, partitions
    #[arg(long, short)]
    pub force: bool,
}

/// Versions of superblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetadataVersion {
    /// At the end of the member
    #[value(name = "1.0")]
    V1_0,
    /// At its start
    #[value(name = "1.1")]
    V1_1,
    /// 4 KiB after its start
    #[value(name = "1.2", alias = "1")]
    V1_2,
}

/// Location of the write-intent bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BitmapKind {
    /// On every member, beside the superblock
    Internal,
    /// No bitmap
    None,
}
