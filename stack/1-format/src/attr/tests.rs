//! Golden attribute forks made by Linux (version 5) and xfs_db (version 4), and every check.

use xfskit_units::{DaBlock, Daddr, FileOff, Geometry, Ino};

use super::leaf::{AttrValue, Leaf};
use super::sf::Sf;
use super::{Namespace, parent, remote};
use crate::corruption::VerifyResult;
use crate::da::{self, Node};
use crate::testing::{broken, each_check_fails, geo_v4_1k, geo_v5_1k, golden};
use crate::{Ctx, Fork, Location};

struct Golden {
    geo: Geometry,
    block: Vec<u8>,
    at: Location,
}

fn load(geo: Geometry, hex: &str, ino: u64, fileoff: u64, daddr: u64) -> Golden {
    let block = golden(geo.blocksize(), hex);
    let at = Location::of("test").ino(Ino(ino)).fork(Fork::Attr).fileoff(FileOff(fileoff));
    Golden { geo, block, at: Location { daddr: Some(Daddr(daddr)), ..at } }
}

impl Golden {
    fn ctx(&self) -> Ctx<'_> {
        Ctx::new(&self.geo, self.at)
    }
}

fn leaf_v5() -> Golden {
    load(geo_v5_1k(), include_str!("golden/leaf-v5.hex"), 74, 0, 62)
}
fn leaf_v4() -> Golden {
    load(geo_v4_1k(), include_str!("golden/leaf-v4.hex"), 524_359, 0, 163_870)
}
fn node_v5() -> Golden {
    load(geo_v5_1k(), include_str!("golden/node-v5.hex"), 75, 0, 56)
}
fn node_v4() -> Golden {
    load(geo_v4_1k(), include_str!("golden/node-v4.hex"), 524_360, 0, 163_864)
}
fn remote_v5() -> Golden {
    load(geo_v5_1k(), include_str!("golden/remote-v5.hex"), 74, 1, 58)
}
fn remote_v4() -> Golden {
    load(geo_v4_1k(), include_str!("golden/remote-v4.hex"), 524_359, 1, 163_866)
}

/// A parent pointer and three attributes, of a file called "sf" in inode 68; then its earlier
/// content.
const SF: &[u8] = b"\0\x2a\x04\0\x02\x0c\x08sf\0\0\0\0\0\0\0\x44\xd6\xb9\x3c\x6b\
    \x03\x03\0foobar\x01\x02\x02ttv\x01\x02\x04ssv\0\0junk";

#[test]
fn short_form_reads_as_xfs_db_prints_it() {
    let geo = geo_v5_1k();
    let sf = Sf::verify(SF, &Ctx::new(&geo, Location::of("test"))).unwrap();
    let found: Vec<_> = sf.entries().map(|e| (e.namespace().unwrap(), e.name, e.value)).collect();
    assert_eq!(found[0].0, Namespace::Parent);
    assert_eq!(parent::Rec::parse(found[0].2).unwrap().ino(), Ino(68));
    assert_eq!(found[1], (Namespace::User, &b"foo"[..], &b"bar"[..]));
    assert_eq!(found[2], (Namespace::Trusted, &b"t"[..], &b"tv"[..]));
    assert_eq!(found[3], (Namespace::Secure, &b"s"[..], &b"sv"[..]));
}

#[test]
fn each_check_of_a_short_form_fails_by_its_name() {
    let geo = geo_v5_1k();
    each_check_fails(
        SF,
        None,
        &[
            ("attr.sf.totsize", 0, b"\0\x03"),
            ("attr.sf.totsize", 0, b"\x01"),
            ("attr.sf.totsize", 0, b"\0\x2b"),
            ("attr.sf.count", 2, b"\x06"),
            ("attr.sf.totsize", 2, b"\x03"),
            ("attr.sf.namelen", 4, b"\xff"),
            ("attr.sf.valuelen", 5, b"\xff"),
            ("attr.sf.namelen", 21, b"\0"),
            ("attr.sf.flags", 6, b"\x01"),
            ("attr.sf.flags", 6, b"\x0a"),
        ],
        |fork| Sf::verify(fork, &Ctx::new(&geo, Location::of("test"))).map(|_| ()),
    );
    let v4 = geo_v4_1k();
    let fault = Sf::verify(SF, &Ctx::new(&v4, Location::of("test"))).unwrap_err();
    assert_eq!(fault.check.0, "attr.sf.flags", "no parent pointers on version 4");
}

#[test]
fn leaf_reads_as_xfs_db_prints_it() {
    let g = leaf_v5();
    let leaf = Leaf::verify(&g.block, &g.ctx()).unwrap();
    leaf.verify_space(&g.ctx()).unwrap();
    let namespaces: Vec<_> = leaf.attrs().map(|a| a.namespace().unwrap()).collect();
    assert_eq!(namespaces.iter().filter(|n| **n == Namespace::User).count(), 10);
    assert_eq!(namespaces.iter().filter(|n| **n == Namespace::Parent).count(), 2);
    let big = leaf.run(0x18_b4e7).next().unwrap();
    assert_eq!((big.name, big.namespace()), (&b"big"[..], Some(Namespace::Trusted)));
    assert_eq!(big.value, AttrValue::Remote { valueblk: DaBlock(1), valuelen: 1500 });
    let name00 = leaf.run(crate::hash::name_hash(b"name00")).next().unwrap();
    assert_eq!(name00.value, AttrValue::Local(&[b'v'; 20]));
    for attr in leaf.attrs().filter(|a| a.namespace() == Some(Namespace::Parent)) {
        assert_eq!(attr.verify_parent(&g.ctx()).unwrap().ino(), Ino(68));
    }

    let g = leaf_v4();
    let leaf = Leaf::verify(&g.block, &g.ctx()).unwrap();
    leaf.verify_space(&g.ctx()).unwrap();
    assert_eq!(
        (leaf.entries.len(), leaf.usedbytes, leaf.firstused, leaf.holes),
        (11, 336, 624, true)
    );
}

fn verify_block(g: &Golden, block: &[u8]) -> VerifyResult {
    let leaf = Leaf::verify(block, &g.ctx())?;
    leaf.verify_space(&g.ctx())
}

#[test]
fn each_check_of_a_leaf_fails_by_its_name() {
    let g = leaf_v5();
    let leaf = Leaf::verify(&g.block, &g.ctx()).unwrap();
    let big = usize::from(leaf.entries[0].nameidx.get());
    let highest = leaf.entries.iter().map(|e| usize::from(e.nameidx.get())).max().unwrap();
    let second = leaf.entries[1].nameidx.get();
    let last = 0x50 + 8 * (leaf.entries.len() - 1);
    assert_eq!(leaf.entries[0].flags, 2, "the remote one comes first");
    let first_hash_again = leaf.entries[1].hashval.get().to_be_bytes();
    each_check_fails(
        &g.block,
        Some(da::CRC_OFFSET),
        &[
            ("attr.leaf.magic", 8, &[0]),
            ("attr.leaf.bno", 0x10, &[1]),
            ("attr.leaf.uuid", 0x20, &[0]),
            ("attr.leaf.owner", 0x30, &[1]),
            ("attr.leaf.count", 0x38, &[0xff, 0xff]),
            ("attr.leaf.usedbytes", 0x3a, &[0, 0]),
            ("attr.leaf.firstused", 0x3c, &[0, 0]),
            ("attr.leaf.firstused", 0x3c, &[0xff, 0xff]),
            ("attr.leaf.freemap", 0x40, &[0, 0x51]),
            ("attr.leaf.freemap", 0x42, &[0xff, 0xfc]),
            ("attr.leaf.freemap", 0x40, &[0, 0x50]),
            ("attr.leaf.order", 0x50, &[0xff]),
            ("attr.leaf.nameidx", 0x54, &[0, 0]),
            ("attr.leaf.nameidx", 0x54, &[0xff, 0xff]),
            ("attr.leaf.flags", 0x56, &[0x10]),
            ("attr.leaf.flags", 0x56, &[0x06]),
            ("attr.leaf.namelen", big + 8, &[0]),
            ("attr.leaf.namelen", highest + 2, &[0xff]),
            ("attr.leaf.valueblk", big, &[0, 0, 0, 0]),
            ("attr.leaf.valuelen", big + 4, &[0xff]),
            ("attr.leaf.hashval", 0x50, &first_hash_again),
            ("attr.leaf.overlap", 0x64, &second.to_be_bytes()),
            ("attr.leaf.hashval", last, &[0xff, 0xff]),
            ("attr.leaf.crc", da::CRC_OFFSET, &[0; 4]),
        ],
        |block| verify_block(&g, block),
    );
    let ctx = g.ctx().log_head(Some(xfskit_units::Lsn(1)));
    assert_eq!(Leaf::verify(&g.block, &ctx).unwrap_err().check.0, "attr.leaf.lsn");
}

#[test]
fn siblings_of_a_leaf_are_other_blocks() {
    let mut g = leaf_v5();
    g.at.fileoff = Some(FileOff(5));
    for (id, field) in [("attr.leaf.forw", 0), ("attr.leaf.back", 4)] {
        let bad = broken(&g.block, field, &[0, 0, 0, 5], Some(da::CRC_OFFSET));
        assert_eq!(verify_block(&g, &bad).unwrap_err().check.0, id);
    }
}

#[test]
fn an_incomplete_attribute_needs_no_value() {
    let g = leaf_v5();
    let leaf = Leaf::verify(&g.block, &g.ctx()).unwrap();
    let big = usize::from(leaf.entries[0].nameidx.get());
    let bad = broken(&g.block, 0x56, &[0x82], None);
    let bad = broken(&bad, big, &[0; 8], Some(da::CRC_OFFSET));
    let leaf = Leaf::verify(&bad, &g.ctx()).unwrap();
    assert!(leaf.attr(&leaf.entries[0]).unwrap().is_incomplete());
}

#[test]
fn each_check_of_a_parent_pointer_fails_by_its_name() {
    let g = leaf_v5();
    let leaf = Leaf::verify(&g.block, &g.ctx()).unwrap();
    let is_parent = |a: &super::leaf::Attr<'_>| a.namespace() == Some(Namespace::Parent);
    let good = leaf.attrs().find(is_parent).unwrap();
    let id = |attr: super::leaf::Attr<'_>| attr.verify_parent(&g.ctx()).unwrap_err().check.0;
    let with = |value| super::leaf::Attr { value, ..good };
    assert_eq!(id(with(AttrValue::Local(b"short"))), "attr.parent.valuelen");
    let remote = AttrValue::Remote { valueblk: DaBlock(1), valuelen: 12 };
    assert_eq!(id(with(remote)), "attr.parent.valuelen");
    assert_eq!(id(with(AttrValue::Local(&[0xff; 12]))), "attr.parent.ino");
    assert_eq!(id(super::leaf::Attr { name: b"a/b", ..good }), "attr.parent.name");
    assert_eq!(id(super::leaf::Attr { flags: 0x89, ..good }), "attr.parent.flags");
}

#[test]
fn node_reads_as_xfs_db_prints_it() {
    for g in [node_v5(), node_v4()] {
        let node = Node::verify(&g.block, &g.ctx(), Fork::Attr).unwrap();
        assert_eq!(node.level, 1);
        let first = node.btree[0];
        assert_eq!(node.child(0), Some(DaBlock(first.before.get())));
        assert_eq!(node.child(first.hashval.get()), Some(DaBlock(first.before.get())));
        assert_eq!(node.child(u32::MAX), None);
    }
}

#[test]
fn each_check_of_a_node_fails_by_its_name() {
    let g = node_v5();
    each_check_fails(
        &g.block,
        Some(da::CRC_OFFSET),
        &[
            ("da.node.magic", 8, &[0]),
            ("da.node.bno", 0x10, &[1]),
            ("da.node.uuid", 0x20, &[0]),
            ("da.node.owner", 0x30, &[1]),
            ("da.node.count", 0x38, &[0, 0]),
            ("da.node.count", 0x38, &[0xff, 0xff]),
            ("da.node.level", 0x3a, &[0, 0]),
            ("da.node.level", 0x3a, &[0, 6]),
            ("da.node.order", 0x40, &[0xff]),
            ("da.node.before", 0x44, &[0, 0, 0, 0]),
            ("da.node.crc", da::CRC_OFFSET, &[0; 4]),
        ],
        |block| Node::verify(block, &g.ctx(), Fork::Attr).map(|_| ()),
    );
    let ctx = g.ctx().log_head(Some(xfskit_units::Lsn(1)));
    assert_eq!(Node::verify(&g.block, &ctx, Fork::Attr).unwrap_err().check.0, "da.node.lsn");
    let mut elsewhere = node_v5();
    elsewhere.at.fileoff = Some(FileOff(7));
    for (id, field) in [("da.node.forw", 0), ("da.node.back", 4)] {
        let bad = broken(&g.block, field, &[0, 0, 0, 7], Some(da::CRC_OFFSET));
        let fault = Node::verify(&bad, &elsewhere.ctx(), Fork::Attr).unwrap_err();
        assert_eq!(fault.check.0, id);
    }
}

#[test]
fn remote_values_read_as_they_were_set() {
    let g = remote_v5();
    let part = remote::verify(&g.block, &g.ctx(), 0, 1500).unwrap();
    assert_eq!((part.len(), &part[..10]), (968, &b"big value "[..]));
    assert_eq!(remote::blocks(&g.geo, 1500), 2);
    let g = remote_v4();
    assert_eq!(remote::verify(&g.block, &g.ctx(), 0, 1500).unwrap(), [b'v'; 1024]);
    assert_eq!(remote::verify(&g.block, &g.ctx(), 1024, 1500).unwrap().len(), 476);
    assert_eq!(remote::blocks(&g.geo, 65536), 64);
}

/// A repair keeps such a value.
#[test]
fn the_part_of_a_value_does_not_depend_on_the_lsn() {
    let mut g = remote_v5();
    let part = remote::verify(&g.block, &g.ctx(), 0, 1500).unwrap().to_vec();
    g.block[0x30..0x38].fill(0);
    xfskit_crc::update(&mut g.block, remote::CRC_OFFSET);
    let check = |found: VerifyResult<&[u8]>| found.map(<[u8]>::to_vec).map_err(|c| c.check.0);
    assert_eq!(check(remote::verify(&g.block, &g.ctx(), 0, 1500)), Err("attr.remote.lsn"));
    assert_eq!(check(remote::verify_part(&g.block, &g.ctx(), 0, 1500)), Ok(part));
}

#[test]
fn each_check_of_a_remote_block_fails_by_its_name() {
    let g = remote_v5();
    each_check_fails(
        &g.block,
        Some(remote::CRC_OFFSET),
        &[
            ("attr.remote.magic", 0, &[0]),
            ("attr.remote.offset", 4, &[0xff]),
            ("attr.remote.offset", 4, &[0, 0, 3, 0xc8]),
            ("attr.remote.bytes", 8, &[0, 0, 3, 0xc7]),
            ("attr.remote.uuid", 0x10, &[0]),
            ("attr.remote.owner", 0x20, &[1]),
            ("attr.remote.bno", 0x28, &[1]),
            ("attr.remote.lsn", 0x30, &[0]),
            ("attr.remote.crc", remote::CRC_OFFSET, &[0; 4]),
        ],
        |block| remote::verify(block, &g.ctx(), 0, 1500).map(|_| ()),
    );
}
