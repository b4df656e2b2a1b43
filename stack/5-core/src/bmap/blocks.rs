//! The only interface between extent maps and the allocator, reverse mappings and reference counts.

use xfskit_format::Fork;
use xfskit_format::bmbt::{Extent, MAX_BLOCKCOUNT};
use xfskit_space::{AllocRequest, Deferred, Owner};
use xfskit_units::{ExtLen, FilBlks, FsBlock};

use super::node::ForkOf;
use crate::error::Result;
use crate::tx::Tx;

/// Returns the owner of an extent of the fork.
fn owner(of: ForkOf, extent: &Extent) -> Owner {
    Owner::of(of.inode.ino, of.fork, extent)
}

fn extlen(blocks: u64) -> ExtLen {
    ExtLen(u32::try_from(blocks).unwrap_or(u32::MAX))
}

/// Allocates a block for the fork's tree.
pub(super) fn alloc_node(tx: &mut Tx<'_>, of: ForkOf, near: FsBlock) -> Result<FsBlock> {
    let owner = Owner::Bmbt(of.inode.ino, of.fork);
    Ok(tx.alloc_extent(&AllocRequest::exactly(1, near, owner))?.0)
}

/// Frees a block of the fork's tree, which was invalidated.
pub(super) fn free_node(tx: &mut Tx<'_>, of: ForkOf, start: FsBlock) {
    let owner = Owner::Bmbt(of.inode.ino, of.fork);
    tx.defer(Deferred::Free { start, len: ExtLen(1), owner });
}

/// Allocates contiguous blocks for `wanted`, as many as there are together. Returns the allocated
/// extent.
pub(super) fn alloc(tx: &mut Tx<'_>, of: ForkOf, wanted: &Extent, near: FsBlock) -> Result<Extent> {
    let most = extlen(wanted.blockcount.0.min(MAX_BLOCKCOUNT)).0;
    let (startblock, len) =
        tx.alloc_extent(&AllocRequest::between(1, most, near, owner(of, wanted)))?;
    Ok(Extent { startblock, blockcount: FilBlks(len.0.into()), ..*wanted })
}

/// Allocates exactly the blocks of `extent`.
pub(super) fn alloc_exactly(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) -> Result<()> {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    Ok(tx.alloc_exactly(start, len, owner(of, extent))?)
}

/// Frees an extent that the fork mapped, at the end of the transaction. Blocks that other files may
/// map too lose one reference.
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

/// Updates the reverse mapping of `extent` after a change of its state.
pub(super) fn convert(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    tx.defer(Deferred::RmapConvert { start, len, owner: owner(of, extent) });
}

/// Removes the reverse mapping of `extent`, whose blocks move to another offset or fork.
pub(super) fn unmapped(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    tx.defer(Deferred::RmapUnmap { start, len, owner: owner(of, extent) });
}

/// Adds the reverse mapping of `extent`, whose blocks come from another offset or fork.
pub(super) fn mapped(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    tx.defer(Deferred::RmapMap { start, len, owner: owner(of, extent) });
}

/// Adds the fork's reference to `extent`, which other files map too.
pub(super) fn share(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    tx.defer(Deferred::RmapMap { start, len, owner: owner(of, extent) });
    tx.defer(Deferred::RefcountIncrease { start, len });
}
