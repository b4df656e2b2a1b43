//! The nodes of a fork's map in a transaction: the fork itself, and blocks.
//!
//! A thread that changes a map holds its inode's lock, which protects all of the map's blocks. They
//! are therefore read without their own locks, and locked only to be changed.

use std::mem::offset_of;

use xfskit_format::bmbt::edit::{self, Node, Slot};
use xfskit_format::bmbt::{self, BmbtBlock, BmdrRoot};
use xfskit_format::inode::{Core, Format, InodeFlags2};
use xfskit_format::{Ctx, Fork, Image, Layout, Location, VerifyResult, inode};
use xfskit_trans::{BufMap, Handle, Held};
use xfskit_units::{FileOff, FsBlock, Geometry};
use zerocopy::big_endian::{U16, U32, U64};

use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// Maximum number of extents of a data fork with small counters.
const SMALL_DATA: u64 = i32::MAX.unsigned_abs() as u64;
/// Maximum number of extents of an attribute fork with small counters.
const SMALL_ATTR: u64 = i16::MAX.unsigned_abs() as u64;
/// Maximum number of extents of a data fork with large counters.
const LARGE_DATA: u64 = (1 << 48) - 1;
/// Maximum number of extents of an attribute fork with large counters.
const LARGE_ATTR: u64 = u32::MAX as u64;

/// Verifies a block of the tree of `fork`, the order of its entries too.
pub(super) fn verify_block(bytes: &[u8], ctx: &Ctx<'_>, fork: Fork) -> VerifyResult {
    BmbtBlock::verify(bytes, ctx, fork)?.verify_order(ctx)
}

/// The level and file blocks that a parent states for a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    level: u16,
    /// The first file block of the child.
    first: FileOff,
    /// Upper bound of the end of everything below it.
    end: FileOff,
}

impl Due {
    /// Returns the bounds of child `index` of `node`, if there is one. Everything below `node`
    /// itself ends at or before `end`.
    pub(super) fn of_child(bytes: &[u8], node: &Node, index: usize, end: FileOff) -> Option<Self> {
        let level = node.level.checked_sub(1)?;
        let first = node.key(bytes, index)?;
        Some(Self { level, first, end: node.key(bytes, index + 1).unwrap_or(end) })
    }

    /// Returns the child's first file block.
    pub(super) fn first(&self) -> FileOff {
        self.first
    }

    /// Returns the upper bound of the child's blocks.
    pub(super) fn end(&self) -> FileOff {
        self.end
    }

    /// Fails if `node` differs from what its parent states.
    pub(super) fn verify(&self, ctx: &Ctx<'_>, bytes: &[u8], node: &Node) -> VerifyResult {
        ctx.eq("bmbt.level", self.level, node.level)?;
        ctx.eq("bmbt.keys", self.first, node.key(bytes, 0).unwrap_or(FileOff::ZERO))?;
        let order = if node.level == 0 { "bmbt.rec.order" } else { "bmbt.keys" };
        ctx.at_most(order, self.end, node.end(bytes).unwrap_or(FileOff::ZERO))
    }
}

/// One fork of an inode that a transaction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForkOf {
    pub(super) inode: TxInode,
    pub(super) fork: Fork,
}

impl ForkOf {
    /// Returns the fork's first byte in its inode, and its length.
    pub(super) fn area(self, tx: &Tx<'_>) -> (usize, usize) {
        let core = tx.core(self.inode);
        let start = Layout::of(tx.volume().geo()).inode_core;
        let len = core.fork(self.fork).map_or(0, <[u8]>::len);
        match self.fork {
            Fork::Data => (start, len),
            Fork::Attr => (start + core.literal().len() - len, len),
        }
    }

    /// Returns the location that the fork's corruptions report.
    fn at(self, geo: &Geometry) -> Location {
        inode::location(geo, self.inode.ino).fork(self.fork)
    }

    /// Returns the context for verifying the fork.
    pub(super) fn ctx<'t>(self, tx: &'t Tx<'_>) -> Ctx<'t> {
        tx.volume().ctx(self.at(tx.volume().geo()))
    }

    pub(super) fn nextents(self, tx: &Tx<'_>) -> u64 {
        tx.core(self.inode).fork_nextents(self.fork)
    }

    /// Returns how many extents the fork holds without a tree.
    pub(super) fn inline_records(self, tx: &Tx<'_>) -> u64 {
        bmbt::inline_records(self.area(tx).1) as u64
    }

    /// Returns the root: the fork, as a node.
    pub(super) fn root(self, tx: &Tx<'_>) -> Result<Node> {
        let core = tx.core(self.inode);
        let (at, len) = self.area(tx);
        match core.fork_format(self.fork) {
            Some(Format::Extents) => {
                let count = self.nextents(tx);
                self.ctx(tx).at_most("inode.nextents", self.inline_records(tx), count)?;
                Ok(Node::of_extents(at, len, xfskit_units::index(count)))
            }
            Some(Format::Btree) => {
                let fork = core.fork(self.fork).unwrap_or(&[]);
                BmdrRoot::verify(fork, &self.ctx(tx), self.fork)?;
                Ok(Node::of_root(tx.bytes(self.inode.handle), at, len))
            }
            _ => {
                let ctx = self.ctx(tx);
                let format = match self.fork {
                    Fork::Data => ("inode.format", core.core.format),
                    Fork::Attr => ("inode.aformat", core.core.aformat),
                };
                ctx.require(format.0, false, "a fork with blocks of its own", u64::from(format.1))?;
                Ok(Node::of_extents(at, len, 0))
            }
        }
    }

    /// Passes the node in `block`, or the root, to a closure that reads it.
    pub(super) fn look<R>(
        self,
        tx: &Tx<'_>,
        block: Option<FsBlock>,
        look: impl FnOnce(&[u8], &Node) -> R,
    ) -> Result<R> {
        let Some(block) = block else {
            let node = self.root(tx)?;
            return Ok(look(tx.bytes(self.inode.handle), &node));
        };
        let at = bmbt::location(tx.volume().geo(), block).ino(self.inode.ino).fork(self.fork);
        let daddr = at.daddr.ok_or_else(|| Error::Unsupported(format!("{at}: no address")))?;
        let fork = self.fork;
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| verify_block(bytes, ctx, fork);
        let buf = tx.peek(&BufMap::single(daddr, at.sectors), &tx.volume().ctx(at), &verify)?;
        Ok(look(&buf, &Node::of_block(&buf, tx.volume().geo())))
    }

    /// Locks the block for a change.
    pub(super) fn hold(self, tx: &mut Tx<'_>, block: FsBlock) -> Result<Handle> {
        let at = bmbt::location(tx.volume().geo(), block).ino(self.inode.ino).fork(self.fork);
        let fork = self.fork;
        Ok(tx.read_buf(at, &move |bytes, ctx| verify_block(bytes, ctx, fork))?)
    }

    /// Changes the node in `block`, or the root.
    pub(super) fn edit<R>(
        self,
        tx: &mut Tx<'_>,
        block: Option<FsBlock>,
        edit: impl FnOnce(&mut Held<'_, '_>, &mut Node) -> R,
    ) -> Result<R> {
        let (handle, mut node) = match block {
            None => (self.inode.handle, self.root(tx)?),
            Some(block) => {
                let handle = self.hold(tx, block)?;
                (handle, Node::of_block(tx.bytes(handle), tx.volume().geo()))
            }
        };
        Ok(edit(&mut tx.image(handle), &mut node))
    }

    /// Returns the left and the right neighbour of a block.
    pub(super) fn siblings(
        self,
        tx: &Tx<'_>,
        block: FsBlock,
    ) -> Result<(Option<FsBlock>, Option<FsBlock>)> {
        self.look(tx, Some(block), |bytes, _| edit::siblings(bytes))
    }

    /// Returns all slots of a node.
    pub(super) fn slots(self, tx: &Tx<'_>, block: Option<FsBlock>) -> Result<Vec<Slot>> {
        self.look(tx, block, |bytes, node| node.slots(bytes, 0))
    }

    pub(super) fn set_format(self, tx: &mut Tx<'_>, format: Format) {
        let at = match self.fork {
            Fork::Data => offset_of!(Core, format),
            Fork::Attr => offset_of!(Core, aformat),
        };
        tx.image(self.inode.handle).put(at, &(format as u8));
    }

    /// Adds `change` to the fork's extent counter.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`] if the counter cannot hold the number.
    pub(super) fn count_extents(self, tx: &mut Tx<'_>, change: i64) -> Result<()> {
        let count = self.nextents(tx).saturating_add_signed(change);
        let (small, large, limit) = match self.fork {
            Fork::Data => (SMALL_DATA, LARGE_DATA, "the file has as many extents as one can have"),
            Fork::Attr => {
                (SMALL_ATTR, LARGE_ATTR, "the attribute fork has as many extents as one can have")
            }
        };
        let feature = tx.volume().geo().features.nrext64();
        if count > small && feature && !tx.core(self.inode).has_nrext64() {
            use_large_counters(tx, self.inode);
        }
        let nrext64 = tx.core(self.inode).has_nrext64();
        if count > if nrext64 { large } else { small } {
            return Err(Error::FileTooLarge(limit));
        }
        let mut image = tx.image(self.inode.handle);
        match (self.fork, nrext64) {
            (Fork::Data, true) => image.put(offset_of!(Core, big_nextents), &U64::new(count)),
            (Fork::Data, false) | (Fork::Attr, true) => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                image.put(offset_of!(Core, nextents), &U32::new(count));
            }
            (Fork::Attr, false) => {
                let count = u16::try_from(count).unwrap_or(u16::MAX);
                image.put(offset_of!(Core, naextents), &U16::new(count));
            }
        }
        Ok(())
    }
}

/// Converts an inode's extent counters to the large ones.
fn use_large_counters(tx: &mut Tx<'_>, inode: TxInode) {
    let core = tx.core(inode);
    let (data, attr, flags) = (core.nextents(), core.anextents(), core.flags2());
    let mut image = tx.image(inode.handle);
    let flags_at = offset_of!(inode::CoreV3, flags2);
    image.put(flags_at, &U64::new((flags | InodeFlags2::NREXT64).bits()));
    image.put(offset_of!(Core, big_nextents), &U64::new(data));
    image.put(offset_of!(Core, nextents), &U32::new(attr));
    image.put(offset_of!(Core, naextents), &U16::new(0));
}

/// Adds `change` to an inode's block count.
pub(crate) fn count_blocks(tx: &mut Tx<'_>, inode: TxInode, change: i64) {
    let count = tx.core(inode).nblocks().0.saturating_add_signed(change);
    tx.image(inode.handle).put(offset_of!(Core, nblocks), &U64::new(count));
}
