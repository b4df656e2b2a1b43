//! Copies a file or a tree within a volume.
//!
//! As with [`put`](mod@crate::put), existing directories are filled, and files are replaced when
//! the new one is complete. Everything is listed before anything is made, so an unreadable
//! directory is found before anything changes.

use std::collections::HashMap;
use std::ops::ControlFlow;

use xfskit_core::file::Seek;
use xfskit_units::Ino;
use xfskit_vfs::{Error, FileType, Fs, NewNode, SetAttr, Stat, join};

use crate::put::{OnPut, Put, PutError, entry, replace};
use crate::xattrs::copy_xattrs;

/// Number of bytes copied at once.
const PIECE: usize = 1 << 20;

/// One name to be copied.
struct Item {
    ino: Ino,
    /// The item of its directory in the copy; `None` for the first.
    parent: Option<usize>,
    name: Vec<u8>,
}

/// Everything to be copied, directories before what is in them.
struct Items {
    /// Path of the copy of the first item.
    path: Vec<u8>,
    list: Vec<Item>,
}

impl Items {
    /// Returns the path of an item's copy, for messages. Paths are not stored, because those of a
    /// deep tree would take too much memory.
    fn path(&self, item: &Item) -> Vec<u8> {
        let (mut names, mut at) = (Vec::new(), item);
        while let Some(parent) = at.parent {
            names.push(&at.name);
            at = &self.list[parent];
        }
        names.iter().rev().fold(self.path.clone(), |path, name| join(&path, name))
    }
}

/// Copies inode `from`, with everything below it, to `name` in directory `dir`; `path` is that
/// name's path. With `reflink`, content is shared instead of copied.
///
/// # Errors
/// [`PutError`]. What was copied before stays. [`PutError::BelowItself`] is found before anything
/// is copied.
pub fn copy_within(
    fs: &Fs,
    from: Ino,
    (dir, name): (Ino, &[u8]),
    path: &[u8],
    reflink: bool,
    on_put: OnPut<'_>,
) -> Result<Put, PutError> {
    let above = fs.path_up(dir).map_err(|error| PutError::Volume { path: path.into(), error })?;
    if above.contains(&from) {
        return Err(PutError::BelowItself { path: path.into() });
    }
    let items = list(fs, from, name, path)?;
    let mut made: Vec<Ino> = Vec::with_capacity(items.list.len());
    let mut links: HashMap<Ino, Ino> = HashMap::new();
    let mut done = Put::default();
    for item in &items.list {
        let parent = item.parent.map_or(dir, |parent| made[parent]);
        let at = |error| PutError::Volume { path: items.path(item), error };
        let stat = stat(fs, item.ino).map_err(at)?;
        let is_dir = stat.file_type == FileType::Directory;
        let there = entry(fs, parent, &item.name).map_err(at)?;
        let ino = match (there, links.get(&item.ino)) {
            (Some((_, was_dir)), _) if was_dir != is_dir => {
                return Err(PutError::Clash { path: items.path(item), is_dir: was_dir });
            }
            (Some((ino, true)), _) => ino,
            (None, Some(&ino)) => {
                fs.link(ino, parent, &item.name).map_err(at)?;
                ino
            }
            (None, None) if is_dir => {
                fs.make(parent, &item.name, &new_node_like(fs, &stat).map_err(at)?).map_err(at)?
            }
            _ => {
                let new = new_node_like(fs, &stat).map_err(at)?;
                replace(fs, (parent, &item.name), there.is_some(), &new, at, |ino| {
                    if stat.file_type == FileType::Regular {
                        let before = done;
                        let look = |bytes: u64| {
                            let bytes = before.bytes.saturating_add(bytes);
                            on_put(Put { bytes, ..before })
                        };
                        let whole = content(fs, item.ino, ino, reflink, &look).map_err(at)?;
                        if whole.is_break() {
                            return Err(PutError::Stopped);
                        }
                    }
                    set_metadata(fs, &stat, ino).map_err(at)
                })?
            }
        };
        if stat.nlink > 1 && !is_dir {
            links.insert(item.ino, ino);
        }
        made.push(ino);
        done.names += 1;
        let bytes = if stat.file_type == FileType::Regular { stat.size } else { 0 };
        done.bytes = done.bytes.saturating_add(bytes);
        if let ControlFlow::Break(()) = on_put(done) {
            return Err(PutError::Stopped);
        }
    }
    // After their contents, which change their times.
    for (item, &ino) in items.list.iter().zip(&made).rev() {
        let at = |error| PutError::Volume { path: items.path(item), error };
        let stat = stat(fs, item.ino).map_err(at)?;
        if stat.file_type == FileType::Directory {
            set_metadata(fs, &stat, ino).map_err(at)?;
        }
    }
    Ok(done)
}

/// Lists inode `from`, which is to be copied to `name` at `path`, and everything below it.
fn list(fs: &Fs, from: Ino, name: &[u8], path: &[u8]) -> Result<Items, PutError> {
    let failed = |path: Vec<u8>, error| PutError::Volume { path, error };
    let top = fs.inode(from).map_err(|error| failed(path.into(), error))?;
    let mut list: Vec<Item> = Vec::new();
    // The item of the directory on each level.
    let mut above: Vec<usize> = Vec::new();
    for step in fs.walk(path, top, usize::MAX) {
        let entry = step.map_err(|fault| failed(fault.path, fault.error))?;
        above.truncate(entry.depth);
        let parent = above.last().copied();
        above.push(list.len());
        let own = entry.path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let name = if parent.is_some() { own } else { name };
        list.push(Item { ino: entry.inode.ino(), parent, name: name.into() });
    }
    Ok(Items { path: path.into(), list })
}

fn stat(fs: &Fs, ino: Ino) -> Result<Stat, Error> {
    Ok(fs.stat(&fs.inode(ino)?))
}

/// Returns the properties of the copy's inode.
fn new_node_like(fs: &Fs, stat: &Stat) -> Result<NewNode, Error> {
    let target = match stat.file_type {
        FileType::Symlink => Some(fs.read_link(&fs.inode(stat.ino)?)?),
        _ => None,
    };
    let Stat { mode, uid, gid, rdev, .. } = *stat;
    Ok(NewNode { mode, uid, gid, rdev, target, brings_acls: true, ..NewNode::default() })
}

/// Copies, or shares, the content of `from`; holes stay holes. `look` is called with the bytes
/// copied so far, and may end the copy.
fn content(
    fs: &Fs,
    from: Ino,
    to: Ino,
    reflink: bool,
    look: &dyn Fn(u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let (source, copy) = (fs.open(from)?, fs.open(to)?);
    let size = source.size();
    if reflink {
        if size > 0 {
            copy.share(0, &source, 0..size)?;
        }
        source.close()?;
        return copy.close().map(ControlFlow::Continue);
    }
    let mut piece = vec![0; PIECE];
    let (mut at, mut copied) = (0, 0);
    while let Some(data) = source.seek(at, Seek::Data)? {
        let end = source.seek(data, Seek::Hole)?.unwrap_or(size).min(size);
        at = data;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let read = source.read(at, &mut piece[..len])?;
            if read == 0 {
                break;
            }
            copy.write(at, &piece[..read])?;
            at += read as u64;
            copied += read as u64;
            if look(copied).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if at >= size {
            break;
        }
        at = at.max(end);
    }
    if copy.size() < size {
        copy.truncate(size)?;
    }
    source.close()?;
    copy.close().map(ControlFlow::Continue)
}

/// Sets a copy's metadata to that of the file. Times come last.
fn set_metadata(fs: &Fs, stat: &Stat, ino: Ino) -> Result<(), Error> {
    copy_xattrs(fs, stat.ino, ino, |_| true)?;
    let set = SetAttr {
        perm: Some(stat.mode),
        uid: Some(stat.uid),
        gid: Some(stat.gid),
        atime: Some(stat.atime),
        mtime: Some(stat.mtime),
        ..SetAttr::default()
    };
    fs.set_attr(ino, &set)
}
