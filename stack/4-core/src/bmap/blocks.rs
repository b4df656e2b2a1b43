//! The one place where maps meet the allocator.

use xfskit_format::bmbt::{Extent, MAX_BLOCKCOUNT};
use xfskit_units::{ExtLen, FileOff, FsBlock};

use super::node::ForkOf;
use crate::error::{Error, Result};
use crate::tx::Tx;

/// A block for the fork's tree.
pub(super) fn alloc_node(tx: &mut Tx<'_>, of: ForkOf, near: FsBlock) -> Result<FsBlock> {
    #[cfg(test)]
    if let Some(block) = testing::POOL.with_borrow_mut(Vec::pop) {
        return Ok(block);
    }
    let _ = (tx, of, near);
    Err(Error::Unsupported("allocating blocks".into()))
}

/// Gives a block of the fork's tree back, which was invalidated.
pub(super) fn free_node(tx: &mut Tx<'_>, of: ForkOf, block: FsBlock) -> Result<()> {
    #[cfg(test)]
    {
        testing::POOL.with_borrow_mut(|pool| pool.insert(0, block));
        return Ok(());
    }
    #[cfg(not(test))]
    {
        let _ = (tx, of, block);
        Err(Error::Unsupported("freeing blocks".into()))
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::cell::RefCell;
    use xfskit_units::FsBlock;
    thread_local! {
        pub static POOL: RefCell<Vec<FsBlock>> = const { RefCell::new(Vec::new()) };
    }
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
    let most = len.min(MAX_BLOCKCOUNT);
    let _ = (tx, of, fileoff, most, near, unwritten);
    Err(Error::Unsupported("allocating blocks".into()))
}

/// Gives back what the fork mapped, at the end of the transaction.
pub(super) fn free(tx: &mut Tx<'_>, of: ForkOf, extent: &Extent) -> Result<()> {
    let _ = (tx, of, extent);
    Err(Error::Unsupported("freeing blocks".into()))
}
