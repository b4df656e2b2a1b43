//! What a repair does, on which evidence.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use xfskit_check::Finding;
use xfskit_format::bmbt::Extent;
use xfskit_units::Ino;

use crate::dead_entries::DeadEntry;
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
    /// The path of the inode that it changes, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Blocks of a file that a repair copied to another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub ino: Ino,
    /// Where they were.
    pub from: Extent,
}

/// The plan of a repair: what is done, and which damage stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// In the order in which they are made.
    pub steps: Vec<Step>,
    /// Findings for which there is no repair yet.
    pub beyond: Vec<Finding>,
    /// The steps that a volume needs that is not repaired yet: none of them is made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<Step>,
    /// Inodes that are freed, because they are beyond use.
    pub cleared: u64,
    /// Entries that are left out, because they name no inode in use.
    pub dropped: u64,
    /// A damaged journal, of which records are discarded.
    pub journal: Option<LostJournal>,
    /// Names of which it is not known whose they are: an inode without a name may get one back.
    #[serde(skip)]
    pub(crate) free_names: Vec<Link>,
    /// Names in the unused space of directories that were made again since.
    #[serde(skip)]
    pub(crate) dead_names: Vec<DeadEntry>,
    /// Inodes whose forks were laid out again, in blocks that are listed as free until the groups
    /// are made again.
    #[serde(skip)]
    pub(crate) laid_out: BTreeSet<Ino>,
    /// Blocks of files that were copied to another place.
    #[serde(skip)]
    pub(crate) moved: Vec<Moved>,
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
        self.steps.is_empty() && self.beyond.is_empty() && self.unwritten.is_empty()
    }

    /// Returns the losses of all steps.
    pub fn losses(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| &step.lost).map(String::as_str)
    }

    /// Returns the step with this id.
    pub fn step(&self, id: &str) -> Option<&Step> {
        self.steps.iter().chain(&self.unwritten).find(|step| step.id == id)
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
            path: None,
        }
    }

    /// Returns the inode that it changes; `None` if it changes something else.
    pub fn inode(&self) -> Option<Ino> {
        let of_id = |at| Some(Ino(self.id.split('.').nth(at)?.parse().ok()?));
        match self.kind {
            StepKind::Inode | StepKind::Directory | StepKind::Attributes | StepKind::Orphan => {
                of_id(1)
            }
            // copy.inode.77, copy.block.4096
            StepKind::Copy if self.id.starts_with("copy.inode.") => of_id(2),
            StepKind::Copy => self.findings.first()?.corruption.at.ino,
            _ => None,
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
        if let Some(path) = &self.path {
            write!(f, "\n  path: {path}")?;
        }
        for evidence in &self.evidence {
            write!(f, "\n  evidence: {evidence}")?;
        }
        match &self.lost[..] {
            [] => f.write_str("\n  lost: nothing"),
            lost => lost.iter().try_for_each(|lost| write!(f, "\n  lost: {lost}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_tells_the_inode_that_it_changes() {
        let inode = |id: &str, kind| Step::lossless(id, kind, "", "").inode().map(|ino| ino.0);
        for (id, kind) in [
            ("inode.77", StepKind::Inode),
            ("inode.77.nlink", StepKind::Inode),
            ("claims.77", StepKind::Inode),
            ("directory.77", StepKind::Directory),
            ("attributes.77", StepKind::Attributes),
            ("orphan.77", StepKind::Orphan),
            ("copy.inode.77", StepKind::Copy),
        ] {
            assert_eq!(inode(id, kind), Some(77), "{id}");
        }
        for (id, kind) in [
            ("group.3", StepKind::Group),
            ("superblock.0", StepKind::Superblock),
            ("lost+found", StepKind::Directory),
            ("copy.block.77", StepKind::Copy),
            ("copies", StepKind::Copy),
            ("journal", StepKind::Journal),
        ] {
            assert_eq!(inode(id, kind), None, "{id}");
        }
    }
}
