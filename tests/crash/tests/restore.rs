//! Removed files that are given back in place, with a power failure at any point. After recovery by
//! xfskit or the kernel, each file is there as it was, or not at all.

use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_core::restore::RestoredName;
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_crash::crash::WRITE_LOSSES;
use xfskit_test_crash::run::{self, Run, Testbed};
use xfskit_test_crash::{Crash, Crashes, verify};
use xfskit_test_support::{Need, Random, long, needs, volumes};
use xfskit_undelete::restore::{keep, obstacle, restore};
use xfskit_undelete::{Candidate, Options, find};
use xfskit_vfs::{Clock, Fs, Ino, NewNode, Timestamp};

/// The number of removed files. Their inodes fill more than one chunk.
const FILES: usize = 70;
/// The file with many extents, as many as one transaction frees and an inode holds.
const MANY: usize = 7;

/// Returns the content of file `n`.
fn content(n: usize) -> Vec<u8> {
    let len = if n == MANY { 36_000 } else { n * 700 };
    (0..len).map(|at| (at * 31 + at / 251 + n).to_le_bytes()[0] | 1).collect()
}

fn name(n: usize) -> String {
    format!("file{n}")
}

/// Makes a volume with a directory in which `FILES` files were removed.
fn base(options: &[(&str, &str)]) -> Arc<dyn BlockDevice> {
    let testbed = Testbed::over(volumes::make(300 << 20, options), &run::writable());
    let fs = &testbed.fs;
    let root = fs.volume().geo().rootino;
    let dir = fs.make(root, b"dir", &NewNode::directory(0o755)).expect("made");
    for n in 0..FILES {
        let ino = fs.make(dir, name(n).as_bytes(), &NewNode::file(0o640)).expect("made");
        if n == MANY {
            // Every second block.
            let handle = fs.open(ino).expect("opened");
            for (at, part) in (0..).step_by(4096).zip(content(n).chunks(4096)) {
                if (at / 4096) % 2 == 0 {
                    handle.write(at, part).expect("written");
                }
            }
            handle.close().expect("closed");
        } else {
            fs.write(ino, 0, &content(n)).expect("written");
        }
    }
    fs.sync().expect("synced");
    for n in 0..FILES {
        fs.unlink(dir, name(n).as_bytes()).expect("removed");
    }
    let made = testbed.finish(true);
    let dev = OverlayDevice::new(made.base);
    made.events.iter().for_each(|event| event.play(&dev).expect("in memory"));
    Arc::new(dev)
}

/// Returns the removed files that can be given back, and their directory.
fn removed(base: &Arc<dyn BlockDevice>) -> (Vec<Candidate>, Ino) {
    let volume = Volume::open(Arc::clone(base), &OpenOptions::default()).expect("opened");
    let found = find(&volume, &Options::default()).expect("searched");
    let good: Vec<Candidate> =
        found.candidates.into_iter().filter(|file| obstacle(file).is_none()).collect();
    // What freeing a file takes in several steps need not be good.
    assert!(good.len() + 1 >= FILES, "{} are good", good.len());
    let dir = good.iter().find_map(|file| file.names.first()?.parent).expect("a directory");
    (good, dir)
}

/// Gives all files back, each in a step of its own that is durable before the next.
fn give_back(base: Arc<dyn BlockDevice>) -> Run {
    let (files, dir) = removed(&base);
    let mut options = run::writable();
    options.journal.wsync = true;
    let mut testbed = Testbed::over(base, &options);
    let now = Timestamp { sec: 1_800_000_000, nsec: 7 };
    for file in &files {
        testbed.step(|fs| {
            let _kept = keep(fs.volume(), &files);
            let name = RestoredName { dir, name: &file.names[0].name };
            restore(fs.volume(), file, &[name], now).expect("given back");
        });
    }
    testbed.finish(false)
}

/// Recovers `dev`. Returns the number of files that are there; each as it was.
fn verify_files(dev: Arc<dyn BlockDevice>) -> Result<usize, String> {
    let volume = Volume::open(dev, &OpenOptions::default()).map_err(|why| why.to_string())?;
    let fs = Fs::new(volume, Clock::system());
    let root = fs.root().expect("the root");
    let dir = fs.lookup_inode(&root, b"dir").expect("looked up").expect("the directory");
    let mut count = 0;
    for n in 0..FILES {
        let Some(inode) =
            fs.lookup_inode(&dir, name(n).as_bytes()).map_err(|why| why.to_string())?
        else {
            continue;
        };
        let mut wanted = content(n);
        if n == MANY {
            wanted.chunks_mut(4096).skip(1).step_by(2).for_each(|hole| hole.fill(0));
        }
        let mut bytes = vec![0xee; wanted.len() + 10];
        let len = fs.read(inode.ino(), 0, &mut bytes).map_err(|why| why.to_string())?;
        if bytes[..len] != wanted[..] {
            return Err(format!(
                "{}: {len} bytes, other than the {} it had",
                name(n),
                wanted.len()
            ));
        }
        count += 1;
    }
    Ok(count)
}

fn stress_case(options: &[(&str, &str)]) {
    let kernel = needs(&[Need::Mount, Need::Xfsprogs]);
    let run = give_back(base(options));
    let mut random = Random::new(0x7e57);
    let mut crashes = Crashes::new(run.base.clone(), &run.events);
    let (mut seen, mut asked) = ([0; FILES + 1], 0);
    while crashes.left() > 0 {
        crashes.advance();
        // Hundreds of steps look alike.
        let rare = if long() { 1 } else { 4 };
        if crashes.left() > 0 && !random.one_in(rare) {
            continue;
        }
        let loss = WRITE_LOSSES[random.below(WRITE_LOSSES.len())];
        let crash: Crash = crashes.crash(loss, &mut random);
        let at = format!("{options:?}, {} events, {loss:?}", crash.begun);
        let recovered = verify::recovery(&run, &crash).unwrap_or_else(|why| panic!("{at}: {why}"));
        let count = verify_files(crash.dev.clone()).unwrap_or_else(|why| panic!("{at}: {why}"));
        seen[count] += 1;
        if kernel && random.one_in(if long() { 5 } else { 20 }) {
            let case = verify::Case::new(&crash, &recovered);
            case.verify().unwrap_or_else(|why| panic!("{at}: {why}"));
            asked += 1;
        }
    }
    let states = seen.iter().filter(|count| **count > 0).count();
    assert!(states > 10 && seen[FILES - 5..].iter().any(|count| *count > 0), "{seen:?}");
    eprintln!("{states} numbers of files; the kernel agreed {asked} times");
}

#[test]
fn each_file_is_given_back_whole_or_not_at_all_with_reverse_mappings() {
    stress_case(&[("-m", "rmapbt=1")]);
}

#[test]
fn each_file_is_given_back_whole_or_not_at_all_with_parent_pointers() {
    stress_case(&[("-n", "parent=1")]);
}

#[test]
fn each_file_is_given_back_whole_or_not_at_all_without_newer_trees() {
    stress_case(&[("-m", "rmapbt=0,reflink=0,finobt=0"), ("-b", "size=1k")]);
}
