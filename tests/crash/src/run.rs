//! A run: operations on a fresh volume in memory, what reached the device meanwhile, and what was promised.

use std::sync::Arc;

use uuid::Uuid;
use xfskit_block::{BlockDevice, Event, MemDevice, OverlayDevice, RecordingDevice};
use xfskit_core::{OpenOptions, Tx, Volume};
use xfskit_mkfs::{DeviceFacts, Options, Stamp, make, plan};
use xfskit_test_model::run::fill;
use xfskit_units::ByteLen;
use xfskit_vfs::{Clock, Fs, Ino, NewNode, Timestamp};

use crate::diary::Diary;
use crate::pattern;
use crate::random::Random;
use crate::tree::{self, Seen};
use crate::worker::Worker;
use crate::workload::Workload;

/// Content that lies about in free space below each home, in bytes: nobody may see it again.
const JUNK: usize = 3 << 20;
/// Who wrote it.
const NOBODY: u16 = 0xffff;

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// The device before.
    pub base: Arc<dyn BlockDevice>,
    /// What was written.
    pub events: Vec<Event>,
    /// Where everybody worked, and what they noted.
    workers: Vec<(Ino, Diary)>,
}

/// A clock that stands still.
fn clock() -> Clock {
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

/// Where a run is made by hand.
#[derive(Debug)]
pub struct Workshop {
    base: Arc<dyn BlockDevice>,
    recorder: Arc<RecordingDevice>,
    /// The filesystem that is being changed.
    pub fs: Fs,
    diary: Diary,
}

impl Workshop {
    /// The volume on `base`, which stays as it is, opened with `options`.
    ///
    /// # Panics
    /// Where it cannot be opened.
    pub fn over(base: Arc<dyn BlockDevice>, options: &OpenOptions) -> Self {
        let above = Arc::new(OverlayDevice::new(Arc::clone(&base)));
        let recorder = Arc::new(RecordingDevice::new(above));
        let volume = Volume::open(recorder.clone(), options).expect("a volume that opens");
        let fs = Fs::with_clock(volume, clock());
        let names = tree::names(&fs, fs.volume().geo().rootino).expect("a tree");
        Self { base, recorder, fs, diary: Diary::new(names) }
    }

    /// One operation. It may fail: then it must have changed nothing.
    ///
    /// # Panics
    /// Where the tree cannot be read afterwards.
    pub fn step<T>(&mut self, operation: impl FnOnce(&Fs) -> T) -> T {
        self.diary.begin(self.recorder.event_count());
        let answer = operation(&self.fs);
        let root = self.fs.volume().geo().rootino;
        self.diary.end(tree::names(&self.fs, root).expect("a tree"), true);
        answer
    }

    /// Ends the run, with the volume closed or not. What files contain is not part of it.
    ///
    /// # Panics
    /// Where it cannot be closed.
    pub fn finish(self, close: bool) -> Run {
        let root = self.fs.volume().geo().rootino;
        if close {
            self.fs.close().expect("closed");
        }
        let workers = vec![(root, self.diary)];
        Run { base: self.base, events: self.recorder.events(), workers }
    }
}

impl Run {
    /// Does the work, with choices from `seed`.
    ///
    /// # Panics
    /// Where the volume breaks before any crash.
    pub fn record(workload: &Workload, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let base = fresh(workload.size, workload.options);
        let homes = furnish(&base, workload);
        let above = Arc::new(OverlayDevice::new(base.clone()));
        let recorder = Arc::new(RecordingDevice::new(above));
        let options = OpenOptions { cache_bytes: workload.cache, ..writable() };
        let volume = Volume::open(recorder.clone(), &options).expect("a volume that opens");
        let fs = Fs::with_clock(volume, clock());
        let workers = homes.iter().zip(0..).map(|(&home, number)| {
            let random = Random::new(random.number());
            Worker::new(number, &fs, &recorder, home, workload.taste, random)
        });
        let workers: Vec<Worker<'_>> = workers.collect();
        let diaries: Vec<Diary> = if workers.len() == 1 {
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
        let workers = homes.into_iter().zip(diaries).collect();
        Self { base, events: recorder.events(), workers }
    }

    /// What is seen of everybody's work.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn seen(&self, fs: &Fs) -> Result<Vec<Seen>, xfskit_vfs::Error> {
        self.workers.iter().map(|(home, _)| tree::seen(fs, *home)).collect()
    }

    /// Judges what is `seen` after a crash when the first `returned` events had returned, and `begun` had begun.
    ///
    /// # Errors
    /// What may not be.
    pub fn judge(&self, seen: &[Seen], returned: usize, begun: usize) -> Result<(), String> {
        for (number, ((_, diary), seen)) in self.workers.iter().zip(seen).enumerate() {
            diary.judge(seen, returned, begun).map_err(|why| format!("worker {number}: {why}"))?;
        }
        Ok(())
    }
}

/// An empty volume of `bytes` bytes, made with these options of mkfs.
///
/// # Panics
/// Where it cannot be made.
pub fn fresh(bytes: u64, words: &[(&str, &str)]) -> Arc<MemDevice> {
    let base = Arc::new(MemDevice::new(ByteLen(bytes)));
    let mut options = Options::default();
    for (option, argument) in words {
        options.sub(option, argument).expect("an option");
    }
    let facts = DeviceFacts::of(&*base, None);
    let stamp =
        Stamp { uuid: Uuid::from_bytes([9; 16]), seconds: 1, nanoseconds: 0, generation: 1 };
    let plan = plan(&options, &facts, stamp).expect("a plan");
    make(&*base, None, &plan).expect("a volume");
    base
}

/// Homes for everybody, old content in free space, and as little of that as is wanted.
fn furnish(base: &Arc<MemDevice>, workload: &Workload) -> Vec<Ino> {
    let fs = open(base.clone()).expect("a volume that opens");
    let root = fs.volume().geo().rootino;
    let make = |number: u16| {
        let name = format!("home{number}");
        let home = fs.make(root, name.as_bytes(), &NewNode::directory(0o755)).expect("a home");
        let junk = fs.make(home, b"junk", &NewNode::file(0o600)).expect("a file");
        fs.write(junk, 0, &pattern::fill(NOBODY, number, 0, JUNK)).expect("written");
        if workload.hint > 0 {
            let hint = |tx: &mut Tx<'_>| {
                let home = tx.iget(home)?;
                tx.set_extsize(home, workload.hint);
                tx.set_cowextsize(home, workload.hint);
                Ok(())
            };
            fs.volume().transact(hint).expect("hints");
        }
        home
    };
    let homes: Vec<Ino> = (0..workload.threads).map(make).collect();
    for &home in &homes {
        fs.unlink(home, b"junk").expect("removed");
    }
    fs.sync().expect("synced");
    if let Some(leave) = workload.leave {
        fill(&fs, leave);
    }
    fs.close().expect("closed");
    homes
}
