//! Carries requests of the kernel to [`Operations`], by the crate `fuser`.
//!
//! Everything particular to the protocol is here: node ids, the encoding of devices and times, how
//! long the kernel may cache, and the features of the protocol that are asked for.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use xfskit_format::inode::FileType;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::Ino;
use xfskit_vfs::{NewNode, RenameMode, Seek, SetMode, Stat};

use crate::operations::{
    Caller, Changes, Fallocate, Listed, Node, Open, Operations, Reply, Room, SetTime,
};
use crate::statistics::{Kind, Statistics};

/// How long the kernel may cache: this process is the only writer.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of one request.
const REQUEST: u32 = 1 << 20;
/// Requests in the background (readahead, writeback) that the kernel sends at once.
const BACKGROUND: u16 = 64;

/// Features of the protocol that make the mount faster or more complete; each is used if the kernel
/// has it.
const FEATURES: &[InitFlags] = &[
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_EXPORT_SUPPORT,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_HAS_IOCTL_DIR,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_WRITEBACK_CACHE,
    InitFlags::FUSE_NO_OPEN_SUPPORT,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

/// Flags of setxattr(2).
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

/// Flags of fallocate(2).
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

/// Whences of lseek(2) that are sent.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Flags of open(2).
const O_TRUNC: i32 = 0o1000;
const O_APPEND: i32 = 0o2000;

/// Passes requests on to operations, and replies.
#[derive(Debug)]
pub(crate) struct Transport<O> {
    operations: Arc<O>,
    statistics: Arc<Statistics>,
    no_open: bool,
}

impl<O: Operations> Transport<O> {
    pub(crate) fn new(operations: Arc<O>, statistics: Arc<Statistics>, no_open: bool) -> Self {
        Self { operations, statistics, no_open }
    }

    /// Returns the inode with the kernel's `node` id: only the root differs.
    fn ino(&self, node: INodeNo) -> Ino {
        if node == INodeNo::ROOT { self.operations.root() } else { Ino(node.0) }
    }

    fn entry(node: Reply<Node>, reply: ReplyEntry) {
        match node {
            Ok(Node { stat }) => reply.entry(&DAY, &attributes(&stat), generation(&stat)),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Makes a node with the requested mode, owned by the caller.
    fn make(&self, req: &Request, dir: INodeNo, name: &OsStr, new: NewNode, reply: ReplyEntry) {
        let new = new.owner(req.uid(), req.gid());
        Self::entry(self.operations.make(self.ino(dir), name.as_bytes(), &new), reply);
    }
}

impl<O: Operations> Filesystem for Transport<O> {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for &feature in FEATURES {
            if config.add_capabilities(feature).is_err() {
                tracing::info!(?feature, "the kernel does not have this");
            }
        }
        // A smaller value than asked for is the largest possible.
        let _ = config.set_max_write(REQUEST);
        if let Err(most) = config.set_max_readahead(REQUEST) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _timer = self.statistics.time(Kind::Lookup);
        match self.operations.lookup(self.ino(parent), name.as_bytes()) {
            Ok(Some(node)) => Self::entry(Ok(node), reply),
            // Node id 0: the kernel remembers that there is no such name.
            Ok(None) => reply.entry(&DAY, &no_entry(), Generation(0)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        let _timer = self.statistics.time(Kind::Forget);
        self.operations.forget(self.ino(ino), nlookup);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let _timer = self.statistics.time(Kind::GetAttr);
        attr(self.operations.stat(self.ino(ino)), reply);
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _timer = self.statistics.time(Kind::SetAttr);
        let changes = Changes {
            perm: mode.map(permissions),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            ctime: ctime.map(timestamp),
        };
        attr(self.operations.change(caller(req), self.ino(ino), &changes), reply);
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        let _timer = self.statistics.time(Kind::ReadLink);
        match self.operations.read_link(self.ino(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _timer = self.statistics.time(Kind::MkNod);
        let mode = mode_bits(mode);
        let is_device =
            matches!(FileType::from_mode(mode), Some(FileType::CharDevice | FileType::BlockDevice));
        let rdev = is_device.then(|| device(rdev));
        let new = NewNode { mode, umask: permissions(umask), rdev, ..NewNode::default() };
        self.make(req, parent, name, new, reply);
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let _timer = self.statistics.time(Kind::MkDir);
        let new = NewNode { umask: permissions(umask), ..NewNode::directory(permissions(mode)) };
        self.make(req, parent, name, new, reply);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let _timer = self.statistics.time(Kind::Symlink);
        let new = NewNode::symlink(target.as_os_str().as_bytes());
        self.make(req, parent, link_name, new, reply);
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _timer = self.statistics.time(Kind::Unlink);
        empty(self.operations.unlink(self.ino(parent), name.as_bytes()), reply);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _timer = self.statistics.time(Kind::RmDir);
        empty(self.operations.rmdir(self.ino(parent), name.as_bytes()), reply);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _timer = self.statistics.time(Kind::Rename);
        let mode = if flags.is_empty() {
            RenameMode::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            RenameMode::NoReplace
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            RenameMode::Exchange
        } else {
            return reply.error(Errno::EINVAL);
        };
        let (from, to) = (self.ino(parent), self.ino(newparent));
        let (from, to) = ((from, name.as_bytes()), (to, newname.as_bytes()));
        empty(self.operations.rename(from, to, mode), reply);
    }

    fn link(
        &self,
        _req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let _timer = self.statistics.time(Kind::Link);
        let (ino, dir) = (self.ino(ino), self.ino(newparent));
        Self::entry(self.operations.link(ino, dir, newname.as_bytes()), reply);
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _timer = self.statistics.time(Kind::Open);
        if self.no_open {
            return reply.error(Errno::ENOSYS);
        }
        let how = Open {
            write: flags.acc_mode() != OpenAccMode::O_RDONLY,
            append: flags.0 & O_APPEND != 0,
            truncate: flags.0 & O_TRUNC != 0,
        };
        match self.operations.open(caller(req), self.ino(ino), how) {
            Ok(()) => reply.opened(FileHandle(0), OPENED),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let _timer = self.statistics.time(Kind::Create);
        let new = NewNode { umask: permissions(umask), ..NewNode::file(permissions(mode)) };
        let new = new.owner(req.uid(), req.gid());
        match self.operations.create(self.ino(parent), name.as_bytes(), &new) {
            Ok(Node { stat }) => {
                reply.created(&DAY, &attributes(&stat), generation(&stat), FileHandle(0), OPENED);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let _timer = self.statistics.time(Kind::Release);
        self.operations.release(self.ino(ino));
        reply.ok();
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _timer = self.statistics.time(Kind::Read);
        let (size, mut reply) = (xfskit_units::index(u64::from(size)), Some(reply));
        let read = self.operations.read(self.ino(ino), offset, size, &mut |bytes| {
            if let Some(reply) = reply.take() {
                reply.data(bytes);
            }
        });
        if let (Err(error), Some(reply)) = (read, reply) {
            reply.error(errno(error));
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _timer = self.statistics.time(Kind::Write);
        let kill_bits = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.operations.write(self.ino(ino), offset, data, kill_bits) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Nothing happens at a close: the kernel is told not to send it.
    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let _timer = self.statistics.time(Kind::FSync);
        empty(self.operations.fsync(self.ino(ino)), reply);
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let _timer = self.statistics.time(Kind::FSyncDir);
        empty(self.operations.fsync(self.ino(ino)), reply);
    }

    /// Directories have no state: the kernel is told not to open them.
    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let _timer = self.statistics.time(Kind::OpenDir);
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let _timer = self.statistics.time(Kind::ReadDir);
        let listed = self.operations.list(self.ino(ino), offset, &mut |entry| {
            let kind = kind(entry.file_type);
            let name = OsStr::from_bytes(&entry.name);
            room(reply.add(INodeNo(entry.ino.0), entry.cookie, kind, name))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _timer = self.statistics.time(Kind::ReadDirPlus);
        let mut add = |entry: &Listed, node: Option<&Node>| {
            let name = OsStr::from_bytes(&entry.name);
            let full = if let Some(Node { stat }) = node {
                let (attr, generation) = (attributes(stat), generation(stat));
                reply.add(attr.ino, entry.cookie, name, &DAY, &attr, generation)
            } else {
                // Node id 0: an entry without a lookup.
                let kind = kind(entry.file_type);
                let attr = FileAttr { ino: INodeNo(entry.ino.0), kind, ..no_entry() };
                reply.add(INodeNo(0), entry.cookie, name, &Duration::ZERO, &attr, Generation(0))
            };
            room(full)
        };
        match self.operations.list_nodes(self.ino(ino), offset, &mut add) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let _timer = self.statistics.time(Kind::StatFs);
        let of = self.operations.statfs();
        let (blocks, free, size) = (of.blocks, of.blocks_free, of.blocksize);
        reply.statfs(blocks, free, free, of.inodes, of.inodes_free, size, of.name_max, size);
    }

    fn setxattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _timer = self.statistics.time(Kind::SetXattr);
        let mode = match flags & (XATTR_CREATE | XATTR_REPLACE) {
            0 => SetMode::Any,
            XATTR_CREATE => SetMode::Create,
            XATTR_REPLACE => SetMode::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        empty(self.operations.set_xattr(self.ino(ino), name.as_bytes(), value, mode), reply);
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _timer = self.statistics.time(Kind::GetXattr);
        sized(self.operations.xattr(self.ino(ino), name.as_bytes()), size, reply);
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _timer = self.statistics.time(Kind::ListXattr);
        sized(self.operations.xattr_names(caller(req), self.ino(ino)), size, reply);
    }

    fn removexattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _timer = self.statistics.time(Kind::RemoveXattr);
        empty(self.operations.remove_xattr(self.ino(ino), name.as_bytes()), reply);
    }

    /// The kernel checks permissions.
    fn access(&self, _req: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        let _timer = self.statistics.time(Kind::Ioctl);
        match self.operations.ioctl(caller(req), self.ino(ino), cmd, in_data) {
            Ok(bytes) => reply.ioctl(0, &bytes),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _timer = self.statistics.time(Kind::Fallocate);
        let keep_size = mode & KEEP_SIZE != 0;
        let how = match mode & !KEEP_SIZE {
            0 => Fallocate::Allocate { keep_size },
            ZERO_RANGE => Fallocate::Zero { keep_size },
            PUNCH_HOLE if keep_size => Fallocate::Punch,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        empty(self.operations.fallocate(self.ino(ino), offset, length, how), reply);
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _timer = self.statistics.time(Kind::LSeek);
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        match self.operations.seek(self.ino(ino), offset, what) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        ino_in: INodeNo,
        _fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _timer = self.statistics.time(Kind::CopyFileRange);
        // The reply counts in 32 bits, and programs ask again for the rest: whole blocks.
        let len = len.min(COPY_MAX);
        let (from, to) = (self.ino(ino_in), self.ino(ino_out));
        match self.operations.copy_range((from, offset_in), (to, offset_out), len) {
            Ok(copied) => reply.written(u32::try_from(copied).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }
}

/// Bytes that one request copies at most.
const COPY_MAX: u64 = 1 << 30;
/// How the kernel treats open files: it keeps what it cached.
const OPENED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE
    .union(FopenFlags::FOPEN_NOFLUSH)
    .union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

fn caller(req: &Request) -> Caller {
    Caller { uid: req.uid(), gid: req.gid() }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

fn room(full: bool) -> Room {
    if full { Room::Full } else { Room::Left }
}

fn empty(result: Reply<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn attr(stat: Reply<Stat>, reply: ReplyAttr) {
    match stat {
        Ok(stat) => reply.attr(&DAY, &attributes(&stat)),
        Err(error) => reply.error(errno(error)),
    }
}

/// Replies with a value, or its size if `size` is 0.
fn sized(value: Reply<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() as u64 > u64::from(size) => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

fn generation(stat: &Stat) -> Generation {
    Generation(u64::from(stat.generation))
}

fn attributes(stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(stat.ino.0),
        size: stat.size,
        blocks: stat.blocks,
        atime: system_time(stat.atime),
        mtime: system_time(stat.mtime),
        ctime: system_time(stat.ctime),
        crtime: SystemTime::UNIX_EPOCH, // the protocol's reply has no birth time
        kind: kind(stat.file_type),
        perm: stat.mode & 0o7777,
        nlink: stat.nlink,
        uid: stat.uid,
        gid: stat.gid,
        rdev: stat.rdev.map_or(0, encoded_device),
        blksize: 4096,
        flags: 0,
    }
}

/// Returns the attributes of no inode.
fn no_entry() -> FileAttr {
    let epoch = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: fuser::FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

fn kind(file_type: FileType) -> fuser::FileType {
    match file_type {
        FileType::Directory => fuser::FileType::Directory,
        FileType::CharDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::Symlink => fuser::FileType::Symlink,
        _ => fuser::FileType::RegularFile,
    }
}

/// Returns the lower 16 bits of a mode: type and permissions.
fn mode_bits(mode: u32) -> u16 {
    u16::try_from(mode & 0xffff).unwrap_or(0)
}

fn permissions(mode: u32) -> u16 {
    mode_bits(mode) & 0o7777
}

/// Decodes the protocol's device number: 12 bits of major between 8 and 12 bits of minor.
fn device(rdev: u32) -> (u32, u32) {
    (rdev >> 8 & 0xfff, rdev & 0xff | rdev >> 12 & 0xfff00)
}

fn encoded_device((major, minor): (u32, u32)) -> u32 {
    minor & 0xff | (major & 0xfff) << 8 | (minor & 0xfff00) << 12
}

fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::SpecificTime(time) => SetTime::At(timestamp(time)),
        TimeOrNow::Now => SetTime::Now,
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => {
            let sec = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            Timestamp { sec, nsec: since.subsec_nanos() }
        }
        Err(before) => {
            let before = before.duration();
            let sec = i64::try_from(before.as_secs()).map_or(i64::MIN, |sec| -sec);
            match before.subsec_nanos() {
                0 => Timestamp { sec, nsec: 0 },
                nsec => Timestamp { sec: sec.saturating_sub(1), nsec: 1_000_000_000 - nsec },
            }
        }
    }
}

fn system_time(time: Timestamp) -> SystemTime {
    let epoch = SystemTime::UNIX_EPOCH;
    let whole = Duration::from_secs(time.sec.unsigned_abs());
    let second = if time.sec < 0 { epoch.checked_sub(whole) } else { epoch.checked_add(whole) };
    let nsec = Duration::from_nanos(u64::from(time.nsec));
    second.and_then(|second| second.checked_add(nsec)).unwrap_or(epoch)
}
