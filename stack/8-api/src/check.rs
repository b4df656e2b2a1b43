//! A volume checked.

use std::path::Path;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_check::{self as check, Finding, Memory, Mismatches};
use xfskit_check::{Phase as CheckPhase, Report as CheckReport};
use xfskit_format::Corruption;
use xfskit_target as target;
use xfskit_units::ByteLen;

use crate::builder::{cancel_method, progress_method};
use crate::cancel_device::CancelDevice;
use crate::cause::Cause;
use crate::progress::{Control, Report};
use crate::target::Device;
use crate::volume_options::parse;
use crate::{CancelToken, Error, ErrorKind, Progress, Result, Volume, VolumeOptions};

/// Checks every structure of a volume: a builder. Nothing is written to the target.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let checked = xfskit::Check::new().run("disk.img")?;
/// for finding in &checked.findings {
///     println!("{finding}"); // where, what was expected, what was found, [id]
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing is checked until `run` is called"]
pub struct Check<'c> {
    options: VolumeOptions,
    no_recovery: bool,
    threads: usize,
    copies: bool,
    heal: bool,
    phases: Report<'c, (CheckPhase, Progress)>,
    control: Control<'c>,
}

/// The result of a [`Check`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The findings, in the order of the check.
    pub findings: Vec<Finding>,
    /// The counts.
    pub report: CheckReport,
}

impl Checked {
    /// Returns true if nothing worse than a warning was found.
    pub fn is_clean(&self) -> bool {
        self.report.clean()
    }
}

/// A device to check, with the journal on `log`.
struct ToCheck<'d> {
    device: &'d dyn BlockDevice,
    log: Option<&'d dyn BlockDevice>,
    /// The corruption of the primary superblock that a replay in memory hides.
    primary: Option<Corruption>,
    /// The ranges on which members of an array disagree.
    mismatches: Option<&'d Mismatches>,
}

impl<'c> Check<'c> {
    /// Returns a check with one thread for each processor.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the target with the journal, for a volume with an external log.
    pub fn log(mut self, target: impl AsRef<Path>) -> Self {
        self.options = self.options.log(target);
        self
    }

    /// Reads the journal of a volume with an external log from a device that is open already.
    pub fn log_on(mut self, device: Device) -> Self {
        self.options = self.options.log_on(device);
        self
    }

    /// Replays a dirty journal in memory first. On by default: in the middle of a replay the parts
    /// of a volume need not agree.
    pub fn recovery(mut self, recovery: bool) -> Self {
        self.no_recovery = !recovery;
        self
    }

    /// Checks with so many threads. One for each processor by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Reads every copy of each block that the device has too: the mirrors of an array, and what
    /// its parity gives.
    pub fn copies(mut self, copies: bool) -> Self {
        self.copies = copies;
        self
    }

    /// Lets the device rewrite bad copies of blocks that have a sound one. Off by default.
    pub fn heal(mut self, heal: bool) -> Self {
        self.heal = heal;
        self
    }

    /// Receives the progress of each phase, with the phase.
    pub fn phases(mut self, report: impl Fn(CheckPhase, Progress) + Sync + 'c) -> Self {
        self.phases = Report::new(move |(phase, progress)| report(phase, progress));
        self
    }

    progress_method! {
        /// Receives the progress of each phase, in units of the phase.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled).
    }

    /// Checks the volume on `target`. Damage is a finding, not an error.
    ///
    /// # Errors
    /// [`NotXfs`](crate::ErrorKind::NotXfs) and the like where there is nothing to check, and those
    /// of opening the target.
    pub fn run(&self, target: impl AsRef<Path>) -> Result<Checked> {
        let mut findings = Vec::new();
        let checked = self.run_with(target, |finding| findings.push(finding))?;
        Ok(Checked { findings, ..checked })
    }

    /// Checks the volume on `target`, and passes each finding to `found` as it is made.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(
        &self,
        target: impl AsRef<Path>,
        mut found: impl FnMut(Finding) + Send,
    ) -> Result<Checked> {
        let target = parse(target.as_ref().as_os_str())?;
        let device = target::open(&target, OpenMode::ReadOnly).map_err(Error::new)?;
        self.run_on(device, None, &mut found)
    }

    /// Checks the volume on a device that is open already, and passes each finding to `found` as it
    /// is made.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_device_with(
        &self,
        device: &Device,
        mut found: impl FnMut(Finding) + Send,
    ) -> Result<Checked> {
        self.run_on(device.shared(), None, &mut found)
    }

    /// Checks the volume on `device`, with its journal replayed in memory where that is wanted and
    /// can be done. Records which files have content in the ranges of `mismatches`.
    pub(crate) fn run_on(
        &self,
        device: Arc<dyn BlockDevice>,
        mismatches: Option<&Mismatches>,
        found: &mut (dyn FnMut(Finding) + Send),
    ) -> Result<Checked> {
        let log = self.options.log_device()?;
        let options = self.options.clone().recovery(!self.no_recovery);
        let opened = match options.open_device(Arc::clone(&device), log.clone()) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(error),
            // A volume too damaged to be opened is checked as it lies.
            opened => opened.ok().filter(|_| !self.no_recovery),
        };
        match opened {
            Some(volume) => self.run_under(&volume, log.as_deref(), mismatches, found),
            None => self.run_device(
                &ToCheck { device: &*device, log: log.as_deref(), primary: None, mismatches },
                self.heal,
                found,
            ),
        }
    }

    /// Checks the volume on `device` as it lies, and has bad blocks rewritten. Records which files
    /// have content in the ranges of `mismatches`.
    pub(crate) fn run_healing(
        &self,
        device: &dyn BlockDevice,
        mismatches: &Mismatches,
        found: &mut (dyn FnMut(Finding) + Send),
    ) -> Result<Checked> {
        let log = self.options.log_device()?;
        let (log, mismatches) = (log.as_deref(), Some(mismatches));
        self.run_device(&ToCheck { device, log, primary: None, mismatches }, true, found)
    }

    /// Returns how the volume is opened.
    pub(crate) fn options(&self) -> &VolumeOptions {
        &self.options
    }

    /// Checks an open volume, and passes each finding to `found` as it is made: what the target
    /// holds, with the journal as the volume was opened, replayed in memory or not. Nothing else
    /// should change the volume meanwhile.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_volume(
        &self,
        volume: &Volume,
        mut found: impl FnMut(Finding) + Send,
    ) -> Result<Checked> {
        let _running = volume.owner.enter()?;
        self.run_under(volume, self.options.log_device()?.as_deref(), None, &mut found)
    }

    fn run_under(
        &self,
        volume: &Volume,
        log: Option<&dyn BlockDevice>,
        mismatches: Option<&Mismatches>,
        found: &mut (dyn FnMut(Finding) + Send),
    ) -> Result<Checked> {
        let volume = volume.owner.volume();
        let replayed = volume.replay().is_some_and(|replay| !replay.clean);
        let secondary = volume.secondary_superblock().filter(|_| replayed);
        let primary = secondary.map(|secondary| (*secondary.corruption).clone());
        let to_check = ToCheck { device: &**volume.device(), log, primary, mismatches };
        self.run_device(&to_check, self.heal, found)
    }

    fn run_device(
        &self,
        to_check: &ToCheck<'_>,
        heal: bool,
        found: &mut (dyn FnMut(Finding) + Send),
    ) -> Result<Checked> {
        let cancel = &self.control.cancel;
        let device = CancelDevice::new(to_check.device, cancel.clone());
        let progress = |phase: CheckPhase, done, total| {
            self.phases.report((phase, Progress { done, total }));
            self.control.report(done, total);
        };
        let (memory, dir) = (VolumeOptions::default_cache_bytes(), std::env::temp_dir());
        let options = check::Options {
            threads: thread_count(self.threads),
            // The members of an array were compared already.
            scrub: self.copies && to_check.mismatches.is_none(),
            heal,
            primary: to_check.primary.as_ref(),
            chunks: None,
            owners: None,
            mismatches: to_check.mismatches,
            digests: false,
            memory: Some(Memory { bytes: ByteLen(memory as u64), dir: &dir }),
            progress: &Phases(&progress),
        };
        let report = check::check(&device, to_check.log, &options, &mut |finding| {
            // The reads that the cancellation made fail are no findings.
            if !cancel.is_cancelled() {
                found(finding);
            }
        });
        if cancel.is_cancelled() {
            return Err(Error::new(Cause::Cancelled));
        }
        Ok(Checked { findings: Vec::new(), report: report.map_err(Error::new)? })
    }
}

/// Returns the number of threads; 0 asks for one for each processor.
pub(crate) fn thread_count(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// Reports the progress of all phases.
pub(crate) struct Phases<'p>(pub &'p (dyn Fn(CheckPhase, u64, u64) + Sync));

impl check::Progress for Phases<'_> {
    fn report(&self, phase: CheckPhase, done: u64, total: u64) {
        (self.0)(phase, done, total);
    }
}
