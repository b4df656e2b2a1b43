//! Encoded items equal those of Linux, if a sample exists; otherwise the decoder must understand
//! them.

use xfskit_units::{Daddr, Ino, LogBlock};

use super::*;
use crate::log::item::tests::{CANCEL, ICREATE, INODE, buf as linux_buf, regions};
use crate::log::item::{Item, split};
use crate::log::tests as created;
use crate::testing::{geo_v5, geo_v5_1k, golden};
use crate::{Ctx, Location};

type Out = Vec<Vec<u8>>;

/// One run of changed chunks.
fn run(run: Range<usize>) -> Vec<Range<usize>> {
    [run].into()
}

const LSN: Lsn = Lsn::new(3, LogBlock(77));

/// Decodes an item of Linux, builds the block or inode that it describes, and encodes the item
/// again.
fn again(item: &[&[u8]], geo: &Geometry) -> Out {
    let ctx = Ctx::new(geo, Location::of("log item"));
    let mut out = Out::new();
    match Item::decode(item, &ctx).unwrap() {
        Item::Buf(found) if found.is_cancel() => cancel(&mut out, (found.daddr(), found.sectors())),
        Item::Buf(found) => {
            let mut block = vec![0; found.byte_len()];
            let mut changed = Vec::new();
            for change in found.changes() {
                let range = change.offset..change.offset + change.bytes.len();
                block[range.clone()].copy_from_slice(change.bytes);
                changed.push(range);
            }
            buf(&mut out, geo, &block, &[(found.daddr(), found.sectors())], &changed, LSN);
        }
        Item::Inode(found) => {
            let mut image = vec![0; geo.inodesize()];
            image[..CORE_LEN].copy_from_slice(&found.core.to_disk());
            let attr = match found.core.forkoff {
                0 => image.len(),
                n => CORE_LEN + usize::from(n) * 8,
            };
            let mut changed = Vec::new();
            for (at, bytes) in [(CORE_LEN, found.fork(Fork::Data)), (attr, found.fork(Fork::Attr))]
            {
                let Some(bytes) = bytes else { continue };
                image[at..at + bytes.len()].copy_from_slice(bytes);
                changed.push(at / CHUNK * CHUNK..at / CHUNK * CHUNK + CHUNK);
            }
            let offset = usize::try_from(found.format.boffset.get()).unwrap();
            let place = (found.format.cluster(), offset);
            inode(&mut out, geo, found.ino(), place, &image, &changed);
        }
        Item::Icreate(found) => {
            let (agno, agbno, length) = found.verify(&ctx).unwrap();
            let item = icreate(geo, agno, agbno, length, found.r#gen.get());
            out.region(&[item.as_bytes()]);
        }
        item => panic!("{item:?}"),
    }
    out
}

/// An inode's LSN has no meaning in the journal, and Linux leaves stale bytes there.
fn without_lsn(item: &[&[u8]]) -> Out {
    let mut item: Out = item.iter().map(|region| region.to_vec()).collect();
    if item[0][..2] == kind::INODE.to_le_bytes() {
        item[1][112..120].fill(0);
    }
    item
}

#[test]
fn a_transaction_of_linux_is_written_as_linux_wrote_it() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log item"));
    let payload = created::payload();
    let regions = created::regions(&payload);
    let items: Vec<_> = split(&regions[1..], &ctx).map(Result::unwrap).collect();
    assert_eq!(items.len(), 5);
    for item in items {
        assert_eq!(again(item, &geo), without_lsn(item));
    }
}

#[test]
fn other_items_of_linux_are_written_as_linux_wrote_them() {
    let small = geo_v5_1k();
    let large = Geometry { inodelog: 11, ..geo_v5_1k() };
    for (geo, item) in [
        (&small, linux_buf()),
        (&small, regions(CANCEL)),
        (&large, regions(INODE)),
        (&small, regions(ICREATE)),
    ] {
        let item: Vec<&[u8]> = item.iter().map(Vec::as_slice).collect();
        assert_eq!(again(&item, geo), without_lsn(&item));
    }
}

/// Encodes one of Linux's inodes with every chunk changed.
fn whole_inode(image: &[u8]) -> Out {
    let mut out = Out::new();
    let cluster = (Daddr(128), Sectors(32));
    inode(&mut out, &geo_v5(), Ino(138), (cluster, 5120), image, &run(0..512));
    out
}

fn decoded<T>(out: &Out, with: impl Fn(Item<'_>) -> T) -> T {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("log item"));
    let regions: Vec<&[u8]> = out.iter().map(Vec::as_slice).collect();
    with(Item::decode(&regions, &ctx).unwrap())
}

#[test]
fn the_root_of_a_tree_is_written_as_linux_has_it_in_memory() {
    let image = golden(512, include_str!("../../../golden/inode-btree.txt"));
    let out = whole_inode(&image);
    let geo = geo_v5();
    let disk = Dinode::parse(&image, &geo).unwrap();
    let room = disk.data_fork();
    let numrecs = usize::from(bytes::be16(room, 2).unwrap());
    decoded(&out, |item| {
        let Item::Inode(found) = item else { panic!("{item:?}") };
        assert_eq!(found.format.fields.get() & DBROOT, DBROOT);
        let root = found.fork(Fork::Data).unwrap();
        assert_eq!(root.len(), 72 + 16 * numrecs);
        assert_eq!(root[..4], *b"BMA3");
        assert_eq!(root[4..8], room[..4]);
        assert_eq!(root[8..32], [0xff; 24]);
        assert_eq!((&root[40..56], root[63]), (&geo.meta_uuid.as_bytes()[..], 138));
        assert_eq!(root[72..72 + 8 * numrecs], room[4..4 + 8 * numrecs]);
        let ptrs = 4 + (room.len() - 4) / 16 * 8;
        assert_eq!(root[72 + 8 * numrecs..], room[ptrs..ptrs + 8 * numrecs]);
    });
}

#[test]
fn every_kind_of_inode_is_written_with_what_it_holds() {
    macro_rules! linux {
        ($name:literal) => {
            golden(512, include_str!(concat!("../../../golden/inode-", $name, ".txt")))
        };
    }
    for (image, fields, regions) in [
        (linux!("file"), CORE | DEXT | ADATA, 4),
        (linux!("chr"), CORE | DEV, 2),
        (linux!("symlink"), CORE | DDATA, 3),
        (linux!("dir"), CORE | DDATA, 3),
        (linux!("free"), CORE, 2),
    ] {
        let out = whole_inode(&image);
        decoded(&out, |item| {
            let Item::Inode(found) = item else { panic!("{item:?}") };
            assert_eq!((found.format.fields.get(), out.len()), (fields, regions));
            let core = found.core.to_disk();
            assert_eq!((&core[..96], &core[120..]), (&image[..96], &image[120..176]));
        });
    }
    let core_only = linux!("file");
    let mut out = Out::new();
    inode(&mut out, &geo_v5(), Ino(138), ((Daddr(128), Sectors(32)), 0), &core_only, &run(0..128));
    assert_eq!(out.len(), 2, "a fork is logged if it changed");
}

#[test]
fn pieces_of_a_block_are_not_logged_as_whole_blocks() {
    let geo = Geometry { dirblklog: 2, ..geo_v5() };
    let ctx = Ctx::new(&geo, Location::of("log item"));
    let mut block = vec![7u8; 16384];
    block[..4].copy_from_slice(b"XDD3");
    let pieces = [(Daddr(800), Sectors(8)), (Daddr(1600), Sectors(16)), (Daddr(400), Sectors(8))];
    let mut out = Out::new();
    // Beyond the end of the second piece, and nothing in the first.
    buf(&mut out, &geo, &block, &pieces, &run(12160..12544), LSN);
    let regions: Vec<&[u8]> = out.iter().map(Vec::as_slice).collect();
    let mut disk = block.clone();
    let mut seen = Vec::new();
    for item in split(&regions, &ctx).map(Result::unwrap) {
        let Item::Buf(found) = Item::decode(item, &ctx).unwrap() else { panic!("{item:?}") };
        assert_eq!(found.buf_type(), BufType::Unknown);
        let at = pieces.iter().position(|p| *p == (found.daddr(), found.sectors())).unwrap();
        for change in found.changes() {
            let from = [0, 4096, 12288][at] + change.offset;
            disk[from..from + change.bytes.len()].copy_from_slice(change.bytes);
            seen.push(from..from + change.bytes.len());
        }
    }
    assert_eq!(seen, [0..128, 12160..12288, 12288..12544]);
    let stamp = Stamp::of(&disk, &geo).unwrap();
    assert_eq!(stamp.lsn(&disk), LSN);
    assert!(xfskit_crc::verify(&disk, stamp.crc));
}

#[test]
fn unlinked_pointers_are_logged_by_themselves() {
    let mut out = Out::new();
    unlinked(&mut out, (Daddr(128), Sectors(32)), &[(512, Some(AgIno(131))), (15_872, None)]);
    decoded(&out, |item| {
        let Item::Buf(found) = item else { panic!("{item:?}") };
        assert!(found.is_unlinked() && found.buf_type() == BufType::Inode);
        assert_eq!(found.format.flags.get(), 0x4001);
        let pointers: Vec<_> =
            found.changes().map(|c| (c.offset, bytes::be32(c.bytes, 96).unwrap())).collect();
        assert_eq!(pointers, [(512, 131), (15_872, u32::MAX)]);
    });
}
