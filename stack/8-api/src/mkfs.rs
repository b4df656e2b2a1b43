//! An empty volume made.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_mkfs::compat::{self, LeftOut};
use xfskit_mkfs::{self as mkfs, DeviceFacts, Options, Plan, Stamp, Summary};
use xfskit_target::{self as target, Base, Target};
use xfskit_units::{ByteLen, Uuid};

use crate::volume_options::parse;
use crate::{Error, Result, Volume, VolumeOptions};

type Device = Arc<dyn BlockDevice>;

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
        self.options.sub(letter, value).map_err(|error| Error::new(mkfs::Error::from(error)))?;
        Ok(self)
    }

    /// Discards what the device holds first. On by default.
    pub fn discard(mut self, discard: bool) -> Self {
        self.options.no_discard = !discard;
        self
    }

    /// Leaves out features that one of `readers` cannot use, and with `max` adds all others that
    /// they can. Returns what was left out, and for which reader.
    pub fn readers(mut self, readers: &[compat::Target], max: bool) -> (Self, Vec<LeftOut>) {
        let choice = compat::features_for(readers, max);
        choice.apply(&mut self.options);
        (self, choice.left_out)
    }

    /// Makes the volume on `target` and opens it for writing. An image file that is missing is
    /// created.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for options that do not fit the device,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) where something is on it; those of the
    /// device.
    pub fn create(&self, target: impl AsRef<Path>) -> Result<Volume> {
        let (data, log) = self.plan(target)?.write_devices()?;
        VolumeOptions::new().write(true).open_device(data, log)
    }

    /// Decides everything about the volume on `target`, and writes nothing yet.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn plan(&self, target: impl AsRef<Path>) -> Result<MkfsPlan> {
        let target = parse(target.as_ref().as_os_str())?;
        let plan = mkfs::plan(&self.options(), &self.facts(&target)?, self.stamp());
        Ok(MkfsPlan { plan: plan.map_err(Error::new)?, target, mkfs: self.clone() })
    }

    /// Returns all options, with the size among them.
    pub(crate) fn options(&self) -> Options {
        let mut options = self.options.clone();
        options.data_size = options.data_size.or(self.size.map(mkfs::options::Quantity::Bytes));
        options
    }

    /// Returns the properties of the devices. Nothing is created or changed yet.
    pub(crate) fn facts(&self, target: &Target) -> Result<DeviceFacts> {
        self.facts_for(target, self.wanted_size())
    }

    /// Returns the properties of the devices for a volume whose size is decided later: those of a
    /// file of `size` where there is none.
    pub(crate) fn sector_facts(&self, target: &Target, size: ByteLen) -> Result<DeviceFacts> {
        let is_new = image_path(target).is_some_and(|path| !path.exists());
        self.facts_for(target, is_new.then_some(size))
    }

    fn facts_for(&self, target: &Target, size: Option<ByteLen>) -> Result<DeviceFacts> {
        let log = self.log_device()?;
        match (image_path(target), size) {
            (Some(path), Some(size)) if is_shorter(path, size) => {
                let facts = DeviceFacts::file(size);
                let log = log.as_ref().map(|log| DeviceFacts::of(log, Some(log)).log);
                Ok(DeviceFacts { log: log.flatten(), ..facts })
            }
            _ => {
                let data =
                    target::open_unchecked(target, OpenMode::ReadOnly).map_err(Error::new)?;
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
            target::open_unchecked(&parse(OsStr::new(name))?, OpenMode::ReadWrite)
                .map_err(Error::new)
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

/// A volume that [`Mkfs::plan`] decided on.
#[derive(Clone, Debug)]
#[must_use = "nothing is made until `write` is called"]
pub struct MkfsPlan {
    plan: Plan,
    target: Target,
    mkfs: Mkfs,
}

impl MkfsPlan {
    /// Returns what is worth knowing about the decisions, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.plan.notes
    }

    /// Returns the properties of the volume in the words of mkfs.xfs. `data` names the device
    /// there.
    pub fn summary(&self, data: &str) -> Summary {
        Summary::of(&self.plan.geometry, data, self.mkfs.options.log_name.as_deref())
    }

    /// Makes the volume.
    ///
    /// # Errors
    /// As [`Mkfs::create`].
    pub fn write(&self) -> Result<()> {
        self.write_devices().map(drop)
    }

    /// Makes the volume, and returns the devices of data and log.
    fn write_devices(&self) -> Result<(Device, Option<Device>)> {
        let data = data_device(&self.target, self.plan.geometry.data_bytes())?;
        let log = self.mkfs.log_device()?;
        mkfs::make(&*data, log.as_deref(), &self.plan).map_err(Error::new)?;
        Ok((data, log))
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
        Some(path) if !path.exists() => target::create(target, size).map_err(Error::new),
        Some(path) if is_shorter(path, size) => {
            let longer = FileDevice::open(path, OpenMode::ReadWrite).and_then(|mut file| {
                file.resize(size)?;
                Ok(file)
            });
            Ok(Arc::new(longer.map_err(Error::new)?))
        }
        _ => target::open_unchecked(target, OpenMode::ReadWrite).map_err(Error::new),
    }
}
