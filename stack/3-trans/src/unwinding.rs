//! Recognizes a panic that unwinds through a scope.

use std::thread::panicking;

/// Tells whether the thread has begun to unwind since this was made. A destructor that runs during
/// an older panic is no reason to act.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinceThen {
    was_unwinding: bool,
}

impl SinceThen {
    pub(crate) fn new() -> Self {
        Self { was_unwinding: panicking() }
    }

    /// Returns true if a panic unwinds through the caller.
    pub(crate) fn has_panicked(self) -> bool {
        !self.was_unwinding && panicking()
    }
}
