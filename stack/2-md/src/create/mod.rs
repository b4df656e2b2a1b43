//! Creating arrays: superblocks, bitmap and bad-block log as mdadm writes them.
//!
//! [`CreateOptions`] describes the array. [`CreateOptions::create`] checks that it is possible,
//! decides everything, and only then writes. The initial state depends on the level:
//!
//! | level | initial state |
//! | --- | --- |
//! | linear, 0 | clean: there is no redundancy |
//! | 1, 6, 10 | to be resynced: members differ in what they held before |
//! | 4, 5 | degraded: the last member is rebuilt, the fastest way to consistency |
//! | 6 with one member missing | degraded, as 4 and 5 |
//! | 4, 5 with one missing, 6 with two | clean: no redundancy is left |
//! | any, `assume_clean` | clean: the caller knows that members agree, e.g. all zero |
//!
//! | module | what |
//! | --- | --- |
//! | [`member_layout`] | where superblock, bitmap, bad-block log and data lie on a member |

pub mod member_layout;

use std::collections::BTreeSet;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::{ByteLen, ByteOffset, Daddr, Sectors, index};
use zerocopy::FromZeros;

use crate::bitmap::{Bitmap, BitmapSuper};
use crate::geometry::{Geometry, GeometryError};
use crate::layout::{Layout, Level};
use crate::superblock::v1::{FeatureMap, IN_SYNC, MAGIC, ROLE_SPARE, SuperblockV1};
use crate::superblock::{self, Version};
use member_layout::{BitmapSpace, MemberLayout};

/// Devices that a new superblock can list.
const MAX_DEV: u32 = 128;
/// Sectors of the bad-block log.
const BBLOG_SECTORS: u16 = 8;

/// The description of a new array.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Level and layout.
    pub layout: Layout,
    /// Sectors per chunk; 0 for levels without chunks.
    pub chunk: Sectors,
    /// 1.0, 1.1 or 1.2.
    pub version: Version,
    /// The array's name, at most 32 bytes.
    pub name: String,
    /// The array's identity.
    pub uuid: [u8; 16],
    /// Sectors to use of each member; `None` for all that the smallest has.
    pub size: Option<Sectors>,
    /// Where the data begin; `None` for mdadm's default.
    pub data_offset: Option<Sectors>,
    /// The write-intent bitmap.
    pub bitmap: BitmapOption,
    /// The members already agree.
    pub assume_clean: bool,
    /// The creation time, in seconds since 1970.
    pub now: u64,
}

/// Which write-intent bitmap a new array gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapOption {
    /// None.
    No,
    /// mdadm's default: a bitmap if members have more than 100 GiB.
    Default,
    /// A bitmap with this many bytes per bit (a power of two), or with 64 MiB per bit.
    Internal(Option<u32>),
}

/// A device that becomes a member.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// Its name in messages.
    pub name: String,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Its identity.
    pub uuid: [u8; 16],
}

/// Why an array cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The numbers make no array.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A member is too small.
    #[error("{name} is too small with its {size} bytes [md.create.small]")]
    Small {
        /// The member.
        name: String,
        /// Its size.
        size: ByteLen,
    },
    /// The data would begin within the metadata.
    #[error(
        "data cannot begin at sector {at}: metadata occupy the first {least} [md.create.data_offset]"
    )]
    DataOffset {
        /// The requested offset.
        at: Sectors,
        /// The first free sector.
        least: Sectors,
    },
    /// More sectors of each member were requested than there are.
    #[error("{size} sectors of each member are too many: {name} has {available} [md.create.size]")]
    Size {
        /// The requested size.
        size: Sectors,
        /// The member.
        name: String,
        /// The sectors that it has.
        available: Sectors,
    },
    /// The bitmap does not fit, or its chunk is not a power of two.
    #[error(
        "a bitmap with {0} bytes per bit does not fit: use more bytes per bit [md.create.bitmap]"
    )]
    Bitmap(u32),
    /// The level does not support the request.
    #[error("{level} cannot have {what} [md.create.level]")]
    Level {
        /// The level.
        level: Level,
        /// What was asked for.
        what: &'static str,
    },
    /// Only superblocks of version 1 can be created.
    #[error("new arrays have superblocks 1.0, 1.1 or 1.2, not {0} [md.create.version]")]
    Version(Version),
    /// The offset of a new member's partial parity log depends on the member's size.
    #[error(
        "arrays with partial parity logs and superblocks 1.0 cannot get new members [md.create.ppl]"
    )]
    PartialParity,
    /// The name is too long.
    #[error("the name {0:?} has more than 32 bytes [md.create.name]")]
    Name(String),
    /// There are more devices than a superblock can list.
    #[error("{0} devices are more than 128 [md.create.devices]")]
    Devices(usize),
    /// Too many roles are empty.
    #[error(
        "{level} of {raid_disks} cannot run with {missing} members missing [md.create.missing]"
    )]
    Missing {
        /// The level.
        level: Level,
        /// The number of roles.
        raid_disks: u32,
        /// The number of empty roles.
        missing: usize,
    },
    /// A member cannot be written.
    #[error("{name}: {source}")]
    Device {
        /// The member.
        name: String,
        /// The error of the device.
        #[source]
        source: xfskit_block::Error,
    },
}

/// A device and the superblock that it will get.
struct Planned<'a> {
    member: &'a NewMember,
    superblock: SuperblockV1,
}

/// The initial state of the array.
struct InitialState {
    /// Members may differ from each other.
    dirty: bool,
    /// This role is rebuilt from the others.
    rebuilt: Option<usize>,
}

impl CreateOptions {
    /// Creates the array: `roles` are its members in order, `None` for missing ones. The data on
    /// the devices are lost; the caller has checked that this is wanted.
    ///
    /// # Errors
    /// Returns [`Error`]. Nothing was written unless it is [`Error::Device`].
    pub fn create(
        &self,
        roles: &[Option<NewMember>],
        spares: &[NewMember],
    ) -> Result<Geometry, Error> {
        self.check(roles, spares)?;
        let all: Vec<&NewMember> = roles.iter().flatten().chain(spares).collect();
        let (layouts, size, bitmap) = self.layouts(&all)?;
        let data_sizes: Vec<Sectors> = layouts.iter().map(|layout| layout.data_size).collect();
        let raid_disks = u32::try_from(roles.len()).unwrap_or(u32::MAX);
        let geometry = Geometry::new(
            self.layout,
            self.chunk,
            raid_disks,
            size,
            &data_sizes[..self.own(roles)],
        )?;
        let missing: Vec<usize> = (0..roles.len()).filter(|role| roles[*role].is_none()).collect();
        if !crate::array::survives(&geometry, &missing) {
            let (level, missing) = (geometry.level(), missing.len());
            return Err(Error::Missing { level, raid_disks, missing });
        }
        let initial = self.initial_state(roles, &missing);
        let bitmap = bitmap.map(|chunk| self.bitmap(&geometry, chunk, &initial)).transpose()?;
        let planned = self.plan(&all, &layouts, &geometry, bitmap.is_some(), &initial, roles);
        for Planned { member, superblock } in &planned {
            write(&member.device, superblock, bitmap.as_ref())
                .map_err(|source| Error::Device { name: member.name.clone(), source })?;
        }
        Ok(geometry)
    }

    /// Returns how many of the devices have data areas that count individually.
    fn own(&self, roles: &[Option<NewMember>]) -> usize {
        if self.is_redundant() { 0 } else { roles.iter().flatten().count() }
    }

    fn is_redundant(&self) -> bool {
        !matches!(self.layout.level(), Level::Linear | Level::Raid0)
    }

    /// Checks what does not depend on the sizes of the devices.
    fn check(&self, roles: &[Option<NewMember>], spares: &[NewMember]) -> Result<(), Error> {
        let level = self.layout.level();
        let cannot = |what| Err(Error::Level { level, what });
        if self.version == Version::V0_90 {
            return Err(Error::Version(self.version));
        }
        if self.name.len() > 32 {
            return Err(Error::Name(self.name.clone()));
        }
        let devices = roles.len() + spares.len() + 1;
        if devices > index(u64::from(MAX_DEV)) {
            return Err(Error::Devices(devices - 1));
        }
        if self.is_redundant() {
            return Ok(());
        }
        if !spares.is_empty() {
            return cannot("spares");
        }
        if matches!(self.bitmap, BitmapOption::Internal(_)) {
            return cannot("a bitmap");
        }
        if self.size.is_some() {
            return cannot("a size: it uses all of every member");
        }
        Ok(())
    }

    /// Returns the layout of all members, the size of each (0 without redundancy), and how many
    /// bytes a bit of the bitmap covers.
    fn layouts(
        &self,
        all: &[&NewMember],
    ) -> Result<(Vec<MemberLayout>, Sectors, Option<u32>), Error> {
        let on = |bitmap: BitmapSpace| {
            let one = |member: &&NewMember| {
                let (version, chunk) = (self.version, self.chunk);
                let size = member.device.size();
                MemberLayout::new(&member.name, size, version, chunk, bitmap, self.data_offset)
            };
            all.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        if !self.is_redundant() {
            return Ok((on(BitmapSpace::Never)?, Sectors(0), None));
        }
        let layouts = on(BitmapSpace::Later)?;
        let size = self.component(all, &layouts)?;
        let chunk = match self.bitmap {
            BitmapOption::No => return Ok((layouts, size, None)),
            BitmapOption::Default if size <= member_layout::BITMAP_FROM => {
                return Ok((layouts, size, None));
            }
            BitmapOption::Internal(Some(chunk)) => chunk,
            BitmapOption::Default | BitmapOption::Internal(None) => member_layout::BITMAP_CHUNK,
        };
        if !chunk.is_power_of_two() || chunk < 4096 {
            return Err(Error::Bitmap(chunk));
        }
        // On RAID10 the bits cover the array, which is never larger than all members together.
        let members = if self.layout.level() == Level::Raid10 { all.len() as u64 } else { 1 };
        let covered = Sectors(size.0.saturating_mul(members));
        let sectors = member_layout::bitmap_sectors(covered, chunk);
        let before_data = layouts.iter().map(|layout| layout.data_offset.max(Sectors(2048)));
        if sectors.times(2) > before_data.min().unwrap_or(Sectors(0)) {
            return Err(Error::Bitmap(chunk));
        }
        let layouts = on(BitmapSpace::Now(sectors))?;
        let size = self.component(all, &layouts)?;
        Ok((layouts, size, Some(chunk)))
    }

    /// Returns the sectors used of each member.
    fn component(&self, all: &[&NewMember], layouts: &[MemberLayout]) -> Result<Sectors, Error> {
        let smallest = (0..all.len()).min_by_key(|i| layouts[*i].data_size);
        let Some(smallest) = smallest else { return Ok(Sectors(0)) };
        let (name, available) = (all[smallest].name.clone(), layouts[smallest].data_size);
        match self.size {
            Some(size) if size > available => Err(Error::Size { size, name, available }),
            requested => match member_layout::rounded(requested.unwrap_or(available), self.chunk) {
                Sectors(0) => Err(Error::Small { name, size: all[smallest].device.size() }),
                size => Ok(size),
            },
        }
    }

    fn initial_state(&self, roles: &[Option<NewMember>], missing: &[usize]) -> InitialState {
        let level = self.layout.level();
        let spare_parity = match level {
            _ if self.assume_clean => 0,
            Level::Raid4 | Level::Raid5 => 1 - missing.len(),
            Level::Raid6 if missing.len() == 1 => 1,
            _ => 0,
        };
        let last = (0..roles.len()).rev().find(|role| roles[*role].is_some());
        let rebuilt = last.filter(|_| spare_parity == 1);
        let whole = level == Level::Raid6 && missing.is_empty();
        let copies = matches!(level, Level::Raid1 | Level::Raid10);
        InitialState { dirty: !self.assume_clean && (whole || copies), rebuilt }
    }

    /// Returns the bitmap of the array. All bits are set if anything may differ.
    fn bitmap(
        &self,
        geometry: &Geometry,
        chunk: u32,
        initial: &InitialState,
    ) -> Result<Bitmap, Error> {
        let covered = match geometry.level() {
            Level::Raid10 => geometry.array_size(),
            _ => geometry.component_size(),
        };
        let head = BitmapSuper::new(self.uuid, 0, covered, chunk);
        let mut bitmap = Bitmap::new(head).map_err(|_| Error::Bitmap(chunk))?;
        if initial.dirty || initial.rebuilt.is_some() {
            bitmap.set_all();
        }
        Ok(bitmap)
    }

    /// Returns the superblocks of all devices. Devices are numbered by their roles, then come
    /// spares, and last the member that is rebuilt: md treats it as a spare that was just
    /// activated.
    fn plan<'a>(
        &self,
        all: &[&'a NewMember],
        layouts: &[MemberLayout],
        geometry: &Geometry,
        has_bitmap: bool,
        initial: &InitialState,
        roles: &[Option<NewMember>],
    ) -> Vec<Planned<'a>> {
        let count = roles.len();
        let spares = all.len() - roles.iter().flatten().count();
        let filled = (0..count).filter(|role| roles[*role].is_some());
        let number =
            |role: usize| if initial.rebuilt == Some(role) { count + spares } else { role };
        let numbers: Vec<usize> = filled.clone().map(number).chain(count..count + spares).collect();
        let mut table = self.superblock(geometry, has_bitmap, initial);
        for role in filled {
            table.dev_roles[number(role)].set(u16::try_from(role).unwrap_or(ROLE_SPARE));
        }
        let one = |((member, layout), number): ((&&'a NewMember, &MemberLayout), &usize)| {
            let mut superblock = table.clone();
            superblock.dev_number.set(u32::try_from(*number).unwrap_or(u32::MAX));
            superblock.device_uuid = member.uuid;
            set_layout(&mut superblock, layout, has_bitmap);
            if initial.rebuilt.is_some() && *number == count + spares {
                let features = superblock.features();
                superblock.set_features(features | FeatureMap::RECOVERY_OFFSET);
            }
            Planned { member, superblock }
        };
        all.iter().zip(layouts).zip(&numbers).map(one).collect()
    }

    /// Returns the fields that all superblocks have in common.
    fn superblock(
        &self,
        geometry: &Geometry,
        has_bitmap: bool,
        initial: &InitialState,
    ) -> SuperblockV1 {
        let mut sb = SuperblockV1::new_zeroed();
        sb.magic.set(MAGIC);
        sb.major_version.set(1);
        let mut features = FeatureMap::empty();
        features.set(FeatureMap::RAID0_LAYOUT, geometry.level() == Level::Raid0);
        features.set(FeatureMap::BITMAP_OFFSET, has_bitmap);
        sb.set_features(features);
        sb.set_uuid = self.uuid;
        sb.set_name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        sb.ctime.set(self.now);
        sb.utime.set(self.now);
        sb.level.set(geometry.level().number());
        sb.layout.set(self.layout.number());
        sb.size.set(geometry.component_size().0);
        sb.chunksize.set(u32::try_from(self.chunk.0).unwrap_or(0));
        sb.raid_disks.set(geometry.raid_disks());
        sb.resync_offset.set(if initial.dirty { 0 } else { IN_SYNC });
        sb.bblog_size.set(BBLOG_SECTORS);
        sb.max_dev.set(MAX_DEV);
        sb.dev_roles
            .iter_mut()
            .take(index(u64::from(MAX_DEV)))
            .for_each(|role| role.set(ROLE_SPARE));
        sb
    }
}

/// Sets the fields of a superblock that describe the layout of the member.
pub(crate) fn set_layout(superblock: &mut SuperblockV1, layout: &MemberLayout, has_bitmap: bool) {
    superblock.super_offset.set(layout.superblock.0);
    superblock.data_offset.set(layout.data_offset.0);
    superblock.data_size.set(layout.data_size.0);
    superblock.bblog_offset.set(layout.bblog_offset);
    superblock.bblog_size.set(BBLOG_SECTORS);
    superblock.bitmap_offset.set(if has_bitmap { layout.bitmap_offset } else { 0 });
}

/// Writes a new member: erases other superblocks first, and writes its own last.
pub(crate) fn write(
    device: &dyn BlockDevice,
    superblock: &SuperblockV1,
    bitmap: Option<&Bitmap>,
) -> xfskit_block::Result<()> {
    erase(device, Some(Daddr(superblock.super_offset.get())))?;
    if let (Some(bitmap), Some(at)) = (bitmap, superblock.bitmap()) {
        device.write_at(at.byte_offset(), &bitmap.encode())?;
    }
    if let Some(log) = superblock.bad_blocks() {
        device.write_at(log.at.byte_offset(), &vec![0xff; index(log.len.byte_len().0)])?;
    }
    device.flush()?;
    device.write_at(ByteOffset(superblock.super_offset.get() * 512), &superblock.encode())?;
    device.flush()
}

/// Erases all superblocks on a device except the one at `but`.
///
/// # Errors
/// Returns an error if the device cannot be written.
pub fn erase(device: &dyn BlockDevice, but: Option<Daddr>) -> xfskit_block::Result<()> {
    let places: BTreeSet<Daddr> = Version::ALL
        .iter()
        .filter_map(|version| version.superblock_sector(device.size()))
        .collect();
    for at in places.into_iter().filter(|at| Some(*at) != but) {
        let mut head = [0; 512];
        device.read_at(at.byte_offset(), &mut head)?;
        if head[..4] == MAGIC.to_le_bytes() || head[..4] == MAGIC.to_be_bytes() {
            device.write_at(at.byte_offset(), &[0; superblock::SUPERBLOCK_BYTES])?;
        }
    }
    Ok(())
}
