//! Commands that look below the files: at structures, the journal, and whether all is well.

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
  block FSBLOCK  block AG/AGBNO             whatever stands in a filesystem block
  daddr SECTOR                              whatever stands at a 512-byte address
Numbers are decimal, or hexadecimal with 0x. A btree's other blocks: bnobt AG AGBNO. Damaged
structures are shown as they are, their CRC marked.

Examples:
  xfskit inspect disk.img sb 0
  xfskit inspect disk.img agf 3
  xfskit inspect disk.img inode 131
  xfskit inspect --json disk.img dir 128
  xfskit inspect disk.img daddr 0x40")]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub target: Target,
    /// Which structure
    #[arg(value_name = "STRUCTURE")]
    pub structure: String,
    /// Which one of its kind
    #[arg(value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

/// Print the journal, every item decoded
#[derive(Debug, Args)]
#[command(after_help = "\
The journal is read as it is on the device; nothing is replayed. With --json it is one document.

Examples:
  xfskit log disk.img                  what waits for replay: transactions and their items
  xfskit log --all disk.img            what was replayed or written back before, too
  xfskit log --show records disk.img   the ring, a line per record")]
pub(crate) struct Log {
    #[command(flatten)]
    pub target: Target,
    /// How to look at it
    #[arg(long, value_enum, value_name = "VIEW", default_value_t = View::Transactions)]
    pub show: View,
    /// Everything on this lap of the ring, not only what is between tail and head
    #[arg(short, long)]
    pub all: bool,
    /// The bytes of changed buffers as well
    #[arg(short, long)]
    pub data: bool,
}

/// How to look at the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// One line for each record
    Records,
    /// The operations of each record
    Operations,
    /// Committed transactions, every item decoded
    Transactions,
}

/// Bring a journal to its end: after a crash, as opening the volume for any change does
#[derive(Debug, Args)]
#[command(after_help = "\
What the journal has and the volume has not is put in place, changes that were begun are finished,
deleted files that were still open are given back, and the journal is marked clean. A clean one is
left alone. `xfskit log` shows what waits there.

Examples:
  xfskit recover disk.img
  xfskit recover --dry-run disk.img    what would be done; nothing is written
  xfskit recover --logdev log.img disk.img")]
pub(crate) struct Recover {
    #[command(flatten)]
    pub target: change::Target,
    /// Do it in memory, and say what was done
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Judge a volume: every checksum, every structure, every cross-reference
///
/// Reads only, unless --repair is given. On an array of redundancy a block that fails is had from
/// the other members, and the finding says so. --scrub compares all that the members hold, too, and
/// tells what lies where they do not agree: metadata has checksums to tell who lied, content of
/// files has none.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 0: clean. 1: corrupt; each finding says where, what was expected, what was found, and
carries a stable id such as [agf.flcount]. 2: could not run.

Examples:
  xfskit check disk.img
  xfskit check --all disk.img          each finding, however often one repeats
  xfskit check --json disk.img | jq -r .check
  xfskit check --logdev log.img disk.img
  xfskit check --scrub md:a.img,b.img,c.img            compare members, too
  xfskit check --scrub --repair md:a.img,b.img,c.img   and rewrite what lied, where that is known")]
pub(crate) struct Check {
    #[command(flatten)]
    pub target: Target,
    /// Threads; 0 is one per processor
    #[arg(short = 't', long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// Each finding, not only the first of those that repeat; --json has them all
    #[arg(short, long)]
    pub all: bool,
    /// Compare all that the members of an array hold; every other copy of each block, elsewhere
    #[arg(long)]
    pub scrub: bool,
    /// Rewrite the members that are wrong, where checksums or parity tell which; replays the
    /// journal first
    #[arg(long, requires = "scrub", conflicts_with = "norecovery")]
    pub repair: bool,
}
