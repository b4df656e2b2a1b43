//! Changes that are durable without a close: freed orphans, a dirty journal, single inodes.

use crate::common;

use common::{make, open, snapshot, verify_all};
use xfskit_vfs::{Fs, NewNode};

const LEN: usize = 300_000;

fn root(fs: &Fs) -> xfskit_vfs::Ino {
    fs.volume().geo().rootino
}

fn read(fs: &Fs, name: &[u8]) -> Option<Vec<u8>> {
    let ino = fs.lookup(&fs.root().unwrap(), name).unwrap()?;
    let mut all = vec![0; LEN + 1];
    let len = fs.read(ino, 0, &mut all).unwrap();
    all.truncate(len);
    Some(all)
}

#[test]
fn an_unlinked_file_that_was_held_is_freed_by_the_next_open() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    fs.make(root(&fs), b"stays", &NewNode::file(0o600)).unwrap();
    fs.sync().unwrap();
    let before = fs.statfs();
    for name in [b"one", b"two"] {
        let ino = fs.make(root(&fs), name, &NewNode::file(0o600)).unwrap();
        fs.write(ino, 0, &vec![7; LEN]).unwrap();
        std::mem::forget(fs.hold(ino));
        fs.unlink(root(&fs), name).unwrap();
    }
    fs.sync().unwrap();
    assert!(before.blocks_free - fs.statfs().blocks_free > 140);
    let crashed = snapshot(&dev);
    let fs = open(&crashed, true);
    assert_eq!(fs.statfs(), before);
    fs.close().unwrap();
    verify_all(&crashed);
}

#[test]
fn a_dirty_journal_is_replayed_in_memory_for_reading() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let ino = fs.make(root(&fs), b"file", &NewNode::file(0o600)).unwrap();
    fs.write(ino, 0, &vec![7; LEN]).unwrap();
    fs.make(root(&fs), b"dir", &NewNode::directory(0o700)).unwrap();
    fs.sync().unwrap();
    let crashed = snapshot(&dev);
    let read_only = open(&crashed, false);
    assert!(read_only.volume().replay().is_some_and(|replay| !replay.clean));
    assert_eq!(read(&read_only, b"file"), Some(vec![7; LEN]));
    assert!(read_only.lookup(&read_only.root().unwrap(), b"dir").unwrap().is_some());
    assert!(read_only.sync().is_err());
    // The device is unchanged: a later open for writing replays the journal.
    open(&crashed, true).close().unwrap();
    verify_all(&crashed);
}

#[test]
fn forced_changes_survive_a_crash() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let ino = fs.make(root(&fs), b"file", &NewNode::file(0o600)).unwrap();
    fs.fsync(root(&fs)).unwrap();
    let crashed = open(&snapshot(&dev), false);
    assert_eq!(read(&crashed, b"file"), Some(vec![]));
    let handle = fs.open(ino).unwrap();
    handle.write(0, &vec![9; LEN]).unwrap();
    fs.fsync(ino).unwrap();
    let crashed = snapshot(&dev);
    assert_eq!(read(&open(&crashed, false), b"file"), Some(vec![9; LEN]));
    open(&crashed, true).close().unwrap();
    verify_all(&crashed);
}
