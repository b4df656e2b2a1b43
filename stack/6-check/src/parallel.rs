//! Pieces of work on several threads.

use rayon::ThreadPoolBuilder;
use rayon::iter::{ParallelBridge, ParallelIterator};

/// Number of reader threads for each requested thread: most of them wait for the device.
pub const READERS: usize = 3;

/// Runs `work` for every number below `count`, on up to `threads` threads. Each thread makes its
/// own state with `state`, and takes the next number whenever it is free, so that the device is
/// read in order. Returns all states.
///
/// # Panics
/// If the system gives no thread.
pub fn for_each<S: Send>(
    threads: usize,
    count: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
) -> Vec<S> {
    let fold = |mut own, piece| {
        work(&mut own, piece);
        own
    };
    let pool = ThreadPoolBuilder::new().num_threads(threads.min(count).max(1)).build();
    let pool = pool.expect("threads for a check");
    pool.install(|| (0..count).par_bridge().fold(&state, fold).collect())
}
