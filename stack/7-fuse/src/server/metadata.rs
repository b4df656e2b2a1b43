//! Operations on metadata.

use std::ops::Deref;

use rustix::io::Errno;
use xfskit_core::Error as Core;
use xfskit_format::attr::Namespace;
use xfskit_format::inode::InodeFlags;
use xfskit_units::{ByteLen, ByteOffset, Ino};
use xfskit_vfs::{self as vfs, Fs, Inode, SetAttr, SetMode, Stat};

use super::Server;
use crate::geometry::geometry;
use crate::ioctl::{self, Hints, Ioctl, TrimRange};
use crate::operations::{Caller, Changes, Reply, SetTime};

/// Attributes whose names only root sees.
const TRUSTED: &[u8] = b"trusted.";
/// ACLs, and their names on disk, which Linux lists for root too: rsync copies both.
const ACLS: [(&[u8], &[u8]); 2] = [
    (b"system.posix_acl_access", b"trusted.SGI_ACL_FILE"),
    (b"system.posix_acl_default", b"trusted.SGI_ACL_DEFAULT"),
];
/// The attribute that holds a program's capabilities.
const CAPABILITY: &[u8] = b"security.capability";
/// Blocks of a hint at most: the length of the longest extent.
const HINT_MAX: u32 = (1 << 21) - 1;

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Server<F> {
    pub(super) fn change_attributes(
        &self,
        caller: Caller,
        ino: Ino,
        changes: &Changes,
    ) -> Reply<Stat> {
        self.to_change()?;
        self.may_change(ino, changes)?;
        if let Some(size) = changes.size {
            self.truncate_file(ino, size, changes.kill_bits.then_some(caller.gid))?;
        }
        let time = |time: SetTime| match time {
            SetTime::At(time) => time,
            SetTime::Now => self.now(),
        };
        let set = SetAttr {
            perm: changes.perm,
            uid: changes.uid,
            gid: changes.gid,
            atime: changes.atime.map(time),
            mtime: changes.mtime.map(time),
            ctime: changes.ctime,
            ..SetAttr::default()
        };
        // chown(2) may leave both ids: the kernel then sends a ctime at most.
        let only_ctime = SetAttr { ctime: set.ctime, ..SetAttr::default() };
        let leaves_ids = changes.size.is_none() && set == only_ctime;
        let is_chown = leaves_ids || set.uid.is_some() || set.gid.is_some();
        if is_chown {
            self.kill_for_chown(caller, ino, leaves_ids)?;
        }
        if is_chown || set != SetAttr::default() {
            self.changed(self.fs.set_attr(ino, &set))?;
        }
        if set.perm.is_some() {
            self.nodes.not_plain(ino);
        }
        self.reply(self.stat_of(ino))
    }

    /// Removes capabilities, setuid and setgid for chown(2): the kernel leaves them to the server
    /// (HANDLE_KILLPRIV_V2). It has checked who may change ids. A change that leaves both comes
    /// with a write, too, whose own request removes the bits; only the owner is taken by its word.
    fn kill_for_chown(&self, caller: Caller, ino: Ino, leaves_ids: bool) -> Reply<()> {
        let stat = self.reply(self.stat_of(ino))?;
        if leaves_ids && !caller.is_root() && caller.uid != stat.uid {
            return Ok(());
        }
        let group = if caller.is_root() { stat.gid } else { caller.gid };
        self.reply(self.fs.drop_privileges(ino, Some(group))).map(|_| ())
    }

    pub(super) fn get_xattr(&self, ino: Ino, name: &[u8]) -> Reply<Vec<u8>> {
        match self.fs.xattr(ino, name) {
            Ok(value) => value.ok_or(Errno::NODATA),
            Err(error) => Err(self.xattr_failed(&error)),
        }
    }

    pub(super) fn list_xattrs(&self, caller: Caller, ino: Ino) -> Reply<Vec<u8>> {
        let inode = self.reply(self.fs.inode(ino))?;
        let (xattrs, errors) = self.fs.xattrs(&inode);
        if let Some(error) = errors.first() {
            return Err(self.failed(error));
        }
        let mut names = Vec::new();
        let mut add = |name: &[u8]| {
            if caller.is_root() || !name.starts_with(TRUSTED) {
                names.extend_from_slice(name);
                names.push(0);
            }
        };
        for xattr in xattrs {
            add(&xattr.name);
            let on_disk = ACLS.iter().find(|(shown, _)| *shown == xattr.name);
            if let Some((_, on_disk)) = on_disk {
                add(on_disk);
            }
        }
        Ok(names)
    }

    pub(super) fn put_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Reply<()> {
        self.to_change()?;
        self.may_change_xattrs(ino)?;
        let set = match name.strip_prefix(TRUSTED).filter(|_| is_stored_acl(name)) {
            // As on Linux, the permissions do not follow what is stored.
            Some(stored) => self.fs.set_stored_xattr(ino, Namespace::Trusted, stored, value, mode),
            None => self.fs.set_xattr(ino, name, value, mode),
        };
        if name == CAPABILITY {
            self.nodes.not_plain(ino);
        }
        match set {
            Err(error) if is_missing(&error) => Err(Errno::NODATA),
            Err(error) => Err(self.xattr_failed(&error)),
            set => self.changed(set),
        }
    }

    pub(super) fn drop_xattr(&self, ino: Ino, name: &[u8]) -> Reply<()> {
        self.to_change()?;
        self.may_change_xattrs(ino)?;
        match self.fs.remove_xattr(ino, name) {
            // As in Linux, no ACL is what a removal of an ACL leaves.
            Err(error) if is_missing(&error) && is_acl(name) => Ok(()),
            Err(error) if is_missing(&error) => Err(Errno::NODATA),
            Err(error) => Err(self.xattr_failed(&error)),
            removed => self.changed(removed),
        }
    }

    /// Returns the errno of an operation on attributes: a namespace that XFS does not have is no
    /// failure.
    fn xattr_failed(&self, error: &vfs::Error) -> Errno {
        match error.reason() {
            vfs::Error::Core(Core::Unsupported(_)) => Errno::OPNOTSUPP,
            _ => self.failed(error),
        }
    }

    pub(super) fn do_ioctl(
        &self,
        caller: Caller,
        ino: Ino,
        command: u32,
        argument: &[u8],
    ) -> Reply<Vec<u8>> {
        match Ioctl::from_command(command).ok_or(Errno::NOTTY)? {
            Ioctl::GetFlags => {
                let stat = self.reply(self.stat_of(ino))?;
                Ok(ioctl::flags(&stat).to_ne_bytes().to_vec())
            }
            Ioctl::SetFlags => {
                let flags = argument.first_chunk().ok_or(Errno::INVAL)?;
                let stat = self.reply(self.stat_of(ino))?;
                let flags = ioctl::with_flags(&stat, u32::from_ne_bytes(*flags))?;
                let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
                self.set_flags(caller, &stat, flags, &set)?;
                Ok(Vec::new())
            }
            Ioctl::GetXattr => {
                let inode = self.reply(self.fs.inode(ino))?;
                Ok(ioctl::fsxattr(&self.fs.stat(&inode), self.hints(&inode)))
            }
            Ioctl::SetXattr => {
                let inode = self.reply(self.fs.inode(ino))?;
                let stat = self.fs.stat(&inode);
                let wanted = ioctl::with_fsxattr(&stat, argument)?;
                let set = self.set_of(&inode, wanted)?;
                self.set_flags(caller, &stat, wanted.flags, &set)?;
                Ok(Vec::new())
            }
            Ioctl::Geometry(form) => {
                let volume = self.fs.volume();
                Ok(geometry(volume.geo(), &volume.superblock(), form))
            }
            Ioctl::Trim => self.trim(caller, TrimRange::parse(argument)?),
        }
    }

    /// Discards free blocks, for root and for the user whose process this is.
    fn trim(&self, caller: Caller, range: TrimRange) -> Reply<Vec<u8>> {
        if !caller.is_root() && caller.uid != rustix::process::geteuid().as_raw() {
            return Err(Errno::PERM);
        }
        self.to_change()?;
        let geo = self.fs.volume().geo();
        let (size, block) = (geo.data_bytes().0, 1 << geo.blocklog);
        let group = u64::from(geo.agblocks) << geo.blocklog;
        if range.start >= size || range.len < block || range.minlen > group {
            return Err(Errno::INVAL);
        }
        let end = ByteOffset(range.start.saturating_add(range.len).min(size));
        let trim = self.fs.volume().trim(ByteOffset(range.start)..end, ByteLen(range.minlen));
        Ok(range.trimmed(self.reply(trim.map_err(vfs::Error::from))?.0))
    }

    /// Returns the hints of an inode, in bytes.
    fn hints(&self, inode: &Inode) -> Hints {
        let (core, blocklog) = (inode.core(), self.fs.volume().geo().blocklog);
        let has = core.flags().intersects(InodeFlags::EXTSIZE | InodeFlags::EXTSZINHERIT);
        let bytes = |blocks: u32| blocks.checked_shl(u32::from(blocklog)).unwrap_or(u32::MAX);
        Hints {
            extsize: if has { bytes(core.extsize().0) } else { 0 },
            cowextsize: bytes(core.cowextsize().0),
        }
    }

    /// Returns the change of an inode to what an ioctl wants.
    ///
    /// # Errors
    /// `EINVAL` for hints that are not whole blocks, or too large, and for a change of the hint of
    /// a file that has blocks.
    fn set_of(&self, inode: &Inode, wanted: ioctl::Fsxattr) -> Reply<SetAttr> {
        let geo = self.fs.volume().geo();
        let blocks = |bytes: u32| {
            let blocks = bytes >> geo.blocklog;
            let whole = blocks << geo.blocklog == bytes;
            let fits = blocks <= HINT_MAX && u64::from(blocks) <= u64::from(geo.agblocks) / 2;
            if whole && fits { Ok(blocks) } else { Err(Errno::INVAL) }
        };
        let hints = self.hints(inode);
        let core = inode.core();
        if wanted.hints.extsize != hints.extsize && core.is_regular() && core.nextents() > 0 {
            return Err(Errno::INVAL);
        }
        let changed = |new: u32, old: u32| (new != old).then(|| blocks(new)).transpose();
        Ok(SetAttr {
            flags: Some(wanted.flags),
            projid: Some(wanted.projid),
            extsize: changed(wanted.hints.extsize, hints.extsize)?,
            cowextsize: changed(wanted.hints.cowextsize, hints.cowextsize)?,
            ..SetAttr::default()
        })
    }

    /// Makes a change of an inode's flags, for which the caller owns it or is root.
    fn set_flags(
        &self,
        caller: Caller,
        stat: &Stat,
        flags: InodeFlags,
        set: &SetAttr,
    ) -> Reply<()> {
        let root_only = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
        if !caller.is_root()
            && (caller.uid != stat.uid || (flags ^ stat.flags).intersects(root_only))
        {
            return Err(Errno::PERM);
        }
        self.to_change()?;
        self.changed(self.fs.set_attr(stat.ino, set))
    }
}

/// Returns true if `name` is that of an ACL on disk. The kernel, which keeps ACLs, does not know
/// that its change is one of the ACL.
pub(crate) fn is_stored_acl(name: &[u8]) -> bool {
    ACLS.iter().any(|(_, on_disk)| *on_disk == name)
}

fn is_acl(name: &[u8]) -> bool {
    ACLS.iter().any(|(shown, _)| *shown == name)
}

fn is_missing(error: &vfs::Error) -> bool {
    matches!(error.reason(), vfs::Error::Core(Core::NoEntry))
}
