//! What an operation comes to on a given tree: nodes, names, bytes. Everybody can do it: the model, xfskit, Linux.

use std::ops::Range;

use xfskit_vfs::RenameMode;

use crate::mem::{Id, Kind, Mem};
use crate::op::Op;

/// Seconds since 1970 and nanoseconds.
pub type Time = (i64, u32);

/// How a range of one file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of fallocate(2)
pub enum Reshape {
    Punch,
    Zero { keep_size: bool },
    Preallocate { keep_size: bool },
    Collapse,
    Insert,
    Unshare,
}

/// What happens between two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Blocks of the other file are mapped here, too (`FICLONERANGE`).
    Share,
    /// `copy_file_range`.
    Copy,
    /// Ranges change places (`XFS_IOC_EXCHANGE_RANGE`).
    ExchangeRange,
    /// All of the content does.
    Exchange,
}

/// What is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// What it is.
    pub kind: Kind,
    /// Permissions.
    pub perm: u16,
    /// Owner and group.
    pub owner: (u32, u32),
}

/// One thing to do.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names are the explanation
pub enum Deed {
    Make {
        dir: Id,
        name: Vec<u8>,
        new: New,
    },
    /// A file without a name, that gets its content and then, maybe, a name.
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
    Reshape {
        node: Id,
        how: Reshape,
        range: Range<u64>,
    },
    Between {
        node: Id,
        offset: u64,
        other: Id,
        source: Range<u64>,
        how: Between,
    },
    Label(Vec<u8>),
    Fsync {
        node: Id,
    },
    Sync,
}

impl Deed {
    /// What `op` comes to on the tree of `mem`; `None` where there is nothing to do it with.
    pub fn of(op: &Op, mem: &Mem) -> Option<Self> {
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
        let place = |at: u32, aligned: bool| {
            let block = if aligned { mem.facts.block } else { 1 };
            u64::from(at) / block * block
        };
        let range = |offset: u32, len: u32, aligned: bool| {
            let start = place(offset, aligned);
            let block = if aligned { mem.facts.block } else { 1 };
            start..start + place(len, aligned).max(block)
        };
        Some(match *op {
            Op::MakeFile { dir, name } => make(dir, name, Kind::file(), 0o640, (name, 7)),
            Op::MakeDir { dir, name } => make(dir, name, Kind::dir(), 0o755, (3, name)),
            Op::Symlink { dir, name, len } => {
                make(dir, name, Kind::Symlink(target_of(len)), 0o777, (0, 0))
            }
            Op::Special { dir, name, minor } => {
                let kind = if minor % 3 == 0 { Kind::Fifo } else { Kind::Device(5, minor) };
                make(dir, name, kind, 0o600, (1, 2))
            }
            Op::Unnamed { dir: d, name, len, named } => {
                let mut content = crate::content::Content::default();
                content.write(0, &bytes_of(len, 9), &mem.facts);
                let new = New { kind: Kind::File(content), perm: 0o604, owner: (5, 5) };
                Self::Unnamed { dir: dir(d), name: named.then(|| name_of(name)), new }
            }
            Op::Link { node: n, dir: d, name } => {
                Self::Link { node: node(n), dir: dir(d), name: name_of(name) }
            }
            Op::Unlink { dir: d, entry } => {
                Self::Unlink { dir: dir(d), name: entry_of(mem, dir(d), entry) }
            }
            Op::Rmdir { dir: d, entry } => {
                Self::Rmdir { dir: dir(d), name: entry_of(mem, dir(d), entry) }
            }
            Op::Rename { from, entry, to, name, mode } => {
                let old = entry_of(mem, dir(from), entry);
                // What is exchanged is there, mostly.
                let there = mode == RenameMode::Exchange && name % 4 > 0;
                let new = if there { entry_of(mem, dir(to), name) } else { name_of(name) };
                Self::Rename { from: dir(from), old, to: dir(to), new, mode }
            }
            Op::SetPerm { node: n, perm } => Self::SetPerm { node: node(n), perm },
            Op::SetOwner { node: n, uid } => {
                Self::SetOwner { node: node(n), owner: (uid, uid / 2) }
            }
            Op::SetTimes { node: n, sec, nsec } => Self::SetTimes {
                node: node(n),
                atime: (i64::from(sec), nsec),
                mtime: (-i64::from(sec / 2), nsec / 2),
            },
            Op::SetXattr { node: n, name, len } => {
                let value = vec![name.to_be_bytes()[3]; len as usize];
                Self::SetXattr { node: node(n), name: xattr_of(name), value }
            }
            Op::RemoveXattr { node: n, entry } => {
                let xattrs = &mem.nodes[node(n)].xattrs;
                let name = xattrs.keys().nth(entry as usize % xattrs.len().max(1)).cloned();
                let name = name.unwrap_or_else(|| b"trusted.nothing".to_vec());
                Self::RemoveXattr { node: node(n), name }
            }
            Op::Write { node, offset, len, fill } => {
                Self::Write { node: file(node)?, offset: offset.into(), bytes: bytes_of(len, fill) }
            }
            Op::Truncate { node, size } => Self::Truncate { node: file(node)?, size: size.into() },
            Op::Reshape { node, how, offset, len, aligned } => {
                Self::Reshape { node: file(node)?, how, range: range(offset, len, aligned) }
            }
            Op::Between { node, other, how, offset, source, len, aligned } => {
                let other = file(other)?;
                let mut source = range(source, len, aligned);
                // To the end of the other file, sometimes.
                if len % 4 == 0 {
                    source.end = mem.size(other).max(source.start);
                }
                if source.is_empty() {
                    return None;
                }
                let offset = place(offset, aligned);
                Self::Between { node: file(node)?, offset, other, source, how }
            }
            Op::Label { number } => Self::Label(format!("label {}", number % 1000).into_bytes()),
            Op::Fsync { node: n } => Self::Fsync { node: node(n) },
            Op::Sync | Op::Reopen => Self::Sync,
        })
    }
}

/// A name: short or long, some the beginning of others.
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

/// Two namespaces, names from short to nearly the longest.
fn xattr_of(n: u32) -> Vec<u8> {
    let namespace = if n.is_multiple_of(3) { "trusted" } else { "user" };
    format!("{namespace}.x{n}{}", "y".repeat(n as usize * 5)).into_bytes()
}

fn bytes_of(len: u32, fill: u8) -> Vec<u8> {
    (0..len).map(|i| fill.wrapping_add(i.to_be_bytes()[3])).collect()
}
