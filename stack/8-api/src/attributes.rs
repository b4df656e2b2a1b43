//! Owners, permissions, times, extended attributes and ACLs of what a path names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xfskit_core::Error as Core;
use xfskit_format::attr::acl;
use xfskit_units::Ino;
use xfskit_vfs::{self as vfs, Follow, Fs, SetAttr, SetMode};

use crate::cause::Cause;
use crate::{Acl, Error, FileTimes, Permissions, Result, Volume, WalkEntry, Xattrs};

const PERMISSIONS: u16 = 0o7777;
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o010;
const CAPABILITIES: &[u8] = b"security.capability";

/// Returns false if an attribute to change was not there.
fn there(changed: vfs::Result<()>) -> vfs::Result<bool> {
    match changed {
        Err(vfs::Error::Core(Core::NoEntry)) => Ok(false),
        changed => changed.map(|()| true),
    }
}

/// Sets owner and group of an inode, which the caller holds.
fn set_owner(fs: &Fs, ino: Ino, uid: Option<u32>, gid: Option<u32>) -> vfs::Result<()> {
    let mut set = SetAttr { uid, gid, ..SetAttr::default() };
    let inode = fs.inode(ino)?;
    if inode.core().file_type() == Some(vfs::FileType::Regular) {
        let mode = inode.core().mode();
        // Without execution by the group, setgid has another meaning.
        let setgid = if mode & GROUP_EXECUTES != 0 { SETGID } else { 0 };
        set.perm = Some(mode & PERMISSIONS & !SETUID & !setgid);
    }
    fs.set_attr(ino, &set)?;
    there(fs.remove_xattr(ino, CAPABILITIES)).map(drop)
}

impl WalkEntry {
    /// Sets the permissions of the file that the walk found, also if it has another name by now. An
    /// ACL follows the permissions.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`StaleHandle`](crate::ErrorKind::StaleHandle) for
    /// a file that was removed.
    pub fn set_permissions(&self, permissions: Permissions) -> Result<()> {
        let set = SetAttr { perm: Some(permissions.bits()), ..SetAttr::default() };
        self.change("set the permissions of", |fs, ino| fs.set_attr(ino, &set))
    }

    /// Sets owner and group of the file that the walk found, as [`Volume::lchown`] does.
    ///
    /// # Errors
    /// As [`set_permissions`](Self::set_permissions).
    pub fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.change("set the owner of", |fs, ino| set_owner(fs, ino, uid, gid))
    }

    fn change(
        &self,
        operation: &'static str,
        change: impl Fn(&Fs, Ino) -> vfs::Result<()>,
    ) -> Result<()> {
        let volume = Volume::of(self.owner.clone());
        volume.at(operation, self.path(), |fs, _| {
            fs.volume().engine()?;
            let file = fs.hold_inode(&self.inode)?;
            change(fs, file.ino())
        })
    }
}

impl Volume {
    /// Runs `change` on the inode that `path` names.
    fn change_at<T>(
        &self,
        operation: &'static str,
        path: &Path,
        follow: Follow,
        change: impl Fn(&Fs, Ino) -> vfs::Result<T>,
    ) -> Result<T> {
        self.at(operation, path, |fs, path| {
            fs.volume().engine()?;
            let file = fs.hold_inode(&fs.resolve(path, follow)?)?;
            change(fs, file.ino())
        })
    }

    fn set_attr_at(
        &self,
        operation: &'static str,
        path: &Path,
        follow: Follow,
        set: &SetAttr,
    ) -> Result<()> {
        self.change_at(operation, path, follow, |fs, ino| fs.set_attr(ino, set))
    }

    /// Sets the permissions of a file. A symbolic link is followed. An ACL follows the permissions.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`NotFound`](crate::ErrorKind::NotFound).
    pub fn set_permissions(&self, path: impl AsRef<Path>, permissions: Permissions) -> Result<()> {
        let set = SetAttr { perm: Some(permissions.bits()), ..SetAttr::default() };
        self.set_attr_at("set the permissions of", path.as_ref(), Follow::Yes, &set)
    }

    /// Sets the owner and the group of a file, as far as they are named. A symbolic link is
    /// followed. As on Linux, a regular file loses setuid, setgid and its capabilities.
    ///
    /// # Errors
    /// As [`set_permissions`](Self::set_permissions).
    pub fn chown(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.chown_at(path.as_ref(), uid, gid, Follow::Yes)
    }

    /// Sets owner and group, as [`chown`](Self::chown) does. A symbolic link is not followed.
    ///
    /// # Errors
    /// As [`set_permissions`](Self::set_permissions).
    pub fn lchown(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.chown_at(path.as_ref(), uid, gid, Follow::No)
    }

    fn chown_at(
        &self,
        path: &Path,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: Follow,
    ) -> Result<()> {
        self.change_at("set the owner of", path, follow, |fs, ino| set_owner(fs, ino, uid, gid))
    }

    /// Sets the times of a file that `times` names. A symbolic link is followed.
    ///
    /// # Errors
    /// As [`set_permissions`](Self::set_permissions).
    pub fn set_times(&self, path: impl AsRef<Path>, times: FileTimes) -> Result<()> {
        self.set_attr_at("set the times of", path.as_ref(), Follow::Yes, &times.set_attr())
    }

    /// Sets times, as [`set_times`](Self::set_times) does. A symbolic link is not followed.
    ///
    /// # Errors
    /// As [`set_permissions`](Self::set_permissions).
    pub fn set_times_nofollow(&self, path: impl AsRef<Path>, times: FileTimes) -> Result<()> {
        self.set_attr_at("set the times of", path.as_ref(), Follow::No, &times.set_attr())
    }

    /// Returns the extended attributes of a file. A symbolic link is followed.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound). Damage is an item of the iterator.
    pub fn list_xattrs(&self, path: impl AsRef<Path>) -> Result<Xattrs> {
        self.xattrs_at(path.as_ref(), Follow::Yes)
    }

    /// Returns extended attributes, as [`list_xattrs`](Self::list_xattrs) does. A symbolic link is
    /// not followed.
    ///
    /// # Errors
    /// As [`list_xattrs`](Self::list_xattrs).
    pub fn list_xattrs_nofollow(&self, path: impl AsRef<Path>) -> Result<Xattrs> {
        self.xattrs_at(path.as_ref(), Follow::No)
    }

    fn xattrs_at(&self, path: &Path, follow: Follow) -> Result<Xattrs> {
        let found = self.at("read the attributes of", path, |fs, inside| {
            Ok(fs.xattrs(&fs.resolve(inside, follow)?))
        })?;
        Ok(Xattrs::new(path, found))
    }

    /// Returns the value of an extended attribute; `None` where the file has none of this name. A
    /// symbolic link is followed.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a name that no attribute can have.
    pub fn get_xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> Result<Option<Vec<u8>>> {
        self.xattr_at(path.as_ref(), name.as_ref(), Follow::Yes)
    }

    /// Returns a value, as [`get_xattr`](Self::get_xattr) does. A symbolic link is not followed.
    ///
    /// # Errors
    /// As [`get_xattr`](Self::get_xattr).
    pub fn get_xattr_nofollow(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> Result<Option<Vec<u8>>> {
        self.xattr_at(path.as_ref(), name.as_ref(), Follow::No)
    }

    fn xattr_at(&self, path: &Path, name: &OsStr, follow: Follow) -> Result<Option<Vec<u8>>> {
        self.at("read the attributes of", path, |fs, path| {
            fs.xattr(fs.resolve(path, follow)?.ino(), name.as_bytes())
        })
    }

    /// Sets an extended attribute, which may exist. A symbolic link is followed.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a name or a value that Linux would not
    /// show: without a namespace, too long, no ACL.
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.set_xattr_with(path, name, value, SetMode::Any)
    }

    /// Sets an extended attribute; `mode` decides whether it must exist, or must not. A symbolic
    /// link is followed.
    ///
    /// # Errors
    /// As [`set_xattr`](Self::set_xattr); [`AlreadyExists`](crate::ErrorKind::AlreadyExists),
    /// [`NoAttribute`](crate::ErrorKind::NoAttribute).
    pub fn set_xattr_with(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
        mode: SetMode,
    ) -> Result<()> {
        self.set_xattr_at(path.as_ref(), name.as_ref(), value.as_ref(), mode, Follow::Yes)
    }

    /// Sets an extended attribute, as [`set_xattr_with`](Self::set_xattr_with) does. A symbolic
    /// link is not followed.
    ///
    /// # Errors
    /// As [`set_xattr_with`](Self::set_xattr_with).
    pub fn set_xattr_with_nofollow(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
        mode: SetMode,
    ) -> Result<()> {
        self.set_xattr_at(path.as_ref(), name.as_ref(), value.as_ref(), mode, Follow::No)
    }

    /// Sets an extended attribute, as [`set_xattr`](Self::set_xattr) does. A symbolic link is not
    /// followed.
    ///
    /// # Errors
    /// As [`set_xattr`](Self::set_xattr).
    pub fn set_xattr_nofollow(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.set_xattr_at(path.as_ref(), name.as_ref(), value.as_ref(), SetMode::Any, Follow::No)
    }

    fn set_xattr_at(
        &self,
        path: &Path,
        name: &OsStr,
        value: &[u8],
        mode: SetMode,
        follow: Follow,
    ) -> Result<()> {
        let is_there = self.change_at("set an attribute of", path, follow, |fs, ino| {
            there(fs.set_xattr(ino, name.as_bytes(), value, mode))
        })?;
        if is_there { Ok(()) } else { Err(Error::at(Cause::NoAttribute, path)) }
    }

    /// Removes an extended attribute. A symbolic link is followed.
    ///
    /// # Errors
    /// [`NoAttribute`](crate::ErrorKind::NoAttribute) where there is none of this name.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<()> {
        self.remove_xattr_at(path.as_ref(), name.as_ref(), Follow::Yes)
    }

    /// Removes an extended attribute. A symbolic link is not followed.
    ///
    /// # Errors
    /// As [`remove_xattr`](Self::remove_xattr).
    pub fn remove_xattr_nofollow(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> Result<()> {
        self.remove_xattr_at(path.as_ref(), name.as_ref(), Follow::No)
    }

    fn remove_xattr_at(&self, path: &Path, name: &OsStr, follow: Follow) -> Result<()> {
        let is_there = self.change_at("remove an attribute of", path, follow, |fs, ino| {
            there(fs.remove_xattr(ino, name.as_bytes()))
        })?;
        if is_there { Ok(()) } else { Err(Error::at(Cause::NoAttribute, path)) }
    }

    /// Returns the access ACL of a file; `None` if it has only its permissions.
    ///
    /// # Errors
    /// As [`get_xattr`](Self::get_xattr).
    pub fn acl(&self, path: impl AsRef<Path>) -> Result<Option<Acl>> {
        self.acl_at(path.as_ref(), acl::ACCESS_XATTR)
    }

    /// Returns the default ACL of a directory: what is created in it inherits that.
    ///
    /// # Errors
    /// As [`get_xattr`](Self::get_xattr).
    pub fn default_acl(&self, path: impl AsRef<Path>) -> Result<Option<Acl>> {
        self.acl_at(path.as_ref(), acl::DEFAULT_XATTR)
    }

    fn acl_at(&self, path: &Path, name: &str) -> Result<Option<Acl>> {
        self.at("read the ACL of", path, |fs, path| {
            let value = fs.xattr(fs.resolve(path, Follow::Yes)?.ino(), name.as_bytes())?;
            value.map(|value| Acl::from_xattr(&value)).transpose()
        })
    }

    /// Sets the access ACL of a file; `None` removes it. The permissions follow the ACL. An
    /// ACL that has nothing beyond the permissions is not stored.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an ACL that Linux rejects: without
    /// owner, group or others, or with users and without a mask.
    pub fn set_acl(&self, path: impl AsRef<Path>, acl: Option<&Acl>) -> Result<()> {
        self.set_acl_at(path.as_ref(), acl::ACCESS_XATTR, acl)
    }

    /// Sets the default ACL of a directory; `None` removes it.
    ///
    /// # Errors
    /// As [`set_acl`](Self::set_acl), and for what is no directory.
    pub fn set_default_acl(&self, path: impl AsRef<Path>, acl: Option<&Acl>) -> Result<()> {
        self.set_acl_at(path.as_ref(), acl::DEFAULT_XATTR, acl)
    }

    fn set_acl_at(&self, path: &Path, name: &str, acl: Option<&Acl>) -> Result<()> {
        let value = acl.map(Acl::to_xattr).unwrap_or_default();
        self.change_at("set the ACL of", path, Follow::Yes, |fs, ino| {
            fs.set_xattr(ino, name.as_bytes(), &value, SetMode::Any)
        })
    }
}
