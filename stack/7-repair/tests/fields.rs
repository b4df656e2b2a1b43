//! Fields of the primary superblock that its copies tell, or the volume; counters of extents; an
//! inobt that lost its records; attributes that were not finished.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_format::inode::{Dinode, FileType, Format};
use xfskit_repair::{AcceptLoss, Prepared, Repair};
use xfskit_test_support::{kept, verify};
use xfskit_units::ByteOffset;

use crate::common::{Block, Image, check_all};

/// Fields that are the same in all copies, or of which the volume shows the value: name, byte and
/// length.
const FIXED: [(&str, usize, usize); 20] = [
    ("dblocks", 8, 8),
    ("uuid", 32, 16),
    ("logstart", 48, 8),
    ("rootino", 56, 8),
    ("rbmino", 64, 8),
    ("rsumino", 72, 8),
    ("rextsize", 80, 4),
    ("agblocks", 84, 4),
    ("rbmblocks", 92, 4),
    ("logblocks", 96, 4),
    ("frextents", 152, 8),
    ("qflags", 176, 2),
    ("inoalignmt", 180, 4),
    ("features2", 200, 4),
    ("bad_features2", 204, 4),
    ("features_compat", 208, 4),
    ("features_ro_compat", 212, 4),
    ("features_incompat", 216, 4),
    ("features_log_incompat", 220, 4),
    ("spino_align", 228, 4),
];

/// Fields with other values than a flipped bit: name, byte, the damaged and the right value.
const SET: [(&str, usize, &[u8], &[u8]); 10] = [
    ("rblocks", 16, &[0, 0, 0, 1, 0, 0, 0, 0], &[0; 8]),
    ("versionnum", 100, &[0x34], &[0xb4]),
    ("uquotino", 160, &[0, 0, 0, 0, 0, 0, 0, 131], &[0xff; 8]),
    ("gquotino", 168, &[0x7f; 8], &[0xff; 8]),
    ("pquotino", 232, &[0, 0, 0, 0, 0, 0, 7, 224], &[0xff; 8]),
    ("qflags", 176, &[0xff, 0xff], &[0, 0]),
    ("features_ro_compat", 212, &[0; 4], &[]),
    ("features_ro_compat", 212, &[0xff; 4], &[]),
    ("features_incompat", 216, &[0xff, 0xff, 0xff, 0xef], &[]),
    ("lsn", 240, &[0x7f; 8], &[0; 8]),
];

/// Repairs a volume without a loss, and verifies it.
fn repaired(what: &str, bytes: &[u8]) -> (Prepared, Arc<MemDevice>) {
    let dev: Arc<MemDevice> = Arc::new(kept::memory(bytes));
    let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.is_clean(), "{what}: {:#?}\n{:#?}", prepared.left(), prepared.plan());
    prepared.commit(&*dev, None).unwrap_or_else(|why| panic!("{what}: {why}"));
    let (_, findings) = check_all(&*dev);
    assert!(findings.is_empty(), "{what}: {findings:#?}");
    verify::device(&*dev).unwrap_or_else(|why| panic!("{what}: {why}"));
    (prepared, dev)
}

/// Returns the image with a structure changed.
fn damaged(image: &Image, block: Block, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = image.bytes.clone();
    let structure = &mut bytes[block.offset..block.offset + block.len];
    change(structure);
    if let Some(crc) = block.crc {
        xfskit_crc::update(structure, crc);
    }
    bytes
}

fn read(dev: &MemDevice, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    dev.read_at(ByteOffset(at as u64), &mut bytes).unwrap();
    bytes
}

#[test]
fn fields_that_the_copies_or_the_volume_show_are_taken_from_them() {
    let image = Image::kept("v5");
    for (name, at, len) in FIXED {
        let bytes = damaged(&image, image.header(0, 0), |sector| sector[at + len - 1] ^= 0x40);
        let (_, dev) = repaired(name, &bytes);
        assert_eq!(read(&dev, at, len), image.bytes[at..at + len], "{name}");
    }
    for (name, at, wrong, right) in SET {
        let sector = image.header(0, 0);
        let bytes = damaged(&image, sector, |s| s[at..at + wrong.len()].copy_from_slice(wrong));
        let (prepared, dev) = repaired(name, &bytes);
        let old = &image.bytes[at..at + wrong.len()];
        let right = if right.is_empty() { old } else { right };
        assert_eq!(read(&dev, at, wrong.len()), right, "{name}: {:#?}", prepared.plan());
    }
}

#[test]
fn shared_vn_of_a_copy_is_zeroed() {
    const SHARED_VN: usize = 179;
    let image = Image::kept("v5");
    let copy = image.header(1, 0);
    let bytes = damaged(&image, copy, |sector| sector[SHARED_VN] = 0x80);
    let (prepared, dev) = repaired("shared_vn", &bytes);
    assert_eq!(read(&dev, copy.offset + SHARED_VN, 1), [0], "{:#?}", prepared.plan());
}

#[test]
fn a_grown_volume_is_not_made_smaller_by_its_old_copies() {
    let image = Image::kept("v5");
    let mut bytes = image.bytes.clone();
    // The copies are those of a smaller volume: growing writes them last.
    let dblocks = u64::from_be_bytes(bytes[8..16].try_into().unwrap()) - 100;
    for agno in 1..image.geo.agcount {
        let copy = image.header(agno, 0);
        let sector = &mut bytes[copy.offset..copy.offset + copy.len];
        sector[8..16].copy_from_slice(&dblocks.to_be_bytes());
        xfskit_crc::update(sector, 224);
    }
    let dev: Arc<MemDevice> = Arc::new(kept::memory(&bytes));
    let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.plan().step("superblock.fields").is_none(), "{:#?}", prepared.plan());
}

#[test]
fn quota_that_is_there_is_left_alone() {
    let image = Image::kept("v5-tall");
    let fields = [("uquotino", 160), ("gquotino", 168), ("pquotino", 232)];
    let is_set =
        |at: usize| ![[0; 8], [0xff; 8]].contains(&image.bytes[at..at + 8].try_into().unwrap());
    let used: Vec<_> = fields.into_iter().filter(|(_, at)| is_set(*at)).collect();
    assert!(!used.is_empty());
    for (name, at) in used {
        let bytes = damaged(&image, image.header(0, 0), |sector| sector[at] ^= 0x40);
        let dev: Arc<MemDevice> = Arc::new(kept::memory(&bytes));
        let repair = Repair::new().accept_loss(AcceptLoss::ALL);
        let prepared = repair.prepare(Arc::clone(&dev) as _).unwrap();
        assert!(!prepared.is_clean(), "{name}: {:#?}", prepared.plan());
        assert!(prepared.commit(&*dev, None).is_err(), "{name}");
        assert!(read(&dev, 0, bytes.len()) == bytes, "{name}: written");
    }
}

/// Returns inodes whose attribute fork has room for extents, and none.
fn without_attributes(image: &Image) -> Vec<Block> {
    let fits = |block: &Block| {
        let bytes = &image.bytes[block.offset..block.offset + block.len];
        let inode = Dinode::parse(bytes, &image.geo).filter(|_| bytes.starts_with(b"IN"));
        inode.is_some_and(|inode| {
            let is_blank = inode.attr_fork().is_some_and(|fork| fork.iter().all(|b| *b == 0));
            is_blank && inode.aformat() == Some(Format::Extents) && !inode.is_free()
        })
    };
    image.metadata().into_iter().filter(fits).collect()
}

#[test]
fn a_counter_of_blank_extents_is_set_and_nothing_is_lost() {
    let mut attrs = 0;
    for name in ["v5", "v5-plain", "v5-1k"] {
        let image = Image::kept(name);
        let bytes = damaged(&image, image.file(1), |inode| inode[76] ^= 0x80);
        repaired(name, &bytes);
        for block in without_attributes(&image).into_iter().take(2) {
            let bytes = damaged(&image, block, |inode| inode[80] ^= 0x80);
            repaired(name, &bytes);
            attrs += 1;
        }
    }
    assert!(attrs > 0);
}

#[test]
fn a_record_that_became_blank_comes_back_from_the_rmapbt_or_is_named_as_lost() {
    for (name, losses) in [("v5", 0), ("v5-plain", 1)] {
        let image = Image::kept(name);
        let file = image.file(1);
        let bytes = damaged(&image, file, |inode| inode[176..192].fill(0));
        let dev: Arc<MemDevice> = Arc::new(kept::memory(&bytes));
        let repair = Repair::new().accept_loss(AcceptLoss::ALL);
        let prepared = repair.prepare(Arc::clone(&dev) as _).unwrap();
        assert!(prepared.is_clean(), "{name}: {:#?}", prepared.left());
        assert_eq!(prepared.plan().losses().count(), losses, "{name}: {:#?}", prepared.plan());
        prepared.commit(&*dev, None).unwrap();
        let record = read(&dev, file.offset + 176, 16);
        assert_eq!(record == image.bytes[file.offset + 176..][..16], losses == 0, "{name}");
        verify::device(&*dev).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[test]
fn an_inobt_without_its_records_is_made_again_of_the_inodes() {
    for name in ["v5", "v5-1k", "v5-plain"] {
        let image = Image::kept(name);
        let before = check_all(&image.copy()).0.inodes;
        let leaves = image.metadata().into_iter().filter(|block| {
            let bytes = &image.bytes[block.offset..];
            bytes.starts_with(b"IAB3") && bytes[4..6] == [0, 0]
        });
        let leaves: Vec<_> = leaves.collect();
        assert!(!leaves.is_empty());
        for leaf in leaves {
            let empty = damaged(&image, leaf, |block| block[6..8].fill(0));
            let start = damaged(&image, leaf, |block| block[56..60].fill(0xff));
            for bytes in [empty, start] {
                let (prepared, _) = repaired(name, &bytes);
                assert_eq!(prepared.after().inodes, before, "{name}");
                assert_eq!(prepared.plan().losses().count(), 0, "{name}");
            }
        }
    }
}

#[test]
fn an_attribute_that_was_not_finished_is_removed_and_named() {
    let image = Image::kept("v5");
    // Of a leaf with several attributes, the flags of one.
    let leaf = image.da(0x3bee, 0);
    let bytes = damaged(&image, leaf, |block| block[80 + 6] |= 0x80);
    let (_, findings) = check_all(&kept::memory(&bytes));
    let ids: Vec<_> = findings.iter().map(|finding| finding.corruption.check.0).collect();
    assert!(ids.contains(&"attr.leaf.incomplete"), "{ids:?}");
    let (prepared, _) = repaired("incomplete", &bytes);
    let told = prepared.plan().steps.iter().flat_map(|step| &step.evidence);
    assert_eq!(told.filter(|words| words.contains("is INCOMPLETE")).count(), 1);
}

#[test]
fn sizes_and_types_come_from_maps_headers_and_entries() {
    let image = Image::kept("v5");
    let extents = |inode: &Dinode<'_>| inode.format() == Some(Format::Extents);
    let dir = image.inode(|inode| inode.is_dir() && extents(inode));
    let is = |kind: FileType| move |inode: &Dinode<'_>| inode.file_type() == Some(kind);
    let link = image.inode(|inode| is(FileType::Symlink)(inode) && extents(inode));
    let device = image.inode(is(FileType::CharDevice));
    // The size, and the type in the mode.
    for (what, block, at, bit) in [
        ("size of a directory", dir, 63, 1),
        ("length of a link", link, 63, 1),
        ("type of a device", device, 2, 0x80),
    ] {
        let bytes = damaged(&image, block, |inode| inode[at] ^= bit);
        let (prepared, dev) = repaired(what, &bytes);
        assert_eq!(prepared.plan().losses().count(), 0, "{what}: {:#?}", prepared.plan());
        let (start, len) = (block.offset, 100);
        let (old, new) = (&image.bytes[start..start + len], read(&dev, start, len));
        assert_eq!((&new[2..4], &new[56..64]), (&old[2..4], &old[56..64]), "{what}");
    }
}
