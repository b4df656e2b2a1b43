//! Which parts of which inodes are damaged.

use std::collections::BTreeMap;

use xfskit_check::Finding;
use xfskit_format::{Expected, Fork, Value};
use xfskit_units::Ino;

use crate::inodes::Wrong;

/// Check ids of the blocks of directories: they begin with these.
const OF_DIRECTORY: [&str; 1] = ["dir."];
/// Check ids of hash btrees, which directories and attributes have.
const OF_TREE: [&str; 1] = ["da."];
/// Check ids of attributes.
const OF_ATTRIBUTES: [&str; 2] = ["attr.", "parent."];
/// Check ids of extent maps.
const OF_MAP: [&str; 2] = ["bmdr.", "bmbt."];

/// The damage of one inode.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// The core, or a map: the inode is looked at as a whole.
    pub inode: bool,
    /// The record of the inode btree and the inode disagree on whether it is in use.
    pub in_use: bool,
    /// The content of a directory.
    pub directory: bool,
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
        let ino = finding.corruption.at.ino.filter(|_| Wrong::of(&finding).is_none());
        let mut damage = Damage::default();
        if !damage.add(&finding) || ino.is_none() {
            beyond.push(finding);
            continue;
        }
        let known = damages.entry(ino.unwrap_or_default()).or_default();
        known.add(&finding);
        known.findings.push(finding);
    }
    damages
}

impl Damage {
    /// Returns true if the LSN of the inode is ahead of the journal.
    pub(crate) fn is_newer_than_journal(&self) -> bool {
        self.findings.iter().any(|finding| finding.corruption.check.0 == "inode.lsn")
    }

    /// Adds what a finding says. Returns false if it is of no part of an inode.
    fn add(&mut self, finding: &Finding) -> bool {
        let corruption = &finding.corruption;
        let (id, fork) = (corruption.check.0, corruption.at.fork);
        let begins = |with: &[&str]| with.iter().any(|prefix| id.starts_with(prefix));
        let part = match id {
            "inobt.free" => &mut self.in_use,
            "inode.disconnected" => &mut self.disconnected,
            // The entry is in another directory, which is made again.
            "dir.cycle" | "dir.parents" | "dir.entry.metadata" => return false,
            "dir.dotdot" => {
                if let Expected::Exactly(Value::Number(parent)) = corruption.expected {
                    self.parent = Some(Ino(parent));
                }
                &mut self.directory
            }
            // The size of a directory follows from its blocks.
            _ if begins(&OF_DIRECTORY) => &mut self.directory,
            _ if begins(&OF_TREE) && fork != Some(Fork::Attr) => &mut self.directory,
            _ if begins(&OF_TREE) || begins(&OF_ATTRIBUTES) => &mut self.attributes,
            _ if begins(&OF_MAP) || id.starts_with("inode.") => &mut self.inode,
            _ if id.starts_with("symlink.") => &mut self.target,
            _ => return false,
        };
        *part = true;
        true
    }
}
