//! What a repair would change beside its plan: it is made between the changes and the second check.

use std::collections::BTreeMap;

use xfskit_check::fork_map;
use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::Dinode;
use xfskit_test_support::manifest::Entry;
use xfskit_test_support::{kept, ours, verify};
use xfskit_vfs::{Clock, Fs, SetMode};

use super::*;
use crate::plan::Moved;
use crate::unaccounted::Change;

const S_IFMT: u32 = 0o170_000;
const S_IFREG: u32 = 0o100_000;

/// A volume whose second group has lost its headers.
struct Damaged {
    target: Arc<dyn BlockDevice>,
    bytes: Vec<u8>,
    /// Its files, by path.
    files: BTreeMap<Vec<u8>, Entry>,
}

impl Damaged {
    fn new() -> Self {
        let mut bytes = kept::unpack("v5");
        let whole: Arc<dyn BlockDevice> = Arc::new(kept::memory(&bytes));
        let volume = Volume::open(Arc::clone(&whole), &OpenOptions::default()).unwrap();
        let (tree, failed) = ours::manifest(&volume);
        assert!(failed.is_empty());
        let geo = volume.geo();
        let start = geo.agb_to_daddr(AgNumber(1), xfskit_units::AgBlock(0)).byte_offset();
        let start = usize::try_from(start.0).unwrap();
        bytes[start..start + 4 * geo.sectsize()].fill(0);
        let files = tree.entries;
        Self { target: Arc::new(kept::memory(&bytes)), bytes, files }
    }

    /// Returns the path and the inode of a regular file that `fits` accepts.
    fn file(&self, fits: impl Fn(&Entry) -> bool) -> (&[u8], &Entry) {
        let is_it = |entry: &Entry| entry.mode & S_IFMT == S_IFREG && fits(entry);
        let mut files = self.files.iter();
        let (path, entry) = files.find(|(_, entry)| is_it(entry)).expect("such a file");
        (path, entry)
    }

    /// Repairs the volume; `change` changes the overlay before the second check.
    fn repaired(&self, change: impl FnOnce(&Arc<OverlayDevice>, &mut Plan)) -> Prepared {
        let repair = Repair::new();
        let primary = primary::read(&*self.target).unwrap();
        let mut made = repair.made(&self.target, primary, None, Plan::default()).unwrap();
        change(&made.overlay, &mut made.plan);
        repair.verified(made).unwrap()
    }

    /// Repairs the volume, changes files of the repaired volume, and expects that it is refused.
    /// Returns what is said.
    fn refused(&self, change: impl FnOnce(&Fs)) -> Unaccounted {
        let prepared = self.repaired(|overlay, _| with_volume(overlay, change));
        self.refuse(&prepared)
    }

    fn refuse(&self, prepared: &Prepared) -> Unaccounted {
        assert!(prepared.after().clean(), "{:#?}", prepared.left());
        assert!(!prepared.is_clean());
        let error = prepared.commit(&*self.target, None).unwrap_err();
        assert!(matches!(error, Error::Unaccounted(_)), "{error}");
        let mut now = vec![0; self.bytes.len()];
        self.target.read_at(ByteOffset(0), &mut now).unwrap();
        assert!(now == self.bytes, "nothing was written");
        prepared.unaccounted().clone()
    }
}

/// Changes files of the volume on an overlay.
fn with_volume(overlay: &Arc<OverlayDevice>, change: impl FnOnce(&Fs)) {
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let volume = Volume::open(Arc::clone(overlay) as _, &options).unwrap();
    let fs = Fs::new(volume, Clock::system());
    change(&fs);
    fs.close().unwrap();
}

/// Expects that one file is named, by its path.
#[track_caller]
fn is_file(found: &Unaccounted, path: &[u8], entry: &Entry, change: Change) {
    assert_eq!(found.files, 1, "{found}");
    let [file] = &found.first[..] else { panic!("{found}") };
    let path = String::from_utf8_lossy(path).into_owned();
    assert_eq!((file.inode, &file.path, file.change), (entry.ino, &Some(path), change));
}

#[test]
fn a_repair_that_changes_no_file_is_written() {
    let damaged = Damaged::new();
    let prepared = damaged.repaired(|_, _| ());
    assert!(prepared.is_clean(), "{}", prepared.unaccounted());
    prepared.commit(&*damaged.target, None).unwrap();
    verify::device(&*damaged.target).unwrap();
}

#[test]
fn a_lost_file_that_the_plan_does_not_name_is_refused_by_its_path() {
    let damaged = Damaged::new();
    let (path, entry) = damaged.file(|entry| entry.nlink == 1 && entry.size > 0);
    let found = damaged.refused(|fs| {
        let (dir, name) = fs.resolve_parent(path).unwrap();
        fs.unlink(dir, &name).unwrap();
    });
    is_file(&found, path, entry, Change::Gone);
    assert_eq!(found.names, 1);
    // A new file does not make up for it.
    let found = damaged.refused(|fs| {
        let (dir, name) = fs.resolve_parent(path).unwrap();
        fs.unlink(dir, &name).unwrap();
        fs.make(dir, b"another", &xfskit_vfs::NewNode::file(0o644)).unwrap();
        fs.make(dir, b"a third", &xfskit_vfs::NewNode::directory(0o755)).unwrap();
    });
    assert_eq!((found.files, found.names), (1, 0), "{found}");
}

#[test]
fn other_extents_and_other_attributes_are_refused() {
    let damaged = Damaged::new();
    let (path, entry) = damaged.file(|entry| entry.size > 8192 && !entry.data.is_empty());
    let found = damaged.refused(|fs| fs.truncate(Ino(entry.ino), 4096).unwrap());
    let names: Vec<_> = damaged.files.iter().filter(|(_, e)| e.ino == entry.ino).collect();
    if names.len() == 1 {
        is_file(&found, path, entry, Change::Content);
    }
    assert_eq!((found.files, found.first[0].change), (1, Change::Content));
    let set = |fs: &Fs| {
        fs.set_xattr(Ino(entry.ino), b"user.new", b"value", SetMode::Create).unwrap();
    };
    let found = damaged.refused(set);
    assert_eq!((found.first[0].inode, found.first[0].change), (entry.ino, Change::Attributes));
}

#[test]
fn a_name_of_several_that_is_gone_is_refused_and_a_new_place_is_not() {
    let damaged = Damaged::new();
    let (path, _) = damaged.file(|entry| entry.nlink > 1);
    let found = damaged.refused(|fs| {
        let (dir, name) = fs.resolve_parent(path).unwrap();
        fs.unlink(dir, &name).unwrap();
    });
    assert_eq!((found.files, found.names), (0, 1), "{found}");
    let prepared = damaged.repaired(|overlay, _| {
        with_volume(overlay, |fs| {
            let root = fs.root().unwrap().ino();
            let (dir, name) = fs.resolve_parent(path).unwrap();
            fs.rename(dir, &name, root, b"elsewhere", xfskit_vfs::RenameMode::Replace).unwrap();
        });
    });
    assert!(prepared.is_clean(), "{}", prepared.unaccounted());
}

#[test]
fn a_loss_that_a_step_names_is_no_reason_to_refuse() {
    let damaged = Damaged::new();
    let (path, entry) = damaged.file(|entry| entry.nlink == 1 && entry.size > 0);
    let prepared = damaged.repaired(|overlay, plan| {
        with_volume(overlay, |fs| {
            let (dir, name) = fs.resolve_parent(path).unwrap();
            fs.unlink(dir, &name).unwrap();
        });
        let step = Step::lossless(format!("inode.{}", entry.ino), StepKind::Inode, "", "");
        plan.steps.push(Step { lost: vec!["it".into()], ..step });
        (plan.cleared, plan.dropped) = (1, 1);
    });
    assert!(prepared.is_clean(), "{}", prepared.unaccounted());
    assert!(prepared.loses_too_much());
    let error = prepared.commit(&*damaged.target, None).unwrap_err();
    assert!(matches!(error, Error::Losses { lost: 1, accepted: 0 }), "{error}");
}

#[test]
fn a_copied_block_with_other_bytes_is_refused() {
    let damaged = Damaged::new();
    let (_, entry) = damaged.file(|entry| entry.size > 8192 && !entry.data.is_empty());
    let ino = Ino(entry.ino);
    let first_extent = |overlay: &OverlayDevice| -> (Geometry, Extent) {
        let geo = check::superblock(overlay).unwrap().geometry();
        let mut bytes = vec![0; geo.inodesize()];
        overlay.read_at(geo.ino_to_byte(ino).unwrap(), &mut bytes).unwrap();
        let inode = Dinode::parse(&bytes, &geo).unwrap();
        let map = fork_map(overlay, &geo, &inode, ino, Fork::Data).extents;
        (geo.clone(), *map.iter().find(|extent| !extent.unwritten).unwrap())
    };
    // As if the block had been elsewhere.
    let moved = |overlay: &OverlayDevice, plan: &mut Plan| {
        let (geo, from) = first_extent(overlay);
        plan.moved.push(Moved { ino, from });
        (geo, from)
    };
    let prepared = damaged.repaired(|overlay, plan| {
        moved(overlay, plan);
    });
    assert!(prepared.is_clean(), "{}", prepared.unaccounted());
    let prepared = damaged.repaired(|overlay, plan| {
        let (geo, from) = moved(overlay, plan);
        let at = geo.fsb_to_byte(from.startblock).unwrap();
        let last = at.saturating_plus(ByteLen((from.blockcount.0 << geo.blocklog) - 1));
        let mut byte = [0];
        overlay.read_at(last, &mut byte).unwrap();
        overlay.write_at(last, &[!byte[0]]).unwrap();
    });
    let found = damaged.refuse(&prepared);
    assert_eq!((found.files, found.first[0].inode), (1, entry.ino));
    assert_eq!(found.first[0].change, Change::Bytes);
}
