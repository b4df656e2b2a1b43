//! An empty volume made.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_mkfs::{self as mkfs, DeviceFacts, Options, Stamp};
use xfskit_target::{self as target, Base, Target};
use xfskit_units::{ByteLen, Uuid};

use crate::volume_options::parse;
use crate::{Result, Volume, VolumeOptions};

/// Makes an empty volume: a builder. The defaults are those of mkfs.xfs.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let volume = xfskit::Mkfs::new().size(1 << 30).label("scratch").create("disk.img")?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is made until `create` is called"]
pub struct Mkfs {
    pub(crate) options: Options,
    size: Option<u64>,
    uuid: Option<[u8; 16]>,
    pub(crate) time: Option<SystemTime>,
}

impl Mkfs {
    /// Returns the defaults: the size is that of the device.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the size in bytes. An image file is created, or extended, to it.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Sets the label: at most 12 bytes.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// Sets the UUID. A random one by default.
    pub fn uuid(mut self, uuid: [u8; 16]) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// Sets the size of a block in bytes.
    pub fn block_size(mut self, bytes: u32) -> Self {
        self.options.block_size = Some(bytes);
        self
    }

    /// Dates the volume. Now by default.
    pub fn time(mut self, time: SystemTime) -> Self {
        self.time = Some(time);
        self
    }

    /// Overwrites what is on the target. Without it a target with something on it is refused.
    pub fn force(mut self, force: bool) -> Self {
        self.options.force = force;
        self
    }

    /// Sets an option in the words of mkfs.xfs: `option("-i", "size=1024")`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an option that does not exist or whose
    /// value is not valid.
    pub fn option(mut self, letter: &str, value: &str) -> Result<Self> {
        self.options.sub(letter, value).map_err(mkfs::Error::from)?;
        Ok(self)
    }

    /// Makes the volume on `target` and opens it for writing. An image file that is missing is
    /// created.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for options that do not fit the device,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) where something is on it; those of the
    /// device.
    pub fn create(&self, target: impl AsRef<Path>) -> Result<Volume> {
        let target = parse(target.as_ref().as_os_str())?;
        let options = self.options();
        let plan = mkfs::plan(&options, &self.facts(&target)?, self.stamp())?;
        let data = data_device(&target, plan.geometry.data_bytes())?;
        let log = self.log_device()?;
        mkfs::make(&*data, log.as_deref(), &plan)?;
        VolumeOptions::new().write(true).open_device(data, log)
    }

    /// Returns all options, with the size among them.
    pub(crate) fn options(&self) -> Options {
        let mut options = self.options.clone();
        options.data_size = options.data_size.or(self.size.map(mkfs::options::Quantity::Bytes));
        options
    }

    /// Returns the properties of the devices. Nothing is created or changed yet.
    pub(crate) fn facts(&self, target: &Target) -> Result<DeviceFacts> {
        let log = self.log_device()?;
        match (image_path(target), self.wanted_size()) {
            (Some(path), Some(size)) if is_shorter(path, size) => {
                let facts = DeviceFacts::file(size);
                let log = log.as_ref().map(|log| DeviceFacts::of(log, Some(log)).log);
                Ok(DeviceFacts { log: log.flatten(), ..facts })
            }
            _ => {
                let data = target::open_unchecked(target, OpenMode::ReadOnly)?;
                Ok(DeviceFacts::of(&*data, log.as_deref()))
            }
        }
    }

    /// Returns the size that was asked for.
    pub(crate) fn wanted_size(&self) -> Option<ByteLen> {
        let options = self.options();
        let (block, sector) =
            (options.block_size.unwrap_or(4096), options.sector_size.unwrap_or(512));
        options.data_size?.bytes(block, sector).map(ByteLen)
    }

    pub(crate) fn log_device(&self) -> Result<Option<Arc<dyn BlockDevice>>> {
        let open = |name: &String| {
            Ok(target::open_unchecked(&parse(OsStr::new(name))?, OpenMode::ReadWrite)?)
        };
        self.options.log_name.as_ref().map(open).transpose()
    }

    /// Returns UUID, time and generation of a new volume.
    pub(crate) fn stamp(&self) -> Stamp {
        let time = crate::time::timestamp(self.time.unwrap_or_else(SystemTime::now));
        let uuid = self.uuid.map_or_else(Uuid::new_v4, Uuid::from_bytes);
        let [g0, g1, g2, g3, ..] = *Uuid::new_v4().as_bytes();
        let generation = u32::from_be_bytes([g0, g1, g2, g3]);
        Stamp { uuid, seconds: time.sec, nanoseconds: time.nsec, generation }
    }
}

/// Returns the path of a target that is a whole file.
pub(crate) fn image_path(target: &Target) -> Option<&PathBuf> {
    match (&target.base, &target.part) {
        (Base::File(path), None) => Some(path),
        _ => None,
    }
}

/// Returns true for a file that is missing, or shorter than `size`.
fn is_shorter(path: &Path, size: ByteLen) -> bool {
    !path.exists() || path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() < size.0)
}

/// Opens the device to write to. A missing image is created, and a shorter one is extended.
pub(crate) fn data_device(target: &Target, size: ByteLen) -> Result<Arc<dyn BlockDevice>> {
    match image_path(target) {
        Some(path) if !path.exists() => Ok(target::create(target, size)?),
        Some(path) if is_shorter(path, size) => {
            let mut file = FileDevice::open(path, OpenMode::ReadWrite)?;
            file.resize(size)?;
            Ok(Arc::new(file))
        }
        _ => Ok(target::open_unchecked(target, OpenMode::ReadWrite)?),
    }
}
