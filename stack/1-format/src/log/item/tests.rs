//! Items as Linux 6.18 logged them, and every check of them.

use xfskit_units::{AgBlock, AgNumber, ExtLen, Geometry, Ino};

use super::attri::AttrOp;
use super::intent::Work;
use super::{Family, Item, region_count, split};
use crate::testing::{geo_v4_1k, geo_v5_1k};
use crate::{Ctx, Fork, Location};

/// One region a line.
pub(super) type Regions = Vec<Vec<u8>>;

pub(super) fn regions(hex: &str) -> Regions {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let region = |line: &str| line.trim().as_bytes().chunks(2).map(byte).collect();
    hex.lines().filter(|line| !line.trim().is_empty()).map(region).collect()
}

/// A block of a refcountbt: its first and its fifth 128 bytes.
pub(super) fn buf() -> Regions {
    let head = "5233464300010002ffffffffffffffff00000000000292f60000000000000000\
                1111111122223333444455555555555500000001000000000000068d80000900";
    vec![
        regions("3c12030000200200f6920200000000000100000011000000").remove(0),
        [regions(head).remove(0), vec![0; 64]].concat(),
        vec![0; 128],
    ]
}

pub(super) const CANCEL: &str = "3c1201000200020038800200000000000100000000000000";
/// A file with extents in both forks.
pub(super) const INODE: &str = "
    3b1204008500000010001000000000005c000c00000000000000000000000000000000000000000040800700000000002000000000380000
    4e49ed8103020000000000000000000001000000000000000100000000000000af22b54166fb736f40e1170166fb736f40e1170166fb736f0000000000000000050000000000000000000000010000000000180200000000000000003614d957ffffffff000000004300000000000000983c0100010000001800000000000000000000000000000000000000000000000af22b54166fb7365c000c000000000011111111222233334444555555555555
    8000000000000000000000c011800004
    0000000000000000000000c003400001";
/// A symlink of version 2, by Linux 6.12.
const INODE_V4: &str = "
    3b12030003000000000005000000000086000000000000000000000000000000000000000000000040000000000000001000000000060000
    4e49ffa1020100000000000000000000010000000000000000000000000000009c6d016b81cb402e9c6d016b81cb402e9c6d016b81cb402e05000000000000000000000000000000000000000000000000000002000000000000000000000000
    73686f7274000000";
pub(super) const ICREATE: &str = "3f1201000000000000000040000000400000020000000020b432393c";
const EFI: &str = "3612010001000000b03ca8d78288ffff4d000000000000000100000000000000";
const EFD: &str = "3712010001000000b03ca8d78288ffff4d000000000000000100000000000000";
const RUI: &str = "401201000100000000ab8f568188fffff7ffffffffffffff010900000000000000000000000000002000000007000000";
const RUD: &str = "411201000000000000ab8f568188ffff";
const CUI: &str = "4212010001000000a0d756b28288ffff01090000000000002000000003000000";
const CUD: &str = "4312010000000000a0d756b28288ffff";
const BUI: &str = "4412010001000000a02ec4648288ffff5500000000000000c90800000000000008000000000000000400000001000000";
const BUD: &str = "4512010000000000a02ec4648288ffff";
const ATTRD: &str = "4712010000000000f048cd168188ffff";
const XMI: &str = "4812010000000000c826f9048188ffff5f000000000000006300000000000000a985f7e9dae79bf9000000000000000000000000000000004000000000000000020000000000000000000100000000000000010000000000";
const XMD: &str = "4912010000000000c826f9048188ffff";
/// A rename, from "a5.c" to a longer name.
const PARENT_REPLACE: &str = "
    4612050047c3043ef048cd168188ffff50000c000000000006000000040023000c00000008000000
    61352e63
    61352e6c6f6e6765722d6e616d652d7468616e2d69742d6861642d6265666f72652d3100
    00000000000c0040a1af1c32
    00000000000c0040a1af1c32";
const PARENT_SET: &str = "
    4612030044d2a1c27062b1098388ffff4a1300000000000004000000040000000c00000008000000
    61312e63
    00000000000000460f2e64dd";

/// The record of group 1000, with limits, by Linux 6.12.
const DQUOT: &str = "
    3d120200e803000078010000000000000100000050050000
    44510184000003e8000000000000020000000000000001000000000000000014000000000000000a00000000000000030000000000000003000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000";
/// As the format describes it; kernels no longer write it.
const QUOTAOFF: &str = "3e12010001000000000000000000000000000000";

fn decode<T>(
    geo: &Geometry,
    item: &Regions,
    with: impl Fn(Item<'_>) -> T,
) -> Result<T, &'static str> {
    let regions: Vec<&[u8]> = item.iter().map(Vec::as_slice).collect();
    let ctx = Ctx::new(geo, Location::of("log item"));
    Item::decode(&regions, &ctx).map(with).map_err(|fault| fault.check.0)
}

/// One way to damage an item.
enum Break<'a> {
    /// Overwrites bytes at an offset of a region: region, offset, bytes.
    Put(usize, usize, &'a [u8]),
    /// Truncates a region to a length.
    Cut(usize, usize),
    /// Keeps this many regions.
    Keep(usize),
}
use Break::{Cut, Keep, Put};

/// Decodes `good`, breaks one part after the other and expects each check by its id.
fn each_check_fails(geo: &Geometry, good: &Regions, cases: &[(&str, Break<'_>)]) {
    assert_eq!(decode(geo, good, |_| ()), Ok(()));
    for (id, case) in cases {
        let mut bad = good.clone();
        match *case {
            Put(region, at, bytes) => bad[region][at..at + bytes.len()].copy_from_slice(bytes),
            Cut(region, len) => bad[region].resize(len, 0),
            Keep(count) => bad.truncate(count),
        }
        assert_eq!(decode(geo, &bad, |_| ()), Err(*id));
    }
}

#[test]
fn a_buffer_item_lists_the_changed_chunks() {
    let geo = geo_v5_1k();
    decode(&geo, &buf(), |item| {
        let Item::Buf(buf) = item else { panic!("{item:?}") };
        let offsets: Vec<usize> = buf.changes().map(|change| change.offset).collect();
        assert_eq!((offsets, buf.daddr().0), (vec![0, 512], 0x292f6));
    })
    .unwrap();
    each_check_fails(
        &geo,
        &buf(),
        &[
            ("log.buf.format", Cut(0, 19)),
            ("log.buf.map_size", Put(0, 16, &[2])),
            ("log.buf.len", Put(0, 6, &[0])),
            ("log.buf.len", Put(0, 6, &[129])),
            ("log.buf.region", Cut(1, 100)),
            ("log.buf.region", Cut(2, 0)),
            ("log.buf.map", Put(0, 20, &[0x01])),
            ("log.buf.map", Put(0, 20, &[0x11, 1])),
            ("log.buf.map", Put(0, 20, &[0x01, 1])),
            ("log.buf.map", Cut(1, 256)),
            ("log.item.type", Put(0, 0, &[0x35])),
            ("log.item.type", Cut(0, 1)),
            ("log.item.type", Keep(0)),
        ],
    );
    each_check_fails(&geo, &regions(CANCEL), &[("log.buf.len", Put(0, 6, &[0]))]);
}

#[test]
fn an_inode_item_carries_its_core_and_forks() {
    let geo = geo_v5_1k();
    decode(&geo, &regions(INODE), |item| {
        let Item::Inode(inode) = item else { panic!("{item:?}") };
        assert_eq!((inode.ino(), inode.core.nblocks.get()), (Ino(0xc_005c), 5));
        assert_eq!(inode.fork(Fork::Data).unwrap().len(), 16);
        assert_eq!(inode.fork(Fork::Attr).unwrap().len(), 16);
        assert_eq!(inode.core.to_disk()[..4], [0x49, 0x4e, 0x81, 0xed]);
    })
    .unwrap();
    each_check_fails(
        &geo,
        &regions(INODE),
        &[
            ("log.inode.format", Cut(0, 55)),
            ("log.inode.fields", Put(0, 4, &[0x84])),
            ("log.inode.fields", Put(0, 4, &[0x87])),
            ("log.inode.asize", Put(0, 8, &[17])),
            ("log.inode.dsize", Put(0, 10, &[17])),
            ("log.inode.core", Cut(1, 175)),
            ("log.inode.magic", Put(1, 0, &[0])),
            ("log.inode.version", Put(1, 4, &[2])),
            ("log.inode.size", Keep(3)),
        ],
    );
    let v4 = geo_v4_1k();
    let item = regions(INODE_V4);
    decode(&v4, &item, |item| {
        let Item::Inode(inode) = item else { panic!("{item:?}") };
        assert_eq!(inode.fork(Fork::Data), Some(&b"short"[..]));
    })
    .unwrap();
    each_check_fails(
        &v4,
        &item,
        &[("log.inode.core", Cut(1, 95)), ("log.inode.version", Put(1, 4, &[3]))],
    );
    // Old 32-bit kernels left out the padding.
    let mut packed = item;
    packed[0].drain(12..16);
    assert_eq!(decode(&v4, &packed, |_| ()), Ok(()));
}

#[test]
fn an_inode_chunk_item_gives_its_location() {
    let geo = geo_v5_1k();
    let ctx = Ctx::new(&geo, Location::of("log item"));
    let verify_block = |region: &Regions| {
        decode(&geo, region, |item| {
            let Item::Icreate(icreate) = item else { panic!("{item:?}") };
            icreate.verify(&ctx).map_err(|fault| fault.check.0)
        })
    };
    let good = regions(ICREATE);
    assert_eq!(verify_block(&good), Ok(Ok((AgNumber(0), AgBlock(0x40), ExtLen(32)))));
    for (id, at, byte) in [
        ("log.icreate.agbno", 6, 1),
        ("log.icreate.agbno", 8, 1),
        ("log.icreate.count", 15, 0x41),
        ("log.icreate.isize", 18, 1),
        ("log.icreate.length", 23, 0),
        ("log.icreate.length", 23, 33),
    ] {
        let mut bad = good.clone();
        bad[0][at] = byte;
        assert_eq!(verify_block(&bad), Ok(Err(id)), "byte {at}");
    }
    each_check_fails(&geo, &good, &[("log.icreate.len", Cut(0, 27))]);
}

#[test]
fn intents_and_done_items_match_by_id() {
    let geo = geo_v5_1k();
    let identity = |hex: &str| {
        decode(&geo, &regions(hex), |item| match item {
            Item::Intent(intent) => (intent.family, intent.id),
            Item::Done(done) => (done.family, done.id),
            other => panic!("{other:?}"),
        })
        .unwrap()
    };
    for (family, intent, done) in [
        (Family::ExtentFree, EFI, EFD),
        (Family::Rmap, RUI, RUD),
        (Family::Refcount, CUI, CUD),
        (Family::Bmap, BUI, BUD),
        (Family::Attr, PARENT_REPLACE, ATTRD),
        (Family::Exchange, XMI, XMD),
    ] {
        assert_eq!(identity(intent), identity(done));
        assert_eq!(identity(intent).0, family);
    }
}

#[test]
fn intents_are_written_as_linux_wrote_them() {
    let geo = geo_v5_1k();
    for hex in [EFI, EFD, RUI, RUD, CUI, CUD, BUI, BUD, PARENT_SET, PARENT_REPLACE, ATTRD, XMI, XMD]
    {
        let item = regions(hex);
        let again = decode(&geo, &item, |item| {
            let mut out = Regions::new();
            match item {
                Item::Intent(intent) => super::encode::intent(&mut out, &intent),
                Item::Done(done) => super::encode::done(&mut out, &done),
                other => panic!("{other:?}"),
            }
            out
        });
        assert_eq!(again, Ok(item));
    }
    let answer = |hex| {
        decode(&geo, &regions(hex), |item| {
            let Item::Intent(intent) = item else { panic!("{item:?}") };
            let mut out = Regions::new();
            super::encode::done(&mut out, &intent.done());
            out
        })
    };
    for (intent, done) in [(EFI, EFD), (RUI, RUD), (CUI, CUD), (BUI, BUD), (XMI, XMD)] {
        assert_eq!(answer(intent), Ok(regions(done)));
    }
}

#[test]
fn realtime_intents_are_distinguished_by_their_type() {
    let geo = geo_v5_1k();
    for (hex, kind, expected) in [
        (EFI, 0x4a, Family::ExtentFreeRt),
        (EFD, 0x4b, Family::ExtentFreeRt),
        (RUI, 0x4c, Family::RmapRt),
        (RUD, 0x4d, Family::RmapRt),
        (CUI, 0x4e, Family::RefcountRt),
        (CUD, 0x4f, Family::RefcountRt),
    ] {
        let mut item = regions(hex);
        item[0][0] = kind;
        let family = decode(&geo, &item, |item| match item {
            Item::Intent(intent) => intent.family,
            Item::Done(done) => done.family,
            other => panic!("{other:?}"),
        });
        assert_eq!(family, Ok(expected));
    }
}

#[test]
fn each_check_of_an_intent_fails_by_its_name() {
    let geo = geo_v5_1k();
    for hex in [EFI, EFD, RUI, CUI, BUI] {
        each_check_fails(
            &geo,
            &regions(hex),
            &[
                ("log.intent.len", Cut(0, 15)),
                ("log.intent.nextents", Put(0, 4, &[2])),
                ("log.intent.nextents", Put(0, 4, &[0xff; 4])),
            ],
        );
    }
    for hex in [RUD, CUD, BUD, ATTRD, XMD] {
        each_check_fails(&geo, &regions(hex), &[("log.intent.len", Cut(0, 15))]);
    }
    each_check_fails(&geo, &regions(XMI), &[("log.xmi.len", Cut(0, 87))]);
    // An old 32-bit kernel's extent has 12 bytes.
    let mut packed = regions(EFI);
    packed[0].truncate(28);
    assert_eq!(decode(&geo, &packed, |_| ()), Ok(()));
}

#[test]
fn an_attribute_intent_carries_names_and_values() {
    let geo = geo_v5_1k();
    decode(&geo, &regions(PARENT_REPLACE), |item| {
        let Item::Intent(intent) = item else { panic!("{item:?}") };
        let Work::Attr(attri) = intent.work else { panic!("{:?}", intent.work) };
        assert_eq!((attri.op, &attri.name[..]), (AttrOp::ParentReplace, &b"a5.c"[..]));
        assert_eq!(attri.new_name, b"a5.longer-name-than-it-had-before-1");
        assert_eq!((attri.value.len(), attri.new_value.len()), (12, 12));
    })
    .unwrap();
    each_check_fails(
        &geo,
        &regions(PARENT_REPLACE),
        &[
            ("log.attri.len", Cut(0, 39)),
            ("log.attri.op_flags", Put(0, 24, &[0])),
            ("log.attri.op_flags", Put(0, 24, &[7])),
            ("log.attri.old_name", Cut(1, 8)),
            ("log.attri.new_name", Put(0, 30, &[0x25])),
            ("log.attri.value", Cut(3, 8)),
            ("log.attri.new_value", Keep(4)),
        ],
    );
    each_check_fails(
        &geo,
        &regions(PARENT_SET),
        &[("log.attri.name", Put(0, 28, &[5])), ("log.attri.value", Keep(2))],
    );
}

#[test]
fn quota_items_are_parsed_and_skipped() {
    let geo = geo_v5_1k();
    let dquot = regions(DQUOT);
    decode(&geo, &dquot, |item| {
        let Item::Dquot(dquot) = item else { panic!("{item:?}") };
        assert_eq!((dquot.format.id.get(), dquot.record.len()), (1000, 104));
        assert_eq!(dquot.format.boffset.get() % 136, 0);
    })
    .unwrap();
    each_check_fails(&geo, &dquot, &[("log.dquot.len", Cut(0, 23)), ("log.dquot.size", Keep(1))]);
    let quotaoff = regions(QUOTAOFF);
    each_check_fails(&geo, &quotaoff, &[("log.quotaoff.len", Cut(0, 19))]);
}

#[test]
fn an_item_has_as_many_regions_as_it_states() {
    let geo = geo_v5_1k();
    let ctx = Ctx::new(&geo, Location::of("transaction"));
    let all: Regions = [buf(), regions(RUD), regions(INODE)].concat();
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let counts: Vec<usize> = split(&all, &ctx).map(|item| item.unwrap().len()).collect();
    assert_eq!(counts, [3, 1, 4]);
    let cut = split(&all[..7], &ctx).last().unwrap().unwrap_err();
    assert_eq!(cut.check.0, "log.item.size");
    let count = |region: &[u8]| region_count(region, &ctx).map_err(|fault| fault.check.0);
    assert_eq!(count(&[0x3c, 0x12, 1, 1]), Ok(257));
    assert_eq!(count(&[0x3c, 0x12, 2, 1]), Err("log.item.size"));
    assert_eq!(count(&[0x3c, 0x12, 0, 0]), Err("log.item.size"));
    assert_eq!(count(&[0x3c, 0x12, 0]), Err("log.item.type"));
}
