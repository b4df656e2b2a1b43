//! Eight threads on one volume. Each works in a subtree of its own beside a model, so that its results can be
//! checked to the byte; and all of them between times where they meet: in two directories in which each
//! has names of its own (accounted for at the end), and in a third where every name is everybody's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use xfskit_block::BlockDevice;
use xfskit_core::Error as Core;
use xfskit_test_model::op::{self, Op, Rng, Taste};
use xfskit_test_model::run::{self, Pair, Shape};
use xfskit_units::Ino;
use xfskit_vfs::change::hold::Hold;
use xfskit_vfs::{Error, Fs, NewNode, RenameMode};

const THREADS: u64 = 8;
const TASTE: Taste = Taste { names: 80, content: 30_000, value: 2000, removals: 30 };

/// How long nothing may happen before it is a deadlock.
const PATIENCE: Duration = Duration::from_secs(90);

/// What each thread does right now, for the one who looks after a deadlock.
#[derive(Default)]
struct Watch {
    steps: AtomicU64,
    done: AtomicBool,
    doing: Mutex<BTreeMap<u64, String>>,
}

impl Watch {
    fn note(&self, thread: u64, what: String) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.doing.lock().unwrap().insert(thread, what);
    }

    /// Ends the process once nothing has happened for too long: threads that wait for each other cannot be
    /// joined.
    fn guard(&self) {
        let tick = Duration::from_millis(50);
        let (mut seen, mut waited) = (0, Duration::ZERO);
        while !self.done.load(Ordering::Relaxed) {
            std::thread::sleep(tick);
            let steps = self.steps.load(Ordering::Relaxed);
            waited = if steps == seen { waited + tick } else { Duration::ZERO };
            seen = steps;
            if waited >= PATIENCE {
                let doing = self.doing.lock().unwrap();
                eprintln!("deadlock after {steps} operations: {doing:#?}");
                std::process::abort();
            }
        }
    }
}

/// Where all threads meet.
struct Shared {
    fs: Arc<Fs>,
    /// Two directories in which each thread has names of its own.
    own: [Ino; 2],
    /// A directory in which all names are everybody's.
    common: Ino,
}

/// One thread.
struct Worker<'a> {
    number: u64,
    rng: Rng,
    shared: &'a Shared,
    watch: &'a Watch,
    /// The names of this thread in the two shared directories.
    names: [BTreeSet<Vec<u8>>; 2],
}

impl Worker<'_> {
    /// Answers how many operations were refused for want of space.
    fn run(&mut self, pair: &mut Pair, seed: u64, count: usize) -> Result<usize, String> {
        for op in op::draw(seed, count, TASTE).iter().filter(|op| !matches!(op, Op::Reopen)) {
            self.watch.note(self.number, format!("{op:?}"));
            pair.step(op).map_err(|what| format!("thread {}: {op:?}: {what}", self.number))?;
            self.meet()
                .map_err(|what| format!("thread {}: where all meet: {what}", self.number))?;
            self.quarrel().map_err(|what| format!("thread {}: quarrel: {what}", self.number))?;
        }
        pair.compare().map_err(|what| format!("thread {}: at the end: {what}", self.number))?;
        Ok(pair.refused())
    }

    /// One operation on a name of this thread: it must do what it says.
    fn meet(&mut self) -> Result<(), Error> {
        match self.meet_at_all() {
            Err(Error::Core(Core::NoSpace(_))) => Ok(()),
            answer => answer,
        }
    }

    fn meet_at_all(&mut self) -> Result<(), Error> {
        let fs = &self.shared.fs;
        let side = self.rng.below(2) as usize;
        let (dir, other) = (self.shared.own[side], self.shared.own[1 - side]);
        let new = format!("thread{}-{}", self.number, self.rng.below(100_000)).into_bytes();
        let pick = self.rng.place(self.names[side].len());
        let old = self.names[side].iter().nth(pick).cloned();
        let taken = self.names.iter().any(|names| names.contains(&new));
        self.watch.note(self.number, format!("own names in {dir} and {other}, {new:?}, {old:?}"));
        match (self.rng.below(6), old) {
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

    /// One operation on names that others change at the same time: it may come too late, but nothing may break.
    fn quarrel(&mut self) -> Result<(), Error> {
        let fs = &self.shared.fs;
        let common = self.shared.common;
        let dirs: Vec<Hold> = [b"d0", b"d1", b"d2"]
            .iter()
            .filter_map(|name| held(fs, common, *name))
            .chain([fs.hold(common)])
            .collect();
        let dir = dirs[self.rng.place(dirs.len())].ino();
        let to = dirs[self.rng.place(dirs.len())].ino();
        let mut draw = |of: &str| format!("{of}{}", self.rng.below(3)).into_bytes();
        let (file, other, below) = (draw("f"), draw("f"), draw("d"));
        let kind = self.rng.below(9);
        self.watch.note(self.number, format!("quarrel {kind}: {dir} {to} {file:?} {other:?}"));
        let node = held(fs, dir, &file);
        let answer = match (kind, node) {
            (0, _) => fs.make(dir, &file, &NewNode::file(0o644)).map(drop),
            (1, _) => fs.make(dir, &below, &NewNode::directory(0o755)).map(drop),
            (2, _) => fs.unlink(dir, &file),
            (3, _) => fs.rmdir(dir, &below),
            (4, _) => fs.rename(dir, &file, to, &other, RenameMode::Replace),
            (5, _) => fs.rename(dir, &below, to, &below, RenameMode::Exchange),
            (6, _) => fs.rename(dir, &below, to, &below, RenameMode::Replace),
            (7, Some(node)) => fs.link(node.ino(), to, &other),
            (8, Some(node)) => fs.write(node.ino(), u64::from(self.rng.below(50_000)), &[7; 3000]),
            _ => Ok(()),
        };
        match answer {
            // A directory that was removed is held, but takes no names.
            Err(Error::Core(Core::NoInode(ino))) if ino == dir || ino == to => Ok(()),
            Err(Error::Core(
                Core::NoEntry
                | Core::Exists
                | Core::NotEmpty
                | Core::IsDirectory(_)
                | Core::NotFile(_)
                | Core::NotDirectory(_)
                | Core::Limit(_)
                | Core::NoSpace(_),
            )) => Ok(()),
            answer => answer,
        }
    }
}

/// What `name` in `dir` names, held: from then on the number cannot become another file's. `None` as well where
/// that came too late.
fn held<'f>(fs: &'f Fs, dir: Ino, name: &[u8]) -> Option<Hold<'f>> {
    let find = || fs.lookup(&fs.inode(dir).ok()?, name).ok()?;
    let hold = fs.hold(find()?);
    (find() == Some(hold.ino())).then_some(hold)
}

/// Everything in a shared directory, by name.
fn names(fs: &Fs, dir: Ino) -> BTreeSet<Vec<u8>> {
    let portion = fs.read_dir(&fs.inode(dir).unwrap());
    assert!(portion.errors.is_empty(), "{:?}", portion.errors);
    portion.entries.into_iter().map(|entry| entry.name).collect()
}

fn together(shape: Shape, leave: Option<u64>, seed: u64, count: usize) {
    let dev = run::make(shape);
    let fs = Arc::new(run::open(Arc::clone(&dev) as Arc<dyn BlockDevice>));
    if let Some(leave) = leave {
        run::fill(&fs, leave);
    }
    let root = fs.volume().geo().rootino;
    let make = |name: &str| fs.make(root, name.as_bytes(), &NewNode::directory(0o755)).unwrap();
    let homes: Vec<Ino> = (0..THREADS).map(|n| make(&format!("home{n}"))).collect();
    let shared =
        Shared { fs: Arc::clone(&fs), own: [make("one"), make("two")], common: make("common") };
    let watch = Watch::default();
    let mut workers: Vec<Worker> = (0..THREADS)
        .map(|number| Worker {
            number,
            rng: Rng(seed * 1000 + number),
            shared: &shared,
            watch: &watch,
            names: [BTreeSet::new(), BTreeSet::new()],
        })
        .collect();
    let answers: Vec<Result<usize, String>> = std::thread::scope(|scope| {
        scope.spawn(|| watch.guard());
        let running: Vec<_> = workers
            .iter_mut()
            .zip(&homes)
            .map(|(worker, &home)| {
                let mut pair = Pair::below(Arc::clone(&dev), Arc::clone(&fs), home);
                let seed = seed * 100 + worker.number;
                scope.spawn(move || worker.run(&mut pair, seed, count))
            })
            .collect();
        let answers = running.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked: see above".to_owned()))
        });
        let answers = answers.collect();
        watch.done.store(true, Ordering::Relaxed);
        answers
    });
    let failed: Vec<String> = answers.iter().filter_map(|answer| answer.clone().err()).collect();
    assert!(failed.is_empty(), "seed {seed}: {failed:#?}");
    let refused: usize = answers.iter().filter_map(|answer| answer.as_ref().ok()).sum();
    assert_eq!(refused > 0, leave.is_some(), "seed {seed}: {refused} refused");
    for side in 0..2 {
        let expected: BTreeSet<Vec<u8>> =
            workers.iter().flat_map(|worker| worker.names[side].iter().cloned()).collect();
        assert_eq!(names(&fs, shared.own[side]), expected, "seed {seed}, directory {side}");
    }
    drop(workers);
    drop(shared);
    Arc::into_inner(fs).expect("all threads have ended").close().unwrap();
    run::judge_all(&dev).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
}

/// Some seeds, many more in the long run.
fn seeds(first: u64) -> std::ops::Range<u64> {
    let long = std::env::var_os("XFSKIT_LONG").is_some_and(|value| value == "1");
    first..first + if long { 40 } else { 4 }
}

#[test]
fn eight_threads_get_along_on_a_default_volume() {
    let shape = Shape::of(&[], 200 << 20);
    seeds(1).for_each(|seed| together(shape, None, seed, 300));
}

#[test]
fn eight_threads_get_along_on_small_blocks_with_parent_pointers() {
    let shape = Shape::of(&[("-b", "size=1024"), ("-n", "parent=1")], 200 << 20);
    seeds(100).for_each(|seed| together(shape, None, seed, 300));
}

#[test]
fn eight_threads_get_along_on_a_plain_volume() {
    let shape = Shape::of(
        &[("-m", "rmapbt=0,reflink=0,finobt=0"), ("-i", "sparse=0,nrext64=0")],
        200 << 20,
    );
    seeds(200).for_each(|seed| together(shape, None, seed, 300));
}

#[test]
fn eight_threads_get_along_with_extent_size_hints() {
    let shape = Shape::of(&[], 200 << 20).hinted(8);
    seeds(500).for_each(|seed| together(shape, None, seed, 300));
    let shape = Shape::of(&[], 64 << 20).hinted(8);
    seeds(600).for_each(|seed| together(shape, Some(60), seed, 300));
}

#[test]
fn eight_threads_get_along_in_one_group() {
    let shape = Shape::of(&[("-d", "agcount=1")], 200 << 20);
    seeds(300).for_each(|seed| together(shape, None, seed, 300));
}

#[test]
fn eight_threads_get_along_on_a_full_volume() {
    let shape = Shape::of(&[], 64 << 20);
    seeds(400).for_each(|seed| together(shape, Some(60), seed, 300));
}
