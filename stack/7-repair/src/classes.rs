//! Which findings can be repaired, and by what.

use std::collections::BTreeMap;

use xfskit_check::{Finding, Severity};
use xfskit_units::AgNumber;

use crate::inodes::Wrong;

/// Check ids of what is made again with a group: they begin with these.
const OF_GROUP: [&str; 10] = [
    "agf.",
    "agfl.",
    "agi.",
    "bnobt.",
    "cntbt.",
    "inobt.",
    "finobt.",
    "rmapbt.",
    "refcountbt.",
    "block.",
];

/// The findings of a check, by what repairs them.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// A group that is made again.
    pub groups: BTreeMap<AgNumber, Vec<Finding>>,
    /// The primary superblock and its counters.
    pub primary: Vec<Finding>,
    /// The copy of the superblock in a group.
    pub secondaries: BTreeMap<AgNumber, Vec<Finding>>,
    /// Counters of inodes, and the finding of each.
    pub inodes: Vec<(Wrong, Finding)>,
    /// Damage without a repair.
    pub beyond: Vec<Finding>,
    /// A volume that has these is clean.
    pub warnings: Vec<Finding>,
}

impl Classes {
    /// Sorts findings.
    pub(crate) fn of(findings: impl IntoIterator<Item = Finding>) -> Self {
        let mut classes = Self::default();
        for finding in findings {
            classes.add(finding);
        }
        classes
    }

    /// Returns all findings.
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Finding> {
        let groups = self.groups.values().chain(self.secondaries.values()).flatten();
        let inodes = self.inodes.iter().map(|(_, finding)| finding);
        groups.chain(&self.primary).chain(inodes).chain(&self.beyond)
    }

    fn add(&mut self, finding: Finding) {
        if finding.severity == Severity::Warning {
            self.warnings.push(finding);
            return;
        }
        let id = finding.corruption.check.0;
        let agno = finding.corruption.at.agno;
        let of_group = OF_GROUP.iter().any(|prefix| id.starts_with(prefix));
        match agno {
            Some(agno) if of_group && !is_of_file(&finding) => {
                self.groups.entry(agno).or_default().push(finding);
            }
            Some(agno) if id.starts_with("sb.") && agno.0 > 0 => {
                self.secondaries.entry(agno).or_default().push(finding);
            }
            _ if id.starts_with("sb.") => self.primary.push(finding),
            _ => match Wrong::of(&finding).filter(|wrong| wrong.map().is_none()) {
                Some(wrong) => self.inodes.push((wrong, finding)),
                None => self.beyond.push(finding),
            },
        }
    }
}

/// Returns true if it is about an inode, or about blocks that files claim; those that a btree of a
/// group has as its own are not.
fn is_of_file(finding: &Finding) -> bool {
    match finding.corruption.check.0 {
        "inobt.free" => true,
        "block.claimed-twice" => finding.corruption.at.what == "block",
        _ => false,
    }
}
