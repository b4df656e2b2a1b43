//! What a group holds back for the growth of its own trees.
//!
//! Sharing and mapping of blocks that are in use already makes the refcountbt, rmapbt and finobt grow, and
//! that must not fail for want of space. So nobody else gets the last blocks that these trees may come to
//! need. Nothing of it is on disk.

use std::mem::offset_of;

use xfskit_format::agbtree::Tree;
use xfskit_format::agf::Agf;
use xfskit_format::bytes::be32;
use xfskit_units::{AgNumber, Geometry};

/// Blocks of group `agno` that only its own trees may take now, as its AGF says; without one (no bytes), the most that
/// may be.
///
/// Linux also counts what the finobt has already; that would need the AGI here, and it is little.
pub(crate) fn held_back(geo: &Geometry, agno: AgNumber, agf: &[u8]) -> u32 {
    let log_here = geo.logstart.and_then(|start| geo.fsb_split(start));
    let log_here = log_here.is_some_and(|(log, _)| log == agno);
    let blocks = geo.ag_length(agno).saturating_sub(if log_here { geo.logblocks } else { 0 });
    let field = |at| u64::from(be32(agf, at).unwrap_or(0));
    let mut held = 0u64;
    if geo.features.reflink() {
        let ask = tree_size(Tree::Refcount, geo, blocks.into());
        held += ask.saturating_sub(field(offset_of!(Agf, refcntblocks)));
    }
    if geo.features.finobt() {
        held += tree_size(Tree::Fino, geo, (u64::from(blocks) << geo.inopblog) / 64);
    }
    if geo.features.rmapbt() {
        let ask = tree_size(Tree::Rmap, geo, blocks.into()).max(u64::from(blocks / 100));
        held += ask.saturating_sub(field(offset_of!(Agf, rmapblocks)));
    }
    u32::try_from(held).unwrap_or(u32::MAX)
}

/// All blocks of a tree of `records` records whose blocks are as empty as they may be.
fn tree_size(tree: Tree, geo: &Geometry, records: u64) -> u64 {
    let mut blocks = records.div_ceil(tree.minrecs(geo, 0).max(1) as u64);
    let mut all = blocks;
    while blocks > 1 {
        blocks = blocks.div_ceil(tree.minrecs(geo, 1).max(2) as u64);
        all += blocks;
    }
    all
}
