//! The order of a repair: journal, survey, changes on an overlay, second check.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_check::{self as check, Finding, KnownChunks, Progress, Report, Silent, Survey};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::sb::Superblock;
use xfskit_units::{AgNumber, ByteLen, ByteOffset, Geometry, Uuid, Version};

use crate::changes::changed;
use crate::classes::Classes;
use crate::discover::{self, Evidence};
use crate::error::{Error, Result};
use crate::plan::{Plan, Step, StepKind};
use crate::steps::Changes;
use crate::superblocks;

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
    plan: Plan,
    before: Report,
    after: Report,
    left: Vec<Finding>,
}

/// A volume as it was before it is changed.
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
        let replayed = self.replayed(&target, &sb, &mut plan)?;
        let overlay = match &replayed {
            Some(replayed) => self.overlay(&(Arc::clone(replayed) as _)),
            None => self.overlay(&target),
        };
        let Surveyed { before, survey, classes, evidence } = self.surveyed(&*overlay)?;
        let geo = survey.superblock.geometry();
        let mut changes =
            Changes { overlay: &overlay, geo: &geo, survey: &survey, plan: &mut plan };
        changes.make(classes, &evidence)?;
        let mut left = Vec::new();
        let after = check::check(&*overlay, None, &self.options(), &mut |finding| {
            left.push(finding);
        })?;
        let superblock = survey.superblock;
        let sector = geo.sectsize();
        let of_replay = replayed.as_ref().map_or(Ok(Vec::new()), |dev| changed(dev, sector))?;
        let changed = changed(&overlay, sector)?;
        Ok(Prepared {
            replayed,
            overlay,
            geo,
            superblock,
            of_replay,
            changed,
            plan,
            before,
            after,
            left,
        })
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
        // The second survey did not read these btrees: their findings are those of the first.
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

    /// Returns an overlay on which a dirty journal is replayed; `None` if it is clean.
    fn replayed(
        &self,
        target: &Arc<dyn BlockDevice>,
        sb: &Superblock,
        plan: &mut Plan,
    ) -> Result<Option<Arc<OverlayDevice>>> {
        let geo = sb.geometry();
        let failed = |error: &dyn std::error::Error| Error::Journal(error.to_string());
        let log = xfskit_recovery::open_log(&**target, None, &geo).map_err(|e| failed(&e))?;
        if log.is_clean() {
            return Ok(None);
        }
        let overlay = self.overlay(target);
        if superblocks::is_due(sb) {
            superblocks::write(&*overlay, &geo, AgNumber(0), &superblocks::without_mark(sb))?;
        }
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let volume = Volume::open(Arc::clone(&overlay) as _, &options);
        volume.and_then(Volume::close).map_err(|e| failed(&e))?;
        plan.steps.push(Step {
            id: "journal".into(),
            kind: StepKind::Journal,
            what: "replay the journal".into(),
            evidence: vec!["its records are whole".into()],
            lost: Vec::new(),
            findings: Vec::new(),
        });
        Ok(Some(overlay))
    }
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
        let ranges = self.of_replay.iter().chain(&self.changed);
        ranges.map(|range| range.end.0 - range.start.0).sum()
    }

    /// Returns the UUID of the volume.
    pub fn uuid(&self) -> Uuid {
        Uuid::from_bytes(self.superblock.uuid)
    }
}
