//! What carries the requests of a mount by xfskit: the device, or io_uring where the kernel has it.
//!
//! The kernel offers io_uring for FUSE while a parameter of its module is set, which root may do.
//! Tests set it for their time. Several processes may do so at once: each holds a lock on a file,
//! and the last one restores what the parameter was.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::skip;

/// The parameter of the kernel.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// What carries the requests of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `/dev/fuse`.
    Device,
    /// io_uring.
    IoUring,
}

impl Transport {
    /// Returns those that this machine has. Without io_uring, the test counts as skipped in part.
    pub fn all() -> Vec<Self> {
        match Offered::new() {
            Ok(_) => vec![Self::Device, Self::IoUring],
            Err(error) => {
                skip::skip(&format!("io_uring for FUSE (root, {PARAMETER}: {error})"));
                vec![Self::Device]
            }
        }
    }

    /// Returns the name that `xfskit stats` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::IoUring => "io_uring",
        }
    }

    /// Returns the option that asks for it, as for `-o`.
    pub fn option(self) -> &'static str {
        match self {
            Self::Device => "no_io_uring",
            Self::IoUring => "io_uring",
        }
    }

    /// Has the kernel offer it as long as the result is held, which is `None` for the device.
    ///
    /// # Panics
    /// The kernel refuses: [`all`](Self::all) says so before.
    pub fn offer(self) -> Option<Offered> {
        (self == Self::IoUring).then(|| Offered::new().expect("io_uring for FUSE"))
    }
}

/// The kernel offers io_uring for FUSE while this is held.
#[derive(Debug)]
pub struct Offered {
    /// Empty, or what the parameter is restored to. Its lock is shared by those who hold one.
    before: File,
}

impl Offered {
    fn new() -> io::Result<Self> {
        let before = File::options().create(true).append(true).read(true).open(path())?;
        flock(&before, FlockOperation::LockShared)?;
        if fs::read_to_string(PARAMETER)?.trim() != "Y" {
            fs::write(PARAMETER, "Y")?;
            fs::write(path(), "N")?;
        }
        Ok(Self { before })
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        // Refused while another process, or another test of this one, holds its own.
        if flock(&self.before, FlockOperation::NonBlockingLockExclusive).is_ok()
            && fs::read_to_string(path()).is_ok_and(|before| before == "N")
        {
            let _ = fs::write(PARAMETER, "N");
            let _ = self.before.set_len(0);
        }
    }
}

/// The kernel does not offer io_uring for FUSE while this is held.
#[derive(Debug)]
pub struct Withheld {
    /// Its lock is exclusive: while this is held, tests that need io_uring wait.
    _lock: File,
    /// What the parameter was.
    before: String,
}

impl Withheld {
    /// Waits until no test needs io_uring. Returns `None` if the machine has none; the test counts
    /// as skipped then.
    pub fn new() -> Option<Self> {
        let withhold = || -> io::Result<Self> {
            let lock = File::options().create(true).append(true).read(true).open(path())?;
            flock(&lock, FlockOperation::LockExclusive)?;
            let before = fs::read_to_string(PARAMETER)?;
            fs::write(PARAMETER, "N")?;
            Ok(Self { _lock: lock, before })
        };
        withhold().inspect_err(|error| skip::skip(&format!("{PARAMETER} ({error})"))).ok()
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        let _ = fs::write(PARAMETER, self.before.trim());
    }
}

/// Returns the file that all tests of the machine share.
fn path() -> PathBuf {
    Path::new("/run/lock/xfskit-test-io-uring").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_is_restored_by_the_last_who_needs_it_even_in_a_panic() {
        if Transport::all().len() == 1 {
            return;
        }
        let is_set = || fs::read_to_string(PARAMETER).unwrap().trim() == "Y";
        let first = Transport::IoUring.offer();
        let panicked = std::thread::spawn(|| {
            let _second = Transport::IoUring.offer();
            panic!("in the midst of a test");
        });
        assert!(panicked.join().is_err() && is_set());
        assert!(Transport::Device.offer().is_none());
        drop(first);
    }
}
