//! One piece of work on many threads that start together.

use std::io;
use std::sync::Barrier;
use std::thread;

use serde::Serialize;
use xfskit_crc::meter;

use super::usage::{Stopwatch, Usage, peak_memory, reset_peak_memory};

/// The result of one phase of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Name of the phase: "create", "find and stat".
    pub name: String,
    /// Name of the driver.
    pub driver: String,
    /// Description of the storage.
    pub storage: String,
    /// Caches were empty when the phase began.
    pub cold: bool,
    /// Threads.
    pub threads: usize,
    /// Operations, as the phase counts them.
    pub operations: u64,
    /// Time used.
    pub usage: Usage,
    /// Peak memory of this process in bytes; with the engine it includes the cache.
    pub peak_memory: Option<u64>,
}

impl Phase {
    /// Returns operations per second of wall time.
    #[allow(clippy::cast_precision_loss)] // of a rate
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.usage.wall.as_secs_f64()
    }
}

/// The time and memory that some work took, and the output of each thread.
#[derive(Debug)]
pub struct Measured<T> {
    /// Time used.
    pub usage: Usage,
    /// Peak memory of this process in bytes.
    pub peak_memory: Option<u64>,
    /// Checksums of all threads in that time, if [`meter`] is on.
    pub sums: meter::Cost,
    /// Outputs in the order of the thread numbers.
    pub outputs: Vec<T>,
}

/// Runs `work` on `threads` threads and passes each its number; then runs `finish`. The final sync
/// belongs there, because `finish` is inside the measured time. All threads exist before the clock
/// starts.
///
/// # Errors
/// The first error of a thread, or else that of `finish`.
///
/// # Panics
/// If a thread panics.
pub fn parallel<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> io::Result<T> + Sync,
    finish: impl FnOnce() -> io::Result<()>,
) -> io::Result<Measured<T>> {
    reset_peak_memory();
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let (work, start) = (&work, &start);
        let running: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn(move || {
                    start.wait();
                    work(n)
                })
            })
            .collect();
        let watch = Stopwatch::start();
        let before = meter::cost();
        start.wait();
        let outputs: io::Result<Vec<T>> =
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let outputs = outputs?;
        finish()?;
        let sums = meter::cost() - before;
        Ok(Measured { usage: watch?.read()?, peak_memory: peak_memory(), sums, outputs })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_returns_its_output_and_finish_runs_last() {
        let done = std::sync::atomic::AtomicUsize::new(0);
        let add = || done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let measured = parallel(
            3,
            |n| {
                add();
                Ok(n * n)
            },
            || {
                assert_eq!(add(), 3);
                Ok(())
            },
        )
        .expect("no errors");
        assert_eq!(measured.outputs, [0, 1, 4]);
    }

    #[test]
    fn an_error_of_a_thread_is_returned() {
        let result =
            parallel(2, |n| if n == 1 { Err(io::Error::other("no")) } else { Ok(()) }, || Ok(()));
        assert_eq!(result.unwrap_err().to_string(), "no");
    }
}
