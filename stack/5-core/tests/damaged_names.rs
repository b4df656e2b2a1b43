//! Directories and attributes of the kept volumes: as the kernel made them, and with damage that
//! must not hide the intact entries.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_core::{Error, Inode, OpenOptions, Tx, TxInode, Volume};
use xfskit_format::attr::Namespace;
use xfskit_format::bmbt::BmdrRoot;
use xfskit_format::inode::FileType;
use xfskit_format::{Fork, Layout, Location, da};
use xfskit_test_support::kept::device;
use xfskit_units::{ByteOffset, FileOff, FsBlock, Ino};

/// All kept volumes: version 5, version 4, and version 4 without types in directories.
const IMAGES: [&str; 5] = ["v5", "v5-1k", "v5-plain", "v4", "v4-old"];

fn open(dev: Arc<dyn BlockDevice>) -> Volume {
    Volume::open(dev, &OpenOptions::default()).unwrap()
}

fn walk(vol: &Volume, path: &str) -> Inode {
    path.split('/').filter(|name| !name.is_empty()).fold(
        vol.iget(vol.geo().rootino).unwrap(),
        |dir, name| {
            let (ino, _) = vol.lookup(&dir, name.as_bytes()).unwrap().expect(name);
            vol.iget(ino).unwrap()
        },
    )
}

/// The names of a directory without dots, and the checks that failed meanwhile.
fn list(vol: &Volume, dir: &Inode) -> (BTreeSet<Vec<u8>>, Vec<&'static str>) {
    let (mut names, mut faults) = (BTreeSet::new(), Vec::new());
    vol.readdir(dir, 0, &mut |entry| {
        match entry {
            Ok(e) if e.name == b"." || e.name == b".." => {}
            Ok(e) => assert!(names.insert(e.name.to_vec()), "a name twice"),
            Err(err) => faults.push(err.corruption().expect("a failed check").check.0),
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    (names, faults)
}

fn links() -> BTreeSet<Vec<u8>> {
    (1..=300)
        .filter(|i| !(100..200).contains(i))
        .map(|i| format!("link-number-{i}").into())
        .collect()
}

fn longer() -> BTreeSet<Vec<u8>> {
    let name = |i| format!("another-link-with-a-longer-name-{i}").into_bytes();
    (1..=1500).filter(|i| !(700..800).contains(i)).map(name).collect()
}

#[test]
fn every_kept_volume_gives_the_names_and_attributes_that_were_put_there() {
    for image in IMAGES {
        let vol = open(device(image));
        let (leaf, node) = (walk(&vol, "/leaf"), walk(&vol, "/node"));
        assert_eq!(list(&vol, &leaf), (links(), vec![]), "{image}");
        assert_eq!(list(&vol, &node), (longer(), vec![]), "{image}");
        for name in longer() {
            let (ino, ftype) = vol.lookup(&node, &name).unwrap().unwrap();
            assert_eq!(ftype.is_some(), vol.geo().features.ftype());
            assert_eq!(ino, walk(&vol, "/sf/b").ino());
        }
        assert_eq!(vol.lookup(&node, b"another-link-with-a-longer-name-777").unwrap(), None);
        assert_eq!(vol.attr_list(&walk(&vol, "/attr-leaf")).unwrap().len(), 20);
        assert_eq!(vol.attr_list(&walk(&vol, "/attr-node")).unwrap().len(), 300);
        let big = vol.attr_get(&walk(&vol, "/attr-remote"), Namespace::User, b"big").unwrap();
        assert_eq!(big.unwrap(), vec![b'r'; 10000]);
    }
}

/// Where block `fileoff` of a fork lies, in bytes, and how long it is.
fn place(vol: &Volume, inode: &Inode, fork: Fork, fileoff: FileOff) -> (ByteOffset, usize) {
    let extents = vol.extents(inode, fork).unwrap();
    let len = da::block_len(vol.geo(), fork);
    let blocks = u32::try_from(len >> vol.geo().blocklog).unwrap();
    let map = extents.map_blocks(vol.geo(), fileoff, blocks).unwrap();
    (map.as_single().expect("in one piece").0.byte_offset(), len)
}

/// Writes `new` at `offset` of a block, and makes its CRC right again where `crc` says where it is.
fn damage(
    dev: &dyn BlockDevice,
    (at, len): (ByteOffset, usize),
    offset: usize,
    new: &[u8],
    crc: Option<usize>,
) {
    let mut bytes = vec![0; len];
    dev.read_at(at, &mut bytes).unwrap();
    bytes[offset..offset + new.len()].copy_from_slice(new);
    if let Some(field) = crc {
        xfskit_crc::update(&mut bytes, field);
    }
    dev.write_at(at, &bytes).unwrap();
}

/// Linux lists such names and does not find them. Where a node leads to the wrong leaf, the names
/// of another are not listed at all.
/// Returns a kept volume, its file with an attribute tree, and a block of that tree: its place and
/// its bytes.
fn attr_block(
    image: &str,
    fileoff: FileOff,
) -> (Arc<dyn BlockDevice>, Inode, (ByteOffset, usize), Vec<u8>) {
    let dev = device(image);
    let vol = open(Arc::clone(&dev));
    let inode = walk(&vol, "/attr-node");
    let block = place(&vol, &inode, Fork::Attr, fileoff);
    let mut bytes = vec![0; block.1];
    dev.read_at(block.0, &mut bytes).unwrap();
    (dev, inode, block, bytes)
}

#[test]
fn attributes_that_their_hashes_do_not_lead_to_are_faults() {
    for (image, entries, crc) in [("v4", 16, None), ("v5", 64, Some(12))] {
        let due: [(u64, &[&str]); 2] =
            [(1, &["attr.leaf.hashval"]), (0, &["da.node.hashval", "attr.leaf.forw"])];
        for (fileoff, checks) in due {
            let (dev, inode, block, bytes) = attr_block(image, FileOff(fileoff));
            if fileoff == 0 {
                let second = &bytes[entries + 12..entries + 16];
                damage(&*dev, block, entries + 4, second, crc);
            } else {
                let name = bytes.windows(4).position(|name| name == b"name").unwrap();
                damage(&*dev, block, name, b"f", crc);
            }
            let mut faults = Vec::new();
            open(dev)
                .attrs_with_values(&inode, &mut |attr| {
                    let found = attr.err().and_then(|err| Some(err.corruption()?.check.0));
                    faults.extend(found);
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(faults, checks, "{image}");
        }
    }
}

/// Linux lists attributes from leaf to leaf along the right siblings, and looks them up from the
/// root. Where both ways lead to other leaves, one of them misses attributes.
#[test]
fn attributes_whose_leaves_are_not_chained_as_the_tree_has_them_are_faults() {
    for (image, count, crc) in [("v4", 12, None), ("v5", 56, Some(12))] {
        // The right sibling of the first leaf, and the number of children of the root.
        for (fileoff, field, len) in [(1, 0, 4), (0, count, 2)] {
            let (dev, inode, block, bytes) = attr_block(image, FileOff(fileoff));
            let mut new = bytes[field..field + len].to_vec();
            new[len - 1] = if fileoff == 0 { new[len - 1] - 1 } else { new[len - 1] ^ 1 };
            damage(&*dev, block, field, &new, crc);
            let mut faults = Vec::new();
            open(dev)
                .attrs_with_values(&inode, &mut |attr| {
                    faults.extend(attr.err().and_then(|err| Some(err.corruption()?.check.0)));
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(faults, ["attr.leaf.forw"], "{image}, block {fileoff}");
        }
    }
}

/// Linux lists a directory of several blocks by its extents, whatever its size.
#[test]
fn a_wrong_size_of_a_directory_is_a_fault_and_hides_no_name() {
    for (image, crc) in [("v4-old", None), ("v4", None), ("v5", Some(100))] {
        for path in ["/block", "/leaf", "/node"] {
            let dev = device(image);
            let vol = open(Arc::clone(&dev));
            let dir = walk(&vol, path);
            let (names, _) = list(&vol, &dir);
            let at = vol.geo().ino_to_byte(dir.ino()).unwrap();
            let block = vol.geo().dirblksize() as u64;
            for size in [block, block + 1, 2 * block, 1 << 30] {
                if size == dir.core().size().0 {
                    continue;
                }
                let inode = (at, vol.geo().inodesize());
                damage(&*dev, inode, 56, &size.to_be_bytes(), crc);
                let vol = open(Arc::clone(&dev));
                let found = list(&vol, &walk(&vol, path));
                assert_eq!(found, (names.clone(), vec!["inode.size"]), "{image} {path} {size}");
            }
        }
    }
}

/// A change of a directory.
type Change<'a> = dyn Fn(&mut Tx<'_>, TxInode) -> Result<(), Error> + 'a;

/// A change takes the form of a directory and its number of data blocks from its size. With a wrong
/// one it would put a new block where there is one, or take a directory for empty.
#[test]
fn a_directory_whose_size_is_wrong_is_not_changed() {
    for path in ["/block", "/leaf", "/node"] {
        let dev = device("v5");
        let vol = open(Arc::clone(&dev));
        let dir = walk(&vol, path);
        let file = walk(&vol, "/sf/a").ino();
        let (name, size) = (list(&vol, &dir).0.pop_first().unwrap(), dir.core().size().0);
        let inode = (vol.geo().ino_to_byte(dir.ino()).unwrap(), vol.geo().inodesize());
        let block = vol.geo().dirblksize() as u64;
        for wrong in [block, 2 * block, size - 1, size + block, 1 << 30] {
            if wrong == size {
                continue;
            }
            damage(&*dev, inode, 56, &wrong.to_be_bytes(), Some(100));
            let options = OpenOptions { write: true, ..OpenOptions::default() };
            let vol = Volume::open(Arc::clone(&dev), &options).unwrap();
            let changes: [&Change<'_>; 4] = [
                &|tx, dir| tx.dir_create(dir, b"a new name", file, FileType::Regular),
                &|tx, dir| tx.dir_remove(dir, &name).map(drop),
                &|tx, dir| tx.dir_replace(dir, &name, file, FileType::Regular).map(drop),
                &|tx, dir| tx.dir_is_empty(dir).map(drop),
            ];
            for change in changes {
                let refused = vol.transact(|tx| {
                    let dir = tx.iget(dir.ino())?;
                    change(tx, dir)
                });
                let check = refused.as_ref().err().and_then(Error::corruption).map(|c| c.check.0);
                assert_eq!(check, Some("inode.size"), "{path} {wrong}: {refused:?}");
            }
            vol.close().unwrap();
            let vol = open(Arc::clone(&dev));
            assert_eq!(vol.iget(dir.ino()).unwrap().core().size().0, wrong);
        }
        damage(&*dev, inode, 56, &size.to_be_bytes(), Some(100));
        let vol = open(dev);
        let dir_after = walk(&vol, path);
        assert_eq!(dir_after.bytes(), dir.bytes(), "{path}");
        assert_eq!(list(&vol, &dir_after).1, Vec::<&str>::new(), "{path}");
    }
}

#[test]
fn a_directory_of_several_blocks_without_its_hash_tree_is_a_fault() {
    let dev = device("v4");
    let vol = open(Arc::clone(&dev));
    let dir = walk(&vol, "/leaf");
    let at = vol.geo().ino_to_byte(dir.ino()).unwrap();
    assert_eq!(vol.extents(&dir, Fork::Data).unwrap().len(), 3, "two of data, one of the tree");
    damage(&*dev, (at, vol.geo().inodesize()), 76, &[0, 0, 0, 2], None);
    let vol = open(dev);
    assert_eq!(list(&vol, &walk(&vol, "/leaf")), (links(), vec!["inode.size"]));
}

/// Linux reads a map along the siblings of its leaves, and refuses one that is not the tree's.
#[test]
fn extents_whose_leaves_are_not_chained_as_the_tree_has_them_are_a_fault() {
    for (image, crc) in [("v4-old", None), ("v5-1k", Some(64))] {
        let dev = device(image);
        let vol = open(Arc::clone(&dev));
        let inode = walk(&vol, "/fragmented");
        let core = inode.core();
        let root = BmdrRoot::verify(core.data_fork(), &vol.ctx(Location::of("root")), Fork::Data);
        let leaves: Vec<FsBlock> =
            root.unwrap().ptrs.iter().map(|ptr| FsBlock(ptr.get())).collect();
        assert!(leaves.len() > 2, "{image}: {leaves:?}");
        for (leaf, right) in [(leaves[0], leaves[2].0), (leaves[leaves.len() - 1], leaves[0].0)] {
            let dev = device(image);
            let at = vol.geo().fsb_to_daddr(leaf).unwrap().byte_offset();
            damage(&*dev, (at, vol.geo().blocksize()), 16, &right.to_be_bytes(), crc);
            let err = open(dev).extents(&inode, Fork::Data).unwrap_err();
            assert_eq!(err.corruption().unwrap().check.0, "bmbt.rightsib", "{image}");
        }
    }
}

#[test]
fn a_torn_directory_block_costs_only_the_names_that_are_gone() {
    let dev = device("v5");
    let vol = open(Arc::clone(&dev));
    let node = walk(&vol, "/node");
    let block = place(&vol, &node, Fork::Data, FileOff(2));
    damage(&*dev, block, 1024, &[0xa5; 1024], None);

    let vol = open(dev);
    let (names, faults) = list(&vol, &node);
    assert_eq!(faults, ["dir.data.crc"]);
    let lost = longer().len() - names.len();
    assert!((15..=25).contains(&lost), "a quarter of one block of names, and not {lost}");
    assert!(names.is_subset(&longer()));
    let found = names.iter().filter(|n| matches!(vol.lookup(&node, n), Ok(Some(_)))).count();
    assert!(found >= longer().len() - 100, "names in other blocks are still found: {found}");
}

#[test]
fn a_block_of_another_directory_gives_no_names() {
    let dev = device("v5");
    let vol = open(Arc::clone(&dev));
    let node = walk(&vol, "/node");
    let mut stranger = vec![0; 4096];
    dev.read_at(place(&vol, &walk(&vol, "/leaf"), Fork::Data, FileOff(0)).0, &mut stranger)
        .unwrap();
    dev.write_at(place(&vol, &node, Fork::Data, FileOff(3)).0, &stranger).unwrap();

    let (names, faults) = list(&open(dev), &node);
    assert_eq!(faults, ["dir.data.bno"]);
    assert!(names.is_subset(&longer()), "no name of the other directory");
}

#[test]
fn a_name_with_a_slash_is_reported_and_its_neighbours_are_listed() {
    let dev = device("v5");
    let vol = open(Arc::clone(&dev));
    let (node, geo) = (walk(&vol, "/node"), vol.geo());
    let header = Layout::of(geo).dir_data_header;
    let block = place(&vol, &node, Fork::Data, FileOff(1));
    damage(&*dev, block, header + 9, b"/", Some(4));

    let (names, faults) = list(&open(dev), &node);
    assert_eq!((names.len(), faults), (longer().len() - 1, vec!["dir.name"]));
}

#[test]
fn damaged_hash_trees_do_not_disturb_listing_and_are_named_by_look_up() {
    let root = |vol: &Volume| FileOff(vol.geo().dir_leafblk().0.into());
    let cases: [(&str, usize, &[u8]); 4] = [
        ("da.node.level", 0x3a, &[0, 2]),
        ("da.node.before", 0x44, &[0, 0x80, 0, 0]),
        ("da.map", 0x44, &[0, 0x80, 0x70, 0]),
        ("da.node.owner", 0x30, &[1]),
    ];
    for (check, offset, new) in cases {
        let dev = device("v5");
        let vol = open(Arc::clone(&dev));
        let node = walk(&vol, "/node");
        damage(&*dev, place(&vol, &node, Fork::Data, root(&vol)), offset, new, Some(12));
        let vol = open(dev);
        assert_eq!(list(&vol, &node), (longer(), vec![]));
        // The name with the smallest hash: the tree's first child.
        let err = vol.lookup(&node, b"..").unwrap_err();
        assert_eq!(err.corruption().unwrap().check.0, check);
    }
}

#[test]
fn leaves_in_a_ring_end_the_search_for_a_hash() {
    let dev = device("v5");
    let vol = open(Arc::clone(&dev));
    let file = walk(&vol, "/attr-node");
    // Both first leaves: each the other's successor, each full of one hash that nobody has.
    let hash = xfskit_format::hash::name_hash(b"nobody").to_be_bytes();
    let (root, _) = place(&vol, &file, Fork::Attr, FileOff(0));
    let mut node = vec![0; 4096];
    dev.read_at(root, &mut node).unwrap();
    let child = |i: usize| u32::from_be_bytes(node[0x44 + 8 * i..][..4].try_into().unwrap());
    let (first, second) = (child(0), child(1));
    for (leaf, next) in [(first, second), (second, first)] {
        let block = place(&vol, &file, Fork::Attr, FileOff(leaf.into()));
        let mut bytes = vec![0; 4096];
        dev.read_at(block.0, &mut bytes).unwrap();
        let count = usize::from(u16::from_be_bytes([bytes[0x38], bytes[0x39]]));
        (0..count).for_each(|i| bytes[0x50 + 8 * i..][..4].copy_from_slice(&hash));
        bytes[..4].copy_from_slice(&next.to_be_bytes());
        damage(&*dev, block, 0, &bytes, Some(12));
    }
    let all: Vec<u8> = (0..child_count(&node))
        .flat_map(|i| [u32::MAX.to_be_bytes(), child(i).to_be_bytes()].concat())
        .collect();
    damage(&*dev, (root, 4096), 0x40, &all, Some(12));
    let vol = open(dev);
    assert_eq!(vol.attr_get(&file, Namespace::User, b"nobody").unwrap(), None);
}

fn child_count(node: &[u8]) -> usize {
    u16::from_be_bytes([node[0x38], node[0x39]]).into()
}

#[test]
fn a_bad_attribute_leaf_and_a_bad_value_leave_the_others_readable() {
    let dev = device("v5");
    let vol = open(Arc::clone(&dev));
    let (tree, remote) = (walk(&vol, "/attr-node"), walk(&vol, "/attr-remote"));
    damage(&*dev, place(&vol, &tree, Fork::Attr, FileOff(2)), 2000, &[1; 8], None);
    damage(&*dev, place(&vol, &remote, Fork::Attr, FileOff(1)), 100, b"x", None);

    let vol = open(dev);
    let (mut sound, mut faults) = (0, Vec::new());
    vol.attrs_with_values(&tree, &mut |attr| {
        match attr {
            Ok(attr) => sound += usize::from(attr.value.starts_with(b"value-")),
            Err(err) => faults.push(err.corruption().unwrap().check.0),
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(faults, ["attr.leaf.crc"]);
    assert!((200..300).contains(&sound), "{sound} of 300");
    assert!(matches!(vol.attr_list(&tree), Err(Error::Corrupt(_))), "a list is whole or nothing");

    let err = vol.attr_get(&remote, Namespace::User, b"big").unwrap_err();
    assert_eq!(err.corruption().unwrap().check.0, "attr.remote.crc");
    assert_eq!(vol.attr_list(&remote).unwrap().len(), 1, "the name is there");
}

#[test]
fn what_is_no_directory_is_refused_as_such() {
    let vol = open(device("v5"));
    let file = walk(&vol, "/sf/a");
    assert!(matches!(vol.lookup(&file, b"x"), Err(Error::NotDirectory(_))));
    assert!(matches!(vol.parents(&file), Err(Error::Unsupported(_))));
    assert_eq!(vol.paths(vol.geo().rootino, 9).unwrap(), [b"/"]);
    assert!(matches!(vol.paths(Ino(1), 9), Err(Error::NoInode(_))));
}
