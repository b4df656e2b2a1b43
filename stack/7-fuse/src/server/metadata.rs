//! Operations on metadata.

use std::ops::Deref;

use rustix::io::Errno;
use xfskit_core::Error as Core;
use xfskit_format::inode::InodeFlags;
use xfskit_units::Ino;
use xfskit_vfs::{self as vfs, Fs, SetAttr, SetMode, Stat};

use super::Server;
use crate::ioctl::{self, Ioctl};
use crate::operations::{Caller, Changes, Reply, SetTime};

/// Attributes whose names only root sees.
const TRUSTED: &[u8] = b"trusted.";
/// The attribute that holds a program's capabilities.
const CAPABILITY: &[u8] = b"security.capability";

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Server<F> {
    pub(super) fn change_attributes(
        &self,
        caller: Caller,
        ino: Ino,
        changes: &Changes,
    ) -> Reply<Stat> {
        self.to_change()?;
        if let Some(size) = changes.size {
            self.truncate_file(caller, ino, size)?;
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
        if set.uid.is_some() || set.gid.is_some() {
            // The kernel leaves this to the server (HANDLE_KILLPRIV_V2).
            self.reply(self.fs.drop_privileges(ino, true))?;
        }
        if set != SetAttr::default() {
            self.changed(self.fs.set_attr(ino, &set))?;
        }
        if set.perm.is_some() {
            self.nodes.not_plain(ino);
        }
        self.reply(self.stat_of(ino))
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
        for xattr in xattrs {
            if caller.is_root() || !xattr.name.starts_with(TRUSTED) {
                names.extend_from_slice(&xattr.name);
                names.push(0);
            }
        }
        Ok(names)
    }

    pub(super) fn put_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: SetMode) -> Reply<()> {
        self.to_change()?;
        let set = self.fs.set_xattr(ino, name, value, mode);
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
        match self.fs.remove_xattr(ino, name) {
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
                self.set_flags(caller, &stat, flags, None)?;
                Ok(Vec::new())
            }
            Ioctl::GetXattr => Ok(ioctl::fsxattr(&self.reply(self.stat_of(ino))?)),
            Ioctl::SetXattr => {
                let stat = self.reply(self.stat_of(ino))?;
                let (flags, projid) = ioctl::with_fsxattr(&stat, argument)?;
                self.set_flags(caller, &stat, flags, Some(projid))?;
                Ok(Vec::new())
            }
        }
    }

    /// Sets flags and project of an inode, for which the caller owns it or is root.
    fn set_flags(
        &self,
        caller: Caller,
        stat: &Stat,
        flags: InodeFlags,
        projid: Option<u32>,
    ) -> Reply<()> {
        let root_only = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
        if !caller.is_root() && (caller.uid != stat.uid || (flags ^ stat.flags).intersects(root_only))
        {
            return Err(Errno::PERM);
        }
        self.to_change()?;
        let set = SetAttr { flags: Some(flags), projid, ..SetAttr::default() };
        self.changed(self.fs.set_attr(stat.ino, &set))
    }
}

fn is_missing(error: &vfs::Error) -> bool {
    matches!(error.reason(), vfs::Error::Core(Core::NoEntry))
}
