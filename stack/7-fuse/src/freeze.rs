//! Freezing: changes wait until the mount is thawed, and no thread waits with them.
//!
//! ```text
//!            freeze: changes under way end             thaw
//!   open ─────────────────────────────────▶ frozen ───────────▶ open
//!    │ a request that changes something:      │ a request that changes something:
//!    ▼ runs                                   ▼ is kept with its reply, and runs after the thaw
//! ```
//!
//! 1. A request holds the gate as it is for as long as it is served: a freeze waits for all
//!    requests under way, those that read too, because the last user of an inode or of content may
//!    write.
//! 2. A thread that finds the gate closed keeps a request that changes something, and serves the
//!    next one: however many programs wait, requests that read go on. The kernel bounds how many
//!    are kept: one of each waiting thread, and those in the background.
//! 3. A request is kept while the gate is closed, so that a thaw finds it.

use std::collections::VecDeque;
use std::fmt;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

/// The gate that each request passes.
#[derive(Debug, Default)]
pub struct Gate {
    /// True while the mount is frozen. Held shared by each request.
    is_frozen: RwLock<bool>,
}

/// The gate, which stays as it is while this is held.
#[derive(Debug)]
pub struct Passage<'g> {
    is_frozen: RwLockReadGuard<'g, bool>,
}

impl Passage<'_> {
    /// Returns true if nothing may be changed.
    pub fn is_frozen(&self) -> bool {
        *self.is_frozen
    }
}

impl Gate {
    /// Enters the gate, open or closed. Waits while another thread freezes the mount.
    pub fn enter(&self) -> Passage<'_> {
        Passage { is_frozen: self.is_frozen.read() }
    }

    /// Enters the gate in the midst of a request, which has entered it.
    pub fn enter_again(&self) -> Passage<'_> {
        Passage { is_frozen: self.is_frozen.read_recursive() }
    }

    /// Enters the gate if it is open. Never waits.
    pub fn try_enter(&self) -> Option<Passage<'_>> {
        let passage = Passage { is_frozen: self.is_frozen.try_read_recursive()? };
        (!passage.is_frozen()).then_some(passage)
    }

    /// Waits for the requests under way, and closes the gate. Returns false if it was closed.
    pub(crate) fn freeze(&self) -> bool {
        !std::mem::replace(&mut *self.is_frozen.write(), true)
    }

    /// Opens the gate. Returns false if it was open.
    pub(crate) fn thaw(&self) -> bool {
        std::mem::replace(&mut *self.is_frozen.write(), false)
    }

    /// Returns true while the mount is frozen.
    pub fn is_frozen(&self) -> bool {
        self.enter().is_frozen()
    }
}

/// A request that waits for the thaw, with its reply; `T` runs it.
type Request<T> = Box<dyn FnOnce(&T) + Send>;

/// Requests that wait for the thaw, in the order of their arrival.
pub(crate) struct Kept<T> {
    requests: Mutex<VecDeque<Request<T>>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { requests: Mutex::default() }
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.requests.lock().len())
    }
}

impl<T> Kept<T> {
    /// Keeps a request that found the gate closed.
    pub(crate) fn keep(&self, frozen: Passage<'_>, request: impl FnOnce(&T) + Send + 'static) {
        self.requests.lock().push_back(Box::new(request));
        // Invariant 3.
        drop(frozen);
    }

    /// Runs the requests that are kept, until the gate is closed again.
    pub(crate) fn run(&self, gate: &Gate, with: &T) {
        loop {
            let passage = gate.enter();
            if passage.is_frozen() {
                return;
            }
            let Some(request) = self.requests.lock().pop_front() else { return };
            request(with);
        }
    }

    /// Drops the requests that are kept: the mount is gone, and takes no replies.
    pub(crate) fn clear(&self) {
        self.requests.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_freeze_waits_for_changes_under_way_and_is_refused_twice() {
        let gate = Gate::default();
        let passage = gate.enter();
        assert!(!passage.is_frozen());
        let ended = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(gate.freeze());
                assert_eq!(ended.load(Ordering::SeqCst), 1);
            });
            std::thread::sleep(Duration::from_millis(50));
            ended.store(1, Ordering::SeqCst);
            drop(passage);
        });
        assert!(gate.is_frozen() && gate.try_enter().is_none());
        assert!(!gate.freeze());
        assert!(gate.thaw());
        assert!(!gate.thaw() && !gate.is_frozen() && gate.try_enter().is_some());
    }

    #[test]
    fn kept_requests_run_once_in_their_order_however_often_the_gate_closes() {
        let (gate, kept, log) = (Gate::default(), Kept::default(), Mutex::new(Vec::new()));
        assert!(gate.freeze());
        for n in 0..5 {
            kept.keep(gate.enter(), move |log: &Mutex<Vec<i32>>| log.lock().push(n));
        }
        kept.run(&gate, &log);
        assert!(log.lock().is_empty(), "the gate is closed");
        assert!(gate.thaw());
        kept.run(&gate, &log);
        kept.run(&gate, &log);
        assert_eq!(*log.lock(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn no_request_is_lost_between_a_freeze_and_a_thaw() {
        let (gate, kept, done) = (Gate::default(), Kept::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..5000 {
                            let count = |done: &AtomicUsize| {
                                done.fetch_add(1, Ordering::SeqCst);
                            };
                            let passage = gate.enter();
                            if passage.is_frozen() {
                                kept.keep(passage, count);
                            } else {
                                count(&done);
                            }
                        }
                    })
                })
                .collect();
            while clients.iter().any(|client| !client.is_finished()) {
                gate.freeze();
                std::thread::yield_now();
                gate.thaw();
                kept.run(&gate, &done);
            }
        });
        kept.run(&gate, &done);
        assert_eq!(done.load(Ordering::SeqCst), 20_000);
    }
}
