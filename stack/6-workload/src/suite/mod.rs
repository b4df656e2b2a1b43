//! Whole studies: each prepares volumes, does its workload on every side, and answers with sections of a
//! report.
//!
//! | module | study |
//! | --- | --- |
//! | [`checksum`] | A: what checksums of metadata cost |
//! | [`inodes`] | B: files by many threads: created, found, removed |
//! | [`locks`] | B: the same creates with every kind of lock, and a model for more processors |
//! | [`raid`] | C: sequential readers of arrays that lack members |
//! | [`xattrs`] | D: extended attributes and links in millions on one inode |
//! | [`crc_update`] | E: checksums brought up to date in one pass |

pub mod checksum;
pub mod crc_update;
pub mod inodes;
pub mod locks;
pub mod raid;
pub mod xattrs;

use std::io;

use serde_json::Value;

use crate::side::{Bed, Side, Who};

/// What every suite takes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where volumes are made.
    pub bed: Bed,
    /// The kernel's XFS is measured as well.
    pub against_kernel: bool,
    /// Threads at once.
    pub threads: usize,
    /// The same seed makes the same names, values and choices.
    pub seed: u64,
    /// Turns of what is timed.
    pub repetitions: usize,
}

/// Who is told while a suite runs.
pub trait Audience {
    /// What is done now. Fails where the suite shall stop.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`].
    fn note(&mut self, text: &str) -> io::Result<()>;

    /// A result, as soon as there is one.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn result(&mut self, result: Value) -> io::Result<()>;
}

impl Settings {
    /// Everybody who is measured: the engine first.
    ///
    /// # Errors
    /// The second answer says in words why the kernel is not among them, though it should.
    pub fn sides(&self) -> (Vec<Who>, Option<String>) {
        if !self.against_kernel {
            return (vec![Who::Engine], None);
        }
        match self.bed.side(Who::Kernel).and_then(|mut side| side.unmount()) {
            Ok(()) => (vec![Who::Engine, Who::Kernel], None),
            Err(err) => (vec![Who::Engine], Some(format!("The kernel was not measured: {err}"))),
        }
    }

    /// A new volume for `who`.
    ///
    /// # Errors
    /// As [`Bed::side`].
    pub fn side(&self, who: Who) -> io::Result<Side> {
        self.bed.side(who)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! What tests of suites share.

    use super::*;
    use xfskit_core::OpenOptions;
    use xfskit_units::ByteLen;

    /// Keeps what it is told.
    #[derive(Debug, Default)]
    pub(crate) struct Heard(pub(crate) Vec<Value>);

    impl Audience for Heard {
        fn note(&mut self, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn result(&mut self, result: Value) -> io::Result<()> {
            self.0.push(result);
            Ok(())
        }
    }

    /// The engine alone, on a sparse gigabyte of memory.
    pub(crate) fn settings() -> Settings {
        let bed = Bed {
            dir: None,
            size: ByteLen(1 << 30),
            mkfs: xfskit_mkfs::Options::default(),
            open: OpenOptions::default(),
        };
        Settings { bed, against_kernel: false, threads: 2, seed: 7, repetitions: 1 }
    }
}
