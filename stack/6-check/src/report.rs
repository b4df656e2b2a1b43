//! The result of a check: counts, times, and whether the volume is clean.

use std::time::Duration;

use serde::Serialize;

/// The phases of a check, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The superblocks and the journal's state.
    Superblocks,
    /// AG headers, free-space and inode btrees.
    Groups,
    /// Every inode, its forks, its attributes.
    Inodes,
    /// Every directory, against the inodes its entries name.
    Directories,
    /// Every block's owner: free space, reverse mappings, reference counts.
    Space,
    /// Link counts, the shape of the directory tree, counters.
    Tree,
}

impl Phase {
    /// Returns the phase's title for a progress bar.
    pub fn title(self) -> &'static str {
        match self {
            Self::Superblocks => "superblocks and journal",
            Self::Groups => "allocation groups",
            Self::Inodes => "inodes",
            Self::Directories => "directories",
            Self::Space => "ownership of blocks",
            Self::Tree => "links and counters",
        }
    }
}

/// Receives the progress of a check. Called from all threads, a few thousand
/// times at most.
pub trait Progress: Sync {
    /// Takes note that `done` of `total` units of `phase` are finished.
    fn report(&self, phase: Phase, done: u64, total: u64);
}

/// Ignores progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _phase: Phase, _done: u64, _total: u64) {}
}

/// One phase of a finished check.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// Findings of all severities.
    pub findings: u64,
    /// Wall-timer time.
    #[serde(serialize_with = "as_seconds")]
    pub time: Duration,
}

fn as_seconds<S: serde::Serializer>(time: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_f64(time.as_secs_f64())
}

/// Counts of a check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Number of warnings.
    pub warnings: u64,
    /// Number of errors.
    pub errors: u64,
    /// Number of findings that kept a part of the volume from being checked.
    pub fatals: u64,
    /// Number of blocks that failed their verifier when first read and have a sound alternative.
    /// Each is a finding as well.
    pub healed: u64,
    /// The phases that ran.
    pub phases: Vec<PhaseReport>,
    /// Inodes in use.
    pub inodes: u64,
    /// Free inodes in allocated chunks.
    pub inodes_free: u64,
    /// Directories among the inodes in use.
    pub directories: u64,
    /// Directory entries, without "." and "..".
    pub entries: u64,
    /// Blocks of the data device.
    pub blocks: u64,
    /// Free blocks, those of the AGFLs included.
    pub blocks_free: u64,
    /// Blocks that more than one file uses.
    pub blocks_shared: u64,
    /// Extents of files, attribute forks and fork btrees.
    pub extents: u64,
    /// False if the journal must be replayed. Counters and unlinked lists are not checked then.
    pub log_clean: bool,
    /// Estimate of the most memory taken by collected state, in bytes.
    pub memory_peak: u64,
}

impl Report {
    /// Returns true if nothing is wrong; warnings do not count.
    pub fn clean(&self) -> bool {
        self.errors == 0 && self.fatals == 0
    }
}
