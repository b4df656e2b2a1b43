//! Metadata of a file: type, size, owner, permissions, times.

use std::time::SystemTime;

use xfskit_vfs::{self as vfs, SetAttr, Stat, Timestamp};

use crate::time::system_time;

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A directory entry of a volume that does not keep types there:
    /// [`DirEntry::metadata`](crate::DirEntry::metadata) has the type.
    Unknown,
}

impl FileType {
    /// Returns true for a directory.
    pub fn is_dir(self) -> bool {
        self == Self::Dir
    }

    /// Returns true for a regular file.
    pub fn is_file(self) -> bool {
        self == Self::File
    }

    /// Returns true for a symbolic link.
    pub fn is_symlink(self) -> bool {
        self == Self::Symlink
    }
}

impl FileType {
    /// Returns the type in the form of the floor below.
    pub(crate) fn below(self) -> vfs::FileType {
        match self {
            Self::File => vfs::FileType::Regular,
            Self::Dir => vfs::FileType::Directory,
            Self::Symlink => vfs::FileType::Symlink,
            Self::Fifo => vfs::FileType::Fifo,
            Self::Socket => vfs::FileType::Socket,
            Self::CharDevice => vfs::FileType::CharDevice,
            Self::BlockDevice => vfs::FileType::BlockDevice,
            Self::Unknown => vfs::FileType::Unknown,
        }
    }
}

impl serde::Serialize for FileType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.below().serialize(serializer)
    }
}

impl FileType {
    /// Returns the type that the floor below calls `file_type`.
    pub(crate) fn of(file_type: vfs::FileType) -> Self {
        match file_type {
            vfs::FileType::Regular => Self::File,
            vfs::FileType::Directory => Self::Dir,
            vfs::FileType::Symlink => Self::Symlink,
            vfs::FileType::Fifo => Self::Fifo,
            vfs::FileType::Socket => Self::Socket,
            vfs::FileType::CharDevice | vfs::FileType::Whiteout => Self::CharDevice,
            vfs::FileType::BlockDevice => Self::BlockDevice,
            vfs::FileType::Unknown => Self::Unknown,
        }
    }
}

/// The permission bits of a file, with setuid, setgid and sticky.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permissions(u16);

impl Permissions {
    /// Returns the permissions of the low twelve bits of `mode`, such as `0o644`.
    #[allow(clippy::cast_possible_truncation)] // twelve bits
    pub fn from_mode(mode: u32) -> Self {
        Self((mode & 0o7777) as u16)
    }

    /// Returns the bits.
    pub fn mode(self) -> u32 {
        self.0.into()
    }

    /// Returns true if nobody may write.
    pub fn readonly(self) -> bool {
        self.0 & 0o222 == 0
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }
}

/// Metadata of a file, with the fields of `statx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata(Stat);

#[allow(clippy::len_without_is_empty)] // as std::fs::Metadata
impl Metadata {
    /// Returns the type of the file.
    pub fn file_type(&self) -> FileType {
        FileType::of(self.0.file_type)
    }

    /// Returns true for a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type().is_dir()
    }

    /// Returns true for a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type().is_file()
    }

    /// Returns true for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type().is_symlink()
    }

    /// Returns the size of the content, in bytes.
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// Returns the permissions.
    pub fn permissions(&self) -> Permissions {
        Permissions(self.0.mode & 0o7777)
    }

    /// Returns the time of the last change of the content.
    pub fn modified(&self) -> SystemTime {
        system_time(self.0.mtime)
    }

    /// Returns the time of the last read, as far as the volume was mounted to record it.
    pub fn accessed(&self) -> SystemTime {
        system_time(self.0.atime)
    }

    /// Returns the time of the last change of content or metadata.
    pub fn changed(&self) -> SystemTime {
        system_time(self.0.ctime)
    }

    /// Returns the time when the file was created. A version 4 volume does not keep it.
    pub fn created(&self) -> Option<SystemTime> {
        self.0.btime.map(system_time)
    }

    /// Returns the inode number.
    pub fn ino(&self) -> u64 {
        self.0.ino.0
    }

    /// Returns type and permissions, as `st_mode` holds them.
    pub fn mode(&self) -> u32 {
        self.0.mode.into()
    }

    /// Returns how many names the file has.
    pub fn nlink(&self) -> u32 {
        self.0.nlink
    }

    /// Returns the owner.
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Returns the group.
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// Returns the project.
    pub fn project(&self) -> u32 {
        self.0.projid
    }

    /// Returns the size of the content, in bytes, as [`len`](Self::len) does.
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// Returns the space that content and attributes take, in units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.0.blocks
    }

    /// Returns major and minor number of a device.
    pub fn rdev(&self) -> Option<(u32, u32)> {
        self.0.rdev
    }

    /// Returns the generation: it changes when the inode number is used for another file.
    pub fn generation(&self) -> u32 {
        self.0.generation
    }

    /// Returns the number of extents of the content.
    pub fn extent_count(&self) -> u64 {
        self.0.nextents
    }

    /// Returns the number of extents of the attributes.
    pub fn attr_extent_count(&self) -> u32 {
        self.0.anextents
    }

    /// Returns the flags: immutable, append-only and the like, as `di_flags` holds them.
    pub fn flags(&self) -> u16 {
        self.0.flags.bits()
    }

    /// Returns the further flags: reflink, bigtime and the like, as `di_flags2` holds them.
    pub fn flags2(&self) -> u64 {
        self.0.flags2.bits()
    }

    /// Returns [`modified`](Self::modified) as the disk holds it.
    pub fn mtime(&self) -> Timestamp {
        self.0.mtime
    }

    /// Returns [`accessed`](Self::accessed) as the disk holds it.
    pub fn atime(&self) -> Timestamp {
        self.0.atime
    }

    /// Returns [`changed`](Self::changed) as the disk holds it.
    pub fn ctime(&self) -> Timestamp {
        self.0.ctime
    }

    /// Returns [`created`](Self::created) as the disk holds it.
    pub fn btime(&self) -> Option<Timestamp> {
        self.0.btime
    }

    pub(crate) fn of(stat: Stat) -> Self {
        Self(stat)
    }

    pub(crate) fn stat(&self) -> &Stat {
        &self.0
    }
}

/// Times to set on a file: a builder. A time that is not set stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "times are set by `set_times`"]
pub struct FileTimes {
    accessed: Option<Timestamp>,
    modified: Option<Timestamp>,
}

impl FileTimes {
    /// Returns times that leave all as it is.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the time of the last read.
    pub fn set_accessed(mut self, time: SystemTime) -> Self {
        self.accessed = Some(crate::time::timestamp(time));
        self
    }

    /// Names the time of the last change of the content.
    pub fn set_modified(mut self, time: SystemTime) -> Self {
        self.modified = Some(crate::time::timestamp(time));
        self
    }

    pub(crate) fn set_attr(self) -> SetAttr {
        let Self { accessed: atime, modified: mtime } = self;
        SetAttr { atime, mtime, ..SetAttr::default() }
    }
}
