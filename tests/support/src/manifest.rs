//! One comparable record for each file of a tree, and the differences of two trees.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};

/// A time: seconds since 1970, and nanoseconds.
pub type Time = (i64, u32);

/// All that a program can read about one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Inode number.
    pub ino: u64,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Link count.
    pub nlink: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Device number, major and minor; zero for other files.
    pub rdev: (u32, u32),
    /// Access time.
    pub atime: Time,
    /// Modification time.
    pub mtime: Time,
    /// Change time.
    pub ctime: Time,
    /// Creation time.
    pub btime: Time,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Extended attributes by their full names, `user.…`, `trusted.…`, `security.…`, `system.…`.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Ranges of a regular file that hold data, as offset and length in bytes; the others are
    /// holes.
    pub data: Vec<(u64, u64)>,
    /// Digest of the bytes in `data`.
    pub digest: u64,
    /// The record of `FS_IOC_FSGETXATTR`, for regular files and directories.
    pub extra: Option<Extra>,
}

/// Inode flags and numbers that only an ioctl shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// `FS_XFLAG_*`.
    pub xflags: u32,
    /// Extent size hint, in bytes.
    pub extsize: u32,
    /// Extents of a regular file; 0 for directories.
    pub nextents: u32,
    /// Project id.
    pub projid: u32,
    /// Extent size hint for copy on write, in bytes.
    pub cowextsize: u32,
}

/// A whole tree: path from its root (`/`, `/a`, `/a/b`) to entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Entries, sorted by the bytes of the path.
    pub entries: BTreeMap<Vec<u8>, Entry>,
}

/// Digest of file contents, computed segment by segment.
#[derive(Debug, Default)]
pub struct Digest(DefaultHasher);

impl Digest {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Returns the digest.
    pub fn finish(self) -> u64 {
        self.0.finish()
    }
}

impl Manifest {
    /// Returns how `self` (the tree that Linux shows) and `other` (the tree that xfskit shows)
    /// differ: one line for each difference, at most `limit` lines.
    pub fn differences(&self, other: &Self, limit: usize) -> Vec<String> {
        let mut found = Vec::new();
        for (path, linux) in &self.entries {
            match other.entries.get(path) {
                None => found.push(format!("{}: shown by Linux only", show(path))),
                Some(ours) => linux.differences(ours, &show(path), &mut found),
            }
        }
        for path in other.entries.keys().filter(|path| !self.entries.contains_key(*path)) {
            found.push(format!("{}: shown by xfskit only", show(path)));
        }
        let more = found.len().saturating_sub(limit);
        found.truncate(limit);
        if more > 0 {
            found.push(format!("… and {more} more differences"));
        }
        found
    }

    /// Clears the allocated space of all entries.
    pub fn without_blocks(mut self) -> Self {
        self.entries.values_mut().for_each(|entry| entry.blocks = 0);
        self
    }

    /// Panics with the differences if the trees differ.
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
                        shorten(&self.$field), shorten(&other.$field)
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
                    shorten(value),
                    shorten(ours)
                )),
                Some(_) => {}
            }
        }
        for name in other.xattrs.keys().filter(|name| !self.xattrs.contains_key(*name)) {
            found.push(format!("{path}: xattr {}: only xfskit", show(name)));
        }
    }
}

/// Formats a value, cut to a short line.
fn shorten(value: &impl std::fmt::Debug) -> String {
    let mut text = String::new();
    write!(text, "{value:?}").expect("strings grow");
    if text.chars().count() > 200 {
        let length = text.len();
        text = text.chars().take(200).collect();
        write!(text, "… ({length} characters)").expect("strings grow");
    }
    text
}

/// Formats a path or name, with unprintable bytes escaped.
pub fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
