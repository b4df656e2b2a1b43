//! Reads a directory with everything below it, on a few threads of std: the newest task is always
//! next, on whichever thread, so that the depth of the tree bounds the open directories.
//!
//! The work is a heap of tasks: list a directory, or examine some of its names. The results of a
//! task go into the draft in one step, under the one lock. The order of tasks differs from run to
//! run, but the draft's names do not, and the nodes are numbered later.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use rustix::fs::{self, Access, AtFlags, FileType, OFlags, RawDir, Statx, StatxFlags};
use rustix::io::Errno;
use xfskit_format::timestamp::Timestamp;

use super::content::ContentLocation;
use super::disk::{PATH_MAX, Root, push_path};
use super::draft::{Draft, DraftKind, InodeId};
use super::tree::{Meta, Xattr, XattrsId};
use super::xattr::Xattrs;
use super::{OnProgress, Progress, SourceError};

/// Number of names in one task.
const NAMES_PER_TASK: usize = 1024;
/// Size of the buffer for one call on attributes, which returns the list of names or a value. Linux
/// has no longer ones.
const XATTR_MAX: usize = 64 << 10;
/// Attributes that are read by name because Linux does not list them: those that control access.
const OF_ACCESS: &[u8] =
    b"system.posix_acl_access\0system.posix_acl_default\0security.capability\0security.selinux";
/// Filesystems whose files all have size 0 although they have content: proc, cgroup, cgroup2,
/// debugfs, tracefs and securityfs, by the magic numbers of statfs(2).
const SIZELESS: [u32; 6] =
    [0x9fa0, 0x0027_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163, 0x7363_6673];
/// Number of threads: more than a few wait for each other's directories in the kernel.
const THREADS: usize = 4;
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory that is being read.
struct Dir {
    fd: OwnedFd,
    /// Path below the root.
    path: Vec<u8>,
    inode: InodeId,
}

type Name = Box<[u8]>;

enum Task {
    List { path: Vec<u8>, inode: InodeId },
    Examine { dir: Arc<Dir>, names: Vec<Name> },
}

/// One name that was examined.
struct Found {
    name: Name,
    stat: Statx,
    target: Box<[u8]>,
    attributes: Attributes,
}

/// Attributes of an inode, which `stat` does not return.
struct Attributes {
    xattrs: Vec<Xattr>,
    perm: u16,
    /// Number of attributes for which XFS has no namespace.
    foreign: u64,
    /// The reason why some are missing.
    left_out: Option<SourceError>,
}

impl Attributes {
    /// Adds everything but the permissions to the draft.
    fn keep(self, draft: &mut Draft, path: &[u8]) -> Result<XattrsId, SourceError> {
        draft.notes.foreign_xattrs += self.foreign;
        draft.notes.left_out.extend(self.left_out);
        Ok(draft.keep_xattrs(path, self.xattrs)?.0)
    }
}

/// State that the threads share, under one lock.
struct Shared<'d> {
    draft: &'d mut Draft,
    tasks: Vec<Task>,
    /// Tasks that are running.
    busy: usize,
    /// Files with several names, by device and inode number.
    links: HashMap<(u64, u64), InodeId>,
    /// True for devices whose files have content but size 0: [`SIZELESS`].
    sizeless: HashMap<u64, bool>,
    progress: &'d mut Progress,
    failed: Option<SourceError>,
}

/// The root of a walk, and what it leaves out.
pub(super) struct Start<'w> {
    pub(super) root: &'w Root,
    /// Number of the root among the stores.
    pub(super) number: u16,
    /// Only this name of the root, and everything below it.
    pub(super) only: Option<&'w [u8]>,
    /// Device and inode number of files to leave out.
    pub(super) exclude: &'w [(u64, u64)],
    /// Fails if something has to be left out.
    pub(super) strict: bool,
    /// Applies whiteouts.
    pub(super) whiteouts: bool,
}

impl Start<'_> {
    /// Returns true for a name in `dir` that was found, not requested.
    fn is_found(&self, dir: &Dir) -> bool {
        self.only.is_none() || !dir.path.is_empty()
    }

    /// Refuses incomplete attributes if [`strict`](Self::strict) is set.
    fn complete(&self, mut attributes: Attributes) -> Result<Attributes, SourceError> {
        match attributes.left_out.take_if(|_| self.strict) {
            Some(error) => Err(error),
            None => Ok(attributes),
        }
    }
}

impl Shared<'_> {
    /// Returns true if `stat`'s file in `dir` is on a filesystem of [`SIZELESS`].
    fn is_sizeless(&mut self, dir: &Dir, stat: &Statx) -> bool {
        let known = self.sizeless.entry(identity(stat).0);
        *known.or_insert_with(|| {
            fs::fstatfs(&dir.fd).is_ok_and(|found| {
                u32::try_from(found.f_type).is_ok_and(|magic| SIZELESS.contains(&magic))
            })
        })
    }
}

struct Walk<'w> {
    start: &'w Start<'w>,
    on_progress: OnProgress<'w>,
    shared: Mutex<Shared<'w>>,
    more: Condvar,
}

/// Adds a directory to the draft.
pub(super) fn walk(
    draft: &mut Draft,
    start: &Start<'_>,
    progress: &mut Progress,
    on_progress: OnProgress<'_>,
) -> Result<(), SourceError> {
    let mut buffers = Buffers::new();
    let root = start.root;
    let failed = |error| SourceError::io(&root.shown(b""), error);
    let top = root.open_at(b"", DIRECTORY).map_err(failed)?;
    let stat =
        fs::statx(&top, &b""[..], AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map_err(failed)?;
    let attributes = start.complete(buffers.xattrs(&root.shown(b""), stat.stx_mode)?)?;
    let perm = attributes.perm;
    let xattrs = attributes.keep(draft, b"")?;
    draft.set(Draft::ROOT, meta(&stat, perm), xattrs);
    let first = match start.only {
        None => Task::List { path: Vec::new(), inode: Draft::ROOT },
        Some(name) => {
            let fd = root.open_at(b"", DIRECTORY).map_err(failed)?;
            let dir = Arc::new(Dir { fd, path: Vec::new(), inode: Draft::ROOT });
            Task::Examine { dir, names: vec![name.into()] }
        }
    };
    let shared = Shared {
        draft,
        tasks: vec![first],
        busy: 0,
        links: HashMap::new(),
        sizeless: HashMap::new(),
        progress,
        failed: None,
    };
    let walk = Walk { start, on_progress, shared: Mutex::new(shared), more: Condvar::new() };
    let threads = thread::available_parallelism().map_or(1, |n| n.get().min(THREADS));
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| walk.work(&mut Buffers::new()));
        }
        walk.work(&mut buffers);
    });
    let shared = walk.shared.into_inner();
    shared.failed.map_or(Ok(()), Err)
}

impl Walk<'_> {
    /// Runs tasks until there are none, or one failed.
    fn work(&self, buffers: &mut Buffers) {
        let mut shared = self.shared.lock();
        loop {
            if shared.failed.is_some() {
                break;
            }
            let Some(task) = shared.tasks.pop() else {
                if shared.busy == 0 {
                    break;
                }
                self.more.wait(&mut shared);
                continue;
            };
            shared.busy += 1;
            drop(shared);
            let done = self.task(task, buffers);
            shared = self.shared.lock();
            shared.busy -= 1;
            if let Err(error) = done {
                shared.failed.get_or_insert(error);
            }
            self.more.notify_all();
        }
        self.more.notify_all();
    }

    fn task(&self, task: Task, buffers: &mut Buffers) -> Result<(), SourceError> {
        let (dir, names) = match task {
            Task::List { path, inode } if path.is_empty() => self.list(path, inode)?,
            Task::List { path, inode } => {
                let listed = self.list(path.clone(), inode);
                let Some(listed) = self.tolerate(&path, listed)? else { return Ok(()) };
                listed
            }
            Task::Examine { dir, names } => (dir, names),
        };
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let looked = self.look(&dir, name, buffers);
            found.extend(self.tolerate(&dir.path, looked)?.flatten());
        }
        self.merge(&dir, found)
    }

    /// Leaves out a name, or a directory, that was removed after its directory was listed. The
    /// requested name itself must exist.
    fn tolerate<T>(
        &self,
        dir: &[u8],
        done: Result<T, SourceError>,
    ) -> Result<Option<T>, SourceError> {
        let is_asked_for = dir.is_empty() && self.start.only.is_some();
        match done {
            Err(error) if is_gone(&error) && !is_asked_for && !self.start.strict => {
                self.shared.lock().draft.notes.left_out.push(error);
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    /// Lists the names in a directory. All but the first few become tasks of their own.
    fn list(&self, path: Vec<u8>, inode: InodeId) -> Result<(Arc<Dir>, Vec<Name>), SourceError> {
        let failed = |error| SourceError::io(&self.start.root.shown(&path), error);
        let fd = self.start.root.open_at(&path, DIRECTORY).map_err(failed)?;
        let mut names: Vec<Name> = Vec::new();
        let mut room = Vec::with_capacity(XATTR_MAX);
        let mut listing = RawDir::new(&fd, room.spare_capacity_mut());
        while let Some(entry) = listing.next() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.into());
            }
        }
        let dir = Arc::new(Dir { fd, path, inode });
        while names.len() > NAMES_PER_TASK {
            let names = names.split_off(names.len() - NAMES_PER_TASK);
            self.shared.lock().tasks.push(Task::Examine { dir: Arc::clone(&dir), names });
            self.more.notify_one();
        }
        Ok((dir, names))
    }

    /// Examines one name. Returns `None` if it is to be left out.
    fn look(
        &self,
        dir: &Dir,
        name: Name,
        buffers: &mut Buffers,
    ) -> Result<Option<Found>, SourceError> {
        let shown = || self.start.root.shown(&below(&dir.path, &name));
        let failed = |error| SourceError::io(&shown(), error);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = fs::statx(&dir.fd, &*name, flags, StatxFlags::BASIC_STATS).map_err(failed)?;
        if self.start.exclude.contains(&identity(&stat)) {
            return Ok(None);
        }
        let mut target = Vec::new();
        match file_type(&stat) {
            FileType::Symlink => {
                target = fs::readlinkat(&dir.fd, &*name, Vec::new()).map_err(failed)?.into_bytes();
            }
            // An unreadable file is better found now than when half of the volume is written.
            FileType::RegularFile if !buffers.is_root => {
                fs::accessat(&dir.fd, &*name, Access::READ_OK, AtFlags::EACCESS).map_err(failed)?;
            }
            _ => {}
        }
        let attributes = buffers.xattrs_at(self.start.root, dir, &name, stat.stx_mode)?;
        let attributes = self.start.complete(attributes)?;
        Ok(Some(Found { name, stat, target: target.into(), attributes }))
    }

    /// Adds the results of `dir` to the draft.
    fn merge(&self, dir: &Dir, found: Vec<Found>) -> Result<(), SourceError> {
        let mut guard = self.shared.lock();
        let shared = &mut *guard;
        shared.progress.names += found.len() as u64;
        if (self.on_progress)(*shared.progress).is_break() {
            return Err(SourceError::Stopped);
        }
        for Found { name, stat, target, attributes } in found {
            let (draft, obey) = (&mut *shared.draft, self.start.whiteouts);
            if self.start.is_found(dir) && draft.take_whiteout(dir.inode, &name, obey) {
                continue;
            }
            let kind = file_type(&stat);
            let several = stat.stx_nlink > 1 && kind != FileType::Directory;
            if let Some(&inode) = shared.links.get(&identity(&stat)).filter(|_| several) {
                shared.draft.link(dir.inode, &name, inode)?;
                continue;
            }
            let path = below(&dir.path, &name);
            if kind == FileType::RegularFile && stat.stx_size == 0 && shared.is_sizeless(dir, &stat)
            {
                if self.start.strict {
                    let what = "its filesystem does not tell its size".into();
                    return Err(SourceError::Unfit { path: self.start.root.shown(&path), what });
                }
                shared.draft.notes.sizeless += 1;
            }
            let shown = |error: SourceError| match error {
                SourceError::Unfit { what, .. } => {
                    SourceError::Unfit { path: self.start.root.shown(&path), what }
                }
                error => error,
            };
            let what = self.what(shared.draft, &path, &stat, target)?;
            let perm = attributes.perm;
            let xattrs = attributes.keep(shared.draft, &path)?;
            let inode = shared
                .draft
                .put(dir.inode, &name, meta(&stat, perm), xattrs, what)
                .map_err(shown)?;
            if several {
                shared.links.insert(identity(&stat), inode);
            }
            if kind == FileType::Directory {
                shared.tasks.push(Task::List { path, inode });
            }
        }
        Ok(())
    }

    fn what(
        &self,
        draft: &mut Draft,
        path: &[u8],
        stat: &Statx,
        target: Box<[u8]>,
    ) -> Result<DraftKind, SourceError> {
        let (major, minor) = (stat.stx_rdev_major, stat.stx_rdev_minor);
        Ok(match file_type(stat) {
            FileType::Directory => DraftKind::Dir,
            FileType::Symlink => DraftKind::Symlink(target),
            FileType::CharacterDevice => DraftKind::Char { major, minor },
            FileType::BlockDevice => DraftKind::Block { major, minor },
            FileType::Fifo => DraftKind::Fifo,
            FileType::Socket => DraftKind::Socket,
            _ => {
                let size = stat.stx_size;
                let sparse = stat.stx_blocks.saturating_mul(512) < size;
                let place = ContentLocation::Disk { dir: self.start.number, sparse };
                DraftKind::File { size, content: draft.add_location(path, place)? }
            }
        })
    }
}

/// Returns true if `error` means that a name was removed, or names another file by now.
fn is_gone(error: &SourceError) -> bool {
    let SourceError::Io { error, .. } = error else { return false };
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::STALE, Errno::NODEV];
    error.raw_os_error().is_some_and(|code| gone.iter().any(|errno| errno.raw_os_error() == code))
}

fn below(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

/// Returns device and inode number.
fn identity(stat: &Statx) -> (u64, u64) {
    (fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino)
}

fn meta(stat: &Statx, perm: u16) -> Meta {
    let time = |time: &fs::StatxTimestamp| Timestamp { sec: time.tv_sec, nsec: time.tv_nsec };
    Meta {
        perm,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        mtime: time(&stat.stx_mtime),
        atime: time(&stat.stx_atime),
    }
}

/// Buffers that one thread reuses.
struct Buffers {
    names: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    is_root: bool,
}

impl Buffers {
    fn new() -> Self {
        Self {
            names: vec![0; XATTR_MAX],
            value: vec![0; XATTR_MAX],
            path: Vec::new(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// Returns the attributes of `name` in `dir`, and its permissions. No call takes a directory
    /// handle, so a path through /proc is used if the real one is too long.
    fn xattrs_at(
        &mut self,
        root: &Root,
        dir: &Dir,
        name: &[u8],
        mode: u16,
    ) -> Result<Attributes, SourceError> {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        root.show(&mut path, &dir.path);
        if path.len() + 1 + name.len() >= PATH_MAX {
            path = format!("/proc/self/fd/{}", dir.fd.as_raw_fd()).into_bytes();
        }
        push_path(&mut path, name);
        let result = self.xattrs(&path, mode);
        self.path = path;
        result
    }

    /// Returns the attributes of `path`, and its permissions, which are those of `mode` without an
    /// ACL.
    fn xattrs(&mut self, path: &[u8], mode: u16) -> Result<Attributes, SourceError> {
        let failed = |error| SourceError::io(path, error);
        let mut left_out = None;
        let names = match fs::llistxattr(path, &mut self.names[..]) {
            Ok(len) => &self.names[..len],
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => &[],
            Err(Errno::TOOBIG) => {
                left_out = Some(SourceError::TooManyXattrs { path: path.to_vec() });
                OF_ACCESS
            }
            Err(error) => return Err(failed(error)),
        };
        let mut found = Xattrs::default();
        for name in names.split(|&b| b == 0).filter(|name| !name.is_empty()) {
            if !Xattrs::wanted(name) {
                found.leave_out();
                continue;
            }
            match fs::lgetxattr(path, name, &mut self.value[..]) {
                Ok(len) => found.add(path, name, &self.value[..len])?,
                Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let foreign = found.foreign();
        let (xattrs, perm) = found.finish(mode & 0o7777);
        Ok(Attributes { xattrs, perm, foreign, left_out })
    }
}
