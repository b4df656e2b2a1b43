//! An engine with threads of its own: one writes checkpoints, one pushes the AIL, while
//! transactions run.

use std::ops::Deref;
use std::sync::Arc;

use crate::engine::Engine;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex};
use crate::trans::TransError;

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

    fn set(&self, call: Call) {
        let mut now = self.call.lock();
        if *now != Call::Stop {
            *now = call;
            self.changed.notify_one();
        }
    }

    /// Waits for a call. Returns false if the thread must stop.
    fn wait(&self) -> bool {
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

/// An [`Engine`] with its threads running. Dropping it waits for writes in progress and starts no
/// further ones.
///
/// Engines of small journals have no threads: one transaction runs at a time there.
#[derive(Debug)]
pub struct Running {
    engine: Arc<Engine>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Starts the threads. If the system gives none, a caller that finds the CIL or the journal
    /// full does their work.
    pub fn new(engine: Engine) -> Self {
        let engine = Arc::new(engine);
        let mut threads = Vec::new();
        if engine.is_concurrent() {
            let signals: [fn(&Engine) -> &WorkerSignal; 2] =
                [Engine::signal, |engine| engine.write_back.signal()];
            threads.extend(start("xfskit-journal", &engine, signals[0], Engine::checkpoint_if_due));
            threads.extend(start(
                "xfskit-writes",
                &engine,
                signals[1],
                Engine::write_back_requested,
            ));
        }
        Self { engine, threads }
    }
}

/// Starts a thread that calls `work` each time it is signalled.
fn start(
    name: &str,
    engine: &Arc<Engine>,
    signal: fn(&Engine) -> &WorkerSignal,
    work: fn(&Engine) -> Result<(), TransError>,
) -> Option<JoinHandle<()>> {
    let with = Arc::clone(engine);
    let run = move || {
        let _exit = WorkerExit(&with, signal);
        while signal(&with).wait() {
            // A failure shuts the engine down, and later calls return its cause.
            let _result = work(&with);
        }
    };
    let thread = thread::Builder::new().name(name.into()).spawn(run).ok()?;
    signal(engine).has_worker.store(true, Ordering::Release);
    Some(thread)
}

/// Records that a thread ends, be it by a panic: its signal has no receiver any more.
struct WorkerExit<'e>(&'e Engine, fn(&Engine) -> &WorkerSignal);

impl Drop for WorkerExit<'_> {
    fn drop(&mut self) {
        let Self(engine, signal) = *self;
        signal(engine).has_worker.store(false, Ordering::Release);
        engine.cil.notify_space();
    }
}

impl Deref for Running {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.signal().set(Call::Stop);
        self.engine.write_back.signal().set(Call::Stop);
        for thread in self.threads.drain(..) {
            // The panic was reported by the thread.
            let _result = thread.join();
        }
    }
}
