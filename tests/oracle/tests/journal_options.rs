//! The journal's options of mount(8): when changes are durable, how long records are, and that the
//! kernel recovers all of them.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use xfskit::raw::block::{BlockDevice, CountingDevice, FileDevice, OpenMode};
use xfskit::raw::core::{OpenOptions, Volume};
use xfskit::raw::log::Log;
use xfskit::raw::vfs::{Clock, Fs, NewNode, Timestamp};
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, needs, ours, verify};

const FILES: usize = 300;

/// Creates files and leaves the volume dirty, as a crash does. Returns the number of flushes and
/// the length of the longest record.
fn leave_dirty(image: &Image, words: &str, sync: bool) -> (u64, u32) {
    let device = FileDevice::open(image.path(), OpenMode::ReadWrite).expect("open the image");
    let device = Arc::new(CountingDevice::new(Arc::new(device)));
    let journal = words.parse().expect("options");
    let options = OpenOptions { write: true, journal, ..OpenOptions::default() };
    let base = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let volume = Volume::open(base, &options).expect("open the volume");
    let fs = Fs::new(volume, Clock::fixed(Timestamp { sec: 1_700_000_000, nsec: 5 }));
    let before = device.counts().flushes;
    let root = fs.volume().geo().rootino;
    for n in 0..FILES {
        let ino = fs.make(root, name(n).as_bytes(), &NewNode::file(0o644)).expect("make");
        if n % 100 == 0 {
            fs.open(ino).expect("open").write(0, name(n).as_bytes()).expect("write");
        }
    }
    if sync {
        fs.sync().expect("sync");
    }
    let flushes = device.counts().flushes - before;
    let geo = fs.volume().geo().clone();
    drop(fs);
    let log = Log::open(&*device, geo.log_daddr().expect("internal"), &geo).expect("a journal");
    let sizes = log.records().map(|record| record.expect("a record").header.size.get());
    (flushes, sizes.max().expect("records"))
}

fn name(n: usize) -> String {
    format!("file{n}")
}

#[test]
fn every_journal_option_has_its_effect_and_the_kernel_recovers_the_journal() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("journal-options");
    for (words, sync, record) in [
        ("", true, 32 << 10),
        ("logbsize=256k", true, 256 << 10),
        ("logbsize=16k,logbufs=2", true, 16 << 10),
        ("wsync", false, 32 << 10),
        ("nobarrier", true, 32 << 10),
    ] {
        let image = Image::sparse(&scratch, "volume.img", 300 << 20);
        ours::mkfs(&image, &[]).expect("mkfs");
        let (flushes, longest) = leave_dirty(&image, words, sync);
        assert_eq!(longest, record, "{words}");
        match words {
            "wsync" => assert!(flushes >= FILES as u64, "{words}: {flushes} flushes"),
            "nobarrier" => assert_eq!(flushes, 0, "{words}"),
            _ => assert!((1..100).contains(&flushes), "{words}: {flushes} flushes"),
        }
        Mount::recover(&image, &scratch).expect("mount");
        for tools in Xfsprogs::all() {
            tools.repair_n(&image, &[]).expect("xfs_repair");
        }
        let mount = Mount::read_only(&image, &scratch).expect("mount");
        let found = fs::read_dir(mount.path()).unwrap();
        let found: BTreeSet<_> = found.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(found, (0..FILES).map(|n| name(n).into()).collect(), "{words}");
        if sync {
            assert_eq!(fs::read_to_string(mount.path().join("file200")).unwrap(), name(200));
        }
        mount.unmount().expect("unmount");
        verify::volume(&image, &scratch).expect("sound");
    }
}
