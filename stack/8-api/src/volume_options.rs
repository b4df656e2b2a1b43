//! How to open a volume.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode, SnapshotGroup};
use xfskit_core::uuid::NewUuid;
use xfskit_core::{JournalOptions, OnReplay, ReplayOptions};
use xfskit_target::{self as target, Base, Target};
use xfskit_units::Uuid;
use xfskit_vfs::{self as vfs, Clock, Fs};

use crate::below_volume::BelowVolume;
use crate::shared::Snapshots;
use crate::{Error, Progress, Result, Volume};

/// How to open a volume: a builder.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let volume = xfskit::VolumeOptions::new().write(true).open("disk.img")?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options open nothing until `open` is called"]
pub struct VolumeOptions {
    recovery: bool,
    write: bool,
    log: Option<Log>,
    snapshots: bool,
    pub(crate) journal: JournalOptions,
    discard: bool,
    cache_bytes: usize,
    read_limit: u64,
    pub(crate) replay: ReplayOptions,
    clock: Clock,
}

/// Where the journal of a volume with an external log is.
#[derive(Clone, Debug)]
enum Log {
    Target(PathBuf),
    Open(Arc<dyn BlockDevice>),
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            recovery: true,
            write: false,
            log: None,
            snapshots: false,
            journal: JournalOptions::default(),
            discard: false,
            cache_bytes: Self::default_cache_bytes(),
            read_limit: vfs::WHOLE_MAX,
            replay: ReplayOptions { on_progress: None, spill_dir: Some(std::env::temp_dir()) },
            clock: Clock::system(),
        }
    }
}

impl VolumeOptions {
    /// Returns the options that [`Volume::open`] uses: for reading, with recovery in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens for writing too: a dirty journal is replayed onto the target itself. Off by default.
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Replays a dirty journal. On by default; without it a volume is read as it stands on disk. A
    /// volume that is open for writing is always recovered.
    pub fn recovery(mut self, recovery: bool) -> Self {
        self.recovery = recovery;
        self
    }

    /// Names the target with the journal, for a volume with an external log.
    pub fn log(mut self, target: impl AsRef<Path>) -> Self {
        self.log = Some(Log::Target(target.as_ref().to_owned()));
        self
    }

    /// Reads the journal from `device`.
    pub(crate) fn log_from(mut self, device: Arc<dyn BlockDevice>) -> Self {
        self.log = Some(Log::Open(device));
        self
    }

    /// Opens the devices so that snapshots of them can be taken while the volume is changed. Off by
    /// default.
    pub fn snapshots(mut self, snapshots: bool) -> Self {
        self.snapshots = snapshots;
        self
    }

    /// Bounds the memory for metadata, in bytes. A quarter of the machine's memory by default.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Returns the default of [`cache_bytes`](Self::cache_bytes): a quarter of the machine's
    /// memory. If the system does not report how much there is, returns the engine's own default.
    pub fn default_cache_bytes() -> usize {
        let otherwise = xfskit_core::OpenOptions::default().cache_bytes;
        let info = rustix::system::sysinfo();
        let bytes = u128::from(info.totalram) * u128::from(info.mem_unit) / 4;
        usize::try_from(bytes).ok().filter(|&bytes| bytes > 0).unwrap_or(otherwise)
    }

    /// Sets how the journal is written, in the words of mount(8):
    /// `"logbsize=256k,wsync".parse()`.
    pub fn journal(mut self, journal: JournalOptions) -> Self {
        self.journal = journal;
        self
    }

    /// Bounds the bytes that one call returns whole: the content of a file, all attributes of one.
    /// 1 GiB by default, because a damaged volume may claim any size. [`File`](crate::File) and
    /// iterators have no bound.
    pub fn read_limit(mut self, bytes: u64) -> Self {
        self.read_limit = bytes;
        self
    }

    /// Discards freed blocks on the device, when it is durable that they are free: an image gives
    /// them back to its filesystem. Off by default.
    pub fn discard(mut self, discard: bool) -> Self {
        self.discard = discard;
        self
    }

    /// Names the directory for what the replay of a large journal in memory changes, beyond a part
    /// of the cache: it goes to a file without a name there. The system's directory for temporary
    /// files by default.
    pub fn temp_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.replay.spill_dir = Some(dir.as_ref().to_owned());
        self
    }

    /// Receives the progress of the replay of a dirty journal, in blocks of the journal.
    pub fn progress(mut self, report: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        let report = move |done, total| report(Progress { done, total });
        self.replay.on_progress = Some(OnReplay(Arc::new(report)));
        self
    }

    /// Dates changes by `now` in place of the machine's clock.
    pub fn clock(
        mut self,
        now: impl Fn() -> std::time::SystemTime + Send + Sync + 'static,
    ) -> Self {
        self.clock = Clock::new(move || crate::time::timestamp(now()));
        self
    }

    /// Opens the volume on `target`: see [`Volume::open`].
    ///
    /// # Errors
    /// As [`Volume::open`]. A volume that cannot be written is refused before anything is changed.
    pub fn open(&self, target: impl AsRef<Path>) -> Result<Volume> {
        let target = parse(target.as_ref().as_os_str())?;
        if !self.write {
            let device = target::open(&target, OpenMode::ReadOnly).map_err(Error::new)?;
            return self.open_device(device, self.log_device()?);
        }
        let (device, live) = target::open_live(&target).map_err(Error::new)?;
        let volume = self.open_device(device, self.log_device()?)?;
        let array = match (target.base, live) {
            (Base::Array(name), Some(live)) => Some(Arc::new(BelowVolume::new(*name, live))),
            _ => None,
        };
        Ok(Volume { array, ..volume })
    }

    /// Gives the volume on `target` another UUID. Its metadata keeps the one that it was made with:
    /// the volume gets the feature `meta_uuid` until that is restored. Returns both.
    ///
    /// # Errors
    /// As [`open`](Self::open) for writing.
    pub fn set_uuid(&self, target: impl AsRef<Path>, uuid: NewUuid) -> Result<(Uuid, Uuid)> {
        let options = self.clone().write(true);
        let target = parse(target.as_ref().as_os_str())?;
        let device = target::open(&target, OpenMode::ReadWrite).map_err(Error::new)?;
        let log = options.log_device()?;
        let core = xfskit_core::OpenOptions { write: false, ..options.core(log) };
        xfskit_core::uuid::set_uuid(&device, &core, uuid).map_err(Error::new)
    }

    fn mode(&self) -> OpenMode {
        if self.write { OpenMode::ReadWrite } else { OpenMode::ReadOnly }
    }

    /// Returns the device with the journal, for a volume with an external one.
    pub(crate) fn log_device(&self) -> Result<Option<Arc<dyn BlockDevice>>> {
        let open = |log: &Log| match log {
            Log::Target(name) => {
                target::open_unchecked(&parse(name.as_os_str())?, self.mode()).map_err(Error::new)
            }
            Log::Open(device) => Ok(Arc::clone(device)),
        };
        self.log.as_ref().map(open).transpose()
    }

    /// Opens the volume on a device.
    pub(crate) fn open_device(
        &self,
        device: Arc<dyn BlockDevice>,
        log_dev: Option<Arc<dyn BlockDevice>>,
    ) -> Result<Volume> {
        let group = self.snapshots.then(|| {
            let devices = std::iter::once(Arc::clone(&device)).chain(log_dev.clone());
            SnapshotGroup::new(devices.collect())
        });
        let (device, log_dev) = match &group {
            None => (device, log_dev),
            Some(group) => {
                let below = |number| -> Arc<dyn BlockDevice> { group.device(number) };
                (below(0), log_dev.map(|_| below(1)))
            }
        };
        let options = self.core(log_dev);
        let core = xfskit_core::Volume::open(device, &options).map_err(Error::new)?;
        let fs = Fs::new(core, self.clock.clone()).with_whole_max(self.read_limit);
        let dir = self.replay.spill_dir.clone();
        let snapshots = group.map(|group| Snapshots { group, dir });
        Ok(Volume { snapshots, ..Volume::new(fs) })
    }

    pub(crate) fn core(&self, log_dev: Option<Arc<dyn BlockDevice>>) -> xfskit_core::OpenOptions {
        let (recovery, write, journal) = (self.recovery, self.write, self.journal);
        let cache_bytes = self.cache_bytes;
        let replay = self.replay.clone();
        let discard = self.discard;
        xfskit_core::OpenOptions { recovery, write, log_dev, cache_bytes, journal, replay, discard }
    }
}

/// Parses the name of a target.
pub(crate) fn parse(name: &OsStr) -> Result<Target> {
    let not_utf8 = || target::Error::BadName {
        name: String::from_utf8_lossy(name.as_bytes()).into_owned(),
        why: "it is not UTF-8",
    };
    let name = name.to_str().ok_or_else(not_utf8).map_err(Error::new)?;
    Target::parse(name).map_err(Error::new)
}
