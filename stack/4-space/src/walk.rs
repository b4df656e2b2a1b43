//! The btrees of a group, read without a transaction: for listings and searches.
//!
//! A walk goes down level by level, and reads the blocks of a level from left to right. It reads
//! only blocks that may have wanted records. Every level is one below the last, and a block must
//! begin with the key that its parent gives, so no block is visited twice, and the walk ends.

use std::ops::Range;

use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::{Ctx, VerifyResult, alloc, inobt, refcount, rmap};
use xfskit_units::{AgBlock, AgNumber};
use zerocopy::big_endian::U32;

use crate::error::{Error, Result};
use crate::space::Space;

/// Number of blocks that are read ahead at once.
const READ_AHEAD: usize = 64;

/// The parts of a key, by which records are sorted.
type Key = (u32, u64, u64);

/// The use of a block that was read, or of the error that kept it from being read.
type UseBlock<'u> = dyn FnMut(Result<(Block<'_>, Ctx<'_>)>) -> Result<()> + 'u;

/// A block that the walk reads, and the key that its parent gives; `None` for the root.
#[derive(Clone, Copy, Debug)]
struct Child {
    agbno: AgBlock,
    first: Option<Key>,
}

impl Space {
    /// Passes the blocks of a tree of group `agno` that may have records of `wanted` to `each`:
    /// first the root, then level by level. `wanted` is a range of the first field of a record: of
    /// blocks, or of inodes in inobt and finobt. The cntbt, which is sorted by length, is walked
    /// whole.
    ///
    /// A block that cannot be read is passed as an error. The walk goes on beside it if `each`
    /// returns `Ok`.
    ///
    /// # Errors
    /// The AGF or AGI cannot be read; errors of `each`.
    pub fn walk_tree(
        &self,
        agno: AgNumber,
        tree: Tree,
        wanted: &Range<u32>,
        each: &mut dyn FnMut(AgBlock, Result<Block<'_>>) -> Result<()>,
    ) -> Result<()> {
        let (root, levels) = self.root(agno, tree)?;
        let mut level = vec![Child { agbno: root, first: None }];
        for number in (0..levels).rev() {
            let mut below = Vec::new();
            for group in level.chunks(READ_AHEAD) {
                let location = |child: &Child| {
                    (self.geo().agb_to_daddr(agno, child.agbno), self.geo().block_sectors())
                };
                self.cache().read_ahead(&group.iter().map(location).collect::<Vec<_>>());
                for child in group {
                    self.visit(agno, tree, child, &mut |block| {
                        let listed = block.and_then(|(block, ctx)| {
                            ctx.eq(tree.ids().level, number, block.level.into())?;
                            verify_first(&block, &ctx, child)?;
                            list_children(&block, &ctx, agno, wanted, &mut below)?;
                            Ok(block)
                        });
                        each(child.agbno, listed)
                    })?;
                }
            }
            level = below;
        }
        Ok(())
    }

    /// Returns the root of a tree, and the number of its levels.
    fn root(&self, agno: AgNumber, tree: Tree) -> Result<(AgBlock, u32)> {
        let (root, level) = match tree {
            Tree::Ino | Tree::Fino => {
                let agi = self.agi(agno)?;
                match tree {
                    Tree::Ino => (agi.root, agi.level),
                    _ => (agi.free_root, agi.free_level),
                }
            }
            _ => {
                let agf = self.agf(agno)?;
                match tree {
                    Tree::Bno => (agf.bnoroot, agf.bnolevel),
                    Tree::Cnt => (agf.cntroot, agf.cntlevel),
                    Tree::Rmap => (agf.rmaproot, agf.rmaplevel),
                    _ => (agf.refcntroot, agf.refcntlevel),
                }
            }
        };
        Ok((AgBlock(root.get()), level.get().min(tree.max_levels(self.geo()))))
    }

    /// Reads a block, and passes it to `use_block` with its context.
    fn visit(
        &self,
        agno: AgNumber,
        tree: Tree,
        child: &Child,
        use_block: &mut UseBlock<'_>,
    ) -> Result<()> {
        let at = tree.location(self.geo(), agno, child.agbno);
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| Block::verify(bytes, ctx, tree, agno).map(drop);
        let valid = self.ctx(at).agbno(tree.ids().ptr, agno, child.agbno.0).map_err(Error::from);
        let buf = match valid.and_then(|()| self.read_buf(at, &verify)) {
            Ok(buf) => buf,
            Err(error) => return use_block(Err(error)),
        };
        let ctx = self.ctx(at).crc_known();
        let block = Block::verify(&buf, &ctx, tree, agno);
        let block = block.and_then(|block| block.verify_order(&ctx).map(|()| (block, ctx)));
        use_block(block.map_err(Error::from))
    }
}

/// Fails if a block does not begin with the key that its parent gives.
fn verify_first(block: &Block<'_>, ctx: &Ctx<'_>, child: &Child) -> VerifyResult {
    let Some(wanted) = child.first else { return Ok(()) };
    let found =
        if block.is_leaf() { first_record(block) } else { keys(block).first().map(|k| k.0) };
    let matches = found.is_some_and(|found| match block.tree {
        // No tool compares the length in a key of this tree.
        Tree::Bno => found.0 == wanted.0,
        _ => found == wanted,
    });
    let described = found.map_or_else(|| "no record".to_owned(), |found| format!("{found:?}"));
    ctx.require(block.tree.ids().key, matches, "the key in its parent", described)
}

/// Adds the children of a node that may have records of `wanted`.
fn list_children(
    block: &Block<'_>,
    ctx: &Ctx<'_>,
    agno: AgNumber,
    wanted: &Range<u32>,
    below: &mut Vec<Child>,
) -> VerifyResult {
    let keys = keys(block);
    for (index, (&(low, high), ptr)) in keys.iter().zip(block.ptrs()).enumerate() {
        // Without high keys, the records of a child end before the next child's first.
        let next = || keys.get(index + 1).map_or(u64::MAX, |(next, _)| next.0.into());
        let end = high.map_or_else(next, |high| u64::from(high) + 1);
        let overlaps = low.0 < wanted.end && end > wanted.start.into();
        if overlaps || block.tree == Tree::Cnt {
            ctx.entry(index).agbno(block.tree.ids().ptr, agno, ptr.get())?;
            below.push(Child { agbno: AgBlock(ptr.get()), first: Some(low) });
        }
    }
    Ok(())
}

fn free_key(tree: Tree, rec: alloc::Rec) -> Key {
    let (start, len) = (rec.startblock.get(), rec.blockcount.get());
    if tree == Tree::Cnt { (len, start.into(), 0) } else { (start, len.into(), 0) }
}

/// Returns the key of the first record of a leaf.
fn first_record(block: &Block<'_>) -> Option<Key> {
    let single = |number: U32| (number.get(), 0, 0);
    match block.tree {
        Tree::Bno | Tree::Cnt => Some(free_key(block.tree, *block.recs().first()?)),
        Tree::Ino | Tree::Fino => Some(single(block.recs::<inobt::Rec>().first()?.startino)),
        Tree::Refcount => Some(single(block.recs::<refcount::Rec>().first()?.startblock)),
        Tree::Rmap => Some(block.recs::<rmap::Rec>().first()?.low_key().sort_key()),
    }
}

/// Returns the keys of a node, each with the last block below it if the tree has high keys.
fn keys(block: &Block<'_>) -> Vec<(Key, Option<u32>)> {
    match block.tree {
        Tree::Bno | Tree::Cnt => {
            block.keys().iter().map(|rec| (free_key(block.tree, *rec), None)).collect()
        }
        Tree::Ino | Tree::Fino | Tree::Refcount => {
            block.keys::<U32>().iter().map(|key| ((key.get(), 0, 0), None)).collect()
        }
        Tree::Rmap => {
            let key =
                |pair: &rmap::KeyPair| (pair.low.sort_key(), Some(pair.high.startblock.get()));
            block.keys().iter().map(key).collect()
        }
    }
}
