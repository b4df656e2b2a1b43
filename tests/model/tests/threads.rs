//! Eight threads on one volume. Each thread works in a subtree of its own beside a model, so its
//! results are checked to the byte. Between these operations all threads use three shared
//! directories. In two of them each thread has names of its own, which are accounted for at the
//! end. In the third, all threads use the same names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use xfskit_block::BlockDevice;
use xfskit_core::Error as Core;
use xfskit_test_model::drawn::{self, DrawnOp, OpMix};
use xfskit_test_model::run::{self, Pair, VolumeSpec};
use xfskit_test_support::{Random, long, seeds};
use xfskit_units::Ino;
use xfskit_vfs::change::hold::Hold;
use xfskit_vfs::{Error, Fs, NewNode, RenameMode};

const THREADS: u64 = 8;
const MIX: OpMix = OpMix { names: 80, content: 30_000, value: 2000, removals: 30 };

/// Time without progress after which the run counts as deadlocked.
const DEADLOCK_TIMEOUT: Duration = Duration::from_secs(90);

/// The current operation of each thread, for the deadlock report.
#[derive(Default)]
struct Watchdog {
    steps: AtomicU64,
    done: AtomicBool,
    doing: Mutex<BTreeMap<u64, String>>,
}

impl Watchdog {
    fn note(&self, thread: u64, what: String) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.doing.lock().unwrap().insert(thread, what);
    }

    /// Aborts the process if no operation ends for too long: deadlocked threads cannot be joined.
    fn run(&self) {
        let tick = Duration::from_millis(50);
        let (mut seen, mut waited) = (0, Duration::ZERO);
        while !self.done.load(Ordering::Relaxed) {
            std::thread::sleep(tick);
            let steps = self.steps.load(Ordering::Relaxed);
            waited = if steps == seen { waited + tick } else { Duration::ZERO };
            seen = steps;
            if waited >= DEADLOCK_TIMEOUT {
                let doing = self.doing.lock().unwrap();
                eprintln!("deadlock after {steps} operations: {doing:#?}");
                std::process::abort();
            }
        }
    }
}

/// The shared directories.
struct Shared {
    fs: Arc<Fs>,
    /// Two directories in which each thread has names of its own.
    own: [Ino; 2],
    /// A directory in which all threads use the same names.
    common: Ino,
}

/// One thread.
struct Worker<'a> {
    number: u64,
    random: Random,
    shared: &'a Shared,
    watchdog: &'a Watchdog,
    /// The names of this thread in the two shared directories.
    names: [BTreeSet<Vec<u8>>; 2],
}

impl Worker<'_> {
    /// Runs the thread. Returns how many operations failed for lack of space.
    fn run(&mut self, pair: &mut Pair, seed: u64, count: usize) -> Result<usize, String> {
        for op in drawn::draw(seed, count, MIX).iter().filter(|op| !matches!(op, DrawnOp::Reopen)) {
            self.watchdog.note(self.number, format!("{op:?}"));
            pair.step(op).map_err(|what| format!("thread {}: {op:?}: {what}", self.number))?;
            self.use_own_names()
                .map_err(|what| format!("thread {}: own names: {what}", self.number))?;
            self.use_common_names()
                .map_err(|what| format!("thread {}: common names: {what}", self.number))?;
        }
        pair.compare().map_err(|what| format!("thread {}: at the end: {what}", self.number))?;
        Ok(pair.refused())
    }

    /// Runs one operation on a name of this thread. It must succeed, unless the volume is full.
    fn use_own_names(&mut self) -> Result<(), Error> {
        match self.try_own_names() {
            Err(Error::Core(Core::NoSpace(_))) => Ok(()),
            result => result,
        }
    }

    fn try_own_names(&mut self) -> Result<(), Error> {
        let fs = &self.shared.fs;
        let side = self.random.below(2);
        let (dir, other) = (self.shared.own[side], self.shared.own[1 - side]);
        let new = format!("thread{}-{}", self.number, self.random.below(100_000)).into_bytes();
        let pick = self.random.below(self.names[side].len().max(1));
        let old = self.names[side].iter().nth(pick).cloned();
        let taken = self.names.iter().any(|names| names.contains(&new));
        self.watchdog
            .note(self.number, format!("own names in {dir} and {other}, {new:?}, {old:?}"));
        match (self.random.below(6), old) {
            (0..3, _) | (_, None) if !taken => {
                fs.make(dir, &new, &NewNode::file(0o600))?;
                self.names[side].insert(new);
            }
            (3, Some(old)) => {
                fs.unlink(dir, &old)?;
                self.names[side].remove(&old);
            }
            (4, Some(old)) if !taken => {
                fs.rename(dir, &old, dir, &new, RenameMode::NoReplace)?;
                self.names[side].remove(&old);
                self.names[side].insert(new);
            }
            (5, Some(old)) => {
                fs.rename(dir, &old, other, &old, RenameMode::Replace)?;
                self.names[side].remove(&old);
                self.names[1 - side].insert(old);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs one operation on names that other threads change at the same time. It may fail because
    /// it comes too late, but must not break anything.
    fn use_common_names(&mut self) -> Result<(), Error> {
        let fs = &self.shared.fs;
        let common = self.shared.common;
        let dirs: Vec<Hold> = [b"d0", b"d1", b"d2"]
            .iter()
            .filter_map(|name| held(fs, common, *name))
            .chain([fs.hold(common)])
            .collect();
        let dir = dirs[self.random.below(dirs.len())].ino();
        let to = dirs[self.random.below(dirs.len())].ino();
        let mut draw = |of: &str| format!("{of}{}", self.random.below(3)).into_bytes();
        let (file, other, below) = (draw("f"), draw("f"), draw("d"));
        let kind = self.random.below(9);
        self.watchdog
            .note(self.number, format!("common names, {kind}: {dir} {to} {file:?} {other:?}"));
        let node = held(fs, dir, &file);
        let result = match (kind, node) {
            (0, _) => fs.make(dir, &file, &NewNode::file(0o644)).map(drop),
            (1, _) => fs.make(dir, &below, &NewNode::directory(0o755)).map(drop),
            (2, _) => fs.unlink(dir, &file),
            (3, _) => fs.rmdir(dir, &below),
            (4, _) => fs.rename(dir, &file, to, &other, RenameMode::Replace),
            (5, _) => fs.rename(dir, &below, to, &below, RenameMode::Exchange),
            (6, _) => fs.rename(dir, &below, to, &below, RenameMode::Replace),
            (7, Some(node)) => fs.link(node.ino(), to, &other),
            (8, Some(node)) => fs.write(node.ino(), self.random.below(50_000), &[7; 3000]),
            _ => Ok(()),
        };
        match result {
            // A removed directory is held, but takes no entries.
            Err(Error::Core(Core::NoInode(ino))) if ino == dir || ino == to => Ok(()),
            Err(Error::Core(
                Core::NoEntry
                | Core::Exists
                | Core::NotEmpty
                | Core::IsDirectory(_)
                | Core::NotFile(_)
                | Core::NotDirectory(_)
                | Core::Limit(_)
                | Core::NotPermitted(_)
                | Core::NoSpace(_),
            )) => Ok(()),
            result => result,
        }
    }
}

/// Looks `name` up in `dir` and holds the inode, so that its number cannot be reused. Returns
/// `None` if the entry has changed meanwhile.
fn held<'f>(fs: &'f Fs, dir: Ino, name: &[u8]) -> Option<Hold<'f>> {
    let find = || fs.lookup(&fs.inode(dir).ok()?, name).ok()?;
    let hold = fs.hold(find()?);
    (find() == Some(hold.ino())).then_some(hold)
}

/// Returns the names in a shared directory.
fn names(fs: &Fs, dir: Ino) -> BTreeSet<Vec<u8>> {
    let portion = fs.read_dir(&fs.inode(dir).unwrap());
    assert!(portion.errors.is_empty(), "{:?}", portion.errors);
    portion.entries.into_iter().map(|entry| entry.name).collect()
}

fn run_threads(spec: VolumeSpec, leave: Option<u64>, seed: u64, count: usize) {
    let dev = run::make(spec);
    let fs = Arc::new(run::open(Arc::clone(&dev) as Arc<dyn BlockDevice>));
    if let Some(leave) = leave {
        run::fill(&fs, leave);
    }
    let root = fs.volume().geo().rootino;
    let make = |name: &str| fs.make(root, name.as_bytes(), &NewNode::directory(0o755)).unwrap();
    let own_dirs: Vec<Ino> = (0..THREADS).map(|n| make(&format!("home{n}"))).collect();
    let shared =
        Shared { fs: Arc::clone(&fs), own: [make("one"), make("two")], common: make("common") };
    let watchdog = Watchdog::default();
    let mut workers: Vec<Worker> = (0..THREADS)
        .map(|number| Worker {
            number,
            random: Random::new(seed * 1000 + number),
            shared: &shared,
            watchdog: &watchdog,
            names: [BTreeSet::new(), BTreeSet::new()],
        })
        .collect();
    let results: Vec<Result<usize, String>> = std::thread::scope(|scope| {
        scope.spawn(|| watchdog.run());
        let running: Vec<_> = workers
            .iter_mut()
            .zip(&own_dirs)
            .map(|(worker, &own_dir)| {
                let mut pair = Pair::below(Arc::clone(&dev), Arc::clone(&fs), own_dir);
                let seed = seed * 100 + worker.number;
                scope.spawn(move || worker.run(&mut pair, seed, count))
            })
            .collect();
        let results = running.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked: see above".to_owned()))
        });
        let results = results.collect();
        watchdog.done.store(true, Ordering::Relaxed);
        results
    });
    let failed: Vec<String> = results.iter().filter_map(|result| result.clone().err()).collect();
    assert!(failed.is_empty(), "seed {seed}: {failed:#?}");
    let refused: usize = results.iter().filter_map(|result| result.as_ref().ok()).sum();
    assert_eq!(refused > 0, leave.is_some(), "seed {seed}: {refused} refused");
    for side in 0..2 {
        let expected: BTreeSet<Vec<u8>> =
            workers.iter().flat_map(|worker| worker.names[side].iter().cloned()).collect();
        assert_eq!(names(&fs, shared.own[side]), expected, "seed {seed}, directory {side}");
    }
    drop(workers);
    drop(shared);
    Arc::into_inner(fs).expect("all threads have ended").close().unwrap();
    run::verify_all(&dev).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
}

/// Returns the seeds to run: a few, or many more in the long run.
fn seeds_from(first: u64) -> impl Iterator<Item = u64> {
    seeds(first..first + if long() { 40 } else { 4 })
}

#[test]
fn eight_threads_on_a_default_volume_match_their_models() {
    let spec = VolumeSpec::of(&[], 200 << 20);
    seeds_from(1).for_each(|seed| run_threads(spec, None, seed, 300));
}

#[test]
fn eight_threads_on_small_blocks_with_parent_pointers_match_their_models() {
    let spec = VolumeSpec::of(&[("-b", "size=1024"), ("-n", "parent=1")], 200 << 20);
    seeds_from(100).for_each(|seed| run_threads(spec, None, seed, 300));
}

#[test]
fn eight_threads_on_a_plain_volume_match_their_models() {
    let spec = VolumeSpec::of(
        &[("-m", "rmapbt=0,reflink=0,finobt=0"), ("-i", "sparse=0,nrext64=0")],
        200 << 20,
    );
    seeds_from(200).for_each(|seed| run_threads(spec, None, seed, 300));
}

#[test]
fn eight_threads_with_extent_size_hints_match_their_models() {
    let spec = VolumeSpec::of(&[], 200 << 20).hinted(8);
    seeds_from(500).for_each(|seed| run_threads(spec, None, seed, 300));
    let spec = VolumeSpec::of(&[], 64 << 20).hinted(8);
    seeds_from(600).for_each(|seed| run_threads(spec, Some(60), seed, 300));
}

#[test]
fn eight_threads_in_one_allocation_group_match_their_models() {
    let spec = VolumeSpec::of(&[("-d", "agcount=1")], 200 << 20);
    seeds_from(300).for_each(|seed| run_threads(spec, None, seed, 300));
}

#[test]
fn eight_threads_on_a_full_volume_match_their_models() {
    let spec = VolumeSpec::of(&[], 64 << 20);
    seeds_from(400).for_each(|seed| run_threads(spec, Some(60), seed, 300));
}
