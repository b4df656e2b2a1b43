//! Extent size hints: allocation of more than was asked for, so that later data is contiguous.
//!
//! A hint of `unit` blocks asks for whole units, counted from the beginning of the file. If the
//! hole does not hold the aligned units, Linux moves them until they touch the mapping before or
//! behind. This code does the same. Allocated blocks that are not needed yet stay unwritten.

use std::ops::Range;

use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_space::BlockReservation;
use xfskit_units::FileOff;

use crate::error::Result;
use crate::open_files::SIZE_MAX;
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
    want: Range<u64>,
    unit: u64,
) -> Result<Option<(Extent, BlockReservation<'v>)>> {
    if unit == 0 {
        return Ok(None);
    }
    let before = tx.bmap_before(inode, Fork::Data, FileOff(want.start))?;
    let behind = tx.bmap_next(inode, Fork::Data, FileOff(want.start))?;
    let last = SIZE_MAX >> vol.geo().blocklog;
    let hole = before.map_or(0, |extent| extent.end().0)
        ..behind.map_or(last, |extent| extent.startoff.0).max(want.end);
    let whole = window(&hole, &want, unit);
    let more = (whole.end - whole.start) - (want.end - want.start);
    if more == 0 {
        return Ok(None);
    }
    // The remaining part at each end takes an extent.
    let Some(reservation) = vol.space().reserve_blocks(more + vol.nodes_for(2))? else {
        return Ok(None);
    };
    let (start, len) = (FileOff(whole.start), whole.end - whole.start);
    let got = tx.bmap_alloc_as(inode, Fork::Data, start, len, None, true)?;
    Ok(Some((got, reservation)))
}

/// Returns the blocks of `hole` that a hint of `unit` blocks asks for around `want`.
pub(super) fn window(hole: &Range<u64>, want: &Range<u64>, unit: u64) -> Range<u64> {
    let Some(end) = want.end.checked_next_multiple_of(unit) else { return want.clone() };
    let start = want.start - want.start % unit;
    let len = end - start;
    let start = start.max(hole.start);
    let end = start.saturating_add(len).min(hole.end);
    end.saturating_sub(len).max(hole.start).min(want.start)..end.max(want.end)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(window(&hole, &want, 16), found, "{want:?} in {hole:?}");
        }
        assert_eq!(window(&(0..1000), &(15..17), 7), 14..21);
        assert_eq!(window(&(0..1000), &(15..17), 0), 15..17);
    }
}
