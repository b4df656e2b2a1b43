//! The plan for a volume that is not repaired yet: what it needs, step by step. None is made.

use std::collections::BTreeMap;

use xfskit_check::Finding;
use xfskit_units::Ino;

use crate::classes::Classes;
use crate::plan::{Plan, Step, StepKind};

/// Returns the steps that the findings need. `feature`: the reason why none is made.
pub(crate) fn plan(classes: Classes, feature: &str) -> Plan {
    let mut steps = Vec::new();
    let mut add = |id: String, kind, what: String, findings: Vec<Finding>| {
        if !findings.is_empty() {
            let evidence = format!("not written yet for a volume with {feature}");
            let step = Step::lossless(id, kind, what, &evidence).for_findings(findings);
            steps.push(Step { lost: vec!["not known: the step is not made".into()], ..step });
        }
    };
    let (of_inodes, others) = by_inode(classes.inodes.into_iter().map(|(_, finding)| finding));
    let (mut inodes, beyond) = by_inode(classes.beyond);
    for (ino, findings) in of_inodes {
        inodes.entry(ino).or_default().extend(findings);
    }
    for (ino, findings) in inodes {
        let what = format!("repair inode {ino}, and what its forks hold");
        add(format!("inode.{ino}"), StepKind::Inode, what, findings);
    }
    for (agno, findings) in classes.groups {
        let what = format!("make the btrees, the free list and the headers of group {agno} again");
        add(format!("group.{agno}"), StepKind::Group, what, findings);
    }
    let what = "write the primary superblock again".to_owned();
    add("superblock.0".into(), StepKind::Superblock, what, classes.primary);
    for (agno, findings) in classes.secondaries {
        let what = format!("write the copy of the superblock in group {agno} again");
        add(format!("superblock.{agno}"), StepKind::SecondarySuperblock, what, findings);
    }
    let beyond = others.into_iter().chain(beyond).collect();
    Plan { unwritten: steps, beyond, ..Plan::default() }
}

/// Returns the findings about inodes, and the others.
fn by_inode(
    findings: impl IntoIterator<Item = Finding>,
) -> (BTreeMap<Ino, Vec<Finding>>, Vec<Finding>) {
    let (mut inodes, mut others) = (BTreeMap::<Ino, Vec<Finding>>::new(), Vec::new());
    for finding in findings {
        match finding.corruption.at.ino {
            Some(ino) => inodes.entry(ino).or_default().push(finding),
            None => others.push(finding),
        }
    }
    (inodes, others)
}
