//! The Linux side: system calls in a mounted volume.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps,
    Uid, XattrFlags,
};
use rustix::io::Errno;
use xfskit_test_support::{Manifest, Xfsprogs};
use xfskit_vfs::RenameMode;

use crate::mem::{Id, Kind, Mem, OpError, OpResult};
use crate::operation::{Fallocate, New, Operation, Time, TwoFileOp};
use crate::ours::{Difference, may_hold, same, same_bytes};

/// A mounted volume, and an xfs_io that supports `exchangerange`.
#[derive(Debug)]
pub struct Linux {
    root: PathBuf,
    tools: Xfsprogs,
}

type SysResult<T = ()> = Result<T, Errno>;

impl Linux {
    /// Returns the Linux side of the volume mounted at `root`.
    pub fn new(root: &Path, tools: Xfsprogs) -> Self {
        Self { root: root.to_path_buf(), tools }
    }

    /// Applies `op` to the tree of `mem`. Returns the number of bytes copied, or 0 if it copies
    /// nothing.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn apply(&self, operation: &Operation, mem: &Mem) -> OpResult<u64> {
        let paths = mem.paths();
        let path = |id: Id| self.root.join(OsStr::from_bytes(&paths[&id]));
        let entry = |dir: Id, name: &[u8]| path(dir).join(OsStr::from_bytes(name));
        let done = match operation {
            Operation::Make { dir, name, new } => make(&path(*dir), &entry(*dir, name), new),
            Operation::Unnamed { dir, name, new } => {
                let to = name.as_ref().map(|name| entry(*dir, name));
                unnamed(&path(*dir), to.as_deref(), new)
            }
            Operation::Link { node, dir, name } => rustix::fs::link(path(*node), entry(*dir, name)),
            Operation::Unlink { dir, name } => rustix::fs::unlink(entry(*dir, name)),
            Operation::Rmdir { dir, name } => rustix::fs::rmdir(entry(*dir, name)),
            Operation::Rename { from, old, to, new, mode } => {
                let flags = match mode {
                    RenameMode::Replace => RenameFlags::empty(),
                    RenameMode::NoReplace => RenameFlags::NOREPLACE,
                    RenameMode::Exchange => RenameFlags::EXCHANGE,
                };
                rustix::fs::renameat_with(CWD, entry(*from, old), CWD, entry(*to, new), flags)
            }
            Operation::SetPerm { node, perm } => set_perm(&path(*node), *perm),
            // Linux clears setuid and setgid when the owner changes, so they are set again.
            Operation::SetOwner { node, owner } => {
                let is_link = matches!(mem.nodes[*node].kind, Kind::Symlink(_));
                set_owner(&path(*node), *owner).and_then(|()| {
                    if is_link { Ok(()) } else { set_perm(&path(*node), mem.nodes[*node].perm) }
                })
            }
            Operation::SetTimes { node, atime, mtime } => set_times(&path(*node), *atime, *mtime),
            Operation::SetXattr { node, name, value } => {
                rustix::fs::lsetxattr(path(*node), name.as_slice(), value, XattrFlags::empty())
            }
            Operation::RemoveXattr { node, name } => {
                rustix::fs::lremovexattr(path(*node), name.as_slice())
            }
            Operation::Write { node, offset, bytes } => {
                open(&path(*node)).and_then(|file| write(&file, *offset, bytes))
            }
            Operation::Truncate { node, size } => {
                open(&path(*node)).and_then(|file| rustix::fs::ftruncate(&file, *size))
            }
            Operation::Fallocate { node, how, range } => open(&path(*node)).and_then(|file| {
                let size = mem.size(*node);
                fallocate(&file, *how, range.start, range.end - range.start, size)
            }),
            Operation::TwoFile { node, offset, other, source, how } => {
                let (to, from) = (path(*node), path(*other));
                return self.between(*how, (&to, *offset), (&from, source), mem);
            }
            Operation::Label(label) => {
                let label = String::from_utf8_lossy(label);
                return self.xfs_io(&format!("label -s \"{label}\""), &self.root);
            }
            Operation::Fsync { node } => match mem.nodes[*node].kind {
                Kind::File(_) | Kind::Dir(_) => {
                    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                    rustix::fs::open(path(*node), flags, Mode::empty())
                        .and_then(|fd| rustix::fs::fsync(&fd))
                }
                _ => Ok(()),
            },
            Operation::Sync => rustix::fs::open(&self.root, OFlags::RDONLY, Mode::empty())
                .and_then(|fd| rustix::fs::syncfs(&fd)),
        };
        done.map(|()| 0).map_err(op_error)
    }

    fn between(
        &self,
        how: TwoFileOp,
        (to, offset): (&Path, u64),
        (from, source): (&Path, &std::ops::Range<u64>),
        mem: &Mem,
    ) -> OpResult<u64> {
        let len = source.end - source.start;
        if how == TwoFileOp::Share {
            let places = format!("{} {offset} {len}", source.start);
            return self.xfs_io(&format!("reflink {} {places}", from.display()), to);
        }
        if how == TwoFileOp::Copy {
            let both = open(to).and_then(|to| Ok((to, open(from)?)));
            let (to, from) = both.map_err(op_error)?;
            return copy(&to, offset, &from, source.clone()).map_err(op_error);
        }
        if !mem.facts.exchange || to == from {
            return Err(OpError::Invalid);
        }
        let range = match how {
            TwoFileOp::ExchangeRange => format!("-d {offset} -s {} -l {len} ", source.start),
            _ => String::new(),
        };
        self.xfs_io(&format!("exchangerange {range}{}", from.display()), to)
    }

    /// Runs an xfs_io command, for operations that only XFS ioctls offer.
    fn xfs_io(&self, command: &str, path: &Path) -> OpResult<u64> {
        let mut xfs_io = self.tools.command("xfs_io");
        let output = xfs_io.args(["-c", command]).arg(path).output();
        let output = output.map_err(|error| OpError::Failed(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // xfs_io exits with 0 after most errors, so its output decides.
        if text.is_empty() && output.status.success() {
            return Ok(0);
        }
        let refused = ["Invalid argument", "Operation not supported"];
        if refused.iter().any(|why| text.contains(why)) {
            return Err(OpError::Invalid);
        }
        Err(OpError::Failed(text))
    }

    /// Compares the model with `shown`, the tree of a read-only mount at the same root.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, shown: &Manifest, mem: &Mem) -> Result<(), Difference> {
        let mut inos = std::collections::HashMap::new();
        let mut listed = 1;
        for dir in mem.dirs() {
            let above = mem.paths()[&dir].clone();
            for (name, &id) in mem.entries(dir) {
                listed += 1;
                let path = match above.as_slice() {
                    b"" => [b"/", name.as_slice()].concat(),
                    above => [b"/", above, b"/", name.as_slice()].concat(),
                };
                let shown = shown.entries.get(&path);
                let entry = shown.ok_or_else(|| format!("{} is gone", path.escape_ascii()))?;
                same(&format!("inode of {id}"), &entry.ino, inos.entry(id).or_insert(entry.ino))?;
                self.compare_entry(id, entry, &path, mem)?;
            }
        }
        same("names", &shown.entries.len(), &listed)
    }

    fn compare_entry(
        &self,
        id: Id,
        entry: &xfskit_test_support::Entry,
        path: &[u8],
        mem: &Mem,
    ) -> Result<(), Difference> {
        let node = &mem.nodes[id];
        let (kind, rdev) = kind_of(&node.kind);
        same(&format!("mode of {id}"), &entry.mode, &(kind.as_raw_mode() | u32::from(node.perm)))?;
        same(&format!("owner of {id}"), &(entry.uid, entry.gid), &node.owner)?;
        same(&format!("nlink of {id}"), &entry.nlink, &node.nlink)?;
        same(&format!("rdev of {id}"), &entry.rdev, &rdev)?;
        same(&format!("xattrs of {id}"), &entry.xattrs, &node.xattrs)?;
        for (what, shown, expected) in
            [("atime", entry.atime, node.atime), ("mtime", entry.mtime, node.mtime)]
        {
            same(&format!("{what} of {id}"), &expected.map(|_| shown), &expected)?;
        }
        match &node.kind {
            Kind::Symlink(target) => {
                same(&format!("target of {id}"), &entry.target.as_ref(), &Some(target))
            }
            Kind::File(content) => {
                let file = self.root.join(OsStr::from_bytes(&path[1..]));
                let bytes = std::fs::read(file).map_err(|error| format!("read {id}: {error}"))?;
                same_bytes(id, &bytes, &content.bytes)?;
                let data = entry.data.iter().map(|&(start, len)| start..start + len);
                may_hold(id, &content.data, data, mem.facts.block)
            }
            _ => Ok(()),
        }
    }
}

fn kind_of(kind: &Kind) -> (FileType, (u32, u32)) {
    match kind {
        Kind::File(_) => (FileType::RegularFile, (0, 0)),
        Kind::Dir(_) => (FileType::Directory, (0, 0)),
        Kind::Symlink(_) => (FileType::Symlink, (0, 0)),
        Kind::Fifo => (FileType::Fifo, (0, 0)),
        Kind::Device(major, minor) => (FileType::CharacterDevice, (*major, *minor)),
    }
}

fn make(dir: &Path, path: &Path, new: &New) -> SysResult {
    let handed_down = dir.metadata().map_err(errno)?;
    match &new.kind {
        Kind::Symlink(target) => rustix::fs::symlink(target.as_slice(), path)?,
        kind @ (Kind::File(_) | Kind::Fifo | Kind::Device(..)) => {
            let (kind, (major, minor)) = kind_of(kind);
            let dev = rustix::fs::makedev(major, minor);
            rustix::fs::mknodat(CWD, path, kind, Mode::empty(), dev)?;
        }
        Kind::Dir(_) => rustix::fs::mkdir(path, Mode::empty())?,
    }
    let setgid = handed_down.mode() & 0o2000 != 0;
    let gid = if setgid { handed_down.gid() } else { new.owner.1 };
    set_owner(path, (new.owner.0, gid))?;
    match new.kind {
        Kind::Symlink(_) => Ok(()),
        Kind::Dir(_) if setgid => set_perm(path, new.perm | 0o2000),
        _ => set_perm(path, new.perm),
    }
}

fn unnamed(dir: &Path, to: Option<&Path>, new: &New) -> SysResult {
    let handed_down = dir.metadata().map_err(errno)?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(dir, flags, Mode::from_raw_mode(0o600))?);
    if let Kind::File(content) = &new.kind {
        write(&file, 0, &content.bytes)?;
    }
    let gid = if handed_down.mode() & 0o2000 != 0 { handed_down.gid() } else { new.owner.1 };
    let (uid, gid) = (Uid::from_raw(new.owner.0), Gid::from_raw(gid));
    rustix::fs::fchown(&file, Some(uid), Some(gid))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(new.perm.into()))?;
    match to {
        Some(to) => rustix::fs::linkat(&file, "", CWD, to, AtFlags::EMPTY_PATH),
        None => Ok(()),
    }
}

fn set_perm(path: &Path, perm: u16) -> SysResult {
    // Does not follow symbolic links: their targets lie outside the tree.
    if path.symlink_metadata().map_err(errno)?.is_symlink() {
        return Err(Errno::OPNOTSUPP);
    }
    rustix::fs::chmod(path, Mode::from_raw_mode(perm.into()))
}

fn set_owner(path: &Path, (uid, gid): (u32, u32)) -> SysResult {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

fn set_times(path: &Path, atime: Time, mtime: Time) -> SysResult {
    let spec = |(sec, nsec): Time| Timespec { tv_sec: sec, tv_nsec: nsec.into() };
    let times = Timestamps { last_access: spec(atime), last_modification: spec(mtime) };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

fn open(path: &Path) -> SysResult<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn write(file: &File, offset: u64, bytes: &[u8]) -> SysResult {
    file.write_all_at(bytes, offset).map_err(errno)
}

fn fallocate(file: &File, how: Fallocate, start: u64, len: u64, size: u64) -> SysResult {
    let keep = |keep: bool| if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
    let flags = match how {
        Fallocate::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        Fallocate::Zero { keep_size } => FallocateFlags::ZERO_RANGE | keep(keep_size),
        Fallocate::Preallocate { keep_size } => keep(keep_size),
        Fallocate::Collapse => FallocateFlags::COLLAPSE_RANGE,
        Fallocate::Insert => FallocateFlags::INSERT_RANGE,
        Fallocate::Unshare => FallocateFlags::UNSHARE_RANGE | FallocateFlags::KEEP_SIZE,
    };
    let len = if how == Fallocate::Unshare { len.min(size.saturating_sub(start)) } else { len };
    if len == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, flags, start, len) {
        // A volume without reflink has no shared extents to unshare.
        Err(Errno::OPNOTSUPP) if how == Fallocate::Unshare => Ok(()),
        result => result,
    }
}

fn copy(to: &File, offset: u64, from: &File, source: std::ops::Range<u64>) -> SysResult<u64> {
    let (mut start, mut at) = (source.start, offset);
    while start < source.end {
        let left = usize::try_from(source.end - start).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(from, Some(&mut start), to, Some(&mut at), left)?;
        if copied == 0 {
            break;
        }
    }
    Ok(start - source.start)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn op_error(errno: Errno) -> OpError {
    match errno {
        Errno::EXIST => OpError::Exists,
        Errno::NOENT | Errno::NODATA => OpError::NoEntry,
        Errno::NOTEMPTY => OpError::NotEmpty,
        Errno::NOSPC => OpError::NoSpace,
        Errno::INVAL | Errno::ISDIR | Errno::NOTDIR | Errno::PERM | Errno::OPNOTSUPP => {
            OpError::Invalid
        }
        other => OpError::Failed(other.to_string()),
    }
}
