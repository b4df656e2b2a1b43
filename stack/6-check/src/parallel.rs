//! A work queue: each thread takes the next piece of work until there is none left.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` for every number below `count`, on up to `threads` threads. Each thread makes its
/// own state with `state`. Returns all states when the queue is empty.
pub(crate) fn for_each<S: Send>(
    threads: usize,
    count: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
) -> Vec<S> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut own = state();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= count {
                return own;
            }
            work(&mut own, piece);
        }
    };
    let helpers = threads.min(count).saturating_sub(1);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..helpers).map(|_| scope.spawn(run)).collect();
        let mut states = vec![run()];
        for handle in handles {
            match handle.join() {
                Ok(state) => states.push(state),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        states
    })
}
