//! A volume checked.

use std::path::Path;
use std::sync::Arc;

use xfskit_block::{BlockDevice, Error as DeviceError, OpenMode, Result as DeviceResult};
use xfskit_check::{self as check, Finding, Phase};
use xfskit_format::Corruption;
use xfskit_target as target;
use xfskit_units::{ByteLen, ByteOffset};

use crate::cause::Cause;
use crate::progress::{Control, Report};
use crate::volume_options::parse;
use crate::{CancelToken, Error, Progress, Result, VolumeOptions};

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
    control: Control<'c>,
}

/// The result of a [`Check`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The findings, in the order of the check.
    pub findings: Vec<Finding>,
    /// Findings that are errors, and those that end the use of the volume.
    pub errors: u64,
    /// Findings that are warnings.
    pub warnings: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories.
    pub directories: u64,
    /// Blocks of the volume, and those that are free.
    pub blocks: u64,
    /// Blocks that are free.
    pub blocks_free: u64,
}

impl Checked {
    /// Returns true if nothing worse than a warning was found.
    pub fn is_clean(&self) -> bool {
        self.errors == 0
    }
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
    /// its parity says.
    pub fn copies(mut self, copies: bool) -> Self {
        self.copies = copies;
        self
    }

    /// Receives the progress of each phase, in units of the phase.
    pub fn progress(mut self, report: impl Fn(Progress) + Sync + 'c) -> Self {
        self.control.report = Report::new(report);
        self
    }

    /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.control.cancel = token.clone();
        self
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
        let device = target::open(&target, OpenMode::ReadOnly)?;
        let log = self.options.log_device()?;
        let (device, primary) = self.replayed(device, log.clone());
        let cancel = &self.control.cancel;
        let device = CancelDevice { below: &*device, cancel };
        let progress = |_: Phase, done, total| self.control.report(done, total);
        let options = check::Options {
            threads: self.thread_count(),
            scrub: self.copies,
            primary: primary.as_ref(),
            progress: &Phases(&progress),
            ..check::Options::default()
        };
        let report = check::check(&device, log.as_deref(), &options, &mut |finding| {
            // The reads that the cancellation made fail are no findings.
            if !cancel.is_cancelled() {
                found(finding);
            }
        });
        if cancel.is_cancelled() {
            return Err(Error::new(Cause::Cancelled));
        }
        let report = report?;
        Ok(Checked {
            findings: Vec::new(),
            errors: report.errors + report.fatals,
            warnings: report.warnings,
            inodes: report.inodes,
            directories: report.directories,
            blocks: report.blocks,
            blocks_free: report.blocks_free,
        })
    }

    fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    /// Returns the device with its journal replayed in memory, where that is wanted and can be
    /// done, and the corruption of the primary superblock that the replay hides.
    fn replayed(
        &self,
        device: Arc<dyn BlockDevice>,
        log: Option<Arc<dyn BlockDevice>>,
    ) -> (Arc<dyn BlockDevice>, Option<Corruption>) {
        if self.no_recovery {
            return (device, None);
        }
        // A volume too damaged to be opened is checked as it lies.
        let Ok(volume) = xfskit_core::Volume::open(Arc::clone(&device), &self.options.core(log))
        else {
            return (device, None);
        };
        let replayed = volume.replay().is_some_and(|replay| !replay.clean);
        let secondary = volume.secondary_superblock().filter(|_| replayed);
        let primary = secondary.map(|secondary| (*secondary.corruption).clone());
        (Arc::clone(volume.device()), primary)
    }
}

/// Reports the progress of all phases.
struct Phases<'p>(&'p (dyn Fn(Phase, u64, u64) + Sync));

impl check::Progress for Phases<'_> {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        (self.0)(phase, done, total);
    }
}

/// A device whose reads fail once the check is cancelled, which so ends soon.
struct CancelDevice<'c> {
    below: &'c dyn BlockDevice,
    cancel: &'c CancelToken,
}

impl std::fmt::Debug for CancelDevice<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CancelDevice")
    }
}

impl CancelDevice<'_> {
    fn verify(&self, offset: ByteOffset, len: usize) -> DeviceResult<()> {
        if !self.cancel.is_cancelled() {
            return Ok(());
        }
        let source = std::io::Error::other("cancelled");
        Err(DeviceError::Io { op: "read", offset, len: ByteLen(len as u64), source })
    }
}

impl BlockDevice for CancelDevice<'_> {
    xfskit_block::plain!(write_batch, write_fua, discard, write_zeroes, heal);
    xfskit_block::forward!(this => *this.below; size, logical_block_size, physical_block_size,
        topology, will_need, skip_hole, alternatives);

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> DeviceResult<()> {
        self.verify(offset, buf.len())?;
        self.below.read_at(offset, buf)
    }

    fn read_batch(&self, batch: &mut [xfskit_block::IoRead<'_>]) -> Vec<DeviceResult<()>> {
        if self.cancel.is_cancelled() {
            let failed = batch.iter().map(|read| self.verify(read.offset, read.buf.len()));
            return failed.collect();
        }
        self.below.read_batch(batch)
    }

    fn write_at(&self, _: ByteOffset, _: &[u8]) -> DeviceResult<()> {
        Err(DeviceError::ReadOnly)
    }

    fn flush(&self) -> DeviceResult<()> {
        Ok(())
    }

    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> DeviceResult<()> {
        self.verify(offset, buf.len())?;
        self.below.read_alternative(offset, buf, k)
    }
}
