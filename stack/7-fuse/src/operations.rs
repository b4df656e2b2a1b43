//! The operations of a mounted filesystem, as the kernel asks for them, whatever carries the
//! requests.
//!
//! Inodes are named by their number; the transport translates the kernel's node ids. An operation
//! that returns a [`Node`] adds one to the kernel's references of it, which
//! [`forget`](Operations::forget) takes back.

use std::any::Any;
use std::ops::Range;

use rustix::io::Errno;
use xfskit_format::inode::FileType;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::Ino;
use xfskit_vfs::{NewNode, RenameMode, Stat};

use crate::freeze::Gate;

/// The result of an operation; the error is what the program gets.
pub type Reply<T> = Result<T, Errno>;

/// The process that made a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// User for filesystem access.
    pub uid: u32,
    /// Group for filesystem access.
    pub gid: u32,
    /// It is root of the machine, whatever its ids are in the volume.
    pub privileged: bool,
}

impl Caller {
    /// Returns true for root, which has every capability as far as the protocol tells.
    pub fn is_root(self) -> bool {
        self.privileged
    }
}

/// An inode that the kernel may refer to by its number from now on.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its metadata, with number and generation.
    pub stat: Stat,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// For writing.
    pub write: bool,
    /// Writes go to its end.
    pub append: bool,
    /// It is emptied first.
    pub truncate: bool,
    /// … and the caller may not keep setuid and setgid.
    pub kill_bits: bool,
}

/// A time to set.
#[derive(Clone, Copy, Debug)]
pub enum SetTime {
    /// This time.
    At(Timestamp),
    /// The server's time.
    Now,
}

/// The attributes to set; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Permissions with setuid, setgid and sticky.
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of content.
    pub mtime: Option<SetTime>,
    /// Last change of the inode; sent by a kernel that caches writes.
    pub ctime: Option<Timestamp>,
    /// The caller may not keep setuid and setgid where the size changes.
    pub kill_bits: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name; `.` and `..` too.
    pub name: Vec<u8>,
    /// Its inode.
    pub ino: Ino,
    /// Its type, as the directory has it.
    pub file_type: FileType,
    /// The offset where a listing continues behind it.
    pub cookie: u64,
}

/// How a listing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The reply has room for another entry.
    Left,
    /// The entry did not fit.
    Full,
}

/// What [`Operations::fallocate`] does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Allocates blocks, which read as zeroes.
    Allocate {
        /// The size stays as it is.
        keep_size: bool,
    },
    /// Makes a hole.
    Punch,
    /// Makes it zeroes, with blocks.
    Zero {
        /// The size stays as it is.
        keep_size: bool,
    },
}

/// Size and free space of the volume.
pub use xfskit_vfs::Statfs;

/// The operations. All threads call them.
#[allow(missing_docs)] // each is the system call of its name
pub trait Operations: Send + Sync + 'static {
    /// The inode that the kernel knows without a lookup.
    fn root(&self) -> Ino;
    /// The gate that each request passes: one that changes something runs while it is open. A
    /// read that updates an atime passes by itself.
    fn gate(&self) -> &Gate;
    /// Fails if nothing works any more: the volume was shut down.
    fn check_not_shut_down(&self) -> Reply<()>;
    /// Called after an operation panicked, with what the panic was about.
    fn panicked(&self, panic: &(dyn Any + Send));

    /// Returns the node of `name`, or `None` if there is none.
    fn lookup(&self, dir: Ino, name: &[u8]) -> Reply<Option<Node>>;
    /// Takes back `count` references of `ino`.
    fn forget(&self, ino: Ino, count: u64);

    fn make(&self, dir: Ino, name: &[u8], new: &NewNode) -> Reply<Node>;
    /// Makes a regular file like [`make`](Self::make), and opens it.
    fn create(&self, dir: Ino, name: &[u8], new: &NewNode) -> Reply<Node>;
    /// Makes a regular file without a name, and opens it. `dir` is where it would be.
    fn create_unnamed(&self, dir: Ino, new: &NewNode) -> Reply<Node>;
    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Reply<Node>;
    fn unlink(&self, dir: Ino, name: &[u8]) -> Reply<()>;
    fn rmdir(&self, dir: Ino, name: &[u8]) -> Reply<()>;
    /// Makes `whiteout`, if there is one, under the old name.
    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        whiteout: Option<&NewNode>,
    ) -> Reply<()>;
    fn read_link(&self, ino: Ino) -> Reply<Vec<u8>>;

    fn stat(&self, ino: Ino) -> Reply<Stat>;
    fn change(&self, caller: Caller, ino: Ino, changes: &Changes) -> Reply<Stat>;
    fn statfs(&self) -> Statfs;

    /// Opens a file.
    fn open(&self, caller: Caller, ino: Ino, how: Open) -> Reply<()>;
    fn release(&self, ino: Ino);
    /// Reads at most `size` bytes, and passes them to `done`, in order.
    fn read(&self, ino: Ino, offset: u64, size: usize, done: &mut dyn FnMut(&[&[u8]]))
    -> Reply<()>;
    /// Writes all of `data`. `kill_bits`: the writer may not keep setuid and setgid.
    fn write(
        &self,
        caller: Caller,
        ino: Ino,
        offset: u64,
        data: &[u8],
        kill_bits: bool,
    ) -> Reply<()>;
    fn fsync(&self, ino: Ino) -> Reply<()>;
    /// Makes everything durable.
    fn sync(&self) -> Reply<()>;
    /// Returns true if the file has lost setuid or setgid, which the kernel does not know.
    fn fallocate(&self, caller: Caller, ino: Ino, range: Range<u64>, how: Fallocate)
    -> Reply<bool>;
    fn seek(&self, ino: Ino, offset: u64, what: xfskit_vfs::Seek) -> Reply<u64>;
    fn copy_range(&self, caller: Caller, from: (Ino, u64), to: (Ino, u64), len: u64) -> Reply<u64>;

    /// Passes entries from `cookie` on to `each`, until one does not fit.
    fn list(&self, dir: Ino, cookie: u64, each: &mut dyn FnMut(&Listed) -> Room) -> Reply<()>;
    /// Lists like [`list`](Self::list), and looks each entry up but `.` and `..`.
    fn list_nodes(
        &self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(&Listed, Option<&Node>) -> Room,
    ) -> Reply<()>;

    fn xattr(&self, ino: Ino, name: &[u8]) -> Reply<Vec<u8>>;
    /// Returns the names, a zero byte behind each.
    fn xattr_names(&self, caller: Caller, ino: Ino) -> Reply<Vec<u8>>;
    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: xfskit_vfs::SetMode,
    ) -> Reply<()>;
    fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Reply<()>;

    /// An ioctl with its argument; returns the result. `ENOTTY` for an unknown one.
    fn ioctl(&self, caller: Caller, ino: Ino, command: u32, argument: &[u8]) -> Reply<Vec<u8>>;
}
