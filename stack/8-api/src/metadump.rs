//! The metadata of a volume in a file, and the file in a volume again.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_metadump::{self as metadump, Dump, Prepared, Reader, Targets, Watch, restore};
use xfskit_target::{self as target, Target};
use xfskit_units::{ByteLen, Uuid};

use crate::builder::{cancel_method, progress_method};
use crate::cause::Cause;
use crate::check::thread_count;
use crate::mkfs::image_path;
use crate::progress::{Control, Report};
use crate::target::Device;
use crate::volume_options::parse;
use crate::{CancelToken, Error, Progress, Result, VolumeOptions};

pub use xfskit_metadump::{
    Content as MetadumpContent, FileFormat as MetadumpFormat, Handling as JournalHandling,
    JournalMode as MetadumpJournal, Phase as MetadumpPhase, Report as MetadumpReport,
    Restored as RestoredMetadump, Warning as MetadumpWarning, WarningKind as MetadumpWarningKind,
};

/// Copies the metadata of a volume to a file that `xfs_mdrestore` reads: a builder. Nothing is
/// written to the volume, and no content of files is copied.
///
/// Names are obfuscated by default so that their hashes stay, and values of attributes are cleared.
/// Damage does not end a copy: [`MetadumpReport::warnings`] has it.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let metadump = xfskit::Metadump::new().prepare("disk.img")?; // refusals come here
/// let report = metadump.write(std::fs::File::create("disk.metadump")?)?;
/// println!("{} bytes, {} warnings", report.file_bytes, report.warnings.len());
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is copied until `prepare` and `write` are called"]
pub struct Metadump<'c> {
    options: VolumeOptions,
    dump: Dump,
    obfuscate: bool,
    key: Option<[u8; 16]>,
    phases: Report<'c, (MetadumpPhase, Progress)>,
    control: Control<'c>,
}

/// A [`Metadump`] of a volume that passed all checks.
#[derive(Debug)]
#[must_use = "nothing is copied until `write` is called"]
pub struct PreparedMetadump<'c> {
    prepared: Prepared,
    phases: Report<'c, (MetadumpPhase, Progress)>,
    control: Control<'c>,
}

impl Default for Metadump<'_> {
    fn default() -> Self {
        Self {
            options: VolumeOptions::default(),
            dump: Dump { threads: 0, ..Dump::default() },
            obfuscate: true,
            key: None,
            phases: Report::default(),
            control: Control::default(),
        }
    }
}

impl<'c> Metadump<'c> {
    /// Returns a copy with obfuscation by a random key.
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

    /// Obfuscates names and clears values of attributes. On by default.
    pub fn obfuscate(mut self, obfuscate: bool) -> Self {
        self.obfuscate = obfuscate;
        self
    }

    /// Sets the secret key of the obfuscation. One key gives one result for a name. A random one by
    /// default.
    pub fn key(mut self, key: [u8; 16]) -> Self {
        self.key = Some(key);
        self
    }

    /// Copies parts of blocks that no structure uses, too. They are not obfuscated. Off by default.
    pub fn full_blocks(mut self, full: bool) -> Self {
        self.dump.zero_stale = !full;
        self
    }

    /// Sets the format of the file. By default version 1 where it can hold everything.
    pub fn format(mut self, format: MetadumpFormat) -> Self {
        self.dump.format = Some(format);
        self
    }

    /// Sets what to do with the journal.
    pub fn journal(mut self, mode: MetadumpJournal) -> Self {
        self.dump.journal = mode;
        self
    }

    /// Fails where a range cannot be read, in place of leaving it out. Off by default.
    pub fn strict(mut self, strict: bool) -> Self {
        self.dump.stop_on_error = strict;
        self
    }

    /// Copies with so many threads. One for each processor by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.dump.threads = threads;
        self
    }

    /// Receives the progress of each phase, with the phase.
    pub fn phases(mut self, report: impl Fn(MetadumpPhase, Progress) + Sync + 'c) -> Self {
        self.phases = Report::new(move |(phase, progress)| report(phase, progress));
        self
    }

    progress_method! {
        /// Receives the progress of each phase: groups while the btrees are walked, then bytes.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled).
    }

    /// Opens the volume on `target`, and decides what to do with its journal.
    ///
    /// # Errors
    /// [`NotXfs`](crate::ErrorKind::NotXfs) and the like; [`Unsupported`](crate::ErrorKind) for
    /// what cannot be copied; [`JournalUnreadable`](crate::ErrorKind::JournalUnreadable) for a
    /// dirty journal whose names cannot be obfuscated.
    pub fn prepare(self, target: impl AsRef<Path>) -> Result<PreparedMetadump<'c>> {
        let target = parse(target.as_ref().as_os_str())?;
        let device = target::open(&target, OpenMode::ReadOnly).map_err(Error::new)?;
        self.prepare_on(device)
    }

    /// Does the same with a device that is open already.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_device(self, device: &Device) -> Result<PreparedMetadump<'c>> {
        self.prepare_on(device.shared())
    }

    fn prepare_on(self, device: Arc<dyn BlockDevice>) -> Result<PreparedMetadump<'c>> {
        let log = self.options.log_device()?;
        let key = self.key.unwrap_or_else(|| *Uuid::new_v4().as_bytes());
        // Some of the threads wait for the device.
        let threads = 2 * thread_count(self.dump.threads);
        let dump = Dump { obfuscate: self.obfuscate.then_some(key), threads, ..self.dump };
        let prepared = dump.prepare(device, log).map_err(Error::new)?;
        Ok(PreparedMetadump { prepared, phases: self.phases, control: self.control })
    }
}

impl PreparedMetadump<'_> {
    /// Returns the format that the file will have.
    pub fn format(&self) -> MetadumpFormat {
        self.prepared.format()
    }

    /// Writes the file to `out`.
    ///
    /// # Errors
    /// Those of `out`, and [`Cancelled`](crate::ErrorKind::Cancelled).
    pub fn write(self, out: impl Write) -> Result<MetadumpReport> {
        let progress = |phase: MetadumpPhase, done, total| {
            self.phases.report((phase, Progress { done, total }));
            self.control.report(done, total);
        };
        let phases = Phases(&progress);
        let watch = Watch { progress: &phases, cancelled: self.control.cancel.flag() };
        let (_, report) = self.prepared.write(out, watch).map_err(Error::new)?;
        Ok(report)
    }
}

/// Reports the progress of all phases.
struct Phases<'p>(&'p (dyn Fn(MetadumpPhase, u64, u64) + Sync));

impl metadump::Progress for Phases<'_> {
    fn report(&self, phase: MetadumpPhase, done: u64, total: u64) {
        (self.0)(phase, done, total);
    }
}

/// What a file that [`Metadump`] or `xfs_metadump` wrote says about itself.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct MetadumpInfo {
    /// The format of the file.
    pub format: MetadumpFormat,
    /// How it was made; `None` where an old program wrote it.
    pub content: Option<MetadumpContent>,
    /// Bytes of the volume; `None` if the superblock in the file is damaged.
    pub volume_bytes: Option<u64>,
}

impl MetadumpInfo {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a file of another kind; those of
    /// `source`.
    pub fn read(source: impl Read) -> Result<Self> {
        let reader = Reader::open(source).map_err(Error::new)?;
        Ok(Self {
            format: reader.format(),
            content: reader.content(),
            volume_bytes: restore::volume_bytes(&reader),
        })
    }
}

/// Makes a volume of a file that [`Metadump`] or `xfs_metadump` wrote: a builder. The volume has
/// all metadata. Its files have their sizes, and no content.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = std::fs::File::open("disk.metadump")?;
/// xfskit::RestoreMetadump::new().run(file, "copy.img")?;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing is restored until `run` is called"]
pub struct RestoreMetadump<'c> {
    log: Option<PathBuf>,
    realtime: Option<PathBuf>,
    force: bool,
    partial: bool,
    control: Control<'c>,
}

impl<'c> RestoreMetadump<'c> {
    /// Returns a restore to a new image.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the target for the journal, for a file with an external log.
    pub fn log(mut self, target: impl AsRef<Path>) -> Self {
        self.log = Some(target.as_ref().to_owned());
        self
    }

    /// Names the target for the realtime device, for a file with metadata of one.
    pub fn realtime(mut self, target: impl AsRef<Path>) -> Self {
        self.realtime = Some(target.as_ref().to_owned());
        self
    }

    /// Overwrites what is on the target. Without it, only new images are made.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Keeps what an incomplete file has, in place of failing.
    pub fn partial(mut self, partial: bool) -> Self {
        self.partial = partial;
        self
    }

    progress_method! {
        /// Receives the progress, in bytes of the file.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled). The
        /// target is no volume then.
    }

    /// Restores the file `source` to `target`. An image that does not exist is made.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for a target without
    /// [`force`](Self::force); [`InvalidInput`](crate::ErrorKind::InvalidInput) for a file of
    /// another kind or a damaged one; those of the target.
    pub fn run(&self, source: impl Read, target: impl AsRef<Path>) -> Result<RestoredMetadump> {
        let reader = Reader::open(source).map_err(Error::new)?;
        let superblock = reader.superblock();
        let Some(size) = restore::volume_bytes(&reader) else {
            return Err(Error::new(metadump::Error::DamagedFile {
                offset: 0,
                what: "the superblock in it is damaged, so the size of the volume is not known"
                    .to_owned(),
            }));
        };
        let bytes = |blocks: u64| ByteLen(blocks.saturating_mul(1 << superblock.blocklog));
        let log_size = bytes(superblock.logblocks.get().into());
        let realtime_size = bytes(superblock.rblocks.get());
        let content = reader.content().unwrap_or_default();
        if content.external_log && self.log.is_none() {
            return Err(Error::new(metadump::Error::ExternalLogTarget));
        }
        if content.realtime && self.realtime.is_none() {
            return Err(Error::new(metadump::Error::RealtimeTarget));
        }
        let unused = |name: &Option<PathBuf>, wanted: bool| {
            name.as_ref().filter(|_| !wanted).map(|name| name.display().to_string())
        };
        if let Some(log) = unused(&self.log, content.external_log) {
            return Err(Error::new(metadump::Error::NoExternalLog(log)));
        }
        if let Some(realtime) = unused(&self.realtime, content.realtime) {
            return Err(Error::new(metadump::Error::NoRealtime(realtime)));
        }
        let mut made = Made::default();
        let data = made.device(target.as_ref(), ByteLen(size), self.force)?;
        let mut device = |name: &Option<PathBuf>, size| {
            name.as_ref().map(|name| made.device(name, size, self.force)).transpose()
        };
        let log = device(&self.log, log_size)?;
        let realtime = device(&self.realtime, realtime_size)?;
        let total = 0;
        let restore = metadump::Restore {
            partial: self.partial,
            progress: &|done| self.control.report(done, total),
            cancelled: self.control.cancel.flag(),
        };
        let (log, realtime) = (log.as_deref(), realtime.as_deref());
        let targets = Targets { data: &*data, log, realtime };
        let restored = restore.run(reader, targets).map_err(Error::new)?;
        made.keep();
        Ok(restored)
    }
}

/// Images that were made, which are removed if the restore fails.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    /// Opens a target of at least `size` bytes. An image that does not exist is made; another
    /// target is refused without `force`.
    fn device(&mut self, name: &Path, size: ByteLen, force: bool) -> Result<Arc<dyn BlockDevice>> {
        let target: Target = parse(name.as_os_str())?;
        let path = image_path(&target);
        if let Some(path) = path.filter(|path| !path.exists()) {
            let device = target::create(&target, size).map_err(Error::new)?;
            self.0.push(path.clone());
            return Ok(device);
        }
        if !force {
            return Err(Error::new(Cause::Occupied));
        }
        match path.filter(|path| path.is_file()) {
            // What the file had would show through where the volume has no metadata.
            Some(path) => {
                let emptied = FileDevice::open(path, OpenMode::ReadWrite).and_then(|mut file| {
                    file.resize(ByteLen(0))?;
                    file.resize(size)?;
                    Ok(file)
                });
                Ok(Arc::new(emptied.map_err(Error::new)?))
            }
            None => target::open_unchecked(&target, OpenMode::ReadWrite).map_err(Error::new),
        }
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}
