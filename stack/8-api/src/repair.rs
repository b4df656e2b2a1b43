//! A volume repaired, and a repair taken back.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_check::{Finding, Phase as CheckPhase, Report as CheckReport};
use xfskit_repair::{self as repair, Prepared};
use xfskit_target as target;
use xfskit_units::ByteLen;

pub use xfskit_repair::{
    AcceptLoss, Change as FileChange, ChangedFile, CommitPhase as RepairPhase,
    Committed as Repaired, LostJournal, Plan as RepairPlan, Step as RepairStep,
    StepKind as RepairStepKind, Unaccounted, UndoFile, Undone,
};

use crate::builder::cancel_method;
use crate::cancel_device::CancelDevice;
use crate::cause::Cause;
use crate::check::{Phases, thread_count};
use crate::progress::{Control, Report};
use crate::target::Device;
use crate::volume_options::parse;
use crate::{CancelToken, Error, Progress, Result, VolumeOptions};

/// Repairs a volume: a builder. The repair is made in memory first; nothing is written before
/// [`PreparedRepair::commit`].
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let repair = xfskit::Repair::new().prepare("disk.img")?;
/// for step in &repair.plan().steps {
///     println!("{step}"); // what is done, the evidence, what is lost
/// }
/// if repair.is_clean() {
///     let mut undo = repair.undo_file("disk.img.undo")?;
///     repair.commit(Some(&mut undo))?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing is repaired until `prepare` is called"]
pub struct Repair<'c> {
    threads: usize,
    memory: Option<u64>,
    accepted: Option<AcceptLoss>,
    zero_log: bool,
    plan_only: bool,
    phases: Report<'c, (CheckPhase, Progress)>,
    control: Control<'c>,
}

/// A repair that was made in memory.
#[derive(Debug)]
pub struct PreparedRepair {
    target: Arc<dyn BlockDevice>,
    /// What the repair reads of it.
    read: Arc<CancelDevice<Arc<dyn BlockDevice>>>,
    prepared: Prepared,
}

impl<'c> Repair<'c> {
    /// Returns a repair with one thread for each processor.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses so many threads. One for each processor by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Keeps extents of files and changes to about so many bytes of memory. More go to a file
    /// without a name in the directory for temporary files. A quarter of the machine's memory by
    /// default. Each inode takes 9 bytes beside that, each directory 32.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Accepts so many losses of the plan. None by default: a plan with losses is not written.
    pub fn accept_loss(mut self, accepted: AcceptLoss) -> Self {
        self.accepted = Some(accepted);
        self
    }

    /// Accepts that the records of a damaged journal behind the damage are discarded. By default a
    /// plan that does so is not written: [`PreparedRepair::needs_zero_log`].
    pub fn zero_log(mut self, zero_log: bool) -> Self {
        self.zero_log = zero_log;
        self
    }

    /// Of a volume that is not repaired yet (version 4, a realtime device, metadata directories, an
    /// external log), makes the plan: what it needs. By default that is an error. Such a plan
    /// cannot be committed: [`PreparedRepair::unsupported`].
    pub fn plan_only(mut self, plan_only: bool) -> Self {
        self.plan_only = plan_only;
        self
    }

    /// Receives the progress of each phase of the survey, and then of the second check.
    pub fn phases(mut self, report: impl Fn(CheckPhase, Progress) + Sync + 'c) -> Self {
        self.phases = Report::new(move |(phase, progress)| report(phase, progress));
        self
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled).
    }

    /// Makes the repair of the volume on `target` in memory. Nothing is written to it. It is locked
    /// against other writers until the result is dropped.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) names what is not repaired yet,
    /// [`JournalDamaged`](crate::ErrorKind::JournalDamaged), and those of opening the target.
    /// Damage without a repair is no error: see [`PreparedRepair::is_clean`].
    pub fn prepare(&self, target: impl AsRef<Path>) -> Result<PreparedRepair> {
        let target = parse(target.as_ref().as_os_str())?;
        self.prepared(target::open(&target, OpenMode::ReadWrite).map_err(Error::new)?)
    }

    /// Makes the repair of the volume on `device`, as [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare). [`ReadOnly`](crate::ErrorKind::ReadOnly) at the commit where
    /// the device is open for reading.
    pub fn prepare_device(&self, device: &Device) -> Result<PreparedRepair> {
        self.prepared(device.shared())
    }

    fn prepared(&self, device: Arc<dyn BlockDevice>) -> Result<PreparedRepair> {
        let cancel = &self.control.cancel;
        let progress = |phase: CheckPhase, done, total| {
            self.phases.report((phase, Progress { done, total }));
        };
        let phases = Phases(&progress);
        let repair = repair::Repair::new().threads(thread_count(self.threads)).progress(&phases);
        let memory = self.memory.unwrap_or(VolumeOptions::default_cache_bytes() as u64);
        let repair = repair.memory(ByteLen(memory), &std::env::temp_dir());
        let repair = self.accepted.into_iter().fold(repair, repair::Repair::accept_loss);
        let repair = repair.zero_log(self.zero_log).plan_only(self.plan_only);
        let below = Arc::new(CancelDevice::new(Arc::clone(&device), cancel.clone()));
        let read = Arc::clone(&below);
        let prepared = repair.prepare(below);
        if cancel.is_cancelled() {
            return Err(Error::new(Cause::Cancelled));
        }
        Ok(PreparedRepair { target: device, read, prepared: prepared.map_err(Error::new)? })
    }
}

impl PreparedRepair {
    /// Returns what is done, and on which evidence.
    pub fn plan(&self) -> &RepairPlan {
        self.prepared.plan()
    }

    /// Returns the counts of the check before the repair, with the journal replayed.
    pub fn before(&self) -> &CheckReport {
        self.prepared.before()
    }

    /// Returns the counts of the check after the repair.
    pub fn after(&self) -> &CheckReport {
        self.prepared.after()
    }

    /// Returns the findings of the check after the repair, warnings among them.
    pub fn left(&self) -> &[Finding] {
        self.prepared.left()
    }

    /// Returns true if the volume is clean after the repair, and every file that could be reached
    /// before can be reached, with the same extents, but those that the plan names. Only then can
    /// it be committed.
    pub fn is_clean(&self) -> bool {
        self.prepared.is_clean()
    }

    /// Returns the files and names that would be lost or changed without a word of it in the plan.
    /// There are none, unless this program has a defect.
    pub fn unaccounted(&self) -> &Unaccounted {
        self.prepared.unaccounted()
    }

    /// Returns the name of a feature because of which none of the plan is made, and nothing can be
    /// committed.
    pub fn unsupported(&self) -> Option<&str> {
        self.prepared.unsupported()
    }

    /// Returns true if the plan has more losses than are [accepted](Repair::accept_loss). Then it
    /// cannot be committed.
    pub fn loses_too_much(&self) -> bool {
        self.prepared.loses_too_much()
    }

    /// Returns true if records of a damaged journal would be discarded, and that is not
    /// [accepted](Repair::zero_log). Then it cannot be committed. The plan says what is lost.
    pub fn needs_zero_log(&self) -> bool {
        self.prepared.needs_zero_log()
    }

    /// Returns the bytes that a commit writes; 0 where there is nothing to repair.
    pub fn bytes(&self) -> u64 {
        self.prepared.bytes()
    }

    /// Creates an undo file for the commit. A file that exists is not overwritten.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists), and others of creating the file.
    pub fn undo_file(&self, path: impl AsRef<Path>) -> Result<UndoFile> {
        let (uuid, size) = (self.prepared.uuid(), self.target.size());
        UndoFile::create(path.as_ref(), uuid, size).map_err(Error::new)
    }

    /// Writes the repair. All overwritten content goes to `undo` first. Until the last write Linux
    /// refuses the volume (`needsrepair`); after a crash the same repair finishes it.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where [`unsupported`](Self::unsupported)
    /// names a feature; [`Corrupt`](crate::ErrorKind::Corrupt) where [`is_clean`](Self::is_clean)
    /// is false or [`loses_too_much`](Self::loses_too_much) is true;
    /// [`JournalDamaged`](crate::ErrorKind::JournalDamaged) where
    /// [`needs_zero_log`](Self::needs_zero_log) is true; and those of writing.
    pub fn commit(&self, undo: Option<&mut UndoFile>) -> Result<Repaired> {
        self.read.go_on();
        self.prepared.commit(&*self.target, undo).map_err(Error::new)
    }

    /// Writes the repair as [`commit`](Self::commit) does, and reports the progress of each phase
    /// in bytes. Where the token is cancelled before the first write to the target, nothing is
    /// written; later it is too late to stop.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), and [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn commit_with(
        &self,
        undo: Option<&mut UndoFile>,
        cancel: &CancelToken,
        mut report: impl FnMut(RepairPhase, Progress),
    ) -> Result<Repaired> {
        let mut progress = |phase, done, total| {
            report(phase, Progress { done, total });
            if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        // Between two pieces of the undo file the token is asked, and no more after that.
        self.read.go_on();
        let written = self.prepared.commit_with(&*self.target, undo, &mut progress);
        written.map_err(|error| match error {
            repair::Error::Stopped => Error::new(Cause::Cancelled),
            error => Error::new(error),
        })
    }
}

/// Takes the repair back that wrote `file`, on the volume of `target`.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) where the file is damaged or belongs to another
/// volume, or the volume was changed since; nothing was written. Those of the target.
pub fn undo(file: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<Undone> {
    let target = parse(target.as_ref().as_os_str())?;
    // The repair may have been interrupted: any content will do.
    let device = target::open_unchecked(&target, OpenMode::ReadWrite).map_err(Error::new)?;
    repair::undo(file.as_ref(), &*device).map_err(Error::new)
}
