//! Floor 6: check a volume without changing a byte of it (except with [`Options::heal`]).
//!
//! [`check`] reads every structure that the format defines and compares what the volume records in
//! one place with what it records in another. It builds on `1-format` alone, because the check must
//! not trust the code that it checks. A [`Finding`] carries a stable id, a location, the expected
//! value and the value found.
//!
//! | phase | module | what is checked |
//! | --- | --- | --- |
//! | 1 | `superblocks`, `journal` | the primary superblock, the secondaries, the journal's state |
//! | 2 | `groups`, `btree`, `freespace`, `chunks` | AG headers, free-space and inode btrees |
//! | 3 | `inodes`, `forks`, `attrs`, `symlinks` | every inode, its extent maps, its attributes |
//! | 4 | `dirs`, `datree`, `names` | directories: names, hashes, free space, inodes of entries |
//! | 5 | `space`, `owners`, `rmaps`, `refcounts` | each block has one use, as recorded |
//! | 6 | `tree`, `parents`, `unlinked`, `special` | links, tree, parent pointers, counters, quota |
//!
//! For a repair, `fork_map` reads the map of one fork, `disputes` lists blocks with several owners,
//! and `ownerless` those that lack one. By `digests` two checks are compared: the `digest` of each
//! file, of those that have a name (`named_files`). `ahead` announces what will be read. Threads
//! take allocation groups, runs of inodes, and directories from a work queue ([`parallel`]). Each
//! phase passes its results to the next in flat arrays: 9 bytes an inode and 24 bytes an extent.
//! Where a bound is given, extents beyond it go to a file (`spill`).
#![warn(clippy::unwrap_used)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ahead;
mod attrs;
mod btree;
mod chunks;
mod datree;
mod digest;
mod digests;
mod dirs;
mod disputes;
mod extent;
mod finding;
mod fork_map;
mod forks;
mod freespace;
mod groups;
mod inodes;
mod journal;
mod merge;
mod meta_trees;
mod mismatches;
mod named_files;
mod names;
mod ownerless;
mod owners;
pub mod parallel;
mod parents;
mod refcounts;
mod report;
mod rmaps;
mod space;
mod special;
mod spill;
mod superblocks;
mod survey;
mod symlinks;
mod table;
mod tree;
mod unlinked;
mod volume;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use xfskit_block::BlockDevice;
use xfskit_format::Corruption;
use xfskit_format::sb::{SbError, Superblock};
use xfskit_format::sb_search::Rebuilt;
use xfskit_units::{AgNumber, index};

pub use digests::{Difference, FileDigests, Parts};
pub use finding::{Finding, Healing};
pub use fork_map::{ForkMap, fork_map};
pub use mismatches::{FileRange, Mismatches};
pub use report::{Phase, PhaseReport, Progress, Report, Silent};
pub use spill::{Memory, Owners};
pub use survey::{Claim, Dispute, GroupSurvey, KnownChunks, Run, Survey};
pub use xfskit_format::corruption::Severity;

use ahead::ReadAhead;
use digests::Gatherer;
use finding::Sink;
use groups::Group;
use inodes::Context;
use parallel::READERS;
use spill::Spill;
use survey::Surveyor;
use table::InodeTable;
use volume::{HealedBlocks, Volume};

/// Options of a check.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Number of threads; at least 1.
    pub threads: usize,
    /// Also reads and compares every other copy that the device has of each block.
    pub scrub: bool,
    /// Has the device rewrite blocks that are damaged and have a sound copy. Requires that the
    /// journal was replayed. Nothing else is written.
    pub heal: bool,
    /// The corruption of the primary superblock, if the device shows one that was rebuilt from a
    /// secondary.
    pub primary: Option<&'a Corruption>,
    /// The inode chunks of groups whose btrees cannot be trusted: these are not read, and the
    /// inodes are those of the chunks.
    pub chunks: Option<&'a KnownChunks>,
    /// Files whose records in the rmapbt a survey lists, by inode number.
    pub owners: Option<&'a BTreeSet<u64>>,
    /// Ranges of the device on which array members disagree. The check records which files use
    /// them.
    pub mismatches: Option<&'a Mismatches>,
    /// Also makes a digest of each file, by which two checks are compared.
    pub digests: bool,
    /// The memory for extents. Without a bound all of them stay in memory.
    pub memory: Option<Memory<'a>>,
    /// Receives the progress of the check.
    pub progress: &'a dyn Progress,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            scrub: false,
            heal: false,
            primary: None,
            chunks: None,
            owners: None,
            mismatches: None,
            digests: false,
            memory: None,
            progress: &Silent,
        }
    }
}

/// The reason why a volume could not be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed before a superblock was read.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// No superblock can be used.
    #[error(transparent)]
    Superblock(#[from] SbError),
    /// The device is too small for a superblock.
    #[error("the device is too small to hold a volume")]
    TooSmall,
}

/// Checks the volume on `dev`, whose journal is on `log_dev` if it is external. Each finding goes
/// to `findings` as soon as it is made.
///
/// # Errors
/// [`Error`] if there is nothing to check. A damaged volume is an `Ok` that is not
/// [clean](Report::clean).
pub fn check(
    dev: &dyn BlockDevice,
    log_dev: Option<&dyn BlockDevice>,
    options: &Options<'_>,
    findings: &mut (dyn FnMut(Finding) + Send),
) -> Result<Report, Error> {
    run(dev, log_dev, options, findings, None).map(|(report, _)| report)
}

/// Checks like [`check`], and returns also the digests of the files, if
/// [asked for](Options::digests).
///
/// # Errors
/// As [`check`]. [`Error::Device`] if the digests cannot be stored.
pub fn check_with_digests(
    dev: &dyn BlockDevice,
    log_dev: Option<&dyn BlockDevice>,
    options: &Options<'_>,
    findings: &mut (dyn FnMut(Finding) + Send),
) -> Result<(Report, Option<FileDigests>), Error> {
    run(dev, log_dev, options, findings, None)
}

/// Returns the superblock that a check uses: the primary, or one rebuilt from a secondary.
///
/// # Errors
/// As [`check`].
pub fn superblock(dev: &dyn BlockDevice) -> Result<Superblock, Error> {
    superblocks::find(dev, false).map(|primary| primary.sb)
}

/// Returns the superblock that its copies on `dev` show, whatever the primary has; `None` if no
/// copy is found.
pub fn superblock_copy(dev: &dyn BlockDevice) -> Option<Rebuilt> {
    superblocks::find_copy(dev)
}

/// Checks like [`check`], and returns also what the files of the volume use, whatever its btrees
/// record.
///
/// # Errors
/// As [`check`].
pub fn survey(
    dev: &dyn BlockDevice,
    log_dev: Option<&dyn BlockDevice>,
    options: &Options<'_>,
    findings: &mut (dyn FnMut(Finding) + Send),
) -> Result<(Report, Survey), Error> {
    let surveyor = Surveyor::new(options.memory);
    let (report, digests) = run(dev, log_dev, options, findings, Some(&surveyor))?;
    let survey = surveyor.survey(digests);
    survey.map(|survey| (report, survey)).ok_or(Error::TooSmall)
}

fn run(
    dev: &dyn BlockDevice,
    log_dev: Option<&dyn BlockDevice>,
    options: &Options<'_>,
    findings: &mut (dyn FnMut(Finding) + Send),
    surveyor: Option<&Surveyor>,
) -> Result<(Report, Option<FileDigests>), Error> {
    let primary = superblocks::find(dev, options.heal)?;
    let healed = HealedBlocks::default();
    let spill = options.memory.map(Spill::new);
    let mut vol = Volume {
        dev,
        geo: primary.sb.geometry(),
        log_head: None,
        log_clean: true,
        scrub: options.scrub,
        heal: options.heal,
        healed: &healed,
        owners: options.owners,
        mismatches: options.mismatches,
        known_chunks: options.chunks,
        surveyor,
        spill: spill.as_ref(),
        sink: Sink::new(findings),
    };
    let mut timer = PhaseTimer::start();
    for (corruption, healed) in primary.corruptions {
        match healed {
            Some(healing) => vol.sink.report_healed(corruption, healing),
            None => vol.sink.report(Severity::Error, corruption),
        }
    }
    if let Some(corruption) = options.primary {
        vol.sink.report(Severity::Error, Box::new(corruption.clone()));
    }
    if let Some((sector, corruption)) = &primary.refused {
        superblocks::report_refused(&vol, AgNumber(0), &primary.sb, sector, corruption);
    }
    let journal = journal::check(&vol, log_dev);
    (vol.log_head, vol.log_clean) = (journal.head, journal.clean);
    superblocks::check_primary(&vol, &primary.sb);
    timer.end_phase(&vol, Phase::Superblocks);
    if let Some(surveyor) = surveyor {
        surveyor.begin(&primary.sb);
    }
    let groups = check_groups(&vol, &primary.sb, options);
    timer.end_phase(&vol, Phase::Groups);
    check_files(&vol, groups, &primary.sb, options, timer)
}

/// Checks all groups (phase 2) and returns them in order.
fn check_groups(vol: &Volume<'_>, primary: &Superblock, options: &Options<'_>) -> Vec<Group> {
    // A truncated volume has only the groups that begin before its end.
    let there = vol.dev.size().0.div_ceil(u64::from(vol.geo.agblocks) << vol.geo.blocklog);
    let count = index(u64::from(vol.geo.agcount).min(there));
    let done = AtomicU64::new(0);
    let copies = Mutex::new(Vec::new());
    let check = |own: &mut Vec<(usize, Group)>, ag: usize| {
        let agno = ag_number(ag);
        if ag > 0
            && let Some(copy) = superblocks::check_secondary(vol, primary, agno)
        {
            copies.lock().push(copy);
        }
        own.push((ag, groups::check(vol, agno)));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        options.progress.report(Phase::Groups, done, count as u64);
    };
    let mut groups: Vec<_> =
        parallel::for_each(options.threads, count, Vec::new, check).into_iter().flatten().collect();
    groups.sort_unstable_by_key(|(ag, _)| *ag);
    let mut copies = copies.into_inner();
    copies.sort_unstable_by_key(|(agno, _)| *agno);
    superblocks::report_differences(vol, &copies);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Phases 3 to 6: checks everything that the `groups` of phase 2 lead to.
fn check_files(
    vol: &Volume<'_>,
    mut groups: Vec<Group>,
    primary: &Superblock,
    options: &Options<'_>,
    mut timer: PhaseTimer,
) -> Result<(Report, Option<FileDigests>), Error> {
    let table = InodeTable::new(&vol.geo, &mut groups);
    let known = groups.iter().all(|group| group.chunks.complete);
    let chunks = groups.iter().map(|group| group.chunks.list.len()).sum();
    let gatherer = options.digests.then(|| Gatherer::new(chunks, options.memory));
    let shared = Context {
        vol,
        quiet: &vol.quiet(),
        groups: &groups,
        table: &table,
        forks_known: &AtomicBool::new(known),
        attrs_known: &AtomicBool::new(known),
        attrs_found: &AtomicBool::new(false),
        ahead: &ReadAhead::default(),
        gatherer: gatherer.as_ref(),
    };
    let readers = options.threads.saturating_mul(READERS);
    let (directories, counts) = inodes::check(&shared, readers, options.progress);
    timer.end_phase(vol, Phase::Inodes);

    let (dirs, entries) = dirs::check(&shared, &directories, readers, options.progress);
    timer.end_phase(vol, Phase::Directories);

    let extents = claims_bytes(vol, &groups);
    let totals = check_space(&shared, options);
    if let Some(surveyor) = vol.surveyor {
        surveyor.end(shared.forks_known.load(Ordering::Relaxed));
    }
    timer.end_phase(vol, Phase::Space);

    tree::check_named_inodes(&shared, primary);
    special::check(&shared, primary);
    unlinked::check(&shared);
    tree::check_tree_shape(&shared, &dirs);
    tree::check_links(&shared, &dirs);
    tree::check_counters(&shared, primary, &totals);
    tree::check_attr_bit(&shared, primary);
    timer.end_phase(vol, Phase::Tree);

    let report = Report {
        warnings: vol.sink.count(Severity::Warning),
        errors: vol.sink.count(Severity::Error),
        fatals: vol.sink.count(Severity::Fatal),
        healed: vol.sink.healed(),
        phases: timer.phases,
        inodes: counts.used,
        inodes_free: counts.free,
        directories: directories.len() as u64,
        entries,
        blocks: vol.geo.dblocks.0,
        blocks_free: totals.iter().map(|total| total.free).sum(),
        blocks_shared: totals.iter().map(|total| total.shared).sum(),
        extents: totals.iter().map(|total| total.extents).sum(),
        log_clean: vol.log_clean,
        memory_peak: table.bytes() + extents + dirs.bytes(),
    };
    let digests = gatherer
        .as_ref()
        .map(|gatherer| named_files::digests(gatherer, &shared, &dirs))
        .transpose()?;
    Ok((report, digests))
}

/// Returns the bytes of memory that all extents take.
fn claims_bytes(vol: &Volume<'_>, groups: &[Group]) -> u64 {
    let kept: usize = groups.iter().map(Group::kept_claims).sum();
    (kept * size_of::<owners::UsedExtent>()) as u64 + vol.spill.map_or(0, Spill::resident)
}

/// Checks the space of all groups (phase 5).
fn check_space(shared: &Context<'_, '_>, options: &Options<'_>) -> Vec<space::Totals> {
    let count = shared.groups.len();
    let forks_known = shared.forks_known.load(Ordering::Relaxed);
    let done = AtomicU64::new(0);
    let check = |own: &mut Vec<space::Totals>, ag: usize| {
        let totals = space::check(shared.vol, ag_number(ag), &shared.groups[ag], forks_known);
        own.push(totals);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        options.progress.report(Phase::Space, done, count as u64);
    };
    parallel::for_each(options.threads, count, Vec::new, check).into_iter().flatten().collect()
}

/// Returns the number of group `ag`.
fn ag_number(ag: usize) -> AgNumber {
    AgNumber(u32::try_from(ag).unwrap_or(u32::MAX))
}

/// Records the time and the findings of each phase.
struct PhaseTimer {
    started: Instant,
    before: u64,
    phases: Vec<PhaseReport>,
}

impl PhaseTimer {
    fn start() -> Self {
        Self { started: Instant::now(), before: 0, phases: Vec::new() }
    }

    fn end_phase(&mut self, vol: &Volume<'_>, phase: Phase) {
        let total = vol.sink.total();
        let findings = total - self.before;
        self.phases.push(PhaseReport { phase, findings, time: self.started.elapsed() });
        (self.started, self.before) = (Instant::now(), total);
    }
}
