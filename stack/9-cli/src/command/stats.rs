//! `xfskit stats`, and `--stats` of commands that change a volume: figures of the volume, and
//! counters of this process, similar to those of Linux in /sys/fs/xfs/DEVICE/stats.

use std::borrow::Cow;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use xfskit::{Group, LockStats, Stats, Volume};

use super::df::Usage;
use crate::exit::{Failure, Outcome};
use crate::grammar::read;
use crate::out::Out;
use crate::show;

/// The result of `xfskit stats`.
#[derive(Debug, Serialize)]
struct StatsReport {
    volume: Usage,
    groups: Vec<Group>,
    counters: Counters,
}

/// The counters, for JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Counters {
    transactions: Transactions,
    log: Log,
    ail: Ail,
    buffers: Buffers,
    locks: Vec<Lock>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Transactions {
    changes: u64,
    committed: u64,
    empty: u64,
    undone: u64,
    items: u64,
    relogged: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Log {
    checkpoints: u64,
    records: u64,
    bytes: u64,
    writes: u64,
    flushes: u64,
    data_flushes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Ail {
    pushes: u64,
    items: u64,
    bytes: u64,
    flushes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Buffers {
    lookups: u64,
    hits: u64,
    misses: u64,
    bytes_read: u64,
    healed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Lock {
    name: Cow<'static, str>,
    taken: u64,
    waits: u64,
    wait_nanoseconds: u64,
}

impl From<&Stats> for Counters {
    fn from(stats: &Stats) -> Self {
        let (tx, log, ail, buf) = (stats.transactions, stats.log, stats.ail, stats.buffers);
        let lock = |&(name, LockStats { taken, waits, wait_nanos, .. }): &(_, LockStats)| Lock {
            name: Cow::Borrowed(name),
            taken,
            waits,
            wait_nanoseconds: wait_nanos,
        };
        Self {
            transactions: Transactions {
                changes: tx.changes,
                committed: tx.committed,
                empty: tx.empty,
                undone: tx.undone,
                items: tx.items,
                relogged: tx.relogged,
            },
            log: Log {
                checkpoints: log.checkpoints,
                records: log.records,
                bytes: log.bytes,
                writes: log.writes,
                flushes: log.flushes,
                data_flushes: log.data_flushes,
            },
            ail: Ail {
                pushes: ail.pushes,
                items: ail.items,
                bytes: ail.bytes,
                flushes: ail.flushes,
            },
            buffers: Buffers {
                lookups: buf.lookups,
                hits: buf.hits,
                misses: buf.lookups.saturating_sub(buf.hits),
                bytes_read: buf.bytes_read,
                healed: buf.healed,
            },
            locks: stats.locks.iter().map(lock).collect(),
        }
    }
}

impl Counters {
    /// Returns the counters of a volume.
    pub(crate) fn of(volume: &Volume) -> Self {
        Self::from(&volume.stats())
    }

    /// Returns them as lines for people.
    pub(crate) fn text(&self) -> String {
        let Self { transactions: tx, log, ail, buffers, locks } = self;
        let mut text = format!(
            "transactions  {} changes in {} committed, {} empty, {} undone; {} items listed, {} relogged\n\
             journal       {} checkpoints, {} records, {}; {} writes with FUA, {} flushes, {} of the data device\n\
             write-back    {} pushes, {} items, {}, {} flushes\n\
             buffers       {} look-ups, {} hits, {} misses, {} read, {} healed\n",
            tx.changes,
            tx.committed,
            tx.empty,
            tx.undone,
            tx.items,
            tx.relogged,
            log.checkpoints,
            log.records,
            show::human(log.bytes),
            log.writes,
            log.flushes,
            log.data_flushes,
            ail.pushes,
            ail.items,
            show::human(ail.bytes),
            ail.flushes,
            buffers.lookups,
            buffers.hits,
            buffers.misses,
            show::human(buffers.bytes_read),
            buffers.healed,
        );
        if !locks.is_empty() {
            let _ = writeln!(
                text,
                "{:<14}{:>12} {:>10} {:>12}",
                "lock", "taken", "waits", "waited, µs"
            );
        }
        for lock in locks {
            let (name, waited) = (&lock.name, lock.wait_nanoseconds / 1000);
            let _ = writeln!(text, "{name:<14}{:>12} {:>10} {waited:>12}", lock.taken, lock.waits);
        }
        text
    }
}

/// `xfskit stats`: prints figures of the volume, and counters of the work of this process.
pub(super) fn run(volume: &Volume, _: &read::Stats, out: &Out) -> Outcome {
    let groups = volume.groups().map_err(|error| super::open::failure(&error))?;
    let counters = Counters::of(volume);
    out.result(&StatsReport { volume: Usage::of(volume)?, groups, counters }, text)?;
    Ok(out.status())
}

/// Prints the counters of a command that changed a volume.
pub(super) fn counted(stats: &Stats, out: &Out) -> Result<(), Failure> {
    out.result(&serde_json::json!({ "stats": Counters::from(stats) }), |_| {
        Counters::from(stats).text()
    })
}

fn text(report: &StatsReport) -> String {
    let StatsReport { volume, groups, counters } = report;
    let (free, size) = (show::human(volume.free), show::human(volume.size));
    let mut text = format!(
        "{free} of {size} free; {} of {} inodes in use\n{:>6} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
        volume.inodes_used, volume.inodes, "group", "blocks", "free", "longest", "inodes", "free"
    );
    for group in groups {
        let Group { agno, blocks, free, longest_free, inodes, inodes_free, .. } = group;
        let _ = writeln!(
            text,
            "{agno:>6} {blocks:>12} {free:>12} {longest_free:>12} {inodes:>12} {inodes_free:>12}"
        );
    }
    text + &counters.text()
}
