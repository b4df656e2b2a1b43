//! The workload: every thread creates empty files in a directory of its own, for so long.
//!
//! For a time, not a number: where a lock goes to threads that have no processor, a number takes forever.

use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::Driver;
use crate::driver::Counters;
use crate::measure::Usage;
use crate::measure::phase::{Measured, parallel};
use crate::measure::usage::thread_time;
use crate::random::Random;
use crate::side::Job;

/// Files by so many threads.
pub(super) struct Creates {
    pub(super) threads: usize,
    pub(super) time: Duration,
    pub(super) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    pub(super) files: u64,
    pub(super) usage: Usage,
    /// Processor time of the threads that create; the engine's own are not in it.
    pub(super) own: Duration,
    pub(super) counters: Option<Counters>,
}

impl Done {
    #[allow(clippy::cast_precision_loss)] // of a rate
    pub(super) fn rate(&self) -> f64 {
        self.files as f64 / self.usage.wall.as_secs_f64()
    }

    /// Files for each second of processor time: what else the machine does is not in it.
    #[allow(clippy::cast_precision_loss)] // of a rate
    pub(super) fn per_processor(&self) -> f64 {
        self.files as f64 / self.usage.processor.as_secs_f64()
    }

    /// The share of so many processors that other programs had meanwhile.
    #[allow(clippy::cast_precision_loss)] // of a few processors
    pub(super) fn others(&self, processors: usize) -> f64 {
        let Usage { wall, machine, processor, .. } = self.usage;
        machine.saturating_sub(processor).as_secs_f64() / wall.as_secs_f64() / processors as f64
    }
}

fn dir_name(thread: usize) -> Vec<u8> {
    format!("{thread}").into_bytes()
}

/// 40 bytes, as fs_mark has them.
fn file_name(random: &mut Random, n: u64) -> Vec<u8> {
    format!("{n:016x}~{:016x}{:07x}", random.number(), random.number() >> 36).into_bytes()
}

impl Creates {
    /// Files, and the processor time that they took.
    fn thread<D: Driver>(
        &self,
        driver: &D,
        thread: usize,
        end: Instant,
    ) -> io::Result<(u64, Duration)> {
        let before = thread_time();
        let dir = driver.open_dir(&driver.root()?, &dir_name(thread))?;
        let mut random = Random::of(self.seed, thread as u64);
        let mut files = 0;
        while Instant::now() < end {
            driver.create_empty(&dir, &file_name(&mut random, files))?;
            files += 1;
        }
        Ok((files, thread_time().saturating_sub(before)))
    }
}

impl Job for Creates {
    type Answer = Done;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Done> {
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
        let Measured { usage, answers, .. } = parallel(self.threads, work, || Ok(()))?;
        let counters = driver.counters().map(|now| now.since(&before.unwrap_or_default()));
        let files = answers.iter().map(|(files, _)| files).sum();
        let own = answers.iter().map(|(_, own)| *own).sum();
        Ok(Done { files, usage, own, counters })
    }
}
