//! The signal that wakes a thread of the engine.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};

/// A signal that wakes a thread of the engine.
#[derive(Debug, Default)]
pub(crate) struct WorkerSignal {
    /// True while a thread waits for the signal or works.
    has_worker: AtomicBool,
    call: Mutex<Call>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Call {
    #[default]
    Nothing,
    /// There is work to do.
    Work,
    /// The engine is being dropped.
    Stop,
}

impl WorkerSignal {
    /// Wakes the thread. Returns false if there is none.
    pub(crate) fn notify(&self) -> bool {
        let has_worker = self.has_worker.load(Ordering::Acquire);
        if has_worker {
            self.set(Call::Work);
        }
        has_worker
    }

    /// Records that a thread waits for the signal from now on.
    pub(crate) fn attach(&self) {
        self.has_worker.store(true, Ordering::Release);
    }

    /// Records that the thread ends: the signal has no receiver any more.
    pub(crate) fn detach(&self) {
        self.has_worker.store(false, Ordering::Release);
    }

    /// Tells the thread to end.
    pub(crate) fn stop(&self) {
        self.set(Call::Stop);
    }

    fn set(&self, call: Call) {
        let mut now = self.call.lock();
        if *now != Call::Stop {
            *now = call;
            self.changed.notify_one();
        }
    }

    /// Waits for a call. Returns false if the thread must stop.
    pub(crate) fn wait(&self) -> bool {
        let mut call = self.call.lock();
        while *call == Call::Nothing {
            self.changed.wait(&mut call);
        }
        let goes_on = *call == Call::Work;
        if goes_on {
            *call = Call::Nothing;
        }
        goes_on
    }
}
