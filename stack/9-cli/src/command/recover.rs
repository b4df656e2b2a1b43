//! `xfskit recover`: replays and finishes a journal.

use std::fmt::Write as _;

use serde::Serialize;
use xfskit::{Orphan, Replay, Volume};

use super::open::{self, about};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::metadata::Recover;
use crate::out::Out;

/// The contents of the journal, and the changes made or, with `--dry-run`, to be made.
#[derive(Debug, Serialize)]
struct Report {
    clean: bool,
    written: bool,
    tail: String,
    head: String,
    records: u64,
    transactions: u64,
    buffers: u64,
    inodes: u64,
    inode_chunks: u64,
    already_in_place: u64,
    freed_later: u64,
    quota_records: u64,
    finished: u64,
    left_unfinished: Vec<String>,
    unlinked_lists: u64,
    damaged_orphans: Vec<String>,
    /// Deleted files for which the journal stays dirty.
    left_dirty: Vec<String>,
    torn: Option<String>,
}

impl Report {
    fn new(replay: &Replay, damaged: &[Orphan], left: &[Orphan], written: bool) -> Self {
        let names = |orphans: &[Orphan]| orphans.iter().map(Orphan::to_string).collect();
        let items = &replay.items;
        let unfinished = replay.unfinished.iter();
        let intents = unfinished.map(|i| format!("{} {:#x}", i.family.intent_name(), i.id));
        Self {
            clean: replay.clean,
            written: written && !replay.clean,
            tail: replay.tail.to_string(),
            head: replay.head.to_string(),
            records: replay.records,
            transactions: replay.transactions,
            buffers: items.buffers,
            inodes: items.inodes,
            inode_chunks: items.chunks,
            already_in_place: items.in_place,
            freed_later: items.cancelled,
            quota_records: items.quota,
            finished: replay.finished,
            left_unfinished: intents.collect(),
            unlinked_lists: replay.unlinked_lists,
            damaged_orphans: names(damaged),
            left_dirty: names(left),
            torn: replay.torn.as_ref().map(|torn| torn.corruption.to_string()),
        }
    }

    /// Returns the inodes that stay on the unlinked lists.
    fn kept(&self) -> String {
        let mut text = String::new();
        for orphan in &self.damaged_orphans {
            let _ = writeln!(text, "{:12} {orphan}; it keeps its space until repaired", "damaged");
        }
        for orphan in &self.left_dirty {
            let _ = writeln!(text, "{:12} {orphan}", "not freed");
        }
        text
    }

    fn text(&self) -> String {
        let mut text = self.kept();
        if self.clean {
            return text + self.last_line("The journal is clean: nothing to recover.\n");
        }
        let mut row = |name: &str, value: String| {
            let _ = writeln!(text, "{name:12} {value}");
        };
        row("journal", format!("{} transactions in {} records", self.transactions, self.records));
        row(
            "put in place",
            format!(
                "{} buffers, {} inodes, {} inode chunks",
                self.buffers, self.inodes, self.inode_chunks
            ),
        );
        row(
            "passed over",
            format!(
                "{} in place already, {} freed later, {} of quota",
                self.already_in_place, self.freed_later, self.quota_records
            ),
        );
        row("finished", format!("{} changes that were begun", self.finished));
        row("unlinked", format!("{} lists of deleted files that were open", self.unlinked_lists));
        for intent in &self.left_unfinished {
            row("unfinished", format!("{intent}, which this version cannot finish"));
        }
        if let Some(fault) = &self.torn {
            row("cut off", format!("a record not written to its end: {fault}"));
        }
        let last = if self.written {
            self.last_line("The journal is clean.\n")
        } else {
            "Nothing was written.\n"
        };
        text + last
    }

    /// Returns `clean` if the journal is clean now.
    fn last_line(&self, clean: &'static str) -> &'static str {
        if self.left_dirty.is_empty() {
            clean
        } else {
            "The journal stays dirty: the next opening for writing tries again.\n"
        }
    }
}

/// `xfskit recover`: replays and finishes the journal, as opening the volume for writing does.
pub(crate) fn run(args: &Recover, out: &Out) -> Outcome {
    let volume = if args.dry_run {
        let volume = open::volume_quietly(&args.target.to_read(), out)?;
        open::note_superblock(&volume, &args.target.name, out);
        volume
    } else {
        open::volume_to_change(&args.target, out)?
    };
    let damaged = volume.damaged_orphans();
    let missing = || Failure::cannot("the end of the volume is missing, its journal with it");
    let replay = volume.replay().cloned().ok_or_else(missing)?;
    let left = if args.dry_run { Vec::new() } else { closed(volume, &args.target.name)? };
    out.result(&Report::new(&replay, &damaged, &left, !args.dry_run), Report::text)?;
    Ok(ExitStatus::of(damaged.is_empty() && left.is_empty()))
}

/// Closes the volume. Returns the deleted files for which its journal stays dirty.
fn closed(volume: Volume, name: &str) -> Result<Vec<Orphan>, Failure> {
    let closed = volume.close().map_err(|error| Failure::cannot(about(name, &error)))?;
    Ok(closed.orphans_left)
}
