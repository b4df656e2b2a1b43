//! The free list of a group: blocks that are held back so that the group's own trees can always
//! grow.
//!
//! bnobt, cntbt and rmapbt allocate their blocks from this list and free them to it. Before
//! anything is allocated or freed in a group, `refill` brings the list to the length that the trees
//! may need: each of them may split at every level, twice.

use std::mem::offset_of;

use xfskit_format::agbtree::Tree;
use xfskit_format::agf::Agf;
use xfskit_format::agfl::{self, AgflHeader};
use xfskit_format::bytes::be32;
use xfskit_format::{Expected, Image};
use xfskit_units::{AgBlock, AgNumber, Geometry};
use zerocopy::big_endian::U32;

use crate::busy;
use crate::error::{Error, Result};
use crate::tx::SpaceTx;

/// The window of active slots.
#[derive(Clone, Copy, Debug)]
struct Window {
    first: u32,
    last: u32,
    count: u32,
}

impl Window {
    fn of(agf: &[u8]) -> Self {
        let field = |at| be32(agf, at).unwrap_or(0);
        Self {
            first: field(offset_of!(Agf, flfirst)),
            last: field(offset_of!(Agf, fllast)),
            count: field(offset_of!(Agf, flcount)),
        }
    }

    fn put(self, image: &mut impl Image) {
        // The three fields are adjacent.
        let words = [self.first, self.last, self.count].map(U32::new);
        image.put(offset_of!(Agf, flfirst), &words);
    }
}

fn slot_at(index: u32) -> usize {
    size_of::<AgflHeader>() + index as usize * size_of::<U32>()
}

/// Returns the number of blocks on the list, according to the AGF.
pub(crate) fn count(agf: &[u8]) -> u32 {
    Window::of(agf).count
}

/// Returns true if the AGF's first slot, last slot and number of blocks agree.
pub(crate) fn holds_together(agf: &[u8], slots: u32) -> bool {
    let Window { first, last, count } = Window::of(agf);
    let around = if first > last { slots } else { 0 };
    count == 0 || (last + around).checked_sub(first) == Some(count - 1)
}

/// Returns the number of blocks that the list of a group should have.
pub(crate) fn need(geo: &Geometry, agf: &[u8]) -> u32 {
    let for_tree = |tree: Tree, level_at| {
        let level = be32(agf, level_at).unwrap_or(1);
        2 * (level.saturating_add(1)).min(tree.max_levels(geo)).saturating_sub(1)
    };
    let mut need = for_tree(Tree::Bno, offset_of!(Agf, bnolevel))
        + for_tree(Tree::Cnt, offset_of!(Agf, cntlevel));
    if geo.features.rmapbt() {
        need += for_tree(Tree::Rmap, offset_of!(Agf, rmaplevel));
    }
    need.min(agfl::slots(geo))
}

/// Takes the first block from the list.
pub(crate) fn take(tx: &mut SpaceTx<'_>, agno: AgNumber) -> Result<AgBlock> {
    let agf = tx.agf(agno)?;
    let list = tx.agfl(agno)?;
    let slots = agfl::slots(tx.space().geo());
    let Window { first, last, count } = Window::of(tx.bytes(agf));
    if count == 0 {
        let waits = busy::any(tx, agno);
        return Err(if waits { Error::BusyExtents } else { Error::NoSpace("blocks") });
    }
    let agbno = AgBlock(be32(tx.bytes(list), slot_at(first)).unwrap_or(u32::MAX));
    if !tx.space().geo().valid_agbno(agno, agbno) {
        return Err(bad_slot(tx, agno, first, agbno));
    }
    let first = (first + 1) % slots.max(1);
    Window { first, last, count: count - 1 }.put(&mut tx.image(agf));
    Ok(agbno)
}

/// Appends a block to the list.
pub(crate) fn put(tx: &mut SpaceTx<'_>, agno: AgNumber, agbno: AgBlock) -> Result<()> {
    let agf = tx.agf(agno)?;
    let list = tx.agfl(agno)?;
    let slots = agfl::slots(tx.space().geo());
    let Window { first, last, count } = Window::of(tx.bytes(agf));
    if count >= slots {
        return Err(Error::Limit("the free list of an allocation group is full"));
    }
    let last = (last + 1) % slots.max(1);
    tx.image(list).put(slot_at(last), &U32::new(agbno.0));
    Window { first, last, count: count + 1 }.put(&mut tx.image(agf));
    Ok(())
}

fn bad_slot(tx: &SpaceTx<'_>, agno: AgNumber, index: u32, found: AgBlock) -> Error {
    let space = tx.space();
    let ctx = space.ctx(agfl::location(space.geo(), agno)).entry(index as usize);
    ctx.corruption("agfl.bno", Expected::Described("a block of the group".into()), found).into()
}
