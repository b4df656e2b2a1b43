//! Changes of rmapbt records, as functions from records to edits.
//!
//! A record is a piece of a *line*: blocks of one owner that are contiguous both in the file and on
//! the device. Lines of different owners may cross (shared data). Two records of one line that
//! touch are one record, unless one is written and the other is not. A change therefore concerns
//! only the records of one line that cover or touch the changed blocks: at most one to the left,
//! one that covers, and one to the right.

use std::ops::RangeInclusive;

use xfskit_format::rmap::{Key, OFF_BMBT_BLOCK, OFF_MASK, OFF_UNWRITTEN, Rec};
use xfskit_units::{AgBlock, ExtLen};

use crate::edits::{Edits, Joined, Run, difference};
use crate::kinds::Mappings;

impl Run for Rec {
    fn joins(&self, next: &Self) -> bool {
        let total = self.blockcount.get().checked_add(next.blockcount.get());
        total.is_some()
            && is_unwritten(self) == is_unwritten(next)
            && behind(self, self.blockcount.get()).low_key() == next.low_key()
    }

    fn take_in(&mut self, next: &Self) {
        self.blockcount = self.blockcount.get().saturating_add(next.blockcount.get()).into();
    }
}

/// Returns the record of `len` blocks from `agbno` on; `raw` are its `owner` and `offset`.
pub(super) fn rec(agbno: AgBlock, len: ExtLen, raw: (u64, u64)) -> Rec {
    Rec {
        startblock: agbno.0.into(),
        blockcount: len.0.into(),
        owner: raw.0.into(),
        offset: raw.1.into(),
    }
}

fn is_unwritten(rec: &Rec) -> bool {
    rec.offset.get() & OFF_UNWRITTEN != 0
}

/// Returns the record with the other state, written or unwritten.
pub(super) fn flipped(rec: Rec) -> Rec {
    Rec { offset: (rec.offset.get() ^ OFF_UNWRITTEN).into(), ..rec }
}

/// Returns true if the offset of a record advances with its blocks: file data only.
fn has_position(rec: &Rec) -> bool {
    rec.inode().is_some() && rec.offset.get() & OFF_BMBT_BLOCK == 0
}

/// Returns a record without its first `skip` blocks.
fn behind(rec: &Rec, skip: u32) -> Rec {
    let mut offset = rec.offset.get();
    if has_position(rec) {
        let position = (offset & OFF_MASK).saturating_add(skip.into()) & OFF_MASK;
        offset = (offset & !OFF_MASK) | position;
    }
    Rec {
        startblock: rec.startblock.get().saturating_add(skip).into(),
        blockcount: rec.blockcount.get().saturating_sub(skip).into(),
        offset: offset.into(),
        ..*rec
    }
}

/// Returns the first `len` blocks of a record.
fn ahead(rec: &Rec, len: u32) -> Rec {
    Rec { blockcount: rec.blockcount.get().min(len).into(), ..*rec }
}

/// Returns the part of a record that is in `blocks`, which overlap it.
pub(super) fn clip(rec: Rec, blocks: RangeInclusive<u32>) -> Rec {
    let rec = behind(&rec, blocks.start().saturating_sub(rec.startblock.get()));
    let most = blocks.end().saturating_sub(rec.startblock.get()).saturating_add(1);
    ahead(&rec, most)
}

/// Returns the block of a line before a record; `None` if group or file begin with the record.
pub(super) fn block_before(rec: &Rec) -> Option<Rec> {
    let startblock = rec.startblock.get().checked_sub(1)?;
    let mut offset = rec.offset.get();
    if has_position(rec) {
        (offset & OFF_MASK).checked_sub(1)?;
        offset = offset.checked_sub(1)?;
    }
    let (startblock, offset) = (startblock.into(), offset.into());
    Some(Rec { startblock, blockcount: 1.into(), offset, ..*rec })
}

/// Returns the key of a record that joins this one on the right.
pub(super) fn key_behind(rec: &Rec) -> Key {
    behind(rec, rec.blockcount.get()).low_key()
}

/// Returns the record's pieces before and behind `part`; `None` unless `part` is a part of it,
/// written or not.
fn around(whole: &Rec, part: &Rec) -> Option<[Option<Rec>; 2]> {
    let before = part.startblock.get().checked_sub(whole.startblock.get())?;
    let until = before.checked_add(part.blockcount.get())?;
    let inside = until <= whole.blockcount.get();
    if !inside || behind(whole, before).low_key() != part.low_key() {
        return None;
    }
    let pieces = [ahead(whole, before), behind(whole, until)];
    Some(pieces.map(|piece| (!piece.is_empty()).then_some(piece)))
}

/// Returns true if `part` is a part of `whole`, written or not.
pub(super) fn covers(whole: &Rec, part: &Rec) -> bool {
    around(whole, part).is_some()
}

/// Inserts `new` between `left` and `right`, which may touch it or not.
pub(super) fn map(new: Rec, left: Option<Rec>, right: Option<Rec>) -> Edits<Rec> {
    let old: Vec<_> = left.into_iter().chain(right).collect();
    let mut joined = Joined::new();
    joined.extend(left.into_iter().chain([new]).chain(right));
    difference::<Mappings>(&old, &joined.into_vec())
}

/// Removes `gone` from `whole`; returns `None` if it is not a part of it.
pub(super) fn unmap(gone: Rec, whole: Rec) -> Option<Edits<Rec>> {
    let rest: Vec<_> = around(&whole, &gone)?.into_iter().flatten().collect();
    Some(difference::<Mappings>(&[whole], &rest))
}

/// Converts `part` of `whole` from unwritten to written or back, between `left` and `right`, which
/// may touch `whole` or not. Returns `None` if it is not a part, or in the other state already.
pub(super) fn convert(
    part: Rec,
    whole: Rec,
    left: Option<Rec>,
    right: Option<Rec>,
) -> Option<Edits<Rec>> {
    let [before, behind] = around(&whole, &part)?;
    if is_unwritten(&whole) != is_unwritten(&part) {
        return None;
    }
    let old: Vec<_> = left.into_iter().chain([whole]).chain(right).collect();
    let mut joined = Joined::new();
    joined.extend(left.into_iter().chain(before).chain([flipped(part)]).chain(behind).chain(right));
    Some(difference::<Mappings>(&old, &joined.into_vec()))
}
