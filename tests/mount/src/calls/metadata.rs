//! Calls on modes, owners, times and attributes.

use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, CWD, Gid, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::content::sum;
use super::{Calls, Reply, errno, shown};
use crate::run::Id;
use crate::tree::TODAY;

/// Names of attributes.
const XATTRS: [&str; 5] = ["user.a", "user.b", "trusted.t", "security.s", "nonsense.n"];
/// Names of ACLs.
const ACLS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];
/// Seconds that XFS can store: 1901 to 2486. The kernel keeps times beyond as they were set until
/// it forgets the inode, because the protocol does not let it know of a limit.
const FORMAT: Range<i64> = -(1 << 31)..16_299_260_425;
/// Bytes of a value, and of a list of names, at most.
const XATTR_MAX: usize = 65_536;

/// What stat(2) shows and what does not depend on the clock: mode, links, owners, size, device.
type Shown = (u32, u64, u32, u32, Option<u64>, u64);

impl Calls<'_> {
    pub(super) fn chown(&mut self, path: &Path) -> Reply<()> {
        // Group 5, which all users have beside their own, has no files: see design/mount.md.
        let mut id = || (!self.random.one_in(4)).then(|| self.random.below(5_u32));
        let (mut uid, gid) = (id().map(Uid::from_raw), id().map(Gid::from_raw));
        // Linux refuses a change that leaves both to other users if the file has setuid, and FUSE
        // does not let the server know whether the change comes with a write.
        if gid.is_none() && !rustix::process::geteuid().is_root() {
            uid.get_or_insert(Uid::from_raw(1));
        }
        rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Draws a time: now, unchanged, or one that no clock shows.
    fn time(&mut self) -> Timespec {
        let nsec = self.random.below(1_000_000_000_u32).into();
        match self.random.below(8_u32) {
            0 | 1 => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            2 => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            3 => Timespec { tv_sec: 16_000_000_000, tv_nsec: nsec },
            4 => Timespec { tv_sec: -i64::from(self.random.below(1_u32 << 31)), tv_nsec: nsec },
            5 => Timespec { tv_sec: self.random.pick(&[1 << 40, -(1 << 40)]), tv_nsec: nsec },
            _ => Timespec { tv_sec: self.random.below(1_000_000_000_u32).into(), tv_nsec: nsec },
        }
    }

    /// Sets times, and returns those that are not of today.
    pub(super) fn utimens(&mut self, path: &Path) -> String {
        let times = Timestamps { last_access: self.time(), last_modification: self.time() };
        let follow = self.random.pick(&[AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW]);
        if let Err(error) = rustix::fs::utimensat(CWD, path, &times, follow) {
            return format!("{error:?}");
        }
        let seen = if follow.is_empty() {
            std::fs::metadata(path)
        } else {
            std::fs::symlink_metadata(path)
        };
        let seen = seen.map_err(|e| errno(&e)).map(|of| {
            let id = Id::of(&of);
            let is_omitted = times.last_modification.tv_nsec == UTIME_OMIT;
            if !is_omitted && !FORMAT.contains(&times.last_modification.tv_sec) {
                self.exempt.mtimes.insert(id);
            } else if !is_omitted {
                // The kernel knows the time again.
                self.exempt.mtimes.remove(&id);
            }
            let is_known = !self.exempt.mtimes.contains(&id);
            let is_set = is_known && !TODAY.contains(&of.mtime());
            is_set.then(|| (of.mtime(), of.mtime_nsec()))
        });
        shown(seen)
    }

    pub(super) fn set_xattr(&mut self, path: &Path) -> Reply<()> {
        let name = self.random.pick(&XATTRS);
        if self.random.one_in(3) {
            return rustix::fs::lremovexattr(path, name);
        }
        let len = match self.random.below(16_u32) {
            0 => self.random.below(XATTR_MAX + 1),
            1 => self.random.pick(&[0, XATTR_MAX, XATTR_MAX + 1]),
            _ => self.random.below(300_usize),
        };
        let value = vec![self.random.byte(); len];
        let flags = [XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE];
        rustix::fs::lsetxattr(path, name, &value, self.random.pick(&flags))
    }

    pub(super) fn set_acl(&mut self, path: &Path) -> Reply<()> {
        let name = self.random.pick(&ACLS);
        if self.random.one_in(4) {
            return rustix::fs::removexattr(path, name);
        }
        let acl = self.acl();
        rustix::fs::setxattr(path, name, &acl, XattrFlags::empty())
    }

    /// Draws an ACL: that of a mode, or one with other users and groups, rarely without the mask
    /// that it needs.
    fn acl(&mut self) -> Vec<u8> {
        let named = self.random.one_in(2);
        let has_mask = if self.random.one_in(8) { !named } else { named };
        let mut acl = vec![2, 0, 0, 0];
        let mut add = |calls: &mut Self, tag: u16, id: u32| {
            acl.extend(tag.to_le_bytes());
            acl.extend(calls.random.below(8_u16).to_le_bytes());
            acl.extend(id.to_le_bytes());
        };
        add(self, 1, u32::MAX);
        if named {
            add(self, 2, 2);
            add(self, 2, 4);
        }
        add(self, 4, u32::MAX);
        if named {
            add(self, 8, 5);
        }
        if has_mask {
            add(self, 16, u32::MAX);
        }
        add(self, 32, u32::MAX);
        acl
    }

    pub(super) fn access(&mut self, path: &Path) -> Reply<()> {
        let wanted = Access::from_bits_retain(self.random.below(8_u32));
        rustix::fs::accessat(CWD, path, wanted, AtFlags::EACCESS)
    }
}

/// Returns the sorted names of extended attributes, each with the length and the sum of its value.
pub(super) fn xattrs(path: &Path) -> Reply<Vec<String>> {
    let mut bytes = vec![0_u8; XATTR_MAX];
    let len = rustix::fs::llistxattr(path, &mut bytes)?;
    let names = bytes[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let mut value = vec![0_u8; XATTR_MAX];
    let mut seen: Vec<String> = names
        .map(|name| {
            let got = rustix::fs::lgetxattr(path, name, &mut value);
            // A map of owners leaves ACLs alone that are shown as they are stored.
            let is_stored = name.starts_with(b"trusted.SGI_ACL");
            let got = got.map(|len| (len, if is_stored { 0 } else { sum(&value[..len]) }));
            format!("{} {}", String::from_utf8_lossy(name), shown(got))
        })
        .collect();
    seen.sort();
    Ok(seen)
}

pub(super) fn stat(path: &Path) -> Reply<Shown> {
    let of = std::fs::symlink_metadata(path).map_err(|e| errno(&e))?;
    let size = (!of.is_dir()).then_some(of.len());
    Ok((of.mode(), of.nlink(), of.uid(), of.gid(), size, of.rdev()))
}

/// Returns what statfs(2) shows of a volume's size.
pub(super) fn statfs(path: &Path) -> Reply<[u64; 4]> {
    let of = rustix::fs::statvfs(path)?;
    if of.f_bavail > of.f_blocks || of.f_ffree > of.f_files {
        return Err(Errno::RANGE);
    }
    Ok([of.f_bsize, of.f_frsize, of.f_blocks, of.f_namemax])
}
