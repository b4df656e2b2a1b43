//! Whole studies. Each prepares volumes, runs its workload on every implementation, and hands over
//! the sections of a report, each when it is finished.
//!
//! | module | study |
//! | --- | --- |
//! | [`checksum`] | A: the cost of metadata checksums |
//! | [`inodes`] | B: files by many threads: created, found, removed |
//! | [`locks`] | B: the same creates with every kind of lock, and a model for more processors |
//! | [`raid`] | C: sequential readers of degraded arrays |
//! | [`xattrs`] | D: millions of extended attributes and links on one inode |
//! | [`crc_update`] | E: checksum updates in one pass |
//!
//! `parts` has what they share: the parts of a study, and what becomes of them; [`estimate`] says
//! how long they take.

pub mod checksum;
pub mod crc_update;
pub mod estimate;
pub mod inodes;
pub mod locks;
mod parts;
pub mod raid;
pub mod xattrs;

use std::io;

use serde_json::Value;
use xfskit_units::ByteLen;

pub(crate) use self::parts::Parts;
pub use self::parts::{PartPlan, Wanted};
use crate::image;
use crate::report::Section;
use crate::testbed::{Implementation, TestVolume, Testbed};

/// The parameters that all suites share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where volumes are made, and with which options.
    pub testbed: Testbed,
    /// Implementations that are measured beside the engine, in turn with it.
    pub baselines: Vec<Implementation>,
    /// Number of threads.
    pub threads: usize,
    /// The same seed gives the same names, values and choices.
    pub seed: u64,
    /// Turns of each measurement.
    pub repetitions: usize,
}

/// Receives the progress, the results and the sections while a suite runs.
pub trait Observer {
    /// Returns whether a part of a study shall be measured.
    fn wants(&self, _part: &str) -> Wanted {
        Wanted::Yes
    }

    /// Announces a study and the parts that it will measure.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] if the suite shall stop.
    fn plan(&mut self, _study: &str, _parts: Vec<PartPlan>) -> io::Result<()> {
        Ok(())
    }

    /// Reports that a part begins. Further steps are its own.
    fn begin(&mut self, _part: &str) {}

    /// Reports the next step. An error stops the suite.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] if the suite shall stop.
    fn progress(&mut self, text: &str) -> io::Result<()>;

    /// Receives a result as soon as it is available.
    ///
    /// # Errors
    /// If the result cannot be written.
    fn result(&mut self, result: Value) -> io::Result<()>;

    /// Receives the section of a part as soon as it is finished. It replaces an earlier one of the
    /// same part.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] if the suite shall stop.
    fn section(&mut self, section: Section) -> io::Result<()>;
}

impl Settings {
    /// Returns the implementations to measure, the engine first.
    ///
    /// If others should be measured but cannot be, the second value explains why.
    pub fn implementations(&self) -> (Vec<Implementation>, Option<String>) {
        let (mut measured, mut missing) = (vec![Implementation::Engine], Vec::new());
        for &baseline in &self.baselines {
            match self.testbed.volume(baseline).and_then(|mut volume| volume.unmount()) {
                Ok(()) => measured.push(baseline),
                Err(err) => missing.push(format!("{} was not measured: {err}", baseline.name())),
            }
        }
        (measured, (!missing.is_empty()).then(|| missing.join("; ")))
    }

    /// Returns the same without our own mount, for studies of what is below it.
    pub(crate) fn implementations_below(&self) -> (Vec<Implementation>, Option<String>) {
        let baselines = self.baselines.iter().copied();
        let baselines = baselines.filter(|baseline| *baseline != Implementation::Mount).collect();
        Self { baselines, ..self.clone() }.implementations()
    }

    /// Returns true if `baseline` is to be measured.
    pub(crate) fn wants(&self, baseline: Implementation) -> bool {
        self.baselines.contains(&baseline)
    }

    /// Fails unless the directory of the disks, if there is one, has `bytes` free: as much as
    /// `what` takes at least.
    ///
    /// # Errors
    /// If there is less space, which the error names.
    pub(crate) fn verify_space(&self, bytes: u64, what: &str) -> io::Result<()> {
        match &self.testbed.dir {
            Some(dir) => image::verify_space(dir, ByteLen(bytes), what),
            None => Ok(()),
        }
    }

    /// Makes a new volume for `implementation`.
    ///
    /// # Errors
    /// As [`Testbed::volume`].
    pub fn volume(&self, implementation: Implementation) -> io::Result<TestVolume> {
        self.testbed.volume(implementation)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Helpers for the tests of suites.

    use std::sync::Arc;

    use super::*;
    use crate::repairer::{BlockDevice, Repaired, Repairer};
    use xfskit_core::OpenOptions;

    /// Collects the results and the sections.
    #[derive(Debug, Default)]
    pub(crate) struct Heard(pub(crate) Vec<Value>, pub(crate) Vec<Section>, Vec<Steps>);

    /// The steps of a part: announced, and reported.
    #[derive(Debug)]
    struct Steps {
        part: String,
        announced: usize,
        reported: usize,
        current: bool,
    }

    impl Heard {
        /// Verifies that each part had the steps that were announced.
        pub(crate) fn assert_steps(&self) {
            assert!(!self.2.is_empty());
            for steps in &self.2 {
                assert_eq!(steps.announced, steps.reported, "{}", steps.part);
            }
        }
    }

    impl Observer for Heard {
        fn plan(&mut self, _: &str, parts: Vec<PartPlan>) -> io::Result<()> {
            self.2 = parts
                .into_iter()
                .map(|PartPlan { part, steps, .. }| Steps {
                    part,
                    announced: steps.len(),
                    reported: 0,
                    current: false,
                })
                .collect();
            Ok(())
        }

        fn begin(&mut self, part: &str) {
            self.2.iter_mut().for_each(|steps| steps.current = steps.part == part);
        }

        fn progress(&mut self, _: &str) -> io::Result<()> {
            self.2.iter_mut().filter(|steps| steps.current).for_each(|steps| steps.reported += 1);
            Ok(())
        }

        fn section(&mut self, section: Section) -> io::Result<()> {
            self.1.push(section);
            Ok(())
        }

        fn result(&mut self, result: Value) -> io::Result<()> {
            self.0.push(result);
            Ok(())
        }
    }

    /// Checks, in place of the repair, which is above: an undamaged volume is repaired without a
    /// write.
    #[derive(Debug)]
    struct Checker;

    impl Repairer for Checker {
        fn repair(&self, device: Arc<dyn BlockDevice>, threads: usize) -> io::Result<Repaired> {
            let options = xfskit_check::Options { threads, ..Default::default() };
            let report = xfskit_check::check(&*device, None, &options, &mut |_| ());
            let report = report.map_err(io::Error::other)?;
            Ok(Repaired { inodes: report.inodes, written: report.errors + report.fatals })
        }
    }

    /// Settings for the engine alone, on a sparse disk of 1 GiB in memory.
    pub(crate) fn settings() -> Settings {
        let testbed = Testbed {
            dir: None,
            size: ByteLen(1 << 30),
            mkfs: xfskit_mkfs::Options::default(),
            open: OpenOptions::default(),
            mounter: None,
            repairer: Some(Arc::new(Checker)),
        };
        Settings { testbed, baselines: Vec::new(), threads: 2, seed: 7, repetitions: 1 }
    }
}
