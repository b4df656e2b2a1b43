use super::*;
use crate::rmap::owner;
use crate::testing::{broken, each_check_fails, geo_v4, geo_v4_old, geo_v5, geo_v5_1k, golden};

/// Blocks 1, 3 and 5 of AG 0 of 1 GiB, written by mkfs.xfs 6.13.
const BNOBT: &str = "
    000: 41423342 00000002 ffffffff ffffffff
    010: 00000000 00000008 00000000 00000000
    020: 11111111 22223333 44445555 55555555
    030: 00000000 e44549ce 0000000d 00000003
    040: 00000018 0000ffe8";
const INOBT: &str = "
    000: 49414233 00000001 ffffffff ffffffff
    010: 00000000 00000018 00000000 00000000
    020: 11111111 22223333 44445555 55555555
    030: 00000000 2b44f92d 00000080 0000403d
    040: ffffffff fffffff8";
const RMAPBT: &str = "
    000: 524d4233 00000007 ffffffff ffffffff
    010: 00000000 00000028 00000000 00000000
    020: 11111111 22223333 44445555 55555555
    030: 00000000 7506a9cd 00000000 00000001
    040: ffffffff fffffffd 00000000 00000000
    050: 00000001 00000002 ffffffff fffffffb
    060: 00000000 00000000 00000003 00000002
    070: ffffffff fffffffa 00000000 00000000
    080: 00000005 00000001 ffffffff fffffffb
    090: 00000000 00000000 00000006 00000001
    0a0: ffffffff fffffff8 00000000 00000000
    0b0: 00000007 00000006 ffffffff fffffffb
    0c0: 00000000 00000000 00000010 00000008
    0d0: ffffffff fffffff9 00000000 00000000";

fn ctx(geo: &Geometry, tree: Tree, agbno: u32) -> Ctx<'_> {
    Ctx::new(geo, tree.location(geo, AgNumber(0), AgBlock(agbno))).log_head(Some(Lsn(1 << 32)))
}

#[test]
fn real_leaves_decode() {
    let geo = geo_v5();
    let bytes = golden(4096, BNOBT);
    let bno = Block::verify(&bytes, &ctx(&geo, Tree::Bno, 1), Tree::Bno, AgNumber(0)).unwrap();
    let free: Vec<_> = bno.recs::<alloc::Rec>().iter().map(|r| (r.start().0, r.len().0)).collect();
    assert_eq!(free, [(13, 3), (24, 0xffe8)]);
    assert!(bno.is_leaf() && bno.leftsib.is_none() && bno.ptrs().is_empty());

    let bytes = golden(4096, INOBT);
    let ino = Block::verify(&bytes, &ctx(&geo, Tree::Ino, 3), Tree::Ino, AgNumber(0)).unwrap();
    let chunk = ino.recs::<inobt::Rec>()[0].decode(&geo);
    assert_eq!((chunk.startino.0, chunk.count, chunk.freecount), (128, 64, 61));
    assert_eq!(chunk.used(), 0b111);
    assert_eq!(chunk.encode(&geo), ino.recs::<inobt::Rec>()[0]);

    let bytes = golden(4096, RMAPBT);
    let rmap = Block::verify(&bytes, &ctx(&geo, Tree::Rmap, 5), Tree::Rmap, AgNumber(0)).unwrap();
    let owners: Vec<u64> = rmap.recs::<rmap::Rec>().iter().map(|r| r.owner.get()).collect();
    let expected =
        [owner::FS, owner::AG, owner::INOBT, owner::AG, owner::REFC, owner::AG, owner::INODES];
    assert_eq!(owners, expected);
}

/// Breaks every field of the header. The last block of group 0 is 65535, or 81919.
macro_rules! breaks {
    ($tree:literal) => {
        &[
            (concat!($tree, ".magic"), 0, &b"XXXX"[..]),
            (concat!($tree, ".level"), 4, &[0, 9]),
            (concat!($tree, ".numrecs"), 6, &[0x20, 0]),
            (concat!($tree, ".leftsib"), 8, &[0, 0, 0, 0]),
            (concat!($tree, ".rightsib"), 12, &[0, 1, 0x40, 0]),
            (concat!($tree, ".bno"), 16, &[1]),
            (concat!($tree, ".lsn"), 24, &[0, 0, 0, 2]),
            (concat!($tree, ".uuid"), 32, &[0]),
            (concat!($tree, ".owner"), 48, &[0xff]),
            (concat!($tree, ".crc"), CRC_OFFSET, &[0; 4]),
        ]
    };
}

/// Breaks every field of a version 4 header, which ends after the siblings.
macro_rules! head_breaks {
    ($tree:literal) => {
        &[
            (concat!($tree, ".magic"), 0, &b"XXXX"[..]),
            (concat!($tree, ".level"), 4, &[0, 9]),
            (concat!($tree, ".numrecs"), 6, &[0x20, 0]),
            (concat!($tree, ".leftsib"), 8, &[0, 0, 0, 0]),
            (concat!($tree, ".rightsib"), 12, &[0, 1, 0x40, 0]),
        ]
    };
}

/// Expects that `block`, which lies at `at` and has children at `ptrs`, passes, and that each
/// broken field is named.
fn verify_block(tree: Tree, block: &[u8], at: (u32, u32), ptrs: &[u32], cases: &[Case<'_>]) {
    let geo = if block.len() == 1024 { geo_v5_1k() } else { geo_v5() };
    let (agno, agbno) = (AgNumber(at.0), AgBlock(at.1));
    let head = Some(Lsn(0x1_0000_ffff));
    let ctx = Ctx::new(&geo, tree.location(&geo, agno, agbno)).log_head(head);
    let good = Block::verify(block, &ctx, tree, agno).unwrap();
    assert_eq!(good.ptrs().iter().map(|ptr| ptr.get()).collect::<Vec<_>>(), ptrs);
    each_check_fails(block, Some(CRC_OFFSET), cases, |block| {
        Block::verify(block, &ctx, tree, agno).map(drop)
    });
    // A block is no sibling of itself.
    let itself = broken(block, 8, &agbno.0.to_be_bytes(), Some(CRC_OFFSET));
    let fault = Block::verify(&itself, &ctx, tree, agno).unwrap_err();
    assert_eq!(fault.check.0, tree.ids().leftsib);
}

type Case<'a> = (&'a str, usize, &'a [u8]);

macro_rules! linux {
    ($name:literal) => {
        golden(1024, include_str!(concat!("../golden/", $name, ".txt")))
    };
}

#[test]
fn each_field_of_a_leaf_is_checked() {
    verify_block(Tree::Bno, &golden(4096, BNOBT), (0, 1), &[], breaks!("bnobt"));
    verify_block(Tree::Cnt, &linux!("cntbt-leaf"), (3, 3), &[], breaks!("cntbt"));
    verify_block(Tree::Ino, &golden(4096, INOBT), (0, 3), &[], breaks!("inobt"));
    verify_block(Tree::Fino, &linux!("finobt-leaf"), (0, 1981), &[], breaks!("finobt"));
    verify_block(Tree::Rmap, &golden(4096, RMAPBT), (0, 5), &[], breaks!("rmapbt"));
    verify_block(Tree::Refcount, &linux!("refcountbt-leaf"), (1, 316), &[], breaks!("refcountbt"));
}

#[test]
fn each_field_of_a_node_is_checked() {
    verify_block(Tree::Bno, &linux!("bnobt-node"), (1, 784), &[2, 744, 904], breaks!("bnobt"));
    verify_block(Tree::Cnt, &linux!("cntbt-node"), (1, 864), &[3, 944, 824], breaks!("cntbt"));
    verify_block(Tree::Ino, &linux!("inobt-node"), (0, 1964), &[4, 14], breaks!("inobt"));
    verify_block(Tree::Fino, &linux!("finobt-node"), (0, 1982), &[5, 1981], breaks!("finobt"));
    let ptrs = [6, 65544, 65546];
    verify_block(Tree::Rmap, &linux!("rmapbt-node"), (2, 65545), &ptrs, breaks!("rmapbt"));
    let ptrs = [7, 306, 316, 426];
    verify_block(
        Tree::Refcount,
        &linux!("refcountbt-node"),
        (1, 308),
        &ptrs,
        breaks!("refcountbt"),
    );
}

/// Blocks 2, 3 and 4 of the kept volume `v4-old`.
#[test]
fn each_field_of_version_4_is_checked() {
    let geo = geo_v4_old();
    let free = "10: 00000728 000001ff 00000960 000036a0";
    let bnobt = format!("00: 41425442 00000002 ffffffff ffffffff\n{free}");
    let cntbt = format!("00: 41425443 00000002 ffffffff ffffffff\n{free}");
    let inobt = "00: 49414254 00000001 ffffffff ffffffff
                 10: 00000040 0000002e ffffffff fffc0000";
    let verify_block = |tree: Tree, rows: &str, agbno: u32, cases: &[Case<'_>]| {
        let block = golden(1024, rows);
        each_check_fails(&block, None, cases, |block| {
            Block::verify(block, &ctx(&geo, tree, agbno), tree, AgNumber(0)).map(drop)
        });
        block
    };
    let bno = verify_block(Tree::Bno, &bnobt, 2, head_breaks!("bnobt"));
    verify_block(Tree::Cnt, &cntbt, 3, head_breaks!("cntbt"));
    let ino = verify_block(Tree::Ino, inobt, 4, head_breaks!("inobt"));

    let at = ctx(&geo, Tree::Bno, 2);
    let bno = Block::verify(&bno, &at, Tree::Bno, AgNumber(0)).unwrap();
    assert_eq!(bno.recs::<alloc::Rec>()[1].start(), AgBlock(0x960));
    let at = ctx(&geo, Tree::Ino, 4);
    let ino = Block::verify(&ino, &at, Tree::Ino, AgNumber(0)).unwrap();
    let chunk = ino.recs::<inobt::Rec>()[0].decode(&geo);
    assert_eq!((chunk.count, chunk.freecount, chunk.used()), (64, 46, 0x3_ffff));
    assert_eq!(chunk.encode(&geo), ino.recs::<inobt::Rec>()[0]);
}

#[test]
fn keys_of_a_node_are_those_of_its_children() {
    let geo = geo_v5_1k();
    let node = |tree: Tree, bytes: &'static [u8], (agno, agbno): (u32, u32)| {
        let agno = AgNumber(agno);
        let ctx = Ctx::new(&geo, tree.location(&geo, agno, AgBlock(agbno)));
        Block::verify(bytes, &ctx, tree, agno).unwrap()
    };
    let cnt = node(Tree::Cnt, linux!("cntbt-node").leak(), (1, 864));
    let keys: Vec<_> = cnt.keys::<alloc::Rec>().iter().map(|k| (k.start().0, k.len().0)).collect();
    assert_eq!(keys, [(0x1b0, 1), (0x22e, 1), (0x2ed, 1)]);
    let fino = node(Tree::Fino, linux!("finobt-node").leak(), (0, 1982));
    assert_eq!(fino.keys::<U32>(), [U32::new(0x40), U32::new(0x840)]);
    let leaf = node(Tree::Fino, linux!("finobt-leaf").leak(), (0, 1981));
    assert_eq!(leaf.recs::<inobt::Rec>()[0].startino, 0x840);
    let refcount = node(Tree::Refcount, linux!("refcountbt-node").leak(), (1, 308));
    let leaf = node(Tree::Refcount, linux!("refcountbt-leaf").leak(), (1, 316));
    assert_eq!(refcount.keys::<U32>()[2], leaf.recs::<refcount::Rec>()[0].startblock);
    let rmap = node(Tree::Rmap, linux!("rmapbt-node").leak(), (2, 65545));
    let keys = rmap.keys::<rmap::KeyPair>();
    assert_eq!(keys[0].low.sort_key(), (0, owner::FS, 0));
    assert_eq!(keys[0].high.sort_key().0, 0x1_002e);
}

#[test]
fn capacities_are_those_of_the_format() {
    let at = |blocklog: u8| Geometry { blocklog, ..geo_v5() };
    for (blocklog, alloc, ino, rmap, refcount) in [
        (10, (121, 80), (60, 121), (40, 22), (80, 121)),
        (12, (505, 336), (252, 505), (168, 91), (336, 505)),
        (16, (8185, 5456), (4092, 8185), (2728, 1488), (5456, 8185)),
    ] {
        let geo = at(blocklog);
        let of = |tree: Tree| (tree.maxrecs(&geo, 0), tree.maxrecs(&geo, 1));
        assert_eq!(of(Tree::Bno), alloc);
        assert_eq!(of(Tree::Fino), ino);
        assert_eq!(of(Tree::Rmap), rmap);
        assert_eq!(of(Tree::Refcount), refcount);
    }
    let v4 = geo_v4();
    assert_eq!((Tree::Cnt.maxrecs(&v4, 0), Tree::Cnt.maxrecs(&v4, 1)), (510, 340));
    assert_eq!((Tree::Ino.maxrecs(&v4, 0), Tree::Ino.maxrecs(&v4, 1)), (255, 510));
}

#[test]
fn heights_are_those_of_the_format() {
    for (blocklog, agblocks, alloc, ino, rmap, rmap_unshared, refcount) in [
        (12u8, 4096u32, 2, 2, 3, 3, 2),
        (12, 19_200, 2, 2, 4, 3, 2),
        (12, 65_536, 2, 2, 4, 3, 3),
        (12, 655_360, 3, 3, 5, 4, 3),
        (12, 67_108_864, 4, 4, 6, 5, 4),
        (12, 268_435_455, 4, 4, 6, 5, 4),
        (10, 76_800, 3, 3, 6, 5, 3),
        (16, 2048, 1, 2, 3, 2, 1),
    ] {
        let mut geo = Geometry {
            blocklog,
            inopblog: blocklog - 9,
            agblocks,
            agblklog: u8::try_from((agblocks - 1).ilog2() + 1).unwrap(),
            ..geo_v5()
        };
        let heights =
            [Tree::Bno, Tree::Ino, Tree::Rmap, Tree::Refcount].map(|t| t.max_levels(&geo));
        assert_eq!(heights, [alloc, ino, rmap, refcount], "{blocklog} {agblocks}");
        geo.features.ro_compat -= xfskit_units::features::RoCompat::REFLINK;
        assert_eq!(Tree::Rmap.max_levels(&geo), rmap_unshared, "{blocklog} {agblocks}");
    }
}

#[test]
fn the_rmapbt_keys_of_a_shared_extent() {
    let rec = rmap::Rec {
        startblock: 0x780.into(),
        blockcount: 6.into(),
        owner: 0xc00cb.into(),
        offset: (rmap::OFF_UNWRITTEN | 4).into(),
    };
    assert_eq!(rec.low_key().sort_key(), (0x780, 0xc00cb, 4));
    assert_eq!(rec.high_key().sort_key(), (0x785, 0xc00cb, 9));
}
