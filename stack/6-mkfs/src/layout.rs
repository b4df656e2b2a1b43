//! The layout of one allocation group as mkfs makes it.
//!
//! ```text
//! headers | bnobt | cntbt | inobt | finobt? | rmapbt? | refcountbt? | (gap) log | AGFL | free …
//! ```
//!
//! One block for each root, packed behind the headers. The log, if it is in this group, begins at
//! the first aligned block behind them. The AGFL's blocks are taken from the first free extent that
//! is large enough: a gap before the log, or what follows it. Group 0 gets the first inode chunk,
//! aligned, behind all that.

use xfskit_format::agbtree::Tree;
use xfskit_units::{AgBlock, AgNumber, ExtLen, Geometry};

/// Roots in the order in which mkfs places them.
const ROOTS: [Tree; 6] = [Tree::Bno, Tree::Cnt, Tree::Ino, Tree::Fino, Tree::Rmap, Tree::Refcount];

/// A run of blocks of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First block.
    pub start: AgBlock,
    /// Length in blocks.
    pub len: ExtLen,
}

impl Extent {
    fn new(start: u32, end: u32) -> Option<Self> {
        (end > start).then(|| Self { start: AgBlock(start), len: ExtLen(end - start) })
    }

    /// Returns the block after the last one.
    pub fn end(self) -> u32 {
        self.start.0 + self.len.0
    }
}

/// The layout of one new group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgLayout {
    /// Blocks that hold the four headers, from block 0.
    pub headers: u32,
    /// The root of each tree of the volume.
    pub roots: Vec<(Tree, AgBlock)>,
    /// The internal log, if it is in this group.
    pub log: Option<Extent>,
    /// The free list, in order.
    pub agfl: Option<Extent>,
    /// The first inode chunk: group 0 only.
    pub chunk: Option<Extent>,
    /// Free extents, by block.
    pub free: Vec<Extent>,
}

/// Returns the number of blocks that hold AG headers.
pub fn header_blocks(geo: &Geometry) -> u32 {
    geo.ag_header_last().0 + 1
}

/// Returns the first block behind headers and roots.
pub fn first_free(geo: &Geometry) -> u32 {
    let roots = ROOTS.iter().filter(|tree| tree.exists(geo)).count();
    header_blocks(geo) + u32::try_from(roots).unwrap_or(0)
}

/// Returns the length of the AGFL of a group whose trees have one level: as many blocks as one full
/// split of each free-space tree may take.
pub fn agfl_need(geo: &Geometry) -> u32 {
    let split = |max_levels: u32| 2 * max_levels.min(2) - 2;
    let rmap = if geo.features.rmapbt() { split(Tree::Rmap.max_levels(geo)) } else { 0 };
    2 * split(Tree::Bno.max_levels(geo)) + rmap
}

/// Returns the alignment of the first inode chunk, in blocks: the stripe unit if inode clusters are
/// aligned and divide it, else the inode alignment.
fn chunk_align(geo: &Geometry) -> u32 {
    let align = geo.cluster_align();
    let stripe = align > 1 && geo.unit != 0 && geo.unit.is_multiple_of(align);
    if stripe { geo.unit } else { geo.inoalignmt.max(1) }
}

impl AgLayout {
    /// Returns the layout of group `agno` of a volume whose log has its location.
    pub fn of(geo: &Geometry, agno: AgNumber) -> Self {
        let headers = header_blocks(geo);
        let first_free = first_free(geo);
        let roots = (headers..)
            .zip(ROOTS.into_iter().filter(|tree| tree.exists(geo)))
            .map(|(agbno, tree)| (tree, AgBlock(agbno)))
            .collect();
        let mut free: Vec<Extent> =
            Extent::new(first_free, geo.ag_length(agno)).into_iter().collect();
        let log = geo.logstart.and_then(|start| geo.fsb_split(start)).filter(|at| at.0 == agno);
        let log = log.map(|(_, start)| Extent { start, len: ExtLen(geo.logblocks) });
        if let Some(log) = log {
            carve(&mut free, log);
        }
        let agfl = take_agfl(&mut free, agfl_need(geo));
        let chunk = (agno == AgNumber(0)).then(|| {
            let used = first_free + agfl_need(geo) + log.map_or(0, |log| log.len.0);
            let start = used.next_multiple_of(chunk_align(geo));
            Extent { start: AgBlock(start), len: ExtLen(geo.chunk_blocks()) }
        });
        if let Some(chunk) = chunk {
            carve(&mut free, chunk);
        }
        Self { headers, roots, log, agfl, chunk, free }
    }

    /// Returns the number of free blocks of the group, without the AGFL's.
    pub fn free_blocks(&self) -> u32 {
        self.free.iter().map(|extent| extent.len.0).sum()
    }

    /// Returns the length of the longest free extent, in blocks.
    pub fn longest(&self) -> u32 {
        self.free.iter().map(|extent| extent.len.0).max().unwrap_or(0)
    }

    /// Returns the number of blocks of the AGFL.
    pub fn agfl_len(&self) -> u32 {
        self.agfl.map_or(0, |extent| extent.len.0)
    }

    /// Returns the root of `tree`, if the volume has it.
    pub fn root(&self, tree: Tree) -> Option<AgBlock> {
        self.roots.iter().find(|(t, _)| *t == tree).map(|(_, agbno)| *agbno)
    }
}

/// Removes `used` from the free extents.
fn carve(free: &mut Vec<Extent>, used: Extent) {
    *free = free
        .iter()
        .flat_map(|extent| {
            let before = Extent::new(extent.start.0, extent.end().min(used.start.0));
            let behind = Extent::new(extent.start.0.max(used.end()), extent.end());
            [before, behind]
        })
        .flatten()
        .collect();
}

/// Takes `need` blocks from the first free extent that is large enough.
fn take_agfl(free: &mut Vec<Extent>, need: u32) -> Option<Extent> {
    let from = free.iter().find(|extent| extent.len.0 >= need)?.start.0;
    let agfl = Extent::new(from, from + need)?;
    carve(free, agfl);
    Some(agfl)
}
