//! An engine with a thread of its own that writes checkpoints, so that transactions go on while the journal is
//! written.

use crate::sync::thread::{self, JoinHandle};
use std::ops::Deref;
use std::sync::Arc;

use crate::sync::{Condvar, Mutex};

use crate::engine::Engine;

/// What wakes the thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    call: Mutex<Call>,
    rung: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Call {
    #[default]
    Nothing,
    /// The list is due.
    Checkpoint,
    /// The engine goes away.
    Stop,
}

impl Bell {
    /// Asks for a checkpoint.
    pub(crate) fn ring(&self) {
        self.set(Call::Checkpoint);
    }

    fn set(&self, call: Call) {
        let mut now = self.call.lock();
        if *now != Call::Stop {
            *now = call;
            self.rung.notify_one();
        }
    }

    /// Waits for a call; false where it is to stop.
    fn wait(&self) -> bool {
        let mut call = self.call.lock();
        while *call == Call::Nothing {
            self.rung.wait(&mut call);
        }
        let goes_on = *call == Call::Checkpoint;
        if goes_on {
            *call = Call::Nothing;
        }
        goes_on
    }
}

/// An [`Engine`], its thread running. Dropped, it waits for the checkpoint that is being written, and begins no
/// further one.
///
/// Engines of small journals have no thread: there, one transaction runs at a time anyway.
#[derive(Debug)]
pub struct Running {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts the thread. Without one, where the system gives none, whoever finds the list full writes the
    /// checkpoint.
    pub fn new(engine: Engine) -> Self {
        let engine = Arc::new(engine);
        let thread = engine.has_thread().then(|| {
            let engine = Arc::clone(&engine);
            let work = move || {
                while engine.bell().wait() {
                    // A failure shuts the engine down, which tells everybody.
                    let _told = engine.checkpoint_if_due();
                }
            };
            thread::Builder::new().name("xfskit-journal".into()).spawn(work).ok()
        });
        Self { engine, thread: thread.flatten() }
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
        self.engine.bell().set(Call::Stop);
        if let Some(thread) = self.thread.take() {
            // What it panicked of, if it did, it has said.
            let _said = thread.join();
        }
    }
}
