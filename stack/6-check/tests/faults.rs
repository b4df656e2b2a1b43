//! Injects one fault at a time, with the checksum made right, and expects exactly its findings.

mod common;

use common::{Block, Image, check_all, ids};
use xfskit_format::inode::{FileType, Format};

/// An injected fault: the structure, the first byte, the new bytes, and the expected check ids.
type InjectedFault = (fn(&Image) -> Block, usize, &'static [u8], &'static [&'static str]);

fn verify_all(image: &Image, faults: &[InjectedFault]) {
    let mut wrong = Vec::new();
    for (number, (block, byte, new, expected)) in faults.iter().enumerate() {
        let block = block(image);
        let dev = image.damaged(block, |bytes| {
            assert_ne!(&bytes[*byte..byte + new.len()], *new, "fault {number} changes nothing");
            bytes[*byte..byte + new.len()].copy_from_slice(new);
        });
        let found: Vec<_> = ids(&dev).into_iter().collect();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        if found != expected {
            wrong.push(format!(
                "fault {number} {block:?}+{byte}: expected {expected:?}, found {found:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
}

fn sb(image: &Image) -> Block {
    image.header(0, 0)
}
fn sb1(image: &Image) -> Block {
    image.header(1, 0)
}
fn agf(image: &Image) -> Block {
    image.header(0, 1)
}
fn agi(image: &Image) -> Block {
    image.header(0, 2)
}
fn agfl(image: &Image) -> Block {
    image.header(0, 3)
}
fn bnobt(image: &Image) -> Block {
    image.magic(b"AB3B", 0)
}
fn cntbt(image: &Image) -> Block {
    image.magic(b"AB3C", 0)
}
fn inobt(image: &Image) -> Block {
    image.magic(b"IAB3", 0)
}
fn finobt(image: &Image) -> Block {
    image.magic(b"FIB3", 0)
}
fn rmapbt(image: &Image) -> Block {
    image.magic(b"RMB3", 0)
}
fn refcountbt(image: &Image) -> Block {
    image.magic(b"R3FC", 0)
}
fn bmbt(image: &Image) -> Block {
    image.magic(b"BMA3", 0)
}
fn file(image: &Image) -> Block {
    image.file(1)
}
fn shared_file(image: &Image) -> Block {
    image.inode(|i| i.is_reflink() && i.is_regular())
}
fn free_inode(image: &Image) -> Block {
    image.inode(|i| i.mode() == 0)
}
fn fifo(image: &Image) -> Block {
    image.inode(|i| i.file_type() == Some(FileType::Fifo))
}
fn symlink(image: &Image) -> Block {
    image.inode(|i| i.file_type() == Some(FileType::Symlink) && i.format() == Some(Format::Local))
}
fn sf_dir(image: &Image) -> Block {
    image.inode(|i| i.is_dir() && i.format() == Some(Format::Local) && i.size().0 < 30)
}
fn block_dir(image: &Image) -> Block {
    image.magic(b"XDB3", 0)
}
fn block_dir_inode(image: &Image) -> Block {
    image.inode(|i| i.is_dir() && i.size().0 == 4096)
}
fn data_block(image: &Image) -> Block {
    image.magic(b"XDD3", 0)
}
fn leaf1(image: &Image) -> Block {
    image.da(0x3df1, 0)
}
fn leafn(image: &Image) -> Block {
    image.da(0x3dff, 0)
}
fn free_index(image: &Image) -> Block {
    image.magic(b"XDF3", 0)
}
fn attr_leaf(image: &Image) -> Block {
    image.da(0x3bee, 0)
}
fn attr_value(image: &Image) -> Block {
    image.magic(b"XARM", 0)
}
fn remote_symlink(image: &Image) -> Block {
    image.magic(b"XSLM", 0)
}
fn attr_sf(image: &Image) -> Block {
    image.inode(|i| i.is_regular() && i.aformat() == Some(Format::Local))
}

/// A wrong level of a root contradicts every child; the root is named once.
#[test]
fn a_wrong_level_of_a_root_is_one_finding() {
    let image = Image::kept("v5");
    let dev = image.damaged(image.da(0x3ebe, 0), |node| {
        assert_eq!(node[58..60], [0, 1], "a node above leaves");
        node[59] = 2;
    });
    let findings: Vec<String> = check_all(&dev).1.iter().map(ToString::to_string).collect();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].contains("level is 2, expected 1 [da.node.level]"), "{findings:#?}");
}

#[test]
fn what_is_no_field_is_told_as_a_sentence() {
    let image = Image::kept("v5");
    let texts = |block: Block, at: usize, new: &[u8]| {
        let dev = image.damaged(block, |bytes| bytes[at..at + new.len()].copy_from_slice(new));
        let findings = check_all(&dev).1;
        findings.iter().map(|finding| finding.corruption.to_string()).collect::<Vec<_>>().join("\n")
    };
    let blocks = texts(free_inode(&image), 64, &[0, 0, 0, 0, 0, 0, 0, 1]);
    let sentence = "nblocks is 1, expected 0 in a free inode [inode.nblocks.free]";
    assert!(blocks.ends_with(sentence), "{blocks}");
}

#[test]
fn each_fault_of_superblocks_and_group_headers_is_found() {
    let image = Image::kept("v5");
    verify_all(
        &image,
        &[
            (sb, 144, &[0, 0, 0, 0, 0, 0, 1, 0], &["sb.fdblocks"]),
            (sb, 128, &[0, 0, 0, 0, 0, 0, 2, 1], &["sb.icount"]),
            (sb, 136, &[0, 0, 0, 0, 0, 0, 0, 77], &["sb.ifree"]),
            (sb, 240, &[0, 0, 0, 9], &["sb.lsn"]),
            (sb, 204, &[0, 0, 0, 0], &["sb.bad_features2"]),
            (sb, 100, &[0xb4, 0xa5], &["sb.versionnum"]),
            (sb1, 14, &[0x3f], &["sb.dblocks"]),
            (sb1, 212, &[0, 0, 0, 5], &["sb.features_ro_compat"]),
            (sb1, 4, &[0, 0, 0x20, 0], &["sb.blocksize"]),
            (sb1, 8, &[0, 0, 0, 0, 0, 0, 0x50, 0], &["sb.dblocks"]),
            (sb1, 120, &[11], &["sb.blocklog"]),
            (sb1, 101, &[0xb4], &["sb.versionnum"]),
            (sb1, 100, &[0x34], &["sb.versionnum"]),
            (sb1, 100, &[0x94], &["sb.versionnum"]),
            (sb1, 101, &[0x95], &["sb.versionnum"]),
            (sb1, 202, &[0x03], &[]),
            (sb, 100, &[0x34], &["sb.versionnum"]),
            (sb1, 216, &[0, 0, 0, 1], &["sb.features_incompat"]),
            (sb1, 168, &[0, 0, 0, 0, 0, 0, 0, 2], &["sb.gquotino"]),
            (sb1, 232, &[0, 0, 0, 0, 0, 0, 0, 2], &["sb.pquotino"]),
            (sb, 86, &[0x3f], &["sb.agblocks"]),
            (sb1, 88, &[0, 0, 0, 5], &["sb.agcount"]),
            (sb1, 152, &[0, 0, 0, 0, 0, 0, 0, 5], &["sb.frextents"]),
            (sb1, 180, &[0, 0, 0, 9], &["sb.inoalignmt"]),
            (sb1, 200, &[0, 0, 1, 0x8e], &["sb.features2"]),
            (sb1, 228, &[0, 0, 0, 7], &["sb.spino_align"]),
            (sb1, 127, &[9], &["sb.imax_pct"]),
            (sb1, 300, &[7], &["sb.tail"]),
            (sb1, 32, &[9], &["sb.uuid"]),
            (agf, 8, &[0, 0, 0, 2], &["agf.seqno"]),
            (agf, 52, &[0, 0, 0, 1], &["agf.freeblks"]),
            (agf, 56, &[0, 0, 0, 1], &["agf.longest"]),
            (agf, 60, &[0, 0, 0, 9], &["agf.btreeblks"]),
            (agf, 48, &[0, 0, 0, 1], &["agf.flcount"]),
            (agf, 80, &[0, 0, 0, 9], &["agf.rmapblocks"]),
            (agf, 84, &[0, 0, 0, 9], &["agf.refcntblocks"]),
            (agf, 100, &[1], &["agf.spare64"]),
            (agi, 16, &[0, 0, 1, 0], &["agi.count"]),
            (agi, 28, &[0, 0, 0, 5], &["agi.freecount"]),
            (agi, 32, &[0, 0, 0, 131], &["agi.newino"]),
            (agi, 40 + 12, &[0, 0, 0, 131], &["agi.unlinked"]),
            (agi, 336, &[0, 0, 0, 3], &["agi.ino_blocks"]),
            (agi, 340, &[0, 0, 0, 3], &["agi.fino_blocks"]),
            (agfl, 4, &[0, 0, 0, 3], &["agfl.seqno"]),
        ],
    );
}

#[test]
fn each_fault_of_group_btrees_is_found() {
    let image = Image::kept("v5");
    verify_all(
        &image,
        &[
            (bnobt, 8, &[0, 0, 0, 50], &["bnobt.leftsib"]),
            (bnobt, 12, &[0, 0, 0, 50], &["bnobt.rightsib"]),
            (bnobt, 16, &[1], &["bnobt.bno"]),
            (bnobt, 24, &[0, 0, 0, 9], &["bnobt.lsn"]),
            (bnobt, 51, &[7], &["bnobt.owner"]),
            (cntbt, 6, &[0, 0], &["cntbt.missing"]),
            (
                inobt,
                56 + 8 + 7,
                &[0xff],
                &["agi.freecount", "finobt.rec", "inobt.free", "inobt.freecount", "sb.ifree"],
            ),
            (inobt, 56 + 6, &[32], &["finobt.rec", "inobt.count"]),
            (finobt, 56 + 7, &[63], &["finobt.freecount", "finobt.rec"]),
            (finobt, 6, &[0, 0], &["finobt.missing"]),
            (rmapbt, 56 + 24 + 15, &[0xf0], &["rmapbt.rec"]),
            (rmapbt, 56 + 24 * 3 + 7, &[77], &["rmapbt.extent"]),
            (refcountbt, 56 + 11, &[6], &["refcountbt.count"]),
            (refcountbt, 56 + 11, &[1], &["refcountbt.refcount"]),
            (bmbt, 8, &[0, 0, 0, 0, 0, 0, 0, 40], &["bmbt.leftsib"]),
            (bmbt, 63, &[1], &["bmbt.owner"]),
        ],
    );
}

#[test]
fn each_fault_of_inodes_is_found() {
    let image = Image::kept("v5");
    verify_all(
        &image,
        &[
            (file, 0x10, &[0, 0, 0, 9], &["inode.nlink"]),
            (shared_file, 0x02, &[0, 0], &["inode.mode"]),
            (file, 0x40, &[0, 0, 0, 0, 0, 0, 0, 99], &["inode.nblocks"]),
            (file, 0x06, &[0, 1], &["inode.onlink"]),
            (file, 0x5a, &[0x80], &["inode.flags"]),
            (file, 0x84, &[1], &["inode.pad2"]),
            (file, 0x60, &[0, 0, 0, 9], &["inode.next_unlinked"]),
            (file, 0x98, &[1], &["inode.inumber"]),
            (file, 0x70, &[0, 0, 0, 9], &["inode.lsn"]),
            (shared_file, 0x7f, &[0x18], &["inode.reflink"]),
            (free_inode, 0x47, &[1], &["inode.nblocks.free"]),
            (fifo, 0x3f, &[1], &["inode.size"]),
            (symlink, 0xb0, &[0], &["symlink.target"]),
            (block_dir_inode, 0x3e, &[0x20], &["inode.size"]),
            (remote_symlink, 8, &[0, 0, 0, 9], &["symlink.bytes"]),
        ],
    );
}

#[test]
fn each_fault_of_directories_is_found() {
    let image = Image::kept("v5");
    verify_all(
        &image,
        &[
            (sf_dir, 0xb0 + 6 + 4, &[2], &["dir.entry.ftype"]),
            (sf_dir, 0xb0 + 6 + 3, b"/", &["dir.name"]),
            (block_dir, 0x40, &[0, 0, 0, 0, 0, 0, 0, 128], &["dir.data.dot"]),
            (data_block, 0x33, &[0xff], &["dir.data.bestfree"]),
            (leaf1, 0x3b, &[9], &["dir.leaf.stale"]),
            (leafn, 0x3b, &[9], &["dir.leaf.stale"]),
            (free_index, 0x33, &[1], &["dir.free.firstdb"]),
            (free_index, 0x40, &[0x0f, 0xf0], &["dir.free.bests"]),
        ],
    );
}

#[test]
fn each_fault_of_attributes_is_found() {
    let image = Image::kept("v5");
    verify_all(
        &image,
        &[
            (attr_leaf, 0x3b, &[1], &["attr.leaf.usedbytes"]),
            (attr_leaf, 0x50 + 6, &[0x81], &["attr.leaf.incomplete"]),
            (attr_value, 8, &[0, 0, 0, 9], &["attr.remote.bytes"]),
            (attr_sf, 0xb0 + 8 * 24 + 1, &[9], &["attr.sf.count"]),
        ],
    );
}
