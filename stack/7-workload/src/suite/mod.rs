//! Whole studies. Each prepares volumes, runs its workload on every implementation, and returns the
//! sections of a report.
//!
//! | module | study |
//! | --- | --- |
//! | [`checksum`] | A: the cost of metadata checksums |
//! | [`inodes`] | B: files by many threads: created, found, removed |
//! | [`locks`] | B: the same creates with every kind of lock, and a model for more processors |
//! | [`raid`] | C: sequential readers of degraded arrays |
//! | [`xattrs`] | D: millions of extended attributes and links on one inode |
//! | [`crc_update`] | E: checksum updates in one pass |

pub mod checksum;
pub mod crc_update;
pub mod inodes;
pub mod locks;
pub mod raid;
pub mod xattrs;

use std::io;

use serde_json::Value;

use crate::testbed::{Implementation, TestVolume, Testbed};

/// The parameters that all suites share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where volumes are made, and with which options.
    pub testbed: Testbed,
    /// The kernel's XFS is measured as well.
    pub kernel_baseline: bool,
    /// Number of threads.
    pub threads: usize,
    /// The same seed gives the same names, values and choices.
    pub seed: u64,
    /// Turns of each measurement.
    pub repetitions: usize,
}

/// Receives the progress and the results while a suite runs.
pub trait Observer {
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
}

impl Settings {
    /// Returns the implementations to measure, the engine first.
    ///
    /// If the kernel should be measured but cannot be, the second value explains why.
    pub fn implementations(&self) -> (Vec<Implementation>, Option<String>) {
        if !self.kernel_baseline {
            return (vec![Implementation::Engine], None);
        }
        match self.testbed.volume(Implementation::Kernel).and_then(|mut volume| volume.unmount()) {
            Ok(()) => (vec![Implementation::Engine, Implementation::Kernel], None),
            Err(err) => {
                (vec![Implementation::Engine], Some(format!("The kernel was not measured: {err}")))
            }
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

    use super::*;
    use xfskit_core::OpenOptions;
    use xfskit_units::ByteLen;

    /// Collects the results.
    #[derive(Debug, Default)]
    pub(crate) struct Heard(pub(crate) Vec<Value>);

    impl Observer for Heard {
        fn progress(&mut self, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn result(&mut self, result: Value) -> io::Result<()> {
            self.0.push(result);
            Ok(())
        }
    }

    /// Settings for the engine alone, on a sparse disk of 1 GiB in memory.
    pub(crate) fn settings() -> Settings {
        let testbed = Testbed {
            dir: None,
            size: ByteLen(1 << 30),
            mkfs: xfskit_mkfs::Options::default(),
            open: OpenOptions::default(),
        };
        Settings { testbed, kernel_baseline: false, threads: 2, seed: 7, repetitions: 1 }
    }
}
