//! One comparable record per file of a tree, and the difference of two trees.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};

/// Seconds since 1970 and nanoseconds.
pub type Time = (i64, u32);

/// All that a program can learn about one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Inode number.
    pub ino: u64,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links.
    pub nlink: u32,
    /// Bytes.
    pub size: u64,
    /// Space in use, in units of 512 bytes.
    pub blocks: u64,
    /// Device number, major and minor; zero unless a device.
    pub rdev: (u32, u32),
    /// Last access.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Birth.
    pub btime: Time,
    /// Where a symbolic link points.
    pub target: Option<Vec<u8>>,
    /// Extended attributes by their full names, `user.…`, `trusted.…`, `security.…`, `system.…`.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Where a regular file holds data, as offset and length in bytes; the rest are holes.
    pub data: Vec<(u64, u64)>,
    /// Digest of the bytes in `data`.
    pub digest: u64,
    /// What `FS_IOC_FSGETXATTR` tells of regular files and directories.
    pub extra: Option<Extra>,
}

/// Inode flags and numbers that only XFS's own call shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// `FS_XFLAG_*`.
    pub xflags: u32,
    /// Extent size hint, bytes.
    pub extsize: u32,
    /// Extents of a regular file; 0 for directories.
    pub nextents: u32,
    /// Project.
    pub projid: u32,
    /// Extent size hint for copy on write, bytes.
    pub cowextsize: u32,
}

/// A whole tree: path from its root (`/`, `/a`, `/a/b`) to entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Sorted by the bytes of the path.
    pub entries: BTreeMap<Vec<u8>, Entry>,
}

/// Feeds file contents to a digest, segment by segment.
#[derive(Debug, Default)]
pub struct Digest(DefaultHasher);

impl Digest {
    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The digest of everything fed.
    pub fn finish(self) -> u64 {
        self.0.finish()
    }
}

impl Manifest {
    /// How `self` (what Linux shows) and `other` (what xfskit shows) differ, one line per
    /// difference, at most `limit` lines; empty when they do not.
    pub fn differences(&self, other: &Self, limit: usize) -> Vec<String> {
        let mut found = Vec::new();
        for (path, linux) in &self.entries {
            match other.entries.get(path) {
                None => found.push(format!("{}: only Linux shows it", show(path))),
                Some(ours) => linux.differences(ours, &show(path), &mut found),
            }
        }
        for path in other.entries.keys().filter(|path| !self.entries.contains_key(*path)) {
            found.push(format!("{}: only xfskit shows it", show(path)));
        }
        let more = found.len().saturating_sub(limit);
        found.truncate(limit);
        if more > 0 {
            found.push(format!("… and {more} more differences"));
        }
        found
    }

    /// The same but for the space in use.
    pub fn without_blocks(mut self) -> Self {
        self.entries.values_mut().for_each(|entry| entry.blocks = 0);
        self
    }

    /// Fails, with the differences, unless both are the same.
    pub fn assert_same(&self, other: &Self, what: &str) {
        let found = self.differences(other, 10);
        assert!(found.is_empty(), "{what}: {}", found.join("\n"));
    }
}

impl Entry {
    /// Adds a line to `found` for each field in which `self` (Linux) and `other` (xfskit) differ.
    pub fn differences(&self, other: &Self, path: &str, found: &mut Vec<String>) {
        macro_rules! compare {
            ($($field:ident)*) => {$(
                if self.$field != other.$field {
                    found.push(format!(
                        "{path}: {}: Linux {}, xfskit {}", stringify!($field),
                        brief(&self.$field), brief(&other.$field)
                    ));
                }
            )*};
        }
        compare!(ino mode uid gid nlink size blocks rdev atime mtime ctime btime data digest extra);
        if self.target != other.target {
            let show = |target: &Option<Vec<u8>>| target.as_deref().map_or("none".into(), show);
            let (linux, ours) = (show(&self.target), show(&other.target));
            found.push(format!("{path}: target: Linux {linux}, xfskit {ours}"));
        }
        for (name, value) in &self.xattrs {
            match other.xattrs.get(name) {
                None => found.push(format!("{path}: xattr {}: only Linux", show(name))),
                Some(ours) if ours != value => found.push(format!(
                    "{path}: xattr {}: Linux {}, xfskit {}",
                    show(name),
                    brief(value),
                    brief(ours)
                )),
                Some(_) => {}
            }
        }
        for name in other.xattrs.keys().filter(|name| !self.xattrs.contains_key(*name)) {
            found.push(format!("{path}: xattr {}: only xfskit", show(name)));
        }
    }
}

/// A value, but never a page of it.
fn brief(value: &impl std::fmt::Debug) -> String {
    let mut text = String::new();
    write!(text, "{value:?}").expect("strings grow");
    if text.chars().count() > 200 {
        let length = text.len();
        text = text.chars().take(200).collect();
        write!(text, "… ({length} characters)").expect("strings grow");
    }
    text
}

/// A path or name for people: other bytes escaped.
pub fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
