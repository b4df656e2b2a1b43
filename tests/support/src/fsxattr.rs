//! `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`: inode flags, project and extent size hints, which
//! plain system calls do not show; and `XFS_IOC_FSGEOMETRY`, sizes and features of a volume.
#![expect(unsafe_code, reason = "ioctls that no crate wraps")]

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::io::Result;
use rustix::ioctl::{Getter, Setter, ioctl, opcode};

/// `struct fsxattr` of `linux/fs.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FsXattr {
    /// `FS_XFLAG_*`.
    pub xflags: u32,
    /// Extent size hint, in bytes.
    pub extsize: u32,
    /// Extents of the data fork; ignored by `set`.
    pub nextents: u32,
    /// Project id.
    pub projid: u32,
    /// Extent size hint for copy on write, in bytes.
    pub cowextsize: u32,
    pad: [u8; 8],
}

/// `FS_XFLAG_IMMUTABLE`.
pub const IMMUTABLE: u32 = 0x8;
/// `FS_XFLAG_APPEND`.
pub const APPEND: u32 = 0x10;
/// `FS_XFLAG_SYNC`.
pub const SYNC: u32 = 0x20;
/// `FS_XFLAG_NOATIME`.
pub const NOATIME: u32 = 0x40;
/// `FS_XFLAG_NODUMP`.
pub const NODUMP: u32 = 0x80;
/// `FS_XFLAG_PROJINHERIT`.
pub const PROJINHERIT: u32 = 0x200;
/// `FS_XFLAG_NOSYMLINKS`.
pub const NOSYMLINKS: u32 = 0x400;
/// `FS_XFLAG_EXTSIZE`.
pub const EXTSIZE: u32 = 0x800;
/// `FS_XFLAG_EXTSZINHERIT`.
pub const EXTSZINHERIT: u32 = 0x1000;
/// `FS_XFLAG_NODEFRAG`.
pub const NODEFRAG: u32 = 0x2000;
/// `FS_XFLAG_COWEXTSIZE`.
pub const COWEXTSIZE: u32 = 0x10000;
/// `FS_XFLAG_HASATTR`: the inode has an attribute fork.
pub const HASATTR: u32 = 0x8000_0000;

/// Reads the record of an open file.
pub fn get(fd: BorrowedFd) -> Result<FsXattr> {
    const GET: u32 = opcode::read::<FsXattr>(b'X', 31);
    // SAFETY: the kernel writes exactly one `struct fsxattr` for this opcode, which `FsXattr` is.
    unsafe { ioctl(fd, Getter::<GET, FsXattr>::new()) }
}

/// Writes the record of an open file.
pub fn set(fd: BorrowedFd, value: FsXattr) -> Result<()> {
    const SET: u32 = opcode::write::<FsXattr>(b'X', 32);
    // SAFETY: the kernel reads exactly one `struct fsxattr` for this opcode, which `FsXattr` is.
    unsafe { ioctl(fd, Setter::<SET, FsXattr>::new(value)) }
}

/// Returns `struct xfs_fsop_geom` of the filesystem of `dir`, in its three versions.
///
/// # Panics
/// It is no XFS.
pub fn xfs_geometries(dir: &Path) -> [Vec<u8>; 3] {
    let root = File::open(dir).expect("a directory");
    // SAFETY: XFS_IOC_FSGEOMETRY_V1 and _V4 write 112 bytes, XFS_IOC_FSGEOMETRY 256.
    unsafe {
        [
            ioctl(&root, Getter::<0x8070_5864, [u8; 112]>::new()).expect("V1").to_vec(),
            ioctl(&root, Getter::<0x8070_587c, [u8; 112]>::new()).expect("V4").to_vec(),
            ioctl(&root, Getter::<0x8100_587e, [u8; 256]>::new()).expect("V5").to_vec(),
        ]
    }
}
