//! Progress of long operations, and how they are cancelled.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xfskit_copy::stdin::Stdin;

use crate::notice::Notices;

/// How far a long operation is. The units are those of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The units that are done.
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

impl CancelToken {
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Returns standard input, whose reads, waiting ones too, fail once the token is cancelled.
    pub fn stdin(&self) -> Stdin {
        Stdin::until(Arc::clone(&self.0))
    }
}

impl From<Arc<AtomicBool>> for CancelToken {
    /// Returns the token that `flag` cancels: a signal handler may set it.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

/// The callback that receives the progress, if there is one. In an operation of several steps, `P`
/// has the step, too.
pub(crate) struct Report<'c, P = Progress>(Option<Box<dyn Fn(P) + Sync + 'c>>);

impl<'c, P> Report<'c, P> {
    pub(crate) fn new(report: impl Fn(P) + Sync + 'c) -> Self {
        Self(Some(Box::new(report)))
    }

    pub(crate) fn report(&self, progress: P) {
        if let Self(Some(report)) = self {
            report(progress);
        }
    }
}

impl<P> Default for Report<'_, P> {
    fn default() -> Self {
        Self(None)
    }
}

impl<P> fmt::Debug for Report<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Report")
    }
}

/// What the caller of a long operation has in hand.
#[derive(Debug, Default)]
pub(crate) struct Control<'c> {
    pub report: Report<'c>,
    pub notices: Notices<'c>,
    pub cancel: CancelToken,
}

impl Control<'_> {
    pub(crate) fn report(&self, done: u64, total: u64) {
        self.report.report(Progress { done, total });
    }

    /// Reports the progress. Breaks where the operation is cancelled.
    pub(crate) fn at(&self, done: u64, total: u64) -> ControlFlow<()> {
        self.report(done, total);
        if self.cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
