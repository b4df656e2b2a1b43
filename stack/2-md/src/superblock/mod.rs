//! Superblocks: what a member says about itself and its array.
//!
//! There are two layouts in four places: 0.90 near the end of the member, and version 1 near the end
//! (1.0), at its start (1.1) or 4 KiB behind it (1.2). [`read`] looks into all four and takes the one
//! with the newest creation time, as mdadm does; the methods of [`Superblock`] answer what assembly
//! asks, the same for both layouts. All bytes are somebody else's: nothing read here is used before
//! `verify` has passed, and what only the device's size or the other members can tell is judged by
//! [`assemble`](mod@crate::assemble).

mod update;
pub mod v090;
pub mod v1;

use std::fmt;

use serde::Serialize;
use xfskit_block::BlockDevice;
use xfskit_units::{ByteLen, Daddr, Sectors};

pub use v1::SuperblockV1;
pub use v090::SuperblockV090;

use v1::{IN_SYNC, devflag, feature};

/// Bytes of a superblock of any version.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// Sectors a member can have at most: bytes and chunks can still be counted in 64 bits.
pub const MAX_SECTORS: Daddr = Daddr(1 << 54);

/// The four versions; the place tells 1.0, 1.1 and 1.2 apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Version {
    /// The last whole 64 KiB of the member.
    #[serde(rename = "0.90")]
    V0_90,
    /// At least 8 KiB before the end of the member.
    #[serde(rename = "1.0")]
    V1_0,
    /// The member's first sector.
    #[serde(rename = "1.1")]
    V1_1,
    /// 4 KiB behind the start of the member. What mdadm makes.
    #[serde(rename = "1.2")]
    V1_2,
}

impl Version {
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Self; 4] = [Self::V1_2, Self::V1_1, Self::V1_0, Self::V0_90];

    /// Where the superblock lies on a member of `size`; `None` where the member is too small.
    pub fn superblock_sector(self, size: ByteLen) -> Option<Daddr> {
        let sectors = size.0 / 512;
        let at = match self {
            Self::V0_90 => (sectors & !127).checked_sub(128)?,
            Self::V1_0 => sectors.checked_sub(16)? & !7,
            Self::V1_1 => 0,
            Self::V1_2 => 8,
        };
        let end = at.checked_add(8)?;
        (end <= sectors).then_some(Daddr(at))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V0_90 => "0.90",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
        })
    }
}

/// An identity as md prints it: four words in hexadecimal.
pub fn hex(uuid: [u8; 16]) -> String {
    let words = uuid.as_chunks::<4>().0.iter();
    words.map(|word| format!("{:08x}", u32::from_be_bytes(*word))).collect::<Vec<_>>().join(":")
}

/// What a device is to its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It holds this role's share of the data.
    Active(u32),
    /// It waits for another to fail.
    Spare,
    /// It failed or was removed.
    Faulty,
    /// It holds the journal.
    Journal,
}

/// A range of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemberRange {
    /// Its first sector.
    pub at: Daddr,
    /// How many sectors.
    pub len: Sectors,
}

/// A moment as superblocks have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: u64,
    /// Microseconds within the second.
    pub micros: u32,
}

impl Time {
    /// Version 1: seconds in the low 40 bits, microseconds above.
    fn packed(time: u64) -> Self {
        Self { seconds: time & ((1 << 40) - 1), micros: u32::try_from(time >> 40).unwrap_or(0) }
    }
}

/// A reshape that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reshape {
    /// How far it has come, in sectors of the array.
    pub position: u64,
    /// It runs from the end to the start.
    pub backwards: bool,
    /// Roles after less roles before.
    pub delta_disks: i32,
    /// Level after.
    pub new_level: i32,
    /// Layout after.
    pub new_layout: u32,
    /// Sectors per chunk after.
    pub new_chunk: Sectors,
    /// Sectors from where this member's data begin now to where they begin after.
    pub new_offset: i32,
}

/// A field that cannot be true.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{field} is {found}, expected {expected} [{check}]", field = .check.split_once('.').map_or(*.check, |(_, field)| field))]
pub struct Corruption {
    /// Its stable name: `md1.sb_csum`.
    pub check: &'static str,
    /// What stands there.
    pub found: String,
    /// What could.
    pub expected: String,
}

/// Passes where `ok`.
pub(crate) fn check(
    check: &'static str,
    ok: bool,
    found: impl fmt::Display,
    expected: impl fmt::Display,
) -> Result<(), Corruption> {
    let corruption =
        || Corruption { check, found: found.to_string(), expected: expected.to_string() };
    if ok { Ok(()) } else { Err(corruption()) }
}

/// A sum of 32-bit words as md stores it: the carry added once.
pub(crate) fn fold(sum: u64) -> u32 {
    let [a, b, c, d, e, f, g, h] = sum.to_le_bytes();
    u32::from_le_bytes([a, b, c, d]).wrapping_add(u32::from_le_bytes([e, f, g, h]))
}

/// A superblock of any version.
#[derive(Clone, Debug)]
pub enum Superblock {
    /// Versions 1.0, 1.1, 1.2.
    V1(Box<SuperblockV1>),
    /// Version 0.90.
    V090(Box<SuperblockV090>),
}

/// The superblock of a device, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which version it is.
    pub version: Version,
    /// The superblock, as it is.
    pub superblock: Superblock,
    /// The first field that cannot be true.
    pub corruption: Option<Corruption>,
}

/// The superblock that says the most about `device`: of those that are whole the one of the array
/// made last, else of the others. `None` where there is none.
///
/// # Errors
/// Where the device cannot be read.
pub fn read(device: &dyn BlockDevice) -> xfskit_block::Result<Option<Found>> {
    let mut found: Vec<Found> = Vec::new();
    for version in Version::ALL {
        let Some(at) = version.superblock_sector(device.size()) else { continue };
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        device.read_at(at.byte_offset(), &mut bytes)?;
        let Some(superblock) = Superblock::decode(version, &bytes, at) else { continue };
        let corruption = superblock.verify().err();
        found.push(Found { version, superblock, corruption });
    }
    // The first of equals: the order of `Version::ALL` decides.
    found.reverse();
    Ok(found.into_iter().max_by_key(|found| (found.corruption.is_none(), found.superblock.ctime())))
}

impl Superblock {
    /// The bytes read at `at` as a superblock of this version, where they are one.
    pub fn decode(version: Version, bytes: &[u8], at: Daddr) -> Option<Self> {
        match version {
            Version::V0_90 => {
                SuperblockV090::decode(bytes, at).map(|found| Self::V090(Box::new(found)))
            }
            _ => SuperblockV1::decode(bytes, at).map(|found| Self::V1(Box::new(found))),
        }
    }

    /// The bytes as they go to the disk, at [`at`](Self::at), with the checksum made anew.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::V1(sb) => sb.encode(),
            Self::V090(sb) => sb.encode(),
        }
    }

    /// Everything that can be said without the device and the other members.
    ///
    /// # Errors
    /// The first field that cannot be true.
    pub fn verify(&self) -> Result<(), Corruption> {
        match self {
            Self::V1(sb) => sb.verify(),
            Self::V090(sb) => sb.verify(),
        }
    }

    /// Where it lies on the member.
    pub fn at(&self) -> Daddr {
        match self {
            Self::V1(sb) => Daddr(sb.super_offset.get()),
            Self::V090(sb) => sb.at,
        }
    }

    /// The array's identity.
    pub fn set_uuid(&self) -> [u8; 16] {
        match self {
            Self::V1(sb) => sb.set_uuid,
            Self::V090(sb) => sb.set_uuid(),
        }
    }

    /// The array's identity as its bitmap has it: 0.90 writes its words in the machine's order.
    pub fn bitmap_uuid(&self) -> [u8; 16] {
        let mut uuid = self.set_uuid();
        if matches!(self, Self::V090(sb) if !sb.big_endian) {
            v090::swap_words(&mut uuid);
        }
        uuid
    }

    /// The member's own identity; 0.90 has none.
    pub fn device_uuid(&self) -> Option<[u8; 16]> {
        match self {
            Self::V1(sb) => Some(sb.device_uuid),
            Self::V090(_) => None,
        }
    }

    /// The array's name; 0.90 has none.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::V1(sb) => Some(sb.name()),
            Self::V090(_) => None,
        }
    }

    /// When the array was made.
    pub fn ctime(&self) -> Time {
        match self {
            Self::V1(sb) => Time::packed(sb.ctime.get()),
            Self::V090(sb) => Time { seconds: u64::from(sb.fields.ctime.get()), micros: 0 },
        }
    }

    /// When the superblock was last written.
    pub fn utime(&self) -> Time {
        match self {
            Self::V1(sb) => Time::packed(sb.utime.get()),
            Self::V090(sb) => Time { seconds: u64::from(sb.fields.utime.get()), micros: 0 },
        }
    }

    /// Counts the changes of the array: the largest is the truth.
    pub fn events(&self) -> u64 {
        match self {
            Self::V1(sb) => sb.events.get(),
            Self::V090(sb) => sb.events(),
        }
    }

    /// The level's number: -1 linear, 0, 1, 4, 5, 6, 10.
    pub fn level(&self) -> i32 {
        match self {
            Self::V1(sb) => sb.level.get(),
            Self::V090(sb) => sb.fields.level.get(),
        }
    }

    /// How chunks lie, as the level counts it.
    pub fn layout(&self) -> u32 {
        match self {
            Self::V1(sb) => sb.layout.get(),
            Self::V090(sb) => sb.fields.layout.get(),
        }
    }

    /// Sectors per chunk; 0 where there are no chunks.
    pub fn chunk(&self) -> Sectors {
        Sectors(match self {
            Self::V1(sb) => u64::from(sb.chunksize.get()),
            Self::V090(sb) => u64::from(sb.fields.chunk_size.get() / 512),
        })
    }

    /// Roles of the array.
    pub fn raid_disks(&self) -> u32 {
        match self {
            Self::V1(sb) => sb.raid_disks.get(),
            Self::V090(sb) => sb.fields.raid_disks.get(),
        }
    }

    /// Sectors used of each member; 0 for RAID0 and linear, which use all of each.
    pub fn size(&self) -> Sectors {
        match self {
            Self::V1(sb) => Sectors(sb.size.get()),
            Self::V090(sb) => sb.size(),
        }
    }

    /// First sector of data on this member.
    pub fn data_offset(&self) -> Sectors {
        match self {
            Self::V1(sb) => Sectors(sb.data_offset.get()),
            Self::V090(_) => Sectors(0),
        }
    }

    /// Sectors that can hold data on this member.
    pub fn data_size(&self) -> Sectors {
        match self {
            Self::V1(sb) => Sectors(sb.data_size.get()),
            Self::V090(sb) => Sectors(sb.at.0),
        }
    }

    /// This device's number in the table of devices.
    pub fn dev_number(&self) -> u32 {
        match self {
            Self::V1(sb) => sb.dev_number.get(),
            Self::V090(sb) => sb.fields.this_disk.number.get(),
        }
    }

    /// What this device is, by its own table.
    pub fn role(&self) -> Role {
        self.role_of(self.dev_number())
    }

    /// What device `dev_number` is, by this member's table.
    pub fn role_of(&self, dev_number: u32) -> Role {
        match self {
            Self::V1(sb) => sb.role_of(dev_number),
            Self::V090(sb) => sb.role_of(dev_number),
        }
    }

    /// Entries in the table of devices.
    pub fn max_dev(&self) -> u32 {
        match self {
            Self::V1(sb) => u32::try_from(sb.roles().len()).unwrap_or(u32::MAX),
            Self::V090(sb) => u32::try_from(sb.fields.disks.len()).unwrap_or(u32::MAX),
        }
    }

    /// Where a resync has to begin, in sectors of each member (of RAID10, of the array); `None` where the
    /// array is clean.
    pub fn resync_offset(&self) -> Option<Sectors> {
        match self {
            // Of RAID10 it counts sectors of the array, which is larger than a member.
            Self::V1(sb) if sb.level.get() == 10 => {
                Some(sb.resync_offset.get()).filter(|at| *at != IN_SYNC)
            }
            Self::V1(sb) => Some(sb.resync_offset.get()).filter(|at| *at < sb.size.get()),
            Self::V090(sb) => sb.resync_offset(),
        }
        .map(Sectors)
    }

    /// How many sectors of this member are rebuilt; `None` for all.
    pub fn recovery_offset(&self) -> Option<Sectors> {
        match self {
            Self::V1(sb) if sb.has(feature::RECOVERY_BITMAP) => Some(Sectors(0)),
            Self::V1(sb) if sb.has(feature::RECOVERY_OFFSET) => {
                Some(Sectors(sb.recovery_offset.get()))
            }
            _ => None,
        }
    }

    /// True where the device was away, and lacks what the write-intent bitmap names.
    pub fn recovers_by_bitmap(&self) -> bool {
        matches!(self, Self::V1(sb) if sb.has(feature::RECOVERY_BITMAP))
    }

    /// True where the device is to replace the active one of its role.
    pub fn is_replacement(&self) -> bool {
        matches!(self, Self::V1(sb) if sb.has(feature::REPLACEMENT))
    }

    /// True where reads should go to other members.
    pub fn write_mostly(&self) -> bool {
        match self {
            Self::V1(sb) => sb.devflags & devflag::WRITE_MOSTLY != 0,
            Self::V090(sb) => sb.fields.this_disk.state.get() & v090::disk::WRITE_MOSTLY != 0,
        }
    }

    /// True where the array has a journal device.
    pub fn has_journal(&self) -> bool {
        matches!(self, Self::V1(sb) if sb.has(feature::JOURNAL))
    }

    /// Where the write-intent bitmap begins on this member.
    pub fn bitmap(&self) -> Option<Daddr> {
        match self {
            Self::V1(sb) => sb.bitmap(),
            Self::V090(sb) => sb.bitmap(),
        }
    }

    /// Where this member's bad-block log lies, if it has entries.
    pub fn bad_blocks(&self) -> Option<MemberRange> {
        match self {
            Self::V1(sb) if sb.has(feature::BAD_BLOCKS) => sb.bad_blocks(),
            _ => None,
        }
    }

    /// Where this member's partial parity log lies.
    pub fn ppl(&self) -> Option<MemberRange> {
        match self {
            Self::V1(sb) => sb.ppl(),
            Self::V090(_) => None,
        }
    }

    /// The reshape that is under way.
    pub fn reshape(&self) -> Option<Reshape> {
        match self {
            Self::V1(sb) => sb.has(feature::RESHAPE_ACTIVE).then(|| Reshape {
                position: sb.reshape_position.get(),
                backwards: sb.has(feature::RESHAPE_BACKWARDS) || sb.delta_disks.get() < 0,
                delta_disks: sb.delta_disks.get(),
                new_level: sb.new_level.get(),
                new_layout: sb.new_layout.get(),
                new_chunk: Sectors(u64::from(sb.new_chunk.get())),
                new_offset: if sb.has(feature::NEW_OFFSET) { sb.new_offset.get() } else { 0 },
            }),
            Self::V090(sb) => sb.reshaping().then(|| Reshape {
                position: sb.reshape_position(),
                backwards: sb.fields.delta_disks.get() < 0,
                delta_disks: sb.fields.delta_disks.get(),
                new_level: sb.fields.new_level.get(),
                new_layout: sb.fields.new_layout.get(),
                new_chunk: Sectors(u64::from(sb.fields.new_chunk.get() / 512)),
                new_offset: 0,
            }),
        }
    }
}
