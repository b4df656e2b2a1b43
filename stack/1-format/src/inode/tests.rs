use xfskit_units::{
    Features,
    features::{Incompat, RoCompat},
};

use super::*;
use crate::corruption::VerifyResult;
use crate::ctx::Ctx;
use crate::testing::{each_check_fails, geo_v4, geo_v5, golden};

fn verify_block<'a>(bytes: &'a [u8], geo: &Geometry, ino: u64) -> VerifyResult<Dinode<'a>> {
    let ino = Ino(ino);
    Dinode::verify(bytes, &Ctx::new(geo, location(geo, ino)), ino)
}

macro_rules! linux {
    ($name:literal, $len:expr) => {
        golden($len, include_str!(concat!("../golden/inode-", $name, ".txt")))
    };
}

#[test]
fn a_file_with_an_attribute_reads_as_linux_wrote_it() {
    let (geo, bytes) = (geo_v5(), linux!("file", 512));
    let inode = verify_block(&bytes, &geo, 131).unwrap();
    assert_eq!(inode.file_type(), Some(FileType::Regular));
    assert_eq!((inode.mode(), inode.nlink(), inode.size()), (0o100_644, 1, ByteLen(3)));
    assert_eq!((inode.format(), inode.nextents()), (Some(Format::Extents), 1));
    assert_eq!((inode.aformat(), inode.anextents()), (Some(Format::Local), 0));
    assert_eq!((inode.data_fork().len(), inode.attr_fork().unwrap().len()), (192, 144));
    assert_eq!(inode.flags2(), InodeFlags2::BIGTIME | InodeFlags2::NREXT64);
    assert_eq!(inode.next_unlinked(), None);
    assert_eq!(inode.crtime(), Some(inode.atime()));
    assert_eq!(inode.rdev(), None);
}

#[test]
fn devices_symlinks_and_times_read_as_linux_wrote_them() {
    let geo = geo_v5();
    let chr = linux!("chr", 512);
    assert_eq!(verify_block(&chr, &geo, 134).unwrap().rdev(), Some((5, 300)));
    let symlink = linux!("symlink", 512);
    assert_eq!(&verify_block(&symlink, &geo, 132).unwrap().data_fork()[..6], b"short\0");
    let far = linux!("bigtime", 512);
    let expected = Timestamp { sec: 4_102_542_245, nsec: 123_456_789 };
    assert_eq!(verify_block(&far, &geo, 137).unwrap().mtime(), expected);
}

#[test]
fn every_other_inode_that_linux_wrote_passes() {
    let geo = geo_v5();
    verify_block(&linux!("btree", 512), &geo, 138).unwrap();
    verify_block(&linux!("extents", 512), &geo, 139).unwrap();
    assert!(verify_block(&linux!("free", 512), &geo, 142).unwrap().is_free());
    let bytes = linux!("reflink", 512);
    let reflink = verify_block(&bytes, &geo, 140).unwrap();
    assert!(reflink.is_reflink());
    assert_eq!(reflink.cowextsize(), ExtLen(16));
}

#[test]
fn version_2_reads_as_linux_wrote_it() {
    let geo = geo_v4();
    let chr = linux!("v4-chr", 256);
    let inode = verify_block(&chr, &geo, 132).unwrap();
    assert_eq!((inode.rdev(), inode.nlink()), (Some((5, 300)), 1));
    assert_eq!((inode.crtime(), inode.change_count(), inode.lsn()), (None, None, Lsn::NONE));
    let file = linux!("v4-file", 256);
    let inode = verify_block(&file, &geo, 131).unwrap();
    assert_eq!((inode.data_fork().len(), inode.nextents()), (156, 1));
    assert!(inode.mtime().sec > 1_700_000_000);
}

#[test]
fn version_1_keeps_its_links_elsewhere_and_has_no_project() {
    let (geo, mut bytes) = (geo_v4(), linux!("v4-file", 256));
    let core = Core::mut_from_prefix(&mut bytes).unwrap().0;
    core.version = 1;
    core.onlink = 7.into();
    core.projid_lo = 9.into();
    let inode = verify_block(&bytes, &geo, 131).unwrap();
    assert_eq!((inode.nlink(), inode.projid()), (7, 0));
}

#[test]
fn a_template_is_what_linux_calls_a_free_inode() {
    let (geo, linux) = (geo_v5(), linux!("free", 512));
    let mut ours = vec![0xee; 512];
    template(&mut ours, &geo, Ino(142), verify_block(&linux, &geo, 142).unwrap().generation());
    assert_eq!(ours, linux);
}

#[test]
fn each_broken_field_of_a_file_is_named() {
    let geo = geo_v5();
    each_check_fails(
        &linux!("file", 512),
        Some(CRC_OFFSET),
        &[
            ("inode.magic", 0, b"IM"),
            ("inode.mode", 2, &[0xe1]),
            ("inode.version", 4, &[2]),
            ("inode.format", 5, &[1]),
            ("inode.format", 5, &[5]),
            ("inode.format", 5, &[9]),
            ("inode.onlink", 7, &[1]),
            ("inode.format", 5, &[3]),
            ("inode.nblocks", 0x1f, &[2]),
            ("inode.size", 0x38, &[0x80]),
            ("inode.nblocks", 0x47, &[0]),
            ("inode.extsize.unused", 0x48, &[0, 0, 0, 1]),
            ("inode.nblocks", 0x4c, &[0, 0, 0, 1]),
            ("inode.nrext64_pad", 0x50, &[0, 1]),
            ("inode.forkoff", 0x52, &[42]),
            ("inode.aformat.nofork", 0x52, &[0]),
            ("inode.aformat", 0x53, &[0]),
            ("inode.aformat", 0x53, &[3]),
            ("inode.flags.realtime", 0x5b, &[1]),
            ("inode.next_unlinked", 0x60, &[0]),
            ("inode.next_unlinked", 0x60, &[0, 0, 0, 5]),
            ("inode.flags.extszinherit", 0x5a, &[0x10]),
            ("inode.extsize", 0x5a, &[0x08]),
            ("inode.v3_pad", 0x7f, &[8]),
            ("inode.flags2.metadata", 0x7f, &[0x38]),
            ("inode.cowextsize", 0x7f, &[0x1c]),
            ("inode.cowextsize.unused", 0x83, &[1]),
            ("inode.inumber", 0x98, &[1]),
            ("inode.uuid", 0xa0, &[0]),
            ("inode.crc", CRC_OFFSET, &[0; 4]),
        ],
        |bytes| verify_block(bytes, &geo, 131).map(drop),
    );
}

/// Rules that tie two fields together need two broken: each case gives the fields as whole cores.
#[test]
fn rules_between_fields_are_named() {
    let geo = geo_v5();
    let breaking = |good: &[u8], ino: u64, change: &dyn Fn(&mut CoreV3)| {
        let mut bytes = good.to_vec();
        change(InodeMut::new(&mut bytes).unwrap().core);
        stamp(&mut bytes);
        verify_block(&bytes, &geo, ino).map_err(|fault| fault.check.0).err()
    };
    let (file, dir) = (linux!("file", 512), linux!("dir", 512));
    let file = |change: &dyn Fn(&mut CoreV3)| breaking(&file, 131, change);
    let dir = |change: &dyn Fn(&mut CoreV3)| breaking(&dir, 136, change);

    assert_eq!(dir(&|i| i.core.size = 0.into()), Some("inode.size.zero"));
    assert_eq!(dir(&|i| i.core.size = 193.into()), Some("inode.size.local"));
    assert_eq!(dir(&|i| i.core.format = 2), Some("inode.size.dir"));
    assert_eq!(
        dir(&|i| {
            i.core.big_nextents = 1.into();
            i.core.nblocks = 1.into();
        }),
        Some("inode.nextents.local")
    );
    assert_eq!(
        dir(&|i| {
            i.core.big_nextents = (1 << 40).into();
            i.core.nblocks = (1 << 40).into();
        }),
        Some("inode.nextents.dir")
    );
    assert_eq!(
        dir(&|i| i.core.flags = InodeFlags::EXTSIZE.bits().into()),
        Some("inode.flags.extsz")
    );
    assert_eq!(dir(&|i| i.core.extsize = 40000.into()), Some("inode.extsize.max"));
    assert_eq!(dir(&|i| i.flags2 = 0x1a.into()), Some("inode.flags2.reflink"));
    assert_eq!(
        dir(&|i| {
            i.flags2 = 0x1c.into();
            i.cowextsize = 40000.into();
        }),
        Some("inode.cowextsize.max")
    );
    assert_eq!(
        file(&|i| {
            i.core.nextents = 1.into();
            i.core.nblocks = 2.into();
        }),
        Some("inode.naextents.local")
    );
    assert_eq!(
        file(&|i| {
            i.core.nextents = 10.into();
            i.core.nblocks = 20.into();
            i.core.aformat = 2;
        }),
        Some("inode.naextents")
    );
    assert_eq!(
        file(&|i| {
            i.core.nextents = 1.into();
            i.core.nblocks = 2.into();
            i.core.aformat = 2;
            i.core.forkoff = 0;
        }),
        Some("inode.naextents.nofork")
    );
    assert_eq!(
        file(&|i| {
            i.core.big_nextents = 13.into();
            i.core.nblocks = 13.into();
        }),
        Some("inode.nextents")
    );
    assert_eq!(file(&|i| i.core.big_nextents = 0.into()), Some("inode.nblocks.none"));
}

/// A fork that begins with the root of a btree has the right format, so its number of extents is
/// wrong.
#[test]
fn a_btree_of_few_extents_is_not_a_wrong_format() {
    let geo = geo_v5();
    for (fork, field, id) in
        [(Fork::Data, 5, "inode.nextents.btree"), (Fork::Attr, 0x53, "inode.naextents.btree")]
    {
        let mut bytes = linux!("file", 512);
        let inode = verify_block(&bytes, &geo, 131).unwrap();
        let (data, room) = (inode.data_fork().len(), inode.fork(fork).unwrap().len());
        let start = if fork == Fork::Data { 176 } else { 176 + data };
        let ptr = start + 4 + 8 * crate::bmbt::root_maxrecs(room);
        bytes[field] = 3;
        bytes[start..start + 12].copy_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes[ptr..ptr + 8].copy_from_slice(&100u64.to_be_bytes());
        stamp(&mut bytes);
        assert_eq!(verify_block(&bytes, &geo, 131).unwrap_err().check.0, id);
    }
}

#[test]
fn a_hint_for_realtime_files_is_in_whole_realtime_extents() {
    let (mut geo, mut bytes) = (geo_v5(), linux!("dir", 512));
    let core = InodeMut::new(&mut bytes).unwrap().core;
    core.core.flags = (InodeFlags::RTINHERIT | InodeFlags::EXTSZINHERIT).bits().into();
    core.core.extsize = 6.into();
    stamp(&mut bytes);
    verify_block(&bytes, &geo, 136).unwrap();
    geo.rextsize = 4;
    assert_eq!(verify_block(&bytes, &geo, 136).unwrap_err().check.0, "inode.extsize.rt");
}

#[test]
fn flags_need_their_feature_on_the_volume() {
    let (mut geo, bytes) = (geo_v5(), linux!("chr", 512));
    geo.features.incompat -= Incompat::NREXT64;
    assert_eq!(verify_block(&bytes, &geo, 134).unwrap_err().check.0, "inode.flags2.nrext64");
    geo = geo_v5();
    geo.features.incompat -= Incompat::BIGTIME;
    assert_eq!(verify_block(&bytes, &geo, 134).unwrap_err().check.0, "inode.flags2.bigtime");
    geo = geo_v5();
    geo.features.ro_compat = RoCompat::empty();
    let bytes = linux!("reflink", 512);
    assert_eq!(verify_block(&bytes, &geo, 140).unwrap_err().check.0, "inode.flags2.reflink");
    let bytes = {
        let mut bytes = bytes;
        InodeMut::new(&mut bytes).unwrap().core.flags2 = 0x1c.into();
        stamp(&mut bytes);
        bytes
    };
    assert_eq!(verify_block(&bytes, &geo, 140).unwrap_err().check.0, "inode.flags2.cowextsz");
}

#[test]
fn each_broken_field_of_a_metadata_directory_is_named() {
    let mut geo = geo_v5();
    let incompat = geo.features.incompat | Incompat::METADIR;
    geo.features = Features { incompat, ..geo.features };
    each_check_fails(
        &linux!("metadir", 512),
        Some(CRC_OFFSET),
        &[
            ("inode.metatype", 7, &[9]),
            ("inode.metadata.mode", 3, &[0o100]),
            ("inode.metadata.uid", 0xb, &[1]),
            ("inode.metadata.gid", 0xf, &[1]),
            ("inode.metadata.dmevmask", 0x57, &[1]),
            ("inode.metadata.dmstate", 0x59, &[1]),
            ("inode.metadata.flags", 0x5a, &[0x20]),
            ("inode.metadata.dax", 0x7f, &[0x39]),
            ("inode.crc", CRC_OFFSET, &[0; 4]),
        ],
        |bytes| verify_block(bytes, &geo, 129).map(drop),
    );
}

#[test]
fn version_2_breaks_are_named() {
    let geo = geo_v4();
    each_check_fails(
        &linux!("v4-file", 256),
        None,
        &[
            ("inode.magic", 0, b"XX"),
            ("inode.version", 4, &[3]),
            ("inode.version", 4, &[0]),
            ("inode.onlink", 6, &[8]),
            ("inode.nblocks", 0x4f, &[2]),
            ("inode.nextents", 0x40, &[0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 10]),
        ],
        |bytes| verify_block(bytes, &geo, 131).map(drop),
    );
}
