//! `xfskit recover`: replays and finishes a journal.

use std::fmt::Write as _;

use serde::Serialize;
use xfskit::{Replay, Volume};

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
    torn: Option<String>,
}

impl Report {
    fn new(replay: &Replay, damaged_orphans: Vec<String>, written: bool) -> Self {
        let items = &replay.items;
        let unfinished = replay.unfinished.iter();
        let names = unfinished.map(|i| format!("{} {:#x}", i.family.intent_name(), i.id));
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
            left_unfinished: names.collect(),
            unlinked_lists: replay.unlinked_lists,
            damaged_orphans,
            torn: replay.torn.as_ref().map(|torn| torn.corruption.to_string()),
        }
    }

    /// Returns the inodes that stay on the unlinked lists.
    fn kept(&self) -> String {
        self.damaged_orphans.iter().fold(String::new(), |mut text, orphan| {
            let _ = writeln!(text, "{:12} {orphan}; it keeps its space until repaired", "damaged");
            text
        })
    }

    fn text(&self) -> String {
        let mut text = self.kept();
        if self.clean {
            return text + "The journal is clean: nothing to recover.\n";
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
        text + if self.written { "The journal is clean.\n" } else { "Nothing was written.\n" }
    }
}

/// `xfskit recover`
pub(crate) fn run(args: &Recover, out: &Out) -> Outcome {
    let volume = if args.dry_run {
        open::volume_quietly(&args.target.to_read(), out)?
    } else {
        open::volume_to_change(&args.target, out)?
    };
    let orphans = volume.damaged_orphans();
    let orphans: Vec<_> = orphans.iter().map(ToString::to_string).collect();
    let status = if orphans.is_empty() { ExitStatus::Success } else { ExitStatus::Problem };
    let report = report(&volume, orphans, !args.dry_run)?;
    if !args.dry_run {
        let name = &*args.target.name;
        volume.close().map_err(|error| Failure::cannot(about(name, &error)))?;
    }
    out.result(&report, Report::text)?;
    Ok(status)
}

fn report(volume: &Volume, orphans: Vec<String>, written: bool) -> Result<Report, Failure> {
    let replay = volume.replay();
    let missing = || Failure::cannot("the end of the volume is missing, its journal with it");
    Ok(Report::new(replay.ok_or_else(missing)?, orphans, written))
}
