//! The destination on a mounted filesystem: makes files and sets their metadata.
//!
//! Everything goes through directory handles (`*at` calls), so depth and path length have no limit,
//! and replacing a directory by a symbolic link during the copy has no effect. Metadata comes last:
//! owner, then mode (a change of owner clears set-user-id), then attributes (it clears capabilities
//! too), then times.
//!
//! Metadata that the caller may not set (owners, devices, `trusted.` attributes without root) is
//! counted in [`Skipped`]. It does not fail the copy.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    self, AtFlags, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use xfskit_vfs::{FileType, Stat, Timestamp, Xattr};

use crate::skipped::Skipped;

/// An open directory of the destination.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
}

const NEW: OFlags = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::WRONLY).union(OFlags::CLOEXEC);
const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A handle to an entry of any type, and never to the target of a symbolic link.
const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Length of the longest path that one call takes, with its closing zero.
const PATH_MAX: usize = 4096;
/// Only root may change owners; tar and rsync leave them out too.
const OWNERS: &str = "owners (need root)";
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);
const PRIVATE_DIR: Mode = Mode::RWXU;

impl Dir {
    /// Opens the existing directory `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OPEN_DIR.difference(OFlags::NOFOLLOW);
        Ok(Self { fd: fs::open(path, flags, Mode::empty())? })
    }

    /// Locks the directory against other copies by this program, as long as it is open. Returns
    /// false if another one is copied into it. Where the filesystem has no locks, there is none.
    pub fn lock(&self) -> bool {
        let locked = fs::flock(&self.fd, fs::FlockOperation::NonBlockingLockExclusive);
        locked != Err(Errno::WOULDBLOCK)
    }

    /// Returns true if the directory has no entries.
    pub fn is_empty(&self) -> io::Result<bool> {
        let is_named = |entry: &fs::DirEntry| !matches!(entry.file_name().to_bytes(), b"." | b"..");
        for entry in fs::Dir::read_from(&self.fd)? {
            if is_named(&entry?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns another handle to the same directory.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()? })
    }

    /// Makes the directory `name` in this one and opens it. Only its owner may enter it until
    /// [`finish`](Self::finish).
    pub fn make_dir(&self, name: &[u8]) -> io::Result<Self> {
        fs::mkdirat(&self.fd, name, PRIVATE_DIR)?;
        Ok(Self { fd: fs::openat(&self.fd, name, OPEN_DIR, Mode::empty())? })
    }

    /// Opens the directory `name` in this one.
    pub fn open_dir(&self, name: &[u8]) -> io::Result<Self> {
        Ok(Self { fd: fs::openat(&self.fd, name, OPEN_DIR, Mode::empty())? })
    }

    /// Opens the directory at `path` below this one, and makes what is missing of it. Directories
    /// that exist keep their times. No symbolic link is followed.
    pub fn make_all(&self, path: &[u8]) -> io::Result<Self> {
        let mut at = self.try_clone()?;
        for name in path.split(|&b| b == b'/') {
            at = match at.open_dir(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let times = at.times()?;
                    let made = at.make_dir(name)?;
                    at.set_times(&times)?;
                    made
                }
                opened => opened?,
            };
        }
        Ok(at)
    }

    /// Returns true if the directory has an entry `name`, of any type.
    pub fn has(&self, name: &[u8]) -> bool {
        fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns the directory's own times.
    pub fn times(&self) -> io::Result<Timestamps> {
        let stat = fs::fstat(&self.fd)?;
        let spec = |tv_sec, nsec| Timespec { tv_sec, tv_nsec: nsec };
        Ok(Timestamps {
            last_access: spec(stat.st_atime, stat.st_atime_nsec.cast_signed()),
            last_modification: spec(stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
        })
    }

    /// Sets the directory's own times.
    pub fn set_times(&self, times: &Timestamps) -> io::Result<()> {
        Ok(fs::futimens(&self.fd, times)?)
    }

    /// Makes the empty file `name` and opens it for writing.
    pub fn make_file(&self, name: &[u8]) -> io::Result<OwnedFd> {
        Ok(fs::openat(&self.fd, name, NEW, PRIVATE)?)
    }

    /// Makes `name` another name of the file at `path` below `root`.
    pub fn make_link(&self, name: &[u8], root: &Self, path: &[u8]) -> io::Result<()> {
        let Some(slash) = path.iter().rposition(|&b| b == b'/') else {
            return Ok(fs::linkat(&root.fd, path, &self.fd, name, AtFlags::empty())?);
        };
        let dir = root.open_below(&path[..slash])?;
        Ok(fs::linkat(&dir.fd, &path[slash + 1..], &self.fd, name, AtFlags::empty())?)
    }

    /// Opens the directory at `path` below this one, without following a symbolic link anywhere.
    fn open_below(&self, path: &[u8]) -> io::Result<Self> {
        if path.len() < PATH_MAX {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            match fs::openat2(&self.fd, path, OPEN_DIR, Mode::empty(), resolve) {
                // Before Linux 5.6, and in some sandboxes.
                Err(Errno::NOSYS | Errno::PERM) => {}
                opened => return Ok(Self { fd: opened? }),
            }
        }
        let mut at = self.try_clone()?;
        for name in path.split(|&b| b == b'/') {
            at = at.open_dir(name)?;
        }
        Ok(at)
    }

    /// Makes the symbolic link `name` with its metadata.
    pub fn make_symlink(
        &self,
        name: &[u8],
        target: &[u8],
        stat: &Stat,
        xattrs: &[Xattr],
        skipped: &Skipped,
    ) -> io::Result<()> {
        fs::symlinkat(target, &self.fd, name)?;
        self.finish_unopened(name, fs::FileType::Symlink, stat, xattrs, skipped)
    }

    /// Makes the device, pipe or socket `name` with its metadata. Returns false if only root may.
    pub fn make_node(
        &self,
        name: &[u8],
        stat: &Stat,
        xattrs: &[Xattr],
        skipped: &Skipped,
    ) -> io::Result<bool> {
        let kind = match stat.file_type {
            FileType::CharDevice | FileType::Whiteout => fs::FileType::CharacterDevice,
            FileType::BlockDevice => fs::FileType::BlockDevice,
            FileType::Socket => fs::FileType::Socket,
            _ => fs::FileType::Fifo,
        };
        let (major, minor) = stat.rdev.unwrap_or_default();
        match fs::mknodat(&self.fd, name, kind, PRIVATE, fs::makedev(major, minor)) {
            Ok(()) => {}
            Err(Errno::PERM) => {
                skipped.count("devices (need root)");
                return Ok(false);
            }
            Err(e) => return Err(e.into()),
        }
        self.finish_unopened(name, kind, stat, xattrs, skipped)?;
        Ok(true)
    }

    /// Gives the new entry `name`, which cannot be opened, its owner, mode, attributes and times.
    /// All of it goes through one handle: another program may have put something else under the
    /// name.
    fn finish_unopened(
        &self,
        name: &[u8],
        kind: fs::FileType,
        stat: &Stat,
        xattrs: &[Xattr],
        skipped: &Skipped,
    ) -> io::Result<()> {
        let fd = fs::openat(&self.fd, name, ENTRY, Mode::empty())?;
        let found = fs::fstat(&fd)?;
        if fs::FileType::from_raw_mode(found.st_mode) != kind || found.st_nlink != 1 {
            return Err(io::Error::other("another program has put something else under this name"));
        }
        let (owner, group) = owners(stat);
        match fs::chownat(&fd, c"", owner, group, AtFlags::EMPTY_PATH) {
            Ok(()) => {}
            Err(Errno::PERM) => skipped.count_usual(OWNERS, 1),
            Err(e) => return Err(e.into()),
        }
        // Calls on modes and attributes take no such handle; /proc names what it stands for.
        let path = CString::new(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd)))?;
        if kind != fs::FileType::Symlink {
            fs::chmod(path.as_c_str(), permissions(stat))?;
        }
        for xattr in xattrs {
            let name = OsStr::from_bytes(&xattr.name);
            let set = fs::setxattr(path.as_c_str(), name, &xattr.value, XattrFlags::empty());
            xattr_set(set, xattr, skipped)?;
        }
        Ok(fs::utimensat(&fd, c"", &times(stat), AtFlags::EMPTY_PATH)?)
    }

    /// Sets the metadata of the directory itself. This is the last step, because every entry made
    /// in it changes its times.
    pub fn finish(&self, stat: &Stat, xattrs: &[Xattr], skipped: &Skipped) -> io::Result<()> {
        finish_opened(&self.fd, stat, xattrs, skipped)
    }
}

/// Sets owner, mode, attributes and times of the open file or directory `fd`, in this order.
pub fn finish_opened(
    fd: impl AsFd,
    stat: &Stat,
    xattrs: &[Xattr],
    skipped: &Skipped,
) -> io::Result<()> {
    let fd = fd.as_fd();
    let mut mode = permissions(stat);
    let (owner, group) = owners(stat);
    match fs::fchown(fd, owner, group) {
        Ok(()) => {}
        Err(Errno::PERM) => {
            skipped.count_usual(OWNERS, 1);
            // Set-user-id with the wrong user would be worse than none.
            let plain = mode.difference(Mode::SUID | Mode::SGID);
            skipped
                .count_usual("set-user-id and set-group-id (need root)", u64::from(mode != plain));
            mode = plain;
        }
        Err(e) => return Err(e.into()),
    }
    fs::fchmod(fd, mode)?;
    for xattr in xattrs {
        let name = OsStr::from_bytes(&xattr.name);
        xattr_set(fs::fsetxattr(fd, name, &xattr.value, XattrFlags::empty()), xattr, skipped)?;
    }
    Ok(fs::futimens(fd, &times(stat))?)
}

/// Counts an attribute that the caller may not set or the destination cannot hold.
fn xattr_set(set: rustix::io::Result<()>, xattr: &Xattr, skipped: &Skipped) -> io::Result<()> {
    let reason = match set {
        Ok(()) => return Ok(()),
        Err(Errno::PERM | Errno::ACCESS) => "need root",
        Err(Errno::OPNOTSUPP) => "the destination cannot hold them",
        Err(Errno::NOSPC | Errno::RANGE | Errno::TOOBIG) => "too large for the destination",
        Err(e) => return Err(e.into()),
    };
    let space = xattr.name.split(|&b| b == b'.').next().unwrap_or_default();
    skipped.count(&format!("{}. attributes ({reason})", String::from_utf8_lossy(space)));
    Ok(())
}

fn permissions(stat: &Stat) -> Mode {
    Mode::from_raw_mode(u32::from(stat.mode & 0o7777))
}

fn owners(stat: &Stat) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(stat.uid)), Some(Gid::from_raw(stat.gid)))
}

fn times(stat: &Stat) -> Timestamps {
    let spec = |t: Timestamp| Timespec { tv_sec: t.sec, tv_nsec: t.nsec.min(999_999_999).into() };
    Timestamps { last_access: spec(stat.atime), last_modification: spec(stat.mtime) }
}

#[cfg(test)]
mod tests {
    use std::fs as std_fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A destination with the directory `dir`, and beside it an outside directory with a file.
    fn destination() -> (tempfile::TempDir, Dir) {
        let top = tempfile::tempdir().unwrap();
        for dir in ["dest", "dest/dir", "outside"] {
            std_fs::create_dir(top.path().join(dir)).unwrap();
        }
        for file in ["dest/dir/file", "outside/file"] {
            std_fs::write(top.path().join(file), file).unwrap();
        }
        let root = Dir::open(&top.path().join("dest")).unwrap();
        (top, root)
    }

    fn stat(file_type: FileType) -> Stat {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let time = Timestamp::EPOCH;
        Stat {
            ino: xfskit_vfs::Ino(128),
            file_type,
            mode: 0o777,
            nlink: 1,
            uid,
            gid,
            projid: 0,
            size: 0,
            blocks: 0,
            rdev: None,
            atime: time,
            mtime: time,
            ctime: time,
            btime: None,
            generation: 0,
            flags: xfskit_format::inode::InodeFlags::empty(),
            flags2: xfskit_format::inode::InodeFlags2::empty(),
            nextents: 0,
            anextents: 0,
            has_attr_fork: false,
        }
    }

    #[test]
    fn a_link_is_not_made_through_a_directory_that_became_a_symbolic_link() {
        let (top, root) = destination();
        root.make_link(b"first", &root, b"dir/file").unwrap();
        assert_eq!(std_fs::read(top.path().join("dest/first")).unwrap(), b"dest/dir/file");
        std_fs::rename(top.path().join("dest/dir"), top.path().join("dest/aside")).unwrap();
        symlink("../outside", top.path().join("dest/dir")).unwrap();
        assert!(root.make_link(b"second", &root, b"dir/file").is_err());
        assert!(!top.path().join("dest/second").exists());
    }

    #[test]
    fn an_entry_that_was_swapped_is_an_error_and_its_target_is_left_alone() {
        let (top, root) = destination();
        let outside = top.path().join("outside/file");
        std_fs::set_permissions(&outside, PermissionsExt::from_mode(0o600)).unwrap();
        symlink("../outside/file", top.path().join("dest/pipe")).unwrap();
        std_fs::hard_link(&outside, top.path().join("dest/node")).unwrap();
        for (name, file_type, kind) in [
            (&b"pipe"[..], FileType::Fifo, fs::FileType::Fifo),
            (b"node", FileType::Symlink, fs::FileType::Symlink),
        ] {
            let skipped = Skipped::default();
            assert!(root.finish_unopened(name, kind, &stat(file_type), &[], &skipped).is_err());
        }
        let mode = std_fs::metadata(&outside).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert!(root.make_node(b"fifo", &stat(FileType::Fifo), &[], &Skipped::default()).unwrap());
        let mode = std_fs::metadata(top.path().join("dest/fifo")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o777);
    }
}
