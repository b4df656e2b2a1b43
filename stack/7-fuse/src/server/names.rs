//! Operations on names.

use std::ops::Deref;

use rustix::io::Errno;
use xfskit_core::Error as Core;
use xfskit_format::dir::NAME_MAX;
use xfskit_units::Ino;
use xfskit_vfs::{self as vfs, Fs, InodeHold, NewNode, RenameMode};

use super::{Server, is_gone};
use crate::operations::{Node, Reply};

/// Times that a lookup is repeated whose inode was removed meanwhile.
const LOOKUPS: usize = 100;

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Server<F> {
    pub(super) fn look_up(&self, dir: Ino, name: &[u8]) -> Reply<Option<Node>> {
        if name.len() > NAME_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let dir = self.reply(self.fs.inode(dir))?;
        for _ in 0..LOOKUPS {
            let Some(inode) = self.reply(self.fs.lookup_inode(&dir, name))? else {
                return Ok(None);
            };
            match InodeHold::of_inode(&*self.fs, &inode) {
                Ok(_hold) => return Ok(Some(self.node(&inode))),
                // Its name was removed; another inode may have it now.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(None)
    }

    pub(super) fn make_node(&self, dir: Ino, name: &[u8], new: &NewNode) -> Reply<Node> {
        self.to_change()?;
        self.may_add(dir)?;
        let made = || -> vfs::Result<Node> {
            let hold = self.fs.make_held(dir, name, new)?;
            Ok(self.node(&self.fs.inode(hold.ino())?))
        };
        self.changed(made())
    }

    pub(super) fn make_unnamed_node(&self, dir: Ino, new: &NewNode) -> Reply<Node> {
        self.to_change()?;
        self.may_add(dir)?;
        let made = || -> vfs::Result<Node> {
            let hold = self.fs.make_unnamed(dir, new)?;
            Ok(self.node(&self.fs.inode(hold.ino())?))
        };
        self.changed(made())
    }

    pub(super) fn link_node(&self, ino: Ino, dir: Ino, name: &[u8]) -> Reply<Node> {
        self.to_change()?;
        self.may_link(ino)?;
        self.may_add(dir)?;
        let linked = self.fs.link(ino, dir, name).and_then(|()| self.held_node(ino));
        self.changed(linked)
    }

    pub(super) fn remove(&self, dir: Ino, name: &[u8], is_dir: bool) -> Reply<()> {
        self.to_change()?;
        self.may_remove(dir, name)?;
        let removed = if is_dir { self.fs.rmdir(dir, name) } else { self.fs.unlink(dir, name) };
        self.changed(removed)
    }

    pub(super) fn rename_name(
        &self,
        (from, old): (Ino, &[u8]),
        (to, new): (Ino, &[u8]),
        mode: RenameMode,
    ) -> Reply<()> {
        self.to_change()?;
        self.may_remove(from, old)?;
        self.may_replace(to, new)?;
        match self.fs.rename(from, old, to, new, mode) {
            // XFS in Linux tells rename(2) from rmdir(2) here.
            Err(error) if is_occupied(&error) => Err(Errno::EXIST),
            renamed => self.changed(renamed),
        }
    }
}

/// Returns true if a directory that would be replaced has entries.
fn is_occupied(error: &vfs::Error) -> bool {
    matches!(error.reason(), vfs::Error::Core(Core::NotEmpty))
}
