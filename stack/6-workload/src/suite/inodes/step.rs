//! The steps of the test, each a job for one side.

use std::io;
use std::sync::atomic::AtomicU64;

use serde::Serialize;

use super::shape::{Plan, Shape, iterations, unsupported};
use crate::Driver;
use crate::driver::Counters;
use crate::kernel::drop_clean;
use crate::measure::Usage;
use crate::measure::phase::{Measured, parallel};
use crate::program::fs_mark::Iteration;
use crate::side::{Job, MEMORY, Side, VerifyResult};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Files are created, and then the volume is synced.
    Create,
    /// The unmounted volume is judged.
    Check,
    /// All inodes by number.
    Bulkstat,
    /// All names, each with its inode.
    Find,
    /// All names.
    List,
    /// Everything is removed, and then the volume is synced.
    Remove,
}

impl Step {
    /// All, in their order.
    pub const ALL: [Self; 6] =
        [Self::Create, Self::Check, Self::Bulkstat, Self::Find, Self::List, Self::Remove];

    /// As the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Check => "check",
            Self::Bulkstat => "bulkstat",
            Self::Find => "find and stat",
            Self::List => "ls -R",
            Self::Remove => "rm -rf",
        }
    }

    /// What is counted as an operation.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Check | Self::Bulkstat => "inodes",
            Self::Create | Self::Find | Self::List | Self::Remove => "names",
        }
    }
}

/// What a step did and took.
#[derive(Debug)]
pub struct Done {
    /// Operations, where they are counted.
    pub operations: Option<u64>,
    /// Time; of another program wall time only.
    pub usage: Usage,
    /// Memory of this process at most, in bytes.
    pub peak_memory: Option<u64>,
    /// It began with empty caches.
    pub cold: bool,
    /// What the filesystem counted.
    pub counters: Option<Counters>,
    /// What fs_mark said, where it did the work.
    pub fs_mark: Vec<Iteration>,
    /// By whom, where that is not the driver.
    pub judge: Option<&'static str>,
}

/// A step as a job; `None` where the side cannot do it.
pub(crate) struct Work<'p> {
    pub(crate) step: Step,
    pub(crate) plan: &'p Plan,
}

impl Job for Work<'_> {
    type Answer = Option<Done>;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Option<Done>> {
        let plan = self.plan;
        if self.step == Step::Create {
            plan.prepare(&*driver)?;
        }
        let cold = match driver.drop_caches() {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => false,
            dropped => dropped.map(|()| true)?,
        };
        let driver = &*driver;
        let before = driver.counters();
        let (measured, fs_mark) = match self.work(driver) {
            Err(err) if unsupported(&err) => return Ok(None),
            done => done?,
        };
        let counters = driver.counters().map(|now| now.since(&before.unwrap_or_default()));
        Ok(Some(Done {
            operations: Some(measured.answers.iter().sum()),
            usage: measured.usage,
            peak_memory: measured.peak_memory,
            cold,
            counters,
            fs_mark,
            judge: None,
        }))
    }
}

impl Work<'_> {
    fn work<D: Driver>(&self, driver: &D) -> io::Result<(Measured<u64>, Vec<Iteration>)> {
        let plan = self.plan;
        let on_all = |work: &(dyn Fn(usize) -> io::Result<u64> + Sync)| {
            parallel(plan.threads, work, || driver.sync())
        };
        let measured = match self.step {
            Step::Create => return self.create(driver),
            Step::Bulkstat => parallel(1, |_| driver.bulkstat(plan.threads), || Ok(())),
            Step::Find => on_all(&|thread| plan.find(driver, thread)),
            Step::List => on_all(&|thread| plan.list(driver, thread)),
            Step::Remove => on_all(&|thread| plan.remove(driver, thread)),
            Step::Check => Err(io::ErrorKind::Unsupported.into()),
        };
        Ok((measured?, Vec::new()))
    }

    fn create<D: Driver>(&self, driver: &D) -> io::Result<(Measured<u64>, Vec<Iteration>)> {
        let plan = self.plan;
        match plan.shape {
            Shape::Separate | Shape::Shared => {
                let work = |_| iterations(&mut plan.fs_mark(driver)?);
                let Measured { usage, peak_memory, answers } = parallel(1, work, || driver.sync())?;
                let all: Vec<Iteration> = answers.into_iter().flatten().collect();
                let answers = all.iter().map(|iteration| iteration.files).collect();
                Ok((Measured { usage, peak_memory, answers }, all))
            }
            Shape::Deep => {
                let work = |thread| plan.deep(driver, thread);
                Ok((parallel(plan.threads, work, || driver.sync())?, Vec::new()))
            }
            Shape::Racing => {
                let threads = plan.threads.next_multiple_of(2);
                let created: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
                let work = |thread| plan.racing(driver, thread, &created);
                Ok((parallel(threads, work, || driver.sync())?, Vec::new()))
            }
        }
    }
}

/// Does `step` on `side`; `None` where that side cannot.
pub(crate) fn on(side: &mut Side, step: Step, plan: &Plan) -> io::Result<Option<Done>> {
    if step != Step::Check {
        return side.run(&mut Work { step, plan });
    }
    side.unmount()?;
    let cold = side.on() == MEMORY || drop_clean().is_ok();
    let verdict = match side.judge(plan.threads) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        verdict => verdict?,
    };
    let VerifyResult { judge, clean, inodes, usage, peak_memory } = verdict;
    if !clean {
        return Err(io::Error::other(format!(
            "{judge} finds the volume of {} damaged",
            side.name()
        )));
    }
    let (fs_mark, counters) = (Vec::new(), None);
    let judge = Some(judge);
    Ok(Some(Done { operations: inodes, usage, peak_memory, cold, counters, fs_mark, judge }))
}
