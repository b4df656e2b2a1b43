//! Changes that need a damaged structure fail by name, and nothing becomes worse.

use crate::common;

use common::{SIZE, make, open, snapshot};
use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::Error as Core;
use xfskit_units::ByteOffset;
use xfskit_vfs::{Error, Fs, Ino, NewNode};

const TEXT: &[u8] = &[7; 50_000];

/// The structures to damage, by magic: directory blocks, AG headers, trees of free space and
/// inodes.
const STRUCTURES: [[u8; 4]; 7] =
    [*b"XDD3", *b"XAGF", *b"XAGI", *b"AB3B", *b"AB3C", *b"IAB3", *b"FIB3"];

/// The byte that is changed.
const WRONG: u64 = 100;

/// Makes a directory of 300 names, and a file beside it.
fn filled() -> std::sync::Arc<MemDevice> {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let root = fs.volume().geo().rootino;
    let dir = fs.make(root, b"dir", &NewNode::directory(0o755)).unwrap();
    for n in 0..300 {
        fs.make(dir, format!("name{n}").as_bytes(), &NewNode::file(0o644)).unwrap();
    }
    let file = fs.make(root, b"file", &NewNode::file(0o644)).unwrap();
    fs.write(file, 0, TEXT).unwrap();
    fs.close().unwrap();
    dev
}

/// Damages every such structure outside of the journal. Returns their locations.
fn damage(dev: &MemDevice, magic: [u8; 4], journal: std::ops::Range<u64>) -> Vec<u64> {
    let mut found = Vec::new();
    for at in (0..SIZE).step_by(512).filter(|at| !journal.contains(at)) {
        let mut start = [0; 4];
        dev.read_at(ByteOffset(at), &mut start).unwrap();
        if start == magic {
            let mut wrong = [0];
            dev.read_at(ByteOffset(at + WRONG), &mut wrong).unwrap();
            dev.write_at(ByteOffset(at + WRONG), &[!wrong[0]]).unwrap();
            found.push(at);
        }
    }
    found
}

#[test]
fn a_listing_sees_names_that_come_twice_in_different_portions() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let root = fs.volume().geo().rootino;
    for name in [b"n1", b"m1", b"n2"] {
        fs.make(root, name, &NewNode::file(0o644)).unwrap();
    }
    fs.close().unwrap();
    let (at, mut inode) = (ByteOffset(root.0 * 512), [0; 512]);
    dev.read_at(at, &mut inode).unwrap();
    let name = inode.windows(2).rposition(|name| name == b"n2").unwrap();
    inode[name + 1] = b'1';
    xfskit_crc::update(&mut inode, 100);
    dev.write_at(at, &inode).unwrap();
    let fs = open(&dev, false);
    assert_eq!(fs.read_dir(&fs.root().unwrap()).errors.len(), 1);
    let mut listing = fs.listing(fs.root().unwrap());
    let mut errors = Vec::new();
    while let Some(portion) = listing.portion(1) {
        errors.extend(portion.errors);
    }
    assert!(
        matches!(&errors[..], [Error::Core(Core::Corrupt(fault))] if fault.check.0 == "dir.dup")
    );
}

/// Makes changes of all kinds. Returns the number of those that failed because of damage.
fn change(fs: &Fs) -> usize {
    let root = fs.volume().geo().rootino;
    let inode = fs.root().unwrap();
    let dir: Ino = fs.lookup(&inode, b"dir").unwrap().unwrap();
    let large = || {
        let file = fs.make(root, b"large", &NewNode::file(0o644))?;
        fs.write(file, 0, &vec![1; 300_000])?;
        fs.fsync(file)
    };
    let results = [
        fs.make(dir, b"another", &NewNode::file(0o644)).map(drop),
        fs.unlink(dir, b"name7"),
        fs.rename(dir, b"name8", root, b"moved", xfskit_vfs::RenameMode::Replace),
        large(),
    ];
    let failed = results.into_iter().filter_map(Result::err);
    let by_name = |error: &Error| matches!(error, Error::Core(Core::Corrupt(_) | Core::Trans(_)));
    failed.inspect(|error| assert!(by_name(error), "{error:?}")).count()
}

#[test]
fn damaged_structures_are_named_and_left_unchanged() {
    let whole = filled();
    let geo = open(&whole, false).volume().geo().clone();
    let journal = geo.log_daddr().unwrap().byte_offset().0;
    let journal = journal..journal + (u64::from(geo.logblocks) << geo.blocklog);
    for magic in STRUCTURES {
        let name = String::from_utf8_lossy(&magic);
        let dev = snapshot(&whole);
        let places = damage(&dev, magic, journal.clone());
        assert!(!places.is_empty(), "{name}: nothing to damage");
        let damaged = snapshot(&dev);
        let options = xfskit_core::OpenOptions { write: true, ..Default::default() };
        match xfskit_core::Volume::open(dev.clone(), &options) {
            Err(error) => assert!(matches!(error, Core::Corrupt(_)), "{name}: {error:?}"),
            Ok(volume) => {
                let fs = Fs::new(volume, common::clock());
                assert!(change(&fs) > 0, "{name}: all changes succeeded");
                // The volume may have been shut down.
                let _closed = fs.close();
            }
        }
        for at in places {
            let (mut before, mut after) = ([0; 512], [0; 512]);
            damaged.read_at(ByteOffset(at), &mut before).unwrap();
            dev.read_at(ByteOffset(at), &mut after).unwrap();
            assert_eq!(before, after, "{name}: what is damaged was written");
        }
        let fs = open(&dev, false);
        let file = fs.lookup(&fs.root().unwrap(), b"file").unwrap().unwrap();
        let mut text = vec![0; TEXT.len()];
        fs.read(file, 0, &mut text).unwrap();
        assert_eq!(text, TEXT, "{name}: what has nothing to do with it was harmed");
    }
}
