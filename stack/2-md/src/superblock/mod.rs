//! Superblocks: what a member records about itself and its array.
//!
//! There are two formats in four places: 0.90 near the end of the member; version 1 near the end
//! (1.0), at the start (1.1) or 4 KiB behind it (1.2). [`read`] checks all four places and takes
//! the superblock with the newest creation time, as mdadm does. The methods of [`Superblock`] hide
//! the format. All bytes are untrusted: nothing is used before `verify` has passed.
//! [`assemble`](mod@crate::assemble) checks what depends on the device's size or on other members.

mod update;
pub mod v090;
pub mod v1;

use std::fmt;

use serde::Serialize;
use xfskit_block::BlockDevice;
use xfskit_units::{ArraySector, ByteLen, Daddr, MemberSector, Sectors, SyncSector};

pub use v1::SuperblockV1;
pub use v090::SuperblockV090;

use v1::{DevFlags, FeatureMap, IN_SYNC};

/// Bytes of a superblock of any version.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// The largest member in sectors: bytes and chunks can still be counted in 64 bits.
pub const MAX_SECTORS: Daddr = Daddr(1 << 54);

/// The versions of a superblock; 1.0, 1.1 and 1.2 differ only in their place.
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
    /// All versions, in the order in which they are searched.
    pub const ALL: [Self; 4] = [Self::V1_2, Self::V1_1, Self::V1_0, Self::V0_90];

    /// Returns the superblock's sector on a member of `size`; `None` if the member is too small.
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

/// Formats a UUID as md does: four words in hexadecimal.
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

/// A time as superblocks store it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: u64,
    /// Microseconds within the second.
    pub micros: u32,
}

impl Time {
    /// Decodes a time of version 1: seconds in the low 40 bits, microseconds above.
    fn packed(time: u64) -> Self {
        Self { seconds: time & ((1 << 40) - 1), micros: u32::try_from(time >> 40).unwrap_or(0) }
    }
}

/// A reshape that is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reshape {
    /// Its position in the array.
    pub position: ArraySector,
    /// It runs from the end to the start.
    pub backwards: bool,
    /// Roles after minus roles before.
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

/// An impossible field, as found by a verifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{field} is {found}, expected {expected} [{check}]", field = .check.split_once('.').map_or(*.check, |(_, field)| field))]
pub struct Corruption {
    /// The check's stable id: `md1.sb_csum`.
    pub check: &'static str,
    /// The value found.
    pub found: String,
    /// The possible values.
    pub expected: String,
}

/// Returns a [`Corruption`] unless `ok`.
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

/// Folds a sum of 32-bit words as md stores it: the carry is added once.
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

/// The superblock of a device, and whether it is valid.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which version it is.
    pub version: Version,
    /// The superblock, as it is.
    pub superblock: Superblock,
    /// The first impossible field.
    pub corruption: Option<Corruption>,
}

/// Reads the superblock of `device`. Of several, prefers valid ones, then the one of the array
/// created last. Returns `None` if there is none.
///
/// # Errors
/// Returns an error if the device cannot be read.
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
    /// Decodes the bytes read at `at` as a superblock of this version, if they are one.
    pub fn decode(version: Version, bytes: &[u8], at: Daddr) -> Option<Self> {
        match version {
            Version::V0_90 => {
                SuperblockV090::decode(bytes, at).map(|found| Self::V090(Box::new(found)))
            }
            _ => SuperblockV1::decode(bytes, at).map(|found| Self::V1(Box::new(found))),
        }
    }

    /// Encodes the superblock as it is on disk, at [`at`](Self::at), with a new checksum.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::V1(sb) => sb.encode(),
            Self::V090(sb) => sb.encode(),
        }
    }

    /// Verifies everything that does not depend on the device and the other members.
    ///
    /// # Errors
    /// Returns the first impossible field.
    pub fn verify(&self) -> Result<(), Corruption> {
        match self {
            Self::V1(sb) => sb.verify(),
            Self::V090(sb) => sb.verify(),
        }
    }

    /// Returns the superblock's sector on the member.
    pub fn at(&self) -> Daddr {
        match self {
            Self::V1(sb) => Daddr(sb.super_offset.get()),
            Self::V090(sb) => sb.at,
        }
    }

    /// Returns the array's UUID.
    pub fn set_uuid(&self) -> [u8; 16] {
        match self {
            Self::V1(sb) => sb.set_uuid,
            Self::V090(sb) => sb.set_uuid(),
        }
    }

    /// Returns the array's UUID as its bitmap stores it: 0.90 writes its words in the machine's
    /// byte order.
    pub fn bitmap_uuid(&self) -> [u8; 16] {
        let mut uuid = self.set_uuid();
        if matches!(self, Self::V090(sb) if !sb.big_endian) {
            v090::swap_words(&mut uuid);
        }
        uuid
    }

    /// Returns the member's own UUID; 0.90 has none.
    pub fn device_uuid(&self) -> Option<[u8; 16]> {
        match self {
            Self::V1(sb) => Some(sb.device_uuid),
            Self::V090(_) => None,
        }
    }

    /// Returns the array's name; 0.90 has none.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::V1(sb) => Some(sb.name()),
            Self::V090(_) => None,
        }
    }

    /// Returns the creation time of the array.
    pub fn ctime(&self) -> Time {
        match self {
            Self::V1(sb) => Time::packed(sb.ctime.get()),
            Self::V090(sb) => Time { seconds: u64::from(sb.fields.ctime.get()), micros: 0 },
        }
    }

    /// Returns when the superblock was last written.
    pub fn utime(&self) -> Time {
        match self {
            Self::V1(sb) => Time::packed(sb.utime.get()),
            Self::V090(sb) => Time { seconds: u64::from(sb.fields.utime.get()), micros: 0 },
        }
    }

    /// Returns the number of changes of the array. The superblock with the largest number is the
    /// newest.
    pub fn events(&self) -> u64 {
        match self {
            Self::V1(sb) => sb.events.get(),
            Self::V090(sb) => sb.events(),
        }
    }

    /// Returns the level's number: -1 linear, 0, 1, 4, 5, 6, 10.
    pub fn level(&self) -> i32 {
        match self {
            Self::V1(sb) => sb.level.get(),
            Self::V090(sb) => sb.fields.level.get(),
        }
    }

    /// Returns the layout's number; its meaning depends on the level.
    pub fn layout(&self) -> u32 {
        match self {
            Self::V1(sb) => sb.layout.get(),
            Self::V090(sb) => sb.fields.layout.get(),
        }
    }

    /// Returns the sectors per chunk; 0 if there are no chunks.
    pub fn chunk(&self) -> Sectors {
        Sectors(match self {
            Self::V1(sb) => u64::from(sb.chunksize.get()),
            Self::V090(sb) => u64::from(sb.fields.chunk_size.get() / 512),
        })
    }

    /// Returns the number of roles.
    pub fn raid_disks(&self) -> u32 {
        match self {
            Self::V1(sb) => sb.raid_disks.get(),
            Self::V090(sb) => sb.fields.raid_disks.get(),
        }
    }

    /// Returns the sectors used of each member; 0 for RAID0 and linear, which use all of each.
    pub fn size(&self) -> Sectors {
        match self {
            Self::V1(sb) => Sectors(sb.size.get()),
            Self::V090(sb) => sb.size(),
        }
    }

    /// Returns the first sector of data on this member.
    pub fn data_offset(&self) -> Sectors {
        match self {
            Self::V1(sb) => Sectors(sb.data_offset.get()),
            Self::V090(_) => Sectors(0),
        }
    }

    /// Returns the sectors of this member that can hold data.
    pub fn data_size(&self) -> Sectors {
        match self {
            Self::V1(sb) => Sectors(sb.data_size.get()),
            Self::V090(sb) => Sectors(sb.at.0),
        }
    }

    /// Returns this device's number in the role table.
    pub fn dev_number(&self) -> u32 {
        match self {
            Self::V1(sb) => sb.dev_number.get(),
            Self::V090(sb) => sb.fields.this_disk.number.get(),
        }
    }

    /// Returns what this device is, by its own role table.
    pub fn role(&self) -> Role {
        self.role_of(self.dev_number())
    }

    /// Returns what device `dev_number` is, by this member's role table.
    pub fn role_of(&self, dev_number: u32) -> Role {
        match self {
            Self::V1(sb) => sb.role_of(dev_number),
            Self::V090(sb) => sb.role_of(dev_number),
        }
    }

    /// Returns the number of entries in the role table.
    pub fn max_dev(&self) -> u32 {
        match self {
            Self::V1(sb) => u32::try_from(sb.roles().len()).unwrap_or(u32::MAX),
            Self::V090(sb) => u32::try_from(sb.fields.disks.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns where a resync has to begin; `None` if the array is clean.
    pub fn resync_offset(&self) -> Option<SyncSector> {
        match self {
            // On RAID10 this counts sectors of the array, which is larger than a member.
            Self::V1(sb) if sb.level.get() == 10 => {
                Some(sb.resync_offset.get()).filter(|at| *at != IN_SYNC)
            }
            Self::V1(sb) => Some(sb.resync_offset.get()).filter(|at| *at < sb.size.get()),
            Self::V090(sb) => sb.resync_offset(),
        }
        .map(SyncSector)
    }

    /// Returns where the part of this member begins that is not rebuilt; `None` if all of it is.
    pub fn recovery_offset(&self) -> Option<MemberSector> {
        match self {
            Self::V1(sb) if sb.has(FeatureMap::RECOVERY_BITMAP) => Some(MemberSector(0)),
            Self::V1(sb) if sb.has(FeatureMap::RECOVERY_OFFSET) => {
                Some(MemberSector(sb.recovery_offset.get()))
            }
            _ => None,
        }
    }

    /// Returns true if the device was away and lacks only what the write-intent bitmap names.
    pub fn recovers_by_bitmap(&self) -> bool {
        matches!(self, Self::V1(sb) if sb.has(FeatureMap::RECOVERY_BITMAP))
    }

    /// Returns true if the device is to replace the active one of its role.
    pub fn is_replacement(&self) -> bool {
        matches!(self, Self::V1(sb) if sb.has(FeatureMap::REPLACEMENT))
    }

    /// Returns true if reads should go to other members.
    pub fn write_mostly(&self) -> bool {
        match self {
            Self::V1(sb) => sb.dev_flags().contains(DevFlags::WRITE_MOSTLY),
            Self::V090(sb) => sb.fields.this_disk.state.get() & v090::disk::WRITE_MOSTLY != 0,
        }
    }

    /// Returns true if the array has a journal device.
    pub fn has_journal(&self) -> bool {
        matches!(self, Self::V1(sb) if sb.has(FeatureMap::JOURNAL))
    }

    /// Returns where the write-intent bitmap begins on this member.
    pub fn bitmap(&self) -> Option<Daddr> {
        match self {
            Self::V1(sb) => sb.bitmap(),
            Self::V090(sb) => sb.bitmap(),
        }
    }

    /// Returns where this member's bad-block log lies, if it has entries.
    pub fn bad_blocks(&self) -> Option<MemberRange> {
        match self {
            Self::V1(sb) if sb.has(FeatureMap::BAD_BLOCKS) => sb.bad_blocks(),
            _ => None,
        }
    }

    /// Returns where this member's partial parity log lies.
    pub fn ppl(&self) -> Option<MemberRange> {
        match self {
            Self::V1(sb) => sb.ppl(),
            Self::V090(_) => None,
        }
    }

    /// Returns the reshape that is in progress.
    pub fn reshape(&self) -> Option<Reshape> {
        match self {
            Self::V1(sb) => sb.has(FeatureMap::RESHAPE_ACTIVE).then(|| Reshape {
                position: ArraySector(sb.reshape_position.get()),
                backwards: sb.has(FeatureMap::RESHAPE_BACKWARDS) || sb.delta_disks.get() < 0,
                delta_disks: sb.delta_disks.get(),
                new_level: sb.new_level.get(),
                new_layout: sb.new_layout.get(),
                new_chunk: Sectors(u64::from(sb.new_chunk.get())),
                new_offset: if sb.has(FeatureMap::NEW_OFFSET) { sb.new_offset.get() } else { 0 },
            }),
            Self::V090(sb) => sb.reshaping().then(|| Reshape {
                position: ArraySector(sb.reshape_position()),
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
