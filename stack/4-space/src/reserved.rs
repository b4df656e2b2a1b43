//! The count of free blocks that are reserved and not allocated yet.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// Counts the free blocks that are reserved and not allocated yet.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    all: AtomicI64,
    /// See [`Space::set_aside`](crate::Space::set_aside).
    pub(crate) set_aside: OnceLock<i64>,
}

impl Reserved {
    /// Reserves `blocks` more, of `free` blocks. Returns false if fewer are left.
    pub(crate) fn take(&self, blocks: u64, free: i64) -> bool {
        let blocks = i64::try_from(blocks).unwrap_or(i64::MAX);
        let all = self.all.fetch_add(blocks, Ordering::Relaxed).saturating_add(blocks);
        let is_refused = all > free && blocks > 0;
        if is_refused {
            self.all.fetch_sub(blocks, Ordering::Relaxed);
        }
        !is_refused
    }

    /// Releases `blocks` of them.
    pub(crate) fn give_back(&self, blocks: u64) {
        self.all.fetch_sub(i64::try_from(blocks).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Returns how many blocks are reserved.
    pub(crate) fn blocks(&self) -> i64 {
        self.all.load(Ordering::Relaxed)
    }
}
