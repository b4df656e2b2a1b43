//! The chunks that are left of a damaged inobt.
//!
//! A walk goes on beside each block that cannot be read. Below a lost node, the leaves are found by
//! the siblings that their neighbours name. No parent has promised such a leaf, so it is
//! only for reading, and a leaf is visited once.

use std::collections::HashSet;

use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::inobt::Chunk;
use xfskit_units::{AgBlock, AgIno, AgNumber};

use super::TreeBlock;
use crate::error::{Error, Result};
use crate::volume::Volume;

impl Volume {
    /// Passes every chunk of inodes of group `agno` that can still be read to `visit`, in no
    /// particular order, and the damage that hides others to `damaged`.
    pub fn for_each_chunk_left(
        &self,
        agno: AgNumber,
        visit: &mut dyn FnMut(&Chunk),
        damaged: &mut dyn FnMut(Error),
    ) {
        let (leaves, mut whole) = match self.leaves_left(agno, damaged) {
            Ok(found) => found,
            Err(error) => return damaged(error),
        };
        let mut seen: HashSet<AgBlock> = leaves.iter().map(|leaf| leaf.agbno).collect();
        for leaf in &leaves {
            whole &= self.visit_leaf(leaf, visit).map_err(&mut *damaged).is_ok();
        }
        if whole {
            return;
        }
        // A lost leaf is a sibling of one that is known, or of one that was found in this way.
        let mut known: Vec<AgBlock> = seen.iter().copied().collect();
        while let Some(agbno) = known.pop() {
            let Ok(siblings) = self.leaf_siblings(agno, agbno) else { continue };
            for sibling in siblings.into_iter().flatten() {
                let leaf = TreeBlock { agno, agbno: sibling, first: None, end: AgIno(u32::MAX) };
                if seen.insert(sibling) && self.visit_leaf(&leaf, visit).is_ok() {
                    known.push(sibling);
                }
            }
        }
    }

    /// Returns the leaves of a group's inobt that nodes name which can be read, and whether these
    /// are all of them.
    fn leaves_left(
        &self,
        agno: AgNumber,
        damaged: &mut dyn FnMut(Error),
    ) -> Result<(Vec<TreeBlock>, bool)> {
        let agi = self.agi(agno)?;
        let (agbno, end) = (AgBlock(agi.root.get()), AgIno(u32::MAX));
        let mut blocks = vec![TreeBlock { agno, agbno, first: None, end }];
        let mut whole = true;
        let levels = agi.level.get().min(Tree::Ino.max_levels(self.geo()));
        for level in (1..levels).rev() {
            let mut below = Vec::new();
            for node in &blocks {
                let listed = self.list_children(node, level, &mut below);
                whole &= listed.map_err(&mut *damaged).is_ok();
            }
            blocks = below;
        }
        Ok((blocks, whole))
    }

    fn visit_leaf(&self, leaf: &TreeBlock, visit: &mut dyn FnMut(&Chunk)) -> Result<()> {
        let mut chunks = Vec::new();
        let read = self.add_chunks(leaf, &mut chunks);
        // The records before a damaged one are sound.
        chunks.iter().for_each(visit);
        read
    }

    /// Returns the siblings of a leaf.
    fn leaf_siblings(&self, agno: AgNumber, agbno: AgBlock) -> Result<[Option<AgBlock>; 2]> {
        let leaf = TreeBlock { agno, agbno, first: None, end: AgIno(u32::MAX) };
        let (buf, ctx) = self.read_inobt(&leaf)?;
        let block = Block::verify(&buf, &ctx, Tree::Ino, agno)?;
        ctx.eq("inobt.level", 0, block.level)?;
        Ok([block.leftsib, block.rightsib])
    }
}
