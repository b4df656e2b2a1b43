//! The steps of the test as jobs.

use std::io;
use std::sync::atomic::AtomicU64;

use serde::Serialize;
use xfskit_crc::meter;

use super::shape::{Plan, Shape, is_unsupported, iterations};
use crate::Driver;
use crate::driver::Counters;
use crate::driver::engine::MEMORY;
use crate::kernel::drop_clean;
use crate::measure::Usage;
use crate::measure::phase::{Measured, parallel};
use crate::program::fs_mark::Iteration;
use crate::testbed::{CheckResult, Job, TestVolume};

/// A step of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Creates files, and then syncs the volume.
    Create,
    /// Repairs the unmounted volume, which is not damaged.
    Repair,
    /// Checks the unmounted volume.
    Check,
    /// Lists all inodes by number.
    Bulkstat,
    /// Walks all names, with stat on each.
    Find,
    /// Walks all names.
    List,
    /// Removes everything, and then syncs the volume.
    Remove,
}

impl Step {
    /// All steps in order.
    pub const ALL: [Self; 7] = [
        Self::Create,
        Self::Repair,
        Self::Check,
        Self::Bulkstat,
        Self::Find,
        Self::List,
        Self::Remove,
    ];

    /// Returns the name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Repair => "repair",
            Self::Check => "check",
            Self::Bulkstat => "bulkstat",
            Self::Find => "find and stat",
            Self::List => "ls -R",
            Self::Remove => "rm -rf",
        }
    }

    /// Returns the unit in which operations are counted.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Repair | Self::Check | Self::Bulkstat => "inodes",
            Self::Create | Self::Find | Self::List | Self::Remove => "names",
        }
    }
}

/// The outcome of a step.
#[derive(Debug)]
pub struct StepOutcome {
    /// Number of operations, if they are counted.
    pub operations: Option<u64>,
    /// Time used; wall time only if another program did the work.
    pub usage: Usage,
    /// Peak memory in bytes: of this process, or of the other program that did the work.
    pub peak_memory: Option<u64>,
    /// Checksums in that time, if they are metered.
    pub sums: meter::Cost,
    /// Caches were empty when the step began.
    pub cold: bool,
    /// Counters of the filesystem.
    pub counters: Option<Counters>,
    /// Iterations of fs_mark, if it did the work.
    pub fs_mark: Vec<Iteration>,
    /// The program that checked or repaired the volume, in these steps.
    pub checker: Option<&'static str>,
}

/// A step as a job; returns `None` if the driver does not support the step.
pub(crate) struct Work<'p> {
    pub(crate) step: Step,
    pub(crate) plan: &'p Plan,
}

impl Job for Work<'_> {
    type Output = Option<StepOutcome>;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Option<StepOutcome>> {
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
            Err(err) if is_unsupported(&err) => return Ok(None),
            done => done?,
        };
        let counters = driver.counters().map(|now| now.since(&before.unwrap_or_default()));
        Ok(Some(StepOutcome {
            operations: Some(measured.outputs.iter().sum()),
            usage: measured.usage,
            peak_memory: measured.peak_memory,
            sums: measured.sums,
            cold,
            counters,
            fs_mark,
            checker: None,
        }))
    }
}

impl Work<'_> {
    fn work<D: Driver>(&self, driver: &D) -> io::Result<(Measured<u64>, Vec<Iteration>)> {
        let plan = self.plan;
        let on_all_threads = |work: &(dyn Fn(usize) -> io::Result<u64> + Sync)| {
            parallel(plan.threads, work, || driver.sync())
        };
        let measured = match self.step {
            Step::Create => return self.create(driver),
            Step::Bulkstat => parallel(1, |_| driver.bulkstat(plan.threads), || Ok(())),
            Step::Find => on_all_threads(&|thread| plan.find(driver, thread)),
            Step::List => on_all_threads(&|thread| plan.list(driver, thread)),
            Step::Remove => on_all_threads(&|thread| plan.remove(driver, thread)),
            Step::Repair | Step::Check => Err(io::ErrorKind::Unsupported.into()),
        };
        Ok((measured?, Vec::new()))
    }

    fn create<D: Driver>(&self, driver: &D) -> io::Result<(Measured<u64>, Vec<Iteration>)> {
        let plan = self.plan;
        match plan.shape {
            Shape::Separate | Shape::Shared => {
                let work = |_| iterations(&mut plan.fs_mark(driver)?);
                let Measured { usage, peak_memory, sums, outputs } =
                    parallel(1, work, || driver.sync())?;
                let all: Vec<Iteration> = outputs.into_iter().flatten().collect();
                let outputs = all.iter().map(|iteration| iteration.files).collect();
                Ok((Measured { usage, peak_memory, sums, outputs }, all))
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

/// Runs `step` on `volume`; returns `None` if its implementation does not support the step.
pub(crate) fn run(
    volume: &mut TestVolume,
    step: Step,
    plan: &Plan,
) -> io::Result<Option<StepOutcome>> {
    if !matches!(step, Step::Repair | Step::Check) {
        return volume.run(&mut Work { step, plan });
    }
    volume.unmount()?;
    let cold = volume.storage() == MEMORY || drop_clean().is_ok();
    let result = match step {
        Step::Repair => volume.repair(plan.threads),
        _ => volume.check(plan.threads),
    };
    let result = match result {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    let CheckResult { checker, clean, inodes, usage, peak_memory } = result;
    if !clean {
        return Err(io::Error::other(format!(
            "{checker} found corruption on the volume of {}",
            volume.name()
        )));
    }
    let (fs_mark, counters) = (Vec::new(), None);
    let (checker, sums) = (Some(checker), meter::Cost::default());
    Ok(Some(StepOutcome {
        operations: inodes,
        usage,
        peak_memory,
        sums,
        cold,
        counters,
        fs_mark,
        checker,
    }))
}
