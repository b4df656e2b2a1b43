//! Immutable and append-only files and directories, which the kernel leaves to the server.

use std::ops::Deref;

use rustix::io::Errno;
use xfskit_format::inode::InodeFlags;
use xfskit_units::Ino;
use xfskit_vfs::Fs;

use super::Server;
use crate::operations::{Changes, Open, Reply};

/// Neither content, metadata nor names can be changed.
const FIXED: InodeFlags = InodeFlags::IMMUTABLE;
/// … or it can only grow.
const PROTECTED: InodeFlags = FIXED.union(InodeFlags::APPEND);

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Server<F> {
    /// Fails if the inode has one of `flags`.
    fn without(&self, ino: Ino, flags: InodeFlags) -> Reply<()> {
        let has = self.reply(self.fs.inode(ino))?.core().flags();
        if has.intersects(flags) { Err(Errno::PERM) } else { Ok(()) }
    }

    /// Fails if no name can be added to the directory.
    pub(super) fn may_add(&self, dir: Ino) -> Reply<()> {
        self.without(dir, FIXED)
    }

    /// Fails if the name, or the inode that it names, cannot be removed from the directory.
    pub(super) fn may_remove(&self, dir: Ino, name: &[u8]) -> Reply<()> {
        self.without(dir, PROTECTED)?;
        let dir = self.reply(self.fs.inode(dir))?;
        // An error is reported by the change.
        match self.fs.lookup(&dir, name) {
            Ok(Some(ino)) => self.without(ino, PROTECTED),
            _ => Ok(()),
        }
    }

    /// Fails if a rename cannot put another inode in the place of this name. A name that is new is
    /// only added.
    pub(super) fn may_replace(&self, dir: Ino, name: &[u8]) -> Reply<()> {
        self.may_add(dir)?;
        let inode = self.reply(self.fs.inode(dir))?;
        match self.fs.lookup(&inode, name) {
            Ok(Some(_)) => self.may_remove(dir, name),
            // An error is reported by the change.
            _ => Ok(()),
        }
    }

    /// Fails if the inode can have no other name.
    pub(super) fn may_link(&self, ino: Ino) -> Reply<()> {
        self.without(ino, PROTECTED)
    }

    /// Fails if the file cannot be opened in this way.
    pub(super) fn may_open(&self, ino: Ino, how: Open) -> Reply<()> {
        if !how.write && !how.truncate {
            return Ok(());
        }
        self.without(ino, if how.append && !how.truncate { FIXED } else { PROTECTED })
    }

    /// Fails if the content cannot be changed, where no OPEN says so before. An append-only file
    /// passes: the kernel sends whole pages, old bytes among them.
    pub(super) fn may_write(&self, ino: Ino) -> Reply<()> {
        if self.no_open { self.without(ino, FIXED) } else { Ok(()) }
    }

    /// Fails if the attributes cannot be changed. Times can be set to now where a file can grow.
    pub(super) fn may_change(&self, ino: Ino, changes: &Changes) -> Reply<()> {
        let only_now = changes.perm.is_none()
            && changes.uid.is_none()
            && changes.gid.is_none()
            && changes.size.is_none();
        self.without(ino, if only_now { FIXED } else { PROTECTED })
    }

    /// Fails if extended attributes cannot be changed.
    pub(super) fn may_change_xattrs(&self, ino: Ino) -> Reply<()> {
        self.without(ino, PROTECTED)
    }
}
