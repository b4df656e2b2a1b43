//! Commands that find what an inode or a block belongs to, and what was removed.

use std::path::PathBuf;

use clap::Args;

use super::Target;

/// Print the paths of inodes
#[derive(Debug, Args)]
#[command(after_help = "\
Each line is an inode number and a path; a file with several names has several lines. The parent
pointers of a volume give the paths at once. On a volume without, one scan of the directories serves
all inodes together, as in xfs_ncheck. Damage on the way is reported, and the paths that can still
be found are printed.

A number that has no path is reported by what it stands for: a free inode, no inode at all, a file
that was removed while it was open, or an inode of the volume itself. The exit code is 1 then.

Examples:
  xfskit path disk.img 131 0x8003
  xfskit path --limit 1 disk.img 131                  one name is enough
  xfskit bulkstat --json disk.img | jq .ino | xfskit path disk.img -
  xfskit path -0 disk.img 131 | xargs -0 -n1 xfskit stat disk.img
  xfskit path --json /mnt 131                         a mount by xfskit")]
pub(crate) struct Path {
    #[command(flatten)]
    pub target: Target,
    /// The inode numbers, in decimal or with 0x in hexadecimal; - reads them from standard input
    #[arg(value_name = "INO", required = true)]
    pub inos: Vec<String>,
    /// Maximum number of paths of each inode
    #[arg(short = 'n', long, value_name = "N", value_parser = limit)]
    pub limit: Option<usize>,
    /// Print only the paths, and end each with a zero byte instead of a newline
    #[arg(short = '0', long)]
    pub print0: bool,
}

/// Parses a number of paths.
fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".into()),
        Ok(limit) => Ok(limit),
        Err(_) => Err("not a number".into()),
    }
}

/// Print the owners of blocks: files with their paths, structures of the volume, free space
#[derive(Debug, Args)]
#[command(after_help = "\
BLOCK is one of these, or a range A-B of them. Numbers are decimal, or hexadecimal with 0x.
  FSBLOCK     a block, by the numbers of xfs_db's fsblock: the group in the high bits
  AGNO:AGBNO  a block of a group; 1:8-15 are eight blocks of it
  POSITION    with --bytes or --daddr: a position on the data device

The rmapbt of a volume gives the owners at once. On a volume without, one scan of all structures
serves all blocks together; --scan asks for it elsewhere. A block that several files share is
printed once for each. If a block is neither in use nor free, or damage hides its owner, the exit
code is 1.

Examples:
  xfskit blocks disk.img 24 1:8-15
  xfskit blocks --daddr disk.img 16480          a sector that the kernel has logged
  xfskit blocks --bytes disk.img 8M-9M          a damaged range of the disk
  xfskit blocks --json disk.img 0:0-0x3fff | jq -r 'select(.path).path' | sort -u")]
pub(crate) struct Blocks {
    #[command(flatten)]
    pub target: Target,
    /// The blocks
    #[arg(value_name = "BLOCK", required = true)]
    pub ranges: Vec<String>,
    /// Blocks are positions in bytes, with the usual suffixes
    #[arg(short, long)]
    pub bytes: bool,
    /// Blocks are sectors of 512 bytes
    #[arg(short, long, conflicts_with = "bytes")]
    pub daddr: bool,
    /// Scan the volume, even if it has an rmapbt
    #[arg(long)]
    pub scan: bool,
    /// Print inode numbers only, and search for no paths
    #[arg(long)]
    pub no_paths: bool,
    /// Number of threads of a scan; 0 is one per processor
    #[arg(short = 't', long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
}

/// Find removed files, and copy them out or give them back in place
#[derive(Debug, Args)]
#[command(after_help = "\
Stop writing to the volume first: unmount it, or work on a copy. Every file that is written may take
the blocks of a removed one. Nothing is written to TARGET without --in-place.

Removing a file frees its inode and its blocks, and leaves most of their bytes. The journal has the
inodes as they were, freed inodes keep their extents, and directories keep the names of removed
entries. Free space is read for inodes that were freed by the chunk; --quick leaves that out.

Each line is confidence, inode, type, size, time of removal and path. The confidence is one of
  good     inode, extents and size are known, and all blocks are still free
  partial  some blocks are in use by others (they become holes in a copy, and are listed), or the
           size is only known as the end of the last extent (printed with <=)
  name     only the name is left
A path in parentheses is a name whose directory is not known. The same inode may have had several
files, one after the other. Good means that nothing contradicts the content; look at it before you
rely on it.

PATTERN selects files by name, or by path from the root directory if it has a slash: *, ?, [a-z].
In a path, * matches slashes too.

--to copies what is listed, under its path, into a directory that must not be on the volume. Nothing
that exists is replaced, and a file that cannot be copied whole leaves no part of it. Content on a
realtime device is copied from --rtdev.

--in-place gives good files back on TARGET itself, which must not be mounted: each in one
transaction, with the blocks that it had, and its old number, owner, permissions, times and extended
attributes. It gets all of its old names; if their directories are gone or the names are taken, the
name lost+found/inode-N-NAME.
Removed directories come before what was in them. The search ends before anything is written.
--dry-run prints the new paths, and writes nothing.

The exit code is 1 if nothing is selected, or if something is not copied whole or not given back.

Examples:
  xfskit undelete disk.img
  xfskit undelete disk.img '*.jpg' --to rescued
  xfskit undelete disk.img '/home/ann/*' --good --to rescued
  xfskit undelete disk.img '/home/ann/*' --in-place --dry-run
  xfskit undelete disk.img '/home/ann/*' --in-place
  xfskit undelete --json disk.img | jq -r 'select(.confidence==\"good\").path'")]
pub(crate) struct Undelete {
    #[command(flatten)]
    pub target: Target,
    /// Only files whose name, or path, matches
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,
    /// Copy the files into this directory; made if missing
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Give the files back on the target itself: only those of which everything is known and
    /// nothing is lost
    #[arg(long, conflicts_with_all = ["to", "norecovery"])]
    pub in_place: bool,
    /// With --in-place: print where each file would be, and write nothing
    #[arg(short = 'n', long, requires = "in_place")]
    pub dry_run: bool,
    /// The realtime device, from which the content of files there is copied
    #[arg(long, value_name = "DEVICE", requires = "to")]
    pub rtdev: Option<String>,
    /// Only files of which everything is known and nothing is lost
    #[arg(long)]
    pub good: bool,
    /// Do not read free space
    #[arg(long)]
    pub quick: bool,
}

impl Undelete {
    /// Returns true if the command writes to its target.
    pub(crate) fn writes(&self) -> bool {
        self.in_place && !self.dry_run
    }
}
