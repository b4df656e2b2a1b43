//! Commands that look below the files: at structures, the journal, and whether all is well.

use clap::Args;

use super::Target;

/// Print any structure, decoded with xfs_db's field names
#[derive(Debug, Args)]
#[command(after_help = "\
Structures:
  sb AG  agf AG  agi AG  agfl AG            headers of an allocation group
  bnobt AG  cntbt AG  inobt AG  finobt AG  rmapbt AG  refcountbt AG
                                            a group's btrees
  inode INO  dir INO  attr INO  bmap INO    an inode, its entries, its attributes, its extents
  block DADDR                               whatever stands there (0x… for hexadecimal)

Examples:
  xfskit inspect disk.img sb 0
  xfskit inspect disk.img agf 3
  xfskit inspect disk.img inode 131
  xfskit inspect --json disk.img dir 128
  xfskit inspect disk.img block 0x40")]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub target: Target,
    /// Which structure
    #[arg(value_name = "STRUCTURE")]
    pub structure: String,
    /// Which one of its kind
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true)]
    pub arguments: Vec<String>,
}

/// Print the journal, every item decoded
#[derive(Debug, Args)]
#[command(after_help = "\
The journal is read as it is on the device; nothing is replayed.

Examples:
  xfskit log disk.img            what xfs_logprint -t tells: head, tail, transactions, items
  xfskit log --json disk.img")]
pub(crate) struct Log {
    #[command(flatten)]
    pub target: Target,
}

/// Judge a volume: every checksum, every structure, every cross-reference. Reads only
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 0: clean. 1: corrupt; each finding says where, what was expected, what was found, and
carries a stable id such as [agf.flcount]. 2: could not run.

Examples:
  xfskit check disk.img
  xfskit check --json disk.img | jq -r .check
  xfskit check --logdev log.img disk.img")]
pub(crate) struct Check {
    #[command(flatten)]
    pub target: Target,
    /// Threads; 0 is one per processor
    #[arg(short = 't', long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
}
