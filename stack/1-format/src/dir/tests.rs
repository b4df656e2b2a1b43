//! Golden directories made by Linux (version 5) and mkfs.xfs (version 4), and every check.

use xfskit_units::{Daddr, FileOff, Geometry, Ino};

use super::data::{Data, Form, salvage};
use super::free::Free;
use super::leaf::{Kind, Leaf};
use super::sf::{Sf, empty};
use super::{DataPtr, Entry, data};
use crate::da;
use crate::testing::{broken, each_check_fails, geo_v4_1k, geo_v5_1k, golden};
use crate::{Ctx, Fork, Location};

struct Golden {
    geo: Geometry,
    block: Vec<u8>,
    at: Location,
}

fn load(geo: Geometry, hex: &str, ino: u64, fileoff: u64, daddr: u64) -> Golden {
    let block = golden(geo.dirblksize(), hex);
    let at = Location::of("test").ino(Ino(ino)).fork(Fork::Data).fileoff(FileOff(fileoff));
    Golden { geo, block, at: Location { daddr: Some(Daddr(daddr)), ..at } }
}

impl Golden {
    fn ctx(&self) -> Ctx<'_> {
        Ctx::new(&self.geo, self.at)
    }
}

const LEAF: u64 = (1 << 35) >> 10;
const FREE: u64 = (1 << 36) >> 10;

fn block_v5() -> Golden {
    load(geo_v5_1k(), include_str!("golden/block-v5.hex"), 262_208, 0, 163_896)
}
fn block_v4() -> Golden {
    load(geo_v4_1k(), include_str!("golden/block-v4.hex"), 1_310_784, 0, 458_776)
}
fn data_v5() -> Golden {
    load(geo_v5_1k(), include_str!("golden/data-v5.hex"), 655_424, 4, 458_792)
}
fn data_v4() -> Golden {
    load(geo_v4_1k(), include_str!("golden/data-v4.hex"), 1_572_928, 4, 491_592)
}
fn leaf1_v5() -> Golden {
    load(geo_v5_1k(), include_str!("golden/leaf1-v5.hex"), 655_424, LEAF, 458_800)
}
fn leaf1_v4() -> Golden {
    load(geo_v4_1k(), include_str!("golden/leaf1-v4.hex"), 1_572_928, LEAF, 491_584)
}
fn free_v5() -> Golden {
    load(geo_v5_1k(), include_str!("golden/free-v5.hex"), 786_496, FREE, 491_698)
}
fn free_v4() -> Golden {
    load(geo_v4_1k(), include_str!("golden/free-v4.hex"), 67, FREE, 304)
}

fn names<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Vec<&'a [u8]> {
    entries.map(|e| e.name).collect()
}

const SF_V5: &[u8] = b"\x05\0\0\0\0\x40\
    \x05\0\x60alpha\x01\0\0\0\x45\x04\0\x78link\x07\0\0\0\x46\x04\0\x88fifo\x05\0\0\0\x47\
    \x04\0\x98cdev\x03\0\0\0\x48\x03\0\xa8sub\x02\0\x04\0\x41";
const SF_V4: &[u8] = b"\x04\0\0\0\0\x40\
    \x05\0\x30alpha\x01\0\x08\0\x41\x04\0\x48link\x07\0\x08\0\x42\x04\0\x58fifo\x05\0\x08\0\x43\
    \x04\0\x68cdev\x03\0\x08\0\x44";

#[test]
fn short_forms_read_as_xfs_db_prints_them() {
    let (v5, v4) = (geo_v5_1k(), geo_v4_1k());
    let sf = Sf::verify(SF_V5, &Ctx::new(&v5, Location::of("test"))).unwrap();
    assert_eq!((sf.count, sf.i8count, sf.parent), (5, 0, Ino(64)));
    assert_eq!(names(sf.entries()), [&b"alpha"[..], b"link", b"fifo", b"cdev", b"sub"]);
    let last = sf.entries().last().unwrap();
    assert_eq!((last.inumber, last.filetype, last.offset), (Ino(262_209), Some(2), 0xa8));
    let sf = Sf::verify(SF_V4, &Ctx::new(&v4, Location::of("test"))).unwrap();
    assert_eq!(names(sf.entries()), [&b"alpha"[..], b"link", b"fifo", b"cdev"]);
}

#[test]
fn a_short_form_without_types_or_with_wide_numbers_reads() {
    let mut geo = geo_v4_1k();
    geo.features.features2 -= xfskit_units::features::Features2::FTYPE;
    let sf = b"\x01\0\0\0\0\x40\x01\0\x30a\0\x08\0\x41";
    let sf = Sf::verify(sf, &Ctx::new(&geo, Location::of("test"))).unwrap();
    assert_eq!(sf.entries().next().unwrap().filetype, None);
    // A volume large enough for inode numbers above 32 bits.
    let big =
        Geometry { agcount: 1 << 20, dblocks: xfskit_units::RfsBlock(81920 << 20), ..geo_v5_1k() };
    let bytes = b"\x01\x01\0\0\0\0\0\0\0\x40\x01\0\x60a\x01\0\0\0\x02\0\0\0\x40";
    let sf = Sf::verify(bytes, &Ctx::new(&big, Location::of("test"))).unwrap();
    assert_eq!(sf.entries().next().unwrap().inumber, Ino(0x2_0000_0040));
}

#[test]
fn an_empty_directory_is_six_bytes_and_passes() {
    let geo = geo_v5_1k();
    assert_eq!(empty(Ino(64)), b"\0\0\0\0\0\x40");
    assert!(Sf::verify(&empty(Ino(64)), &Ctx::new(&geo, Location::of("test"))).is_ok());
    assert_eq!(empty(Ino(1 << 33)), b"\0\x01\0\0\0\x02\0\0\0\0");
}

#[test]
fn each_check_of_a_short_form_fails_by_its_name() {
    let geo = geo_v5_1k();
    each_check_fails(
        SF_V5,
        None,
        &[
            ("dir.sf.size", 0, b"\x04"),
            ("dir.sf.count", 0, b"\x06"),
            ("dir.sf.i8count", 1, b"\x01\0\0\0\0\0\0\0\x40\x01\0\x60a\x01\0\0\0\0\0\0\x45"),
            ("dir.sf.parent", 2, &[0xff; 4]),
            ("dir.sf.namelen", 6, b"\0"),
            ("dir.sf.offset", 7, b"\0\x58"),
            ("dir.sf.offset", 0x13 + 1, b"\0\x70"),
            ("dir.sf.offset", 56, b"\x0f\xf0"),
            ("dir.sf.filetype", 14, b"\x09"),
            ("dir.sf.inumber", 15, &[0xff; 4]),
        ],
        |bytes| {
            // The wide variant above is a shorter list: one entry.
            let mut bytes = bytes.to_vec();
            if bytes.get(1) == Some(&1) {
                bytes[0] = 1;
                bytes.truncate(10 + 1 + 3 + 1 + 8);
            }
            Sf::verify(&bytes, &Ctx::new(&geo, Location::of("test"))).map(|_| ())
        },
    );
}

#[test]
fn block_form_reads_as_xfs_db_prints_it() {
    let long = b"longername".repeat(16);
    let expected = [&b"."[..], b"..", b"f0", b"f2", b"f4", b"f6", &long];
    let g = block_v5();
    let data = Data::verify(&g.block, &g.ctx(), Some(Form::Block)).unwrap();
    assert_eq!(names(data.entries()), expected);
    let best: Vec<_> = data.bestfree.iter().map(|b| (b.offset.get(), b.length.get())).collect();
    assert_eq!(best, [(0x180, 0xe28), (0x70, 0x10), (0x90, 0x10)]);
    assert_eq!((data.bleaf.len(), data.stale), (10, 3));
    assert_eq!(data.verify_dots(&g.ctx(), Ino(262_208)).unwrap(), Ino(64));
    let f2 = data.entry_at(0x80).unwrap();
    assert_eq!((f2.name, f2.inumber, f2.filetype), (&b"f2"[..], Ino(262_212), Some(1)));
    assert_eq!(data::dataptr(&g.geo, FileOff(0), &f2), Some(DataPtr(0x10)));
    assert_eq!(data.entry_at(0x88), None, "nothing begins there");

    let g = block_v4();
    let data = Data::verify(&g.block, &g.ctx(), Some(Form::Block)).unwrap();
    assert_eq!(data.entries().count(), 2 + 4 + 1);
    assert_eq!(data.verify_dots(&g.ctx(), Ino(1_310_784)).unwrap(), Ino(64));
}

#[test]
fn data_form_reads_as_xfs_db_prints_it() {
    for g in [data_v5(), data_v4()] {
        let data = Data::verify(&g.block, &g.ctx(), Some(Form::Data)).unwrap();
        assert!(data.entries().all(|e| e.name.len() == 242));
        assert!(Data::verify(&g.block, &g.ctx(), Some(Form::Block)).is_err());
        let ptr = DataPtr::new(&g.geo, FileOff(4), 0x40).unwrap();
        assert_eq!((ptr.db(&g.geo), ptr.offset(&g.geo), ptr.fileoff(&g.geo)), (1, 64, FileOff(4)));
    }
}

#[test]
fn each_check_of_a_data_block_fails_by_its_name() {
    let g = block_v5();
    each_check_fails(
        &g.block,
        Some(data::CRC_OFFSET),
        &[
            ("dir.data.magic", 0, b"Y"),
            ("dir.data.bno", 8, &[1]),
            ("dir.data.uuid", 0x18, &[0]),
            ("dir.data.owner", 0x28, &[1]),
            ("dir.data.bestfree", 0x30, &[0, 0, 0, 0]),
            ("dir.data.bestfree", 0x34, &[0, 0x90, 0, 0x10]),
            ("dir.data.bestfree", 0x36, &[0, 0x18]),
            ("dir.data.bestfree", 0x38, &[0, 0, 0, 0]),
            ("dir.data.bestfree", 0x30, &[0, 0x70, 0, 0x10, 1, 0x80, 0xe, 0x28]),
            ("dir.data.inumber", 0x60, &[0, 0xff]),
            ("dir.data.namelen", 0x68, &[0]),
            ("dir.data.filetype", 0x6b, &[9]),
            ("dir.data.tag", 0x6e, &[0, 0x61]),
            ("dir.data.tag", 0x7e, &[0, 0]),
            ("dir.data.length", 0x72, &[0, 0]),
            ("dir.data.length", 0x182, &[0xff, 0xf8]),
            ("dir.data.unused", 0x80, b"\xff\xff\0\x10"),
            ("dir.block.count", 0xff8, &[0xff; 4]),
            ("dir.block.stale", 0xffc, &[0, 0, 0, 4]),
            ("dir.block.order", 0xfa8, &[0xff]),
            ("dir.block.hashval", 0xfb4, &[0, 0, 0, 9]),
            ("dir.block.hashval", 0x69, b"g"),
            ("dir.data.crc", data::CRC_OFFSET, &[0; 4]),
        ],
        |block| Data::verify(block, &g.ctx(), Some(Form::Block)).map(|_| ()),
    );
    // One live hash entry too many: a stale one is made live.
    let bad = broken(&g.block, 0xfff, &[2], None);
    let bad = broken(&bad, 0xfc4, b"\0\0\0\x0e", Some(data::CRC_OFFSET));
    let fault = Data::verify(&bad, &g.ctx(), None).unwrap_err();
    assert_eq!(fault.check.0, "dir.block.count");
    let ctx = g.ctx().log_head(Some(xfskit_units::Lsn(1)));
    let fault = Data::verify(&g.block, &ctx, None).unwrap_err();
    assert_eq!(fault.check.0, "dir.data.lsn");
}

#[test]
fn each_check_of_a_version_4_data_block_fails_by_its_name() {
    let g = block_v4();
    each_check_fails(
        &g.block,
        None,
        &[
            ("dir.data.magic", 0, b"Y"),
            ("dir.data.bestfree", 4, &[0, 0, 0, 0]),
            ("dir.data.tag", 0x1e, &[0, 0x11]),
            ("dir.block.count", 0xff8, &[0xff; 4]),
        ],
        |block| Data::verify(block, &g.ctx(), None).map(|_| ()),
    );
}

#[test]
fn dots_and_names_are_verified_separately() {
    let g = block_v5();
    let mut bad = g.block.clone();
    bad[0x69] = b'/';
    assert!(Data::verify(&bad, &g.ctx(), None).is_err());
    assert_eq!(salvage(&bad, &g.geo).count(), 7, "all names, and the one with a slash");
    let data = Data::verify(&g.block, &g.ctx(), None).unwrap();
    assert_eq!(data.verify_dots(&g.ctx(), Ino(1)).unwrap_err().check.0, "dir.data.dot");
    let dotless = broken(&g.block, 0x59, b"x", Some(data::CRC_OFFSET));
    let data = Data::parse(&dotless, &g.geo).unwrap();
    assert_eq!(data.verify_dots(&g.ctx(), Ino(262_208)).unwrap_err().check.0, "dir.data.dotdot");
    let data = Data::verify(&g.block, &g.ctx(), None).unwrap();
    let entry = Entry { name: b"a/b", ..data.entry_at(0x60).unwrap() };
    assert_eq!(entry.verify_name(&g.ctx()).unwrap_err().check.0, "dir.name");
    assert!(data.entry_at(0x60).unwrap().verify_name(&g.ctx()).is_ok());
}

#[test]
fn a_damaged_block_gives_up_the_entries_that_are_whole() {
    let g = block_v5();
    let mut bad = g.block.clone();
    bad[0x60..0xb0].fill(0x5a);
    let long = b"longername".repeat(16);
    assert_eq!(names(salvage(&bad, &g.geo)), [&b"."[..], b"..", b"f6", &long]);
    let whole = salvage(&g.block, &g.geo).count();
    let entry = Data::parse(&g.block, &g.geo).unwrap().entry_at(0x60).unwrap();
    let mut untyped = g.block.clone();
    untyped[0x60 + 9 + entry.name.len()] = 0xee;
    assert_eq!(salvage(&untyped, &g.geo).count(), whole, "its inode tells its type");
}

#[test]
fn leaf1_reads_as_xfs_db_prints_it() {
    let g = leaf1_v5();
    let leaf = Leaf::verify(&g.block, &g.ctx(), Some(Kind::Leaf1)).unwrap();
    assert_eq!((leaf.lents.len(), leaf.stale, leaf.last_hash()), (22, 7, Some(0x28d9_3060)));
    let bests: Vec<_> = leaf.lbests.iter().map(|b| b.get()).collect();
    assert_eq!(bests, [0x300, 0xac0]);
    assert_eq!(leaf.run(0x172e)[0].dataptr(), Some(DataPtr(0xa)));
    assert_eq!(leaf.run(0x172f), []);
    let g = leaf1_v4();
    assert_eq!(Leaf::verify(&g.block, &g.ctx(), None).unwrap().lents.len(), 22);
}

#[test]
fn each_check_of_a_leaf_fails_by_its_name() {
    let g = leaf1_v5();
    each_check_fails(
        &g.block,
        Some(da::CRC_OFFSET),
        &[
            ("dir.leaf.magic", 8, &[0]),
            ("dir.leaf.bno", 0x10, &[1]),
            ("dir.leaf.uuid", 0x20, &[0]),
            ("dir.leaf.owner", 0x30, &[1]),
            ("dir.leaf.forw", 0, &[0xff]),
            ("dir.leaf.forw", 0, &[2, 0, 0, 4]),
            ("dir.leaf.back", 4, &[2, 0, 0, 4]),
            ("dir.leaf.back", 4, &[2, 0, 0, 0]),
            ("dir.leaf.count", 0x38, &[2, 0]),
            ("dir.leaf.stale", 0x3a, &[0, 6]),
            ("dir.leaf.order", 0x50, &[0xff]),
            ("dir.leaf.address", 0x54, &[0xff]),
            ("dir.leaf.bestcount", 0xffc, &[0xff]),
            ("dir.leaf.crc", da::CRC_OFFSET, &[0; 4]),
        ],
        |block| Leaf::verify(block, &g.ctx(), None).map(|_| ()),
    );
    let ctx = g.ctx().log_head(Some(xfskit_units::Lsn(1)));
    assert_eq!(Leaf::verify(&g.block, &ctx, None).unwrap_err().check.0, "dir.leaf.lsn");
}

#[test]
fn free_index_reads_as_xfs_db_prints_it() {
    for g in [free_v5(), free_v4()] {
        let free = Free::verify(&g.block, &g.ctx()).unwrap();
        assert_eq!((free.firstdb, free.nused, free.fbests.len()), (0, 3, 3));
    }
}

#[test]
fn each_check_of_a_free_index_fails_by_its_name() {
    let g = free_v5();
    each_check_fails(
        &g.block,
        Some(data::CRC_OFFSET),
        &[
            ("dir.free.magic", 0, &[0]),
            ("dir.free.bno", 8, &[1]),
            ("dir.free.uuid", 0x18, &[0]),
            ("dir.free.owner", 0x28, &[1]),
            ("dir.free.firstdb", 0x30, &[0, 0, 1]),
            ("dir.free.nvalid", 0x34, &[1]),
            ("dir.free.nused", 0x38, &[0, 0, 0, 2]),
            ("dir.free.nused", 0x40, &[0xff, 0xff]),
            ("dir.free.crc", data::CRC_OFFSET, &[0; 4]),
        ],
        |block| Free::verify(block, &g.ctx()).map(|_| ()),
    );
    let ctx = g.ctx().log_head(Some(xfskit_units::Lsn(1)));
    assert_eq!(Free::verify(&g.block, &ctx).unwrap_err().check.0, "dir.free.lsn");
}
