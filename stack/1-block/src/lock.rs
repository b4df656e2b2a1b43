//! The lock of a file or device that is open for writing.
//!
//! It is exclusive (`flock`): of two programs that lock one device for writing the second is
//! refused. A shared lock is waited for: udev holds one for a moment while it looks what is on a
//! block device, at boot and each time that a writer has closed it.

use std::fs::File;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::device::Holder;

/// Time for which shared locks are waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// The reason why a lock was not taken.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// Another program holds one.
    Held(Holder),
    /// The system cannot lock the file.
    Failed(io::Error),
}

/// Locks `file` exclusively. Shared locks of other programs are waited for, `patience` at most.
pub(crate) fn exclusive(file: &File, patience: Duration) -> Result<(), NotLocked> {
    let start = Instant::now();
    while !attempt(file, FlockOperation::NonBlockingLockExclusive)? {
        if !attempt(file, FlockOperation::NonBlockingLockShared)? {
            return Err(NotLocked::Held(Holder::Writer));
        }
        unlock(file);
        if start.elapsed() >= patience {
            return Err(NotLocked::Held(Holder::SharedLock));
        }
        sleep(PAUSE);
    }
    Ok(())
}

/// Returns false if another program holds a lock that excludes this one.
fn attempt(file: &File, lock: FlockOperation) -> Result<bool, NotLocked> {
    match flock(file, lock) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(NotLocked::Failed(error.into())),
    }
}

/// Unlocks `file`. Closing alone would not unlock it while a process that another thread has forked
/// meanwhile still has the file open: it keeps the lock until it runs another program.
pub(crate) fn unlock(file: &File) {
    let _closing_does_it_too = flock(file, FlockOperation::Unlock);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened_twice() -> (tempfile::NamedTempFile, File) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = file.reopen().unwrap();
        (file, other)
    }

    #[test]
    fn a_shared_lock_is_waited_for_and_then_named() {
        let (file, other) = opened_twice();
        flock(&other, FlockOperation::LockShared).unwrap();
        let given_up = exclusive(file.as_file(), PAUSE);
        assert!(matches!(given_up, Err(NotLocked::Held(Holder::SharedLock))), "{given_up:?}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| exclusive(file.as_file(), Duration::from_secs(60)));
            sleep(4 * PAUSE);
            assert!(!waits.is_finished());
            unlock(&other);
            waits.join().unwrap().unwrap();
        });
    }

    #[test]
    fn an_exclusive_lock_is_not_waited_for() {
        let (file, other) = opened_twice();
        exclusive(&other, Duration::ZERO).unwrap();
        let refused = exclusive(file.as_file(), Duration::from_secs(60));
        assert!(matches!(refused, Err(NotLocked::Held(Holder::Writer))), "{refused:?}");
    }
}
