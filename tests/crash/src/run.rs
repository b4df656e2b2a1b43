//! A run: operations on a fresh volume in memory, the writes that reached the device, and the
//! history of each worker.

use std::sync::Arc;

use xfskit_block::{BlockDevice, Event, MemDevice, OverlayDevice, RecordingDevice};
use xfskit_core::{OpenOptions, Tx, Volume};
use xfskit_test_model::run::fill;
use xfskit_test_support::{Random, volumes};
use xfskit_vfs::{Clock, Fs, Ino, NewNode, Timestamp};

use crate::history::History;
use crate::pattern;
use crate::tree::{self, TreeState};
use crate::worker::Worker;
use crate::workload::Workload;

/// Old content in free space for each worker, in bytes. It must never become visible again.
const OLD_CONTENT: usize = 3 << 20;
/// The file number of that old content.
const OLD_CONTENT_FILE: u16 = 0xffff;

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// The device before the run.
    pub base: Arc<dyn BlockDevice>,
    /// The recorded writes and flushes.
    pub events: Vec<Event>,
    /// The directory and the history of each worker.
    workers: Vec<(Ino, History)>,
}

/// Returns a clock that stands still.
fn clock() -> Clock {
    Clock::fixed(Timestamp { sec: 1_700_000_000, nsec: 5 })
}

/// Opens the volume on `dev` for writing.
///
/// # Errors
/// Those of the volume.
pub fn open(dev: Arc<dyn BlockDevice>) -> Result<Fs, xfskit_core::Error> {
    Ok(Fs::new(Volume::open(dev, &writable())?, clock()))
}

/// Returns the options with which volumes are opened for writing here.
pub fn writable() -> OpenOptions {
    OpenOptions { write: true, cache_bytes: 16 << 20, ..OpenOptions::default() }
}

/// A run whose operations the test itself makes.
#[derive(Debug)]
pub struct Testbed {
    base: Arc<dyn BlockDevice>,
    recorder: Arc<RecordingDevice>,
    /// The filesystem under test.
    pub fs: Fs,
    history: History,
}

impl Testbed {
    /// Opens the volume on `base` with `options`; `base` itself is never written.
    ///
    /// # Panics
    /// If the volume cannot be opened.
    pub fn over(base: Arc<dyn BlockDevice>, options: &OpenOptions) -> Self {
        let above = Arc::new(OverlayDevice::new(Arc::clone(&base)));
        let recorder = Arc::new(RecordingDevice::new(above));
        let volume = Volume::open(recorder.clone(), options).expect("a volume that opens");
        let fs = Fs::new(volume, clock());
        let names = tree::names(&fs, fs.volume().geo().rootino).expect("a tree");
        Self { base, recorder, fs, history: History::new(names) }
    }

    /// Runs one operation. If it fails, it must have changed nothing.
    ///
    /// # Panics
    /// If the tree cannot be read afterwards.
    pub fn step<T>(&mut self, operation: impl FnOnce(&Fs) -> T) -> T {
        self.history.begin(self.recorder.event_count());
        let result = operation(&self.fs);
        let root = self.fs.volume().geo().rootino;
        self.history.end(tree::names(&self.fs, root).expect("a tree"), true);
        result
    }

    /// Ends the run, and closes the volume if `close` is set. File contents are not recorded.
    ///
    /// # Panics
    /// If the volume cannot be closed.
    pub fn finish(self, close: bool) -> Run {
        let root = self.fs.volume().geo().rootino;
        if close {
            self.fs.close().expect("closed");
        }
        let workers = vec![(root, self.history)];
        Run { base: self.base, events: self.recorder.events(), workers }
    }
}

impl Run {
    /// Runs the workload, with choices from `seed`.
    ///
    /// # Panics
    /// If the volume fails before any crash.
    pub fn record(workload: &Workload, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let base = volumes::make(workload.size, workload.options);
        let own_dirs = prepare(&base, workload);
        let above = Arc::new(OverlayDevice::new(base.clone()));
        let recorder = Arc::new(RecordingDevice::new(above));
        let options = OpenOptions { cache_bytes: workload.cache, ..writable() };
        let volume = Volume::open(recorder.clone(), &options).expect("a volume that opens");
        let fs = Fs::new(volume, clock());
        let workers = own_dirs.iter().zip(0..).map(|(&own_dir, number)| {
            let random = random.fork();
            Worker::new(number, &fs, &recorder, own_dir, workload.mix, random)
        });
        let workers: Vec<Worker<'_>> = workers.collect();
        let histories: Vec<History> = if workers.len() == 1 {
            workers.into_iter().map(|worker| worker.work(workload.steps)).collect()
        } else {
            std::thread::scope(|scope| {
                let start = |worker: Worker<'_>| worker.work(workload.steps);
                let running: Vec<_> =
                    workers.into_iter().map(|worker| scope.spawn(move || start(worker))).collect();
                running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            })
        };
        if random.one_in(2) {
            fs.close().expect("closed");
        }
        let workers = own_dirs.into_iter().zip(histories).collect();
        Self { base, events: recorder.events(), workers }
    }

    /// Returns the tree of each worker.
    ///
    /// # Errors
    /// The first object that cannot be read.
    pub fn state(&self, fs: &Fs) -> Result<Vec<TreeState>, xfskit_vfs::Error> {
        self.workers.iter().map(|(own_dir, _)| tree::state(fs, *own_dir)).collect()
    }

    /// Verifies the trees that were found after a crash at which the first `returned` events had
    /// returned and `begun` had begun.
    ///
    /// # Errors
    /// A state that is not allowed.
    pub fn verify(&self, seen: &[TreeState], returned: usize, begun: usize) -> Result<(), String> {
        for (number, ((_, history), seen)) in self.workers.iter().zip(seen).enumerate() {
            history
                .verify(seen, returned, begun)
                .map_err(|why| format!("worker {number}: {why}"))?;
        }
        Ok(())
    }
}

/// Creates the workers' directories, puts old content into free space, and fills the volume as far
/// as the workload requires.
fn prepare(base: &Arc<MemDevice>, workload: &Workload) -> Vec<Ino> {
    let fs = open(base.clone()).expect("a volume that opens");
    let root = fs.volume().geo().rootino;
    let make = |number: u16| {
        let name = format!("home{number}");
        let own_dir =
            fs.make(root, name.as_bytes(), &NewNode::directory(0o755)).expect("a directory");
        let junk = fs.make(own_dir, b"junk", &NewNode::file(0o600)).expect("a file");
        fs.write(junk, 0, &pattern::fill(OLD_CONTENT_FILE, number, 0, OLD_CONTENT))
            .expect("written");
        if workload.hint > 0 {
            let hint = |tx: &mut Tx<'_>| {
                let own_dir = tx.iget(own_dir)?;
                tx.set_extsize(own_dir, workload.hint);
                tx.set_cowextsize(own_dir, workload.hint);
                Ok(())
            };
            fs.volume().transact(hint).expect("hints");
        }
        own_dir
    };
    let own_dirs: Vec<Ino> = (0..workload.threads).map(make).collect();
    for &own_dir in &own_dirs {
        fs.unlink(own_dir, b"junk").expect("removed");
    }
    fs.sync().expect("synced");
    if let Some(leave) = workload.leave {
        fill(&fs, leave);
    }
    fs.close().expect("closed");
    own_dirs
}
