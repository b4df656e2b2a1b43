//! Inodes, extent maps, file data and symlinks of the volumes kept in `tests/images`, which the
//! Linux kernel filled.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_core::bmap::Backing;
use xfskit_core::{Error, Inode, OpenOptions, Volume};
use xfskit_format::bmbt::{self, BmdrRoot};
use xfskit_format::inode::{self, FileType, Format};
use xfskit_format::{Fork, Location};
use xfskit_test_support::kept::device;
use xfskit_units::{ByteOffset, FileOff, FsBlock, Ino};

/// The kept images that need no recovery.
const IMAGES: [&str; 4] = ["v5", "v5-1k", "v5-plain", "v4"];

fn open(dev: Arc<dyn BlockDevice>) -> Volume {
    Volume::open(dev, &OpenOptions::default()).unwrap()
}

/// Every inode in use, as bulkstat finds it on some threads, read again by number.
fn all(vol: &Volume, threads: usize) -> BTreeMap<Ino, Inode> {
    let found = Mutex::new(Vec::new());
    vol.bulkstat(threads, |batch| {
        for entry in batch {
            entry.inode.as_ref().unwrap();
            found.lock().unwrap().push(entry.ino);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let found = found.into_inner().unwrap();
    let inodes = vol.iget_many(&found);
    found.into_iter().zip(inodes).map(|(ino, inode)| (ino, inode.unwrap())).collect()
}

fn files(vol: &Volume) -> Vec<Inode> {
    all(vol, 1).into_values().filter(|inode| inode.core().is_regular()).collect()
}

fn content(vol: &Volume, inode: &Inode) -> Vec<u8> {
    let mut bytes = vec![0xee; usize::try_from(inode.core().size().0).unwrap() + 10];
    let len = vol.read_at(inode, ByteOffset(0), &mut bytes).unwrap();
    assert!(bytes[len..].iter().all(|&b| b == 0xee), "nothing is written behind the end");
    bytes.truncate(len);
    bytes
}

#[test]
fn bulkstat_finds_as_many_inodes_as_the_superblock_counts_however_many_threads() {
    for name in IMAGES {
        let vol = open(device(name));
        let sb = vol.superblock();
        let due = sb.icount.get() - sb.ifree.get();
        for threads in [1, 4] {
            assert_eq!(all(&vol, threads).len() as u64, due, "{name}");
        }
    }
}

#[test]
fn chunks_hold_the_inodes_that_the_group_headers_count() {
    for name in IMAGES {
        let vol = open(device(name));
        for agno in vol.geo().ags() {
            let (mut count, mut freecount) = (0, 0);
            vol.for_each_chunk(agno, |chunk| {
                count += chunk.present().count_ones();
                freecount += chunk.freecount;
                Ok(())
            })
            .unwrap();
            let agi = vol.agi(agno).unwrap();
            assert_eq!((count, freecount), (agi.count.get(), agi.freecount.get()), "{name} {agno}");
        }
    }
}

#[test]
fn both_forks_of_every_inode_are_mapped() {
    for name in IMAGES {
        let vol = open(device(name));
        let mut btrees = 0;
        for (ino, inode) in all(&vol, 1) {
            let core = inode.core();
            let data = vol.extents(&inode, Fork::Data).unwrap();
            let attr = vol.extents(&inode, Fork::Attr).unwrap();
            let mapped = data.blocks() + attr.blocks();
            let tree =
                core.format() == Some(Format::Btree) || core.aformat() == Some(Format::Btree);
            btrees += usize::from(tree);
            if tree {
                assert!(mapped < core.nblocks().0, "{name} {ino}: blocks of the tree count");
            } else {
                assert_eq!(mapped, core.nblocks().0, "{name} {ino}");
            }
            let whole: u64 = data.segments(FileOff(0), data.end()).map(|s| s.blockcount.0).sum();
            assert_eq!(whole, data.end().0, "segments leave nothing out");
        }
        assert!(btrees > 0, "{name} has a fragmented file");
    }
}

#[test]
fn symlinks_in_the_inode_and_outside_are_read() {
    for name in IMAGES {
        let vol = open(device(name));
        let links = all(&vol, 1).into_values();
        let links = links.filter(|inode| inode.core().file_type() == Some(FileType::Symlink));
        let mut targets: Vec<_> = links.map(|inode| vol.readlink(&inode).unwrap()).collect();
        targets.sort();
        assert_eq!(targets, [b"short".to_vec(), vec![b'x'; 900]], "{name}");
    }
}

#[test]
fn holes_and_unwritten_blocks_read_as_zeroes() {
    for name in IMAGES {
        let vol = open(device(name));
        let files = files(&vol);
        let hole = files.iter().find(|f| f.core().size().0 == (1 << 20) + 4).unwrap();
        let mut expected = vec![0; 1 << 20];
        expected.extend(b"end\n");
        assert_eq!(content(&vol, hole), expected, "{name}");
        let ranges = vol.open_file(hole).unwrap().data_ranges();
        assert_eq!(ranges.len(), 1, "{name}");
        assert_eq!(ranges[0], ByteOffset(1 << 20)..ByteOffset((1 << 20) + 4), "{name}");

        let unwritten = files.iter().find(|f| f.core().size().0 == 256 << 10).unwrap();
        let file = vol.open_file(unwritten).unwrap();
        let first = file.extents().segments(FileOff(0), FileOff(1)).next().unwrap();
        assert!(matches!(first.backing, Backing::Unwritten(_)), "{name}");
        assert_eq!(content(&vol, unwritten), vec![0; 256 << 10], "{name}");
        assert_eq!(file.data_ranges(), [], "{name}");
    }
}

#[test]
fn a_fragmented_file_reads_the_same_in_one_piece_and_in_odd_pieces() {
    for name in IMAGES {
        let vol = open(device(name));
        let files = files(&vol);
        let inode = files.iter().find(|f| f.core().format() == Some(Format::Btree)).unwrap();
        let whole = content(&vol, inode);
        for i in (0..=400).step_by(2) {
            let text = format!("{i}\n");
            assert_eq!(&whole[i * 4096..][..text.len()], text.as_bytes(), "{name}");
        }
        let file = vol.open_file(inode).unwrap();
        let (mut pieces, mut buf) = (Vec::new(), vec![0; 7001]);
        while pieces.len() < whole.len() {
            let len = file.read_at(ByteOffset(pieces.len() as u64), &mut buf).unwrap();
            pieces.extend_from_slice(&buf[..len]);
        }
        assert_eq!(pieces, whole, "{name}");
        let behind = ByteOffset(whole.len() as u64);
        assert_eq!(file.read_at(behind, &mut buf).unwrap(), 0, "nothing behind the end");
    }
}

#[test]
fn a_bad_inode_is_reported_and_does_not_hide_its_neighbours() {
    let dev = device("v5");
    let inodes = all(&open(Arc::clone(&dev)), 1);
    let (&bad, _) = inodes.iter().nth(inodes.len() / 2).unwrap();
    let at = open(Arc::clone(&dev)).geo().ino_to_byte(bad).unwrap();
    dev.write_at(ByteOffset(at.0 + 0x38), &[0xff]).unwrap();

    let vol = open(dev);
    let seen = Mutex::new((0, Vec::new()));
    vol.bulkstat(2, |batch| {
        let mut seen = seen.lock().unwrap();
        for entry in batch {
            match &entry.inode {
                Ok(_) => seen.0 += 1,
                Err(fault) => seen.1.push((entry.ino, fault.check.0)),
            }
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let (sound, faults) = seen.into_inner().unwrap();
    assert_eq!((sound, faults), (inodes.len() - 1, vec![(bad, "inode.crc")]));
    for &ino in inodes.keys() {
        match vol.iget(ino) {
            Ok(_) => assert_ne!(ino, bad),
            Err(err) => {
                assert_eq!((ino, err.corruption().unwrap().check.0), (bad, "inode.crc"));
            }
        }
    }
}

/// The check that must fail, and what to change: offset and bytes.
type Case<'a> = (&'a str, &'a [(usize, &'a [u8])]);

/// Two children that are one, a child on the wrong level, extents out of order, too few of them:
/// the walk ends, and says why.
#[test]
fn damaged_extent_trees_are_named() {
    let dev = device("v5");
    let vol = open(Arc::clone(&dev));
    let good = files(&vol).into_iter().find(|f| f.core().format() == Some(Format::Btree)).unwrap();
    let room = good.core().data_fork();
    let root = BmdrRoot::verify(room, &vol.ctx(Location::of("root")), Fork::Data).unwrap();
    assert_eq!((root.level, root.keys.len()), (1, 2));
    let leaf = vol.geo().fsb_to_byte(FsBlock(root.ptrs[0].get())).unwrap();
    let core = vol.geo().ino_to_byte(good.ino()).unwrap();
    let ptr_area = 176 + 4 + 8 * bmbt::root_maxrecs(room.len());
    let ptr = root.ptrs[0].get().to_be_bytes();

    let break_inode: &[Case<'_>] = &[
        ("inode.nextents.count", &[(0x1f, &[0x80])]),
        ("bmbt.keys", &[(ptr_area + 8, &ptr)]),
        ("bmbt.level", &[(176 + 1, &[2])]),
        ("bmdr.ptrs", &[(ptr_area, &[1])]),
    ];
    let break_leaf: &[Case<'_>] = &[
        ("bmbt.rec.order", &[(72 + 16, &[0, 0, 0, 0, 0, 0, 0, 0])]),
        ("bmbt.rec.startblock", &[(72 + 8, &[0xff])]),
        ("bmbt.owner", &[(56, &[1])]),
    ];
    let inode = (core, 512, inode::CRC_OFFSET, break_inode);
    for (start, len, crc, cases) in [inode, (leaf, 4096, bmbt::CRC_OFFSET, break_leaf)] {
        for (check, changes) in cases {
            let dev = OverlayDevice::new(Arc::clone(&dev));
            let mut bytes = vec![0; len];
            dev.read_at(start, &mut bytes).unwrap();
            for (offset, new) in *changes {
                bytes[*offset..*offset + new.len()].copy_from_slice(new);
            }
            xfskit_crc::update(&mut bytes, crc);
            dev.write_at(start, &bytes).unwrap();
            let vol = open(Arc::new(dev));
            let err = vol.extents(&vol.iget(good.ino()).unwrap(), Fork::Data).unwrap_err();
            assert_eq!(err.corruption().unwrap().check.0, *check, "{err}");
        }
    }
}

#[test]
fn numbers_of_no_inode_are_refused_as_such() {
    let vol = open(device("v5"));
    for ino in [0, 1, u64::MAX, 1 << 40] {
        assert!(matches!(vol.iget(Ino(ino)), Err(Error::NoInode(_))), "{ino}");
    }
    let root = vol.iget(vol.geo().rootino).unwrap();
    assert!(matches!(vol.open_file(&root), Err(Error::IsDirectory(_))));
    assert!(matches!(vol.readlink(&root), Err(Error::NotSymlink(_))));
}

#[test]
fn a_callers_stop_ends_bulkstat() {
    let vol = open(device("v5"));
    let batches = Mutex::new(0);
    vol.bulkstat(1, |_| {
        *batches.lock().unwrap() += 1;
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(batches.into_inner().unwrap(), 1);
}
