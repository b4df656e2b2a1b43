//! Makes inodes, with a name or without.

use xfskit_core::attr::change::SetMode;
use xfskit_core::icore::{NewInode, Touch, inherited_flags, inherited_flags2};
use xfskit_core::{Error as Core, Tx, TxInode};
use xfskit_format::attr::{Namespace, acl};
use xfskit_format::inode::{FileType, InodeFlags, InodeFlags2};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::Ino;

use super::hold::Hold;
use super::set::set_acl;
use super::{check_dir, check_name, named, take};
use crate::{Error, Fs, Result};

/// The setgid bit: in a directory, new files get the directory's group.
const SETGID: u16 = 0o2000;

/// The properties of a new inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewNode {
    /// Type and permissions: `S_IFREG | 0o644`. Symbolic links also have a target.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group, unless a directory with the setgid bit gives its own.
    pub gid: u32,
    /// Major and minor number of a device.
    pub rdev: Option<(u32, u32)>,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Permissions that are removed from `mode` if the directory has no default ACL: the umask of a
    /// process.
    pub umask: u16,
    /// True for a copy that gets the ACLs of its original: the directory's default ACL is not
    /// inherited.
    pub brings_acls: bool,
}

impl NewNode {
    /// Returns the properties of a regular file.
    pub fn file(perm: u16) -> Self {
        Self { mode: FileType::Regular.mode() | perm, ..Self::default() }
    }

    /// Returns the properties of a directory.
    pub fn directory(perm: u16) -> Self {
        Self { mode: FileType::Directory.mode() | perm, ..Self::default() }
    }

    /// Returns the properties of a symbolic link.
    pub fn symlink(target: &[u8]) -> Self {
        let target = Some(target.to_vec());
        Self { mode: FileType::Symlink.mode() | 0o777, target, ..Self::default() }
    }

    /// Returns the properties that programs use by default: everyone may read, the owner may write;
    /// or the directory's default ACL applies.
    pub fn usual(file_type: FileType) -> Self {
        let perm = if file_type == FileType::Directory { 0o777 } else { 0o666 };
        Self { mode: file_type.mode() | perm, umask: 0o022, ..Self::default() }
    }

    /// Returns the properties of a whiteout: what a rename of an overlay's layer leaves behind, as
    /// the sign that the name is gone. As in Linux, it inherits no ACL.
    pub fn whiteout() -> Self {
        let mode = FileType::CharDevice.mode();
        Self { mode, rdev: Some((0, 0)), brings_acls: true, ..Self::default() }
    }

    /// Sets owner and group.
    pub fn owner(self, uid: u32, gid: u32) -> Self {
        Self { uid, gid, ..self }
    }

    fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }
}

impl Fs {
    /// Makes `new` under `name` in directory `dir`, and returns its number. A default ACL of the
    /// directory is inherited as in Linux.
    ///
    /// # Errors
    /// [`Core::Exists`], [`Core::NoSpace`], names that are not valid, and properties that are not:
    /// a symbolic link without a target, a device number that the format cannot hold.
    pub fn make(&self, dir: Ino, name: &[u8], new: &NewNode) -> Result<Ino> {
        self.make_with(dir, name, new, |_| ())
    }

    /// Makes a file like [`make`](Self::make), and holds it open, so that its number is not reused.
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
        let file_type = check_new(new)?;
        let now = self.clock.now();
        Ok(self.volume.transact(|tx| {
            let [parent] = take(tx, [dir])?;
            check_dir(tx, parent)?;
            let nlink = if file_type == FileType::Directory { 2 } else { 1 };
            let inode = tx.ialloc(dir, &core_of(tx, parent, new, file_type, nlink, now))?;
            fill(tx, parent, inode, new, file_type)?;
            tx.dir_create(parent, name, inode.ino, file_type)?;
            named(tx, inode, parent, name)?;
            inherit_acls(tx, parent, inode, new, file_type)?;
            if file_type == FileType::Directory {
                let links = tx.core(parent).nlink();
                tx.set_nlink(parent, links.saturating_add(1))?;
            }
            tx.touch(parent, Touch::CONTENT, now);
            made(inode.ino);
            Ok(inode.ino)
        })?)
    }

    /// Makes a file that has no name. It is freed with its last holder unless [`link`](Self::link)
    /// gives it a name. `near` is the directory in whose group it is allocated.
    ///
    /// # Errors
    /// [`Core::NoSpace`], and a `new` that is not a regular file.
    pub fn make_unnamed(&self, near: Ino, new: &NewNode) -> Result<Hold<'_>> {
        if check_new(new)? != FileType::Regular {
            return Err(Core::Limit("only a regular file can be made without a name").into());
        }
        let now = self.clock.now();
        let hold = std::cell::Cell::new(None);
        self.volume.transact(|tx| {
            let [parent] = take(tx, [near])?;
            let inode = tx.ialloc(near, &core_of(tx, parent, new, FileType::Regular, 0, now))?;
            tx.add_unlinked(inode)?;
            inherit_acls(tx, parent, inode, new, FileType::Regular)?;
            hold.set(Some(self.hold(inode.ino)));
            Ok(())
        })?;
        let hold = hold.into_inner().ok_or(Error::Core(Core::NoInode(near)))?;
        hold.mark_unlinked();
        Ok(hold)
    }

    /// Adds the name `name` in directory `dir` to inode `ino`, which is not a directory. The caller
    /// holds an inode that has no name yet.
    ///
    /// # Errors
    /// [`Core::Exists`], [`Core::NoSpace`], [`Core::TooManyLinks`], [`Core::NotPermitted`] for a
    /// directory.
    pub fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let now = self.clock.now();
        Ok(self.volume.transact(|tx| {
            let [parent, inode] = take(tx, [dir, ino])?;
            let file_type = tx.core(inode).file_type().unwrap_or(FileType::Unknown);
            if file_type == FileType::Directory {
                return Err(Core::NotPermitted("a directory has one name only"));
            }
            check_dir(tx, parent)?;
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

/// Makes `new`, which is no directory, under the name that another inode of directory `parent` has
/// until now. It inherits what a new file in `heir` would.
pub(super) fn make_in_place(
    tx: &mut Tx<'_>,
    (parent, name): (TxInode, &[u8]),
    heir: TxInode,
    (new, file_type): (&NewNode, FileType),
    now: Timestamp,
) -> xfskit_core::Result<()> {
    let inode = tx.ialloc(heir.ino, &core_of(tx, heir, new, file_type, 1, now))?;
    fill(tx, parent, inode, new, file_type)?;
    tx.dir_replace(parent, name, inode.ino, file_type)?;
    named(tx, inode, parent, name)?;
    inherit_acls(tx, heir, inode, new, file_type)
}

/// Refuses properties that are not valid, before anything is changed.
pub(super) fn check_new(new: &NewNode) -> Result<FileType> {
    let no = |why| Err(Error::Core(Core::Limit(why)));
    let Some(file_type) = new.file_type() else { return no("a mode without a file type") };
    if (file_type == FileType::Symlink) != new.target.is_some() {
        return no("symbolic links have a target, and nothing else has");
    }
    match new.target.as_deref() {
        Some([]) => return no("the target of a symbolic link is not empty"),
        Some(target) if target.len() > 1023 => {
            let long = "the target of a symbolic link has at most 1023 bytes";
            return Err(Core::NameTooLong(long).into());
        }
        _ => {}
    }
    if new.rdev.is_some_and(|(major, minor)| major >= 1 << 14 || minor >= 1 << 18) {
        return no("a device number beyond 14 bits of major and 18 bits of minor");
    }
    Ok(file_type)
}

/// Returns the core of a new inode: the requested properties, and the inherited ones.
fn core_of(
    tx: &Tx<'_>,
    parent: TxInode,
    new: &NewNode,
    file_type: FileType,
    nlink: u32,
    now: Timestamp,
) -> NewInode {
    let parent = tx.core(parent);
    let is_dir = file_type == FileType::Directory;
    let group_is_inherited = parent.mode() & SETGID != 0;
    let setgid = if is_dir && group_is_inherited { SETGID } else { 0 };
    let flags = inherited_flags(parent.flags(), file_type);
    let project = parent.flags().contains(InodeFlags::PROJINHERIT);
    let hint = flags.intersects(InodeFlags::EXTSIZE | InodeFlags::EXTSZINHERIT);
    let flags2 = inherited_flags2(parent.flags2(), file_type);
    let cow_hint = flags2.contains(InodeFlags2::COWEXTSIZE);
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

/// Sets the ACLs of a new inode from the default ACL of its directory: an access ACL, masked by the
/// requested permissions, and for a directory the default ACL itself. Symbolic links have none.
fn inherit_acls(
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

/// Sets the content of a new inode: an empty directory, the target of a link.
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
