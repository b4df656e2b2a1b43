//! Extent size hints: allocation of more than was asked for, so that later data is contiguous.
//!
//! A hint of `unit` blocks asks for whole units, counted from the beginning of the file. If the
//! hole does not hold the aligned units, Linux moves them until they touch the mapping before or
//! behind. This code does the same. Allocated blocks that are not needed yet stay unwritten.

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_space::BlockReservation;
use xfskit_units::{FilBlks, FileOff, PositionRange};

use crate::error::Result;
use crate::open_files::END_MAX;
use crate::tx::{Tx, TxInode};
use crate::volume::Volume;

/// Allocates, unwritten, the blocks that a hint of `unit` blocks asks for around `want`, which is a
/// hole. Returns the extent and the blocks that are reserved for it, to be held until the commit.
/// Returns `None` without a hint, if the hint asks for nothing more, or if there is no space for
/// more than `want`. If the hole's allocation is in several pieces, the extent may end before
/// `want` begins.
pub(super) fn alloc<'v>(
    vol: &'v Volume,
    tx: &mut Tx<'_>,
    inode: TxInode,
    want: Range<FileOff>,
    unit: FilBlks,
) -> Result<Option<(Extent, BlockReservation<'v>)>> {
    if unit.is_zero() {
        return Ok(None);
    }
    let before = tx.bmap_before(inode, Fork::Data, want.start)?;
    let behind = tx.bmap_next(inode, Fork::Data, want.start)?;
    let last = vol.geo().byte_to_fileoff(END_MAX);
    let hole = before.map_or(FileOff::ZERO, |extent| extent.end())
        ..behind.map_or(last, |extent| extent.startoff).max(want.end);
    let whole = window(&hole, &want, unit);
    let more = whole.length().minus(want.length());
    if more.is_zero() {
        return Ok(None);
    }
    // The remaining part at each end takes an extent.
    let Some(reservation) = vol.space().reserve_blocks(more.plus(vol.nodes_for(2)).0)? else {
        return Ok(None);
    };
    let got = tx.bmap_alloc_as(inode, Fork::Data, whole.start, whole.length(), None, true)?;
    Ok(Some((got, reservation)))
}

/// Returns the blocks of `hole` that a hint of `unit` blocks asks for around `want`.
pub(super) fn window(
    hole: &Range<FileOff>,
    want: &Range<FileOff>,
    unit: FilBlks,
) -> Range<FileOff> {
    let Some(end) = want.end.0.checked_next_multiple_of(unit.0) else { return want.clone() };
    let start = want.start.round_down(unit);
    let len = FileOff(end).distance_from(start);
    let start = start.max(hole.start);
    let end = start.saturating_plus(len).min(hole.end);
    let start = FileOff(end.0.saturating_sub(len.0));
    start.max(hole.start).min(want.start)..end.max(want.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(hole: &Range<u64>, want: &Range<u64>, unit: u64) -> Range<u64> {
        let blocks = |range: &Range<u64>| FileOff(range.start)..FileOff(range.end);
        let found = window(&blocks(hole), &blocks(want), FilBlks(unit));
        found.start.0..found.end.0
    }

    /// Results of Linux 6.18 with a hint of 64 KiB and blocks of 4 KiB.
    #[test]
    fn units_are_moved_into_the_hole_as_linux_moves_them() {
        for (hole, want, found) in [
            (0..1000, 25..27, 16..32),
            (0..1000, 15..17, 0..32),
            (75..125, 77..78, 75..91),
            (50..85, 65..66, 64..80),
            (50..77, 65..66, 61..77),
            (68..78, 70..71, 68..78),
            (63..77, 70..71, 63..77),
            (16..32, 16..32, 16..32),
        ] {
            assert_eq!(moved(&hole, &want, 16), found, "{want:?} in {hole:?}");
        }
        assert_eq!(moved(&(0..1000), &(15..17), 7), 14..21);
        assert_eq!(moved(&(0..1000), &(15..17), 0), 15..17);
    }
}
