//! The operation of each request.

use std::io;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use rustix::io::Errno;
use xfskit_devfuse::init::{self, Features};
use xfskit_devfuse::message::{
    CopyFileRangeIn, CreateIn, EntryOut, FallocateIn, InHeader, InitIn, LseekIn, LseekOut,
    OPEN_KILL_SUIDGID, OpenIn, ReadIn, Rename2In, SetxattrIn, WRITE_KILL_SUIDGID, WriteOut,
};
use xfskit_devfuse::reply::{Listing, Sink};
use xfskit_devfuse::{Operation, Request};
use xfskit_format::inode::FileType;
use xfskit_units::{Ino, index};
use xfskit_vfs::{NewNode, RenameMode, Seek, SetMode};

use super::Transport;
use super::carried::Carried;
use super::encode::{self, mode_bits, permissions};
use super::replier::Replier;
use super::watch::Expected;
use crate::ioctl::Ioctl;
use crate::operations::{Caller, Fallocate, Open, Operations, Reply, Room};
use crate::server::is_stored_acl;
use crate::statistics::Kind;

/// Bytes that one request copies at most. The reply counts in 32 bits, and programs ask again for
/// the rest: whole blocks.
const COPY_MAX: u64 = 1 << 30;
/// Bytes of a read or write that takes long.
const LARGE: u32 = 128 << 10;
/// Time that a request takes which waits for a disk, at least: more than it costs to wake another
/// thread.
const DISK: Duration = Duration::from_micros(60);

/// Time of one that waits for a slow disk, or for many others.
const SLOW: Duration = Duration::from_millis(1);

/// Flags of open(2).
const ACCESS: u32 = 3;
pub(super) const O_TRUNC: u32 = 0o1000;
const O_APPEND: u32 = 0o2000;
/// Flags of setxattr(2).
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;
/// Flags of renameat2(2).
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;
/// Flags of fallocate(2).
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;
/// Whences of lseek(2) that are sent.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl<O: Operations> Transport<O> {
    /// Returns how long a request should take: by its size, and by others of its kind lately.
    pub(super) fn expected<C: Carried>(&self, carried: &mut C) -> Expected {
        let (Some(request), _) = carried.open() else { return Expected::Quick };
        match &request.operation {
            Operation::Fsync | Operation::Fsyncdir | Operation::Syncfs => Expected::Long,
            Operation::Read(arg) if arg.size >= LARGE => Expected::Long,
            Operation::Write { arg, .. } if arg.size >= LARGE => Expected::Long,
            operation => match kind(operation).map(|kind| self.statistics.recent(kind)) {
                Some(time) if time >= SLOW => Expected::Long,
                Some(time) if time >= DISK => Expected::Disk,
                _ => Expected::Quick,
            },
        }
    }

    /// Serves one request. After a panic, which is this program's fault, it fails, and the
    /// operations decide what becomes of the others.
    pub(super) fn answer_safely<C: Carried>(&self, mut carried: C) -> io::Result<()> {
        let (request, mut sink) = carried.open();
        let answered = match request {
            Some(request) => {
                self.statistics.came(C::BY);
                let header = request.header;
                let expects_reply =
                    !matches!(request.operation, Operation::Forget(_) | Operation::BatchForget(_));
                let answer = AssertUnwindSafe(|| self.answer(request, &mut sink));
                std::panic::catch_unwind(answer).unwrap_or_else(|panic| {
                    tracing::error!(?header, "a request panicked");
                    self.operations.panicked(panic.as_ref());
                    if expects_reply { sink.reply(Err(Errno::IO)) } else { Ok(()) }
                })
            }
            // A kernel never sends such.
            None => sink.reply(Err(Errno::IO)),
        };
        drop(sink);
        carried.finish();
        answered
    }

    /// Serves one request.
    fn answer(&self, request: Request<'_>, sink: &mut dyn Sink) -> io::Result<()> {
        let _timer = kind(&request.operation).map(|kind| self.statistics.time(kind));
        let to = Replier { sink };
        let (ino, caller) = (self.ino(request.header.nodeid), caller(&request.header));
        let of = &self.operations;
        if needs_volume(&request.operation)
            && let Err(errno) = of.check_not_shut_down()
        {
            return to.fail(errno);
        }
        match request.operation {
            Operation::Init(init) => self.agree(to, &init),
            Operation::Destroy => to.empty(Ok(())),
            Operation::Lookup { name } => self.look_up(to, ino, name),
            Operation::Forget(arg) => {
                of.forget(ino, arg.nlookup);
                Ok(())
            }
            Operation::BatchForget(forgets) => {
                forgets.for_each(|one| of.forget(self.ino(one.nodeid), one.nlookup));
                Ok(())
            }
            Operation::Getattr => to.attr(of.stat(ino)),
            Operation::Statx(_) => to.with(of.stat(ino).map(|stat| encode::statx(&stat))),
            Operation::Setattr(arg) => to.attr(of.change(caller, ino, &encode::changes(&arg))),
            Operation::Readlink => to.bytes(of.read_link(ino)),
            Operation::Symlink { name, target } => {
                self.make(to, ino, name, NewNode::symlink(target), caller)
            }
            Operation::Mknod { arg, name } => {
                let rdev = is_device(arg.mode).then(|| encode::device(arg.rdev));
                let (mode, umask) = (mode_bits(arg.mode), permissions(arg.umask));
                let new = NewNode { mode, umask, rdev, ..NewNode::default() };
                self.make(to, ino, name, new, caller)
            }
            Operation::Mkdir { arg, name } => {
                let new = NewNode::directory(permissions(arg.mode));
                let new = NewNode { umask: permissions(arg.umask), ..new };
                self.make(to, ino, name, new, caller)
            }
            Operation::Unlink { name } => to.empty(of.unlink(ino, name)),
            Operation::Rmdir { name } => to.empty(of.rmdir(ino, name)),
            Operation::Rename { arg, name, new_name } => {
                to.empty(self.rename(caller, (ino, name), &arg, new_name))
            }
            Operation::Link { arg, name } => {
                let linked = of.link(self.ino(arg.oldnodeid), ino, name);
                to.entry(linked.map(Some).as_ref())
            }
            Operation::Open(_) if self.no_open => to.fail(Errno::NOSYS),
            Operation::Open(arg) => {
                to.with(of.open(caller, ino, how(arg)).map(|()| encode::opened()))
            }
            Operation::Create { arg, name } => {
                to.created(of.create(ino, name, &owned(&arg, caller)))
            }
            Operation::Tmpfile(arg) => to.created(of.create_unnamed(ino, &owned(&arg, caller))),
            Operation::Release => {
                of.release(ino);
                to.empty(Ok(()))
            }
            Operation::Read(arg) => self.read(to, ino, &arg),
            Operation::Write { arg, data } => {
                let kill_bits = arg.write_flags & WRITE_KILL_SUIDGID != 0;
                let written = of.write(caller, ino, arg.offset, data, kill_bits);
                to.with(written.map(|()| WriteOut { size: arg.size, padding: 0 }))
            }
            Operation::Fsync | Operation::Fsyncdir => to.empty(of.fsync(ino)),
            Operation::Syncfs => to.empty(of.sync()),
            Operation::Fallocate(arg) => self.fallocate(to, caller, &request.header, &arg),
            Operation::Lseek(arg) => {
                to.with(self.seek(ino, &arg).map(|offset| LseekOut { offset }))
            }
            Operation::CopyFileRange(arg) => to.with(self.copy(caller, ino, &arg)),
            Operation::Readdir(arg) => self.list(to, ino, &arg),
            Operation::Readdirplus(arg) => self.list_nodes(to, ino, &arg),
            Operation::Statfs => to.statfs(&of.statfs()),
            Operation::Setxattr { arg, name, value } => {
                let set = self.set_xattr(ino, arg, name, value);
                self.forget_acl(&request.header, name)?;
                to.empty(set)
            }
            Operation::Getxattr { arg, name } => to.sized(of.xattr(ino, name), arg.size),
            Operation::Listxattr(arg) => to.sized(of.xattr_names(caller, ino), arg.size),
            Operation::Removexattr { name } => {
                let removed = of.remove_xattr(ino, name);
                self.forget_acl(&request.header, name)?;
                to.empty(removed)
            }
            Operation::Ioctl { arg, argument } => {
                let done = of.ioctl(caller, ino, arg.cmd, argument);
                // It has changed the ctime. The kernel keeps that of a directory until it is told;
                // that of a file, whose writes it caches, is its own.
                if done.is_ok() && Ioctl::from_command(arg.cmd).is_some_and(Ioctl::changes_inode) {
                    self.channel.invalidate_attributes(request.header.nodeid)?;
                }
                to.ioctl(&arg, done)
            }
            // Directories have no state, and nothing happens at a close: the kernel is told not to
            // ask. A request that was interrupted ends as any other.
            Operation::Opendir
            | Operation::Releasedir
            | Operation::Flush
            | Operation::Interrupt
            | Operation::Unknown(_) => to.fail(Errno::NOSYS),
        }
    }

    fn look_up(&self, to: Replier<'_>, dir: Ino, name: &[u8]) -> io::Result<()> {
        let of = &self.operations;
        match of.lookup(dir, name) {
            // The parent of a directory that is opened by its handle. The kernel knows the root by
            // a number of its own, and does not forget it.
            Ok(Some(node)) if node.stat.ino == of.root() => {
                of.forget(node.stat.ino, 1);
                to.with(Ok(encode::root_entry(&node)))
            }
            found => to.entry(found.as_ref()),
        }
    }

    /// Makes a node, owned by the caller.
    fn make(
        &self,
        to: Replier<'_>,
        dir: Ino,
        name: &[u8],
        new: NewNode,
        caller: Caller,
    ) -> io::Result<()> {
        let made = self.operations.make(dir, name, &new.owner(caller.uid, caller.gid));
        to.entry(made.map(Some).as_ref())
    }

    fn rename(
        &self,
        caller: Caller,
        from: (Ino, &[u8]),
        arg: &Rename2In,
        new_name: &[u8],
    ) -> Reply<()> {
        let whiteout = (arg.flags & RENAME_WHITEOUT != 0)
            .then(|| NewNode::whiteout().owner(caller.uid, caller.gid));
        let mode = match arg.flags & !RENAME_WHITEOUT {
            0 => RenameMode::Replace,
            RENAME_NOREPLACE => RenameMode::NoReplace,
            RENAME_EXCHANGE if whiteout.is_none() => RenameMode::Exchange,
            _ => return Err(Errno::INVAL),
        };
        let to = (self.ino(arg.newdir), new_name);
        self.operations.rename(from, to, mode, whiteout.as_ref())
    }

    fn read(&self, to: Replier<'_>, ino: Ino, arg: &ReadIn) -> io::Result<()> {
        let size = index(u64::from(arg.size));
        let mut sent = None;
        let read = self.operations.read(ino, arg.offset, size, &mut |bytes| {
            sent = Some(to.sink.reply(Ok(bytes)));
        });
        match (read, sent) {
            (_, Some(sent)) => sent,
            (Err(error), None) => to.fail(error),
            (Ok(()), None) => to.fail(Errno::IO),
        }
    }

    fn fallocate(
        &self,
        to: Replier<'_>,
        caller: Caller,
        header: &InHeader,
        arg: &FallocateIn,
    ) -> io::Result<()> {
        let allocate = || {
            let end = arg.offset.checked_add(arg.length).ok_or(Errno::FBIG)?;
            let (ino, how) = (self.ino(header.nodeid), how_to_allocate(arg.mode)?);
            self.operations.fallocate(caller, ino, arg.offset..end, how)
        };
        let allocated = allocate();
        if allocated == Ok(true) {
            // Before the reply: the program may look at the mode next.
            self.channel.invalidate_attributes(header.nodeid)?;
        }
        to.empty(allocated.map(|_| ()))
    }

    fn seek(&self, ino: Ino, arg: &LseekIn) -> Reply<u64> {
        let what = match arg.whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return Err(Errno::INVAL),
        };
        self.operations.seek(ino, arg.offset, what)
    }

    fn copy(&self, caller: Caller, from: Ino, arg: &CopyFileRangeIn) -> Reply<WriteOut> {
        let to = (self.ino(arg.nodeid_out), arg.off_out);
        let len = arg.len.min(COPY_MAX);
        let copied = self.operations.copy_range(caller, (from, arg.off_in), to, len)?;
        Ok(WriteOut { size: u32::try_from(copied).unwrap_or(u32::MAX), padding: 0 })
    }

    fn list(&self, to: Replier<'_>, dir: Ino, arg: &ReadIn) -> io::Result<()> {
        let mut listing = Listing::new(arg.size);
        let listed = self.operations.list(dir, arg.offset, &mut |entry| {
            let kind = encode::kind(entry.file_type);
            room(listing.add(entry.ino.0, entry.cookie, kind, &entry.name))
        });
        to.listing(listed, &listing)
    }

    fn list_nodes(&self, to: Replier<'_>, dir: Ino, arg: &ReadIn) -> io::Result<()> {
        let mut listing = Listing::new(arg.size);
        let listed = self.operations.list_nodes(dir, arg.offset, &mut |entry, node| {
            // Without a node it is an entry without a lookup.
            let out = node.map_or_else(EntryOut::default, |node| encode::entry(Some(node)));
            let kind = encode::kind(entry.file_type);
            room(listing.add_plus(&out, entry.ino.0, entry.cookie, kind, &entry.name))
        });
        to.listing(listed, &listing)
    }

    fn set_xattr(&self, ino: Ino, arg: SetxattrIn, name: &[u8], value: &[u8]) -> Reply<()> {
        let mode = match arg.flags & (XATTR_CREATE | XATTR_REPLACE) {
            0 => SetMode::Any,
            XATTR_CREATE => SetMode::Create,
            XATTR_REPLACE => SetMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        self.operations.set_xattr(ino, name, value, mode)
    }

    /// Has the kernel forget the ACL that it keeps, if `name` is how it is stored.
    fn forget_acl(&self, header: &InHeader, name: &[u8]) -> io::Result<()> {
        if is_stored_acl(name) { self.channel.invalidate_attributes(header.nodeid) } else { Ok(()) }
    }

    /// Replies to INIT: with the features that both sides have.
    fn agree(&self, to: Replier<'_>, init: &InitIn) -> io::Result<()> {
        let (offered, wishes) = (init::offered(init), self.wishes());
        tracing::debug!(missing = ?wishes.features.difference(offered), "features of the kernel");
        let reply = init::reply(init, &wishes);
        let by_ring =
            reply.is_some_and(|reply| init::settled(&reply).contains(Features::OVER_IO_URING));
        self.statistics.set_ring(by_ring);
        to.with(reply.ok_or(Errno::PROTO))
    }
}

/// Returns true if the request fails once the volume was shut down. The others end the use of
/// something, or belong to the protocol.
fn needs_volume(operation: &Operation<'_>) -> bool {
    !matches!(
        operation,
        Operation::Init(_)
            | Operation::Destroy
            | Operation::Forget(_)
            | Operation::BatchForget(_)
            | Operation::Release
            | Operation::Releasedir
            | Operation::Statfs
            | Operation::Interrupt
            | Operation::Unknown(_)
    )
}

/// Returns the kind that a request is counted as.
fn kind(operation: &Operation<'_>) -> Option<Kind> {
    Some(match operation {
        Operation::Lookup { .. } => Kind::Lookup,
        Operation::Forget(_) | Operation::BatchForget(_) => Kind::Forget,
        Operation::Getattr => Kind::GetAttr,
        Operation::Statx(_) => Kind::Statx,
        Operation::Setattr(_) => Kind::SetAttr,
        Operation::Readlink => Kind::ReadLink,
        Operation::Symlink { .. } => Kind::Symlink,
        Operation::Mknod { .. } => Kind::MkNod,
        Operation::Mkdir { .. } => Kind::MkDir,
        Operation::Unlink { .. } => Kind::Unlink,
        Operation::Rmdir { .. } => Kind::RmDir,
        Operation::Rename { .. } => Kind::Rename,
        Operation::Link { .. } => Kind::Link,
        Operation::Open(_) => Kind::Open,
        Operation::Create { .. } => Kind::Create,
        Operation::Tmpfile(_) => Kind::TmpFile,
        Operation::Read(_) => Kind::Read,
        Operation::Write { .. } => Kind::Write,
        Operation::Statfs => Kind::StatFs,
        Operation::Release => Kind::Release,
        Operation::Fsync => Kind::FSync,
        Operation::Fsyncdir => Kind::FSyncDir,
        Operation::Syncfs => Kind::SyncFs,
        Operation::Setxattr { .. } => Kind::SetXattr,
        Operation::Getxattr { .. } => Kind::GetXattr,
        Operation::Listxattr(_) => Kind::ListXattr,
        Operation::Removexattr { .. } => Kind::RemoveXattr,
        Operation::Opendir => Kind::OpenDir,
        Operation::Readdir(_) => Kind::ReadDir,
        Operation::Readdirplus(_) => Kind::ReadDirPlus,
        Operation::Ioctl { .. } => Kind::Ioctl,
        Operation::Fallocate(_) => Kind::Fallocate,
        Operation::Lseek(_) => Kind::LSeek,
        Operation::CopyFileRange(_) => Kind::CopyFileRange,
        Operation::Init(_)
        | Operation::Destroy
        | Operation::Flush
        | Operation::Releasedir
        | Operation::Interrupt
        | Operation::Unknown(_) => return None,
    })
}

fn caller(header: &InHeader) -> Caller {
    Caller { uid: header.uid, gid: header.gid, privileged: header.uid == 0 }
}

fn how(arg: OpenIn) -> Open {
    Open {
        write: arg.flags & ACCESS != 0,
        append: arg.flags & O_APPEND != 0,
        truncate: arg.flags & O_TRUNC != 0,
        kill_bits: arg.open_flags & OPEN_KILL_SUIDGID != 0,
    }
}

fn how_to_allocate(mode: u32) -> Reply<Fallocate> {
    let keep_size = mode & KEEP_SIZE != 0;
    match mode & !KEEP_SIZE {
        0 => Ok(Fallocate::Allocate { keep_size }),
        ZERO_RANGE => Ok(Fallocate::Zero { keep_size }),
        PUNCH_HOLE if keep_size => Ok(Fallocate::Punch),
        _ => Err(Errno::OPNOTSUPP),
    }
}

fn owned(arg: &CreateIn, caller: Caller) -> NewNode {
    encode::new_file(arg).owner(caller.uid, caller.gid)
}

fn is_device(mode: u32) -> bool {
    let file_type = FileType::from_mode(mode_bits(mode));
    matches!(file_type, Some(FileType::CharDevice | FileType::BlockDevice))
}

fn room(fits: bool) -> Room {
    if fits { Room::Left } else { Room::Full }
}
