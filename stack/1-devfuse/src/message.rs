//! The structures of the protocol, in the byte order of the machine.

#![allow(missing_docs)] // the fields are those of the protocol

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The node id of the root of a mount.
pub const ROOT: u64 = 1;

/// Declares structures that are read from or written to the device.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        pub struct $name { $(pub $field: $type),* }
    )* };
}

messages! {
    /// The beginning of each request.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32,
        total_extlen: u16, padding: u16,
    }
    /// The beginning of each reply. `error` is 0 or a negative errno.
    OutHeader { len: u32, error: i32, unique: u64 }
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32 }
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16,
        congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16,
        unused: [u16; 11],
    }
    Attr {
        ino: u64, size: u64, blocks: u64, atime: i64, mtime: i64, ctime: i64, atimensec: u32,
        mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        blksize: u32, flags: u32,
    }
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32,
        attr_valid_nsec: u32, attr: Attr,
    }
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    SxTime { tv_sec: i64, tv_nsec: u32, reserved: i32 }
    Statx {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16,
        spare0: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64, atime: SxTime,
        btime: SxTime, ctime: SxTime, mtime: SxTime, rdev_major: u32, rdev_minor: u32,
        dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
    StatxOut { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx }
    ForgetIn { nlookup: u64 }
    BatchForgetIn { count: u32, dummy: u32 }
    ForgetOne { nodeid: u64, nlookup: u64 }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { newdir: u64 }
    Rename2In { newdir: u64, flags: u32, padding: u32 }
    LinkIn { oldnodeid: u64 }
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: i64, mtime: i64,
        ctime: i64, atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32,
        uid: u32, gid: u32, unused5: u32,
    }
    OpenIn { flags: u32, open_flags: u32 }
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    OpenOut { fh: u64, open_flags: u32, backing_id: i32 }
    CreateOut { entry: EntryOut, open: OpenOut }
    ReadIn {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    WriteIn {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    WriteOut { size: u32, padding: u32 }
    StatfsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32,
        frsize: u32, padding: u32, spare: [u32; 6],
    }
    SetxattrIn { size: u32, flags: u32 }
    GetxattrIn { size: u32, padding: u32 }
    GetxattrOut { size: u32, padding: u32 }
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }
    LseekOut { offset: u64 }
    CopyFileRangeIn {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }
    NotifyInvalInode { ino: u64, off: i64, len: i64 }
    NotifyInvalEntry { parent: u64, namelen: u32, flags: u32 }
}

/// Declares the operations with their numbers.
macro_rules! opcodes {
    ($($name:ident = $code:literal),* $(,)?) => {
        /// The kind of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Opcode { $($name = $code),* }

        impl Opcode {
            /// Returns the operation with this number, if it is known here.
            pub fn from_code(code: u32) -> Option<Self> {
                Some(match code { $($code => Self::$name,)* _ => return None })
            }
        }
    };
}

opcodes! {
    Lookup = 1, Forget = 2, Getattr = 3, Setattr = 4, Readlink = 5, Symlink = 6, Mknod = 8,
    Mkdir = 9, Unlink = 10, Rmdir = 11, Rename = 12, Link = 13, Open = 14, Read = 15, Write = 16,
    Statfs = 17, Release = 18, Fsync = 20, Setxattr = 21, Getxattr = 22, Listxattr = 23,
    Removexattr = 24, Flush = 25, Init = 26, Opendir = 27, Readdir = 28, Releasedir = 29,
    Fsyncdir = 30, Create = 35, Interrupt = 36, Destroy = 38, Ioctl = 39, BatchForget = 42, Fallocate = 43,
    Readdirplus = 44, Rename2 = 45, Lseek = 46, CopyFileRange = 47, Syncfs = 50, Tmpfile = 51,
    Statx = 52,
}

bitflags! {
    /// Which fields of [`SetattrIn`] count (`FATTR_…`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fattr: u32 {
        const MODE = 1;
        const UID = 1 << 1;
        const GID = 1 << 2;
        const SIZE = 1 << 3;
        const ATIME = 1 << 4;
        const MTIME = 1 << 5;
        const FH = 1 << 6;
        const ATIME_NOW = 1 << 7;
        const MTIME_NOW = 1 << 8;
        const CTIME = 1 << 10;
        /// Setuid and setgid go.
        const KILL_SUIDGID = 1 << 11;
        const _ = !0;
    }

    /// How the kernel treats an open file (`FOPEN_…`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fopen: u32 {
        const DIRECT_IO = 1;
        /// The cache of the file stays.
        const KEEP_CACHE = 1 << 1;
        const NOFLUSH = 1 << 5;
        const PARALLEL_DIRECT_WRITES = 1 << 6;
    }
}

/// `open_flags` of [`OpenIn`] and [`CreateIn`]: setuid and setgid go (`FUSE_OPEN_KILL_SUIDGID`).
pub const OPEN_KILL_SUIDGID: u32 = 1;
/// `write_flags` of [`WriteIn`]: setuid and setgid go (`FUSE_WRITE_KILL_SUIDGID`).
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `flags` of [`IoctlIn`]: the inode is a directory (`FUSE_IOCTL_DIR`).
pub const IOCTL_DIR: u32 = 1 << 4;

/// Codes of messages to the kernel that nothing asked for.
pub mod notify {
    /// Attributes and cached content of an inode are stale
    /// ([`NotifyInvalInode`](super::NotifyInvalInode)).
    pub const INVAL_INODE: i32 = 2;
    /// A name is stale ([`NotifyInvalEntry`](super::NotifyInvalEntry), then the name and a NUL).
    pub const INVAL_ENTRY: i32 = 3;
}
