//! The contents of the groups' headers and btrees.

use xfskit_format::agbtree::Tree;
use xfskit_format::bmbt::Extent as Mapped;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK};
use xfskit_format::rmap::{self, owner};
use xfskit_mkfs::group::{Group, in_order, owned, tree_owner};
use xfskit_mkfs::layout::{AgLayout, Extent};
use xfskit_units::{AgBlock, AgIno, AgNumber, ExtLen, Geometry, Ino};

use super::inode_order::{InodeOrder, REALTIME_INODES};
use super::inode_plan::{InodePlan, Map};
use super::space::{GroupSpace, Space};

/// Owners of all blocks of all groups.
pub(super) struct Owners<'g> {
    geo: &'g Geometry,
    /// Indexed by group. Empty if the volume does not record them.
    records: Vec<Vec<rmap::Rec>>,
}

impl<'g> Owners<'g> {
    pub(super) fn new(geo: &'g Geometry) -> Self {
        Self { geo, records: geo.ags().map(|_| Vec::new()).collect() }
    }

    /// Adds all blocks of one inode.
    pub(super) fn add(&mut self, inode_plan: &InodePlan<'_>) {
        if !self.geo.features.rmapbt() {
            return;
        }
        self.add_map(inode_plan.ino, &inode_plan.data, 0);
        self.add_map(inode_plan.ino, &inode_plan.attr, rmap::OFF_ATTR_FORK);
    }

    fn add_map(&mut self, ino: Ino, map: &Map, fork: u64) {
        for Mapped { startoff, startblock, blockcount, .. } in &map.extents {
            let len = u32::try_from(blockcount.0).unwrap_or(u32::MAX);
            self.push(ino, startblock.0, len, fork | startoff.0);
        }
        for place in &map.places {
            self.push(ino, place.0, 1, fork | rmap::OFF_BMBT_BLOCK);
        }
    }

    fn push(&mut self, ino: Ino, fsbno: u64, len: u32, offset: u64) {
        let Some((agno, agbno)) = self.geo.fsb_split(xfskit_units::FsBlock(fsbno)) else { return };
        self.records[agno.0 as usize].push(rmap::Rec {
            startblock: agbno.0.into(),
            blockcount: len.into(),
            owner: ino.0.into(),
            offset: offset.into(),
        });
    }

    /// Returns all groups, with blocks for their btrees.
    pub(super) fn into_groups(self, inode_order: &InodeOrder, space: Space<'_>) -> Vec<Group> {
        let geo = self.geo;
        let all = geo.ags().zip(self.records).zip(space.groups);
        all.map(|((agno, records), space)| {
            GroupBtrees::new(geo, agno, records, space, inode_order).close()
        })
        .collect()
    }
}

/// A group whose btrees get their blocks. Each block has an owner, and recording it may take more
/// blocks, so the trees are sized again until nothing changes.
struct GroupBtrees<'g> {
    geo: &'g Geometry,
    group: Group,
    space: GroupSpace,
}

impl<'g> GroupBtrees<'g> {
    fn new(
        geo: &'g Geometry,
        agno: AgNumber,
        files: Vec<rmap::Rec>,
        space: GroupSpace,
        inode_order: &InodeOrder,
    ) -> Self {
        let layout = AgLayout::of(geo, agno);
        let inodes = &inode_order.groups[agno.0 as usize];
        let mut group = Group::empty(geo, agno);
        if let Some(chunks) = inodes.chunks {
            let realtime = if agno.0 == 0 { REALTIME_INODES } else { 0 };
            let used = u32::try_from(inodes.count).unwrap_or(u32::MAX) + realtime;
            group.chunks = chunk_records(geo, chunks, used);
            let newest = AgBlock(chunks.end() - geo.chunk_blocks());
            group.newino = Some(geo.agb_to_agino(newest));
            let first = layout.chunk.map_or(0, |chunk| chunk.len.0);
            let more = Extent {
                start: AgBlock(chunks.start.0 + first),
                len: ExtLen(chunks.len.0 - first),
            };
            if more.len.0 > 0 {
                group.owners.push(owned(more, owner::INODES));
            }
        }
        group.owners.extend(files);
        group.owners = in_order(std::mem::take(&mut group.owners));
        group.free.clone_from(&space.free);
        Self { geo, group, space }
    }

    fn close(mut self) -> Group {
        while self.give_to_trees() | self.give_to_agfl() {}
        self.group
    }

    /// Takes blocks for `owner`.
    fn take(&mut self, len: u32, owner: u64) -> Vec<AgBlock> {
        let blocks = self.space.take_kept(len);
        let record = |agbno: &AgBlock| owned(Extent { start: *agbno, len: ExtLen(1) }, owner);
        self.group.owners.extend(blocks.iter().map(record));
        self.group.owners = in_order(std::mem::take(&mut self.group.owners));
        self.group.free.clone_from(&self.space.free);
        blocks
    }

    /// Takes the blocks that each tree needs. Returns true if anything changed.
    fn give_to_trees(&mut self) -> bool {
        let mut changed = false;
        for index in 0..self.group.trees.len() {
            let (tree, has) = (self.group.trees[index].0, self.group.trees[index].1.len());
            let wants = self.group.shape(self.geo, tree).blocks() as usize;
            if has < wants {
                let more = u32::try_from(wants - has).unwrap_or(u32::MAX);
                let blocks = self.take(more, tree_owner(tree));
                changed |= !blocks.is_empty();
                self.group.trees[index].1.extend(blocks);
            } else if has > wants {
                // A later tree used up a free extent after this one was sized.
                let surplus = self.group.trees[index].1.split_off(wants);
                self.group.agfl.extend(surplus);
                changed = true;
            }
        }
        changed
    }

    /// Fills the AGFL for splits of trees of this height.
    fn give_to_agfl(&mut self) -> bool {
        let split = |tree: Tree| {
            let levels = self.group.shape(self.geo, tree).levels() + 1;
            2 * levels.min(tree.max_levels(self.geo)) - 2
        };
        let trees = [Tree::Bno, Tree::Cnt, Tree::Rmap];
        let need: u32 = trees.into_iter().filter(|tree| tree.exists(self.geo)).map(split).sum();
        let has = u32::try_from(self.group.agfl.len()).unwrap_or(u32::MAX);
        if has >= need {
            return false;
        }
        let blocks = self.take(need - has, owner::AG);
        let changed = !blocks.is_empty();
        self.group.agfl.extend(blocks);
        changed
    }
}

/// Returns the records of `chunks`, of which the first `used` inodes are in use.
fn chunk_records(geo: &Geometry, chunks: Extent, used: u32) -> Vec<Chunk> {
    let first = geo.agb_to_agino(chunks.start).0;
    let end = first + (chunks.len.0 << geo.inopblog);
    let record = |startino: u32| {
        let used = used.saturating_sub(startino - first).min(INODES_PER_CHUNK);
        Chunk {
            startino: AgIno(startino),
            holemask: 0,
            count: INODES_PER_CHUNK,
            freecount: INODES_PER_CHUNK - used,
            free: u64::MAX.checked_shl(used).unwrap_or(0),
        }
    };
    (first..end).step_by(INODES_PER_CHUNK as usize).map(record).collect()
}
