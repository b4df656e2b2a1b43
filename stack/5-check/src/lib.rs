//! Floor 5: judge a volume, without changing a byte of it (but for [`Options::mend`]).
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
//! | 3 | `inodes`, `forks`, `attrs`, `symlinks` | every inode, its extent maps, its attributes |
//! | 4 | `dirs`, `datree`, `names` | every directory: names, hashes, free space, what entries lead to |
//! | 5 | `space`, `census`, `rmaps`, `refcounts` | each block has one use; the btrees that record uses |
//! | 6 | `tree`, `parents`, `unlinked`, `special` | links, the shape of the tree, parent pointers, counters, quota |
//!
//! Groups, pieces of inodes, and directories are shared out among threads. What phases hand on is
//! kept in flat arrays: 9 bytes per inode and 24 bytes per extent.
#![warn(clippy::unwrap_used)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod attrs;
mod btree;
mod census;
mod chunks;
mod datree;
mod dirs;
mod finding;
mod forks;
mod freespace;
mod groups;
mod inodes;
mod journal;
mod names;
mod parallel;
mod parents;
mod refcounts;
mod report;
mod rmaps;
mod space;
mod special;
mod superblocks;
mod suspects;
mod symlinks;
mod table;
mod tree;
mod unlinked;
mod volume;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use xfskit_block::BlockDevice;
use xfskit_format::Corruption;
use xfskit_format::sb::{SbError, Superblock};
use xfskit_units::{AgNumber, index};

pub use finding::{Finding, Healing, Severity};
pub use report::{Phase, PhaseReport, Progress, Report, Silent};
pub use suspects::{InFile, Suspects};

use finding::Sink;
use groups::Group;
use inodes::Inodes;
use table::InodeTable;
use volume::{Sound, Volume};

/// Threads that read inodes, for each thread that was asked for: most of them wait for the device.
const READERS: usize = 3;

/// How to check.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Threads to use; at least 1.
    pub threads: usize,
    /// Also read and compare every other copy that the device has of each block.
    pub scrub: bool,
    /// Have the device rewrite what was bad and is sound in another way; not before the journal was
    /// replayed. All else is only read.
    pub mend: bool,
    /// The corruption of the primary superblock, if the device shows one that was made from a
    /// secondary.
    pub primary: Option<&'a Corruption>,
    /// Places of the device of which the caller wants to know who uses them.
    pub suspects: Option<&'a Suspects>,
    /// Receives the progress of the check.
    pub progress: &'a dyn Progress,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            scrub: false,
            mend: false,
            primary: None,
            suspects: None,
            progress: &Silent,
        }
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

/// Judges the volume on `dev`, whose journal lies on `log_dev` if it is external; each finding goes
/// to `findings` as soon as it is made.
///
/// # Errors
/// [`Error`] where there is nothing to judge; a damaged volume is an `Ok` that is not
/// [clean](Report::clean).
pub fn check(
    dev: &dyn BlockDevice,
    log_dev: Option<&dyn BlockDevice>,
    options: &Options<'_>,
    findings: &mut (dyn FnMut(Finding) + Send),
) -> Result<Report, Error> {
    let primary = superblocks::find(dev, options.mend)?;
    let sound = Sound::default();
    let mut vol = Volume {
        dev,
        geo: primary.sb.geometry(),
        log_head: None,
        log_clean: true,
        scrub: options.scrub,
        mend: options.mend,
        sound: &sound,
        suspects: options.suspects,
        sink: Sink::new(findings),
    };
    let mut clock = Clock::start();
    for (fault, healed) in primary.faults {
        match healed {
            Some(healing) => vol.sink.report_healed(fault, healing),
            None => vol.sink.report(Severity::Error, fault),
        }
    }
    if let Some(fault) = options.primary {
        vol.sink.report(Severity::Error, Box::new(fault.clone()));
    }
    if let Some((sector, fault)) = &primary.refused {
        superblocks::report_refused(&vol, AgNumber(0), &primary.sb, sector, fault);
    }
    let journal = journal::judge(&vol, log_dev);
    (vol.log_head, vol.log_clean) = (journal.head, journal.clean);
    superblocks::judge_primary(&vol, &primary.sb);
    clock.lap(&vol, Phase::Superblocks);
    let groups = judge_groups(&vol, &primary.sb, options);
    clock.lap(&vol, Phase::Groups);
    Ok(judge_files(&vol, groups, &primary.sb, options, clock))
}

/// Phase 2: all groups, in order.
fn judge_groups(vol: &Volume<'_>, primary: &Superblock, options: &Options<'_>) -> Vec<Group> {
    // Of a truncated volume the groups that are there at all.
    let there = vol.dev.size().0.div_ceil(u64::from(vol.geo.agblocks) << vol.geo.blocklog);
    let count = index(u64::from(vol.geo.agcount).min(there));
    let done = AtomicU64::new(0);
    let copies = Mutex::new(Vec::new());
    let judge = |own: &mut Vec<(usize, Group)>, place: usize| {
        let agno = ag_number(place);
        if place > 0
            && let Some(copy) = superblocks::judge_secondary(vol, primary, agno)
        {
            copies.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
        }
        own.push((place, groups::judge(vol, agno)));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        options.progress.report(Phase::Groups, done, count as u64);
    };
    let mut groups: Vec<_> =
        parallel::for_each(options.threads, count, Vec::new, judge).into_iter().flatten().collect();
    groups.sort_unstable_by_key(|(place, _)| *place);
    let mut copies = copies.into_inner().unwrap_or_else(PoisonError::into_inner);
    copies.sort_unstable_by_key(|(agno, _)| *agno);
    superblocks::report_differences(vol, &copies);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Phases 3 to 6, with what phase 2 found in `groups`.
fn judge_files(
    vol: &Volume<'_>,
    mut groups: Vec<Group>,
    primary: &Superblock,
    options: &Options<'_>,
    mut clock: Clock,
) -> Report {
    let table = InodeTable::new(&vol.geo, &mut groups);
    let known = groups.iter().all(|group| group.chunks.complete);
    let shared = Inodes {
        vol,
        quiet: &vol.quiet(),
        groups: &groups,
        table: &table,
        forks_known: &AtomicBool::new(known),
        attrs_known: &AtomicBool::new(known),
        attrs_found: &AtomicBool::new(false),
    };
    let (directories, counts) =
        inodes::judge(&shared, options.threads.saturating_mul(READERS), options.progress);
    clock.lap(vol, Phase::Inodes);

    let (dirs, entries) = dirs::judge(&shared, &directories, options.threads, options.progress);
    clock.lap(vol, Phase::Directories);

    let extents: usize = groups.iter().map(Group::claims).sum();
    let totals = judge_space(&shared, options);
    clock.lap(vol, Phase::Space);

    tree::judge_named(&shared, primary);
    special::judge(&shared, primary);
    unlinked::judge(&shared);
    tree::judge_shape(&shared, &dirs);
    tree::judge_links(&shared, &dirs);
    tree::judge_counters(&shared, primary, &totals);
    tree::judge_attr_bit(&shared, primary);
    clock.lap(vol, Phase::Tree);

    Report {
        warnings: vol.sink.count(Severity::Warning),
        errors: vol.sink.count(Severity::Error),
        fatals: vol.sink.count(Severity::Fatal),
        healed: vol.sink.healed(),
        phases: clock.phases,
        inodes: counts.used,
        inodes_free: counts.free,
        directories: directories.len() as u64,
        entries,
        blocks: vol.geo.dblocks.0,
        blocks_free: totals.iter().map(|total| total.free).sum(),
        blocks_shared: totals.iter().map(|total| total.shared).sum(),
        extents: totals.iter().map(|total| total.extents).sum(),
        log_clean: vol.log_clean,
        memory_peak: table.bytes() + (extents * size_of::<census::Used>()) as u64 + dirs.bytes(),
    }
}

/// Phase 5: the space of all groups.
fn judge_space(shared: &Inodes<'_, '_>, options: &Options<'_>) -> Vec<space::Totals> {
    let count = shared.groups.len();
    let forks_known = shared.forks_known.load(Ordering::Relaxed);
    let done = AtomicU64::new(0);
    let judge = |own: &mut Vec<space::Totals>, place: usize| {
        let totals = space::judge(shared.vol, ag_number(place), &shared.groups[place], forks_known);
        own.push(totals);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        options.progress.report(Phase::Space, done, count as u64);
    };
    parallel::for_each(options.threads, count, Vec::new, judge).into_iter().flatten().collect()
}

/// The number of the group at `place`.
fn ag_number(place: usize) -> AgNumber {
    AgNumber(u32::try_from(place).unwrap_or(u32::MAX))
}

/// Takes the time and the findings of each phase.
struct Clock {
    started: Instant,
    before: u64,
    phases: Vec<PhaseReport>,
}

impl Clock {
    fn start() -> Self {
        Self { started: Instant::now(), before: 0, phases: Vec::new() }
    }

    fn lap(&mut self, vol: &Volume<'_>, phase: Phase) {
        let total = vol.sink.total();
        let findings = total - self.before;
        self.phases.push(PhaseReport { phase, findings, time: self.started.elapsed() });
        (self.started, self.before) = (Instant::now(), total);
    }
}
