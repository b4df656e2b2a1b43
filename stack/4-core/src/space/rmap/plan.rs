//! What happens to records of the rmapbt, as functions from records to edits.
//!
//! A record is a piece of a *line*: one owner's blocks, that continue in the file as they continue on the
//! device. Lines of different owners may cross (shared content); two records of one line that touch are
//! one record. So whatever a change does, it concerns the records of one line that cover or touch
//! the changed blocks: at most one to the left, one that covers, one to the right.

use xfskit_format::rmap::{OFF_BMBT_BLOCK, OFF_MASK, OFF_UNWRITTEN, Rec};
use xfskit_units::{AgBlock, ExtLen};

use crate::space::edits::{Edits, Joined, Run, difference};

impl Run for Rec {
    type Key = (u32, u64, u64);

    fn key(&self) -> Self::Key {
        self.low_key().sort_key()
    }

    fn joins(&self, next: &Self) -> bool {
        let total = self.blockcount.get().checked_add(next.blockcount.get());
        total.is_some() && self.owner == next.owner && following(self) == head(next)
    }

    fn take_in(&mut self, next: &Self) {
        self.blockcount = self.blockcount.get().saturating_add(next.blockcount.get()).into();
    }
}

/// The record that says that `len` blocks from `agbno` on are somebody's; `raw` are its `owner` and `offset`.
pub(super) fn rec(agbno: AgBlock, len: ExtLen, raw: (u64, u64)) -> Rec {
    Rec {
        startblock: agbno.0.into(),
        blockcount: len.0.into(),
        owner: raw.0.into(),
        offset: raw.1.into(),
    }
}

/// First block and `offset` of a record.
fn head(rec: &Rec) -> (u32, u64) {
    (rec.startblock.get(), rec.offset.get())
}

/// Where a record that continues this one would begin.
fn following(rec: &Rec) -> (u32, u64) {
    head(&behind(rec, rec.blockcount.get()))
}

/// True where the offset of a record counts on with its blocks: content of forks only.
fn has_position(rec: &Rec) -> bool {
    rec.inode().is_some() && rec.offset.get() & OFF_BMBT_BLOCK == 0
}

/// What is left of a record without its first `skip` blocks.
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

/// The first `len` blocks of a record.
fn ahead(rec: &Rec, len: u32) -> Rec {
    Rec { blockcount: rec.blockcount.get().min(len).into(), ..*rec }
}

/// The record's pieces before and behind `part`; `None` unless `part` is a part of it.
fn around(whole: &Rec, part: &Rec) -> Option<[Option<Rec>; 2]> {
    let before = part.startblock.get().checked_sub(whole.startblock.get())?;
    let until = before.checked_add(part.blockcount.get())?;
    if until > whole.blockcount.get()
        || part.owner != whole.owner
        || head(&behind(whole, before)) != head(part)
    {
        return None;
    }
    let [before, behind] = [ahead(whole, before), behind(whole, until)];
    Some([before, behind].map(|piece| (!piece.is_empty()).then_some(piece)))
}

/// True where `part` is a part of `whole`.
pub(super) fn covers(whole: &Rec, part: &Rec) -> bool {
    around(whole, part).is_some()
}

/// `new` comes between `left` and `right`, which may touch it or not.
pub(super) fn map(new: Rec, left: Option<Rec>, right: Option<Rec>) -> Edits<Rec> {
    let old = Vec::from_iter(left.into_iter().chain(right));
    let mut joined = Joined::new();
    joined.extend(left.into_iter().chain([new]).chain(right));
    difference(&old, &joined.into_vec())
}

/// `gone` goes out of `whole`, of which it is a part; `None` where it is not.
pub(super) fn unmap(gone: Rec, whole: Rec) -> Option<Edits<Rec>> {
    let rest = Vec::from_iter(around(&whole, &gone)?.into_iter().flatten());
    Some(difference(&[whole], &rest))
}

/// `part` of `whole` changes from unwritten to written or back, between `left` and `right`, which
/// may touch `whole` or not; `None` where it is no part.
pub(super) fn convert(
    part: Rec,
    whole: Rec,
    left: Option<Rec>,
    right: Option<Rec>,
) -> Option<Edits<Rec>> {
    let [before, behind] = around(&whole, &part)?;
    let old = Vec::from_iter(left.into_iter().chain([whole]).chain(right));
    let mut joined = Joined::new();
    joined.extend(left.into_iter().chain(before).chain([flipped(part)]).chain(behind).chain(right));
    Some(difference(&old, &joined.into_vec()))
}

/// The same blocks in the other state.
pub(super) fn flipped(rec: Rec) -> Rec {
    Rec { offset: (rec.offset.get() ^ OFF_UNWRITTEN).into(), ..rec }
}
