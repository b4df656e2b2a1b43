//! Work put off to the end of the transaction, where it is done sorted by group: so that the locks of
//! groups are taken in ascending order, and only as long as needed.

use xfskit_units::{ExtLen, FsBlock};

use crate::error::Result;
use crate::space::Owner;
use crate::tx::Tx;

/// Work that a transaction puts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferred {
    /// Free an extent.
    Free {
        /// Its first block.
        start: FsBlock,
        /// Its length.
        len: ExtLen,
        /// Whose it was.
        owner: Owner,
    },
}

impl Deferred {
    /// The block that decides which group comes first.
    fn block(&self) -> FsBlock {
        match self {
            Self::Free { start, .. } => *start,
        }
    }

    fn run(self, tx: &mut Tx<'_>) -> Result<()> {
        match self {
            Self::Free { start, len, owner } => tx.free_extent(start, len, owner),
        }
    }
}

impl Tx<'_> {
    /// Puts work off to the end of the transaction.
    pub fn defer(&mut self, work: Deferred) {
        self.deferred.push(work);
    }

    /// Does what was put off, and what that puts off in turn.
    pub(crate) fn run_deferred(&mut self) -> Result<()> {
        while !self.deferred.is_empty() {
            let mut batch = std::mem::take(&mut self.deferred);
            batch.sort_by_key(Deferred::block);
            for work in batch {
                work.run(self)?;
            }
        }
        Ok(())
    }
}
