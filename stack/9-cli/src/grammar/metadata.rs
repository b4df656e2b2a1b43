//! Commands on metadata: its structures, the journal, and the check.

use clap::{Args, ValueEnum};

use super::{Target, change};

/// Print any structure, decoded with xfs_db's field names
#[derive(Debug, Args)]
#[command(after_help = "\
Structures:
  sb AG  agf AG  agi AG  agfl AG            headers of an allocation group
  bnobt AG  cntbt AG  inobt AG  finobt AG  rmapbt AG  refcountbt AG
                                            a group's btrees
  inode INO  dir INO  attr INO              an inode, the blocks of a directory, of its attributes
  block FSBLOCK  block AG/AGBNO             a filesystem block, decoded by its magic
  daddr SECTOR                              the structure at a 512-byte address
Numbers are decimal, or hexadecimal with 0x. `bnobt AG AGBNO` is another block of a btree than the
root. Damaged structures are printed as they are, with their CRC marked.

Examples:
  xfskit inspect disk.img sb 0
  xfskit inspect disk.img agf 3
  xfskit inspect disk.img inode 131
  xfskit inspect --json disk.img dir 128
  xfskit inspect disk.img daddr 0x40")]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub target: Target,
    /// The kind of structure
    #[arg(value_name = "STRUCTURE")]
    pub structure: String,
    /// Its number
    #[arg(value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

/// Print the journal, every item decoded
#[derive(Debug, Args)]
#[command(after_help = "\
The journal is printed as it is on the device; nothing is replayed. With --json the output is one
document.

Examples:
  xfskit log disk.img                  what waits for replay: transactions and their items
  xfskit log --all disk.img            also what was replayed or written back before
  xfskit log --show records disk.img   the ring, a line per record")]
pub(crate) struct Log {
    #[command(flatten)]
    pub target: Target,
    /// The view
    #[arg(long, value_enum, value_name = "VIEW", default_value_t = View::Transactions)]
    pub show: View,
    /// Print everything on this lap of the ring, not only from tail to head
    #[arg(short, long)]
    pub all: bool,
    /// Print the bytes of changed buffers as well
    #[arg(short, long)]
    pub data: bool,
}

/// A view of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// One line for each record
    Records,
    /// The operations of each record
    Operations,
    /// Committed transactions, every item decoded
    Transactions,
}

/// Replay and finish the journal after a crash, as opening the volume for writing does
#[derive(Debug, Args)]
#[command(after_help = "\
Writes the changes in the journal to their places, finishes changes that were begun, frees deleted
files that were still open, and marks the journal clean. Does nothing if the journal is clean.
`xfskit log` prints what waits for replay.

Examples:
  xfskit recover disk.img
  xfskit recover --dry-run disk.img    print what would be done; nothing is written
  xfskit recover --logdev log.img disk.img")]
pub(crate) struct Recover {
    #[command(flatten)]
    pub target: change::Target,
    /// Replay in memory only, and print what would be written
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Check a volume: every checksum, every structure, every cross-reference
///
/// Only reads, unless --repair is given. On an array with redundancy, a block that fails
/// verification is read from the other members, and the finding says so. --scrub also compares all
/// data of the members. Where they disagree, checksums show which copy of metadata is right;
/// contents of files have no checksums, so the files are named. With the directory of a mount by
/// xfskit, the volume is checked while it is in use, as it was when the command began.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 0: clean. 1: corrupt. 2: the check could not run. Each finding has the location, the
expected value, the value found, and a stable id such as [agf.flcount].

Examples:
  xfskit check disk.img
  xfskit check /mnt                    a volume that xfskit has mounted, in use
  xfskit check --all disk.img          print each finding, however often one repeats
  xfskit check --json disk.img | jq -r .check
  xfskit check --logdev log.img disk.img
  xfskit check --scrub md:a.img,b.img,c.img            also compare the members
  xfskit check --scrub --repair md:a.img,b.img,c.img   and rewrite the members known to be wrong")]
pub(crate) struct Check {
    #[command(flatten)]
    pub target: Target,
    /// Number of threads; 0 is one per processor
    #[arg(short = 't', long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// Print each finding, not only the first of those that repeat; --json has them all
    #[arg(short, long)]
    pub all: bool,
    /// Compare all data of the members of an array; on other devices, every copy of each block
    #[arg(long)]
    pub scrub: bool,
    /// Rewrite the members that checksums or parity show to be wrong; replays the journal first
    #[arg(long, requires = "scrub", conflicts_with = "norecovery")]
    pub repair: bool,
}
