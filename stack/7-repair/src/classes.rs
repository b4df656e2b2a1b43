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

    fn add(&mut self, finding: Finding) {
        if finding.severity == Severity::Warning {
            self.warnings.push(finding);
            return;
        }
        let id = finding.corruption.check.0;
        let agno = finding.corruption.at.agno;
        let of_group = OF_GROUP.iter().any(|prefix| id.starts_with(prefix));
        match agno {
            Some(agno) if of_group && !matches!(id, "block.claimed-twice" | "inobt.free") => {
                self.groups.entry(agno).or_default().push(finding);
            }
            Some(agno) if id.starts_with("sb.") && agno.0 > 0 => {
                self.secondaries.entry(agno).or_default().push(finding);
            }
            _ if id.starts_with("sb.") => self.primary.push(finding),
            _ => match Wrong::of(&finding) {
                Some(wrong) => self.inodes.push((wrong, finding)),
                None => self.beyond.push(finding),
            },
        }
    }
}
