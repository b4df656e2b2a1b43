//! The one place where maps meet the allocator, reverse mappings and reference counts.

use xfskit_format::Fork;
use xfskit_format::bmbt::{Extent, MAX_BLOCKCOUNT};
use xfskit_units::{ExtLen, FileOff, FsBlock};

use super::node::ForkOf;
use crate::error::{Error, Result};
use crate::space::{AllocRequest, Deferred, Owner};
use crate::tx::Tx;

/// Who owns the content of a fork.
fn owner_at(of: ForkOf, fileoff: FileOff) -> Owner {
    Owner::Fork(of.inode.ino, of.fork, fileoff)
}

fn extlen(blocks: u64) -> ExtLen {
    ExtLen(u32::try_from(blocks).unwrap_or(u32::MAX))
}

/// A block for the fork's tree.
pub(super) fn alloc_node(tx: &mut Tx<'_>, of: ForkOf, near: FsBlock) -> Result<FsBlock> {
    #[cfg(test)]
    if let Some(block) = super::tests::POOL.with_borrow_mut(Vec::pop) {
        return Ok(block);
    }
    let owner = Owner::Bmbt(of.inode.ino, of.fork);
    Ok(tx.alloc_extent(&AllocRequest::exactly(1, near, owner))?.0)
}

/// Gives a block of the fork's tree back, which was invalidated.
pub(super) fn free_node(tx: &mut Tx<'_>, of: ForkOf, start: FsBlock) {
    #[cfg(test)]
    if super::tests::POOL.with_borrow_mut(|pool| {
        pool.first().is_some() && {
            pool.insert(0, start);
            true
        }
    }) {
        return;
    }
    let owner = Owner::Bmbt(of.inode.ino, of.fork);
    tx.defer(Deferred::Free { start, len: ExtLen(1), owner });
}

/// Up to `len` blocks in one piece for block `fileoff` of the fork on.
pub(super) fn alloc(
    tx: &mut Tx<'_>,
    of: ForkOf,
    fileoff: FileOff,
    len: u64,
    near: FsBlock,
    unwritten: bool,
) -> Result<(FsBlock, ExtLen)> {
    let _ = unwritten;
    let most = extlen(len.min(MAX_BLOCKCOUNT)).0;
    tx.alloc_extent(&AllocRequest::between(1, most, near, owner_at(of, fileoff)))
}

/// Gives back what the fork mapped, at the end of the transaction.
pub(super) fn free(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) -> Result<()> {
    let (start, len) = (extent.startblock, extlen(extent.blockcount.0));
    let owner = owner_at(of, extent.startoff);
    if of.fork == Fork::Data && tx.core(of.inode).is_reflink() {
        return Err(Error::Unsupported("unmapping blocks of a file that shares some".into()));
    }
    tx.defer(Deferred::Free { start, len, owner });
    Ok(())
}
