//! The free blocks that Linux withholds, so that a full volume can still be changed. Nothing of it
//! is on disk.
//!
//! - The growth of the refcountbt and the rmapbt of each group: their size if every block of the
//!   group had a record and their own blocks were half full (the rmapbt at least a hundredth of the
//!   group), minus their present size.
//! - The growth of the finobt: likewise, with a record for every 64 inodes.
//! - The blocks of bnobt, cntbt and rmapbt beside their roots: the superblock counts them as free.
//! - [`SET_ASIDE`] blocks in each group, to refill the AGFL.
//! - [`pool`]: a twentieth of the volume, at most 8192 blocks.
//!
//! A journal in the group is ignored. Found by comparing the kernel's `statfs` with the
//! superblock's counters over a hundred geometries (`docs/format/volume.md`).

use xfskit_units::{AgNumber, Geometry};

use crate::agbtree::Tree;
use crate::agf::Agf;
use crate::agi::Agi;

/// Blocks of each group that are kept to refill its AGFL.
pub const SET_ASIDE: u64 = 8;

/// Most blocks of the reserve pool.
const POOL_MAX: u64 = 8192;

/// Blocks of the trees of a group, including their roots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeBlocks {
    /// Blocks of the refcountbt.
    pub refcount: u64,
    /// Blocks of the finobt.
    pub fino: u64,
    /// Blocks of the rmapbt.
    pub rmap: u64,
}

impl TreeBlocks {
    /// Reads the counters of a group's headers. Without INOBTCNT the finobt counts as its root
    /// alone.
    pub fn of(geo: &Geometry, agf: &Agf, agi: &Agi) -> Self {
        let fino = if geo.features.inobtcount() { agi.fino_blocks.get() } else { 1 };
        Self {
            refcount: agf.refcntblocks.get().into(),
            fino: fino.into(),
            rmap: agf.rmapblocks.get().into(),
        }
    }
}

/// Returns the blocks by which the trees of group `agno`, which have `have`, may grow. Nothing else
/// may take them.
pub fn growth(geo: &Geometry, agno: AgNumber, have: &TreeBlocks) -> u64 {
    let log = geo.logstart.and_then(|start| geo.fsb_split(start));
    let log_here = log.is_some_and(|(log, _)| log == agno);
    let log_len = if log_here { geo.logblocks } else { 0 };
    let blocks = u64::from(geo.ag_length(agno).saturating_sub(log_len));
    let inodes = blocks.saturating_mul(geo.inopblock().into());
    let ask =
        |tree: Tree, records: u64| if tree.exists(geo) { size(tree, geo, records) } else { 0 };
    let rmap = if Tree::Rmap.exists(geo) { ask(Tree::Rmap, blocks).max(blocks / 100) } else { 0 };
    let refcount = ask(Tree::Refcount, blocks).saturating_sub(have.refcount);
    let fino = ask(Tree::Fino, inodes / 64).saturating_sub(have.fino);
    let rmap = rmap.saturating_sub(have.rmap.saturating_sub(1));
    refcount.saturating_add(fino).saturating_add(rmap)
}

/// Returns the blocks that the superblock counts as free and that Linux reserves for the trees of
/// group `agno`.
pub fn of_group(geo: &Geometry, agno: AgNumber, agf: &Agf, agi: &Agi) -> u64 {
    let trees = growth(geo, agno, &TreeBlocks::of(geo, agf, agi));
    trees.saturating_add(agf.btreeblks.get().into()).saturating_add(SET_ASIDE)
}

/// Returns the reserve pool: blocks that Linux keeps for changes that must not fail.
pub fn pool(geo: &Geometry) -> u64 {
    (geo.dblocks.0 / 20).min(POOL_MAX)
}

/// Returns the most inodes that the volume may have by its `imax_pct`; `None` for no limit.
pub fn inodes_max(geo: &Geometry) -> Option<u64> {
    let percent = u64::from(geo.imax_pct);
    let chunk = u64::from(geo.chunk_blocks());
    let blocks = geo.dblocks.0.saturating_mul(percent) / 100;
    let whole = blocks.checked_div(chunk).unwrap_or(0).saturating_mul(chunk);
    (percent > 0).then(|| whole.saturating_mul(geo.inopblock().into()))
}

/// Returns all blocks of a tree of `records` records whose blocks are as empty as they may be.
fn size(tree: Tree, geo: &Geometry, records: u64) -> u64 {
    let mut blocks = records.div_ceil(tree.minrecs(geo, 0).max(1) as u64);
    let mut all = blocks;
    while blocks > 1 {
        blocks = blocks.div_ceil(tree.minrecs(geo, 1).max(2) as u64);
        all = all.saturating_add(blocks);
    }
    all
}
