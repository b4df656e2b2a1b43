//! A run: operations on a fresh volume in memory, and what reached the device meanwhile.

use std::sync::Arc;

use uuid::Uuid;
use xfskit_block::{BlockDevice, Event, MemDevice, OverlayDevice, RecordingDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_mkfs::{DeviceFacts, Options, Stamp, make, plan};
use xfskit_units::ByteLen;
use xfskit_vfs::{Clock, Fs, Timestamp};

use crate::tree;

/// What was so when the device had seen some number of events.
#[derive(Clone, Copy, Debug)]
struct Promise {
    /// Events until then.
    events: usize,
    /// Operations that had begun.
    begun: usize,
    /// Operations that must not be lost.
    synced: usize,
}

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// The device before.
    pub base: Arc<dyn BlockDevice>,
    /// What was written.
    pub events: Vec<Event>,
    /// The tree before the first operation and after each.
    trees: Vec<u64>,
    promises: Vec<Promise>,
}

impl Run {
    /// The trees that may be there after a crash when the first `returned` events had returned, and `begun`
    /// had begun.
    pub fn allowed(&self, returned: usize, begun: usize) -> &[u64] {
        let synced = self.promises.iter().rfind(|p| p.events <= returned).map_or(0, |p| p.synced);
        // The first promise behind the crash tells what had begun before.
        let later = self.promises.iter().find(|p| p.events >= begun);
        let last = later.map_or(self.trees.len() - 1, |p| p.begun);
        &self.trees[synced..=last.max(synced)]
    }
}

/// Where a run is made.
#[derive(Debug)]
pub struct Workshop {
    base: Arc<dyn BlockDevice>,
    recorder: Arc<RecordingDevice>,
    /// The filesystem that is being changed.
    pub fs: Fs,
    trees: Vec<u64>,
    promises: Vec<Promise>,
    synced: usize,
}

/// A clock that stands still.
pub fn clock() -> Clock {
    Clock::fixed(Timestamp { sec: 1_700_000_000, nsec: 5 })
}

/// Opens the volume on `dev` to change it.
///
/// # Errors
/// Those of the volume.
pub fn open(dev: Arc<dyn BlockDevice>) -> Result<Fs, xfskit_core::Error> {
    Ok(Fs::with_clock(Volume::open(dev, &writable())?, clock()))
}

/// How volumes are opened here, to change them.
pub fn writable() -> OpenOptions {
    OpenOptions { write: true, cache_bytes: 16 << 20, ..OpenOptions::default() }
}

impl Workshop {
    /// A fresh volume of `bytes` bytes, made with `options`.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn new(bytes: u64, options: &Options) -> Self {
        let base = Arc::new(MemDevice::new(ByteLen(bytes)));
        let facts = DeviceFacts::of(&*base, None);
        let stamp =
            Stamp { uuid: Uuid::from_bytes([9; 16]), seconds: 1, nanoseconds: 0, generation: 1 };
        let plan = plan(options, &facts, stamp).expect("a plan");
        make(&*base, None, &plan).expect("a volume");
        Self::over(base, &writable())
    }

    /// The volume on `base`, which stays as it is, opened with `options`.
    ///
    /// # Panics
    /// Where it cannot be opened.
    pub fn over(base: Arc<dyn BlockDevice>, options: &OpenOptions) -> Self {
        let above = Arc::new(OverlayDevice::new(Arc::clone(&base)));
        let recorder = Arc::new(RecordingDevice::new(above));
        let volume = Volume::open(recorder.clone(), options).expect("a volume that opens");
        let fs = Fs::with_clock(volume, clock());
        let trees = vec![tree::digest(&fs).expect("a tree")];
        let start = Promise { events: 0, begun: 0, synced: 0 };
        Self { base, recorder, fs, trees, promises: vec![start], synced: 0 }
    }

    /// One operation. It may fail: then it must have changed nothing.
    ///
    /// # Panics
    /// Where the tree cannot be read afterwards.
    pub fn step<T>(&mut self, operation: impl FnOnce(&Fs) -> T) -> T {
        let answer = operation(&self.fs);
        self.trees.push(tree::digest(&self.fs).expect("a tree"));
        self.promise();
        answer
    }

    /// All operations so far must not be lost any more.
    ///
    /// # Panics
    /// Where they cannot be made durable.
    pub fn sync(&mut self) {
        self.fs.sync().expect("synced");
        self.synced = self.trees.len() - 1;
        self.promise();
    }

    /// Metadata goes in place.
    ///
    /// # Panics
    /// Where it cannot.
    pub fn write_back(&mut self) {
        self.fs.volume().engine().expect("writable").write_back().expect("written back");
        self.promise();
    }

    fn promise(&mut self) {
        let (events, begun) = (self.recorder.event_count(), self.trees.len() - 1);
        self.promises.push(Promise { events, begun, synced: self.synced });
    }

    /// Ends the run, with the volume closed or not.
    ///
    /// # Panics
    /// Where it cannot be closed.
    pub fn finish(self, close: bool) -> Run {
        if close {
            self.fs.close().expect("closed");
        }
        let (base, trees, promises) = (self.base, self.trees, self.promises);
        Run { base, events: self.recorder.events(), trees, promises }
    }
}
