//! The geometry of one array, checked once, and the members' slots.
//!
//! Code that later divides, multiplies or indexes by these numbers relies on the checks here: sizes
//! stay below 2^63 bytes, a chunk is never 0 where it is a divisor, and RAID6 never has more
//! members than GF(2^8) has exponents.

use std::ops::Range;
use std::sync::Arc;

use xfskit_block::{BlockDevice, Topology};
use xfskit_units::{ByteLen, MemberSector, Sectors};

use crate::layout::{Layout, Level, Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};
use crate::superblock::MemberRange;

/// The maximum size of a member or an array: 2^63 bytes.
const MAX_SECTORS: Sectors = Sectors(1 << 54);

/// The most members that a 1.x superblock has room for (`dev_roles` of 4096 bytes).
pub const MAX_RAID_DISKS: u32 = 1920;

/// The smallest unit of parity levels and the step of every chunk size: 4 KiB.
pub const PAGE_SECTORS: Sectors = Sectors(8);

/// Why numbers make no array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// An unsupported level: multipath, faulty, container.
    #[error("level {level} is not supported [md.level]")]
    Level {
        /// The superblock's `level`.
        level: i32,
    },
    /// A layout that the level does not have.
    #[error("{level} has no layout {layout} ({layout:#x}) [md.layout]")]
    Layout {
        /// The level.
        level: Level,
        /// The superblock's `layout`.
        layout: u32,
    },
    /// A RAID0 of members of several sizes that does not specify its layout.
    #[error(
        "this raid0 has members of several sizes but does not say whether its layout is \
         \"original\" or \"alternate\" [md.layout.unspecified]"
    )]
    LayoutUnspecified,
    /// A chunk size that the level does not support.
    #[error("{level} cannot have chunks of {chunk} sectors: {expected} [md.chunk]")]
    Chunk {
        /// The level.
        level: Level,
        /// The chunk, in sectors.
        chunk: Sectors,
        /// What it should be.
        expected: &'static str,
    },
    /// Fewer or more members than the level and layout support.
    #[error("{level} cannot have {raid_disks} members, only {min} to {max} [md.raid_disks]")]
    RaidDisks {
        /// The level.
        level: Level,
        /// How many members.
        raid_disks: u32,
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
    },
    /// A size of zero, or beyond the maximum.
    #[error("a size of {size} sectors is impossible [md.size]")]
    Size {
        /// The size of a member or of the array, in sectors.
        size: Sectors,
    },
}

/// The geometry of one array. Made by [`Geometry::new`] only, so its numbers are consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    layout: Layout,
    chunk: Sectors,
    raid_disks: u32,
    component: Sectors,
    members: Vec<Sectors>,
    array_size: Sectors,
}

impl Geometry {
    /// Checks the geometry of an array of `raid_disks` members.
    ///
    /// `chunk` is in sectors: ignored for RAID1, and 0 for a linear array without rounding. `size`
    /// is the superblock's component size in sectors, ignored for linear and RAID0. `data_sizes`
    /// are the members' usable sectors in role order, used for linear and RAID0 only; an empty
    /// slice is enough for other levels.
    ///
    /// # Errors
    /// Returns [`GeometryError`] if these numbers make no array.
    pub fn new(
        layout: Layout,
        chunk: Sectors,
        raid_disks: u32,
        size: Sectors,
        data_sizes: &[Sectors],
    ) -> Result<Self, GeometryError> {
        let level = layout.level();
        let chunk = if level == Level::Raid1 { Sectors(0) } else { chunk };
        check_chunk(level, chunk)?;
        check_raid_disks(layout, raid_disks)?;
        let (component, members) = match level {
            Level::Linear | Level::Raid0 => {
                if data_sizes.len() != raid_disks as usize {
                    let n = u32::try_from(data_sizes.len()).unwrap_or(u32::MAX);
                    let bounds = (raid_disks, raid_disks);
                    return Err(raid_disks_error(level, n, bounds));
                }
                let members = data_sizes.iter().map(|size| round(*size, chunk));
                (Sectors(0), members.collect::<Result<Vec<_>, _>>()?)
            }
            _ => (round(size, chunk)?, Vec::new()),
        };
        let zones = members.iter().any(|size| Some(size) != members.first());
        if layout == Layout::Raid0(Raid0Layout::Unspecified) && zones {
            return Err(GeometryError::LayoutUnspecified);
        }
        let mut geometry =
            Self { layout, chunk, raid_disks, component, members, array_size: Sectors(0) };
        geometry.array_size = geometry.compute_array_size()?;
        Ok(geometry)
    }

    /// Returns level and layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the level.
    pub fn level(&self) -> Level {
        self.layout.level()
    }

    /// Returns the chunk in sectors; 0 for RAID1 and for a linear array without rounding.
    pub fn chunk(&self) -> Sectors {
        self.chunk
    }

    /// Returns the chunk in bytes.
    pub fn chunk_bytes(&self) -> ByteLen {
        self.chunk.byte_len()
    }

    /// Returns the number of roles.
    pub fn raid_disks(&self) -> u32 {
        self.raid_disks
    }

    /// Returns the sectors that the array uses of each member, from its data offset; whole chunks.
    /// Returns 0 for linear and RAID0, see [`member_size`](Self::member_size).
    pub fn component_size(&self) -> Sectors {
        self.component
    }

    /// Returns the sectors that the array uses of the member with this role, from its data offset;
    /// 0 for a role that does not exist.
    pub fn member_size(&self, role: usize) -> Sectors {
        if role >= self.raid_disks as usize {
            return Sectors(0);
        }
        self.members.get(role).copied().unwrap_or(self.component)
    }

    /// Returns the size of the array in sectors.
    pub fn array_size(&self) -> Sectors {
        self.array_size
    }

    /// Returns the number of data chunks in one stripe, or of members that are striped over; 1 for
    /// linear and RAID1.
    pub fn data_disks(&self) -> u32 {
        match self.layout {
            Layout::Linear | Layout::Raid1 => 1,
            Layout::Raid0(_) => self.raid_disks,
            Layout::Raid4 | Layout::Raid5(_) => self.raid_disks - 1,
            Layout::Raid6(_) => self.raid_disks - 2,
            Layout::Raid10(layout) => (self.raid_disks / layout.copies()).max(1),
        }
    }

    /// Returns the stripes as Linux reports them. If the copies of a RAID10 do not fill whole
    /// stripes, as with two copies on five members, the stripe goes over all members.
    pub fn topology(&self) -> Topology {
        let members = match self.layout {
            Layout::Linear | Layout::Raid1 => return Topology::default(),
            Layout::Raid10(layout) if self.raid_disks.is_multiple_of(layout.near()) => {
                self.raid_disks / layout.near()
            }
            Layout::Raid10(_) => self.raid_disks,
            _ => self.data_disks(),
        };
        let stripe_unit = self.chunk_bytes();
        let stripe_width = ByteLen(stripe_unit.0.saturating_mul(u64::from(members)));
        Topology { stripe_unit, stripe_width, ..Topology::default() }
    }

    /// Returns how many members may be missing, whichever they are.
    pub fn tolerates(&self) -> u32 {
        self.layout.tolerates(self.raid_disks)
    }

    fn compute_array_size(&self) -> Result<Sectors, GeometryError> {
        let sectors = match self.layout {
            Layout::Linear => sum(&self.members, |size| size.0),
            Layout::Raid0(_) => {
                // Linux masks each member's whole chunks as if every chunk were a power of two.
                let mask = !(self.chunk.0 - 1);
                sum(&self.members, |size| size.0 & mask)
            }
            Layout::Raid1 => self.component.0,
            Layout::Raid4 | Layout::Raid5(_) | Layout::Raid6(_) => {
                self.component.0.saturating_mul(u64::from(self.data_disks()))
            }
            Layout::Raid10(layout) => {
                let rows = self.component.0 / self.chunk.0 / u64::from(layout.far());
                let chunks = rows * u64::from(self.raid_disks) / u64::from(layout.near());
                chunks.saturating_mul(self.chunk.0)
            }
        };
        check_size(Sectors(sectors))
    }
}

/// Returns the sum of the members' sizes by `count`, in sectors.
fn sum(members: &[Sectors], count: impl Fn(&Sectors) -> u64) -> u64 {
    members.iter().map(count).fold(0, u64::saturating_add)
}

impl Layout {
    /// Returns the layout that a superblock's `level` and `layout` name.
    ///
    /// # Errors
    /// Returns [`GeometryError::Level`] or [`GeometryError::Layout`] if md has no such level or
    /// layout.
    pub fn from_numbers(level: i32, layout: u32) -> Result<Self, GeometryError> {
        let known = Level::from_number(level).ok_or(GeometryError::Level { level })?;
        let unknown = GeometryError::Layout { level: known, layout };
        match known {
            Level::Linear => Ok(Self::Linear),
            Level::Raid0 => Raid0Layout::from_number(layout).map(Self::Raid0).ok_or(unknown),
            Level::Raid1 => Ok(Self::Raid1),
            Level::Raid4 => Ok(Self::Raid4),
            Level::Raid5 => Raid5Layout::from_number(layout).map(Self::Raid5).ok_or(unknown),
            Level::Raid6 => Raid6Layout::from_number(layout).map(Self::Raid6).ok_or(unknown),
            Level::Raid10 => Raid10Layout::from_number(layout).map(Self::Raid10).ok_or(unknown),
        }
    }
}

/// Checks that a size is neither zero nor beyond the maximum.
fn check_size(size: Sectors) -> Result<Sectors, GeometryError> {
    if (Sectors(1)..=MAX_SECTORS).contains(&size) {
        Ok(size)
    } else {
        Err(GeometryError::Size { size })
    }
}

/// Rounds `size` down to whole chunks.
fn round(size: Sectors, chunk: Sectors) -> Result<Sectors, GeometryError> {
    let rest = size.0.checked_rem(chunk.0).unwrap_or(0);
    check_size(check_size(size).map(|size| Sectors(size.0 - rest))?)
}

fn check_chunk(level: Level, chunk: Sectors) -> Result<(), GeometryError> {
    let expected = match level {
        Level::Linear | Level::Raid1 => return Ok(()),
        Level::Raid0 if chunk.0 > 0 && chunk.0.is_multiple_of(PAGE_SECTORS.0) => return Ok(()),
        Level::Raid0 => "a multiple of 4 KiB",
        _ if chunk >= PAGE_SECTORS && chunk.0.is_power_of_two() => return Ok(()),
        _ => "a power of two, at least 4 KiB",
    };
    Err(GeometryError::Chunk { level, chunk, expected })
}

fn raid_disks_error(level: Level, raid_disks: u32, (min, max): (u32, u32)) -> GeometryError {
    GeometryError::RaidDisks { level, raid_disks, min, max }
}

fn check_raid_disks(layout: Layout, raid_disks: u32) -> Result<(), GeometryError> {
    use Raid6Layout::{DdfNContinue, DdfNRestart, DdfZeroRestart};
    let bounds = match layout {
        Layout::Linear | Layout::Raid0(_) | Layout::Raid1 => (1, MAX_RAID_DISKS),
        Layout::Raid4 | Layout::Raid5(_) => (2, MAX_RAID_DISKS),
        // Exponents of Q are 0 to 254. In DDF order the roles are the exponents.
        Layout::Raid6(DdfNContinue | DdfNRestart | DdfZeroRestart) => (4, 255),
        Layout::Raid6(_) => (4, 257),
        Layout::Raid10(layout) => (layout.copies().max(2), MAX_RAID_DISKS),
    };
    if (bounds.0..=bounds.1).contains(&raid_disks) {
        Ok(())
    } else {
        Err(raid_disks_error(layout.level(), raid_disks, bounds))
    }
}

/// The member of one role, or its absence.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The member; `None` if the role is missing.
    pub device: Option<Arc<dyn BlockDevice>>,
    /// The member's name in messages: its path, or "missing".
    pub name: String,
    /// Where the member's data starts, in sectors from the start of the device.
    pub data_offset: Sectors,
    /// Usable sectors from `data_offset`.
    pub data_size: Sectors,
    /// Sectors from here on are not valid yet (`recovery_offset` of a member that is being
    /// rebuilt). [`Slot::ALL_READABLE`] for a member in sync.
    pub readable_until: MemberSector,
    /// Ranges that must not be read: the member's bad-block log. Sorted and disjoint.
    pub bad_blocks: Vec<Range<MemberSector>>,
    /// Read from this member only if no other can deliver the data (mirrors).
    pub write_mostly: bool,
    /// The member was away and is re-added: it lacks only what the write-intent bitmap names, and
    /// is not read until that is rebuilt.
    pub by_bitmap: bool,
    /// The device that is to replace the member.
    pub replacement: Option<Replacement>,
}

/// A device that is to replace a member, and is filled while the member serves.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Its name in messages.
    pub name: String,
    /// Where its data start, in sectors from the start of the device.
    pub data_offset: Sectors,
    /// Sectors that are filled already.
    pub filled: MemberSector,
    /// Ranges that must not be read.
    pub bad_blocks: Vec<Range<MemberSector>>,
    /// Its partial parity log, if the array has such logs.
    pub ppl: Option<MemberRange>,
}

impl Slot {
    /// The [`readable_until`](Self::readable_until) of a member in sync.
    pub const ALL_READABLE: MemberSector = MemberSector(u64::MAX);

    /// Returns the slot of a member in sync without bad blocks.
    pub fn new(
        device: Arc<dyn BlockDevice>,
        name: impl Into<String>,
        data_offset: Sectors,
        data_size: Sectors,
    ) -> Self {
        Self { device: Some(device), name: name.into(), data_offset, data_size, ..Self::missing() }
    }

    /// Returns the slot of a role without a member.
    pub fn missing() -> Self {
        Self {
            device: None,
            name: "missing".into(),
            data_offset: Sectors(0),
            data_size: Sectors(0),
            readable_until: Self::ALL_READABLE,
            bad_blocks: Vec::new(),
            write_mostly: false,
            by_bitmap: false,
            replacement: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Raid5Layout, Raid10Layout};

    fn raid10(name: &str) -> Layout {
        Layout::Raid10(Raid10Layout::from_name(name).unwrap())
    }

    #[test]
    fn array_sizes_equal_the_kernels() {
        let size = |layout, n| {
            Geometry::new(layout, Sectors(32), n, Sectors(2048 + 31), &[]).unwrap().array_size()
        };
        assert_eq!(size(Layout::Raid5(Raid5Layout::LeftSymmetric), 4), Sectors(3 * 2048));
        assert_eq!(size(Layout::Raid6(Raid6Layout::DdfNContinue), 5), Sectors(3 * 2048));
        assert_eq!(size(Layout::Raid4, 3), Sectors(2 * 2048));
        assert_eq!(size(Layout::Raid1, 2), Sectors(2048 + 31));
        assert_eq!(size(raid10("n3"), 4), Sectors(85 * 32));
        assert_eq!(size(raid10("f2"), 3), Sectors(3072));
        assert_eq!(size(raid10("o2"), 4), Sectors(4096));
    }

    #[test]
    fn linear_and_raid0_sizes_are_sums_of_member_sizes() {
        let sizes = [Sectors(100), Sectors(47), Sectors(200)];
        let linear = Geometry::new(Layout::Linear, Sectors(0), 3, Sectors(0), &sizes).unwrap();
        assert_eq!(linear.array_size(), Sectors(347));
        let raid0 = |layout| {
            let layout = Layout::Raid0(layout);
            Geometry::new(layout, Sectors(24), 3, Sectors(0), &sizes)
        };
        // Linux counts 8 sectors of a member with one chunk of 24 sectors.
        assert_eq!(raid0(Raid0Layout::Original).unwrap().array_size(), Sectors(96 + 8 + 192));
        assert_eq!(raid0(Raid0Layout::Unspecified), Err(GeometryError::LayoutUnspecified));
    }

    /// Chunk in KiB, sectors of the members' data, bytes of the array, as reported by Linux 7.2.
    const RAID0_OF_LINUX: [(u64, &[u64], u64); 9] = [
        (12, &[2048, 2048, 2048], 3_108_864),
        (12, &[2048, 4096, 6000], 6_180_864),
        (12, &[2072, 4104, 6024], 6_234_112),
        (20, &[5000, 5000, 7777], 9_093_120),
        (28, &[9999, 12345, 3000], 12_881_920),
        (36, &[9999, 12345], 11_358_208),
        (24, &[2048, 2048], 2_031_616),
        (64, &[2048, 2999], 2_555_904),
        (4, &[2047, 2999], 2_576_384),
    ];

    #[test]
    fn a_raid0_has_the_same_size_as_in_linux_for_any_chunk() {
        for (kib, sizes, bytes) in RAID0_OF_LINUX {
            let sizes: Vec<Sectors> = sizes.iter().copied().map(Sectors).collect();
            let n = u32::try_from(sizes.len()).unwrap();
            let layout = Layout::Raid0(Raid0Layout::Original);
            let array = Geometry::new(layout, Sectors(2 * kib), n, Sectors(0), &sizes).unwrap();
            assert_eq!(array.array_size().byte_len(), ByteLen(bytes), "{kib} KiB, {sizes:?}");
        }
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let make = |layout, chunk, n, size| {
            Geometry::new(layout, Sectors(chunk), n, Sectors(size), &[]).err()
        };
        let raid5 = Layout::Raid5(Raid5Layout::LeftSymmetric);
        let raid6 = Layout::Raid6(Raid6Layout::LeftSymmetric);
        assert_eq!(make(raid5, 8, 3, 4096), None);
        assert_eq!(make(raid6, 8, 257, 4096), None);
        for (layout, chunk, n, size) in [
            (raid5, 0, 3, 4096),
            (raid5, 4, 3, 4096),
            (raid5, 24, 3, 4096),
            (raid5, 8, 1, 4096),
            (raid5, 8, 2000, 4096),
            (raid5, 8, 3, 7),
            (raid5, 8, 3, u64::MAX),
            (raid5, 8, 1920, 1 << 54),
            (raid6, 8, 3, 4096),
            (raid6, 8, 258, 4096),
            (Layout::Raid6(Raid6Layout::DdfNRestart), 8, 256, 4096),
            (raid10("n3"), 8, 2, 4096),
            (Layout::Raid0(Raid0Layout::Original), 8, 2, 4096),
            (Layout::Raid1, 0, 0, 4096),
            (Layout::Raid1, 0, 2, 0),
        ] {
            assert!(make(layout, chunk, n, size).is_some(), "{layout:?} {chunk} {n} {size}");
        }
    }
}
