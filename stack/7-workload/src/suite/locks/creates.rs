//! The workload: every thread creates empty files in a directory of its own, for a fixed time.
//!
//! The time is fixed instead of the number of files. If a lock passes to threads without a
//! processor, a fixed number might take forever.

use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::Driver;
use crate::driver::Counters;
use crate::measure::Usage;
use crate::measure::phase::{Measured, parallel};
use crate::measure::usage::thread_time;
use crate::random::Random;
use crate::testbed::Job;

/// Creates files on several threads.
pub(super) struct Creates {
    pub(super) threads: usize,
    pub(super) time: Duration,
    pub(super) seed: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct CreateOutcome {
    pub(super) files: u64,
    pub(super) usage: Usage,
    /// Processor time of the creating threads, without the engine's own threads.
    pub(super) own: Duration,
    pub(super) counters: Option<Counters>,
}

impl CreateOutcome {
    #[allow(clippy::cast_precision_loss)] // of a rate
    pub(super) fn rate(&self) -> f64 {
        self.files as f64 / self.usage.wall.as_secs_f64()
    }

    /// Returns files per second of processor time, which other programs do not affect.
    #[allow(clippy::cast_precision_loss)] // of a rate
    pub(super) fn per_processor(&self) -> f64 {
        self.files as f64 / self.usage.processor.as_secs_f64()
    }
}

fn dir_name(thread: usize) -> Vec<u8> {
    format!("{thread}").into_bytes()
}

/// Returns a name of 40 bytes, as fs_mark uses them.
fn file_name(random: &mut Random, n: u64) -> Vec<u8> {
    format!("{n:016x}~{:016x}{:07x}", random.next_u64(), random.next_u64() >> 36).into_bytes()
}

impl Creates {
    /// Returns the number of files, and the processor time they took.
    fn thread<D: Driver>(
        &self,
        driver: &D,
        thread: usize,
        end: Instant,
    ) -> io::Result<(u64, Duration)> {
        let before = thread_time();
        let dir = driver.open_dir(&driver.root()?, &dir_name(thread))?;
        let mut random = Random::stream(self.seed, thread as u64);
        let mut files = 0;
        while Instant::now() < end {
            driver.create_empty(&dir, &file_name(&mut random, files))?;
            files += 1;
        }
        Ok((files, thread_time().saturating_sub(before)))
    }
}

impl Job for Creates {
    type Output = CreateOutcome;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<CreateOutcome> {
        let root = driver.root()?;
        (0..self.threads).try_for_each(|thread| driver.make_dir(&root, &dir_name(thread)))?;
        drop(root);
        driver.sync()?;
        let driver = &*driver;
        let before = driver.counters();
        let end = OnceLock::new();
        let work = |thread| {
            let end = end.get_or_init(|| Instant::now() + self.time);
            self.thread(driver, thread, *end)
        };
        let Measured { usage, outputs, .. } = parallel(self.threads, work, || Ok(()))?;
        let counters = driver.counters().map(|now| now.since(&before.unwrap_or_default()));
        let files = outputs.iter().map(|(files, _)| files).sum();
        let own = outputs.iter().map(|(_, own)| *own).sum();
        Ok(CreateOutcome { files, usage, own, counters })
    }
}
