//! `repair` and `undo`.

use std::path::PathBuf;

use clap::Args;
use xfskit::AcceptLoss;

use super::name::Name;
use crate::show::parse_size;

/// Repair a volume: plan first, then write, and keep what is overwritten
///
/// The journal is replayed, and the repair is made in memory, without a write to the target. The
/// plan is printed: what is done, on which evidence, and what is lost. It is written only if a
/// second check finds the volume clean, and every file that could be reached with the same extents,
/// but those that the plan names.
#[derive(Debug, Args)]
#[command(after_help = "\
Superblocks, headers, free lists and btrees of groups, and all counters are made again from what the
files use; inodes, extent maps, directories and attributes from what can be read of them. An inode
that no directory names gets its name back from its parent pointer, or one in lost+found. Where a
file or a part of it is lost, the plan says so, and is written only with --accept-loss. Other damage
is named, and nothing is written then: `xfskit get` copies out what can be read.

Volumes of version 4, with a realtime device, metadata directories or an external log are not
repaired yet: --dry-run prints what they need, and a repair is refused.

A damaged journal is replayed up to its first damaged record. What follows is never replayed; the
plan says what is lost with it, and is written only with --zero-log (xfs_repair: -L). A journal that
is whole is replayed with --zero-log, too.

Before the first write all that is overwritten goes to an undo file, beside an image (IMAGE.undo)
unless --undo-file names another; `xfskit undo` takes the repair back. Linux refuses the volume
until the last write (needsrepair); after a crash, run the same command again. Ctrl-C ends the
repair before its first write, and nothing is left behind; once it writes, it goes on to the end.

--salvage repairs nothing, and only reads the target: every file that can be read goes to a new
directory, files that no directory names any more to its lost+found. The report names what is
damaged, and the missing bytes of each file, which are zeroes in the copy.

Exit code 0: clean, or repaired. 1: damage remains, or losses are not accepted. 2: the repair could
not run, and nothing was written. With --salvage, 0: all was read. 1: something is damaged, or
missing.

Examples:
  xfskit repair --dry-run disk.img               print the plan
  xfskit repair disk.img
  xfskit repair --accept-loss 3 disk.img         write a plan with at most three losses
  xfskit repair --zero-log --accept-loss all disk.img   discard the rest of a damaged journal
  xfskit repair --undo-file /srv/sdb1.undo /dev/sdb1
  xfskit repair --explain group.3 disk.img       the findings that a step of the plan repairs
  xfskit repair --json disk.img | jq -r .plan.steps[].id
  xfskit repair --salvage saved disk.img         copy out what can be read
  xfskit repair --salvage - disk.img >saved.tar
  xfskit undo disk.img.undo disk.img             take it back")]
pub(crate) struct Repair {
    #[command(flatten)]
    pub target: Name,
    /// Print the plan, and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print the findings that this step of the plan repairs, and write nothing
    #[arg(long, value_name = "ID")]
    pub explain: Option<String>,
    /// Keep what is overwritten in this file, which must not exist
    #[arg(long, value_name = "FILE")]
    pub undo_file: Option<PathBuf>,
    /// Keep nothing: the repair cannot be taken back
    #[arg(long, conflicts_with = "undo_file")]
    pub no_undo: bool,
    /// Write the plan though it loses so many files or parts of them: none, a number, or all
    #[arg(long, value_name = "N", default_value = "none", value_parser = accept_loss)]
    pub accept_loss: AcceptLoss,
    /// Discard the records of a damaged journal behind the damage, after those before are replayed
    #[arg(long)]
    pub zero_log: bool,
    /// Repair nothing: copy all that can be read to this new directory, or with `-` as a tar to
    /// standard output, and report what is damaged
    #[arg(long, value_name = "DEST",
        conflicts_with_all = ["dry_run", "explain", "undo_file", "no_undo", "accept_loss", "zero_log", "memory"])]
    pub salvage: Option<PathBuf>,
    /// Number of threads; 0 is one per processor
    #[arg(short = 't', long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// Memory for extents and changes; more go to a temporary file [default: a quarter of the
    /// machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
}

fn accept_loss(text: &str) -> Result<AcceptLoss, String> {
    match text {
        "none" => Ok(AcceptLoss::NONE),
        "all" => Ok(AcceptLoss::ALL),
        _ => text.parse().map(AcceptLoss).map_err(|_| "none, a number, or all".to_owned()),
    }
}

/// Take a repair back
///
/// Nothing is written unless each range has what the repair wrote or found there: later changes are
/// not destroyed.
#[derive(Debug, Args)]
#[command(after_help = "\
The file belongs to one volume, and has checksums. A repair that was interrupted can be taken back
as well.

Examples:
  xfskit undo disk.img.undo disk.img")]
pub(crate) struct Undo {
    /// The undo file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub target: Name,
}
