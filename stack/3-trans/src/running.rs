//! An engine with threads of its own: one writes checkpoints, one pushes the AIL, while
//! transactions run.

use std::ops::Deref;
use std::sync::Arc;

use crate::engine::Engine;
use crate::error::TransError;
use crate::signal::WorkerSignal;
use crate::sync::thread::{self, JoinHandle};

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
    signal(engine).attach();
    Some(thread)
}

/// Records that a thread ends, be it by a panic: its signal has no receiver any more.
struct WorkerExit<'e>(&'e Engine, fn(&Engine) -> &WorkerSignal);

impl Drop for WorkerExit<'_> {
    fn drop(&mut self) {
        let Self(engine, signal) = *self;
        if std::thread::panicking() {
            engine.shut_down("a bug in xfskit: panic of a thread of the volume");
        }
        signal(engine).detach();
        engine.cil().notify_space();
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
        self.engine.signal().stop();
        self.engine.write_back.signal().stop();
        for thread in self.threads.drain(..) {
            // The panic was reported by the thread.
            let _result = thread.join();
        }
    }
}
