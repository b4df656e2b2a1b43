//! The trees that equal calls leave behind.
//!
//! What the calls do not decide is cleared: inode numbers become numbers of the first path that has
//! them, so that links can be compared. Of mtimes those are left that calls set, by their years.
//! Allocated blocks and extents are the allocator's choice.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags};
use xfskit_test_support::image::{Image, Mount, Scratch};
use xfskit_test_support::kernel;
use xfskit_test_support::manifest::{Digest, Entry, Extra, Manifest};

use crate::run::{Exempt, Id, Run};

/// Seconds of the years in which tests run: 2024 to 2100. An mtime beyond was set by a call.
pub const TODAY: Range<i64> = 1_704_067_200..4_102_444_800;
/// `FS_XFLAG_HASATTR`: Linux makes a fork for attributes before there are any.
const HAS_ATTRIBUTES: u32 = 1 << 31;
/// Inodes that no directory names: those of a realtime device.
const REALTIME: u64 = 2;
/// Time in which Linux frees removed files.
const SOON: Duration = Duration::from_secs(20);
/// Bytes of a file at most that is read as a whole.
const WHOLE_MAX: u64 = 8 << 20;

/// The tree and the usage after a run on one side.
#[derive(Debug)]
pub struct Left {
    /// The tree.
    pub tree: Manifest,
    /// Inodes in use, and blocks that are free or have content of the tree's files.
    pub usage: Usage,
}

/// How full a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Inodes in use.
    pub inodes: u64,
    /// Blocks that are free.
    pub free: u64,
    /// Blocks of the inodes of the tree.
    pub blocks: u64,
}

/// Returns the tree that a mount shows where it was made: content as read(2) returns it.
pub fn live(root: &Path, exempt: &Exempt) -> Left {
    sync(root);
    let tree = kernel::manifest(root);
    let usage = settled_usage(root, &tree);
    let comparable = |path: &[u8], entry: Entry| {
        let digest = digest(root, path, &entry);
        let mtime =
            if exempt.mtimes.contains(&Id::of_entry(&entry)) { (0, 0) } else { entry.mtime };
        Entry { digest, data: Vec::new(), mtime, ..entry }
    };
    Left { tree: compared(tree, comparable), usage }
}

/// Returns the tree on a volume, as Linux shows it after a mount.
///
/// # Panics
/// Linux cannot mount it.
pub fn on_disk(image: &Image<'_>, scratch: &Scratch, exempt: &Exempt) -> Left {
    let mount = Mount::read_only(image, scratch).expect("a mount by Linux");
    let tree = kernel::manifest(mount.path());
    let usage = usage(mount.path(), &tree);
    let comparable = |path: &[u8], entry: Entry| {
        if !exempt.holes.contains(&Id::of_entry(&entry)) {
            return entry;
        }
        Entry { data: Vec::new(), digest: digest(mount.path(), path, &entry), ..entry }
    };
    let left = Left { tree: compared(tree, comparable), usage };
    mount.unmount().expect("an unmount");
    left
}

/// Removes owners and ACLs, which a volume has otherwise than its mount if the mount maps them.
pub fn without_owners(mut tree: Manifest) -> Manifest {
    for entry in tree.entries.values_mut() {
        (entry.uid, entry.gid) = (0, 0);
        entry.xattrs.retain(|name, _| !name.starts_with(b"system.posix_acl"));
    }
    tree
}

fn sync(root: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(root, flags, Mode::empty()).expect("a directory");
    rustix::fs::syncfs(&dir).expect("synced");
}

/// Returns the digest of a whole file, and 0 for what is no file or too large.
fn digest(root: &Path, path: &[u8], entry: &Entry) -> u64 {
    if FileType::from_raw_mode(entry.mode) != FileType::RegularFile || entry.size > WHOLE_MAX {
        return 0;
    }
    let file = root.join(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)));
    let mut digest = Digest::default();
    digest.update(&fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
    digest.finish()
}

/// Clears what cannot be compared, after `comparable` has taken from each entry what it needs.
fn compared(tree: Manifest, comparable: impl Fn(&[u8], Entry) -> Entry) -> Manifest {
    let mut first = BTreeMap::new();
    let entries = tree.entries.into_iter().map(|(path, entry)| {
        let number = first.len() as u64;
        let ino = *first.entry(entry.ino).or_insert(number);
        let mut entry = comparable(&path, entry);
        if TODAY.contains(&entry.mtime.0) {
            entry.mtime = (0, 0);
        }
        (entry.atime, entry.ctime, entry.btime) = ((0, 0), (0, 0), (0, 0));
        if FileType::from_raw_mode(entry.mode) == FileType::Directory {
            // Of small directories it depends on the fork that Linux makes for attributes.
            entry.size = 0;
        }
        entry.extra = entry.extra.map(|extra| {
            let xflags = extra.xflags & !HAS_ATTRIBUTES;
            Extra { nextents: 0, xflags, ..extra }
        });
        (path, Entry { ino, blocks: 0, ..entry })
    });
    Manifest { entries: entries.collect() }
}

/// Returns how full a mounted volume is, when the inodes of removed files are free: Linux frees
/// them some time later.
fn settled_usage(root: &Path, tree: &Manifest) -> Usage {
    let start = Instant::now();
    loop {
        let usage = usage(root, tree);
        let inodes: BTreeSet<u64> = tree.entries.values().map(|entry| entry.ino).collect();
        if usage.inodes == inodes.len() as u64 + REALTIME || start.elapsed() > SOON {
            return usage;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns how full a volume is that has this tree.
fn usage(root: &Path, tree: &Manifest) -> Usage {
    let of = rustix::fs::statvfs(root).expect("statvfs");
    let inodes: BTreeMap<u64, u64> =
        tree.entries.values().map(|entry| (entry.ino, entry.blocks)).collect();
    let blocks = inodes.values().sum::<u64>() * 512 / of.f_frsize;
    Usage { inodes: of.f_files - of.f_ffree, free: of.f_bfree, blocks }
}

impl Left {
    /// Compares what `run` left on both sides.
    ///
    /// # Panics
    /// The two differ.
    pub fn assert_same(&self, ours: &Self, run: &Run, what: &str) {
        /// Blocks of inode chunks and btrees that may differ: they follow the allocator's choices.
        const SLACK: u64 = 64;
        /// Differences that are shown.
        const SHOWN: usize = 10;
        let found = self.tree.differences(&ours.tree, SHOWN);
        if let Some(first) = found.first() {
            let path = first.split(": ").next().unwrap_or_default().trim_start_matches('/');
            panic!("{}\n{what}:\n{}", run.about(path), found.join("\n"));
        }
        let seed = &run.lines[0];
        assert_eq!(self.usage.inodes, ours.usage.inodes, "{seed}: {what}: inodes in use");
        let all = |usage: &Usage| usage.free + usage.blocks;
        let differ = all(&self.usage).abs_diff(all(&ours.usage));
        assert!(differ <= SLACK, "{seed}: {what}: {:?}, xfskit {:?}", self.usage, ours.usage);
    }
}
