//! The end of a mount, which threads wait for.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// True when the mount is gone.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Ended {
    pub(crate) fn set(&self) {
        *self.ended.lock() = true;
        self.changed.notify_all();
    }

    /// Waits for the end, at most for `time`. Returns true if it came.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let until = Instant::now().checked_add(time);
        let mut ended = self.ended.lock();
        while !*ended {
            let Some(until) = until else {
                self.changed.wait(&mut ended);
                continue;
            };
            if self.changed.wait_until(&mut ended, until).timed_out() {
                break;
            }
        }
        *ended
    }
}
