//! Pieces of work on several threads, whose results are taken in order.

use std::collections::BTreeMap;

use parking_lot::{Condvar, Mutex};

/// Pieces that may be begun before the oldest one was taken, for each thread.
const AHEAD: usize = 4;

struct State<T> {
    /// The next piece to begin.
    next: usize,
    /// Pieces taken.
    taken: usize,
    finished: BTreeMap<usize, T>,
    stopped: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T> Shared<T> {
    fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }
}

/// Stops the others when a thread ends early, by a panic too.
struct StopOnDrop<'s, T>(&'s Shared<T>);

impl<T> Drop for StopOnDrop<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// Runs `work` for every number below `count` on `threads` threads, and passes the results to
/// `take` in the order of their numbers. At most a few results for each thread are in memory.
///
/// # Errors
/// The first error of `take`, after which no more work is begun.
pub(crate) fn for_each<T: Send, E>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = threads.clamp(1, count.max(1));
    let shared = Shared {
        state: Mutex::new(State { next: 0, taken: 0, finished: BTreeMap::new(), stopped: false }),
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _stop = StopOnDrop(&shared);
                while let Some(piece) = begin(&shared, threads * AHEAD, count) {
                    let result = work(piece);
                    shared.state.lock().finished.insert(piece, result);
                    shared.changed.notify_all();
                }
            });
        }
        let _stop = StopOnDrop(&shared);
        for piece in 0..count {
            let Some(result) = finished(&shared, piece) else { break };
            if let Err(error) = take(piece, result) {
                shared.stop();
                return Err(error);
            }
        }
        Ok(())
    })
}

/// Returns the next piece to work on; `None` if there is none.
fn begin<T>(shared: &Shared<T>, ahead: usize, count: usize) -> Option<usize> {
    let mut state = shared.state.lock();
    while !state.stopped && state.next < count && state.next - state.taken >= ahead {
        shared.changed.wait(&mut state);
    }
    if state.stopped || state.next >= count {
        return None;
    }
    state.next += 1;
    Some(state.next - 1)
}

/// Waits for the result of `piece`; `None` if the work was stopped.
fn finished<T>(shared: &Shared<T>, piece: usize) -> Option<T> {
    let mut state = shared.state.lock();
    loop {
        if let Some(result) = state.finished.remove(&piece) {
            state.taken += 1;
            drop(state);
            shared.changed.notify_all();
            return Some(result);
        }
        if state.stopped {
            return None;
        }
        shared.changed.wait(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        for threads in [1, 3, 20] {
            let mut taken = Vec::new();
            let work = |n: usize| {
                std::thread::sleep(std::time::Duration::from_micros((n as u64 * 7919) % 50));
                n * 2
            };
            let all = for_each(threads, 100, work, |n, double| {
                taken.push((n, double));
                Ok::<(), ()>(())
            });
            assert_eq!(all, Ok(()));
            assert!(taken.iter().enumerate().all(|(i, pair)| *pair == (i, 2 * i)));
            assert_eq!(taken.len(), 100);
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let result = for_each(4, 1000, |n| n, |n, _| if n == 10 { Err(n) } else { Ok(()) });
        assert_eq!(result, Err(10));
    }

    #[test]
    #[should_panic(expected = "scoped thread panicked")]
    fn a_panic_does_not_hang_the_others() {
        let _ = for_each(4, 1000, |n| assert_ne!(n, 500), |_, ()| Ok::<(), ()>(()));
    }
}
