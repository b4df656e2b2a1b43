//! All threads at once on a volume with a small journal and smaller caches: names, content,
//! attributes, syncs, readers, the checkpoint thread and writeback. The volume is sound afterwards.
//! Under `make tsan`, ThreadSanitizer reports data races on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xfskit_block::BlockDevice;
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_support::{Random, volumes};
use xfskit_vfs::{Clock, Error, Fs, Ino, NewNode, RenameMode, SetMode};

const WRITERS: u64 = 4;

/// Runs random operations in a directory that all threads share and in the writer's own.
fn write(fs: &Fs, shared: Ino, own: Ino, random: &mut Random) -> Result<(), Error> {
    let dir = if random.below(3) == 0 { shared } else { own };
    let name = format!("name{}", random.below(50)).into_bytes();
    let other = format!("name{}", random.below(50)).into_bytes();
    let found = fs.lookup(&fs.inode(dir)?, &name)?;
    match (random.below(12), found) {
        (0..4, _) | (_, None) => drop(fs.make(dir, &name, &NewNode::file(0o644))?),
        (4, _) => fs.unlink(dir, &name)?,
        (5, _) => fs.rename(dir, &name, own, &other, RenameMode::Replace)?,
        (6, Some(ino)) => fs.link(ino, dir, &other)?,
        (7, Some(ino)) => {
            let value = vec![1; random.below(3000)];
            fs.set_xattr(ino, b"user.value", &value, SetMode::Any)?;
        }
        (8, Some(ino)) => fs.open(ino)?.truncate(random.below(50_000))?,
        (9, Some(ino)) => fs.fsync(ino)?,
        (10, Some(_)) if random.below(10) == 0 => fs.sync()?,
        (_, Some(ino)) => {
            let handle = fs.open(ino)?;
            handle.write(random.below(40_000), &[7; 5000])?;
            if random.below(3) == 0 {
                handle.fsync()?;
            }
        }
    }
    Ok(())
}

/// Reads everything repeatedly.
fn read(fs: &Fs, dir: Ino, stop: &AtomicBool) {
    let mut buf = vec![0; 10_000];
    while !stop.load(Ordering::Relaxed) {
        let Ok(inode) = fs.inode(dir) else { continue };
        for entry in fs.read_dir(&inode).entries {
            // The inode may have been removed or reused.
            if let Ok(inode) = fs.inode(entry.ino) {
                let _ = (fs.stat(&inode), fs.xattrs(&inode));
                let _ = fs.read(entry.ino, 0, &mut buf);
            }
        }
        let _ = fs.statfs();
    }
}

fn stress(bytes: u64, steps: usize) {
    let dev: Arc<dyn BlockDevice> = volumes::make(bytes, &[]);
    let options = OpenOptions { write: true, cache_bytes: 2 << 20, ..OpenOptions::default() };
    let fs = Fs::new(Volume::open(Arc::clone(&dev), &options).unwrap(), Clock::system());
    let root = fs.volume().geo().rootino;
    let make = |name: String| fs.make(root, name.as_bytes(), &NewNode::directory(0o755)).unwrap();
    let shared = make("shared".to_owned());
    let homes: Vec<Ino> = (0..WRITERS).map(|n| make(format!("home{n}"))).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut random = Random::of_test(1);
        let writers: Vec<_> = homes
            .iter()
            .map(|&own| {
                let (fs, mut random) = (&fs, random.fork());
                scope.spawn(move || {
                    for _ in 0..steps {
                        if let Err(error) = write(fs, shared, own, &mut random) {
                            // EIO and EUCLEAN are failures. Other errors depend on the order of the
                            // threads.
                            assert!(![5, 117].contains(&error.errno()), "{error}");
                        }
                    }
                })
            })
            .collect();
        for dir in [shared, homes[0]] {
            let (fs, stop) = (&fs, &stop);
            scope.spawn(move || read(fs, dir, stop));
        }
        let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    fs.close().unwrap();
    let mut findings = Vec::new();
    let options = xfskit_check::Options::default();
    xfskit_check::check(&*dev, None, &options, &mut |finding| findings.push(finding)).unwrap();
    assert!(findings.is_empty(), "{findings:?}");
}

/// Returns the number of operations of each writer: more with `XFSKIT_LONG=1`.
fn steps() -> usize {
    if std::env::var_os("XFSKIT_LONG").is_some_and(|value| value == "1") { 20_000 } else { 800 }
}

#[test]
fn threads_on_a_small_journal_leave_a_sound_volume() {
    stress(64 << 20, steps());
}

#[test]
fn threads_beside_the_checkpoint_thread_leave_a_sound_volume() {
    stress(1 << 30, steps());
}
