//! Shapes: levels, layouts and chunks that are tried, and where each keeps a sector.

use super::evidence::FoundBlock;
use crate::layout::mirror::{Copy, Raid10};
use crate::layout::parity::StripeLayout;
use crate::layout::{Layout, Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};
use xfskit_units::{ArraySector, Sectors};

/// Chunks that are tried, as powers of two of sectors: 4 KiB to 4 MiB.
const CHUNKS: std::ops::RangeInclusive<u32> = 3..=13;
/// Odd multiples of these that are tried as chunks of a RAID0: 12 KiB, 640 KiB.
const RAID0_FACTORS: [u64; 4] = [3, 5, 7, 9];
/// Chunks of an array of unknown size, for layouts whose copies do not depend on it.
const UNKNOWN_CHUNKS: u64 = 1 << 40;
/// Distances between far copies that are tried.
const STRIDES_MAX: usize = 3;

/// An arrangement of so many members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) layout: Layout,
    pub(super) chunk: Sectors,
    /// Sectors used of each member, where the arrangement depends on it.
    pub(super) size: Option<Sectors>,
    pub(super) members: usize,
}

/// A sector on the member of a role, counted from the data offset.
pub(super) type Place = (usize, u64);

impl Shape {
    /// Returns the map of a RAID10.
    pub(super) fn raid10(&self) -> Option<Raid10> {
        let Layout::Raid10(layout) = self.layout else { return None };
        let disks = u32::try_from(self.members).ok()?;
        let chunks = self.size.map_or(UNKNOWN_CHUNKS, |size| {
            self.per_copy(size).saturating_mul(u64::from(disks)) / u64::from(layout.near())
        });
        Some(Raid10::new(layout, disks, chunks))
    }

    /// Returns how many chunks of a member of this size hold the first copies, where other copies
    /// lie far behind them.
    pub(super) fn per_copy(&self, size: Sectors) -> u64 {
        let Layout::Raid10(layout) = self.layout else { return 0 };
        size.0 / self.chunk.0 / u64::from(layout.far())
    }

    /// Returns the layout of the stripe at this sector from the data offset, on levels with parity.
    pub(super) fn stripe(&self, at: u64) -> Option<StripeLayout> {
        StripeLayout::new(self.layout, self.members, at.checked_div(self.chunk.0)?)
    }

    /// Adds the places of a sector of the array to `places`, one for each copy.
    pub(super) fn add_places(&self, at: ArraySector, places: &mut Vec<Place>) {
        if self.layout == Layout::Raid1 {
            return places.extend((0..self.members).map(|role| (role, at.0)));
        }
        let (c, off) = (at.0 / self.chunk.0, at.0 % self.chunk.0);
        if let Some(map) = self.raid10() {
            let place = |copy: Copy| {
                Some((copy.role, copy.chunk.checked_mul(self.chunk.0)?.checked_add(off)?))
            };
            return places.extend(map.copies(c).filter_map(place));
        }
        let data = StripeLayout::new(self.layout, self.members, 0)
            .map_or(self.members, |map| map.data_disks()) as u64;
        let (stripe, d) = (c / data, usize::try_from(c % data).unwrap_or(0));
        let role =
            StripeLayout::new(self.layout, self.members, stripe).map_or(d, |map| map.data_role(d));
        places.push((role, stripe * self.chunk.0 + off));
    }
}

/// Returns all layouts that are tried, the more common first. Layouts with all parity on the same
/// roles differ in the order of members only, and layouts that are the same on so many members are
/// tried once.
fn layouts(members: usize) -> impl Iterator<Item = Layout> {
    let raid6 = Raid6Layout::ALL
        .iter()
        .copied()
        .filter(|layout| !matches!(layout, Raid6Layout::ParityFirst | Raid6Layout::ParityFirst6));
    let raid5 =
        Raid5Layout::ALL.iter().copied().filter(|layout| *layout != Raid5Layout::ParityFirst);
    let (raid6, raid5) = (raid6.map(Layout::Raid6), raid5.map(Layout::Raid5));
    let raid10 = ["n2", "n3", "o2", "f2", "o3", "f3"];
    let raid10 = raid10.into_iter().filter_map(Raid10Layout::from_name).map(Layout::Raid10);
    let usual = [
        Layout::Raid6(Raid6Layout::LeftSymmetric),
        Layout::Raid5(Raid5Layout::LeftSymmetric),
        Layout::Raid1,
        Layout::Raid0(Raid0Layout::Original),
    ];
    let others = raid6.chain(raid5).filter(move |layout| !usual.contains(layout)).chain(raid10);
    usual.into_iter().chain(others).filter(move |layout| is_possible(*layout, members))
}

/// Returns true if the layout can have so many members and is not the same as another one.
fn is_possible(layout: Layout, members: usize) -> bool {
    match layout {
        // Near copies on all members are a RAID1.
        Layout::Raid10(layout) if layout.near() > 1 => members > layout.copies() as usize,
        Layout::Raid10(layout) => members >= layout.copies() as usize,
        Layout::Raid6(_) => (4..=255).contains(&members),
        Layout::Raid5(_) => members >= 3,
        _ => members >= 2,
    }
}

/// Returns the chunks of a layout that are tried.
fn chunks(layout: Layout) -> Vec<Sectors> {
    let powers = CHUNKS.map(|log| 1 << log);
    match layout {
        Layout::Raid1 => vec![Sectors(0)],
        Layout::Raid0(_) => {
            let odd = CHUNKS.flat_map(|log| RAID0_FACTORS.map(|factor| factor << log));
            powers.chain(odd).map(Sectors).collect()
        }
        _ => powers.map(Sectors).collect(),
    }
}

/// Returns the shapes of so many members that tolerate `missing` of them.
pub(super) fn shapes(members: usize, missing: usize, found: &[FoundBlock]) -> Vec<Shape> {
    let disks = u32::try_from(members).unwrap_or(u32::MAX);
    // RAID10 tolerates more missing members if they hold different chunks.
    let tolerates = |layout: &Layout| {
        matches!(layout, Layout::Raid10(_)) || layout.tolerates(disks) as usize >= missing
    };
    let strides = strides(found);
    let mut shapes = Vec::new();
    for layout in layouts(members).filter(tolerates) {
        for chunk in chunks(layout) {
            let shape = |size| Shape { layout, chunk, size, members };
            match layout {
                Layout::Raid10(raid10) if raid10.far() > 1 && !raid10.offset() => {
                    let whole = strides.iter().filter(|stride| stride.is_multiple_of(chunk.0));
                    let size = |stride: &u64| Sectors(stride * u64::from(raid10.far()));
                    shapes.extend(whole.map(|stride| shape(Some(size(stride)))));
                }
                _ => shapes.push(shape(None)),
            }
        }
    }
    shapes
}

/// Returns the most common distances between two copies of a block on different members.
fn strides(found: &[FoundBlock]) -> Vec<u64> {
    let mut blocks: Vec<&FoundBlock> = found.iter().collect();
    blocks.sort_by_key(|block| (block.address, block.at));
    let apart = |pair: &[&FoundBlock]| {
        let [one, other] = pair else { return None };
        let same = one.address == other.address && one.member != other.member;
        other.at.0.checked_sub(one.at.0).filter(|stride| same && *stride > 0)
    };
    let strides: Vec<u64> = blocks.windows(2).filter_map(apart).collect();
    most_common(strides).into_iter().map(|(stride, _)| stride).take(STRIDES_MAX).collect()
}

/// Returns each number with its count, the most common first; of equals the smallest.
pub(super) fn most_common(mut numbers: Vec<u64>) -> Vec<(u64, usize)> {
    numbers.sort_unstable();
    let mut counts: Vec<(u64, usize)> =
        numbers.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len())).collect();
    counts.sort_by_key(|(number, count)| (std::cmp::Reverse(*count), *number));
    counts
}
