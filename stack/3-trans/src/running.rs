//! An engine with threads of its own: one writes checkpoints, one writes in place, so that transactions go on
//! meanwhile.

use std::ops::Deref;
use std::sync::Arc;

use crate::engine::Engine;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex};
use crate::trans::TransError;

/// What wakes a thread.
#[derive(Debug, Default)]
pub(crate) struct WorkerSignal {
    /// Somebody hears it.
    has_worker: AtomicBool,
    call: Mutex<Call>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Call {
    #[default]
    Nothing,
    /// Something is to be done.
    Work,
    /// The engine goes away.
    Stop,
}

impl WorkerSignal {
    /// Wakes the thread; false where there is none.
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

    /// Waits for a call; false where it is to stop.
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

/// An [`Engine`], its threads running. Dropped, it waits for what they are writing, and they begin nothing further.
///
/// Engines of small journals have none: there, one transaction runs at a time anyway.
#[derive(Debug)]
pub struct Running {
    engine: Arc<Engine>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Starts the threads. Without them, where the system gives none, whoever finds the list or the journal full does their
    /// work.
    pub fn new(engine: Engine) -> Self {
        let engine = Arc::new(engine);
        let mut threads = Vec::new();
        if engine.is_concurrent() {
            let signals: [fn(&Engine) -> &WorkerSignal; 2] =
                [Engine::signal, |engine| engine.write_back.signal()];
            threads.extend(start("xfskit-journal", &engine, signals[0], Engine::checkpoint_if_due));
            threads.extend(start("xfskit-writes", &engine, signals[1], Engine::write_back_wanted));
        }
        Self { engine, threads }
    }
}

/// A thread that does `work` as often as its signal rings.
fn start(
    name: &str,
    engine: &Arc<Engine>,
    signal: fn(&Engine) -> &WorkerSignal,
    work: fn(&Engine) -> Result<(), TransError>,
) -> Option<JoinHandle<()>> {
    let with = Arc::clone(engine);
    let run = move || {
        let _leaves = Leaves(&with, signal);
        while signal(&with).wait() {
            // A failure shuts the engine down, which tells everybody.
            let _told = work(&with);
        }
    };
    let thread = thread::Builder::new().name(name.into()).spawn(run).ok()?;
    signal(engine).has_worker.store(true, Ordering::Release);
    Some(thread)
}

/// Says so when a thread ends, be it by a panic: nobody hears its signal any more.
struct Leaves<'e>(&'e Engine, fn(&Engine) -> &WorkerSignal);

impl Drop for Leaves<'_> {
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
            // What it panicked of, if it did, it has said.
            let _said = thread.join();
        }
    }
}
