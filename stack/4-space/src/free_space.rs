//! The free extents of one group, changed in both trees: by block and by size.
//!
//! 1. Both trees hold the same extents, and no two of them touch.
//! 2. `freeblks` is their sum, `longest` the longest of them.

use std::mem::offset_of;
use std::ops::Range;

use xfskit_format::agbtree::Tree;
use xfskit_format::agf::Agf;
use xfskit_format::alloc::Rec;
use xfskit_format::bytes::be32;
use xfskit_format::{Expected, Image};
use xfskit_trans::{Freed, Handle};
use xfskit_units::{AgBlock, AgNumber, ExtLen};
use zerocopy::big_endian::U32;

use crate::agfl;
use crate::agtree::{AgKind, AgTree};
use crate::btree::{Cursor, Seek};
use crate::busy::Usable;
use crate::error::{Error, Result};
use crate::kinds::{ByBlock, BySize};
use crate::tx::SpaceTx;

/// The bnobt of a group.
type BnoTree = AgTree<ByBlock>;
/// The cntbt of a group.
type CntTree = AgTree<BySize>;

impl AgKind for ByBlock {
    const TREE: Tree = Tree::Bno;

    fn take_block(tx: &mut SpaceTx<'_>, agno: AgNumber, _: AgBlock) -> Result<AgBlock> {
        agfl::take(tx, agno)
    }

    fn give_block(tx: &mut SpaceTx<'_>, agno: AgNumber, agbno: AgBlock) -> Result<()> {
        agfl::put(tx, agno, agbno)
    }
}

impl AgKind for BySize {
    const TREE: Tree = Tree::Cnt;

    fn take_block(tx: &mut SpaceTx<'_>, agno: AgNumber, _: AgBlock) -> Result<AgBlock> {
        agfl::take(tx, agno)
    }

    fn give_block(tx: &mut SpaceTx<'_>, agno: AgNumber, agbno: AgBlock) -> Result<()> {
        agfl::put(tx, agno, agbno)
    }
}

/// Maximum number of extents examined in each part of a search.
const CANDIDATES: usize = 64;
/// Maximum number of neighbours examined on each side of a block, for one that is long enough.
const NEIGHBOURS: usize = 16;

/// The free space of a group whose AGF the transaction holds.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    agno: AgNumber,
    agf: Handle,
    bno: Cursor<BnoTree>,
    cnt: Cursor<CntTree>,
}

/// The criteria of a search in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// The search starts at this block, then continues around it.
    pub near: AgBlock,
    /// Number of blocks that satisfies the search; more is no better.
    pub want: u32,
    /// Minimum number of blocks.
    pub least: u32,
    /// The first block is a multiple of this.
    pub align: u32,
}

/// A part of a free extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The whole extent.
    pub whole: Rec,
    /// The part's first block.
    pub start: u32,
    /// The part's length.
    pub len: u32,
}

fn end(rec: Rec) -> u32 {
    rec.startblock.get().saturating_add(rec.blockcount.get())
}

fn rec(start: u32, len: u32) -> Rec {
    Rec::new(AgBlock(start), ExtLen(len))
}

impl FreeSpace {
    pub(crate) fn of(tx: &mut SpaceTx<'_>, agno: AgNumber) -> Result<Self> {
        let agf = tx.agf(agno)?;
        let bno = Cursor::new(BnoTree::with(agno, agf));
        let cnt = Cursor::new(CntTree::with(agno, agf));
        Ok(Self { agno, agf, bno, cnt })
    }

    /// Releases blocks that were not changed.
    pub(crate) fn close(self, tx: &mut SpaceTx<'_>) {
        self.bno.close(tx);
        self.cnt.close(tx);
    }

    // ---- searching ---------------------------------------------------------------------------

    /// Returns the best free extent for `wish`. The work is bounded: some extents may be missed,
    /// but not if neither alignment nor busy extents are involved.
    pub(crate) fn find(&mut self, tx: &mut SpaceTx<'_>, wish: &Wish) -> Result<Option<Piece>> {
        if let Some(piece) = self.find_near(tx, wish)? {
            return Ok(Some(piece));
        }
        // Just long enough, or, with alignment, long enough in any position.
        let with_slack = wish.want.saturating_add(wish.align - 1);
        if let Some(piece) = self.find_by_size(tx, wish, wish.want)? {
            return Ok(Some(piece));
        }
        if with_slack > wish.want
            && let Some(piece) = self.find_by_size(tx, wish, with_slack)?
        {
            return Ok(Some(piece));
        }
        if wish.least < wish.want { self.find_longest(tx, wish) } else { Ok(None) }
    }

    /// Searches at the block itself, or in the nearest of some extents around it.
    fn find_near(&mut self, tx: &mut SpaceTx<'_>, wish: &Wish) -> Result<Option<Piece>> {
        let near = wish.near.0;
        let mut right = None;
        let mut here = self.bno.seek(tx, near, Seek::Le)?;
        if here.is_none() {
            here = self.bno.seek(tx, near, Seek::Ge)?;
        }
        for _ in 0..NEIGHBOURS {
            let Some(whole) = here else { break };
            right = self.usable(tx, whole, wish)?.filter(|piece| piece.len >= wish.want);
            if right.is_some() {
                break;
            }
            here = self.bno.next(tx)?;
        }
        let distance = right.map_or(u32::MAX, |piece| piece.start.abs_diff(near));
        if distance == 0 {
            return Ok(right);
        }
        let mut left = self.bno.seek(tx, near, Seek::Le)?;
        for _ in 0..NEIGHBOURS {
            let Some(whole) = left.filter(|rec| near.abs_diff(end(*rec)) < distance) else { break };
            let found = self.usable(tx, whole, wish)?.filter(|piece| piece.len >= wish.want);
            if found.is_some() {
                return Ok(found);
            }
            left = self.bno.prev(tx)?;
        }
        Ok(right)
    }

    /// Returns the smallest extent of at least `size` blocks that fits.
    fn find_by_size(
        &mut self,
        tx: &mut SpaceTx<'_>,
        wish: &Wish,
        size: u32,
    ) -> Result<Option<Piece>> {
        let mut next = self.cnt.seek(tx, (size, 0), Seek::Ge)?;
        for _ in 0..CANDIDATES {
            let Some(whole) = next else { break };
            let found = self.usable(tx, whole, wish)?.filter(|piece| piece.len >= wish.want);
            if found.is_some() {
                return Ok(found);
            }
            next = self.cnt.next(tx)?;
        }
        Ok(None)
    }

    /// Returns the longest extent, if it is long enough.
    fn find_longest(&mut self, tx: &mut SpaceTx<'_>, wish: &Wish) -> Result<Option<Piece>> {
        let mut best: Option<Piece> = None;
        let mut next = self.cnt.last(tx)?;
        for _ in 0..CANDIDATES {
            let so_far = best.map_or(wish.least.saturating_sub(1), |piece| piece.len);
            let Some(whole) = next.filter(|rec| rec.len().0 > so_far) else { break };
            let found = self.usable(tx, whole, wish)?;
            best = found.filter(|piece| piece.len > so_far).or(best);
            next = self.cnt.prev(tx)?;
        }
        Ok(best)
    }

    /// Returns the usable part of a free extent: at most `want` blocks, aligned, none of them busy.
    fn usable(&self, tx: &mut SpaceTx<'_>, whole: Rec, wish: &Wish) -> Result<Option<Piece>> {
        self.verify(tx, whole)?;
        let mut best: Option<Piece> = None;
        let mut parts = Usable::of(tx, self.agno, whole.startblock.get()..end(whole));
        for part in parts.by_ref() {
            // From the wanted block on, if enough is behind it; else from the part's beginning.
            let at_place = wish.near.0.max(part.start).checked_next_multiple_of(wish.align);
            let at_place = at_place.filter(|&at| at < part.end && part.end - at >= wish.want);
            let Some(start) = at_place.or_else(|| part.start.checked_next_multiple_of(wish.align))
            else {
                continue;
            };
            let len = part.end.saturating_sub(start).min(wish.want);
            if len > best.map_or(0, |piece| piece.len) {
                best = Some(Piece { whole, start, len });
            }
            if len >= wish.want {
                break;
            }
        }
        let trimmed = parts.met_busy();
        if trimmed {
            tx.met_busy = true;
        }
        Ok(best.filter(|piece| piece.len >= wish.least))
    }

    /// Returns the parts of free extents in `blocks` that are not busy, and the block to go on
    /// from: at most `most` extents are visited.
    pub(crate) fn usable_in(
        &mut self,
        tx: &mut SpaceTx<'_>,
        blocks: Range<u32>,
        most: usize,
    ) -> Result<(Vec<Range<u32>>, u32)> {
        let mut here = self.bno.seek(tx, blocks.start, Seek::Le)?;
        if here.is_none() {
            here = self.bno.seek(tx, blocks.start, Seek::Ge)?;
        }
        let (mut parts, mut next) = (Vec::new(), blocks.start);
        for _ in 0..most {
            let Some(whole) = here.filter(|rec| rec.startblock.get() < blocks.end) else {
                return Ok((parts, blocks.end));
            };
            self.verify(tx, whole)?;
            next = end(whole).clamp(blocks.start, blocks.end);
            let inside = whole.startblock.get().max(blocks.start)..next;
            parts.extend(Usable::of(tx, self.agno, inside));
            here = self.bno.next(tx)?;
        }
        Ok((parts, next))
    }

    fn verify(&self, tx: &SpaceTx<'_>, rec: Rec) -> Result<()> {
        if tx.space().geo().valid_agb_extent(self.agno, rec.start(), rec.len()) {
            return Ok(());
        }
        Err(self.corruption(tx, Tree::Bno.ids().rec, "an extent of the group", rec.start()))
    }

    fn corruption(
        &self,
        tx: &SpaceTx<'_>,
        id: &'static str,
        wanted: &'static str,
        found: AgBlock,
    ) -> Error {
        let space = tx.space();
        let at = Tree::Bno.location(space.geo(), self.agno, found);
        space.ctx(at).corruption(id, Expected::Described(wanted.into()), found).into()
    }

    // ---- changing ----------------------------------------------------------------------------

    /// Removes a piece from the free extent that it is a part of.
    pub(crate) fn take(&mut self, tx: &mut SpaceTx<'_>, piece: &Piece) -> Result<()> {
        let Piece { whole, start, len } = *piece;
        let before = start - whole.startblock.get();
        let behind = end(whole) - (start + len);
        self.seek_block(tx, whole)?;
        let rest = rec(start + len, behind);
        match (before, behind) {
            (0, 0) => {
                self.bno.delete(tx)?;
                self.remove_size(tx, whole)?;
            }
            (0, _) => {
                self.bno.update(tx, &rest)?;
                self.change_size(tx, whole, rest)?;
            }
            (_, 0) => {
                let head = rec(whole.startblock.get(), before);
                self.bno.update(tx, &head)?;
                self.change_size(tx, whole, head)?;
            }
            _ => {
                let head = rec(whole.startblock.get(), before);
                self.bno.update(tx, &head)?;
                self.bno.insert(tx, &rest)?;
                self.change_size(tx, whole, head)?;
                self.cnt.insert(tx, &rest)?;
            }
        }
        self.count(tx, -i64::from(len))
    }

    /// Removes exactly `blocks` from the free extent that has them. Returns false, and changes
    /// nothing, if one of them is not free.
    pub(crate) fn take_exactly(
        &mut self,
        tx: &mut SpaceTx<'_>,
        blocks: &Range<u32>,
    ) -> Result<bool> {
        // No two free extents touch, so one has all of them.
        let Some(whole) = self.bno.seek(tx, blocks.start, Seek::Le)? else { return Ok(false) };
        self.verify(tx, whole)?;
        if end(whole) < blocks.end {
            return Ok(false);
        }
        let len = blocks.end.saturating_sub(blocks.start);
        self.take(tx, &Piece { whole, start: blocks.start, len })?;
        Ok(true)
    }

    /// Adds an extent to the free ones, merged with those that it touches.
    pub(crate) fn give(&mut self, tx: &mut SpaceTx<'_>, agbno: AgBlock, len: ExtLen) -> Result<()> {
        let (start, stop) = (agbno.0, agbno.0.saturating_add(len.0));
        let ids = Tree::Bno.ids();
        if !tx.space().geo().valid_agb_extent(self.agno, agbno, len) {
            return Err(self.corruption(tx, ids.rec, "an extent of the group", agbno));
        }
        let left = self.bno.seek(tx, start, Seek::Le)?;
        let right = match left {
            Some(_) => self.bno.next(tx)?,
            None => self.bno.seek(tx, start, Seek::Ge)?,
        };
        let overlap = left.is_some_and(|left| end(left) > start)
            || right.is_some_and(|right| right.startblock.get() < stop);
        if overlap {
            return Err(self.corruption(tx, ids.order, "blocks that are not free already", agbno));
        }
        let left = left.filter(|left| end(*left) == start);
        let right = right.filter(|right| right.startblock.get() == stop);
        match (left, right) {
            (Some(left), Some(right)) => {
                let all = rec(left.startblock.get(), end(right) - left.startblock.get());
                self.bno.delete(tx)?;
                self.seek_block(tx, left)?;
                self.bno.update(tx, &all)?;
                self.remove_size(tx, right)?;
                self.change_size(tx, left, all)?;
            }
            (Some(left), None) => {
                let all = rec(left.startblock.get(), stop - left.startblock.get());
                self.seek_block(tx, left)?;
                self.bno.update(tx, &all)?;
                self.change_size(tx, left, all)?;
            }
            (None, Some(right)) => {
                // The cursor is at it.
                let all = rec(start, end(right) - start);
                self.bno.update(tx, &all)?;
                self.change_size(tx, right, all)?;
            }
            (None, None) => {
                self.bno.insert(tx, &rec(start, len.0))?;
                self.cnt.insert(tx, &rec(start, len.0))?;
            }
        }
        tx.note_freed(Freed { agno: self.agno, agbno, len });
        self.count(tx, len.0.into())
    }

    fn seek_block(&mut self, tx: &mut SpaceTx<'_>, whole: Rec) -> Result<()> {
        match self.bno.seek(tx, whole.startblock.get(), Seek::Eq)? {
            Some(found) if found == whole => Ok(()),
            _ => Err(self.corruption(tx, Tree::Bno.ids().rec, "what the cntbt has", whole.start())),
        }
    }

    fn seek_size(&mut self, tx: &mut SpaceTx<'_>, whole: Rec) -> Result<()> {
        let pos = (whole.blockcount.get(), whole.startblock.get());
        match self.cnt.seek(tx, pos, Seek::Eq)? {
            Some(_) => Ok(()),
            None => {
                Err(self.corruption(tx, Tree::Cnt.ids().rec, "what the bnobt has", whole.start()))
            }
        }
    }

    fn remove_size(&mut self, tx: &mut SpaceTx<'_>, whole: Rec) -> Result<()> {
        self.seek_size(tx, whole)?;
        self.cnt.delete(tx)
    }

    /// Changes the size of a free extent, and possibly its first block.
    fn change_size(&mut self, tx: &mut SpaceTx<'_>, old: Rec, new: Rec) -> Result<()> {
        self.seek_size(tx, old)?;
        if self.cnt.stays_in_order(tx, &new) {
            return self.cnt.update(tx, &new);
        }
        self.cnt.delete(tx)?;
        self.cnt.insert(tx, &new)
    }

    /// Updates the counters.
    fn count(&mut self, tx: &mut SpaceTx<'_>, change: i64) -> Result<()> {
        let longest = self.cnt.last(tx)?.map_or(0, |rec| rec.len().0);
        let agf = tx.bytes(self.agf);
        let free = i64::from(be32(agf, offset_of!(Agf, freeblks)).unwrap_or(0)) + change;
        // freeblks and longest are adjacent.
        let words = [u32::try_from(free).unwrap_or(0), longest].map(U32::new);
        tx.image(self.agf).put(offset_of!(Agf, freeblks), &words);
        tx.space().hints.saw(self.agno, longest);
        Ok(())
    }
}

/// Adds an extent to the free ones of a group. The caller updates its reverse mapping.
pub(crate) fn give_back(
    tx: &mut SpaceTx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    len: ExtLen,
) -> Result<()> {
    let mut space = FreeSpace::of(tx, agno)?;
    space.give(tx, agbno, len)?;
    space.close(tx);
    Ok(())
}

/// Takes up to `most` contiguous blocks for the free list: from the smallest extent that has them,
/// else as many as there are in one extent.
pub(crate) fn take_for_list(
    tx: &mut SpaceTx<'_>,
    agno: AgNumber,
    most: u32,
) -> Result<Option<(AgBlock, ExtLen)>> {
    let mut space = FreeSpace::of(tx, agno)?;
    let wish = Wish { near: AgBlock(0), want: most, least: 1, align: 1 };
    let piece = match space.find_by_size(tx, &wish, most)? {
        Some(piece) => Some(piece),
        None => space.find_longest(tx, &wish)?,
    };
    if let Some(piece) = &piece {
        space.take(tx, piece)?;
    }
    space.close(tx);
    Ok(piece.map(|piece| (AgBlock(piece.start), ExtLen(piece.len))))
}
