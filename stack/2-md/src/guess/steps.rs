//! The steps of a search: its progress, and a request to end it.

use std::cell::Cell;
use std::ops::ControlFlow;

use super::evidence::ScanProgress;

/// Steps done, and steps that are known to be left.
pub(super) struct Steps<'a> {
    progress: &'a ScanProgress<'a>,
    done: Cell<u64>,
    total: Cell<u64>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(progress: &'a ScanProgress<'a>) -> Self {
        Self { progress, done: Cell::new(0), total: Cell::new(0) }
    }

    /// So many more steps are known to come.
    pub(super) fn expect(&self, steps: usize) {
        self.total.set(self.total.get() + steps as u64);
    }

    /// Counts a step, expected or not. Breaks if the search is to end.
    pub(super) fn advance(&self) -> ControlFlow<()> {
        self.done.set(self.done.get() + 1);
        self.total.set(self.total.get().max(self.done.get()));
        self.poll()
    }

    /// Breaks if the search is to end. For parts of a step.
    pub(super) fn poll(&self) -> ControlFlow<()> {
        (self.progress)(self.done.get(), self.total.get())
    }
}
