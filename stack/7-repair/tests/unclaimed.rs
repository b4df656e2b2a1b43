//! Forks whose maps are lost, on a volume without a rmapbt: what they led to names its inode.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice, OverlayDevice};
use xfskit_check::fork_map;
use xfskit_core::OpenOptions;
use xfskit_format::Fork;
use xfskit_format::attr::remote;
use xfskit_format::inode::{CRC_OFFSET, Dinode, Format, InodeMut};
use xfskit_repair::{AcceptLoss, Plan, Repair, UndoFile, undo};
use xfskit_test_support::image::Scratch;
use xfskit_test_support::manifest::Manifest;
use xfskit_test_support::{Image as File, kept, ours, verify};
use xfskit_units::{ByteOffset, Ino};
use xfskit_vfs::{Clock, Fs, NewNode, SetMode};

use crate::claims::FORK;
use crate::common::{Block, Image, check_all, damage};
use crate::names::forget_history;

/// A volume, and the files that Linux made on it.
pub(crate) struct Volume {
    pub image: Image,
    pub tree: Manifest,
}

/// Returns the tree of a volume, but for what a repair may change: the blocks of each file.
fn tree(dev: &dyn BlockDevice) -> Manifest {
    let scratch = Scratch::new("repair-unclaimed-tree");
    let volume = ours::open(&File::of_device(&scratch, "volume.img", dev));
    let (manifest, errors) = ours::manifest(&volume);
    assert!(errors.is_empty(), "{errors:?}");
    manifest.without_blocks()
}

impl Volume {
    pub(crate) fn kept() -> Self {
        Self::of(Image::kept("v5-plain"))
    }

    pub(crate) fn of(image: Image) -> Self {
        assert!(!image.geo.features.rmapbt());
        let tree = tree(&image.copy());
        Self { image, tree }
    }

    /// Returns a volume on which `change` was made, too.
    pub(crate) fn changed(bytes: &[u8], change: impl FnOnce(&Fs)) -> Self {
        let dev = Arc::new(kept::memory(bytes));
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let volume = xfskit_core::Volume::open(Arc::clone(&dev) as _, &options).unwrap();
        let fs = Fs::new(volume, Clock::system());
        change(&fs);
        fs.close().unwrap();
        let mut bytes = vec![0; bytes.len()];
        dev.read_at(ByteOffset(0), &mut bytes).unwrap();
        Self::of(Image::of(bytes))
    }

    /// Returns the inode of a file, and its structure on the volume.
    fn file(&self, path: &str) -> (Ino, Block) {
        let ino = Ino(self.tree.entries.get(path.as_bytes()).expect(path).ino);
        let at = self.image.geo.ino_to_byte(ino).unwrap();
        let offset = usize::try_from(at.0).unwrap();
        (ino, Block { offset, len: self.image.geo.inodesize(), crc: Some(CRC_OFFSET) })
    }

    /// Returns the blocks of a fork.
    pub(crate) fn blocks(&self, path: &str, fork: Fork) -> Vec<Block> {
        let (ino, at) = self.file(path);
        let (geo, len) = (&self.image.geo, self.image.geo.blocksize());
        let inode = Dinode::parse(&self.image.bytes[at.offset..], geo).unwrap();
        let map = fork_map(&self.image.copy(), geo, &inode, ino, fork).extents;
        let each = map.iter().flat_map(|extent| {
            let first = usize::try_from(geo.fsb_to_byte(extent.startblock).unwrap().0).unwrap();
            (0..usize::try_from(extent.blockcount.0).unwrap()).map(move |n| first + n * len)
        });
        each.map(|offset| Block { offset, len, crc: None }).collect()
    }

    /// Returns a view of the volume whose journal has no old copies.
    pub(crate) fn damaged(&self, change: impl FnOnce(&OverlayDevice)) -> Vec<u8> {
        let overlay = self.image.copy();
        forget_history(&self.image, &overlay);
        change(&overlay);
        let mut bytes = vec![0; self.image.bytes.len()];
        overlay.read_at(ByteOffset(0), &mut bytes).unwrap();
        bytes
    }

    /// Repairs damage: all comes back, and the plan says that blocks without an owner name it.
    fn comes_back(&self, what: &str, bytes: &[u8], evidence: &str) {
        let (plan, after) = repaired(what, bytes);
        let lost: Vec<_> = plan.losses().collect();
        assert!(lost.is_empty(), "{what}: {lost:?}");
        let told = plan.steps.iter().flat_map(|step| &step.evidence);
        assert!(told.clone().any(|text| text.contains(evidence)), "{what}: {plan:#?}");
        self.tree.assert_same(&after, what);
    }
}

/// Repairs damage, verifies the volume, and takes the repair back. Returns the plan, and the
/// tree.
pub(crate) fn repaired(what: &str, bytes: &[u8]) -> (Plan, Manifest) {
    let dev: Arc<MemDevice> = Arc::new(kept::memory(bytes));
    assert!(!check_all(&*dev).0.clean(), "{what}: not found");
    let repair = Repair::new().accept_loss(AcceptLoss::ALL);
    let prepared = repair.prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.is_clean(), "{what}: {:#?}\n{:#?}", prepared.left(), prepared.plan());
    let scratch = Scratch::new("repair-unclaimed");
    let path = scratch.path().join("undo");
    let mut file = UndoFile::create(&path, prepared.uuid(), dev.size()).unwrap();
    prepared.commit(&*dev, Some(&mut file)).unwrap();
    verify::device(&*dev).unwrap_or_else(|why| panic!("{what}: {why}"));
    let after = tree(&*dev);
    undo(&path, &*dev).unwrap();
    let mut restored = vec![0; bytes.len()];
    dev.read_at(ByteOffset(0), &mut restored).unwrap();
    assert!(restored == bytes, "{what}: taken back");
    (prepared.plan().clone(), after)
}

/// A change of an inode.
type Change<'c> = &'c dyn Fn(&mut [u8]);

const UNCLAIMED: &str = "that nothing claims, and that name";

/// Returns the bytes of an attribute fork in its inode.
fn attr_fork(inode: &[u8]) -> std::ops::Range<usize> {
    let start = FORK + usize::from(inode[82]) * 8;
    start..inode.len()
}

/// Ways to lose the map of an attribute fork.
fn lose_attr_map(inode: &mut [u8], way: &str) {
    let fork = attr_fork(inode);
    match way {
        "zeroes" => inode[fork].fill(0),
        "garbage" => inode[fork].fill(0xa5),
        "no extents" => {
            inode[fork].fill(0);
            InodeMut::new(inode).unwrap().core.core.naextents = 0.into();
        }
        "no fork" => {
            inode[fork].fill(0);
            let core = &mut InodeMut::new(inode).unwrap().core.core;
            (core.naextents, core.forkoff) = (0.into(), 0);
        }
        _ => unreachable!("{way}"),
    }
}

const WAYS: [&str; 4] = ["zeroes", "garbage", "no extents", "no fork"];

#[test]
fn attributes_come_back_by_the_owners_of_their_blocks() {
    let volume = Volume::kept();
    for path in ["/attr-leaf", "/attr-node", "/attr-remote"] {
        let (_, inode) = volume.file(path);
        for way in WAYS {
            let bytes = volume.damaged(|dev| damage(dev, inode, |bytes| lose_attr_map(bytes, way)));
            volume.comes_back(&format!("{path}: {way}"), &bytes, UNCLAIMED);
        }
    }
}

/// The LSN of a value's block is all ones, and says nothing of the value.
#[test]
fn a_value_whose_lsn_is_wrong_is_kept() {
    let volume = Volume::kept();
    let mut parts = volume.blocks("/attr-remote", Fork::Attr);
    parts.retain(|block| volume.image.bytes[block.offset..].starts_with(b"XARM"));
    let part = Block { crc: Some(remote::CRC_OFFSET), ..parts[0] };
    for byte in [0, 0x28] {
        let bytes = volume.damaged(|dev| damage(dev, part, |bytes| bytes[48..56].fill(byte)));
        let (plan, after) = repaired("an LSN", &bytes);
        assert_eq!(plan.losses().count(), 0, "{plan:#?}");
        volume.tree.assert_same(&after, "an LSN");
    }
}

/// The entries fill the size of the directory, whatever their count says.
#[test]
fn a_count_of_entries_that_is_wrong_is_made_right() {
    let volume = Volume::kept();
    let geo = &volume.image.geo;
    let mut directories = volume.image.metadata();
    directories.retain(|block| {
        let bytes = &volume.image.bytes[block.offset..block.offset + block.len];
        let inode = bytes.starts_with(b"IN").then(|| Dinode::parse(bytes, geo)).flatten();
        inode.is_some_and(|i| i.is_dir() && i.format() == Some(Format::Local) && bytes[FORK] > 1)
    });
    assert!(!directories.is_empty());
    for dir in directories {
        let count = volume.image.bytes[dir.offset + FORK];
        for wrong in [0, 1, count - 1, count + 1, 0xff].into_iter().filter(|n| *n != count) {
            let bytes = volume.damaged(|dev| damage(dev, dir, |bytes| bytes[FORK] = wrong));
            let what = format!("{wrong} instead of {count}");
            let (plan, after) = repaired(&what, &bytes);
            assert_eq!(plan.losses().count(), 0, "{what}: {plan:#?}");
            volume.tree.assert_same(&after, &what);
        }
    }
}

#[test]
fn a_target_comes_back_by_the_owner_of_its_block() {
    let volume = Volume::kept();
    let (_, inode) = volume.file("/symlink-remote");
    let fill = |byte: u8| move |bytes: &mut [u8]| bytes[FORK..FORK + 16].fill(byte);
    let none = |bytes: &mut [u8]| {
        bytes[FORK..FORK + 16].fill(0);
        InodeMut::new(bytes).unwrap().core.core.nextents = 0.into();
    };
    let nothing = |bytes: &mut [u8]| {
        none(bytes);
        InodeMut::new(bytes).unwrap().core.core.nblocks = 0.into();
    };
    let ways: [(&str, Change<'_>); 4] = [
        ("zeroes", &fill(0)),
        ("garbage", &fill(0xa5)),
        ("no extents", &none),
        ("no blocks", &nothing),
    ];
    for (way, change) in ways {
        let bytes = volume.damaged(|dev| damage(dev, inode, change));
        volume.comes_back(way, &bytes, UNCLAIMED);
    }
}

#[test]
fn a_map_whose_root_is_lost_comes_back_by_the_owners_of_its_blocks() {
    let volume = Volume::kept();
    let (_, inode) = volume.file("/fragmented");
    for byte in [0, 0xa5] {
        let bytes = volume.damaged(|dev| {
            damage(dev, inode, |bytes| bytes[FORK + 2..].fill(byte));
        });
        volume.comes_back("a root", &bytes, "in blocks that name the inode");
    }
}

/// One leaf is lost as well: the attributes of the others stay, and the plan says what is lost.
#[test]
fn a_leaf_that_is_lost_costs_its_attributes_alone() {
    let volume = Volume::kept();
    let (ino, inode) = volume.file("/attr-node");
    let leaves: Vec<_> = volume.blocks("/attr-node", Fork::Attr);
    let is_leaf = |block: &&Block| volume.image.bytes[block.offset + 8..].starts_with(b"\x3b\xee");
    let leaf = *leaves.iter().filter(is_leaf).nth(2).expect("three leaves");
    let bytes = volume.damaged(|dev| {
        damage(dev, inode, |bytes| lose_attr_map(bytes, "garbage"));
        damage(dev, leaf, |bytes| bytes.fill(0));
    });
    let (plan, after) = repaired("a leaf", &bytes);
    let lost: Vec<_> = plan.losses().collect();
    assert_eq!(
        lost,
        [format!("attributes of inode {ino} (/attr-node) in leaves that are not there")]
    );
    let attributes = |tree: &Manifest| tree.entries[&b"/attr-node"[..]].xattrs.clone();
    let (before, after) = (attributes(&volume.tree), attributes(&after));
    assert!(after.iter().all(|(name, value)| before.get(name) == Some(value)));
    assert!(after.len() > 100 && after.len() < before.len(), "{}", after.len());
}

/// Another block without an owner says that it is the target: which one is right is not known.
#[test]
fn a_target_that_two_blocks_have_is_a_loss() {
    let volume = Volume::kept();
    let (ino, inode) = volume.file("/symlink-remote");
    let (_, other) = volume.file("/hole");
    let [target] = volume.blocks("/symlink-remote", Fork::Data)[..] else { panic!("a block") };
    let forged = volume.blocks("/hole", Fork::Data)[0];
    let bytes = volume.damaged(|dev| {
        for inode in [inode, other] {
            damage(dev, inode, |bytes| bytes[FORK..FORK + 16].fill(0xa5));
        }
        let forged = Block { crc: Some(12), ..forged };
        damage(dev, forged, |bytes| {
            bytes.copy_from_slice(&volume.image.bytes[target.offset..target.offset + target.len]);
            bytes[56..60].copy_from_slice(b"evil");
            bytes[40..48].copy_from_slice(&(forged.offset as u64 / 512).to_be_bytes());
        });
    });
    let (plan, after) = repaired("two blocks", &bytes);
    let lost: Vec<_> = plan.losses().collect();
    assert!(lost.iter().any(|lost| lost.contains(&format!("inode {ino}"))), "{lost:?}");
    assert!(!after.entries.contains_key(&b"/symlink-remote"[..]));
}

/// Of two values that have parts of one length no part tells whose it is; that of another length
/// does.
#[test]
fn a_value_whose_parts_may_be_those_of_another_is_a_loss() {
    let volume = Volume::changed(&kept::unpack("v5-plain"), |fs| {
        let root = fs.root().unwrap().ino();
        let ino = fs.make(root, b"values", &NewNode::file(0o644)).unwrap();
        for (name, len) in [("user.one", 3900), ("user.two", 3900), ("user.three", 3800)] {
            let value = vec![name.as_bytes()[5]; len];
            fs.set_xattr(ino, name.as_bytes(), &value, SetMode::Any).unwrap();
        }
    });
    let (ino, inode) = volume.file("/values");
    let bytes = volume.damaged(|dev| damage(dev, inode, |bytes| lose_attr_map(bytes, "garbage")));
    let (plan, after) = repaired("values", &bytes);
    let lost: Vec<_> = plan.losses().collect();
    let loss = |name: &str| format!("attribute {name:?} of inode {ino} (/values)");
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert!(["one", "two"].iter().all(|name| lost.contains(&&loss(name)[..])), "{lost:?}");
    let left = &after.entries[&b"/values"[..]].xattrs;
    assert_eq!(left.keys().collect::<Vec<_>>(), [b"user.three"]);
    assert!(left[&b"user.three"[..]] == [b't'; 3800]);
}

/// With blocks of 1 KiB a target has two parts, and attributes of a directory are among blocks of
/// both its forks.
#[test]
fn forks_of_small_blocks_come_back_by_the_owners_of_their_blocks() {
    let scratch = Scratch::new("repair-unclaimed-small");
    let file = File::sparse(&scratch, "small.img", 300 << 20);
    let options = ["-b", "size=1024", "-m", "rmapbt=0", "-m", "reflink=0", "-d", "agcount=2"];
    ours::mkfs(&file, &options).unwrap();
    let bytes = std::fs::read(file.path()).unwrap();
    let volume = Volume::changed(&bytes, |fs| {
        let root = fs.root().unwrap().ino();
        for len in [960, 1000, 1023] {
            let target = vec![b'a'; len];
            fs.make(root, format!("link-{len}").as_bytes(), &NewNode::symlink(&target)).unwrap();
        }
        let dir = fs.make(root, b"dir", &NewNode::directory(0o755)).unwrap();
        for n in 0..200 {
            fs.make(dir, format!("a-name-{n}").as_bytes(), &NewNode::file(0o644)).unwrap();
            fs.set_xattr(dir, format!("user.{n}").as_bytes(), &[7; 40], SetMode::Any).unwrap();
        }
        fs.set_xattr(dir, b"user.large", &vec![9; 20_000], SetMode::Any).unwrap();
    });
    for len in [960, 1000, 1023] {
        let path = format!("/link-{len}");
        let (_, inode) = volume.file(&path);
        let fork = |bytes: &mut [u8]| bytes[FORK..FORK + 32].fill(0xa5);
        let bytes = volume.damaged(|dev| damage(dev, inode, fork));
        volume.comes_back(&path, &bytes, UNCLAIMED);
    }
    let (_, inode) = volume.file("/dir");
    for way in WAYS {
        let bytes = volume.damaged(|dev| damage(dev, inode, |bytes| lose_attr_map(bytes, way)));
        volume.comes_back(way, &bytes, UNCLAIMED);
    }
}
