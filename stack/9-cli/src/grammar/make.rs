//! Commands that make volumes.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

use super::name::Name;

/// Make an XFS volume
///
/// Takes the options of mkfs.xfs, follows its rules for the geometry and prints its summary. The
/// defaults are those of mkfs.xfs 6.13. An image file is made if its size is given.
#[derive(Debug, Args)]
#[command(after_help = "\
Suboptions are joined by commas. Sizes take k, m, g, t, p, e (powers of 1024), s (sectors) and b
(blocks). A suboption that is a switch means 1 without a value.

Examples:
  xfskit mkfs --size 1G disk.img                        a new image of 1 GiB
  xfskit mkfs -d size=1g -L data disk.img               the same, with a label
  xfskit mkfs -f -d su=64k,sw=4 /dev/md0                a stripe geometry, over what is there
  xfskit mkfs --target linux-5.10,grub-2.06 boot.img    only features that both support
  xfskit mkfs --from rootfs/ root.img                   an image of a tree, as large as necessary
  xfskit mkfs --from base.tar --from app.tar.zst --size 10G root.img
  xfskit mkfs -N -d size=100t big.img                   print the geometry, write nothing
  xfskit mkfs -m uuid=e7b49a86-7a1b-4c5f-9a53-0a5fbe0e1c1f --size 1G a.img
                                                        the same bytes in every run")]
#[command(mut_arg("force_array", |arg| arg.long("force-array")))]
pub(crate) struct Mkfs {
    #[command(flatten)]
    pub target: Name,
    /// Size of the volume; a missing or shorter image file is made this long (as -d size=). With
    /// --from also `auto`: the size of the tree, plus --free
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Fill the volume with this tree: a directory, a tar archive (plain, gzip, zstd, xz), or - for
    /// an archive on standard input. Given several times, later trees replace files of earlier ones
    #[arg(long, value_name = "DIR|TAR|-", help_heading = "Content")]
    pub from: Vec<PathBuf>,
    /// With --size auto: free space of the volume, in percent or as a size [default: 10%]
    #[arg(long, value_name = "PERCENT|SIZE", requires = "from", help_heading = "Content")]
    pub free: Option<String>,
    /// Apply the whiteouts of OCI layers
    #[arg(long, requires = "from", help_heading = "Content")]
    pub whiteouts: bool,
    /// Stop at a file that cannot be read in full, such as one with more attributes than Linux
    /// lists; without this the others are copied, and the exit code is 1
    #[arg(long, requires = "from", help_heading = "Content")]
    pub strict: bool,
    /// Memory for names and attributes of archives [default: depends on the archives' size]
    #[arg(
        long,
        value_name = "SIZE",
        requires = "from",
        value_parser = crate::show::parse_size,
        help_heading = "Content"
    )]
    pub limit: Option<u64>,
    /// Set the owner and group of everything in the tree
    #[arg(
        long,
        value_name = "UID:GID",
        requires = "from",
        conflicts_with = "owner_map",
        help_heading = "Content"
    )]
    pub owner: Option<String>,
    /// Set owners by rules: lines of `uid FROM TO`, `gid FROM TO`, `path PATTERN UID GID`
    #[arg(long, value_name = "FILE", requires = "from", help_heading = "Content")]
    pub owner_map: Option<PathBuf>,
    /// Set SELinux labels by path, from a policy's file_contexts
    #[arg(long, value_name = "FILE", requires = "from", help_heading = "Content")]
    pub selinux_contexts: Option<PathBuf>,
    /// Number of threads; the bytes of the volume do not depend on it
    #[arg(long, value_name = "N", requires = "from", help_heading = "Content")]
    pub threads: Option<NonZero<usize>>,
    /// Keep an unfinished new image after a failure
    #[arg(long, requires = "from", help_heading = "Content")]
    pub keep: bool,
    /// Blocks: size=
    #[arg(short = 'b', value_name = "OPTIONS")]
    pub block: Vec<String>,
    /// Sectors: size=
    #[arg(short = 's', value_name = "OPTIONS")]
    pub sector: Vec<String>,
    /// Data: agcount=, agsize=, size=, su=, sw=, sunit=, swidth=, noalign
    #[arg(short = 'd', value_name = "OPTIONS")]
    pub data: Vec<String>,
    /// Inodes: size=, maxpct=, sparse=, nrext64=, exchange=
    #[arg(short = 'i', value_name = "OPTIONS")]
    pub inode: Vec<String>,
    /// Journal: size=, sunit=, su=, logdev=, lazy-count=
    #[arg(short = 'l', value_name = "OPTIONS")]
    pub log: Vec<String>,
    /// Directories: size=, parent=, ftype=
    #[arg(short = 'n', value_name = "OPTIONS")]
    pub naming: Vec<String>,
    /// Metadata: crc=, finobt=, rmapbt=, reflink=, bigtime=, inobtcount=, uuid=
    #[arg(short = 'm', value_name = "OPTIONS")]
    pub metadata: Vec<String>,
    /// Label, at most 12 bytes
    #[arg(short = 'L', value_name = "LABEL")]
    pub label: Option<String>,
    /// UUID of the volume (as -m uuid=). With it and SOURCE_DATE_EPOCH every run makes the same
    /// bytes
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,
    /// Overwrite an existing filesystem or partition table
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Print the geometry and write nothing
    #[arg(short = 'N', long)]
    pub dry_run: bool,
    /// Do not discard the device's blocks first
    #[arg(short = 'K', long)]
    pub no_discard: bool,
    /// Use only features that all these readers support: linux-6.1, grub-2.06, …
    /// (comma separated)
    #[arg(long = "target", value_name = "READER", value_delimiter = ',')]
    pub readers: Vec<String>,
    /// With --target: use all features that the readers can mount, experimental ones too
    #[arg(long, requires = "readers")]
    pub target_max: bool,
}
