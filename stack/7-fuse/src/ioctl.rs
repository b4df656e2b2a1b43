//! The ioctls of Linux that a mount answers, with their arguments as bytes.
//!
//! Their numbers and structures are those of the kernel's `<linux/fs.h>`, and for XFS those of its
//! manual pages.

use rustix::io::Errno;
use xfskit_format::inode::{FileType, InodeFlags, InodeFlags2};
use xfskit_vfs::Stat;

use crate::geometry::Form;
use crate::operations::Reply;

/// Bytes of `struct fsxattr`: flags, extent size, extents, project, CoW extent size, and 8 unused.
const FSXATTR: usize = 28;
/// An extended attribute exists (`FS_XFLAG_HASATTR`); it is not set by users.
const HASATTR: u32 = 1 << 31;
/// There is a hint for copies of shared blocks (`FS_XFLAG_COWEXTSIZE`).
const COWEXTSIZE: u32 = 1 << 16;

/// The flags that `lsattr` and `chattr` know, each with the inode's.
const LSATTR: [(u32, InodeFlags); 6] = [
    (0x08, InodeFlags::SYNC),
    (0x10, InodeFlags::IMMUTABLE),
    (0x20, InodeFlags::APPEND),
    (0x40, InodeFlags::NODUMP),
    (0x80, InodeFlags::NOATIME),
    (0x2000_0000, InodeFlags::PROJINHERIT),
];

/// The flags of `struct fsxattr` that users set. They have the values of the inode's.
const SETTABLE: InodeFlags = InodeFlags::IMMUTABLE
    .union(InodeFlags::APPEND)
    .union(InodeFlags::SYNC)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::PROJINHERIT)
    .union(InodeFlags::NOSYMLINKS)
    .union(InodeFlags::NODEFRAG);

/// Flags that say that there is a hint.
const HINTS: InodeFlags = InodeFlags::EXTSIZE.union(InodeFlags::EXTSZINHERIT);

/// A known ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ioctl {
    /// `FS_IOC_GETFLAGS`
    GetFlags,
    /// `FS_IOC_SETFLAGS`
    SetFlags,
    /// `FS_IOC_FSGETXATTR`
    GetXattr,
    /// `FS_IOC_FSSETXATTR`
    SetXattr,
    /// `XFS_IOC_FSGEOMETRY_V1`, `_V4`, and `XFS_IOC_FSGEOMETRY`
    Geometry(Form),
    /// `FITRIM`
    Trim,
}

impl Ioctl {
    /// Returns the ioctl with the number `command`, of a program with 32 or 64 bits.
    pub(crate) fn from_command(command: u32) -> Option<Self> {
        match command {
            0x8008_6601 | 0x8004_6601 => Some(Self::GetFlags),
            0x4008_6602 | 0x4004_6602 => Some(Self::SetFlags),
            0x801c_581f => Some(Self::GetXattr),
            0x401c_5820 => Some(Self::SetXattr),
            0x8070_5864 => Some(Self::Geometry(Form::V1)),
            0x8070_587c => Some(Self::Geometry(Form::V4)),
            0x8100_587e => Some(Self::Geometry(Form::V5)),
            0xc018_5879 => Some(Self::Trim),
            _ => None,
        }
    }

    /// Returns true if it changes something.
    pub(crate) fn changes(self) -> bool {
        self.changes_inode() || self == Self::Trim
    }

    /// Returns true if it changes the inode.
    pub(crate) fn changes_inode(self) -> bool {
        matches!(self, Self::SetFlags | Self::SetXattr)
    }
}

/// Returns the flags of `lsattr`.
pub(crate) fn flags(stat: &Stat) -> u32 {
    let set = LSATTR.iter().filter(|(_, flag)| stat.flags.contains(*flag));
    set.fold(0, |all, (bit, _)| all | bit)
}

/// Returns the inode's flags with those of `lsattr` set to `flags`.
///
/// # Errors
/// `EOPNOTSUPP` for a flag that XFS does not have.
pub(crate) fn with_flags(stat: &Stat, flags: u32) -> Reply<InodeFlags> {
    let known = LSATTR.iter().fold(0, |all, (bit, _)| all | bit);
    if flags & !known != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let mut changed = stat.flags;
    for (bit, flag) in LSATTR {
        changed.set(flag, flags & bit != 0);
    }
    Ok(changed)
}

/// Hints of the size of extents, in bytes; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// Of allocations.
    pub extsize: u32,
    /// Of copies of shared blocks.
    pub cowextsize: u32,
}

/// What `FS_IOC_FSSETXATTR` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fsxattr {
    /// The inode's flags, without those of hints.
    pub flags: InodeFlags,
    /// The project.
    pub projid: u32,
    /// The hints.
    pub hints: Hints,
}

/// A range of the device to trim, in bytes, and the shortest free run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrimRange {
    pub start: u64,
    pub len: u64,
    pub minlen: u64,
}

impl TrimRange {
    /// Parses a `struct fstrim_range`.
    ///
    /// # Errors
    /// `EINVAL` for a short argument.
    pub(crate) fn parse(argument: &[u8]) -> Reply<Self> {
        let word = |n: usize| {
            let bytes = argument.get(n * 8..).and_then(|rest| rest.first_chunk());
            bytes.map(|bytes| u64::from_ne_bytes(*bytes)).ok_or(Errno::INVAL)
        };
        Ok(Self { start: word(0)?, len: word(1)?, minlen: word(2)? })
    }

    /// Returns the structure, with the bytes that were trimmed in place of the length.
    pub(crate) fn trimmed(self, bytes: u64) -> Vec<u8> {
        [self.start, bytes, self.minlen].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// Returns the inode's `struct fsxattr`.
pub(crate) fn fsxattr(stat: &Stat, hints: Hints) -> Vec<u8> {
    let mut xflags = u32::from((stat.flags - InodeFlags::NEWRTBM).bits());
    if stat.flags2.contains(InodeFlags2::COWEXTSIZE) {
        xflags |= COWEXTSIZE;
    }
    if stat.has_attr_fork {
        xflags |= HASATTR;
    }
    let nextents = u32::try_from(stat.nextents).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(FSXATTR);
    for word in [xflags, hints.extsize, nextents, stat.projid, hints.cowextsize, 0, 0] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Returns what the inode has after a change to `argument`, a `struct fsxattr`.
///
/// # Errors
/// `EINVAL` for a short argument, and for a flag that cannot be set.
pub(crate) fn with_fsxattr(stat: &Stat, argument: &[u8]) -> Reply<Fsxattr> {
    let word = |n: usize| {
        let bytes = argument.get(n * 4..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or(Errno::INVAL)
    };
    let (xflags, projid) = (word(0)? & !HASATTR, word(3)?);
    let is_dir = stat.file_type == FileType::Directory;
    let hinted = if is_dir { InodeFlags::EXTSZINHERIT } else { InodeFlags::EXTSIZE };
    let wanted = InodeFlags::from_bits_retain(
        u16::try_from(xflags & !COWEXTSIZE).map_err(|_| Errno::INVAL)?,
    );
    let hints = Hints {
        extsize: if wanted.contains(hinted) { word(1)? } else { 0 },
        cowextsize: if xflags & COWEXTSIZE != 0 { word(4)? } else { 0 },
    };
    let ours = SETTABLE | HINTS;
    let refused = (wanted ^ stat.flags) - ours - InodeFlags::NEWRTBM;
    let only_dirs = InodeFlags::PROJINHERIT | InodeFlags::NOSYMLINKS | InodeFlags::EXTSZINHERIT;
    let misplaced = if is_dir { InodeFlags::EXTSIZE } else { only_dirs };
    if !refused.is_empty() || wanted.intersects(misplaced) {
        return Err(Errno::INVAL);
    }
    let flags = (stat.flags - ours) | wanted & SETTABLE | stat.flags & hinted;
    Ok(Fsxattr { flags, projid, hints })
}
