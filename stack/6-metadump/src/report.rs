//! What a dump or a restore reports: progress, counts, warnings.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

/// Warnings that are kept with their text. All are counted.
const KEPT_MAX: usize = 1000;

/// The phases of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// The btrees of the groups are walked.
    Walk,
    /// Headers, btrees and inodes are copied.
    Groups,
    /// Directories, attributes, symlinks and extent btrees are copied.
    Files,
    /// The journal is copied.
    Journal,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Walk => "groups",
            Self::Groups => "inodes",
            Self::Files => "directories and attributes",
            Self::Journal => "journal",
        })
    }
}

/// Receives the progress of a dump.
pub trait Progress: Sync {
    /// Takes note that `done` of `total` units of `phase` are finished: groups while the btrees are
    /// walked, then bytes.
    fn report(&self, phase: Phase, done: u64, total: u64);
}

/// Ignores progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _phase: Phase, _done: u64, _total: u64) {}
}

/// The kinds of warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// The primary superblock is damaged, and another copy was used.
    Superblock,
    /// A pointer leads nowhere and was not followed.
    Pointer,
    /// A range could not be read and is not in the file.
    Unreadable,
    /// The CRC of a block is wrong. The block is in the file.
    BadCrc,
    /// A block, or part of it, is not what it should be. The block is in the file; with obfuscation
    /// only what could be decoded.
    Undecoded,
    /// A block has two uses. It is in the file once.
    Conflict,
    /// The journal is in the file with its clear names.
    Journal,
}

impl WarningKind {
    const ALL: [Self; 7] = [
        Self::Superblock,
        Self::Pointer,
        Self::Unreadable,
        Self::BadCrc,
        Self::Undecoded,
        Self::Conflict,
        Self::Journal,
    ];

    /// Returns what happened, for a sentence with a count.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Superblock => "damaged superblocks",
            Self::Pointer => "broken pointers not followed",
            Self::Unreadable => "ranges that could not be read",
            Self::BadCrc => "blocks with a wrong checksum, copied",
            Self::Undecoded => "blocks that could not be decoded",
            Self::Conflict => "blocks with two uses",
            Self::Journal => "journals with clear names",
        }
    }
}

/// Something unexpected that the dump went on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Its kind.
    pub kind: WarningKind,
    /// What and where.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The result of a dump.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Bytes written to the file.
    pub file_bytes: u64,
    /// Bytes of metadata in it.
    pub metadata_bytes: u64,
    /// Allocated inodes, free ones included.
    pub inodes: u64,
    /// Extents of directories, attribute forks, symlinks and other metadata files.
    pub extents: u64,
    /// How the journal was handled.
    pub journal: Option<crate::mode::Handling>,
    /// The format of the file.
    pub format: crate::format::FileFormat,
    /// What the file says about its content.
    pub content: crate::format::Content,
    /// Warnings of each kind that occurred.
    pub counts: Vec<(WarningKind, u64)>,
    /// The first warnings.
    pub warnings: Vec<Warning>,
}

impl Report {
    /// Returns true if the volume showed no damage.
    pub fn is_clean(&self) -> bool {
        self.counts.iter().all(|(kind, _)| *kind == WarningKind::Journal)
    }
}

/// Gathers warnings of all threads.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    counts: [AtomicU64; WarningKind::ALL.len()],
    kept: Mutex<Vec<Warning>>,
}

impl Sink {
    /// Counts a warning, and keeps its text if there are not too many yet.
    pub(crate) fn warn(&self, kind: WarningKind, text: impl FnOnce() -> String) {
        self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MAX {
            kept.push(Warning { kind, text: text() });
        }
    }

    pub(crate) fn counts(&self) -> Vec<(WarningKind, u64)> {
        let count = |kind: WarningKind| self.counts[kind as usize].load(Ordering::Relaxed);
        WarningKind::ALL.into_iter().map(|kind| (kind, count(kind))).filter(|c| c.1 > 0).collect()
    }

    pub(crate) fn kept(&self) -> Vec<Warning> {
        self.kept.lock().clone()
    }
}
