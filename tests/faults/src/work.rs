//! The workload: one operation of every kind, and some that need more than one block of every
//! structure.

use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_support::volumes;
use xfskit_units::Ino;
use xfskit_vfs::{Clock, Error, Fs, Handle, NewNode, RenameMode, SetAttr, SetMode, Timestamp};

/// Size of the volume, in bytes. Its journal is of the smallest size, so no background thread runs
/// and all runs are alike.
const SIZE: u64 = 64 << 20;
const BLOCK: u64 = 1024;

/// One operation.
#[derive(Clone, Copy)]
pub struct Step {
    /// Description of the operation.
    pub name: &'static str,
    /// Runs the operation.
    pub run: fn(&Fs) -> Result<(), Error>,
    /// Whether the operation and all before it are durable afterwards.
    pub syncs: bool,
    /// Whether the operation takes several transactions and may stop between them if the device
    /// fails.
    pub in_steps: bool,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Formats a new volume.
///
/// # Panics
/// If it cannot be formatted.
pub fn volume() -> Arc<dyn BlockDevice> {
    volumes::make(SIZE, &[("-b", "size=1024"), ("-i", "exchange=1"), ("-n", "parent=1")])
}

/// Opens `dev` for writing, with little memory, so that blocks are read repeatedly.
///
/// # Errors
/// Those of the volume.
pub fn open(dev: Arc<dyn BlockDevice>) -> Result<Fs, xfskit_core::Error> {
    let options = OpenOptions { write: true, cache_bytes: 128 << 10, ..OpenOptions::default() };
    let clock = Clock::fixed(Timestamp { sec: 1_700_000_000, nsec: 5 });
    Ok(Fs::new(Volume::open(dev, &options)?, clock))
}

/// Returns a volume with some of the steps done, which was not closed: its journal is dirty.
///
/// # Panics
/// If a step fails.
pub fn dirty() -> Arc<dyn BlockDevice> {
    let dev: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::new(volume()));
    let fs = open(Arc::clone(&dev)).expect("opened");
    let root = root(&fs);
    for n in 0..40 {
        let name = format!("before-{n}-{}", "x".repeat(n));
        let ino = fs.make(root, name.as_bytes(), &NewNode::file(0o644)).expect("made");
        fs.write(ino, 0, &vec![7; 100 * n]).expect("written");
    }
    fs.sync().expect("synced");
    fs.volume().engine().expect("writable").write_back().expect("written back");
    for n in (0..40).step_by(3) {
        let name = format!("before-{n}-{}", "x".repeat(n));
        fs.unlink(root, name.as_bytes()).expect("removed");
    }
    fs.sync().expect("synced");
    dev
}

fn root(fs: &Fs) -> Ino {
    fs.volume().geo().rootino
}

fn find(fs: &Fs, path: &str) -> Result<Ino, Error> {
    let mut ino = root(fs);
    for name in path.split('/') {
        let found = fs.lookup(&fs.inode(ino)?, name.as_bytes())?;
        ino = found.ok_or(Error::Core(xfskit_core::Error::NoEntry))?;
    }
    Ok(ino)
}

/// Opens a file, runs `work`, and closes the file.
fn with(fs: &Fs, path: &str, work: impl Fn(&Handle<'_>) -> Result<(), Error>) -> Result<(), Error> {
    let handle = fs.open(find(fs, path)?)?;
    work(&handle)?;
    handle.close()
}

/// Opens two files, runs `work`, and closes them.
fn with_both(
    fs: &Fs,
    [one, other]: [&str; 2],
    work: impl Fn(&Handle<'_>, &Handle<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    with(fs, one, |one| with(fs, other, |other| work(one, other)))
}

/// Creates a node, unless it already exists: the operation is repeated after a failure.
fn make_one(fs: &Fs, dir: &str, name: &str, new: &NewNode) -> Result<(), Error> {
    let dir = if dir.is_empty() { root(fs) } else { find(fs, dir)? };
    match fs.make(dir, name.as_bytes(), new) {
        Err(Error::Core(xfskit_core::Error::Exists)) => Ok(()),
        result => result.map(drop),
    }
}

fn comb(handle: &Handle<'_>, every: u64, fill: u8) -> Result<(), Error> {
    (0..60).try_for_each(|n| handle.write(n * every * BLOCK, &[fill; 1024]))
}

const fn step(name: &'static str, run: fn(&Fs) -> Result<(), Error>) -> Step {
    Step { name, run, syncs: false, in_steps: false }
}

const fn long(name: &'static str, run: fn(&Fs) -> Result<(), Error>) -> Step {
    Step { in_steps: true, ..step(name, run) }
}

const SYNC: Step = Step { syncs: true, ..step("sync", Fs::sync) };

const WRITE_BACK: Step = step("write back", |fs| {
    let engine = fs.volume().engine().map_err(Error::Core)?;
    engine.write_back().map_err(|error| Error::Core(error.into()))
});

/// Writes everything in place and empties the cache.
const COLD_CACHE: Step = Step {
    syncs: true,
    ..step("sync and write back", |fs| {
        fs.sync()?;
        (WRITE_BACK.run)(fs)?;
        // The next steps read all blocks again.
        fs.volume().cache().clear();
        Ok(())
    })
};

/// The steps of the workload.
pub const STEPS: &[Step] = &[
    step("make a file", |fs| make_one(fs, "", "a", &NewNode::file(0o644))),
    step("write it", |fs| with(fs, "a", |a| a.write(0, &[1; 30_000]))),
    step("make a directory", |fs| make_one(fs, "", "d", &NewNode::directory(0o755))),
    long("make many", |fs| {
        (0..60).try_for_each(|n| {
            let name = format!("name-{n}-{}", "y".repeat(30));
            make_one(fs, "d", &name, &NewNode::file(0o600))
        })
    }),
    SYNC,
    step("short symlink", |fs| make_one(fs, "d", "short", &NewNode::symlink(b"target"))),
    step("long symlink", |fs| make_one(fs, "d", "long", &NewNode::symlink(&[b't'; 900]))),
    step("link", |fs| fs.link(find(fs, "a")?, root(fs), b"b")),
    WRITE_BACK,
    step("set a short attribute", |fs| {
        fs.set_xattr(find(fs, "a")?, b"user.short", b"value", SetMode::default())
    }),
    step("set a long attribute", |fs| {
        fs.set_xattr(find(fs, "a")?, b"user.long", &[9; 5000], SetMode::default())
    }),
    step("comb", |fs| {
        make_one(fs, "", "c", &NewNode::file(0o644))?;
        with(fs, "c", |c| comb(c, 2, 3))
    }),
    SYNC,
    step("another", |fs| {
        make_one(fs, "", "e", &NewNode::file(0o644))?;
        with(fs, "e", |e| comb(e, 3, 5))
    }),
    COLD_CACHE,
    long("exchange", |fs| {
        with_both(fs, ["c", "e"], |c, e| {
            c.exchange(e)?;
            c.exchange_range(7 * BLOCK..90 * BLOCK, e, 20 * BLOCK)
        })
    }),
    WRITE_BACK,
    COLD_CACHE,
    long("share", |fs| with_both(fs, ["c", "e"], |c, e| c.share(0, e, 0..40 * BLOCK))),
    step("write into it", |fs| with(fs, "c", |c| c.write(3 * BLOCK + 7, &[8; 3000]))),
    COLD_CACHE,
    long("punch", |fs| with(fs, "e", |e| e.punch(5 * BLOCK..50 * BLOCK))),
    long("preallocate", |fs| with(fs, "e", |e| e.preallocate(0..70 * BLOCK, true))),
    long("zero", |fs| with(fs, "e", |e| e.zero(2 * BLOCK + 5..9 * BLOCK, true))),
    SYNC,
    COLD_CACHE,
    long("collapse", |fs| with(fs, "c", |c| c.collapse(4 * BLOCK..10 * BLOCK))),
    COLD_CACHE,
    long("insert", |fs| with(fs, "c", |c| c.insert(2 * BLOCK..5 * BLOCK))),
    COLD_CACHE,
    long("unshare", |fs| with(fs, "c", |c| c.unshare(0..40 * BLOCK))),
    WRITE_BACK,
    step("rename", |fs| {
        let d = find(fs, "d")?;
        fs.rename(d, b"short", root(fs), b"moved", RenameMode::Replace)
    }),
    COLD_CACHE,
    step("rename over another", |fs| {
        fs.rename(root(fs), b"e", root(fs), b"a", RenameMode::Replace)
    }),
    step("change mode and owner", |fs| {
        let set = SetAttr { perm: Some(0o604), uid: Some(12), ..SetAttr::default() };
        fs.set_attr(find(fs, "c")?, &set)
    }),
    SYNC,
    COLD_CACHE,
    step("remove an attribute", |fs| fs.remove_xattr(find(fs, "b")?, b"user.long")),
    COLD_CACHE,
    long("truncate", |fs| with(fs, "c", |c| c.truncate(BLOCK + 3))),
    step("unlink", |fs| fs.unlink(root(fs), b"b")),
    COLD_CACHE,
    long("unlink many", |fs| {
        let d = find(fs, "d")?;
        (0..60).step_by(2).try_for_each(|n| {
            let name = format!("name-{n}-{}", "y".repeat(30));
            match fs.unlink(d, name.as_bytes()) {
                Err(Error::Core(xfskit_core::Error::NoEntry)) => Ok(()),
                result => result,
            }
        })
    }),
    WRITE_BACK,
    step("fsync", |fs| fs.fsync(find(fs, "a")?)),
];
