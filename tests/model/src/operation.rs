//! Operations resolved against a tree: nodes, names and bytes. The model, xfskit and Linux each
//! apply them.

use std::ops::Range;

use xfskit_vfs::RenameMode;

use crate::drawn::DrawnOp;
use crate::mem::{Id, Kind, Mem};

/// A time: seconds since 1970, and nanoseconds.
pub type Time = (i64, u32);

/// A mode of `fallocate` for a range of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of fallocate(2)
pub enum Fallocate {
    Punch,
    Zero { keep_size: bool },
    Preallocate { keep_size: bool },
    Collapse,
    Insert,
    Unshare,
}

/// An operation on two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoFileOp {
    /// Maps blocks of the other file here too (`FICLONERANGE`).
    Share,
    /// Copies bytes (`copy_file_range`).
    Copy,
    /// Exchanges ranges of both files (`XFS_IOC_EXCHANGE_RANGE`).
    ExchangeRange,
    /// Exchanges the whole content of both files.
    Exchange,
}

/// A node to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// The file type, with its content or target.
    pub kind: Kind,
    /// Permission bits.
    pub perm: u16,
    /// Owner and group.
    pub owner: (u32, u32),
}

/// One operation on the tree.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names are the explanation
pub enum Operation {
    Make {
        dir: Id,
        name: Vec<u8>,
        new: New,
    },
    /// Creates an unnamed file (`O_TMPFILE`), writes its content, and links it if a name is given.
    Unnamed {
        dir: Id,
        name: Option<Vec<u8>>,
        new: New,
    },
    Link {
        node: Id,
        dir: Id,
        name: Vec<u8>,
    },
    Unlink {
        dir: Id,
        name: Vec<u8>,
    },
    Rmdir {
        dir: Id,
        name: Vec<u8>,
    },
    Rename {
        from: Id,
        old: Vec<u8>,
        to: Id,
        new: Vec<u8>,
        mode: RenameMode,
    },
    SetPerm {
        node: Id,
        perm: u16,
    },
    SetOwner {
        node: Id,
        owner: (u32, u32),
    },
    SetTimes {
        node: Id,
        atime: Time,
        mtime: Time,
    },
    SetXattr {
        node: Id,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    RemoveXattr {
        node: Id,
        name: Vec<u8>,
    },
    Write {
        node: Id,
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        node: Id,
        size: u64,
    },
    Fallocate {
        node: Id,
        how: Fallocate,
        range: Range<u64>,
    },
    TwoFile {
        node: Id,
        offset: u64,
        other: Id,
        source: Range<u64>,
        how: TwoFileOp,
    },
    Label(Vec<u8>),
    Fsync {
        node: Id,
    },
    Sync,
}

impl Operation {
    /// Resolves `op` against the tree of `mem`. Returns `None` if the tree has no node it could act
    /// on.
    pub fn of(op: &DrawnOp, mem: &Mem) -> Option<Self> {
        let dirs = mem.dirs();
        let dir = |n: u32| dirs[n as usize % dirs.len()];
        let all = mem.reachable();
        let node = |n: u32| all[n as usize % all.len()];
        let files = || all.iter().copied().filter(|&id| mem.is_file(id)).collect::<Vec<_>>();
        let file = |n: u32| files().get(n as usize % files().len().max(1)).copied();
        let make = |d, name, kind, perm, owner| Self::Make {
            dir: dir(d),
            name: name_of(name),
            new: New { kind, perm, owner },
        };
        let align = |at: u32, aligned: bool| {
            let block = if aligned { mem.facts.block } else { 1 };
            u64::from(at) / block * block
        };
        let range = |offset: u32, len: u32, aligned: bool| {
            let start = align(offset, aligned);
            let block = if aligned { mem.facts.block } else { 1 };
            start..start + align(len, aligned).max(block)
        };
        Some(match *op {
            DrawnOp::MakeFile { dir, name } => make(dir, name, Kind::file(), 0o640, (name, 7)),
            DrawnOp::MakeDir { dir, name } => make(dir, name, Kind::dir(), 0o755, (3, name)),
            DrawnOp::Symlink { dir, name, len } => {
                make(dir, name, Kind::Symlink(target_of(len)), 0o777, (0, 0))
            }
            DrawnOp::Special { dir, name, minor } => {
                let kind = if minor % 3 == 0 { Kind::Fifo } else { Kind::Device(5, minor) };
                make(dir, name, kind, 0o600, (1, 2))
            }
            DrawnOp::Unnamed { dir: d, name, len, named } => {
                let mut content = crate::content::Content::default();
                content.write(0, &bytes_of(len, 9), &mem.facts);
                let new = New { kind: Kind::File(content), perm: 0o604, owner: (5, 5) };
                Self::Unnamed { dir: dir(d), name: named.then(|| name_of(name)), new }
            }
            DrawnOp::Link { node: n, dir: d, name } => {
                Self::Link { node: node(n), dir: dir(d), name: name_of(name) }
            }
            DrawnOp::Unlink { dir: d, entry } => {
                Self::Unlink { dir: dir(d), name: entry_of(mem, dir(d), entry) }
            }
            DrawnOp::Rmdir { dir: d, entry } => {
                Self::Rmdir { dir: dir(d), name: entry_of(mem, dir(d), entry) }
            }
            DrawnOp::Rename { from, entry, to, name, mode } => {
                let old = entry_of(mem, dir(from), entry);
                // An exchange mostly names an entry that exists.
                let there = mode == RenameMode::Exchange && name % 4 > 0;
                let new = if there { entry_of(mem, dir(to), name) } else { name_of(name) };
                Self::Rename { from: dir(from), old, to: dir(to), new, mode }
            }
            DrawnOp::SetPerm { node: n, perm } => Self::SetPerm { node: node(n), perm },
            DrawnOp::SetOwner { node: n, uid } => {
                Self::SetOwner { node: node(n), owner: (uid, uid / 2) }
            }
            DrawnOp::SetTimes { node: n, sec, nsec } => Self::SetTimes {
                node: node(n),
                atime: (i64::from(sec), nsec),
                mtime: (-i64::from(sec / 2), nsec / 2),
            },
            DrawnOp::SetXattr { node: n, name, len } => {
                let value = vec![name.to_be_bytes()[3]; len as usize];
                Self::SetXattr { node: node(n), name: xattr_of(name), value }
            }
            DrawnOp::RemoveXattr { node: n, entry } => {
                let xattrs = &mem.nodes[node(n)].xattrs;
                let name = xattrs.keys().nth(entry as usize % xattrs.len().max(1)).cloned();
                let name = name.unwrap_or_else(|| b"trusted.nothing".to_vec());
                Self::RemoveXattr { node: node(n), name }
            }
            DrawnOp::Write { node, offset, len, fill } => {
                Self::Write { node: file(node)?, offset: offset.into(), bytes: bytes_of(len, fill) }
            }
            DrawnOp::Truncate { node, size } => {
                Self::Truncate { node: file(node)?, size: size.into() }
            }
            DrawnOp::Fallocate { node, how, offset, len, aligned } => {
                Self::Fallocate { node: file(node)?, how, range: range(offset, len, aligned) }
            }
            DrawnOp::TwoFile { node, other, how, offset, source, len, aligned } => {
                let other = file(other)?;
                let mut source = range(source, len, aligned);
                // Sometimes the range reaches to the end of the other file.
                if len % 4 == 0 {
                    source.end = mem.size(other).max(source.start);
                }
                if source.is_empty() {
                    return None;
                }
                let offset = align(offset, aligned);
                Self::TwoFile { node: file(node)?, offset, other, source, how }
            }
            DrawnOp::Label { number } => {
                Self::Label(format!("label {}", number % 1000).into_bytes())
            }
            DrawnOp::Fsync { node: n } => Self::Fsync { node: node(n) },
            DrawnOp::Sync | DrawnOp::Reopen => Self::Sync,
        })
    }
}

/// Returns a name. Names are short or long, and some are prefixes of others.
fn name_of(n: u32) -> Vec<u8> {
    let mut name = format!("n{n}").into_bytes();
    name.resize(name.len() + (n as usize * 37) % 90, b'x');
    name
}

fn entry_of(mem: &Mem, dir: Id, n: u32) -> Vec<u8> {
    let entries = mem.entries(dir);
    let at = n as usize % entries.len().max(1);
    entries.keys().nth(at).cloned().unwrap_or_else(|| b"nothing".to_vec())
}

fn target_of(len: u32) -> Vec<u8> {
    vec![b'a' + (len % 26).to_be_bytes()[3]; len as usize]
}

/// Returns an attribute name in one of two namespaces, from short to nearly the longest.
fn xattr_of(n: u32) -> Vec<u8> {
    let namespace = if n.is_multiple_of(3) { "trusted" } else { "user" };
    format!("{namespace}.x{n}{}", "y".repeat(n as usize * 5)).into_bytes()
}

fn bytes_of(len: u32, fill: u8) -> Vec<u8> {
    (0..len).map(|i| fill.wrapping_add(i.to_be_bytes()[3])).collect()
}
