//! New arrays: superblocks, bitmap and bad-block log as mdadm makes them.
//!
//! [`CreateOptions`] says what is wanted; [`CreateOptions::create`] checks that it can be, decides everything, and
//! only then writes. What the array is like in the first moment depends on the level:
//!
//! | level | first |
//! | --- | --- |
//! | linear, 0 | clean: there is nothing that could differ |
//! | 1, 6, 10 | to be resynced: members differ in what they held before |
//! | 4, 5 | degraded, the last member being rebuilt: reading all others in order and writing one is the fastest way to consistency |
//! | 6 with one member missing | the same |
//! | 4, 5 with one missing, 6 with two | clean: what is there is the truth, whatever it is |
//! | any, `assume_clean` | clean: the caller knows, for example because all members are zero |
//!
//! | module | what |
//! | --- | --- |
//! | [`room`] | where things go on a member |

pub mod member_layout;

use std::collections::BTreeSet;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::{ByteLen, ByteOffset, Daddr, Sectors, index};
use zerocopy::FromZeros;

use crate::bitmap::{Bitmap, BitmapSuper};
use crate::geometry::{Geometry, GeometryError};
use crate::layout::{Layout, Level};
use crate::superblock::v1::{IN_SYNC, MAGIC, ROLE_SPARE, SuperblockV1, feature};
use crate::superblock::{self, Version};
use member_layout::{BitmapSpace, MemberLayout};

/// Devices that a new superblock has room for.
const MAX_DEV: u32 = 128;
/// Sectors of the bad-block log.
const BBLOG_SECTORS: u16 = 8;

/// What an array shall be.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Level and layout.
    pub layout: Layout,
    /// Sectors per chunk; 0 for levels without.
    pub chunk: Sectors,
    /// 1.0, 1.1 or 1.2.
    pub version: Version,
    /// The array's name, at most 32 bytes.
    pub name: String,
    /// The array's identity.
    pub uuid: [u8; 16],
    /// Sectors to use of each member; `None` for all that the smallest has.
    pub size: Option<Sectors>,
    /// Where the data shall begin; `None` for where mdadm has them begin.
    pub data_offset: Option<Sectors>,
    /// The write-intent bitmap.
    pub bitmap: BitmapOption,
    /// Members agree already.
    pub assume_clean: bool,
    /// When it is made, in seconds since 1970.
    pub now: u64,
}

/// Which write-intent bitmap a new array gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapOption {
    /// None.
    No,
    /// What mdadm does: one where members give more than 100 GiB.
    Default,
    /// One; a bit for so many bytes (a power of two), or for 64 MiB.
    Internal(Option<u32>),
}

/// A device that becomes a member.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// What messages call it.
    pub name: String,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Its identity.
    pub uuid: [u8; 16],
}

/// Why there is no new array.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The numbers make no array.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A member cannot hold what it should.
    #[error("{name} is too small with its {size} bytes [md.create.small]")]
    Small {
        /// The member.
        name: String,
        /// Its size.
        size: ByteLen,
    },
    /// The data would begin within the metadata.
    #[error(
        "data cannot begin at sector {at}: metadata take the first {least} [md.create.data_offset]"
    )]
    DataOffset {
        /// Where they were to begin.
        at: Sectors,
        /// The first sector that is free.
        least: Sectors,
    },
    /// More of each member was asked for than there is.
    #[error(
        "{size} sectors of each member are too many: {name} has room for {room} [md.create.size]"
    )]
    Size {
        /// What was asked for.
        size: Sectors,
        /// The member.
        name: String,
        /// What it has.
        room: Sectors,
    },
    /// The bits do not fit, or cover no power of two.
    #[error("a bitmap with {0} bytes to a bit does not fit: take more [md.create.bitmap]")]
    Bitmap(u32),
    /// The level cannot have what was asked for.
    #[error("{level} cannot have {what} [md.create.level]")]
    Level {
        /// The level.
        level: Level,
        /// What was asked for.
        what: &'static str,
    },
    /// There are only superblocks of version 1.
    #[error("new arrays have superblocks 1.0, 1.1 or 1.2, not {0} [md.create.version]")]
    Version(Version),
    /// The place of a new member's partial parity log depends on its size.
    #[error(
        "arrays with partial parity logs and superblocks 1.0 get no new members [md.create.ppl]"
    )]
    PartialParity,
    /// The name does not fit.
    #[error("the name {0:?} has more than 32 bytes [md.create.name]")]
    Name(String),
    /// More members than a superblock lists.
    #[error("{0} devices are more than 128 [md.create.devices]")]
    Devices(usize),
    /// Too many roles were left empty.
    #[error("{level} of {raid_disks} cannot do without {missing} members [md.create.missing]")]
    Missing {
        /// The level.
        level: Level,
        /// Roles.
        raid_disks: u32,
        /// How many of them are empty.
        missing: usize,
    },
    /// A member cannot be written.
    #[error("{name}: {source}")]
    Device {
        /// The member.
        name: String,
        /// What it answered.
        #[source]
        source: xfskit_block::Error,
    },
}

/// A device, the sectors of its data area, and everything that its superblock will say.
struct Planned<'a> {
    member: &'a NewMember,
    superblock: SuperblockV1,
}

/// What the first moment of the array is like.
struct InitialState {
    /// Members may differ from each other.
    dirty: bool,
    /// This role is rebuilt from the others.
    rebuilt: Option<usize>,
}

impl CreateOptions {
    /// Makes the array: `roles` are its members in order, `None` where one is missing. What the
    /// devices hold is gone; whoever calls has asked whether it may be.
    ///
    /// # Errors
    /// [`Error`]; nothing was written unless it is [`Error::Device`].
    pub fn create(
        &self,
        roles: &[Option<NewMember>],
        spares: &[NewMember],
    ) -> Result<Geometry, Error> {
        self.check(roles, spares)?;
        let all: Vec<&NewMember> = roles.iter().flatten().chain(spares).collect();
        let (layouts, size, bitmap) = self.layouts(&all)?;
        let data_sizes: Vec<Sectors> = layouts.iter().map(|room| room.data_size).collect();
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

    /// How many of the devices have a data area that counts by itself.
    fn own(&self, roles: &[Option<NewMember>]) -> usize {
        if self.is_redundant() { 0 } else { roles.iter().flatten().count() }
    }

    fn is_redundant(&self) -> bool {
        !matches!(self.layout.level(), Level::Linear | Level::Raid0)
    }

    /// What can be said without the devices' sizes.
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

    /// The places on all members, the size of each (0 without redundancy), and how many bytes a bit
    /// of the bitmap covers.
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
        // Of RAID10 the bits cover the array; it is never larger than all members together.
        let members = if self.layout.level() == Level::Raid10 { all.len() as u64 } else { 1 };
        let covered = Sectors(size.0.saturating_mul(members));
        let sectors = member_layout::bitmap_sectors(covered, chunk);
        let most = layouts.iter().map(|room| room.data_offset.0.max(2048)).min().unwrap_or(0) / 2;
        if sectors > most {
            return Err(Error::Bitmap(chunk));
        }
        let layouts = on(BitmapSpace::Now(sectors))?;
        let size = self.component(all, &layouts)?;
        Ok((layouts, size, Some(chunk)))
    }

    /// Sectors used of each member.
    fn component(&self, all: &[&NewMember], layouts: &[MemberLayout]) -> Result<Sectors, Error> {
        let smallest = (0..all.len()).min_by_key(|i| layouts[*i].data_size);
        let Some(smallest) = smallest else { return Ok(Sectors(0)) };
        let (name, room) = (all[smallest].name.clone(), layouts[smallest].data_size);
        match self.size {
            Some(size) if size > room => Err(Error::Size { size, name, room }),
            wanted => match member_layout::rounded(wanted.unwrap_or(room), self.chunk) {
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

    /// The bitmap of the array: all bits are set where anything may differ.
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

    /// Everybody's superblock. Devices are numbered by their roles, then come spares, and last the
    /// one that is rebuilt: to md it is a spare that has just been taken.
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
        let one = |((member, room), number): ((&&'a NewMember, &MemberLayout), &usize)| {
            let mut superblock = table.clone();
            superblock.dev_number.set(u32::try_from(*number).unwrap_or(u32::MAX));
            superblock.device_uuid = member.uuid;
            set_layout(&mut superblock, room, has_bitmap);
            if initial.rebuilt.is_some() && *number == count + spares {
                let features = superblock.feature_map.get();
                superblock.feature_map.set(features | feature::RECOVERY_OFFSET);
            }
            Planned { member, superblock }
        };
        all.iter().zip(layouts).zip(&numbers).map(one).collect()
    }

    /// What all superblocks have in common.
    fn superblock(
        &self,
        geometry: &Geometry,
        has_bitmap: bool,
        initial: &InitialState,
    ) -> SuperblockV1 {
        let mut sb = SuperblockV1::new_zeroed();
        sb.magic.set(MAGIC);
        sb.major_version.set(1);
        let raid0 = if geometry.level() == Level::Raid0 { feature::RAID0_LAYOUT } else { 0 };
        let bitmap = if has_bitmap { feature::BITMAP_OFFSET } else { 0 };
        sb.feature_map.set(raid0 | bitmap);
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

/// What one member's superblock says about places.
pub(crate) fn set_layout(superblock: &mut SuperblockV1, room: &MemberLayout, has_bitmap: bool) {
    superblock.super_offset.set(room.superblock.0);
    superblock.data_offset.set(room.data_offset.0);
    superblock.data_size.set(room.data_size.0);
    superblock.bblog_offset.set(room.bblog_offset);
    superblock.bblog_size.set(BBLOG_SECTORS);
    superblock.bitmap_offset.set(if has_bitmap { room.bitmap_offset } else { 0 });
}

/// Writes a new member: the remains of other superblocks go first, its own comes last.
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

/// Takes every superblock but the one at `but` off a device.
///
/// # Errors
/// Where it cannot be written.
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
