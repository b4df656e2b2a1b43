//! Commands that read the files of a volume.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::access::{Access, commands};
use super::rows::Rows;
use super::{Target, change};

/// Describe a volume: geometry, features, free space, journal
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit info disk.img              the output of xfs_info, free space, the journal's state
  xfskit info --compat disk.img     kernels and GRUBs that can read it, and what stops others
  xfskit info --json /dev/sdb1")]
pub(crate) struct Info {
    #[command(flatten)]
    pub target: Target,
    /// Print which readers can mount the volume, and which feature stops each of the others
    #[arg(long)]
    pub compat: bool,
}

/// List a directory, or a file
#[derive(Debug, Args)]
#[command(after_help = "\
Owners are shown as numbers: names belong to the system that wrote the volume.

Examples:
  xfskit ls disk.img                 the root directory
  xfskit ls -l disk.img /etc         modes, owners, sizes, times
  xfskit ls -lR --json disk.img /    everything, one JSON object per entry")]
pub(crate) struct Ls {
    #[command(flatten)]
    pub target: Target,
    /// The directory or file
    #[arg(value_name = "PATH", default_value = "/")]
    pub path: OsString,
    /// Print modes, link counts, owners, sizes and times
    #[arg(short, long)]
    pub long: bool,
    /// List subdirectories too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Print inode numbers
    #[arg(short, long)]
    pub inode: bool,
    /// List names that begin with a dot, too
    #[arg(short, long)]
    pub all: bool,
    /// List the directory itself, not its entries
    #[arg(short, long)]
    pub directory: bool,
    /// Print times in full, to the nanosecond (with -l)
    #[arg(long)]
    pub full_time: bool,
}

/// Draw a directory tree
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit tree disk.img
  xfskit tree --depth 2 disk.img /usr")]
pub(crate) struct Tree {
    #[command(flatten)]
    pub target: Target,
    /// The directory at the top of the tree
    #[arg(value_name = "PATH", default_value = "/")]
    pub path: OsString,
    /// Maximum number of levels
    #[arg(short, long, value_name = "N")]
    pub depth: Option<usize>,
}

/// Show the metadata of one file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit stat disk.img /etc/passwd
  xfskit stat --extents disk.img /var/log/journal.bin    also list its extents
  xfskit stat --follow disk.img /etc/localtime           the target of the symbolic link")]
pub(crate) struct Stat {
    #[command(flatten)]
    pub target: Target,
    /// The file
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// Follow a symbolic link at the end of the path
    #[arg(short = 'F', long)]
    pub follow: bool,
    /// List the file's extents
    #[arg(short, long)]
    pub extents: bool,
}

/// Write a file's content to standard output
#[derive(Debug, Args)]
#[command(after_help = "\
Symbolic links are followed. With --json the content is printed in pieces, each as
{\"offset\": …, \"data\": \"base64\"}.

Examples:
  xfskit cat disk.img /etc/fstab
  xfskit cat disk.img /boot/vmlinuz | sha256sum
  xfskit cat --offset 1M --length 4k disk.img /var/lib/db")]
pub(crate) struct Cat {
    #[command(flatten)]
    pub target: Target,
    /// The file
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// First byte
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = crate::show::parse_size)]
    pub offset: u64,
    /// Maximum number of bytes
    #[arg(long, value_name = "SIZE", value_parser = crate::show::parse_size)]
    pub length: Option<u64>,
    /// Compare data read from an array with its parity or other copies; correct or report
    /// mismatches
    #[arg(long)]
    pub verify: bool,
}

/// Read and change extended attributes
#[derive(Debug, Args)]
#[command(after_help = "\
A name begins with its namespace: user., trusted., security., system.posix_acl_access. A value
begins with 0x for hexadecimal, with 0s for base64. `set` and `rm` change the volume.

Examples:
  xfskit xattr list disk.img /etc/passwd
  xfskit xattr get disk.img /etc/passwd security.selinux
  xfskit xattr set disk.img /srv/a user.origin 'from the old server'
  xfskit xattr rm disk.img /srv/a user.origin")]
pub(crate) struct Xattr {
    #[command(subcommand)]
    pub what: XattrCommand,
}

commands! {
    /// Commands on extended attributes.
    #[derive(Debug, Subcommand)]
    pub(crate) enum XattrCommand {
        List(XattrList) => Access::Reads,
        Get(XattrGet) => Access::Reads,
        Set(XattrSet) => Access::Writes,
        Rm(XattrRm) => Access::Writes,
    }
}

/// List names and values
#[derive(Debug, Args)]
pub(crate) struct XattrList {
    #[command(flatten)]
    pub target: Target,
    /// The file; a symbolic link is not followed
    #[arg(value_name = "PATH")]
    pub path: OsString,
}

/// Write one value to standard output, as it is
#[derive(Debug, Args)]
pub(crate) struct XattrGet {
    #[command(flatten)]
    pub target: Target,
    /// The file; a symbolic link is not followed
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// The attribute, with its namespace
    #[arg(value_name = "NAME")]
    pub name: OsString,
}

/// Set one value
#[derive(Debug, Args)]
pub(crate) struct XattrSet {
    #[command(flatten)]
    pub target: change::Target,
    /// The file; a symbolic link is not followed
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// The attribute, with its namespace
    #[arg(value_name = "NAME")]
    pub name: OsString,
    /// The value: text, 0xHEX or 0sBASE64
    #[arg(value_name = "VALUE")]
    pub value: OsString,
    /// Fail if the attribute exists
    #[arg(long)]
    pub create: bool,
    /// Fail if the attribute does not exist
    #[arg(long, conflicts_with = "create")]
    pub replace: bool,
}

/// Remove attributes
#[derive(Debug, Args)]
pub(crate) struct XattrRm {
    #[command(flatten)]
    pub target: change::Target,
    /// The file; a symbolic link is not followed
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// The attributes, with their namespaces
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<OsString>,
}

/// A file type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Regular file
    #[value(name = "f")]
    File,
    /// Directory
    #[value(name = "d")]
    Directory,
    /// Symbolic link
    #[value(name = "l")]
    Symlink,
    /// Block device
    #[value(name = "b")]
    Block,
    /// Character device
    #[value(name = "c")]
    Character,
    /// Named pipe
    #[value(name = "p")]
    Pipe,
    /// Socket
    #[value(name = "s")]
    Socket,
}

/// Find files by name, type, size, age, owner or attribute
#[derive(Debug, Args)]
#[command(after_help = "\
A file must match all conditions. +N is more than N, -N is less, N is exactly N. The output is not
sorted: the volume is read in the fastest order.

Examples:
  xfskit find disk.img --name '*.conf'
  xfskit find disk.img /var --type f --size +100M
  xfskit find disk.img --mtime -7 --uid 1000        changed within the last 7 days
  xfskit find disk.img --xattr security.capability
  xfskit find disk.img / -0 | xargs -0 -n1 echo
  xfskit find disk.img --newer /etc/stamp --csv --epoch --fields path,size,mtime")]
pub(crate) struct Find {
    #[command(flatten)]
    pub target: Target,
    /// The directory to search
    #[arg(value_name = "PATH", default_value = "/")]
    pub path: OsString,
    /// The file's own name matches this pattern: * ? [a-z] {a,b}
    #[arg(long, value_name = "GLOB")]
    pub name: Option<String>,
    /// The whole path matches this pattern; ** crosses directories
    #[arg(long, value_name = "GLOB")]
    pub path_glob: Option<String>,
    /// File type; may be given several times
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub kind: Vec<Kind>,
    /// Size in bytes, with the usual suffixes: +1G, -4k
    #[arg(long, value_name = "[+-]SIZE", allow_hyphen_values = true)]
    pub size: Option<String>,
    /// Days since the content changed
    #[arg(long, value_name = "[+-]DAYS", allow_hyphen_values = true)]
    pub mtime: Option<String>,
    /// Owner's number
    #[arg(long, value_name = "UID")]
    pub uid: Option<u32>,
    /// Group's number
    #[arg(long, value_name = "GID")]
    pub gid: Option<u32>,
    /// Content changed later than that of this file of the volume
    #[arg(long, value_name = "FILE")]
    pub newer: Option<OsString>,
    /// Inode number
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true)]
    pub inum: Option<String>,
    /// Has this extended attribute (a pattern: user.*)
    #[arg(long, value_name = "GLOB")]
    pub xattr: Option<String>,
    /// End each path with a zero byte instead of a newline
    #[arg(short = '0', long, conflicts_with_all = ["csv", "fields"])]
    pub print0: bool,
    #[command(flatten)]
    pub rows: Rows,
}

/// Show figures of a volume, and counters of the work of this process
#[derive(Debug, Args)]
#[command(after_help = "\
Counters are those of this process: outside of the shell they count the work of reading the
figures. Every command that changes a volume prints them at the end with --stats; in the shell,
`stats` prints them at any time. The groups of xfs_stats are named transactions (trans), journal
(log), write-back (push_ail) and buffers (buf). With the directory of a mount the command prints
the requests that the mount has served, and how long they took.

Examples:
  xfskit stats disk.img
  xfskit put --stats disk.img ./html /srv
  xfskit stats --json disk.img
  xfskit stats /mnt                   requests of a mount by xfskit, with their latencies")]
pub(crate) struct Stats {
    #[command(flatten)]
    pub target: Target,
}

/// Show how full a volume is
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  xfskit df disk.img
  xfskit df -h disk.img")]
#[command(disable_help_flag = true)]
pub(crate) struct Df {
    #[command(flatten)]
    pub target: Target,
    /// Print sizes with a suffix (1.4M)
    #[arg(short = 'h', long)]
    pub human: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// Show how much space files take, directory by directory
#[derive(Debug, Args)]
#[command(after_help = "\
A directory is printed after its contents, with their sum. A file with several names counts once.
Sizes are in KiB, rounded up, unless -h is given; in JSON they are bytes.

Examples:
  xfskit du -h --max-depth 1 disk.img
  xfskit du -s disk.img /home/a /home/b
  xfskit du -a --apparent-size --json disk.img /var")]
#[command(disable_help_flag = true)]
pub(crate) struct Du {
    #[command(flatten)]
    pub target: Target,
    /// The directories or files
    #[arg(value_name = "PATH", default_value = "/")]
    pub paths: Vec<OsString>,
    /// Print only the sum for each PATH
    #[arg(short, long, conflicts_with_all = ["all", "max_depth"])]
    pub summarize: bool,
    /// Print sizes with a suffix (1.4M)
    #[arg(short = 'h', long)]
    pub human: bool,
    /// Print files too, not only directories
    #[arg(short, long)]
    pub all: bool,
    /// Print only this many levels below each PATH; deeper files still count
    #[arg(short = 'd', long, value_name = "N")]
    pub max_depth: Option<usize>,
    /// Add lengths of files and symbolic links, not the space that they take
    #[arg(long)]
    pub apparent_size: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// Copy a file or a tree out of a volume, with all metadata
///
/// Copies modes, owners, times to the nanosecond, extended attributes, ACLs, holes, hard links,
/// symbolic links and devices. What cannot be set without root is left out and reported.
#[derive(Debug, Args)]
#[command(after_help = "\
DEST becomes the copy of PATH; an existing empty directory is filled. `-` is a tar archive (PAX,
with attributes, sparse files and nanoseconds) on standard output.

A damaged file or directory is reported, the others are copied, and the exit code is 1. The exit
code is also 1 if the destination cannot have attributes, ACLs or devices; these are counted.
Owners without root, and sockets in archives, are only counted, because tar and rsync leave them
out too.

XFS has no checksums of content. On an array with redundancy, --verify compares every stripe that
is read. A single wrong member of a RAID6, or of three copies, is named, and its data are
corrected in the output. If no single member explains a mismatch, the files are named, and the
exit code is 1. The members themselves are not written (`xfskit md scrub --repair` does that).

Examples:
  xfskit get disk.img / ./copy                  everything
  xfskit get disk.img /etc/fstab ./fstab        one file
  xfskit get disk.img /home - | zstd > home.tar.zst
  xfskit get --tar disk.img /home home.tar      an archive in a file
  xfskit get --verify md:a.img,b.img,c.img,d.img /home ./home")]
pub(crate) struct Get {
    #[command(flatten)]
    pub target: Target,
    /// The file or directory
    #[arg(value_name = "PATH")]
    pub path: OsString,
    /// The name of the copy; - for a tar archive on standard output
    #[arg(value_name = "DEST")]
    pub dest: PathBuf,
    /// Write a tar archive to DEST
    #[arg(long)]
    pub tar: bool,
    /// Number of writer threads; 0 is one per processor
    #[arg(short = 't', long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// Compare data read from an array with its parity or other copies; correct or report
    /// mismatches
    #[arg(long)]
    pub verify: bool,
}

/// List the extents of files
#[derive(Debug, Args)]
#[command(after_help = "\
Files on a mount by xfskit are named by their paths there; those of other volumes by the TARGET and
their paths inside. The listing is that of `xfs_bmap -vp`, in units of 512 bytes. As there, it ends
with the content of the file, unless space behind that was preallocated; --json has all extents, in
blocks. An extent that other files share in part is listed in parts. Staging blocks of copy-on-write
belong to no file on disk; `xfskit blocks` names them. Flags:
  100000  shared            010000  unwritten
  001000  does not begin on a stripe unit     000100  does not end on one
  000010  does not begin on a stripe width    000001  does not end on one

Examples:
  xfskit extents /mnt/a /mnt/b              files on a mount by xfskit
  xfskit extents disk.img /var/log/wtmp     a file of a volume that is not mounted
  xfskit extents -a disk.img /srv/data      where its extended attributes are (xfs_bmap -avp)")]
pub(crate) struct Extents {
    #[command(flatten)]
    pub target: Target,
    /// The files
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// List the extents of extended attributes, not those of the content
    #[arg(short, long)]
    pub attributes: bool,
}

/// List every inode from the inode btrees
#[derive(Debug, Args)]
#[command(after_help = "\
Allocation groups are read in parallel, so the output is not sorted. Directories are not read, so
this also lists files that no directory names. With the directory of a mount by xfskit, the inodes
are those of the moment at which the command began.

Examples:
  xfskit bulkstat disk.img
  xfskit bulkstat /mnt                      a mounted volume, in use
  xfskit bulkstat --json disk.img | jq -s 'map(.size) | add'
  xfskit bulkstat --csv --fields ino,mode,size disk.img
  xfskit bulkstat --count disk.img")]
pub(crate) struct Bulkstat {
    #[command(flatten)]
    pub target: Target,
    /// Print only how many there are of each type
    #[arg(long, conflicts_with_all = ["csv", "fields", "epoch"])]
    pub count: bool,
    /// List the volume's own inodes too: of the realtime bitmap and summary, of quota, of the
    /// metadata directory tree
    #[arg(long)]
    pub internal: bool,
    #[command(flatten)]
    pub rows: Rows,
    /// Number of threads; 0 is one per processor
    #[arg(short = 't', long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
}

/// List the partitions and logical volumes of a disk image, and which of them hold XFS
#[derive(Debug, Args)]
#[command(after_help = "\
Each line begins with the TARGET to use in other commands. If neither a volume, nor partitions, nor
logical volumes are recognised, the exit code is 1.

Examples:
  xfskit targets disk.img
  xfskit targets /dev/sda")]
pub(crate) struct Targets {
    /// The disk image or block device
    #[arg(value_name = "IMAGE")]
    pub image: String,
}
