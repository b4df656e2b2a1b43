//! The order of a repair: journal, survey, changes on an overlay, second check.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_check::{
    self as check, FileDigests, Finding, GroupSurvey, KnownChunks, Progress, Report, Silent, Survey,
};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::sb::Superblock;
use xfskit_units::{AgNumber, ByteLen, ByteOffset, Geometry, Ino, Uuid, Version};

use crate::changes::changed;
use crate::claims;
use crate::classes::Classes;
use crate::damage;
use crate::device_copies::DeviceCopies;
use crate::discover::{self, Evidence};
use crate::error::{Error, Result};
use crate::files;
use crate::journal::{Journal, Replayed};
use crate::journal_copies::JournalCopies;
use crate::lost_forks;
use crate::paths::{self, Paths};
use crate::plan::{Plan, Step, StepKind};
use crate::primary::{self, Primary};
use crate::remap;
use crate::stages::{self, Stage};
use crate::steps::Changes;
use crate::superblocks;
use crate::survivors::{self, Baseline};
use crate::unaccounted::Unaccounted;
use crate::unwritten;
use crate::view::View;

/// Layers that are repaired at most: each changes something, and damage below damage is rare.
const LAYERS_MAX: usize = 16;

/// How a volume is repaired: a builder.
#[derive(Clone)]
#[must_use = "nothing is repaired until `prepare` is called"]
pub struct Repair<'r> {
    threads: usize,
    memory: ByteLen,
    spill_dir: PathBuf,
    accepted: AcceptLoss,
    zero_log: bool,
    plan_only: bool,
    progress: &'r dyn Progress,
}

impl Default for Repair<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            memory: ByteLen(1 << 30),
            spill_dir: std::env::temp_dir(),
            accepted: AcceptLoss::NONE,
            zero_log: false,
            plan_only: false,
            progress: &Silent,
        }
    }
}

/// A repair that was made on an overlay: the target is unchanged until
/// [`commit`](Self::commit).
#[derive(Debug)]
pub struct Prepared {
    /// The target with the copies that it has of damaged blocks.
    pub(crate) copies: Option<Arc<DeviceCopies>>,
    /// The target with its journal replayed, where that was dirty.
    pub(crate) replayed: Option<Arc<OverlayDevice>>,
    /// The changes, on the target or on what the replay made of it.
    pub(crate) overlay: Arc<OverlayDevice>,
    pub(crate) geo: Geometry,
    pub(crate) superblock: Superblock,
    /// The ranges that the replay changes, ascending.
    pub(crate) of_replay: Vec<Range<ByteOffset>>,
    /// The ranges that differ after that, ascending.
    pub(crate) changed: Vec<Range<ByteOffset>>,
    /// The changed ranges, cut where another stage of the commit writes them.
    pub(crate) stages: Vec<(Stage, Range<ByteOffset>)>,
    pub(crate) accepted: AcceptLoss,
    /// The journal is cleared, not only replayed.
    pub(crate) clears_log: bool,
    zero_log: bool,
    plan: Plan,
    before: Report,
    after: Report,
    left: Vec<Finding>,
    unaccounted: Unaccounted,
    /// A feature because of which none of the plan is made.
    unsupported: Option<&'static str>,
}

/// Changes that were made, and not checked yet.
struct Made {
    copies: Option<Arc<DeviceCopies>>,
    overlay: Arc<OverlayDevice>,
    geo: Geometry,
    superblock: Superblock,
    writes: Writes,
    plan: Plan,
    /// The counts of the first survey.
    before: Report,
    baseline: Baseline,
    /// The result of the check, if nothing was changed since the survey.
    checked: Option<(Report, Vec<Finding>)>,
}

/// What a commit writes, as in [`Prepared`].
struct Writes {
    replayed: Option<Arc<OverlayDevice>>,
    of_replay: Vec<Range<ByteOffset>>,
    changed: Vec<Range<ByteOffset>>,
    stages: Vec<(Stage, Range<ByteOffset>)>,
    clears_log: bool,
}

/// How many losses of a plan a commit accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptLoss(pub u64);

impl AcceptLoss {
    /// None.
    pub const NONE: Self = Self(0);
    /// Any number.
    pub const ALL: Self = Self(u64::MAX);
}

/// A volume as it was before it is changed.
struct Surveyed {
    before: Report,
    survey: Survey,
    classes: Classes,
    /// The survey read the inode btrees of all groups.
    is_whole: bool,
    /// How the inodes of groups were found whose inode btrees are lost.
    evidence: BTreeMap<AgNumber, Evidence>,
}

impl Surveyed {
    /// Returns true if the survey read all of the volume, inode btrees too, and it is clean.
    fn is_whole_and_clean(&self) -> bool {
        self.is_whole && self.before.clean()
    }
}

/// What the surveys of a repair have found: groups whose inode btrees are not read again, and the
/// evidence for their inodes; the files before the repair, and paths.
#[derive(Default)]
struct Known {
    chunks: KnownChunks,
    /// How their inodes were found, where the btrees are lost.
    evidence: BTreeMap<AgNumber, Evidence>,
    /// Their findings.
    findings: BTreeMap<AgNumber, Vec<Finding>>,
    baseline: Baseline,
    paths: Paths,
}

impl Known {
    /// Finds the paths of damaged inodes, which may be gone after the repair.
    fn find_paths(&mut self, dev: &dyn BlockDevice, surveyed: &Surveyed) -> Result<()> {
        let geo = surveyed.survey.superblock.geometry();
        let view = View { dev, geo: &geo, survey: &surveyed.survey, unclaimed: None };
        let findings = surveyed.classes.findings();
        self.paths.find(view, findings.filter_map(|finding| finding.corruption.at.ino))
    }

    /// Keeps the findings of groups that are known now, unless there are some already.
    fn keep(&mut self, groups: BTreeMap<AgNumber, Vec<Finding>>) {
        for (agno, findings) in groups {
            if self.chunks.contains_key(&agno) {
                self.findings.entry(agno).or_insert(findings);
            }
        }
    }
}

impl<'r> Repair<'r> {
    /// Returns a repair on one thread that keeps a GiB of what it knows and changes in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses so many threads.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Keeps extents and changes to about `memory` bytes of memory; more go to a file without a
    /// name in `dir`. Inodes and directories of the volume take memory beside that.
    pub fn memory(mut self, memory: ByteLen, dir: &Path) -> Self {
        (self.memory, self.spill_dir) = (memory, dir.to_owned());
        self
    }

    /// Accepts so many losses of the plan; none by default.
    pub fn accept_loss(mut self, accepted: AcceptLoss) -> Self {
        self.accepted = accepted;
        self
    }

    /// Accepts that the records of a damaged journal behind the damage are discarded. By default a
    /// plan that does so is not written.
    pub fn zero_log(mut self, zero_log: bool) -> Self {
        self.zero_log = zero_log;
        self
    }

    /// Receives the progress of the survey, and then of the second check.
    pub fn progress(mut self, progress: &'r dyn Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Of a volume that is not repaired yet, makes the plan: what it needs. By default that is an
    /// error.
    pub fn plan_only(mut self, plan_only: bool) -> Self {
        self.plan_only = plan_only;
        self
    }

    /// Makes the repair of the volume on `target` on an overlay. The target is not written.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names a feature that is not written yet; [`Error::Truncated`],
    /// [`Error::Journal`], [`Error::NoRoom`]; those of reading. Damage that cannot be repaired is
    /// no error: see [`Prepared::is_clean`].
    pub fn prepare(&self, target: Arc<dyn BlockDevice>) -> Result<Prepared> {
        let mut plan = Plan::default();
        let copies = DeviceCopies::of(&target, self.memory, &self.spill_dir);
        let taken = copies.as_ref().map_or(Ok(None), |copies| copies.take(&self.options()))?;
        plan.steps.extend(taken);
        let target = copies.as_ref().map_or(target, |copies| Arc::clone(copies) as _);
        let primary = primary::read(&*target)?;
        let feature = unsupported(&primary.sb);
        if let Some(feature) = feature.filter(|_| !self.plan_only) {
            return Err(Error::Unsupported(feature.to_owned()));
        }
        refuse_truncated(&primary.sb, target.size())?;
        match feature {
            Some(feature) => self.planned(&target, primary.sb, copies, feature),
            None => self.verified(self.made(&target, primary, copies, plan)?),
        }
    }

    /// Makes the changes on an overlay of `target`.
    fn made(
        &self,
        target: &Arc<dyn BlockDevice>,
        Primary { sb, step: fixed }: Primary,
        copies: Option<Arc<DeviceCopies>>,
        mut plan: Plan,
    ) -> Result<Made> {
        let is_lost = !superblocks::is_primary_sound(&**target, &sb.geometry())?;
        let journal = Journal {
            target,
            sb: &sb,
            is_fixed: fixed.is_some() || is_lost,
            zero_log: self.zero_log,
            overlay: &|| self.overlay(target),
            options: self.options(),
        };
        let replayed = journal.replayed(&mut plan)?;
        let overlay = match &replayed {
            Some(replayed) => self.overlay(&(Arc::clone(&replayed.overlay) as _)),
            None => self.overlay(target),
        };
        if let Some(step) = fixed {
            // A journal was replayed with it.
            if replayed.is_none() {
                superblocks::write(&*overlay, &sb.geometry(), AgNumber(0), &sb)?;
            }
            plan.steps.push(step);
        } else if is_lost && replayed.is_some() {
            // The replay needed one: the survey finds nothing wrong with it.
            plan.steps.push(primary_step());
        }
        let cleared = replayed.as_ref().and_then(|replayed| replayed.cleared.as_ref());
        if let Some(sb) = cleared {
            superblocks::write(&*overlay, &sb.geometry(), AgNumber(0), sb)?;
        }
        let clears_log = cleared.is_some();
        let replayed = replayed.map(|Replayed { overlay, .. }| overlay);
        // Behind the damage of a journal newer changes may be lost.
        let mut of_journal = JournalCopies::new((!clears_log).then_some(&**target));
        let mut known = Known::default();
        let (before, surveyed) = self.mended(&overlay, &mut known, &mut of_journal, &mut plan)?;
        let whole = surveyed.is_whole_and_clean().then(|| surveyed.before.clone());
        let Surveyed { survey, mut classes, evidence, .. } = surveyed;
        let warnings = std::mem::take(&mut classes.warnings);
        let geo = survey.superblock.geometry();
        let threads = self.threads;
        let mut changes =
            Changes { overlay: &overlay, geo: &geo, survey: &survey, threads, plan: &mut plan };
        changes.make(classes, &evidence)?;
        let view = View { dev: &*overlay, geo: &geo, survey: &survey, unclaimed: None };
        known.paths.find(view, paths::inodes_of(&plan))?;
        known.paths.name(&mut plan);
        let superblock = survey.superblock.clone();
        let sector = geo.sectsize();
        let of_replay = replayed.as_ref().map_or(Ok(Vec::new()), |dev| changed(dev, sector))?;
        let changed = changed(&overlay, sector)?;
        let stages = stages::of(&geo, &survey, &changed)?;
        // The survey was a check of the same bytes.
        let checked = whole.filter(|_| overlay.changed_ranges().is_empty());
        let checked = checked.map(|report| (report, warnings));
        let baseline = known.baseline;
        let writes = Writes { replayed, of_replay, changed, stages, clears_log };
        Ok(Made { copies, overlay, geo, superblock, writes, plan, before, baseline, checked })
    }

    /// Checks what was made, unless the survey was that check, and compares the files with those
    /// before.
    fn verified(&self, made: Made) -> Result<Prepared> {
        let Made { copies, overlay, geo, superblock, writes, plan, before, baseline, checked } =
            made;
        let (after, left, unaccounted) = if let Some((report, warnings)) = checked {
            (report, warnings, Unaccounted::default())
        } else {
            self.compared(&baseline, &before, &plan, (&overlay, &geo))?
        };
        let Writes { replayed, of_replay, changed, stages, clears_log } = writes;
        Ok(Prepared {
            copies,
            replayed,
            overlay,
            geo,
            superblock,
            of_replay,
            changed,
            stages,
            accepted: self.accepted,
            clears_log,
            zero_log: self.zero_log,
            plan,
            before,
            after,
            left,
            unaccounted,
            unsupported: None,
        })
    }

    /// Checks the overlay, and compares the files with those before.
    fn compared(
        &self,
        baseline: &Baseline,
        before: &Report,
        plan: &Plan,
        (overlay, geo): (&OverlayDevice, &Geometry),
    ) -> Result<(Report, Vec<Finding>, Unaccounted)> {
        let (report, left, digests) = self.checked(overlay)?;
        let mut unaccounted = Unaccounted::default();
        // What remains to be repaired is said first.
        if let Some(after) = digests.filter(|_| report.clean()) {
            let reports = (before, &report);
            unaccounted = survivors::unaccounted(baseline, &after, reports, plan, (overlay, geo))?;
        }
        self.name_files(&mut unaccounted, &**overlay.base())?;
        Ok((report, left, unaccounted))
    }

    /// Finds the paths that changed files had before the repair, on `dev`.
    fn name_files(&self, unaccounted: &mut Unaccounted, dev: &dyn BlockDevice) -> Result<()> {
        if unaccounted.first.is_empty() {
            return Ok(());
        }
        let (_, survey) = check::survey(dev, None, &self.options(), &mut |_| ())?;
        let geo = survey.superblock.geometry();
        let mut paths = Paths::default();
        let inodes = unaccounted.first.iter().map(|file| Ino(file.inode));
        paths.find(View { dev, geo: &geo, survey: &survey, unclaimed: None }, inodes)?;
        for file in &mut unaccounted.first {
            file.path = paths.of(Ino(file.inode)).cloned();
        }
        Ok(())
    }

    /// Plans the repair of a volume with a feature that is not written yet. A journal that is whole
    /// is replayed in memory.
    fn planned(
        &self,
        target: &Arc<dyn BlockDevice>,
        superblock: Superblock,
        copies: Option<Arc<DeviceCopies>>,
        feature: &'static str,
    ) -> Result<Prepared> {
        let opened = Volume::open(Arc::clone(target), &OpenOptions::default());
        let device = opened.map_or_else(|_| Arc::clone(target), |open| Arc::clone(open.device()));
        let mut findings = Vec::new();
        let (report, survey) = check::survey(&*device, None, &self.options(), &mut |finding| {
            findings.push(finding);
        })?;
        let mut classes = Classes::of(findings);
        let left = std::mem::take(&mut classes.warnings);
        let mut plan = unwritten::plan(classes, feature);
        let geo = superblock.geometry();
        let view = View { dev: &*device, geo: &geo, survey: &survey, unclaimed: None };
        let mut paths = Paths::default();
        paths.find(view, plan.unwritten.iter().filter_map(Step::inode))?;
        paths.name(&mut plan);
        Ok(Prepared {
            copies,
            replayed: None,
            overlay: self.overlay(target),
            geo,
            superblock,
            of_replay: Vec::new(),
            changed: Vec::new(),
            stages: Vec::new(),
            accepted: self.accepted,
            clears_log: false,
            zero_log: self.zero_log,
            plan,
            before: report.clone(),
            after: report,
            left,
            unaccounted: Unaccounted::default(),
            unsupported: Some(feature),
        })
    }

    /// Checks the overlay. Returns the counts, the findings, and the files.
    fn checked(
        &self,
        overlay: &OverlayDevice,
    ) -> Result<(Report, Vec<Finding>, Option<FileDigests>)> {
        let mut left = Vec::new();
        let options = check::Options { digests: true, ..self.options() };
        let checked = check::check_with_digests(overlay, None, &options, &mut |finding| {
            left.push(finding);
        });
        let (report, digests) = checked?;
        Ok((report, left, digests))
    }

    fn options(&self) -> check::Options<'_> {
        check::Options {
            threads: self.threads,
            memory: Some(check::Memory { bytes: self.share(), dir: &self.spill_dir }),
            progress: self.progress,
            ..check::Options::default()
        }
    }

    /// Repairs inodes and what they hold, layer by layer. Returns the counts of the first survey,
    /// and the last survey.
    fn mended(
        &self,
        overlay: &Arc<OverlayDevice>,
        known: &mut Known,
        copies: &mut JournalCopies<'_>,
        plan: &mut Plan,
    ) -> Result<(Report, Surveyed)> {
        let mut first = None;
        for _ in 0..LAYERS_MAX {
            let mut surveyed = self.surveyed(&**overlay, known, copies, plan)?;
            let before = first.get_or_insert_with(|| surveyed.before.clone()).clone();
            if surveyed.is_whole_and_clean() {
                return Ok((before, surveyed));
            }
            if known.baseline.is_open() {
                known.baseline.close();
                known.find_paths(&**overlay, &surveyed)?;
            }
            let beyond = &mut surveyed.classes.beyond;
            let (damages, claimed) = (damage::of(beyond), damage::claims(beyond));
            let geo = surveyed.survey.superblock.geometry();
            let view =
                View { dev: &**overlay, geo: &geo, survey: &surveyed.survey, unclaimed: None };
            let disputants = claims::disputants(view);
            let doubtful = remap::doubtful(view, plan, &damages, &surveyed.classes.inodes)?;
            let is_sound = damages.is_empty() && claimed.is_empty();
            if is_sound && disputants.is_empty() && doubtful.is_empty() {
                return Ok((before, surveyed));
            }
            let damaged = damages.iter().filter(|(_, d)| d.inode).map(|(ino, _)| ino.0);
            let doubted = doubtful.iter().map(|ino| ino.0);
            let owners: BTreeSet<u64> = damaged.chain(doubted).chain(disputants).collect();
            if geo.features.rmapbt() && !owners.is_empty() {
                let chunks = Some(&known.chunks).filter(|chunks| !chunks.is_empty());
                drop(surveyed.survey);
                let baseline = &mut known.baseline;
                let found = self.survey(&**overlay, chunks, Some(&owners), baseline)?;
                surveyed.survey = found.1;
            }
            let beyond = &mut surveyed.classes.beyond;
            let view =
                View { dev: &**overlay, geo: &geo, survey: &surveyed.survey, unclaimed: None };
            let unclaimed = lost_forks::find(view)?;
            let view = View { unclaimed: Some(&unclaimed), ..view };
            let scanned = known.evidence.keys().copied().collect();
            let found = (damages, claimed, &doubtful);
            let chunks = &mut known.chunks;
            let (changed, left) =
                files::mend(view, &**overlay, found, chunks, &scanned, copies, plan)?;
            if !changed {
                beyond.extend(left);
                return Ok((before, surveyed));
            }
            // Groups that become known now are not read again: their findings are kept.
            known.keep(surveyed.classes.groups);
        }
        let surveyed = self.surveyed(&**overlay, known, copies, plan)?;
        let before = first.unwrap_or_else(|| surveyed.before.clone());
        Ok((before, surveyed))
    }

    /// Surveys the volume. Where the inode btrees of a group are lost, its inodes are looked for,
    /// and the volume is surveyed with them.
    fn surveyed(
        &self,
        dev: &dyn BlockDevice,
        known: &mut Known,
        copies: &mut JournalCopies<'_>,
        plan: &mut Plan,
    ) -> Result<Surveyed> {
        let chunks = Some(&known.chunks).filter(|chunks| !chunks.is_empty());
        let baseline = &mut known.baseline;
        let (mut before, mut survey, mut classes) =
            self.survey_with_copies(dev, chunks, copies, plan, baseline)?;
        let is_doubtful = |agno: AgNumber| {
            let findings = classes.groups.get(&agno).map_or(&[][..], |findings| &findings[..]);
            !known.chunks.contains_key(&agno) && discover::is_doubtful(findings)
        };
        let is_lost = |group: &&GroupSurvey| !group.chunks_complete || is_doubtful(group.agno);
        let lost: Vec<_> = survey.groups.iter().filter(is_lost).collect();
        if !lost.is_empty() {
            let geo = survey.superblock.geometry();
            for group in lost {
                let (mut chunks, by) = discover::chunks(dev, &geo, group, self.threads)?;
                if group.chunks_complete {
                    discover::drop_old(&geo, group, &mut chunks)?;
                }
                known.chunks.insert(group.agno, chunks);
                known.evidence.insert(group.agno, by);
            }
            known.keep(classes.groups);
            drop(survey);
            let chunks = Some(&known.chunks);
            let baseline = &mut known.baseline;
            (before, survey, classes) =
                self.survey_with_copies(dev, chunks, copies, plan, baseline)?;
        }
        // The survey does not read the btrees of known groups.
        for agno in known.chunks.keys() {
            let findings = known.findings.get(agno).cloned().unwrap_or_default();
            classes.groups.insert(*agno, findings);
        }
        let evidence = known.evidence.clone();
        let is_whole = known.chunks.is_empty();
        Ok(Surveyed { before, survey, classes, is_whole, evidence })
    }

    /// Surveys the volume, and gives damaged blocks back that the journal has, until there are no
    /// more: a directory that is given back leads to others.
    fn survey_with_copies(
        &self,
        dev: &dyn BlockDevice,
        chunks: Option<&KnownChunks>,
        copies: &mut JournalCopies<'_>,
        plan: &mut Plan,
        baseline: &mut Baseline,
    ) -> Result<(Report, Survey, Classes)> {
        for _ in 1..LAYERS_MAX {
            let (report, survey, classes) = self.survey(dev, chunks, None, baseline)?;
            let geo = survey.superblock.geometry();
            let view = View { dev, geo: &geo, survey: &survey, unclaimed: None };
            if !copies.restore(view, dev, classes.findings(), plan)? {
                return Ok((report, survey, classes));
            }
        }
        self.survey(dev, chunks, None, baseline)
    }

    fn survey(
        &self,
        dev: &dyn BlockDevice,
        chunks: Option<&KnownChunks>,
        owners: Option<&BTreeSet<u64>>,
        baseline: &mut Baseline,
    ) -> Result<(Report, Survey, Classes)> {
        let mut findings = Vec::new();
        let digests = baseline.is_open();
        let options = check::Options { chunks, owners, digests, ..self.options() };
        let (report, mut survey) = check::survey(dev, None, &options, &mut |finding| {
            findings.push(finding);
        })?;
        baseline.take(survey.digests.take());
        Ok((report, survey, Classes::of(findings)))
    }

    /// Returns the bytes of memory for each of what grows: the extents of a check, those of the
    /// survey, the changes of the replay, the other changes, and all digests of files.
    fn share(&self) -> ByteLen {
        ByteLen(self.memory.0 / 5)
    }

    fn overlay(&self, target: &Arc<dyn BlockDevice>) -> Arc<OverlayDevice> {
        let overlay = OverlayDevice::new(Arc::clone(target));
        Arc::new(overlay.limited_to(self.share(), &self.spill_dir))
    }
}

/// Returns the step of a primary that a replay has written again.
fn primary_step() -> Step {
    let what = "write the primary superblock again";
    let evidence = "the superblock that the check used, and the replayed journal";
    Step::lossless("superblock.0", StepKind::Superblock, what, evidence)
}

/// Returns the name of what a repair does not write yet.
fn unsupported(sb: &Superblock) -> Option<&'static str> {
    let features = sb.features();
    let unsupported = [
        (features.version != Version::V5, "version 4 of the format"),
        (features.metadir(), "metadata directories (metadir)"),
        (sb.rblocks.get() != 0, "a realtime device"),
        (sb.logstart.get() == 0, "an external log"),
        (sb.inprogress != 0, "an unfinished mkfs (sb_inprogress is set)"),
    ];
    unsupported.into_iter().find(|(is_set, _)| *is_set).map(|(_, name)| name)
}

/// Refuses a device that ends before the volume does: a superblock that is made smaller would give
/// up what may be elsewhere.
fn refuse_truncated(sb: &Superblock, size: ByteLen) -> Result<()> {
    let needs = sb.geometry().data_bytes();
    if needs <= size { Ok(()) } else { Err(Error::Truncated { has: size.0, needs: needs.0 }) }
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

    /// Returns true if the volume is clean after the repair, and every file that could be reached
    /// before can be reached, with the same extents, but those that the plan names. Only then can
    /// it be committed.
    pub fn is_clean(&self) -> bool {
        self.after.clean() && self.unaccounted.is_empty()
    }

    /// Returns what would be lost or changed that the plan does not name.
    pub fn unaccounted(&self) -> &Unaccounted {
        &self.unaccounted
    }

    /// Returns the name of a feature because of which none of the plan is made:
    /// [`Repair::plan_only`].
    pub fn unsupported(&self) -> Option<&str> {
        self.unsupported
    }

    /// Returns true if the plan has more losses than are accepted.
    pub fn loses_too_much(&self) -> bool {
        self.plan.losses().count() as u64 > self.accepted.0
    }

    /// Returns true if records of a damaged journal would be discarded, and that is not accepted.
    pub fn needs_zero_log(&self) -> bool {
        self.plan.journal.is_some() && !self.zero_log
    }

    /// Returns the bytes that a commit writes.
    pub fn bytes(&self) -> u64 {
        let ranges = self.of_replay.iter().chain(&self.changed);
        let copies = self.copies.as_ref().map_or(0, |copies| copies.bytes());
        ranges.map(|range| range.end.0 - range.start.0).fold(copies, u64::saturating_add)
    }

    /// Returns the UUID of the volume.
    pub fn uuid(&self) -> Uuid {
        Uuid::from_bytes(self.superblock.uuid)
    }
}

#[cfg(test)]
mod tests;
