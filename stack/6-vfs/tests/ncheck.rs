//! Paths of inodes, by parent pointers and by a scan.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::common;

use common::{make, open, snapshot, verify_all};
use xfskit_block::{BlockDevice, MemDevice};
use xfskit_vfs::{Fs, Ino, InodeState, NewNode, PathsFound};

/// Options of a volume with parent pointers, and of one without.
const BOTH: [&[(&str, &str)]; 2] = [&[("-n", "parent=1")], &[]];

fn find(fs: &Fs, inos: &[Ino], limit: usize) -> PathsFound {
    fs.find_paths(inos.iter().copied(), limit, &mut |_| ControlFlow::Continue(()))
}

/// The inodes of the test's tree.
struct Tree {
    root: Ino,
    dir: Ino,
    below: Ino,
    /// Three names.
    file: Ino,
    lonely: Ino,
    removed: Ino,
}

/// Makes `/dir/below`, a file with three names, and one that is removed.
fn filled(options: &[(&str, &str)]) -> (Arc<MemDevice>, Tree) {
    let dev = make(options);
    let fs = open(&dev, true);
    let root = fs.volume().geo().rootino;
    let dir = fs.make(root, b"dir", &NewNode::directory(0o755)).unwrap();
    let below = fs.make(dir, b"below", &NewNode::directory(0o755)).unwrap();
    let file = fs.make(below, b"a", &NewNode::file(0o644)).unwrap();
    fs.link(file, below, b"b").unwrap();
    fs.link(file, root, b"c").unwrap();
    let lonely = fs.make(below, b"lonely", &NewNode::file(0o644)).unwrap();
    let removed = fs.make(root, b"removed", &NewNode::file(0o644)).unwrap();
    fs.unlink(root, b"removed").unwrap();
    fs.close().unwrap();
    verify_all(&dev);
    (dev, Tree { root, dir, below, file, lonely, removed })
}

/// Changes the bytes of an inode by `edit`, and corrects its checksum.
fn change(dev: &MemDevice, fs: &Fs, ino: Ino, edit: impl Fn(&mut [u8])) {
    let at = fs.volume().geo().ino_to_byte(ino).unwrap();
    let mut inode = vec![0; fs.volume().geo().inodesize()];
    dev.read_at(at, &mut inode).unwrap();
    edit(&mut inode);
    xfskit_crc::update(&mut inode, 100);
    dev.write_at(at, &inode).unwrap();
}

#[test]
fn all_names_of_a_file_are_found_up_to_the_limit() {
    for options in BOTH {
        let (dev, tree) = filled(options);
        let fs = open(&dev, false);
        let found = find(&fs, &[tree.root, tree.below, tree.file, tree.file], usize::MAX);
        assert!(found.warnings.is_empty() && !found.stopped);
        let paths = |ino: Ino| found.inodes[&ino].paths.clone();
        assert_eq!(found.inodes.len(), 3);
        assert_eq!(paths(tree.root), [b"/"]);
        assert_eq!(paths(tree.below), [b"/dir/below"]);
        assert_eq!(paths(tree.file), [&b"/c"[..], b"/dir/below/a", b"/dir/below/b"]);
        assert_eq!(found.inodes[&tree.file].names, Some(3));
        let two = find(&fs, &[tree.file], 2);
        assert_eq!(two.inodes[&tree.file].paths.len(), 2);
        assert_eq!(fs.paths_of([tree.lonely])[&tree.lonely], b"/dir/below/lonely");
    }
}

#[test]
fn a_number_without_a_path_is_named_for_what_it_is() {
    for options in BOTH {
        let (dev, tree) = filled(options);
        let fs = open(&dev, false);
        let bitmap = fs.volume().geo().rbmino.unwrap();
        let states = [
            (Ino(0), InodeState::OutOfRange),
            (Ino(u64::MAX), InodeState::OutOfRange),
            (Ino(tree.root.0 + 512), InodeState::Absent),
            (tree.removed, InodeState::Free),
            (bitmap, InodeState::Internal("the realtime bitmap")),
            (tree.file, InodeState::Used),
        ];
        for (ino, state) in states {
            let found = find(&fs, &[ino], 1);
            assert_eq!(found.inodes[&ino].state, state, "{ino}");
            assert_eq!(found.inodes[&ino].paths.is_empty(), state != InodeState::Used);
            assert!(found.warnings.is_empty(), "{ino}: {:?}", found.warnings);
        }
    }
}

#[test]
fn a_file_that_was_removed_while_it_was_open_has_no_name() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let root = fs.volume().geo().rootino;
    let ino = fs.make(root, b"open", &NewNode::file(0o600)).unwrap();
    std::mem::forget(fs.hold(ino));
    fs.unlink(root, b"open").unwrap();
    fs.sync().unwrap();
    let crashed = snapshot(&dev);
    let found = find(&open(&crashed, false), &[ino], 1);
    assert_eq!(found.inodes[&ino].state, InodeState::Unlinked);
    assert!(found.inodes[&ino].paths.is_empty() && found.warnings.is_empty());
}

#[test]
fn a_cycle_of_parent_pointers_is_named_and_the_scan_finds_the_path() {
    let (dev, tree) = filled(BOTH[0]);
    let fs = open(&dev, false);
    // The directory becomes its own parent.
    change(&dev, &fs, tree.dir, |inode| {
        let entry = [b"dir", &tree.root.0.to_be_bytes()[..]].concat();
        let at = inode.windows(entry.len()).position(|bytes| bytes == entry).unwrap();
        inode[at + 3..at + entry.len()].copy_from_slice(&tree.dir.0.to_be_bytes());
    });
    let fs = open(&dev, false);
    let found = find(&fs, &[tree.file, tree.below], usize::MAX);
    let ids: Vec<_> = found.warnings.iter().map(ToString::to_string).collect();
    assert!(ids.iter().all(|text| text.contains("[attr.parent.loop]")), "{ids:?}");
    assert_eq!(ids.len(), 2);
    assert_eq!(found.inodes[&tree.below].paths, [b"/dir/below"]);
    assert_eq!(found.inodes[&tree.file].paths.len(), 3);
}

#[test]
fn a_directory_that_cannot_be_read_hides_only_what_is_below_it() {
    let (dev, tree) = filled(&[]);
    let fs = open(&dev, false);
    let at = fs.volume().geo().ino_to_byte(tree.below).unwrap();
    dev.write_at(at, b"XX").unwrap();
    let fs = open(&dev, false);
    let found = find(&fs, &[tree.file, tree.lonely, tree.below], usize::MAX);
    assert!(!found.warnings.is_empty());
    assert_eq!(found.inodes[&tree.file].paths, [b"/c"]);
    assert_eq!(found.inodes[&tree.file].names, Some(3));
    assert!(found.inodes[&tree.lonely].paths.is_empty());
    let below = &found.inodes[&tree.below];
    assert_eq!((below.state, below.names), (InodeState::Damaged, None));
    assert_eq!(below.paths, [b"/dir/below"]);
}

#[test]
fn a_directory_below_itself_ends_no_scan() {
    let (dev, tree) = filled(&[]);
    let fs = open(&dev, false);
    // The name `lonely` refers to the directory above.
    change(&dev, &fs, tree.below, |inode| {
        let at = inode.windows(6).position(|name| name == b"lonely").unwrap();
        // The file type, then the number.
        inode[at + 6] = 2;
        let number = u32::try_from(tree.dir.0).unwrap().to_be_bytes();
        inode[at + 7..at + 11].copy_from_slice(&number);
    });
    let fs = open(&dev, false);
    let found = find(&fs, &[tree.dir, tree.lonely, tree.file], usize::MAX);
    assert_eq!(found.inodes[&tree.file].paths.len(), 3);
    assert!(found.inodes[&tree.lonely].paths.is_empty());
    assert_eq!(found.inodes[&tree.dir].paths, [b"/dir"]);
}

#[test]
fn a_search_ends_when_the_caller_wants_it() {
    let (dev, tree) = filled(&[]);
    let fs = open(&dev, false);
    let found = fs.find_paths([tree.file], 1, &mut |_| ControlFlow::Break(()));
    assert!(found.stopped && found.inodes[&tree.file].paths.is_empty());
}
