//! Promises in the journal: work in steps, while other threads force the journal out between them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use xfskit_block::OpenMode;
use xfskit_core::recovery::open_log;
use xfskit_core::volume::read_superblock;
use xfskit_format::log::item::{Item, split};
use xfskit_log::record::Crc;
use xfskit_log::{Records, Transactions};
use xfskit_test_oracle::matrix::named;
use xfskit_test_oracle::need::{Need, note};
use xfskit_test_oracle::{Image, Scratch, needs};
use xfskit_test_recovery::{compare, open};

/// How long it blows.
const STORM: Duration = Duration::from_millis(1500);

/// Clones, renames over, cuts and removes: each a chain of transactions.
fn work(root: &Path, stop: &AtomicBool) {
    let source = File::create(root.join("source")).expect("a file");
    for n in 0..64 {
        source.write_all_at(&[1; 4096], n * 8192).expect("written");
    }
    source.sync_all().expect("synced");
    let mut n = 0u32;
    // An error ends the work: the volume has stopped.
    let mut step = || -> std::io::Result<()> {
        n += 1;
        let (new, old) = (root.join(format!("new{n}")), root.join(format!("old{}", n % 7)));
        let file = File::create(&new)?;
        let _ = rustix::fs::ioctl_ficlone(&file, &source);
        fs::rename(&new, &old)?;
        fs::hard_link(&old, root.join(format!("link{}-{}", n % 50, "x".repeat(60)))).ok();
        fs::remove_file(root.join(format!("link{}-{}", (n + 25) % 50, "x".repeat(60)))).ok();
        file.set_len(u64::from(n % 60) * 4096)?;
        file.write_all_at(&[2; 3 * 4096], u64::from(n % 50) * 8192)
    };
    while !stop.load(Ordering::Relaxed) && step().is_ok() {}
}

fn force(root: &Path, name: &str, stop: &AtomicBool) {
    let Ok(file) = File::create(root.join(name)) else { return };
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        if file.write_all_at(&[3; 16], n * 16).is_err() || file.sync_all().is_err() {
            break;
        }
    }
}

/// How often each kind of promise was made and kept since the journal last began at its start.
fn promises(image: &Image<'_>) -> BTreeMap<&'static str, u32> {
    let dev = open(image.path(), OpenMode::ReadOnly);
    let geo = read_superblock(&dev).expect("superblock").geometry();
    let log = open_log(&dev, None, &geo).expect("log");
    let mut counts = BTreeMap::new();
    let ring = log.ring();
    let first = ring.first_record(log.head().block()).expect("readable").expect("a record");
    let lap = Records::new(ring, first, log.head().block()).crc(Crc::IfPresent);
    let mut transactions = Transactions::new(lap);
    while let Some(transaction) = transactions.next() {
        let transaction = transaction.expect("a good transaction");
        let ctx = transactions.ctx(&transaction);
        let regions = transaction.regions();
        for item in split(&regions[1..], &ctx) {
            let item = Item::decode(item.expect("an item"), &ctx).expect("a good item");
            let name = match item {
                Item::Intent(intent) => intent.family.intent_name(),
                Item::Done(done) => done.family.done_name(),
                _ => continue,
            };
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

#[test]
fn promises_are_read_and_those_not_kept_are_named() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let mut seen = 0;
    for volume in ["rmapbt", "parent", "rmapbt", "parent"] {
        let scratch = Scratch::new("storm");
        let Some(image) = storm(&scratch, volume) else { continue };
        let promises = promises(&image);
        let replay = compare(volume, &image, &scratch);
        let unfinished: Vec<_> = replay.unfinished.iter().map(|i| i.family.intent_name()).collect();
        eprintln!("{volume}: {promises:?}, not kept: {unfinished:?}");
        seen += promises.values().sum::<u32>();
        if seen > 20 {
            return;
        }
    }
    if seen == 0 {
        note("the journal was never forced between two steps");
    }
}

/// A volume that stopped in the middle of the storm.
fn storm<'scratch>(scratch: &'scratch Scratch, volume: &'static str) -> Option<Image<'scratch>> {
    let case = named(volume);
    let image = case.make(scratch)?;
    let mount = case.mount(&image, scratch, "")?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| work(mount.path(), &stop));
        for name in ["force0", "force1", "force2"] {
            let (root, stop) = (mount.path(), &stop);
            threads.spawn(move || force(root, name, stop));
        }
        std::thread::sleep(STORM);
        mount.shutdown(false).expect("shutdown");
        stop.store(true, Ordering::Relaxed);
    });
    mount.unmount().expect("unmount");
    Some(image)
}
