//! The order of a repair: journal, survey, changes on an overlay, second check.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_check::{
    self as check, Finding, GroupSurvey, KnownChunks, Progress, Report, Silent, Survey,
};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::rmap::owner;
use xfskit_format::sb::Superblock;
use xfskit_units::{AgNumber, ByteLen, ByteOffset, Geometry, Uuid, Version};

use crate::changes::changed;
use crate::classes::Classes;
use crate::discover::{self, Evidence};
use crate::error::{Error, Result};
use crate::plan::{Plan, Step, StepKind};
use crate::{groups, superblocks};

/// How a volume is repaired: a builder.
#[derive(Clone)]
#[must_use = "nothing is repaired until `prepare` is called"]
pub struct Repair<'r> {
    threads: usize,
    memory: ByteLen,
    spill_dir: PathBuf,
    progress: &'r dyn Progress,
}

impl Default for Repair<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            memory: ByteLen(1 << 30),
            spill_dir: std::env::temp_dir(),
            progress: &Silent,
        }
    }
}

/// A repair that was made on an overlay: the target is unchanged until
/// [`commit`](Self::commit).
#[derive(Debug)]
pub struct Prepared {
    pub(crate) overlay: Arc<OverlayDevice>,
    pub(crate) geo: Geometry,
    pub(crate) superblock: Superblock,
    /// The ranges that a commit writes, ascending.
    pub(crate) changed: Vec<Range<ByteOffset>>,
    plan: Plan,
    before: Report,
    after: Report,
    left: Vec<Finding>,
}

/// What is known of a volume before it is changed.
struct Surveyed {
    before: Report,
    survey: Survey,
    classes: Classes,
    /// How the inodes of groups were found whose inode btrees are lost.
    evidence: BTreeMap<AgNumber, Evidence>,
}

impl<'r> Repair<'r> {
    /// Returns a repair on one thread that keeps a GiB of changes in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses so many threads.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Keeps changes to about `memory` bytes of memory; more go to a file without a name in `dir`.
    pub fn memory(mut self, memory: ByteLen, dir: &Path) -> Self {
        (self.memory, self.spill_dir) = (memory, dir.to_owned());
        self
    }

    /// Receives the progress of the survey, and then of the second check.
    pub fn progress(mut self, progress: &'r dyn Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Makes the repair of the volume on `target` on an overlay. The target is not written.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names a feature that is not written yet; [`Error::Journal`],
    /// [`Error::NoRoom`]; those of reading. Damage that cannot be repaired is no error: see
    /// [`Prepared::is_clean`].
    pub fn prepare(&self, target: Arc<dyn BlockDevice>) -> Result<Prepared> {
        let sb = check::superblock(&*target)?;
        refuse(&sb)?;
        let mut plan = Plan::default();
        let overlay = self.replayed(&target, &sb, &mut plan)?;
        let Surveyed { before, survey, classes, evidence } = self.surveyed(&*overlay)?;
        let geo = survey.superblock.geometry();
        self.change(&overlay, &geo, (&survey, &evidence), classes, &mut plan)?;
        let mut left = Vec::new();
        let after = check::check(&*overlay, None, &self.options(), &mut |finding| {
            left.push(finding);
        })?;
        let superblock = survey.superblock;
        let changed = changed(&overlay, geo.sectsize())?;
        Ok(Prepared { overlay, geo, superblock, changed, plan, before, after, left })
    }

    fn options(&self) -> check::Options<'_> {
        check::Options {
            threads: self.threads,
            progress: self.progress,
            ..check::Options::default()
        }
    }

    /// Surveys the volume. Where the inode btrees of a group are lost, its inodes are looked for,
    /// and the volume is surveyed with them.
    fn surveyed(&self, dev: &dyn BlockDevice) -> Result<Surveyed> {
        let (before, survey, classes) = self.survey(dev, None)?;
        let lost: Vec<_> = survey.groups.iter().filter(|group| !group.chunks_complete).collect();
        let (mut known, mut evidence) = (KnownChunks::new(), BTreeMap::new());
        if lost.is_empty() {
            return Ok(Surveyed { before, survey, classes, evidence });
        }
        let geo = survey.superblock.geometry();
        for group in lost {
            let (chunks, by) = discover::chunks(dev, &geo, group)?;
            known.insert(group.agno, chunks);
            evidence.insert(group.agno, by);
        }
        let (before, survey, mut again) = self.survey(dev, Some(&known))?;
        // What was found in btrees that were not read again.
        for (agno, findings) in classes.groups {
            if known.contains_key(&agno) {
                again.groups.insert(agno, findings);
            }
        }
        Ok(Surveyed { before, survey, classes: again, evidence })
    }

    fn survey(
        &self,
        dev: &dyn BlockDevice,
        chunks: Option<&KnownChunks>,
    ) -> Result<(Report, Survey, Classes)> {
        let mut findings = Vec::new();
        let options = check::Options { chunks, ..self.options() };
        let (report, survey) = check::survey(dev, None, &options, &mut |finding| {
            findings.push(finding);
        })?;
        Ok((report, survey, Classes::of(findings)))
    }

    fn overlay(&self, target: &Arc<dyn BlockDevice>) -> Arc<OverlayDevice> {
        let overlay = OverlayDevice::new(Arc::clone(target));
        Arc::new(overlay.limited_to(self.memory, &self.spill_dir))
    }

    /// Returns an overlay on which the journal is clean.
    fn replayed(
        &self,
        target: &Arc<dyn BlockDevice>,
        sb: &Superblock,
        plan: &mut Plan,
    ) -> Result<Arc<OverlayDevice>> {
        let geo = sb.geometry();
        let overlay = self.overlay(target);
        let log = xfskit_recovery::open_log(&*overlay, None, &geo);
        if log.map_err(|error| Error::Journal(error.to_string()))?.is_clean() {
            return Ok(overlay);
        }
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let volume = Volume::open(Arc::clone(&overlay) as _, &options);
        let closed = volume.and_then(Volume::close);
        closed.map_err(|error| Error::Journal(error.to_string()))?;
        plan.steps.push(Step {
            id: "journal".into(),
            kind: StepKind::Journal,
            what: "replay the journal".into(),
            evidence: vec!["its records are whole".into()],
            lost: Vec::new(),
            findings: Vec::new(),
        });
        Ok(overlay)
    }

    /// Makes the changes, and plans what they are.
    fn change(
        &self,
        overlay: &Arc<OverlayDevice>,
        geo: &Geometry,
        (survey, by): (&Survey, &BTreeMap<AgNumber, Evidence>),
        mut classes: Classes,
        plan: &mut Plan,
    ) -> Result<()> {
        if !survey.complete {
            // A block that seems free may be a file's.
            classes.beyond.extend(std::mem::take(&mut classes.groups).into_values().flatten());
        }
        let is_group = !classes.groups.is_empty();
        let by_number: BTreeMap<AgNumber, _> =
            survey.groups.iter().map(|group| (group.agno, group)).collect();
        for (agno, findings) in classes.groups {
            let Some(found) = by_number.get(&agno) else {
                classes.beyond.extend(findings);
                continue;
            };
            let group = groups::plan(geo, found)?;
            groups::write(&**overlay, geo, &group)?;
            plan.steps.push(Step {
                id: format!("group.{agno}"),
                kind: StepKind::Group,
                what: format!(
                    "make the btrees, the free list and the headers of group {agno} again"
                ),
                evidence: group_evidence(found, by.get(&agno)),
                lost: Vec::new(),
                findings,
            });
        }
        if is_group {
            verify_untouched(overlay, geo, survey, plan)?;
        }
        change_superblocks(overlay, geo, survey, &mut classes.primary, is_group, plan)?;
        for (agno, findings) in classes.secondaries {
            let sb = superblocks::counted(&**overlay, geo, &survey.superblock)?;
            superblocks::write(&**overlay, geo, agno, &sb)?;
            plan.steps.push(Step {
                id: format!("superblock.{agno}"),
                kind: StepKind::SecondarySuperblock,
                what: format!("write the copy of the superblock in group {agno} again"),
                evidence: vec!["the primary superblock is sound".into()],
                lost: Vec::new(),
                findings,
            });
        }
        plan.beyond = classes.beyond;
        Ok(())
    }
}

/// Returns what a group is made again from.
fn group_evidence(found: &GroupSurvey, inodes_by: Option<&Evidence>) -> Vec<String> {
    let extents = found.owners.iter().filter(|rec| rec.inode().is_some()).count();
    let files = format!(
        "all inodes and forks of the volume are readable: {extents} extents of files and {} inode \
         chunks of this group",
        found.chunks.len(),
    );
    std::iter::once(files).chain(inodes_by.map(|by| by.text().to_owned())).collect()
}

/// Writes the primary superblock again, if it is damaged, or its counters changed.
fn change_superblocks(
    overlay: &Arc<OverlayDevice>,
    geo: &Geometry,
    survey: &Survey,
    findings: &mut Vec<Finding>,
    is_group: bool,
    plan: &mut Plan,
) -> Result<()> {
    let sb = superblocks::counted(&**overlay, geo, &survey.superblock)?;
    if findings.is_empty() && (!is_group || sb == survey.superblock) {
        return Ok(());
    }
    superblocks::write(&**overlay, geo, AgNumber(0), &sb)?;
    plan.steps.push(Step {
        id: "superblock.0".into(),
        kind: StepKind::Superblock,
        what: "write the primary superblock again, with the counters of the groups".into(),
        evidence: vec![
            "the superblock that the volume was read with, and the groups' headers".into(),
        ],
        lost: Vec::new(),
        findings: std::mem::take(findings),
    });
    Ok(())
}

/// Verifies that no changed range of a group that was made again has a block of a file.
fn verify_untouched(
    overlay: &OverlayDevice,
    geo: &Geometry,
    survey: &Survey,
    plan: &Plan,
) -> Result<()> {
    // What a replay of the journal changed may be anywhere; its blocks are not told apart here.
    if plan.steps.iter().any(|step| step.kind == StepKind::Journal) {
        return Ok(());
    }
    let changed = changed(overlay, geo.sectsize())?;
    for group in &survey.groups {
        for rec in group.owners.iter().filter(|rec| rec.owner.get() != owner::FS) {
            let start = geo.agb_to_daddr(group.agno, rec.start()).byte_offset();
            let end = start.saturating_plus(ByteLen(u64::from(rec.len().0) << geo.blocklog));
            let next = changed.partition_point(|range| range.end <= start);
            if changed.get(next).is_some_and(|range| range.start < end) {
                return Err(Error::OverwritesFile { agno: group.agno.0, agbno: rec.start().0 });
            }
        }
    }
    Ok(())
}

/// Refuses, by name, what a repair does not write yet.
fn refuse(sb: &Superblock) -> Result<()> {
    let features = sb.features();
    let unsupported = |what: &str| Err(Error::Unsupported(what.to_owned()));
    if features.version != Version::V5 {
        return unsupported("version 4 of the format");
    }
    if features.metadir() {
        return unsupported("metadata directories (metadir)");
    }
    if sb.rblocks.get() != 0 {
        return unsupported("a realtime device");
    }
    if sb.logstart.get() == 0 {
        return unsupported("an external log");
    }
    if sb.inprogress != 0 {
        return unsupported("an unfinished mkfs (sb_inprogress is set)");
    }
    Ok(())
}

impl Prepared {
    /// Returns what is done, and on which evidence.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the counts of the check before the repair, with the journal replayed.
    pub fn before(&self) -> &Report {
        &self.before
    }

    /// Returns the counts of the second check.
    pub fn after(&self) -> &Report {
        &self.after
    }

    /// Returns the findings of the second check, warnings among them.
    pub fn left(&self) -> &[Finding] {
        &self.left
    }

    /// Returns true if the volume is clean after the repair, and every inode and every entry of a
    /// directory is still there. Only then can it be committed.
    pub fn is_clean(&self) -> bool {
        let counts = |report: &Report| (report.inodes, report.directories, report.entries);
        self.after.clean() && counts(&self.after) == counts(&self.before)
    }

    /// Returns the bytes that a commit writes.
    pub fn bytes(&self) -> u64 {
        self.changed.iter().map(|range| range.end.0 - range.start.0).sum()
    }

    /// Returns the UUID of the volume.
    pub fn uuid(&self) -> Uuid {
        Uuid::from_bytes(self.superblock.uuid)
    }
}
