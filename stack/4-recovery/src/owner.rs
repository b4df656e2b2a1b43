//! Changes of the owner of extent btree blocks.
//!
//! When two files exchange their whole data, the trees change their inode. Every block of a tree
//! names its inode, and the log only records that all blocks now belong to the other one.

use std::collections::BTreeSet;

use xfskit_format::bmbt::{BmbtBlock, BmdrRoot};
use xfskit_format::inode::Dinode;
use xfskit_format::log::item::buf::BufType;
use xfskit_format::log::item::inode::{AOWNER, DOWNER, Inode};
use xfskit_format::{Ctx, Fork, Location};
use xfskit_units::{Daddr, FsBlock, Ino};

use crate::error::Result;
use crate::pass::Pass;

/// Offset of the owner in a block of version 5.
const OWNER_OFFSET: usize = 56;

impl Pass<'_> {
    /// Makes the inode the owner of its trees' blocks, if the item asks for it. `disk` is the inode
    /// after replay.
    pub(crate) fn change_owner(
        &mut self,
        item: &Inode<'_>,
        disk: &[u8],
        ctx: &Ctx<'_>,
    ) -> Result<()> {
        let fields = item.format.fields.get();
        if item.core.mode.get() == 0 || !self.geo.v5() {
            return Ok(());
        }
        for (flag, fork) in [(DOWNER, Fork::Data), (AOWNER, Fork::Attr)] {
            if fields & flag == 0 {
                continue;
            }
            let owner = item.ino().0.to_be_bytes();
            let sectors = self.geo.block_sectors();
            for (daddr, mut block) in self.tree_blocks(disk, item.ino(), fork, ctx)? {
                block[OWNER_OFFSET..][..8].copy_from_slice(&owner);
                self.queue.change(daddr, &block, 0..block.len());
                self.queue.stamp_later(daddr, sectors, BufType::Btree);
            }
        }
        Ok(())
    }

    /// Returns every block of the tree of one fork, whatever its owner; none if the fork is not a
    /// tree.
    pub(crate) fn tree_blocks(
        &self,
        disk: &[u8],
        ino: Ino,
        fork: Fork,
        ctx: &Ctx<'_>,
    ) -> Result<Vec<(Daddr, Vec<u8>)>> {
        let Some(room) = self.tree_root(disk, fork) else { return Ok(Vec::new()) };
        let at = Location::of("bmbt block").fork(fork);
        let ctx = Ctx::new(&self.geo, ctx.at.ino(ino)).crc_known();
        let root = BmdrRoot::verify(room, &ctx.at(at), fork)?;
        let mut seen = BTreeSet::new();
        let mut blocks = Vec::new();
        let mut todo: Vec<(FsBlock, u16)> =
            root.ptrs.iter().map(|ptr| (FsBlock(ptr.get()), root.level)).collect();
        while let Some((fsbno, level)) = todo.pop() {
            let daddr = self.geo.fsb_to_daddr(fsbno).unwrap_or(Daddr(u64::MAX));
            let sectors = self.geo.block_sectors();
            let ctx = ctx.at(at.daddr(daddr, sectors));
            ctx.require("bmbt.ptrs", seen.insert(fsbno), "a block met for the first time", fsbno)?;
            let bytes = self.queue.read(daddr, sectors)?;
            let block = BmbtBlock::verify(&bytes, &ctx, fork)?;
            ctx.eq("bmbt.level", level.saturating_sub(1), block.level)?;
            todo.extend(block.ptrs().iter().map(|ptr| (FsBlock(ptr.get()), block.level)));
            blocks.push((daddr, bytes));
        }
        Ok(blocks)
    }

    /// Returns the bytes of the fork, if it is a tree.
    fn tree_root<'a>(&self, disk: &'a [u8], fork: Fork) -> Option<&'a [u8]> {
        let inode = Dinode::parse(disk, &self.geo)?;
        let is_tree = inode.fork_format(fork) == Some(xfskit_format::inode::Format::Btree);
        if is_tree { inode.fork(fork) } else { None }
    }
}
