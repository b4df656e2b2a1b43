//! What a repair does, on which evidence.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use xfskit_check::Finding;
use xfskit_units::Ino;

use crate::view::Link;

/// What a step changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Another copy of a damaged block or inode is taken: one that the device has, or the journal.
    Copy,
    /// The journal is replayed, as far as it is whole.
    Journal,
    /// The btrees, the free list and the headers of a group are made again.
    Group,
    /// The core or the maps of an inode.
    Inode,
    /// A directory is made again.
    Directory,
    /// The attributes of an inode are made again.
    Attributes,
    /// An inode without a name gets one.
    Orphan,
    /// The primary superblock and its counters.
    Superblock,
    /// A copy of the superblock.
    SecondarySuperblock,
}

/// One step of a repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// A name for it, the same in each plan of the same damage: `group.3`.
    pub id: String,
    /// What it changes.
    pub kind: StepKind,
    /// The work, in words.
    pub what: String,
    /// What it is based on.
    pub evidence: Vec<String>,
    /// The losses. Empty: nothing is lost.
    pub lost: Vec<String>,
    /// The findings that it repairs.
    pub findings: Vec<Finding>,
}

/// The plan of a repair: what is done, and which damage stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// In the order in which they are made.
    pub steps: Vec<Step>,
    /// Findings for which there is no repair yet.
    pub beyond: Vec<Finding>,
    /// Inodes that are freed, because they are beyond use.
    pub cleared: u64,
    /// Entries that are left out, because they name no inode in use.
    pub dropped: u64,
    /// A damaged journal, of which records are discarded.
    pub journal: Option<LostJournal>,
    /// Names of which it is not known whose they are: an inode without a name may get one back.
    #[serde(skip)]
    pub(crate) free_names: Vec<Link>,
    /// Inodes whose forks were laid out again, in blocks that are listed as free until the groups
    /// are made again.
    #[serde(skip)]
    pub(crate) laid_out: BTreeSet<Ino>,
}

/// A damaged journal: up to where it is replayed, and what follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostJournal {
    /// The first check that failed.
    pub reason: String,
    /// The cycle of the first damaged record; `None` if nothing can be replayed.
    pub cycle: Option<u32>,
    /// The block of its header, in 512-byte blocks of the journal.
    pub block: Option<u32>,
    /// Transactions before it, which are replayed.
    pub replayed_transactions: u64,
    /// The LSN of the last one's commit.
    pub reached: Option<String>,
    /// Intact records behind it, which are not replayed.
    pub lost_records: u64,
    /// Transactions that end in them.
    pub lost_transactions: u64,
    /// Inodes that these would have changed.
    pub lost_inodes: u64,
    /// Other buffers that they would have changed.
    pub lost_buffers: u64,
    /// Blocks of the journal, of 512 bytes, that belong to no intact record.
    pub unreadable_blocks: u64,
}

impl Plan {
    /// Returns true if there is nothing to do, and nothing that would have to be done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.beyond.is_empty()
    }

    /// Returns the losses of all steps.
    pub fn losses(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| &step.lost).map(String::as_str)
    }

    /// Returns the step with this id.
    pub fn step(&self, id: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == id)
    }
}

impl Step {
    /// Returns a step that loses nothing, with one piece of evidence.
    pub(crate) fn lossless(
        id: impl Into<String>,
        kind: StepKind,
        what: impl Into<String>,
        evidence: &str,
    ) -> Self {
        let evidence = vec![evidence.to_owned()];
        Self {
            id: id.into(),
            kind,
            what: what.into(),
            evidence,
            lost: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Returns the step with the findings that it repairs.
    pub(crate) fn for_findings(self, findings: Vec<Finding>) -> Self {
        Self { findings, ..self }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.what)?;
        for evidence in &self.evidence {
            write!(f, "\n  evidence: {evidence}")?;
        }
        match &self.lost[..] {
            [] => f.write_str("\n  lost: nothing"),
            lost => lost.iter().try_for_each(|lost| write!(f, "\n  lost: {lost}")),
        }
    }
}
