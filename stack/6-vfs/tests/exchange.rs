//! Exchanges content in thousands of pieces: more than fit into one transaction.

use crate::common;

use std::ops::Range;

use common::{make, open, verify_all};
use xfskit_core::Error as Core;
use xfskit_vfs::{Error, Fs, Handle, NewNode};

/// Makes a file of which every `every` blocks have content in the first `some`, and holes in the
/// rest. Returns its content too.
fn comb<'f>(fs: &'f Fs, name: &str, blocks: u64, (some, every): (u64, u64)) -> Handle<'f> {
    let block = 1 << fs.volume().geo().blocklog;
    let root = fs.volume().geo().rootino;
    let handle = fs.open(fs.make(root, name.as_bytes(), &NewNode::file(0o644)).unwrap()).unwrap();
    for at in (0..blocks).step_by(usize::try_from(every).unwrap()) {
        let salt = usize::try_from(at * 7 + every).unwrap();
        let len = usize::try_from(some * block).unwrap();
        let tooth: Vec<u8> = (salt..salt + len).map(|n| (n % 251).to_be_bytes()[7]).collect();
        handle.write(at * block, &tooth).unwrap();
    }
    handle.fsync().unwrap();
    handle
}

fn content(handle: &Handle<'_>) -> Vec<u8> {
    let mut all = vec![0xee; usize::try_from(handle.size()).unwrap()];
    let len = handle.read(0, &mut all).unwrap();
    assert_eq!(len, all.len());
    all
}

fn extents(fs: &Fs, handle: &Handle<'_>) -> u64 {
    fs.stat(&fs.inode(handle.ino()).unwrap()).nextents
}

/// Exchanges `range` of `a` with `b` from `to` on, and compares.
fn exchange_range(a: &Handle<'_>, range: Range<u64>, b: &Handle<'_>, to: u64) {
    let (mut one, mut two) = (content(a), content(b));
    a.exchange_range(range.clone(), b, to).unwrap();
    let at = |offset: u64| usize::try_from(offset).unwrap();
    let len = at(range.end - range.start);
    one[at(range.start)..at(range.end)].swap_with_slice(&mut two[at(to)..at(to) + len]);
    assert!(content(a) == one && content(b) == two, "{range:?} with what begins at {to}");
}

fn stress_case(options: &[(&str, &str)]) {
    let dev = make(options);
    let fs = open(&dev, true);
    let block = 1_u64 << fs.volume().geo().blocklog;
    let a = comb(&fs, "a", 3000, (1, 2));
    let b = comb(&fs, "b", 3500, (3, 5));
    assert!(extents(&fs, &a) == 1500 && extents(&fs, &b) == 700);
    if fs.volume().geo().features.reflink() {
        // A range that one of them shares with a third file.
        let c = comb(&fs, "c", 1, (1, 1));
        c.share(0, &a, 100 * block..2100 * block).unwrap();
    }
    let (one, two) = (content(&a), content(&b));
    a.exchange(&b).unwrap();
    assert!(content(&a) == two && content(&b) == one, "exchanged");
    assert!(extents(&fs, &b) == 1500 && extents(&fs, &a) == 700);
    exchange_range(&a, 7 * block..2500 * block, &b, 300 * block);
    exchange_range(&b, 0..2999 * block, &a, 499 * block);
    // To the end of both, which is within a block.
    b.write(b.size() + 8000 * block, b"end").unwrap();
    let end = b.size();
    a.write(end - 3, b"END").unwrap();
    exchange_range(&a, 5 * block..end, &b, 5 * block);
    let (one, two) = (content(&a), content(&b));
    b.exchange(&a).unwrap();
    assert!(content(&a) == two && content(&b) == one, "exchanged back");
    drop((a, b));
    fs.close().unwrap();
    verify_all(&dev);
}

#[test]
fn thousands_of_pieces_are_exchanged() {
    stress_case(&[("-i", "exchange=1")]);
}

#[test]
fn thousands_of_small_blocks_are_exchanged_with_parent_pointers() {
    stress_case(&[("-i", "exchange=1"), ("-n", "parent=1"), ("-b", "size=1024")]);
}

#[test]
fn thousands_of_pieces_are_exchanged_without_rmapbt_and_reflink() {
    stress_case(&[("-i", "exchange=1"), ("-m", "rmapbt=0,reflink=0")]);
}

/// The maps of both files would grow, and there is no room for that: nothing has changed.
#[test]
fn without_space_for_the_maps_nothing_is_exchanged() {
    let dev = make(&[("-i", "exchange=1"), ("-b", "size=1024")]);
    let fs = open(&dev, true);
    let (a, b) = (comb(&fs, "a", 6000, (1, 2)), comb(&fs, "b", 6000, (1, 3)));
    let root = fs.volume().geo().rootino;
    let ballast = fs.open(fs.make(root, b"ballast", &NewNode::file(0o600)).unwrap()).unwrap();
    let mut at = 0;
    while fs.volume().blocks_available() > 100 {
        match ballast.write(at, &vec![1; 65536]) {
            Ok(()) => at += 65536,
            Err(Error::Core(Core::NoSpace(_))) => break,
            Err(error) => panic!("{error}"),
        }
        ballast.fsync().unwrap();
    }
    let (one, two) = (content(&a), content(&b));
    let refused = a.exchange(&b);
    assert!(matches!(refused, Err(Error::Core(Core::NoSpace(_)))), "{refused:?}");
    assert!(content(&a) == one && content(&b) == two, "unchanged");
    ballast.truncate(0).unwrap();
    a.exchange(&b).unwrap();
    assert!(content(&a) == two && content(&b) == one, "exchanged");
    drop((a, b, ballast));
    fs.close().unwrap();
    verify_all(&dev);
}
