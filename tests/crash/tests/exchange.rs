//! Exchange-range of two files with many extents, each step in a checkpoint of its own, with a
//! power failure at any point. After recovery by xfskit or the kernel, both files are unchanged, or
//! both are exchanged.

use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_crash::run::{self, Run, Testbed};
use xfskit_test_crash::{Crash, Crashes, WriteLoss, verify};
use xfskit_test_recovery::compare_finished;
use xfskit_test_support::matrix::named;
use xfskit_test_support::{Image, Need, Random, Scratch, long, needs, volumes};
use xfskit_vfs::{Clock, Fs, Handle, NewNode};

/// Which writes arrive. The kernel takes part for disks whose sectors are as long as blocks.
const WRITE_LOSSES: [WriteLoss; 4] = [
    WriteLoss { sector: 4096, lost_one_in: 0, torn_one_in: 0 },
    WriteLoss { sector: 4096, lost_one_in: usize::MAX, torn_one_in: 0 },
    WriteLoss { sector: 4096, lost_one_in: 1, torn_one_in: 0 },
    WriteLoss { sector: 512, lost_one_in: 3, torn_one_in: 30 },
];

/// The content of both files.
type Pair = [Vec<u8>; 2];

fn find<'f>(fs: &'f Fs, name: &str) -> Handle<'f> {
    let root = fs.root().expect("the root");
    let ino = fs.lookup(&root, name.as_bytes()).expect("looked up").expect("a file");
    fs.open(ino).expect("opened")
}

fn content(fs: &Fs, name: &str) -> Vec<u8> {
    let root = fs.root().expect("the root");
    let ino = fs.lookup(&root, name.as_bytes()).expect("looked up").expect("a file");
    let size = fs.stat(&fs.inode(ino).expect("an inode")).size;
    let mut all = vec![0xee; usize::try_from(size).expect("small")];
    assert_eq!(fs.read(ino, 0, &mut all).expect("read"), all.len());
    all
}

fn pair(fs: &Fs) -> Pair {
    ["one", "two"].map(|name| content(fs, name))
}

/// Makes a volume with two files of different lengths, in at least `pieces` extents.
fn base(options: &[(&str, &str)], pieces: u64) -> Arc<dyn BlockDevice> {
    let testbed = Testbed::over(volumes::make(300 << 20, options), &run::writable());
    let root = testbed.fs.volume().geo().rootino;
    for (name, every, count) in [("one", 2, pieces), ("two", 3, pieces + 40)] {
        let ino = testbed.fs.make(root, name.as_bytes(), &NewNode::file(0o644)).expect("made");
        let handle = testbed.fs.open(ino).expect("opened");
        for n in 0..count {
            let fill = (n % 250 + every).to_be_bytes()[7];
            handle.write(n * every * 4096, &[fill; 4096]).expect("written");
        }
        handle.close().expect("closed");
    }
    let made = testbed.finish(true);
    let dev = OverlayDevice::new(made.base);
    made.events.iter().for_each(|event| event.play(&dev).expect("in memory"));
    Arc::new(dev)
}

/// Runs the exchange, with each step durable before the next. Returns the content of the files
/// before and after.
fn exchange(base: Arc<dyn BlockDevice>, whole: bool) -> (Run, [Pair; 2]) {
    let mut options = run::writable();
    options.journal.wsync = true;
    let mut testbed = Testbed::over(base, &options);
    let before = pair(&testbed.fs);
    testbed.step(|fs| {
        let (one, two) = (find(fs, "one"), find(fs, "two"));
        if whole {
            one.exchange(&two).expect("exchanged");
        } else {
            let end = one.size().min(two.size()) / 4096 * 4096;
            one.exchange_range(5 * 4096..end - 4096, &two, 6 * 4096).expect("exchanged");
        }
    });
    let after = pair(&testbed.fs);
    (testbed.finish(false), [before, after])
}

/// Recovers `dev` and returns the content of the files.
fn recovered(dev: Arc<dyn BlockDevice>) -> (usize, Pair) {
    let volume = Volume::open(dev, &OpenOptions::default()).expect("recovered in memory");
    let finished = volume.replay().map_or(0, |replay| replay.finished);
    (usize::try_from(finished).expect("few"), pair(&Fs::new(volume, Clock::system())))
}

fn with_kernel(name: &str, crash: &Crash) {
    let scratch = Scratch::new("crashed-exchange");
    let image = Image::of_device(&scratch, "crashed.img", &*crash.dev);
    compare_finished(name, &named("exchange"), &image, &scratch);
}

fn stress_case(options: &[(&str, &str)], whole: bool) {
    let kernel = needs(&[Need::Mount, Need::Xfsprogs]);
    let pieces = if long() { 1000 } else { 200 };
    let (run, both) = exchange(base(options, pieces), whole);
    let mut random = Random::new(pieces ^ 0x5eed);
    let mut crashes = Crashes::new(run.base.clone(), &run.events);
    let (mut cut, mut asked, mut seen) = (0, 0, [0; 2]);
    while crashes.left() > 0 {
        crashes.advance();
        for loss in WRITE_LOSSES {
            let crash = crashes.crash(loss, &mut random);
            let at = format!("{options:?}, {} events, {loss:?}", crash.begun);
            verify::recovery(&run, &crash).unwrap_or_else(|why| panic!("{at}: {why}"));
            let (finished, found) = recovered(crash.dev.clone());
            let state = both.iter().position(|pair| *pair == found);
            seen[state.unwrap_or_else(|| {
                panic!("{at}: neither the state before nor the state after")
            })] += 1;
            cut += finished;
            let often = if long() { 6 } else { 12 };
            if kernel && finished > 0 && loss.sector == 4096 && random.one_in(often) {
                with_kernel(&at, &crash);
                asked += 1;
            }
        }
    }
    assert!(cut > 20 && seen[0] > 0 && seen[1] > 0, "{cut} cut, {seen:?}");
    eprintln!("{cut} exchanges interrupted, {asked} of them finished by the kernel too; {seen:?}");
}

#[test]
fn an_exchange_of_files_is_atomic_across_every_crash() {
    stress_case(&[("-i", "exchange=1"), ("-n", "parent=1")], true);
}

#[test]
fn an_exchange_of_ranges_is_atomic_across_every_crash() {
    stress_case(&[("-i", "exchange=1"), ("-m", "rmapbt=0,reflink=0")], false);
}
