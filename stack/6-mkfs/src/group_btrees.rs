//! Blocks for the btrees of a group.

use xfskit_format::agbtree::Tree;
use xfskit_format::rmap::owner;
use xfskit_units::{AgBlock, ExtLen, Geometry};

use crate::group::{Group, in_order, owned, tree_owner};
use crate::group_space::GroupSpace;
use crate::layout::Extent;

/// Gives the btrees and the free list of `group` the blocks that they need, out of `space`, as far
/// as there are any. The free extents of the group become those of `space`.
pub fn place_btrees(geo: &Geometry, mut group: Group, space: GroupSpace) -> Group {
    group.owners = in_order(std::mem::take(&mut group.owners));
    group.free.clone_from(&space.free);
    GroupBtrees { geo, group, space }.close()
}

/// A group whose btrees get their blocks. Each block has an owner, and recording it may take more
/// blocks, so the trees are sized again until nothing changes.
struct GroupBtrees<'g> {
    geo: &'g Geometry,
    group: Group,
    space: GroupSpace,
}

impl GroupBtrees<'_> {
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
