//! Floor 5: judge a volume, without changing a byte of it.
//!
//! [`check`] reads everything the format knows and compares what the volume says of itself in one
//! place with what it says in another. It stands on `1-format` alone: the judge must not trust the
//! machinery it judges. A [`Finding`] carries a stable id, where, what was expected and what was
//! found.
//!
//! | phase | module | what is judged |
//! | --- | --- | --- |
//! | 1 | `superblocks` | the primary superblock, its copies, the journal's state |
//! | 2 | `groups`, `btree`, `freespace`, `chunks` | AG headers, free-space and inode btrees |
#![warn(clippy::unwrap_used)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod btree;
mod census;
mod chunks;
mod finding;
mod forks;
mod freespace;
mod groups;
mod inodes;
mod parallel;
mod refcounts;
mod report;
mod rmaps;
mod space;
mod superblocks;
mod table;
mod volume;

use std::time::Instant;

use xfskit_block::BlockDevice;
use xfskit_format::sb::SbError;
use xfskit_units::AgNumber;

pub use finding::{Finding, Severity};
pub use report::{Phase, PhaseReport, Progress, Report, Silent};

use finding::Sink;
use volume::Volume;

/// How to check.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Threads to use; at least 1.
    pub threads: usize,
    /// Also read and compare every other copy that the device has of each block.
    pub scrub: bool,
    /// Who is told how far the check has come.
    pub progress: &'a dyn Progress,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { threads: 1, scrub: false, progress: &Silent }
    }
}

/// Why a volume could not be judged at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed before there was a superblock.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// No superblock that can be used.
    #[error(transparent)]
    Superblock(#[from] SbError),
    /// The device is too small for a superblock.
    #[error("the device is too small to hold a volume")]
    TooSmall,
}

/// Judges the volume on `dev`; each finding goes to `findings` as soon as it is made.
///
/// # Errors
/// [`Error`] where there is nothing to judge; a damaged volume is an `Ok` that is not
/// [clean](Report::clean).
pub fn check(
    dev: &dyn BlockDevice,
    _log_dev: Option<&dyn BlockDevice>,
    options: &Options<'_>,
    findings: &mut (dyn FnMut(Finding) + Send),
) -> Result<Report, Error> {
    let primary = superblocks::find(dev)?;
    let mut vol = Volume {
        dev,
        geo: primary.sb.geometry(),
        log_head: None,
        log_clean: true,
        scrub: options.scrub,
        sink: Sink::new(findings),
    };
    vol.log_clean = true;
    let mut clock = Clock { started: Instant::now(), before: 0, phases: Vec::new() };
    for fault in primary.faults {
        vol.sink.report(Severity::Error, fault);
    }
    superblocks::judge_primary(&vol, &primary.sb);
    clock.lap(&vol, Phase::Superblocks);

    let agcount = vol.geo.agcount as usize;
    let done = std::sync::atomic::AtomicU64::new(0);
    let mut groups: Vec<(usize, groups::Group)> =
        parallel::for_each(options.threads, agcount, Vec::new, |own: &mut Vec<_>, index| {
            let agno = AgNumber(u32::try_from(index).unwrap_or(u32::MAX));
            if index > 0 {
                superblocks::judge_secondary(&vol, &primary.sb, agno);
            }
            own.push((index, groups::judge(&vol, agno)));
            let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            options.progress.report(Phase::Groups, done, agcount as u64);
        })
        .into_iter()
        .flatten()
        .collect();
    groups.sort_unstable_by_key(|(index, _)| *index);
    let mut groups: Vec<groups::Group> = groups.into_iter().map(|(_, group)| group).collect();
    clock.lap(&vol, Phase::Groups);
    let table = table::InodeTable::new(&vol.geo, &mut groups);
    let forks_known = std::sync::atomic::AtomicBool::new(groups.iter().all(|g| g.chunks.complete));
    let shared =
        inodes::Inodes { vol: &vol, groups: &groups, table: &table, forks_known: &forks_known };
    let (_directories, counts) = inodes::judge(&shared, options.threads, options.progress);
    clock.lap(&vol, Phase::Inodes);
    let known = forks_known.load(std::sync::atomic::Ordering::Relaxed);
    let totals: Vec<space::Totals> =
        parallel::for_each(options.threads, agcount, Vec::new, |own: &mut Vec<_>, index| {
            let agno = AgNumber(u32::try_from(index).unwrap_or(u32::MAX));
            own.push(space::judge(&vol, agno, &groups[index], known));
        })
        .into_iter()
        .flatten()
        .collect();
    clock.lap(&vol, Phase::Space);
    Ok(Report {
        warnings: vol.sink.count(Severity::Warning),
        errors: vol.sink.count(Severity::Error),
        fatals: vol.sink.count(Severity::Fatal),
        phases: clock.phases,
        log_clean: vol.log_clean,
        inodes: counts.used,
        inodes_free: counts.free,
        blocks_free: totals.iter().map(|t| t.free).sum(),
        blocks_shared: totals.iter().map(|t| t.shared).sum(),
        extents: totals.iter().map(|t| t.extents).sum(),
        ..Report::default()
    })
}

/// Takes the time and the findings of each phase.
struct Clock {
    started: Instant,
    before: u64,
    phases: Vec<PhaseReport>,
}

impl Clock {
    fn lap(&mut self, vol: &Volume<'_>, phase: Phase) {
        let total = vol.sink.total();
        let findings = total - self.before;
        self.phases.push(PhaseReport { phase, findings, time: self.started.elapsed() });
        (self.started, self.before) = (Instant::now(), total);
    }
}
