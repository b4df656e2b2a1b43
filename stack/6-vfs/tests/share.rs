//! Shares, copies and exchanges content of two files.

use crate::common;

use common::{make, open, verify_all};
use xfskit_core::Error as Core;
use xfskit_vfs::{Error, Fs, Handle, NewNode};

const BLOCK: usize = 4096;

/// Makes a file with this content, open.
fn file<'f>(fs: &'f Fs, name: &str, content: &[u8]) -> Handle<'f> {
    let root = fs.volume().geo().rootino;
    let handle = fs.open(fs.make(root, name.as_bytes(), &NewNode::file(0o644)).unwrap()).unwrap();
    handle.write(0, content).unwrap();
    handle
}

fn content(handle: &Handle<'_>) -> Vec<u8> {
    let mut all = vec![0xee; usize::try_from(handle.size()).unwrap()];
    let len = handle.read(0, &mut all).unwrap();
    assert_eq!(len, all.len());
    all
}

fn bytes(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| ((i / 7 + i * salt) % 251).to_be_bytes()[7]).collect()
}

fn free(fs: &Fs) -> u64 {
    fs.sync().unwrap();
    fs.statfs().blocks_free
}

#[test]
fn shared_blocks_cost_nothing_until_they_are_unshared() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let text = bytes(100 * BLOCK + 17, 3);
    let from = file(&fs, "from", &text);
    let to = file(&fs, "to", b"");
    let before = free(&fs);
    to.share(0, &from, 0..from.size()).unwrap();
    assert_eq!(content(&to), text);
    assert!(before - free(&fs) < 4);
    to.unshare(0..to.size()).unwrap();
    assert!(before - free(&fs) >= 101);
    from.truncate(0).unwrap();
    assert_eq!(content(&to), text);
    drop((from, to));
    fs.close().unwrap();
    verify_all(&dev);
}

#[test]
fn a_copied_range_is_shared_if_blocks_align_and_copied_otherwise() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let text = bytes(64 * BLOCK + 100, 5);
    let from = file(&fs, "from", &text);
    for (offset, start, end) in
        [(0, 0, text.len()), (10, 10, 9 * BLOCK), (1, 0, 5 * BLOCK), (BLOCK, 3, 64 * BLOCK + 900)]
    {
        let mut old = bytes(20 * BLOCK, 11);
        let to = file(&fs, &format!("to{offset}-{start}"), &old);
        let at = |byte: usize| u64::try_from(byte).unwrap();
        let before = free(&fs);
        let len = to.copy_range(at(offset), &from, at(start)..at(end)).unwrap();
        let source = &text[start..end.min(text.len())];
        assert_eq!(len, at(source.len()));
        old.resize(old.len().max(offset + source.len()), 0);
        old[offset..offset + source.len()].copy_from_slice(source);
        assert_eq!(content(&to), old);
        let taken = i128::from(before) - i128::from(free(&fs));
        if offset % BLOCK == start % BLOCK {
            assert!(taken < 8, "{taken}");
        }
    }
    assert!(matches!(from.copy_range(1, &from, 0..9), Err(Error::Core(Core::Limit(_)))));
    drop(from);
    fs.close().unwrap();
    verify_all(&dev);
}

#[test]
fn the_end_of_a_file_is_copied_behind_it() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    // From a block on, within a block, and from within a block to the same place of another.
    for (name, start, offset) in [
        ("a", 2 * BLOCK, 20 * BLOCK),
        ("b", 2 * BLOCK + 10, 20 * BLOCK),
        ("c", 2 * BLOCK + 10, 20 * BLOCK + 10),
    ] {
        let text = bytes(3 * BLOCK + 700, 5);
        let file = file(&fs, name, &text);
        let at = |byte: usize| u64::try_from(byte).unwrap();
        let len = text.len() - start;
        let copied = file.copy_range(at(offset), &file, at(start)..at(text.len())).unwrap();
        assert_eq!(copied, at(len), "{name}");
        let mut expected = text.clone();
        expected.resize(offset, 0);
        expected.extend_from_slice(&text[start..]);
        assert!(content(&file) == expected, "{name}");
    }
    fs.close().unwrap();
    verify_all(&dev);
}

#[test]
fn without_reflink_a_range_is_copied_and_sharing_refused() {
    let dev = make(&[("-m", "reflink=0")]);
    let fs = open(&dev, true);
    let text = bytes(3 * BLOCK, 5);
    let (from, to) = (file(&fs, "from", &text), file(&fs, "to", b""));
    let refused = to.share(0, &from, 0..from.size());
    assert!(matches!(refused, Err(Error::Core(Core::Unsupported(_)))));
    assert_eq!(to.copy_range(0, &from, 0..u64::MAX).unwrap(), from.size());
    assert_eq!(content(&to), text);
    drop((from, to));
    fs.close().unwrap();
    verify_all(&dev);
}

#[test]
fn two_files_exchange_content_and_sizes() {
    let dev = make(&[("-i", "exchange=1")]);
    let fs = open(&dev, true);
    let (short, long) = (bytes(3 * BLOCK + 5, 3), bytes(50 * BLOCK + 70, 7));
    let (a, b) = (file(&fs, "a", &short), file(&fs, "b", &long));
    let clone = file(&fs, "clone", b"");
    clone.share(0, &b, 0..b.size()).unwrap();
    a.exchange(&b).unwrap();
    assert_eq!((content(&a), content(&b)), (long.clone(), short.clone()));
    // Blocks that both share stay in place.
    a.exchange(&clone).unwrap();
    assert_eq!((content(&a), content(&clone)), (long.clone(), long.clone()));
    a.write(BLOCK as u64, b"mine").unwrap();
    assert_eq!(content(&clone), long);
    drop((a, b, clone));
    fs.close().unwrap();
    verify_all(&dev);
}

#[test]
fn ranges_are_exchanged_in_full_or_not_at_all() {
    let dev = make(&[("-i", "exchange=1")]);
    let fs = open(&dev, true);
    let (mut one, mut two) = (bytes(40 * BLOCK, 3), bytes(60 * BLOCK, 7));
    let (a, b) = (file(&fs, "a", &one), file(&fs, "b", &two));
    let block = BLOCK as u64;
    a.punch(5 * block..7 * block).unwrap();
    one[5 * BLOCK..7 * BLOCK].fill(0);
    a.exchange_range(4 * block..14 * block, &b, 20 * block).unwrap();
    one[4 * BLOCK..14 * BLOCK].swap_with_slice(&mut two[20 * BLOCK..30 * BLOCK]);
    assert_eq!((content(&a), content(&b)), (one.clone(), two.clone()));
    for (range, offset) in [(0..block + 1, 0), (0..block, 1), (0..block, 60 * block), (9..9, 0)] {
        let refused = a.exchange_range(range, &b, offset);
        assert!(matches!(refused, Err(Error::Core(Core::Limit(_)))), "{refused:?}");
    }
    // More pieces than fit into one transaction.
    (0..20).for_each(|n| a.punch((2 * n) * block..(2 * n + 1) * block).unwrap());
    (0..30).for_each(|n| b.punch((2 * n) * block..(2 * n + 1) * block).unwrap());
    (one, two) = (content(&a), content(&b));
    a.exchange(&b).unwrap();
    assert_eq!((content(&a), content(&b)), (two, one));
    drop((a, b));
    fs.close().unwrap();
    verify_all(&dev);
}

#[test]
fn without_the_feature_an_exchange_is_refused_by_name() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let (a, b) = (file(&fs, "a", b"a"), file(&fs, "b", b"b"));
    assert!(matches!(a.exchange(&b), Err(Error::Core(Core::Unsupported(_)))));
}
