//! One target for each family of structures. Input: a choice of volume (see [`volumes::pick`]),
//! then the block.

use xfskit_format::agbtree::{self, Tree};
use xfskit_format::agf::{self, Agf};
use xfskit_format::agfl::{self, Agfl};
use xfskit_format::agi::{self, Agi};
use xfskit_format::bmbt::{self, BmbtBlock, BmdrRoot};
use xfskit_format::inode::{self, Dinode};
use xfskit_format::log::{Item, RecordHeader, item, op};
use xfskit_format::sb::{self, Superblock};
use xfskit_format::{
    Ctx, Fork, Location, attr, da, dir, dquot, hash, inobt, refcount, rmap, rtsb, symlink,
};
use xfskit_units::{AgBlock, AgNumber, ByteLen, FileOff, Geometry, Ino, LogBlock};

use crate::volumes;

/// Returns the volume and the block of an input; `crc` returns the offset of the block's checksum.
fn split(data: &[u8], crc: impl Fn(&Geometry) -> Option<usize>) -> Option<(Geometry, Vec<u8>)> {
    let (&choice, block) = data.split_first()?;
    let (geo, fix) = volumes::pick(choice);
    let mut block = block.to_vec();
    if let Some(field) = crc(&geo).filter(|field| fix && field + 4 <= block.len()) {
        xfskit_crc::update(&mut block, field);
    }
    Some((geo, block))
}

/// Returns the owner that the block itself names, so that the owner check does not end every run.
fn owner(geo: &Geometry, block: &[u8]) -> Ino {
    let offset = match block.first_chunk() {
        Some(b"BMA3") => 56,
        Some(b"XDB3" | b"XDD3" | b"XDF3") => 40,
        Some(b"XARM" | b"XSLM") => 32,
        _ => 48,
    };
    let found = block.get(offset..).and_then(|b| b.first_chunk().copied());
    found.filter(|_| geo.v5()).map_or(Ino(131), |bytes| Ino(u64::from_be_bytes(bytes)))
}

/// Uses a value, so that the compiler does not remove the read.
fn touch<T>(value: T) {
    std::hint::black_box(value);
}

/// Decodes a superblock and its geometry.
pub fn superblock(data: &[u8]) {
    let Some((_, mut sector)) = split(data, |_| Some(sb::CRC_OFFSET)) else { return };
    sector.resize(512, 0);
    for agno in [0, 1] {
        let Ok(sb) = Superblock::verify(&sector, AgNumber(agno)) else { continue };
        let geo = sb.geometry();
        touch((geo.agino_range(AgNumber(0)), geo.log_bbs(), geo.data_bytes(), geo.log_daddr()));
        touch((geo.valid_ino(geo.rootino), geo.cluster_blocks(), geo.dir_freeblk()));
        for tree in Tree::ALL {
            touch((tree.max_levels(&geo), tree.maxrecs(&geo, 1)));
        }
    }
}

/// Decodes AGF, AGI, AGFL and realtime superblock.
pub fn ag_headers(data: &[u8]) {
    for field in [agf::CRC_OFFSET, agi::CRC_OFFSET, agfl::CRC_OFFSET] {
        let Some((geo, block)) = split(data, |_| Some(field)) else { return };
        let agno = AgNumber(block.get(11).copied().unwrap_or(0).into());
        let at = |at| Ctx::new(&geo, at);
        let agf = Agf::verify(&block, &at(agf::location(&geo, agno)), agno);
        touch(Agi::verify(&block, &at(agi::location(&geo, agno)), agno).is_ok());
        let agfl = Agfl::verify(&block, &at(agfl::location(&geo, agno)), agno);
        if let (Ok(agf), Ok(agfl)) = (agf, agfl) {
            touch(agfl.active(agf).count());
        }
        touch(rtsb::RtSuperblock::verify(&block, &at(Location::of("rt superblock"))).is_ok());
    }
}

/// Decodes blocks of all six per-AG btrees.
pub fn agbtree(data: &[u8]) {
    let Some((geo, block)) = split(data, |_| Some(agbtree::CRC_OFFSET)) else { return };
    let agno = AgNumber(block.get(51).copied().unwrap_or(0).into());
    for tree in Tree::ALL {
        let ctx = Ctx::new(&geo, Location::of(tree.ids().tree).ag(agno).agb(AgBlock(7)));
        let Ok(view) = agbtree::Block::verify(&block, &ctx, tree, agno) else { continue };
        touch(view.ptrs().len());
        match tree {
            Tree::Ino | Tree::Fino => {
                for rec in view.recs::<inobt::Rec>() {
                    let chunk = rec.decode(&geo);
                    touch((chunk.used(), chunk.encode(&geo)));
                }
            }
            Tree::Rmap => {
                for rec in view.recs::<rmap::Rec>() {
                    touch((rec.low_key().sort_key(), rec.high_key().sort_key(), rec.inode()));
                }
            }
            Tree::Refcount => {
                touch(view.recs::<refcount::Rec>().iter().filter(|r| r.is_cow()).count());
            }
            Tree::Bno | Tree::Cnt => touch(view.keys::<xfskit_format::alloc::Rec>().len()),
        }
    }
}

/// Decodes inodes: verifier, every accessor, both forks.
pub fn inode(data: &[u8]) {
    let crc = |geo: &Geometry| geo.v5().then_some(inode::CRC_OFFSET);
    let Some((geo, mut bytes)) = split(data, crc) else { return };
    bytes.resize(geo.inodesize(), 0);
    let ino = match bytes.get(152..160) {
        Some(&[0, 0, 0, 0, a, b, c, d]) if geo.v5() => Ino(u32::from_be_bytes([a, b, c, d]).into()),
        _ => Ino(131),
    };
    let ctx = Ctx::new(&geo, inode::location(&geo, ino));
    touch(Dinode::verify(&bytes, &ctx, ino).is_ok());
    let Some(inode) = Dinode::parse(&bytes, &geo) else { return };
    touch((inode.mode(), inode.nlink(), inode.size(), inode.atime(), inode.crtime(), inode.rdev()));
    touch((inode.projid(), inode.flags2(), inode.next_unlinked(), inode.file_type()));
    for fork in [Fork::Data, Fork::Attr] {
        let Some(room) = inode.fork(fork) else { continue };
        let count = usize::try_from(inode.fork_nextents(fork)).unwrap_or(usize::MAX);
        for rec in bmbt::records(room, count) {
            touch(rec.decode().verify(&ctx, bmbt::ExtentRules::of(&inode, fork)).is_ok());
        }
        touch(BmdrRoot::verify(room, &ctx, fork).is_ok());
    }
}

/// Decodes blocks of the block-map btree, remote symlinks, dquots.
pub fn bmbt(data: &[u8]) {
    let Some((geo, block)) = split(data, |geo| geo.v5().then_some(bmbt::CRC_OFFSET)) else {
        return;
    };
    let at = Location::of("bmbt block").ino(owner(&geo, &block));
    let ctx = Ctx::new(&geo, at);
    for fork in [Fork::Data, Fork::Attr] {
        if let Ok(view) = BmbtBlock::verify(&block, &ctx, fork) {
            touch((view.recs().len(), view.keys().len(), view.ptrs().len()));
        }
    }
    touch(symlink::verify(&block, &ctx, 0, ByteLen(900)).is_ok());
    touch(dquot::Dqblk::verify(&block, &ctx, dquot::Kind::User, 0).is_ok());
}

/// Decodes directory blocks of every form, and the short form.
pub fn dir(data: &[u8]) {
    for field in [dir::data::CRC_OFFSET, da::CRC_OFFSET] {
        let crc = |geo: &Geometry| geo.v5().then_some(field);
        let Some((geo, mut block)) = split(data, crc) else { return };
        touch_short_form(&block, &geo);
        block.resize(geo.dirblksize(), 0);
        if geo.v5() && data.first().is_some_and(|choice| choice & 0x80 == 0) {
            xfskit_crc::update(&mut block, field);
        }
        for fileoff in [0, geo.dir_leafblk().0, geo.dir_freeblk().0] {
            let at = Location::of("dir block").ino(owner(&geo, &block)).fork(Fork::Data);
            let at = at.fileoff(FileOff(fileoff.into()));
            let ctx = Ctx::new(&geo, at);
            if let Ok(view) = dir::data::Data::verify(&block, &ctx, None) {
                touch((view.entries().count(), view.slots().count(), view.entry_at(64).is_some()));
                touch(view.verify_dots(&ctx, Ino(131)).is_ok());
            }
            if let Ok(leaf) = dir::leaf::Leaf::verify(&block, &ctx, None) {
                touch((leaf.run(46).len(), leaf.last_hash()));
            }
            touch(dir::free::Free::verify(&block, &ctx).is_ok());
            touch(da::Node::verify(&block, &ctx, Fork::Data).map(|node| node.child(46)).is_ok());
            touch(dir::data::salvage(&block, &geo).count());
            touch(dir::data::Data::parse(&block, &geo).map(|view| view.slots().count()));
            touch(dir::leaf::Leaf::parse(&block, &geo).map(|leaf| leaf.run(46).len()));
            touch(dir::free::Free::parse(&block, &geo).map(|free| free.fbests.len()));
            touch(da::Node::parse(&block, &geo).map(|node| node.child(46)));
        }
    }
}

fn touch_short_form(bytes: &[u8], geo: &Geometry) {
    let ctx = Ctx::new(geo, Location::of("inode").ino(Ino(131)));
    if let Ok(sf) = dir::sf::Sf::verify(bytes, &ctx) {
        touch(sf.entries().map(|e| hash::dir_hash(geo, e.name)).fold(0, |a, b| a ^ b));
    }
    touch(dir::sf::Sf::parse(bytes, geo).map(|sf| sf.entries().count()));
}

/// Decodes attribute leaves, nodes, remote values, short forms, ACLs, parent pointers.
pub fn attr(data: &[u8]) {
    let Some((geo, block)) = split(data, |geo| geo.v5().then_some(da::CRC_OFFSET)) else { return };
    let at = Location::of("attr leaf").ino(owner(&geo, &block)).fork(Fork::Attr);
    let ctx = Ctx::new(&geo, at.fileoff(FileOff(0)));
    touch(attr::leaf::Leaf::parse(&block, &geo).map(|leaf| leaf.attrs().count()));
    if let Ok(leaf) = attr::leaf::Leaf::verify(&block, &ctx) {
        touch((leaf.verify_space(&ctx).is_ok(), leaf.last_hash(), leaf.run(46).count()));
        for entry in leaf.attrs() {
            touch((entry.namespace(), entry.value_len(), entry.size(), entry.hash(&geo)));
            touch(entry.verify_parent(&ctx).is_ok());
        }
    }
    touch(da::Node::verify(&block, &ctx, Fork::Attr).map(|node| node.child(46)).is_ok());
    touch(attr::remote::verify(&block, &ctx, 0, 5000).is_ok());
    if let Ok(sf) = attr::sf::Sf::verify(&block, &ctx) {
        touch(sf.entries().filter_map(|e| e.namespace()).count());
    }
    touch((attr::acl::to_xattr(&block), attr::acl::from_xattr(&block)));
}

/// Decodes log records, operations and items. The CRC is not verified here.
pub fn log(data: &[u8]) {
    let Some((geo, block)) = split(data, |_| None) else { return };
    let ctx = Ctx::new(&geo, Location::of("log record"));
    if let Ok(header) = RecordHeader::verify(&block, &ctx, LogBlock(0)) {
        touch((header.blocks(), header.header_blocks(), header.lsn(), header.tail_lsn()));
    }
    let ops: Vec<_> = op::ops(&block, 1000, &ctx).map_while(Result::ok).collect();
    let mut regions: Vec<&[u8]> = ops.iter().map(|op| op.data).collect();
    // Random operations rarely hold whole items, so the raw bytes are decoded as regions as well.
    regions.extend(block.chunks(56));
    for item in item::split(&regions, &ctx).map_while(Result::ok) {
        match Item::decode(item, &ctx) {
            Ok(Item::Buf(buf)) => touch(buf.changes().count()),
            Ok(Item::Inode(inode)) => touch((inode.ino(), inode.fork(Fork::Data).map(<[u8]>::len))),
            other => touch(other.is_ok()),
        }
    }
}

/// Returns the seeds: every metadata block of the kept images that `target` decodes, with the
/// choice of volume that fits best.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let wanted = |magic: [u8; 4], at8: u16| match target {
        "superblock" => magic == *b"XFSB",
        "ag_headers" => matches!(&magic, b"XAGF" | b"XAGI" | b"XAFL"),
        "agbtree" => matches!(
            &magic,
            b"AB3B" | b"AB3C" | b"IAB3" | b"FIB3" | b"RMB3" | b"R3FC" | b"ABTB" | b"IABT"
        ),
        "inode" => magic.starts_with(b"IN"),
        "bmbt" => matches!(&magic, b"BMA3" | b"BMAP" | b"XSLM"),
        "dir" => {
            matches!(&magic, b"XDB3" | b"XDD3" | b"XDF3" | b"XD2B" | b"XD2D" | b"XD2F")
                || matches!(at8, 0x3df1 | 0x3dff | 0x3ebe | 0xd2f1 | 0xd2ff | 0xfebe)
        }
        "attr" => magic == *b"XARM" || matches!(at8, 0x3bee | 0x3ebe | 0xfbee | 0xfebe),
        "log" => magic == [0xfe, 0xed, 0xba, 0xbe],
        _ => false,
    };
    let mut found = Vec::new();
    for (choice, name) in (0u8..).zip(volumes::NAMES) {
        let bytes = xfskit_test_support::kept::unpack(name);
        let (geo, _) = volumes::pick(choice);
        let mut of_this_image = 0;
        for block in bytes.chunks(512).enumerate().filter_map(|(i, head)| {
            let magic = head.first_chunk().copied()?;
            let at8 = u16::from_be_bytes(head.get(8..)?.first_chunk().copied()?);
            let end = (i * 512 + geo.blocksize().max(4096)).min(bytes.len());
            wanted(magic, at8).then(|| &bytes[i * 512..end])
        }) {
            let len = match target {
                "superblock" | "ag_headers" => 512,
                "inode" => geo.inodesize(),
                "dir" => geo.dirblksize(),
                "log" => block.len(),
                _ => geo.blocksize(),
            };
            of_this_image += 1;
            if of_this_image > 40 {
                break;
            }
            found.push([&[choice], &block[..len.min(block.len())]].concat());
        }
    }
    found
}
