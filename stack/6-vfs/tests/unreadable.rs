//! A device with a sector that cannot be read: the rest is read.

use std::sync::Arc;

use crate::common;

use common::{clock, make, open};
use xfskit_block::{FaultDevice, FaultPlan, MemDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_units::ByteOffset;
use xfskit_vfs::{Follow, Fs, NewNode, ReadAhead};

/// Opens the volume with a bad sector at byte `bad`.
fn with_bad_sector(base: &Arc<MemDevice>, bad: u64) -> Fs {
    let plan = FaultPlan { bad_sector: Some(ByteOffset(bad)), ..FaultPlan::default() };
    let device = Arc::new(FaultDevice::new(Arc::clone(base) as _, plan));
    Fs::new(Volume::open(device, &OpenOptions::default()).unwrap(), clock())
}

#[test]
fn a_bad_sector_costs_its_page_and_no_more() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let content: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[1] | 1).collect();
    let root = fs.volume().geo().rootino;
    let ino = fs.make(root, b"file", &NewNode::file(0o644)).unwrap();
    fs.write(ino, 0, &content).unwrap();
    fs.close().unwrap();
    let fs = open(&dev, false);
    let first = fs.file_map(&fs.inode(ino).unwrap()).unwrap().pieces()[0].clone();
    let fs = with_bad_sector(&dev, first.device.unwrap().0 + (1 << 20) + 3 * 4096 + 512);
    let inode = fs.inode(ino).unwrap();
    let (map, lost_map) = fs.salvage_map(&inode);
    assert!(lost_map.is_empty());
    let (mut read, mut lost) = (vec![0; content.len()], Vec::new());
    for piece in map.pieces() {
        fs.salvage_piece(
            &inode,
            piece,
            &ReadAhead::default(),
            &mut |at, bytes| {
                read[xfskit_units::index(at.0)..][..bytes.len()].copy_from_slice(bytes);
                Ok(())
            },
            &mut |gap| lost.push(gap.range.start.0..gap.range.end.0),
        )
        .unwrap();
    }
    let page = (1 << 20) + 3 * 4096..(1 << 20) + 4 * 4096;
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0], page.start as u64..page.end as u64);
    let mut due = content;
    due[page].fill(0);
    assert!(read == due);
}

#[test]
fn a_bad_sector_in_a_cluster_costs_its_own_inodes_only() {
    let dev = make(&[]);
    let fs = open(&dev, true);
    let root = fs.volume().geo().rootino;
    let inos = [b"a", b"b", b"c"].map(|name| fs.make(root, name, &NewNode::file(0o644)).unwrap());
    fs.close().unwrap();
    let fs = open(&dev, false);
    let bad = fs.volume().geo().ino_to_byte(inos[1]).unwrap().0;
    let fs = with_bad_sector(&dev, bad);
    assert!(fs.resolve(b"/a", Follow::No).is_ok());
    assert!(fs.resolve(b"/b", Follow::No).is_err());
    assert!(fs.resolve(b"/c", Follow::No).is_ok());
}
