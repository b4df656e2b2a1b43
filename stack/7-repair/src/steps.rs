//! The steps of a repair: each changes the overlay, and says so in the plan.

use std::collections::BTreeMap;

use xfskit_block::OverlayDevice;
use xfskit_check::{Finding, GroupSurvey, Survey, parallel};
use xfskit_format::sb::Superblock;
use xfskit_units::{AgNumber, Geometry};

use crate::classes::Classes;
use crate::discover::Evidence;
use crate::error::Result;
use crate::inodes::Wrong;
use crate::plan::{Plan, Step, StepKind};
use crate::{groups, lost_groups, superblocks};

/// The changes of one repair.
pub(crate) struct Changes<'r> {
    pub overlay: &'r OverlayDevice,
    pub geo: &'r Geometry,
    pub survey: &'r Survey,
    /// Threads that make groups again.
    pub threads: usize,
    pub plan: &'r mut Plan,
}

impl Changes<'_> {
    /// Makes everything again that the findings need. `by`: how the inodes of groups were found
    /// whose inode btrees are lost.
    pub(crate) fn make(
        &mut self,
        mut classes: Classes,
        by: &BTreeMap<AgNumber, Evidence>,
    ) -> Result<()> {
        if !self.survey.complete {
            // A block that seems free may be a file's.
            classes.beyond.extend(std::mem::take(&mut classes.groups).into_values().flatten());
        }
        let has_groups = !classes.groups.is_empty();
        let mut damaged = Vec::new();
        for (agno, findings) in std::mem::take(&mut classes.groups) {
            match self.survey.groups.iter().find(|group| group.agno == agno) {
                Some(found) => damaged.push((found, findings)),
                None => classes.beyond.extend(findings),
            }
        }
        self.make_groups(damaged, by)?;
        for (wrong, finding) in classes.inodes {
            if wrong.set(self.overlay, self.geo)? {
                self.plan.steps.push(inode_step(&wrong, finding));
            } else {
                classes.beyond.push(finding);
            }
        }
        let mut sb = superblocks::counted(self.overlay, self.geo, &self.survey.superblock)?;
        if classes.primary.iter().any(|finding| finding.corruption.check.0 == "sb.lsn") {
            // One ahead of the journal would not be valid.
            sb.lsn = 0.into();
        }
        self.make_superblock(&sb, classes.primary, has_groups)?;
        for (agno, findings) in classes.secondaries {
            self.make_secondary(&sb, agno, findings)?;
        }
        self.plan.beyond = classes.beyond;
        Ok(())
    }

    /// Makes groups again, several at a time: each has blocks of its own.
    fn make_groups(
        &mut self,
        damaged: Vec<(&GroupSurvey, Vec<Finding>)>,
        by: &BTreeMap<AgNumber, Evidence>,
    ) -> Result<()> {
        let (overlay, geo) = (self.overlay, self.geo);
        let make = |made: &mut Vec<(usize, Result<MadeGroup>)>, at: usize| {
            let (found, findings) = &damaged[at];
            made.push((at, make_group(overlay, geo, found, findings)));
        };
        let made = parallel::for_each(self.threads, damaged.len(), Vec::new, make);
        let mut made: Vec<_> = made.into_iter().flatten().collect();
        made.sort_unstable_by_key(|(at, _)| *at);
        let made: Vec<MadeGroup> = made.into_iter().map(|(_, made)| made).collect::<Result<_>>()?;
        for ((found, findings), made) in damaged.into_iter().zip(made) {
            self.plan.steps.push(group_step(found, made, by.get(&found.agno), findings));
        }
        Ok(())
    }

    /// Writes the primary superblock again, if it is damaged, or its counters changed.
    fn make_superblock(
        &mut self,
        sb: &Superblock,
        findings: Vec<Finding>,
        has_groups: bool,
    ) -> Result<()> {
        if findings.is_empty() && (!has_groups || *sb == self.survey.superblock) {
            return Ok(());
        }
        superblocks::write(self.overlay, self.geo, AgNumber(0), sb)?;
        self.plan.steps.push(Step {
            id: "superblock.0".into(),
            kind: StepKind::Superblock,
            what: "write the primary superblock again, with the counters of the groups".into(),
            evidence: vec!["the superblock that the check used, and the groups' headers".into()],
            lost: Vec::new(),
            findings,
            path: None,
        });
        Ok(())
    }

    fn make_secondary(
        &mut self,
        sb: &Superblock,
        agno: AgNumber,
        findings: Vec<Finding>,
    ) -> Result<()> {
        superblocks::write(self.overlay, self.geo, agno, sb)?;
        self.plan.steps.push(Step {
            id: format!("superblock.{agno}"),
            kind: StepKind::SecondarySuperblock,
            what: format!("write the copy of the superblock in group {agno} again"),
            evidence: vec!["the primary superblock is sound".into()],
            lost: Vec::new(),
            findings,
            path: None,
        });
        Ok(())
    }
}

/// A group that was made again.
struct MadeGroup {
    /// Extents of files in it.
    extents: usize,
    /// Files whose content is lost with the group.
    lost: Vec<String>,
}

/// Makes a group again.
fn make_group(
    overlay: &OverlayDevice,
    geo: &Geometry,
    found: &GroupSurvey,
    findings: &[Finding],
) -> Result<MadeGroup> {
    // Lists of unlinked inodes are empty on a volume whose journal is clean.
    let lists = findings.iter().any(|finding| finding.corruption.check.0 == "agi.unlinked");
    let unlinked = found.unlinked.as_ref().filter(|_| !lists);
    let owners = found.owners.load()?;
    let group = groups::plan(geo, found, &owners, unlinked)?;
    groups::write(overlay, geo, &group, &owners)?;
    let extents = owners.iter().filter(|rec| rec.inode().is_some()).count();
    drop(owners);
    let lost = lost_groups::losses(overlay, geo, found, findings)?;
    Ok(MadeGroup { extents, lost })
}

fn group_step(
    found: &GroupSurvey,
    MadeGroup { extents, lost }: MadeGroup,
    by: Option<&Evidence>,
    findings: Vec<Finding>,
) -> Step {
    let agno = found.agno;
    Step {
        id: format!("group.{agno}"),
        kind: StepKind::Group,
        what: format!("make the btrees, the free list and the headers of group {agno} again"),
        evidence: group_evidence(found, extents, by),
        lost,
        findings,
        path: None,
    }
}

fn inode_step(wrong: &Wrong, finding: Finding) -> Step {
    Step {
        id: format!("inode.{}.{}", wrong.ino, wrong.field()),
        kind: StepKind::Inode,
        what: wrong.what(),
        evidence: vec![wrong.evidence().to_owned()],
        lost: Vec::new(),
        findings: vec![finding],
        path: None,
    }
}

/// Returns what a group is made again from.
fn group_evidence(
    found: &GroupSurvey,
    extents: usize,
    inodes_by: Option<&Evidence>,
) -> Vec<String> {
    let files = format!(
        "all inodes and forks of the volume are readable: {extents} extents of files and {} inode \
         chunks of this group",
        found.chunks.len(),
    );
    std::iter::once(files).chain(inodes_by.map(|by| by.text().to_owned())).collect()
}
