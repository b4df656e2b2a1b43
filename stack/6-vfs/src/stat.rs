//! The metadata of one file, as statx returns it.

use serde::Serialize;
use xfskit_format::inode::{Dinode, FileType, InodeFlags, InodeFlags2};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{Geometry, Ino};

/// The metadata of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// Inode number.
    pub ino: Ino,
    /// The file type.
    #[serde(rename = "type")]
    pub file_type: FileType,
    /// Type and permissions, as `st_mode`.
    pub mode: u16,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub projid: u32,
    /// Length of the content in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Major and minor number of a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdev: Option<(u32, u32)>,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of content or metadata.
    pub ctime: Timestamp,
    /// Birth; version 4 does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub btime: Option<Timestamp>,
    /// Generation: changes when the inode number is used for another file.
    pub generation: u32,
    /// Flags as `flags` holds them (immutable, append only, …).
    pub flags: InodeFlags,
    /// Flags as `flags2` holds them (reflink, bigtime, …).
    pub flags2: InodeFlags2,
    /// Extents of the content.
    pub nextents: u64,
    /// Extents of the attributes.
    pub anextents: u32,
    /// The inode has a fork for attributes, even if none is left in it.
    #[serde(skip)]
    pub has_attr_fork: bool,
}

impl Stat {
    /// Returns the metadata of inode `ino`.
    pub fn of(ino: Ino, core: &Dinode<'_>, geo: &Geometry) -> Self {
        Self {
            ino,
            file_type: core.file_type().unwrap_or(FileType::Unknown),
            mode: core.mode(),
            nlink: core.nlink(),
            uid: core.uid(),
            gid: core.gid(),
            projid: core.projid(),
            size: core.size().0,
            blocks: core.nblocks().0.saturating_mul(geo.block_sectors().0),
            rdev: core.rdev(),
            atime: core.atime(),
            mtime: core.mtime(),
            ctime: core.ctime(),
            btime: core.crtime(),
            generation: core.generation(),
            flags: core.flags(),
            flags2: core.flags2(),
            nextents: core.nextents(),
            anextents: core.anextents(),
            has_attr_fork: core.forkoff() > 0,
        }
    }
}
