//! Progress of long operations, and how they are cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How far a long operation is. The units are those of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is done.
    pub done: u64,
    /// All there is to do; 0 where that is not known yet.
    pub total: u64,
}

/// Cancels a long operation from another thread. A clone is another reference to the same token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Returns a token that nothing has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the operations that were given this token, now and later ones.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true after [`cancel`](Self::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
