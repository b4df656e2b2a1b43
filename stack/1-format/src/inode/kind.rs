//! The types of inodes, the formats of forks, and the flags of inodes.

use serde::Serialize;
use xfskit_units::Features;

/// The part of `mode` that holds the type.
pub const S_IFMT: u16 = 0o170_000;

/// The type of a file. The discriminants are the type bytes of directory entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FileType {
    /// A directory entry without a type.
    Unknown = 0,
    /// Regular file.
    Regular = 1,
    /// Directory.
    Directory = 2,
    /// Character device.
    CharDevice = 3,
    /// Block device.
    BlockDevice = 4,
    /// Named pipe.
    Fifo = 5,
    /// Socket.
    Socket = 6,
    /// Symbolic link.
    Symlink = 7,
    /// A whiteout of an overlay. Linux stores those as [`CharDevice`](Self::CharDevice).
    Whiteout = 8,
}

impl FileType {
    /// Returns the type that `mode` names; `None` for a free inode and for types that do not exist.
    pub const fn from_mode(mode: u16) -> Option<Self> {
        match mode & S_IFMT {
            0o010_000 => Some(Self::Fifo),
            0o020_000 => Some(Self::CharDevice),
            0o040_000 => Some(Self::Directory),
            0o060_000 => Some(Self::BlockDevice),
            0o100_000 => Some(Self::Regular),
            0o120_000 => Some(Self::Symlink),
            0o140_000 => Some(Self::Socket),
            _ => None,
        }
    }

    /// Returns the type that the type byte of a directory entry names.
    pub const fn from_ftype(ftype: u8) -> Option<Self> {
        match ftype {
            0 => Some(Self::Unknown),
            1 => Some(Self::Regular),
            2 => Some(Self::Directory),
            3 => Some(Self::CharDevice),
            4 => Some(Self::BlockDevice),
            5 => Some(Self::Fifo),
            6 => Some(Self::Socket),
            7 => Some(Self::Symlink),
            8 => Some(Self::Whiteout),
            _ => None,
        }
    }

    /// Returns the type byte of a directory entry.
    pub const fn ftype(self) -> u8 {
        self as u8
    }

    /// Returns the type bits of `mode`; 0 for [`Unknown`](Self::Unknown).
    pub const fn mode(self) -> u16 {
        match self {
            Self::Unknown => 0,
            Self::Fifo => 0o010_000,
            Self::CharDevice | Self::Whiteout => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::Regular => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// Returns true for devices, pipes and sockets: no content, a device number in the data fork.
    pub const fn is_special(self) -> bool {
        matches!(
            self,
            Self::CharDevice | Self::BlockDevice | Self::Fifo | Self::Socket | Self::Whiteout
        )
    }
}

/// The storage format of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Format {
    /// A device number. As attribute format: never used.
    Dev = 0,
    /// The content itself: a small directory, a symlink's target, a few attributes.
    Local = 1,
    /// An array of extent records.
    Extents = 2,
    /// The root of a btree of extent records.
    Btree = 3,
    /// Never valid.
    Uuid = 4,
    /// The root of a realtime group's reverse-mapping or reference-count btree.
    MetaBtree = 5,
}

impl Format {
    /// Returns the format numbered `n` on disk.
    pub const fn from_disk(n: u8) -> Option<Self> {
        match n {
            0 => Some(Self::Dev),
            1 => Some(Self::Local),
            2 => Some(Self::Extents),
            3 => Some(Self::Btree),
            4 => Some(Self::Uuid),
            5 => Some(Self::MetaBtree),
            _ => None,
        }
    }
}

xfskit_units::flag_word! {
    /// Bits of the inode's `flags`, named as `xfs_db` prints them.
    #[derive(Serialize)]
    #[serde(transparent)]
    pub struct InodeFlags: u16 {
        /// The data fork lies on the realtime device.
        REALTIME = 1 << 0, "realtime";
        /// Blocks after the end of the file are kept.
        PREALLOC = 1 << 1, "prealloc";
        /// The realtime bitmap's own mark.
        NEWRTBM = 1 << 2, "newrtbm";
        /// Cannot be changed.
        IMMUTABLE = 1 << 3, "immutable";
        /// Can only grow.
        APPEND = 1 << 4, "append";
        /// Every write is synchronous.
        SYNC = 1 << 5, "sync";
        /// Access times are not kept.
        NOATIME = 1 << 6, "noatime";
        /// Backups leave it out.
        NODUMP = 1 << 7, "nodump";
        /// Directory: new files get [`Self::REALTIME`].
        RTINHERIT = 1 << 8, "rtinherit";
        /// Directory: children inherit the project id.
        PROJINHERIT = 1 << 9, "projinherit";
        /// Directory: no symlinks may be made in it.
        NOSYMLINKS = 1 << 10, "nosymlinks";
        /// File: `extsize` is valid.
        EXTSIZE = 1 << 11, "extsz";
        /// Directory: children inherit `extsize`.
        EXTSZINHERIT = 1 << 12, "extszinherit";
        /// The defragmenter leaves it alone.
        NODEFRAG = 1 << 13, "nodefrag";
        /// The filestreams allocator places it.
        FILESTREAM = 1 << 14, "filestream";
    }
}

xfskit_units::flag_word! {
    /// Bits of the inode's `flags2`, named as `xfs_db` prints them.
    #[derive(Serialize)]
    #[serde(transparent)]
    pub struct InodeFlags2: u64 {
        /// Mapped directly from persistent memory.
        DAX = 1 << 0, "dax";
        /// Some block may be shared with another file.
        REFLINK = 1 << 1, "reflink";
        /// `cowextsize` is valid.
        COWEXTSIZE = 1 << 2, "cowextsz";
        /// Times are in bigtime.
        BIGTIME = 1 << 3, "bigtime";
        /// Extent counters are the large ones.
        NREXT64 = 1 << 4, "nrext64";
        /// Lives in the metadata directory tree.
        METADATA = 1 << 5, "metadata";
    }
}

impl InodeFlags2 {
    /// Returns the flags that every new inode of such a volume has.
    pub fn of_new(features: &Features) -> Self {
        let mut flags = Self::empty();
        flags.set(Self::BIGTIME, features.bigtime());
        flags.set(Self::NREXT64, features.nrext64());
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_survive_conversion_to_mode_and_to_directory_entries() {
        for n in 0..=8 {
            let kind = FileType::from_ftype(n).unwrap();
            assert_eq!(kind.ftype(), n);
            if (1..=7).contains(&n) {
                assert_eq!(FileType::from_mode(kind.mode() | 0o7777), Some(kind));
            }
        }
        assert_eq!(FileType::from_ftype(9), None);
        assert_eq!(FileType::from_mode(0), None);
        assert_eq!(FileType::from_mode(0o160_000), None, "an old whiteout is no type");
    }
}
