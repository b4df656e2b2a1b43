use xfskit_units::{Daddr, Ino, Sectors};

use super::*;
use crate::testing::{each_check_fails, geo_v4, geo_v5, golden};

fn extent(startoff: u64, startblock: u64, blockcount: u64, unwritten: bool) -> Extent {
    let (startoff, startblock) = (FileOff(startoff), FsBlock(startblock));
    Extent { startoff, startblock, blockcount: FilBlks(blockcount), unwritten }
}

#[test]
fn records_survive_decoding_and_encoding() {
    let bytes = golden(512, include_str!("../golden/inode-extents.txt"));
    let recs = records(&bytes[176..], 3);
    let expected =
        [extent(0, 4118, 3, false), extent(10, 4121, 1, false), extent(20, 4131, 2, true)];
    assert_eq!(recs.iter().map(Rec::decode).collect::<Vec<_>>(), expected);
    assert_eq!(expected.map(|e| e.encode()), recs);
    let part = extent(10, 4118, 5, true).clip(FileOff(12), FileOff(14));
    assert_eq!(part, extent(12, 4120, 2, true));
    let large = extent(MAX_STARTOFF, (1 << 52) - 1, MAX_BLOCKCOUNT, true);
    assert_eq!(large.encode().decode(), large);
}

#[test]
fn each_impossible_extent_is_named() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("inode"));
    let verify_block = |extent: Extent, unwritten| {
        let rules = ExtentRules { realtime: false, unwritten };
        extent.verify(&ctx, rules).map_err(|fault| fault.check.0)
    };
    assert_eq!(verify_block(extent(0, 22, 3, true), true), Ok(()));
    assert_eq!(verify_block(extent(0, 22, 3, true), false), Err("bmbt.rec.state"));
    assert_eq!(verify_block(extent(0, 22, 0, false), true), Err("bmbt.rec.blockcount"));
    assert_eq!(verify_block(extent(0, 0, 3, false), true), Err("bmbt.rec.startblock"));
    assert_eq!(verify_block(extent(0, 65535, 2, false), true), Err("bmbt.rec.startblock"));
    let rules = ExtentRules { realtime: true, unwritten: true };
    let realtime = extent(0, 22, 3, true).verify(&ctx, rules);
    assert_eq!(realtime.unwrap_err().check.0, "bmbt.rec.startblock");
    let overlap = extent(9, 22, 3, true).follows(&ctx, FileOff(10));
    assert_eq!(overlap.unwrap_err().check.0, "bmbt.rec.order");
}

#[test]
fn limits_agree_with_the_format_notes() {
    let (v5, v4) = (geo_v5(), geo_v4());
    assert_eq!((maxrecs(&v5), minrecs(&v5), maxrecs(&v4)), (251, 125, 254));
    assert_eq!((root_maxrecs(192), root_maxrecs(336), inline_records(156)), (11, 20, 9));
    assert_eq!(max_levels(&v5, Fork::Data), 8);
    assert_eq!(max_levels(&v4, Fork::Attr), 4);
}

#[test]
fn the_root_that_linux_wrote_leads_to_its_child_and_each_break_is_named() {
    let geo = geo_v5();
    let ctx = Ctx::new(&geo, Location::of("inode").ino(Ino(138)));
    let inode = golden(512, include_str!("../golden/inode-btree.txt"));
    let room = &inode[176..176 + 192];
    let root = BmdrRoot::verify(room, &ctx, Fork::Data).unwrap();
    assert_eq!((root.level, root.keys, root.ptrs), (2, &[0.into()][..], &[4035.into()][..]));
    each_check_fails(
        room,
        None,
        &[
            ("bmdr.level", 0, &[0, 0]),
            ("bmdr.level", 0, &[0, 8]),
            ("bmdr.numrecs", 2, &[0, 0]),
            ("bmdr.numrecs", 2, &[0, 12]),
            ("bmdr.keys", 2, &[0, 2]),
            ("bmdr.ptrs", 92, &[1]),
        ],
        |room| BmdrRoot::verify(room, &ctx, Fork::Data).map(drop),
    );
}

#[test]
fn a_node_that_linux_wrote_lists_its_leaves_and_each_break_is_named() {
    let geo = geo_v5();
    let at = Location::of("bmbt block").ino(Ino(138)).daddr(Daddr(32280), Sectors(8));
    let ctx = Ctx::new(&geo, at).log_head(Some(Lsn(0x1_0000_0100)));
    let block = golden(4096, include_str!("../golden/bmbt-node.txt"));
    let node = BmbtBlock::verify(&block, &ctx, Fork::Data).unwrap();
    assert_eq!((node.level, node.numrecs, node.leftsib), (1, 16, None));
    assert_eq!((node.keys()[1].get(), node.ptrs()[15].get()), (0x104, 0xfcd));
    assert!(node.recs().is_empty());
    each_check_fails(
        &block,
        Some(CRC_OFFSET),
        &[
            ("bmbt.magic", 0, b"BMAP"),
            ("bmbt.level", 4, &[0, 7]),
            ("bmbt.numrecs", 6, &[0, 0]),
            ("bmbt.numrecs", 6, &[0, 252]),
            ("bmbt.leftsib", 8, &[0, 0, 0, 0, 0, 0, 0x0f, 0xc3]),
            ("bmbt.rightsib", 16, &[0]),
            ("bmbt.bno", 24, &[1]),
            ("bmbt.lsn", 32, &[1]),
            ("bmbt.uuid", 40, &[0]),
            ("bmbt.owner", 56, &[1]),
            ("bmbt.keys", 0x5e, &[0]),
            ("bmbt.ptrs", 0x820, &[1]),
            ("bmbt.crc", CRC_OFFSET, &[0; 4]),
        ],
        |block| BmbtBlock::verify(block, &ctx, Fork::Data).map(drop),
    );
}

#[test]
fn a_leaf_that_linux_wrote_lists_its_extents() {
    let geo = geo_v5();
    let at = Location::of("bmbt block").ino(Ino(141)).daddr(Daddr(32632), Sectors(8));
    let block = golden(4096, include_str!("../golden/bmbt-leaf.txt"));
    let leaf = BmbtBlock::verify(&block, &Ctx::new(&geo, at), Fork::Data).unwrap();
    assert_eq!((leaf.recs().len(), leaf.keys().len(), leaf.ptrs().len()), (36, 0, 0));
    assert!(leaf.recs().is_sorted_by_key(|rec| rec.decode().startoff));
}

#[test]
fn an_extent_may_end_at_the_largest_offset_of_a_file_and_not_behind_it() {
    let geo = xfskit_units::example::geometry();
    let ctx = Ctx::new(&geo, Location::of("inode"));
    let most = 1 << (63 - geo.blocklog);
    let ending_at = |end: u64| {
        let (startoff, blockcount) = (FileOff(end - 3), FilBlks(3));
        Extent { startoff, startblock: FsBlock(22), blockcount, unwritten: false }
    };
    ending_at(most).verify_end(&ctx).unwrap();
    let behind = ending_at(most + 1).verify_end(&ctx);
    assert_eq!(behind.unwrap_err().check.0, "bmbt.rec.startoff");
}
