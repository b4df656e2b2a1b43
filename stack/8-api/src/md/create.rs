//! A new array.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use xfskit_md::create::{BitmapOption, CreateOptions, NewMember};
use xfskit_md::superblock::Version;
use xfskit_md::{Geometry, Layout, Level};
use xfskit_target::{self as target, ArrayName};
use xfskit_units::{Sectors, Uuid};

use super::array::seconds;
use super::new_device::{NewDevices, new_file};
use crate::cause::array::ArrayError;
use crate::target::Target;
use crate::{Error, Result};

/// Bytes of a chunk, unless they are set.
const CHUNK: u64 = 512 << 10;

/// Makes an array: a builder. The defaults are those of mdadm.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// use xfskit::md::{Create, Level, NewDevices};
///
/// let created = Create::new(Level::Raid6)
///     .devices(NewDevices::new().create(1 << 30))
///     .create(["a.img", "b.img", "c.img", "d.img"])?;
/// let volume = xfskit::Mkfs::new().create(&created.target)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is made until `create` is called"]
pub struct Create {
    level: Level,
    layout: Option<Layout>,
    chunk_size: Option<u64>,
    version: Version,
    name: String,
    uuid: Option<[u8; 16]>,
    member_size: Option<u64>,
    data_offset: Option<u64>,
    bitmap: BitmapOption,
    assume_clean: bool,
    spares: usize,
    devices: NewDevices,
    time: Option<SystemTime>,
}

/// The result of a [`Create`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Created {
    /// The target that names the array by its members.
    pub target: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its level.
    pub level: Level,
    /// Its layout.
    pub layout: Layout,
    /// The size of a chunk in bytes; 0 where there are no chunks.
    pub chunk_size: u64,
    /// The number of roles.
    pub raid_disks: u32,
    /// Its size in bytes.
    pub size: u64,
}

impl Create {
    /// Returns the defaults for `level`: superblocks 1.2, chunks of 512 KiB, mdadm's layout, and
    /// all of the smallest member.
    pub fn new(level: Level) -> Self {
        Self {
            level,
            layout: None,
            chunk_size: None,
            version: Version::V1_2,
            name: String::new(),
            uuid: None,
            member_size: None,
            data_offset: None,
            bitmap: BitmapOption::Default,
            assume_clean: false,
            spares: 0,
            devices: NewDevices::new(),
            time: None,
        }
    }

    /// Sets the layout, which brings its level.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.level = layout.level();
        self.layout = Some(layout);
        self
    }

    /// Sets the bytes that lie on one member before the next one has its turn. RAID1 and linear
    /// have no chunks.
    pub fn chunk_size(mut self, bytes: u64) -> Self {
        self.chunk_size = Some(bytes);
        self
    }

    /// Sets the version of the superblocks, which decides where they lie.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Sets the array's name, usually `host:name`: at most 32 bytes.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the array's UUID. A random one by default.
    pub fn uuid(mut self, uuid: [u8; 16]) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// Sets how many bytes of each member are used.
    pub fn member_size(mut self, bytes: u64) -> Self {
        self.member_size = Some(bytes);
        self
    }

    /// Sets the first byte of the data on each member.
    pub fn data_offset(mut self, bytes: u64) -> Self {
        self.data_offset = Some(bytes);
        self
    }

    /// Sets whether there is a write-intent bitmap.
    pub fn bitmap(mut self, bitmap: BitmapOption) -> Self {
        self.bitmap = bitmap;
        self
    }

    /// Leaves out the first resync: the members agree already, because they are all zero.
    pub fn assume_clean(mut self, assume: bool) -> Self {
        self.assume_clean = assume;
        self
    }

    /// Makes the last so many devices spares.
    pub fn spares(mut self, count: usize) -> Self {
        self.spares = count;
        self
    }

    /// Sets whether missing files are created, and whether devices with content are taken.
    pub fn devices(mut self, devices: NewDevices) -> Self {
        self.devices = devices;
        self
    }

    /// Dates the array. Now by default.
    pub fn time(mut self, time: SystemTime) -> Self {
        self.time = Some(time);
        self
    }

    /// Makes the array of these devices: its members in role order, `missing` for one that is
    /// [added](super::Array::add) later, then its spares. Their content is lost. Files that were
    /// created are removed where no array can be made.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for numbers that make no array,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for devices with content; those of the
    /// devices.
    pub fn create<M: AsRef<Path>>(&self, members: impl IntoIterator<Item = M>) -> Result<Created> {
        let options = self.options()?;
        let (roles, spares) = self.roles_and_spares(members)?;
        let named: Vec<&target::Target> = roles.iter().flatten().chain(&spares).collect();
        let made: Vec<PathBuf> = named.iter().filter_map(|target| new_file(target)).collect();
        let mut opened = self.open(&named)?.into_iter();
        let taken: Vec<Option<NewMember>> =
            roles.iter().map(|role| role.as_ref().and_then(|_| opened.next())).collect();
        let spares: Vec<NewMember> = opened.collect();
        let geometry = options
            .create(&taken, &spares)
            .inspect_err(|_| {
                for path in &made {
                    let _ = fs::remove_file(path);
                }
            })
            .map_err(Error::new)?;
        Ok(created(ArrayName::new(None, roles).to_string(), options.uuid, &geometry))
    }

    fn options(&self) -> Result<CreateOptions> {
        let chunk = match self.level {
            Level::Raid1 | Level::Linear => 0,
            _ => self.chunk_size.unwrap_or(CHUNK),
        };
        let sectors = |what, bytes: Option<u64>| bytes.map(|b| sectors(what, b)).transpose();
        Ok(CreateOptions {
            layout: self.layout.unwrap_or_else(|| Layout::default_of(self.level)),
            chunk: self::sectors("the size of a chunk", chunk)?,
            version: self.version,
            name: self.name.clone(),
            uuid: self.uuid.unwrap_or_else(|| *Uuid::new_v4().as_bytes()),
            size: sectors("the size of a member", self.member_size)?,
            data_offset: sectors("the offset of the data", self.data_offset)?,
            bitmap: self.bitmap,
            assume_clean: self.assume_clean,
            now: seconds(self.time),
        })
    }

    /// Returns the targets of the roles, and those of the spares.
    fn roles_and_spares<M: AsRef<Path>>(
        &self,
        members: impl IntoIterator<Item = M>,
    ) -> Result<(Vec<Option<target::Target>>, Vec<target::Target>)> {
        let target = |name: M| match name.as_ref().to_str() {
            Some("missing") => Ok(None),
            _ => Ok(Some(Target::parse(name)?.into_parsed())),
        };
        let mut roles = members.into_iter().map(target).collect::<Result<Vec<_>>>()?;
        let Some(count) = roles.len().checked_sub(self.spares) else {
            return Err(ArrayError::Spares("there are more spares than devices").error());
        };
        let spares: Option<Vec<_>> = roles.split_off(count).into_iter().collect();
        let spares =
            spares.ok_or_else(|| ArrayError::Spares("a spare cannot be missing").error())?;
        Ok((roles, spares))
    }

    /// Opens the devices. Those with content are refused before any file is made.
    fn open(&self, targets: &[&target::Target]) -> Result<Vec<NewMember>> {
        let existing = targets.iter().map(|target| self.devices.existing(target));
        let existing = existing.collect::<Result<Vec<_>>>()?;
        let member = |(target, device): (&&target::Target, Option<_>)| {
            let device = device.map_or_else(|| self.devices.made(target), Ok)?;
            Ok(NewMember { name: target.to_string(), device, uuid: *Uuid::new_v4().as_bytes() })
        };
        targets.iter().zip(existing).map(member).collect()
    }
}

fn created(target: String, uuid: [u8; 16], geometry: &Geometry) -> Created {
    Created {
        target,
        uuid,
        level: geometry.level(),
        layout: geometry.layout(),
        chunk_size: geometry.chunk_bytes().0,
        raid_disks: geometry.raid_disks(),
        size: geometry.array_size().byte_len().0,
    }
}

fn sectors(what: &'static str, bytes: u64) -> Result<Sectors> {
    if bytes.is_multiple_of(512) {
        Ok(Sectors(bytes / 512))
    } else {
        Err(ArrayError::Sectors { what, bytes }.error())
    }
}
