//! Which parts of which inodes are damaged.

use std::collections::BTreeMap;

use xfskit_check::Finding;
use xfskit_format::{Expected, Fork, Value, inode};
use xfskit_units::Ino;

use crate::inodes::Wrong;

/// The damage of one inode.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// The core, or a map: the inode is looked at as a whole.
    pub inode: bool,
    /// The record of the inode btree and the inode disagree on whether it is in use.
    pub in_use: bool,
    /// It shares blocks without the flag.
    pub sharing: bool,
    /// The content of a directory.
    pub directory: bool,
    /// It is a directory with several names, or below itself.
    pub names: bool,
    /// The parent that a directory should name.
    pub parent: Option<Ino>,
    /// The attributes.
    pub attributes: bool,
    /// The target of a symbolic link.
    pub target: bool,
    /// No directory names it.
    pub disconnected: bool,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// The damage of all inodes.
pub(crate) type Damages = BTreeMap<Ino, Damage>;

/// Takes the findings about inodes out of `beyond`.
pub(crate) fn of(beyond: &mut Vec<Finding>) -> Damages {
    let mut damages = Damages::new();
    for finding in std::mem::take(beyond) {
        let counter = Wrong::of(&finding).is_some_and(|wrong| wrong.map().is_none());
        let part = Part::of(&finding).filter(|_| !counter);
        match part.zip(finding.corruption.at.ino) {
            Some((part, ino)) => damages.entry(ino).or_default().add(part, finding),
            None => beyond.push(finding),
        }
    }
    damages
}

/// Takes the findings about blocks with several owners out of `beyond`.
pub(crate) fn claims(beyond: &mut Vec<Finding>) -> Vec<Finding> {
    let is_claim = |finding: &Finding| finding.corruption.check.0 == "block.claimed-twice";
    let (claims, others) = std::mem::take(beyond).into_iter().partition(is_claim);
    *beyond = others;
    claims
}

/// A part of an inode.
enum Part {
    Inode,
    InUse,
    Sharing,
    Directory,
    /// Also the parent that a directory should name.
    Parent(Option<Ino>),
    Attributes,
    Target,
    Link,
    Names,
}

impl Part {
    /// Returns the part that a finding is about.
    fn of(finding: &Finding) -> Option<Self> {
        let corruption = &finding.corruption;
        let (id, fork) = (corruption.check.0, corruption.at.fork);
        let begins = |with: &[&str]| with.iter().any(|prefix| id.starts_with(prefix));
        Some(match id {
            "inobt.free" => Self::InUse,
            "inode.disconnected" => Self::Link,
            "dir.cycle" | "dir.parents" => Self::Names,
            "inode.reflink" => Self::Sharing,
            // The entry is in another directory.
            "dir.entry.metadata" => return None,
            "dir.dotdot" => Self::Parent(match corruption.expected {
                Expected::Exactly(Value::Number(parent)) => Some(Ino(parent)),
                _ => None,
            }),
            _ if id.starts_with("dir.") => Self::Directory,
            // Directories and attributes have hash btrees.
            _ if id.starts_with("da.") && fork != Some(Fork::Attr) => Self::Directory,
            _ if begins(&["da.", "attr.", "parent."]) => Self::Attributes,
            _ if begins(&["bmdr.", "bmbt.", "inode."]) => Self::Inode,
            _ if id.starts_with("symlink.") => Self::Target,
            _ => return None,
        })
    }
}

impl Damage {
    /// Returns true if a block of a map is damaged: the map is laid out again, though all of it can
    /// be read.
    pub(crate) fn is_of_map(&self) -> bool {
        self.findings.iter().any(|finding| finding.corruption.check.0.starts_with("bmbt."))
    }

    /// Sets the counters of extents that count blank records. Returns the forks.
    pub(crate) fn set_counters(&self, bytes: &mut [u8]) -> Vec<Fork> {
        let wrong = self.findings.iter().filter_map(Wrong::of);
        let set = wrong.filter(|wrong| wrong.put(bytes)).filter_map(|wrong| wrong.map());
        let forks: Vec<_> = set.collect();
        if !forks.is_empty() {
            inode::stamp(bytes);
        }
        forks
    }

    /// Returns true if what its forks hold is damaged. Parent pointers of an inode without a name
    /// are not: they tell its name.
    pub(crate) fn is_of_content(&self) -> bool {
        let is_pointer = |f: &Finding| f.corruption.check.0 == "parent.mismatch";
        let is_other =
            |f: &Finding| Part::of(f).is_some_and(|part| matches!(part, Part::Attributes));
        let attributes = self.findings.iter().filter(|f| is_other(f));
        let is_pointed = self.disconnected && attributes.into_iter().all(is_pointer);
        self.directory || self.target || (self.attributes && !is_pointed)
    }

    /// Returns true if the LSN of the inode is ahead of the journal.
    pub(crate) fn is_newer_than_journal(&self) -> bool {
        self.findings.iter().any(|finding| finding.corruption.check.0 == "inode.lsn")
    }

    fn add(&mut self, part: Part, finding: Finding) {
        match part {
            Part::Inode => self.inode = true,
            Part::InUse => self.in_use = true,
            Part::Sharing => self.sharing = true,
            Part::Directory => self.directory = true,
            Part::Parent(parent) => (self.directory, self.parent) = (true, parent.or(self.parent)),
            Part::Attributes => self.attributes = true,
            Part::Target => self.target = true,
            Part::Link => self.disconnected = true,
            Part::Names => self.names = true,
        }
        self.findings.push(finding);
    }
}
