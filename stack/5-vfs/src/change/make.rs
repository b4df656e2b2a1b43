//! Inodes made: with a name, or without.

use xfskit_core::attr::change::SetMode;
use xfskit_core::icore::{NewInode, Touch, inherited_flags, inherited_flags2};
use xfskit_core::{Error as Core, Tx, TxInode};
use xfskit_format::attr::{Namespace, acl};
use xfskit_format::inode::{FileType, flags, flags2};
use xfskit_units::Ino;

use super::hold::Hold;
use super::set::set_acl;
use super::{check_name, check_place, named, take};
use crate::{Error, Fs, Result};

/// The setgid bit: in a directory, what is made gets the directory's group.
const SETGID: u16 = 0o2000;

/// What is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewNode {
    /// Type and permissions: `S_IFREG | 0o644`. Symbolic links have a target besides.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group; a directory with the setgid bit hands down its own.
    pub gid: u32,
    /// Of a device: major and minor number.
    pub rdev: Option<(u32, u32)>,
    /// Of a symbolic link: where it points.
    pub target: Option<Vec<u8>>,
    /// Permissions that `mode` loses where the directory has no default ACL: what a process calls
    /// its umask.
    pub umask: u16,
    /// A copy that is given the ACLs of its original: the directory's default ACL is not handed
    /// down to it.
    pub brings_acls: bool,
}

impl NewNode {
    /// A regular file.
    pub fn file(perm: u16) -> Self {
        Self { mode: FileType::Regular.mode() | perm, ..Self::default() }
    }

    /// A directory.
    pub fn directory(perm: u16) -> Self {
        Self { mode: FileType::Directory.mode() | perm, ..Self::default() }
    }

    /// A symbolic link.
    pub fn symlink(target: &[u8]) -> Self {
        let target = Some(target.to_vec());
        Self { mode: FileType::Symlink.mode() | 0o777, target, ..Self::default() }
    }

    /// What programs make where nobody names permissions: everybody may read, the owner write; or
    /// what the directory's default ACL says.
    pub fn usual(file_type: FileType) -> Self {
        let perm = if file_type == FileType::Directory { 0o777 } else { 0o666 };
        Self { mode: file_type.mode() | perm, umask: 0o022, ..Self::default() }
    }

    /// The same, of this owner and group.
    pub fn owner(self, uid: u32, gid: u32) -> Self {
        Self { uid, gid, ..self }
    }

    fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }
}

impl Fs {
    /// Makes what `new` says under `name` in directory `dir`, and answers its number. A default ACL
    /// of the directory is handed down as Linux does.
    ///
    /// # Errors
    /// [`Core::Exists`], [`Core::NoSpace`], names that are none, and what makes no sense: a
    /// symbolic link without a target, a device number that the format cannot hold.
    pub fn make(&self, dir: Ino, name: &[u8], new: &NewNode) -> Result<Ino> {
        self.make_with(dir, name, new, |_| ())
    }

    /// The same, and what was made is held open: its number stays its own.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn make_held(&self, dir: Ino, name: &[u8], new: &NewNode) -> Result<Hold<'_>> {
        let hold = std::cell::Cell::new(None);
        let ino = self.make_with(dir, name, new, |ino| hold.set(Some(self.hold(ino))))?;
        hold.into_inner().ok_or(Error::Core(Core::NoInode(ino)))
    }

    /// Makes what `new` says. Calls `made` with its number in each attempt, before the change is
    /// committed.
    fn make_with(&self, dir: Ino, name: &[u8], new: &NewNode, made: impl Fn(Ino)) -> Result<Ino> {
        check_name(name)?;
        let file_type = judge(new)?;
        let now = self.clock.now();
        Ok(self.volume.transact(|tx| {
            let [parent] = take(tx, [dir])?;
            check_place(tx, parent)?;
            let nlink = if file_type == FileType::Directory { 2 } else { 1 };
            let inode = tx.ialloc(dir, &core_of(tx, parent, new, file_type, nlink, now))?;
            fill(tx, parent, inode, new, file_type)?;
            tx.dir_create(parent, name, inode.ino, file_type)?;
            named(tx, inode, parent, name)?;
            hand_down_acls(tx, parent, inode, new, file_type)?;
            if file_type == FileType::Directory {
                let links = tx.core(parent).nlink();
                tx.set_nlink(parent, links.saturating_add(1))?;
            }
            tx.touch(parent, Touch::CONTENT, now);
            made(inode.ino);
            Ok(inode.ino)
        })?)
    }

    /// Makes a file that has no name: it goes away with its last holder unless it is given one by
    /// [`link`](Self::link). `near` is the directory whose group it goes to.
    ///
    /// # Errors
    /// [`Core::NoSpace`], and a `new` that is no regular file.
    pub fn make_unnamed(&self, near: Ino, new: &NewNode) -> Result<Hold<'_>> {
        if judge(new)? != FileType::Regular {
            return Err(Core::Limit("only a regular file can be made without a name").into());
        }
        let now = self.clock.now();
        let hold = std::cell::Cell::new(None);
        self.volume.transact(|tx| {
            let [parent] = take(tx, [near])?;
            let inode = tx.ialloc(near, &core_of(tx, parent, new, FileType::Regular, 0, now))?;
            tx.add_unlinked(inode)?;
            hand_down_acls(tx, parent, inode, new, FileType::Regular)?;
            hold.set(Some(self.hold(inode.ino)));
            Ok(())
        })?;
        let hold = hold.into_inner().ok_or(Error::Core(Core::NoInode(near)))?;
        hold.mark_unlinked();
        Ok(hold)
    }

    /// Gives inode `ino`, which is no directory, the further name `name` in directory `dir`. One
    /// that has no name at all is held by the caller.
    ///
    /// # Errors
    /// [`Core::Exists`], [`Core::NoSpace`], [`Core::Limit`] where it has as many links as can be.
    pub fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let now = self.clock.now();
        Ok(self.volume.transact(|tx| {
            let [parent, inode] = take(tx, [dir, ino])?;
            let file_type = tx.core(inode).file_type().unwrap_or(FileType::Unknown);
            if file_type == FileType::Directory {
                return Err(Core::Limit("a directory has one name only"));
            }
            check_place(tx, parent)?;
            let nlink = tx.core(inode).nlink();
            if nlink == 0 {
                tx.remove_unlinked(inode)?;
            }
            tx.set_nlink(inode, nlink.saturating_add(1))?;
            tx.dir_create(parent, name, ino, file_type)?;
            named(tx, inode, parent, name)?;
            tx.touch(parent, Touch::CONTENT, now);
            tx.touch(inode, Touch::INODE, now);
            Ok(())
        })?)
    }
}

/// Refuses what makes no sense before anything is touched.
fn judge(new: &NewNode) -> Result<FileType> {
    let no = |why| Err(Error::Core(Core::Limit(why)));
    let Some(file_type) = new.file_type() else { return no("a mode without a file type") };
    if (file_type == FileType::Symlink) != new.target.is_some() {
        return no("symbolic links have a target, and nothing else has");
    }
    if new.target.as_ref().is_some_and(|target| target.is_empty() || target.len() > 1023) {
        return no("the target of a symbolic link is 1 to 1023 bytes long");
    }
    if new.rdev.is_some_and(|(major, minor)| major >= 1 << 14 || minor >= 1 << 18) {
        return no("a device number beyond 14 bits of major and 18 bits of minor");
    }
    Ok(file_type)
}

/// The core of a new inode: what is asked for, and what the directory hands down.
fn core_of(
    tx: &Tx<'_>,
    parent: TxInode,
    new: &NewNode,
    file_type: FileType,
    nlink: u32,
    now: xfskit_format::timestamp::Timestamp,
) -> NewInode {
    let parent = tx.core(parent);
    let is_dir = file_type == FileType::Directory;
    let group_is_inherited = parent.mode() & SETGID != 0;
    let setgid = if is_dir && group_is_inherited { SETGID } else { 0 };
    let flags = inherited_flags(parent.flags(), file_type);
    let project = parent.flags() & flags::PROJINHERIT != 0;
    let hint = flags & (flags::EXTSIZE | flags::EXTSZINHERIT) != 0;
    let flags2 = inherited_flags2(parent.flags2(), file_type);
    let cow_hint = flags2 & flags2::COWEXTSIZE != 0;
    NewInode {
        mode: new.mode & !new.umask | setgid,
        uid: new.uid,
        gid: if group_is_inherited { parent.gid() } else { new.gid },
        projid: if project { parent.projid() } else { 0 },
        rdev: new.rdev,
        nlink,
        flags,
        flags2,
        extsize: if hint { parent.extsize().0 } else { 0 },
        cowextsize: if cow_hint { parent.cowextsize().0 } else { 0 },
        now,
    }
}

/// Gives a new inode what the default ACL of its directory says: an access ACL, masked by the
/// permissions asked for, and to a directory the default ACL itself. Symbolic links get nothing.
fn hand_down_acls(
    tx: &mut Tx<'_>,
    parent: TxInode,
    inode: TxInode,
    new: &NewNode,
    file_type: FileType,
) -> xfskit_core::Result<()> {
    if new.brings_acls || file_type == FileType::Symlink {
        return Ok(());
    }
    let Some(default) = tx.attr_get(parent, Namespace::Trusted, acl::DEFAULT)? else {
        return Ok(());
    };
    let access = acl::inherited(&default, new.mode)
        .ok_or(Core::Limit("the default ACL of the directory is damaged"))?;
    if file_type == FileType::Directory {
        set_acl(tx, inode, acl::DEFAULT, &default, SetMode::Any)?;
    }
    set_acl(tx, inode, acl::ACCESS, &access, SetMode::Any)
}

/// What a new inode holds: an empty directory, the target of a link.
fn fill(
    tx: &mut Tx<'_>,
    parent: TxInode,
    inode: TxInode,
    new: &NewNode,
    file_type: FileType,
) -> xfskit_core::Result<()> {
    match (file_type, &new.target) {
        (FileType::Directory, _) => tx.dir_init(inode, parent.ino),
        (FileType::Symlink, Some(target)) => tx.write_symlink(inode, target),
        _ => Ok(()),
    }
}
