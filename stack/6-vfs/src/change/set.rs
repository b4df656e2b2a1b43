//! Sets owners, modes, times, extended attributes.

use xfskit_core::attr::change::SetMode;
use xfskit_core::icore::Touch;
use xfskit_core::{Error, Tx, TxInode};
use xfskit_format::attr::{Namespace, acl};
use xfskit_format::inode::{FileType, InodeFlags};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::Ino;

use super::take;
use crate::{Fs, Result};

/// Length of the longest name of an extended attribute in bytes, with its namespace: that of Linux.
const XATTR_NAME_MAX: usize = 255;
/// Permission bits with setuid, setgid and sticky.
const PERM: u16 = 0o7777;
/// The program runs as the file's owner.
const SETUID: u16 = 0o4000;
/// The program runs as the file's group.
const SETGID: u16 = 0o2000;
/// The group may run the file.
const GROUP_RUNS: u16 = 0o0010;
/// The attribute with the capabilities of a program.
const CAPABILITY: &[u8] = b"security.capability";

/// The attributes to set; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permissions, with setuid, setgid and sticky.
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Project.
    pub projid: Option<u32>,
    /// Last access.
    pub atime: Option<Timestamp>,
    /// Last change of content.
    pub mtime: Option<Timestamp>,
    /// Last change of the inode; now if there is none.
    pub ctime: Option<Timestamp>,
    /// The `flags` of the inode that users may set: immutable, append, sync, noatime, nodump, ….
    pub flags: Option<InodeFlags>,
    /// Extent size hint in blocks; 0 removes it.
    pub extsize: Option<u32>,
    /// Extent size hint for copies of shared blocks, in blocks; 0 removes it.
    pub cowextsize: Option<u32>,
}

/// Returns those of setuid and setgid in `mode`, of a file with the group `gid`, that go with a
/// writer whose group is `group`.
fn killed_bits(mode: u16, gid: u32, group: u32) -> u16 {
    let setgid = mode & GROUP_RUNS != 0 || group != gid;
    mode & (SETUID | if setgid { SETGID } else { 0 })
}

/// What [`Fs::drop_privileges`] did with setuid and setgid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// One of them was removed.
    pub removed: bool,
    /// One of them is left.
    pub left: bool,
}

impl Fs {
    /// Sets the attributes in `set` of inode `ino`, and its ctime. An ACL follows the permissions.
    ///
    /// # Errors
    /// [`NoInode`](xfskit_core::Error::NoInode), device failures, corruption.
    pub fn set_attr(&self, ino: Ino, set: &SetAttr) -> Result<()> {
        let changed = || self.set_attr_now(ino, set);
        if set.mtime.is_some() {
            return Ok(self.volume.replace_written(ino, changed)?);
        }
        Ok(changed()?)
    }

    fn set_attr_now(&self, ino: Ino, set: &SetAttr) -> xfskit_core::Result<()> {
        let now = self.clock.now();
        self.volume.transact(|tx| {
            let [inode] = take(tx, [ino])?;
            let (mode, uid, gid) = {
                let core = tx.core(inode);
                (core.mode(), core.uid(), core.gid())
            };
            if let Some(perm) = set.perm {
                tx.set_mode(inode, mode & !PERM | perm & PERM);
                acl_follows_mode(tx, inode, perm)?;
            }
            if set.uid.is_some() || set.gid.is_some() {
                tx.set_owner(inode, set.uid.unwrap_or(uid), set.gid.unwrap_or(gid));
            }
            if let Some(projid) = set.projid {
                tx.set_projid(inode, projid);
            }
            if let Some(flags) = set.flags {
                tx.set_flags(inode, flags);
            }
            if let Some(blocks) = set.extsize {
                tx.set_extsize(inode, blocks);
            }
            if let Some(blocks) = set.cowextsize {
                tx.set_cowextsize(inode, blocks);
            }
            tx.touch(inode, Touch::INODE, now);
            tx.set_times(inode, set.atime, set.mtime, set.ctime);
            Ok(())
        })
    }

    /// Sets the time of the last access of inode `ino`, and nothing else: its content was read.
    ///
    /// # Errors
    /// As [`set_attr`](Self::set_attr).
    pub fn set_atime(&self, ino: Ino, atime: Timestamp) -> Result<()> {
        Ok(self.volume.transact(|tx| {
            let [inode] = take(tx, [ino])?;
            tx.set_times(inode, Some(atime), None, None);
            Ok(())
        })?)
    }

    /// Removes what gives a program the rights of its file, as Linux does when the file's content
    /// or owner changes: its capabilities; for a writer who may not keep them, of whom `group` is
    /// the group, also setuid, and setgid of a file that its group may run or that has another
    /// group. Directories keep theirs.
    ///
    /// # Errors
    /// As [`set_attr`](Self::set_attr).
    pub fn drop_privileges(&self, ino: Ino, group: Option<u32>) -> Result<Privileges> {
        let inode = self.inode(ino)?;
        let core = inode.core();
        if core.is_dir() {
            return Ok(Privileges::default());
        }
        let has_attributes = core.anextents() > 0 || core.forkoff() > 0;
        if has_attributes && self.xattr(ino, CAPABILITY)?.is_some() {
            match self.remove_xattr(ino, CAPABILITY) {
                Err(error) if matches!(error.reason(), crate::Error::Core(Error::NoEntry)) => {}
                removed => removed?,
            }
        }
        let mode = core.mode();
        let gone = group.map_or(0, |group| killed_bits(mode, core.gid(), group));
        if gone != 0 {
            let perm = Some(mode & !gone & PERM);
            self.set_attr(ino, &SetAttr { perm, ..SetAttr::default() })?;
        }
        Ok(Privileges { removed: gone != 0, left: mode & !gone & (SETUID | SETGID) != 0 })
    }

    /// Sets an extended attribute, by the name that programs use (`user.`, `trusted.`, `security.`,
    /// `system.posix_acl_`). The permissions follow an ACL, and one that a mode can express is not
    /// stored.
    ///
    /// # Errors
    /// [`Exists`](xfskit_core::Error::Exists) and [`NoEntry`](xfskit_core::Error::NoEntry) if
    /// `mode` requires the opposite; [`AttrValue`](xfskit_core::Error::AttrValue) for a value of
    /// more than 64 KiB; for attributes that Linux would not show,
    /// [`AttrName`](xfskit_core::Error::AttrName) (a name of more than 255 bytes),
    /// [`NotPermitted`](xfskit_core::Error::NotPermitted) (`user.` on neither a file nor a
    /// directory), [`Unsupported`](xfskit_core::Error::Unsupported) (ACLs on a symbolic link,
    /// other prefixes) and [`Limit`](xfskit_core::Error::Limit) (no valid ACL, default ACLs on a
    /// file that is not a directory); [`NoSpace`](xfskit_core::Error::NoSpace).
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        if name.len() > XATTR_NAME_MAX {
            return Err(Error::AttrName.into());
        }
        let (namespace, name, value) = crate::xattr::to_disk(name, value)?;
        let now = self.clock.now();
        Ok(self.volume.transact(|tx| {
            let [inode] = take(tx, [ino])?;
            let core = tx.core(inode);
            if namespace == Namespace::User && !core.is_regular() && !core.is_dir() {
                return Err(Error::NotPermitted(
                    "only files and directories have user. attributes",
                ));
            }
            match (namespace, name) {
                (Namespace::Trusted, acl::ACCESS | acl::DEFAULT) => {
                    set_acl(tx, inode, name, &value, mode)?;
                }
                _ => tx.attr_set(inode, namespace, name, &value, mode)?,
            }
            tx.touch(inode, Touch::INODE, now);
            Ok(())
        })?)
    }

    /// Sets an attribute like [`set_xattr`](Self::set_xattr), with an ACL in its form on disk; the
    /// permissions do not follow it.
    ///
    /// # Errors
    /// As [`set_xattr`](Self::set_xattr).
    pub fn set_stored_xattr(
        &self,
        ino: Ino,
        namespace: Namespace,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        let now = self.clock.now();
        Ok(self.volume.transact(|tx| {
            let [inode] = take(tx, [ino])?;
            tx.attr_set(inode, namespace, name, value, mode)?;
            tx.touch(inode, Touch::INODE, now);
            Ok(())
        })?)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`NoEntry`](xfskit_core::Error::NoEntry) if there is none of this name.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let (namespace, name, _) = crate::xattr::to_disk(name, &[])?;
        let now = self.clock.now();
        Ok(self.volume.transact(|tx| {
            let [inode] = take(tx, [ino])?;
            tx.attr_remove(inode, namespace, name)?;
            tx.touch(inode, Touch::INODE, now);
            Ok(())
        })?)
    }
}

/// Sets an ACL as stored, under its name on disk; an empty one is removed. The permissions follow
/// an access ACL.
pub(super) fn set_acl(
    tx: &mut Tx<'_>,
    inode: TxInode,
    name: &[u8],
    value: &[u8],
    mode: SetMode,
) -> xfskit_core::Result<()> {
    let core = tx.core(inode);
    if core.file_type() == Some(FileType::Symlink) {
        return Err(Error::Unsupported("an ACL of a symbolic link".into()));
    }
    if name == acl::DEFAULT && !core.is_dir() && !value.is_empty() {
        return Err(Error::Limit("only directories have default ACLs"));
    }
    let mut keep = !value.is_empty();
    if name == acl::ACCESS
        && let Some(perm) = acl::perm(value)
    {
        let bits = core.mode() & !0o777;
        tx.set_mode(inode, bits | perm);
        keep = !acl::is_minimal(value);
    }
    if keep {
        return tx.attr_set(inode, Namespace::Trusted, name, value, mode);
    }
    match tx.attr_remove(inode, Namespace::Trusted, name) {
        Err(Error::NoEntry) => Ok(()),
        result => result,
    }
}

/// Updates the access ACL of an inode, if it has one, to the permissions `perm`.
fn acl_follows_mode(tx: &mut Tx<'_>, inode: TxInode, perm: u16) -> xfskit_core::Result<()> {
    let stored = tx.attr_get(inode, Namespace::Trusted, acl::ACCESS)?;
    let Some(changed) = stored.as_ref().and_then(|stored| acl::with_perm(stored, perm)) else {
        return Ok(());
    };
    if stored.as_ref() == Some(&changed) {
        return Ok(());
    }
    tx.attr_set(inode, Namespace::Trusted, acl::ACCESS, &changed, SetMode::Any)
}
