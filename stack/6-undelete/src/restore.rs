//! Removed files, given back in place: which ones can be, and one of them.

use xfskit_core::icore::NewInode;
use xfskit_core::restore::{RemovedContent, RemovedInode, RestoredName};
use xfskit_core::{Error, KeptExtents, Result, Volume};
use xfskit_format::inode::{FileType, InodeFlags, InodeFlags2};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{ByteLen, ExtLen, FsBlock, Ino};

use crate::attributes;
use crate::candidate::{Candidate, Confidence, Size};

/// The flags that a restored inode has again. The others follow from its content, or belong to
/// hints that are not restored.
const FLAGS: InodeFlags = InodeFlags::PREALLOC
    .union(InodeFlags::IMMUTABLE)
    .union(InodeFlags::APPEND)
    .union(InodeFlags::SYNC)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NODEFRAG)
    .union(InodeFlags::PROJINHERIT)
    .union(InodeFlags::NOSYMLINKS);

/// A file that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Its number.
    pub ino: Ino,
    /// It has all of its extended attributes.
    pub has_attributes: bool,
}

/// Returns what keeps a removed file from being given back in place; `None` if nothing does.
pub fn obstacle(file: &Candidate) -> Option<&'static str> {
    match file.confidence() {
        Confidence::NameOnly => return Some("a file of which only the name is left"),
        Confidence::Partial => return Some("a file that is not good"),
        Confidence::Good => {}
    }
    if file.realtime {
        return Some("a file with its content on a realtime device");
    }
    if file.mode.is_none() {
        return Some("a file of which owner and permissions are not known");
    }
    match (file.file_type, file.size, &file.target) {
        (Some(FileType::Regular), Size::Exact(_), _)
        | (Some(FileType::Symlink), _, Some(_))
        | (Some(FileType::Directory | FileType::Fifo | FileType::Socket), ..) => None,
        (Some(FileType::BlockDevice | FileType::CharDevice), ..) => Some("a device"),
        _ => Some("a file of which type and size are not known"),
    }
}

/// Returns true if all extended attributes of a removed file can be given back.
pub fn has_attributes(volume: &Volume, file: &Candidate) -> bool {
    attributes::read(volume, file).is_whole
}

/// Keeps the blocks of all files that can be given back from being allocated, for as long as the
/// returned value lives.
pub fn keep<'v>(
    volume: &'v Volume,
    files: impl IntoIterator<Item = &'v Candidate>,
) -> KeptExtents<'v> {
    let wanted = files.into_iter().filter(|file| obstacle(file).is_none());
    let extents = wanted.flat_map(|file| {
        let content = file.extents.iter().filter(|_| file.target.is_none());
        content.chain(&file.attr_blocks.map)
    });
    let extents = extents.map(|extent| {
        let len = u32::try_from(extent.blockcount.0).unwrap_or(u32::MAX);
        (extent.startblock, ExtLen(len))
    });
    let extents: Vec<(FsBlock, ExtLen)> = extents.collect();
    volume.space().keep_free(extents)
}

/// Gives `file` back under all of `names`, in one transaction at the time `now`.
///
/// # Errors
/// [`Error::Unsupported`] if it has an [`obstacle`], and those of
/// [`restore_inode`](Volume::restore_inode).
pub fn restore(
    volume: &Volume,
    file: &Candidate,
    names: &[RestoredName<'_>],
    now: Timestamp,
) -> Result<Restored> {
    if let Some(obstacle) = obstacle(file) {
        return Err(Error::Unsupported(format!("restoring {obstacle} in place")));
    }
    let size = match file.size {
        Size::Exact(size) => size,
        Size::AtMost(_) | Size::Unknown => 0,
    };
    let content = match (&file.target, file.file_type) {
        (Some(target), _) => RemovedContent::Target(target),
        (None, Some(FileType::Regular)) => RemovedContent::File(ByteLen(size), &file.extents),
        _ => RemovedContent::Nothing,
    };
    let (uid, gid) = file.owner.unwrap_or((0, 0));
    let new = NewInode {
        mode: file.mode.unwrap_or(0),
        uid,
        gid,
        projid: file.projid,
        flags: file.flags & FLAGS,
        flags2: file.flags2 & InodeFlags2::DAX,
        now,
        ..NewInode::default()
    };
    let times = [file.atime, file.mtime, file.crtime];
    let found = attributes::read(volume, file);
    let (ino, generation, attrs) = (file.ino, file.generation, &found.attrs[..]);
    let removed = RemovedInode { ino, generation, new, times, content, attrs };
    let ino = volume.restore_inode(&removed, names)?;
    Ok(Restored { ino, has_attributes: found.is_whole })
}
