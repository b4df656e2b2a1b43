//! Opening volumes, and making them.

use std::sync::Arc;

use xfskit_core::uuid::{NewUuid, set_uuid};
use xfskit_core::{JournalOptions, ReplayOptions};

use crate::block::{BlockDevice, OpenMode};
use crate::target::{self, Target};
use crate::units::Uuid;
use crate::vfs::{self, Fs};
use crate::{Result, Volume, core, mkfs};

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Replay a dirty journal, in memory. On unless turned off.
    pub recovery: bool,
    /// Changes are wanted: a dirty journal is replayed onto the target itself. Off unless turned
    /// on.
    pub write: bool,
    /// The target with the journal, for a volume with an external log.
    pub log: Option<String>,
    /// How the journal is written, where changes are wanted: `"logbsize=256k,wsync".parse()`.
    pub journal: JournalOptions,
    /// Memory for metadata, in bytes. [`quarter_of_memory`] unless said otherwise.
    pub cache_bytes: usize,
    /// Bytes that one call returns whole, at most: the content of a file, a directory, all
    /// attributes of a file. [`vfs::WHOLE_MAX`] unless said otherwise.
    pub whole_max: u64,
    /// How a dirty journal is replayed. What a replay in memory changes goes to the system's
    /// directory for temporary files, beyond a part of `cache_bytes`, unless said otherwise.
    pub replay: ReplayOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            recovery: true,
            write: false,
            log: None,
            journal: JournalOptions::default(),
            cache_bytes: quarter_of_memory(),
            whole_max: vfs::WHOLE_MAX,
            replay: ReplayOptions { on_progress: None, spill_dir: Some(std::env::temp_dir()) },
        }
    }
}

/// A quarter of the machine's memory, in bytes: what metadata may take unless somebody says
/// otherwise. As much as the floor below takes by itself where the system does not tell.
pub fn quarter_of_memory() -> usize {
    let otherwise = core::OpenOptions::default().cache_bytes;
    let info = rustix::system::sysinfo();
    let bytes = u128::from(info.totalram) * u128::from(info.mem_unit) / 4;
    usize::try_from(bytes).ok().filter(|&bytes| bytes > 0).unwrap_or(otherwise)
}

impl OpenOptions {
    /// Opens the volume on the target `name`.
    ///
    /// # Errors
    /// [`crate::Error::Target`] where there is no such device, [`crate::Error::Volume`] where it
    /// holds no volume that can be read.
    pub fn open(&self, name: &str) -> Result<Volume> {
        self.open_on(target::open(&Target::parse(name)?, self.mode())?)
    }

    /// Opens the volume on `device`, with the journal that [`log`](Self::log) names.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(&self, device: Arc<dyn BlockDevice>) -> Result<Volume> {
        self.open_device(device, self.log_device(self.mode())?)
    }

    fn mode(&self) -> OpenMode {
        if self.write { OpenMode::ReadWrite } else { OpenMode::ReadOnly }
    }

    /// Gives the volume on the target `name` another UUID; answers the UUIDs of the volume and of
    /// its metadata, which differ unless it is the original one.
    ///
    /// # Errors
    /// As [`open`](Self::open) for writing.
    pub fn set_uuid(&self, name: &str, uuid: NewUuid) -> Result<(Uuid, Uuid)> {
        let device = target::open(&Target::parse(name)?, OpenMode::ReadWrite)?;
        let log_dev = self.log_device(OpenMode::ReadWrite)?;
        let options =
            core::OpenOptions { log_dev, cache_bytes: self.cache_bytes, ..Default::default() };
        Ok(set_uuid(&device, &options, uuid)?)
    }

    /// The device with the journal, where it has one of its own.
    fn log_device(&self, mode: OpenMode) -> Result<Option<Arc<dyn BlockDevice>>> {
        let open = |name: &String| Ok(target::open_unchecked(&Target::parse(name)?, mode)?);
        self.log.as_ref().map(open).transpose()
    }

    /// Opens the volume on `device`, with the journal on `log_dev` where it is external.
    ///
    /// # Errors
    /// Where the device holds no volume that can be read.
    pub fn open_device(
        &self,
        device: Arc<dyn BlockDevice>,
        log_dev: Option<Arc<dyn BlockDevice>>,
    ) -> Result<Volume> {
        let (recovery, write, journal) = (self.recovery, self.write, self.journal);
        let cache_bytes = self.cache_bytes;
        let replay = self.replay.clone();
        let options = core::OpenOptions { recovery, write, log_dev, cache_bytes, journal, replay };
        let fs = Fs::new(core::Volume::open(device, &options)?).with_whole_max(self.whole_max);
        Ok(Volume::new(fs))
    }
}

/// Opens the volume on the target `name` for reading; a dirty journal is replayed in memory.
///
/// # Errors
/// As [`OpenOptions::open`].
pub fn open(name: &str) -> Result<Volume> {
    OpenOptions::default().open(name)
}

/// Opens the volume on the target `name` for reading and writing. [`Volume::close`] it when done:
/// that says whether all changes became durable.
///
/// # Errors
/// As [`OpenOptions::open`]; what cannot be written refuses before anything is changed.
pub fn open_for_writing(name: &str) -> Result<Volume> {
    OpenOptions { write: true, ..OpenOptions::default() }.open(name)
}

/// Makes an empty volume on `device`, of now and with a UUID of its own unless `options` name one,
/// and opens it for reading and writing. [`mkfs::make()`] is the way with all parameters.
///
/// # Errors
/// [`crate::Error::Make`] where the options do not fit the device, or something is on it.
pub fn make(device: Arc<dyn BlockDevice>, options: &mkfs::Options) -> Result<Volume> {
    let vfs::Timestamp { sec, nsec } = vfs::Clock::system().now();
    let (uuid, random) = (Uuid::new_v4(), Uuid::new_v4().as_u64_pair().0);
    let generation = u32::try_from(random >> 32).unwrap_or_default();
    let stamp = mkfs::Stamp { uuid, seconds: sec, nanoseconds: nsec, generation };
    let plan = mkfs::plan(options, &mkfs::DeviceFacts::of(&*device, None), stamp)?;
    mkfs::make(&*device, None, &plan)?;
    OpenOptions { write: true, ..OpenOptions::default() }.open_device(device, None)
}
