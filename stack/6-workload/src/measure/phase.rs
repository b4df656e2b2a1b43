//! One piece of work on many threads, started together.

use std::io;
use std::sync::Barrier;
use std::thread;

use serde::Serialize;

use super::usage::{Usage, Watch, peak_memory, reset_peak_memory};

/// What one phase of a workload did and took.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// What it is: "create", "find and stat".
    pub name: String,
    /// Who did it.
    pub driver: String,
    /// On what.
    pub on: String,
    /// Caches were empty when it began.
    pub cold: bool,
    /// Threads.
    pub threads: usize,
    /// Operations, as the phase counts them.
    pub operations: u64,
    /// Time.
    pub usage: Usage,
    /// Memory of this process at most, in bytes; with the engine that is where its cache is.
    pub peak_memory: Option<u64>,
}

impl Phase {
    /// Operations in a second of wall time.
    #[allow(clippy::cast_precision_loss)] // of a rate
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.usage.wall.as_secs_f64()
    }
}

/// What was measured of some work, and what each thread answered.
#[derive(Debug)]
pub struct Measured<T> {
    /// Time.
    pub usage: Usage,
    /// Memory of this process at most, in bytes.
    pub peak_memory: Option<u64>,
    /// Of thread 0, 1, ….
    pub answers: Vec<T>,
}

/// Runs `work` on `threads` threads, which it tells their numbers, and then `finish`, inside the time
/// measured: the final sync belongs there. All threads exist before the clock starts.
///
/// # Errors
/// The first of the threads', then that of `finish`.
///
/// # Panics
/// Where a thread does.
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
        let watch = Watch::start();
        start.wait();
        let answers: io::Result<Vec<T>> =
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let answers = answers?;
        finish()?;
        Ok(Measured { usage: watch?.read()?, peak_memory: peak_memory(), answers })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_answers_and_the_end_comes_last() {
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
        assert_eq!(measured.answers, [0, 1, 4]);
    }

    #[test]
    fn an_error_of_a_thread_is_the_answer() {
        let answer =
            parallel(2, |n| if n == 1 { Err(io::Error::other("no")) } else { Ok(()) }, || Ok(()));
        assert_eq!(answer.unwrap_err().to_string(), "no");
    }
}
