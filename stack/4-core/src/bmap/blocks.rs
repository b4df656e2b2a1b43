//! The only interface between extent maps and the allocator, reverse mappings and reference counts.

use xfskit_format::Fork;
use xfskit_format::bmbt::{Extent, MAX_BLOCKCOUNT};
use xfskit_units::{ExtLen, FilBlks, FsBlock};

use super::node::ForkOf;
use crate::error::Result;
use crate::space::{AllocRequest, Deferred, Owner};
use crate::tx::Tx;

/// Who owns an extent of the fork.
fn owner(of: ForkOf, extent: &Extent) -> Owner {
    Owner::of(of.inode.ino, of.fork, extent)
}

fn extlen(blocks: u64) -> ExtLen {
    ExtLen(u32::try_from(blocks).unwrap_or(u32::MAX))
}

/// A block for the fork's tree.
pub(super) fn alloc_node(tx: &mut Tx<'_>, of: ForkOf, near: FsBlock) -> Result<FsBlock> {
    let owner = Owner::Bmbt(of.inode.ino, of.fork);
    Ok(tx.alloc_extent(&AllocRequest::exactly(1, near, owner))?.0)
}

/// Gives a block of the fork's tree back, which was invalidated.
pub(super) fn free_node(tx: &mut Tx<'_>, of: ForkOf, start: FsBlock) {
    let owner = Owner::Bmbt(of.inode.ino, of.fork);
    tx.defer(Deferred::Free { start, len: ExtLen(1), owner });
}

/// Blocks in one piece for `wanted`, as many of them as there are together; answers what became of it.
pub(super) fn alloc(tx: &mut Tx<'_>, of: ForkOf, wanted: &Extent, near: FsBlock) -> Result<Extent> {
    let most = extlen(wanted.blockcount.0.min(MAX_BLOCKCOUNT)).0;
    let (startblock, len) =
        tx.alloc_extent(&AllocRequest::between(1, most, near, owner(of, wanted)))?;
    Ok(Extent { startblock, blockcount: FilBlks(len.0.into()), ..*wanted })
}

/// Gives back what the fork mapped, at the end of the transaction. What other files may map too has one owner
/// less.
pub(super) fn free(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    let owner = owner(of, extent);
    if of.fork == Fork::Data && tx.core(of.inode).is_reflink() {
        tx.defer(Deferred::RmapUnmap { start, len, owner });
        tx.defer(Deferred::RefcountDecrease { start, len });
    } else {
        tx.defer(Deferred::Free { start, len, owner });
    }
}

/// The fork maps `extent` in the other state now.
pub(super) fn convert(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    tx.defer(Deferred::RmapConvert { start, len, owner: owner(of, extent) });
}

/// The fork does not map `extent` any more; its blocks go to another place or fork.
pub(super) fn unmapped(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    tx.defer(Deferred::RmapUnmap { start, len, owner: owner(of, extent) });
}

/// The fork maps `extent` now, whose blocks come from another place or fork.
pub(super) fn mapped(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    tx.defer(Deferred::RmapMap { start, len, owner: owner(of, extent) });
}

/// The fork maps `extent`, which other files map too.
pub(super) fn share(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    tx.defer(Deferred::RmapMap { start, len, owner: owner(of, extent) });
    tx.defer(Deferred::RefcountIncrease { start, len });
}
