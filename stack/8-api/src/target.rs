//! Targets: the names of devices, the devices, and what is inside of a disk.
//!
//! Every call of this crate that opens something takes a target:
//!
//! | name | what |
//! | --- | --- |
//! | `IMAGE`, `/dev/sdb1` | a file or a block device, whole |
//! | `IMAGE#p2` | partition 2 of a disk with an MBR or a GPT |
//! | `IMAGE#lv:vg/root` | the logical volume `root` of the group `vg` |
//! | `md:MEMBER,MEMBER,…` | an md array, its members in any order; `missing` for a lost one |
//! | `md:level=6,chunk=512K:A,B,…` | an array without superblocks, its members in role order |
//! | `mem:SIZE` | memory, all zeroes |
//! | `overlay=FILE:TARGET` | the target, with all changes in FILE |
//! | `[TARGET]#p1` | brackets group a target |
//!
//! ```no_run
//! # fn main() -> Result<(), xfskit::Error> {
//! for found in xfskit::target::discover("disk.img")? {
//!     println!("{}: {} bytes, {}", found.target, found.size, found.kind);
//! }
//! # Ok(()) }
//! ```

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_core::superblock::find_superblock;
use xfskit_target::{self as target, ArrayName, Base};
use xfskit_units::{ByteLen, ByteOffset};

use crate::volume_options::parse;
use crate::{Error, Result, Volume, VolumeOptions};

/// Most devices that lie one on the other.
const DEVICES_MAX: usize = 8;

/// The name of a device: parsed, but not opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    parsed: target::Target,
    /// A text that parses as `parsed`.
    name: String,
}

impl Target {
    fn new(parsed: target::Target) -> Self {
        Self { name: parsed.to_string(), parsed }
    }

    /// Parses a name. Opens nothing.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where it does not follow the grammar.
    pub fn parse(name: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::new(parse(name.as_ref().as_os_str())?))
    }

    /// Returns the target of the array that these members form, by their superblocks. A member may
    /// be any target, a pattern (`m*.img`), or `missing`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn array<M: AsRef<Path>>(members: impl IntoIterator<Item = M>) -> Result<Self> {
        let mut names = Vec::new();
        for member in members {
            let Some(name) = member.as_ref().to_str() else {
                Self::parse(member)?; // fails: it is not UTF-8
                continue;
            };
            names.push(match name {
                "missing" => name.to_owned(),
                _ if name.contains([',', '[', '#']) || name.starts_with("md:") => {
                    format!("[{name}]")
                }
                _ => name.to_owned(),
            });
        }
        Self::parse(format!("md:{}", names.join(",")))
    }

    /// Returns the target with an overlay: all changes go to the file at `path`, which is created
    /// where it is missing and used again the next time. The target itself is only read.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where it has one already, or the path
    /// cannot be a part of a name.
    pub fn with_overlay(self, path: &str) -> Result<Self> {
        Ok(Self::new(self.parsed.with_overlay(path).map_err(Error::new)?))
    }

    /// Returns the target, to be assembled by force: an array takes stale members where there are
    /// too few fresh ones, and trusts parity that may be out of date.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where it is not an array with superblocks.
    pub fn with_force(self) -> Result<Self> {
        Ok(Self::new(self.parsed.with_force().map_err(Error::new)?))
    }

    /// Returns true for an array.
    pub fn is_array(&self) -> bool {
        matches!(self.parsed.base, Base::Array(_))
    }

    /// Returns true for memory, which is empty whenever it is opened.
    pub fn is_memory(&self) -> bool {
        matches!(self.parsed.base, Base::Memory(_))
    }

    /// Returns the path of a file or block device that is named whole.
    pub fn path(&self) -> Option<&Path> {
        match (&self.parsed.base, &self.parsed.part) {
            (Base::File(path), None) => Some(path),
            _ => None,
        }
    }

    /// Returns true if the target is on the file or device `path`, whole or in part: by this name
    /// or another one.
    pub fn is_on(&self, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        target::files(&self.parsed).iter().any(|file| same_file(file, path))
    }

    /// Returns true if one of the files and devices that the target is on is one of `other`, whole
    /// or in part.
    pub fn shares_files_with(&self, other: &Self) -> bool {
        target::files(&other.parsed).iter().any(|file| self.is_on(file))
    }

    /// Returns true if the filesystem of `dir`, or of the first directory above it that exists, is
    /// on the target: on a device of it, on a loop device of its file or on a partition of one, on
    /// a logical volume or an array above. A write there changes the target.
    pub fn holds(&self, dir: impl AsRef<Path>) -> bool {
        let found = dir.as_ref().ancestors().find_map(|dir| {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            dir.metadata().ok()
        });
        let Some(meta) = found else { return false };
        let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        self.is_below(Path::new(&format!("/sys/dev/block/{major}:{minor}")), DEVICES_MAX)
    }

    /// Returns true if the block device with the directory `sysfs`, or one of at most `levels`
    /// below it, is one that the target is on.
    fn is_below(&self, sysfs: &Path, levels: usize) -> bool {
        let events = fs::read_to_string(sysfs.join("uevent")).unwrap_or_default();
        let name = events.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        let behind = fs::read_to_string(sysfs.join("loop/backing_file")).ok();
        if name.is_some_and(|name| self.is_on(Path::new("/dev").join(name)))
            || behind.is_some_and(|file| self.is_on(file.trim_end_matches('\n')))
        {
            return true;
        }
        let Some(levels) = levels.checked_sub(1) else { return false };
        if let Ok(number) = fs::read_to_string(sysfs.join("partition")) {
            let is_it = match &self.parsed.part {
                None => true,
                Some(target::Part::Partition(own)) => number.trim() == own.to_string(),
                Some(target::Part::Volume { .. }) => false,
            };
            return is_it && self.is_below(&sysfs.join(".."), levels);
        }
        // Another logical volume of the same group has the same devices below it.
        let mut below = fs::read_dir(sysfs.join("slaves")).into_iter().flatten().flatten();
        self.parsed.part.is_none() && below.any(|slave| self.is_below(&slave.path(), levels))
    }

    /// Returns a warning for each device below the overlay that has changed since the overlay was
    /// made. Returns none where the target has no overlay, or the overlay does not exist yet.
    ///
    /// # Errors
    /// Those of opening the devices, and of an overlay that was made for others.
    pub fn overlay_warnings(&self) -> Result<Vec<String>> {
        target::overlay_warnings(&self.parsed).map_err(Error::new)
    }

    /// Returns what a reader of an array should know: members that are left out, parity that may be
    /// wrong. Returns none for other targets, and for arrays whose superblocks are not read.
    ///
    /// # Errors
    /// As [`md::Array::open`](crate::md::Array::open).
    pub fn array_warnings(&self) -> Result<Vec<String>> {
        match self.array_name() {
            Some(name) if name.manual.is_none() => {
                Ok(target::assemble(name, OpenMode::ReadOnly).map_err(Error::new)?.warnings)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the array that is named whole or in part.
    pub(crate) fn array_name(&self) -> Option<&ArrayName> {
        match &self.parsed.base {
            Base::Array(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn parsed(&self) -> &target::Target {
        &self.parsed
    }

    pub(crate) fn into_parsed(self) -> target::Target {
        self.parsed
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::parse(name)
    }
}

impl AsRef<Path> for Target {
    fn as_ref(&self) -> &Path {
        Path::new(&self.name)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// An open device: bytes at offsets. A clone is another reference to the same device.
#[derive(Clone, Debug)]
pub struct Device(Arc<dyn BlockDevice>);

impl Device {
    pub(crate) fn new(device: Arc<dyn BlockDevice>) -> Self {
        Self(device)
    }

    pub(crate) fn shared(&self) -> Arc<dyn BlockDevice> {
        Arc::clone(&self.0)
    }

    /// Opens `target` for reading, whatever it holds.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) and the like where it cannot be opened.
    pub fn open(target: impl AsRef<Path>) -> Result<Self> {
        Self::open_mode(target.as_ref(), OpenMode::ReadOnly)
    }

    /// Opens `target` for reading and writing, whatever it holds.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ResourceBusy`](crate::ErrorKind::ResourceBusy) where it is
    /// mounted, or open for writing elsewhere.
    pub fn open_writable(target: impl AsRef<Path>) -> Result<Self> {
        Self::open_mode(target.as_ref(), OpenMode::ReadWrite)
    }

    fn open_mode(target: &Path, mode: OpenMode) -> Result<Self> {
        Ok(Self(target::open_unchecked(&parse(target.as_os_str())?, mode).map_err(Error::new)?))
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.0.size().0
    }

    /// Returns what the device holds if its first bytes tell, as in "a btrfs filesystem".
    ///
    /// # Errors
    /// [`Device`](crate::ErrorKind::Device) where the device fails.
    pub fn contents(&self) -> Result<Option<&'static str>> {
        xfskit_mkfs::existing::find(&*self.0).map_err(Error::new)
    }

    /// Fills `buf` from the byte at `offset` on.
    ///
    /// # Errors
    /// [`Device`](crate::ErrorKind::Device) where the range leaves the device, or the device fails.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.0.read_at(ByteOffset(offset), buf).map_err(Error::new)
    }

    /// Writes all of `buf` from the byte at `offset` on. It is durable after [`sync`](Self::sync).
    ///
    /// # Errors
    /// As [`read_exact_at`](Self::read_exact_at); [`ReadOnly`](crate::ErrorKind::ReadOnly) where
    /// the device is open for reading.
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.0.write_at(ByteOffset(offset), buf).map_err(Error::new)
    }

    /// Makes all writes durable that have returned.
    ///
    /// # Errors
    /// [`Device`](crate::ErrorKind::Device) where the device fails.
    pub fn sync(&self) -> Result<()> {
        self.0.flush().map_err(Error::new)
    }
}

impl From<Arc<dyn BlockDevice>> for Device {
    /// Takes a device of the caller's own making ([`raw::block`](crate::raw::block)).
    fn from(device: Arc<dyn BlockDevice>) -> Self {
        Self(device)
    }
}

impl VolumeOptions {
    /// Reads the journal of a volume with an external log from a device that is open already.
    pub fn log_on(self, device: Device) -> Self {
        self.log_from(device.0)
    }

    /// Opens the volume on a device that is open already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(&self, device: &Device) -> Result<Volume> {
        self.open_device(Arc::clone(&device.0), self.log_device()?)
    }
}

/// Something that a disk holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Found {
    /// The target that names it.
    pub target: Target,
    /// Its first byte on the disk.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its kind: `GPT Linux filesystem`, `LVM volume`; `whole` for the disk itself.
    pub kind: String,
    /// True if it begins like an XFS volume.
    pub xfs: bool,
}

/// Returns what the disk `target` holds: its partitions and logical volumes, or the disk itself
/// where that is an XFS volume. Returns nothing where nothing is recognised.
///
/// # Errors
/// Those of opening the disk.
pub fn discover(target: impl AsRef<Path>) -> Result<Vec<Found>> {
    let target = parse(target.as_ref().as_os_str())?;
    let disk = target::open_unchecked(&target, OpenMode::ReadOnly).map_err(Error::new)?;
    let whole = target.whole();
    let part = |found: target::Found| Found {
        target: Target {
            name: format!("{whole}#{}", found.part),
            parsed: target::Target { base: whole.base.clone(), part: Some(found.part) },
        },
        offset: found.offset.0,
        size: found.len.0,
        kind: found.kind,
        xfs: found.xfs,
    };
    let mut found: Vec<Found> = target::discover(&disk).into_iter().map(part).collect();
    if found.is_empty() && find_superblock(&*disk).is_ok() {
        let (target, size) = (Target::new(target), disk.size().0);
        found.push(Found { target, offset: 0, size, kind: "whole".into(), xfs: true });
    }
    Ok(found)
}

/// Parses a size in bytes: `4096`, `20G`, `1.5TiB`, `100MB`. K, M, G, T, P and E are powers of
/// 1024; KB, MB and so on are powers of 1000.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) where it is not a size, or exceeds 64 bits.
pub fn parse_size(text: &str) -> Result<u64> {
    Ok(target::size::parse(text).map_err(target::Error::from).map_err(Error::new)?.0)
}

/// Formats a size in bytes for people: `1.46 TiB`.
pub fn format_size(bytes: u64) -> String {
    target::size::format(ByteLen(bytes))
}

/// Returns true if both names are of one file, or of one block device.
fn same_file(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) else { return false };
    let are_devices = one.file_type().is_block_device() && other.file_type().is_block_device();
    (one.dev(), one.ino()) == (other.dev(), other.ino())
        || (are_devices && one.rdev() == other.rdev())
}
