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

use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
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

    /// Returns true if the directory has no entries.
    pub fn is_empty(path: &Path) -> io::Result<bool> {
        Ok(std::fs::read_dir(path)?.next().is_none())
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

    /// Makes the empty file `name` and opens it for writing.
    pub fn make_file(&self, name: &[u8]) -> io::Result<OwnedFd> {
        Ok(fs::openat(&self.fd, name, NEW, PRIVATE)?)
    }

    /// Makes `name` another name of the file at `path` below `root`.
    pub fn make_link(&self, name: &[u8], root: &Self, path: &[u8]) -> io::Result<()> {
        let mut names = path.split(|&b| b == b'/').rev();
        let source = names.next().unwrap_or(path);
        if path.len() < PATH_MAX {
            return Ok(fs::linkat(&root.fd, path, &self.fd, name, AtFlags::empty())?);
        }
        // Too long for one call: opens the directories on the path one after the other.
        let dirs: Vec<&[u8]> = names.rev().collect();
        let mut at = root.open_dir(dirs.first().copied().unwrap_or(b"."))?;
        for dir in dirs.into_iter().skip(1) {
            at = at.open_dir(dir)?;
        }
        Ok(fs::linkat(&at.fd, source, &self.fd, name, AtFlags::empty())?)
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
        self.finish_unopened(name, stat, xattrs, skipped)
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
        fs::chmodat(&self.fd, name, permissions(stat), AtFlags::empty())?;
        self.finish_unopened(name, stat, xattrs, skipped)?;
        Ok(true)
    }

    /// Sets owner, attributes and times of the entry `name`, which cannot be opened.
    fn finish_unopened(
        &self,
        name: &[u8],
        stat: &Stat,
        xattrs: &[Xattr],
        skipped: &Skipped,
    ) -> io::Result<()> {
        let (owner, group) = owners(stat);
        match fs::chownat(&self.fd, name, owner, group, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) if stat.file_type != FileType::Symlink => {
                fs::chmodat(&self.fd, name, permissions(stat), AtFlags::empty())?;
            }
            Ok(()) => {}
            Err(Errno::PERM) => skipped.count_usual(OWNERS, 1),
            Err(e) => return Err(e.into()),
        }
        if !xattrs.is_empty() {
            // There is no setxattrat before Linux 6.13; /proc names an entry of an open directory.
            let fd = std::os::fd::AsRawFd::as_raw_fd(&self.fd);
            let mut path = format!("/proc/self/fd/{fd}/").into_bytes();
            path.extend_from_slice(name);
            let path = CString::new(path)?;
            for xattr in xattrs {
                let set = fs::lsetxattr(
                    path.as_c_str(),
                    OsStr::from_bytes(&xattr.name),
                    &xattr.value,
                    XattrFlags::empty(),
                );
                xattr_set(set, xattr, skipped)?;
            }
        }
        Ok(fs::utimensat(&self.fd, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
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
