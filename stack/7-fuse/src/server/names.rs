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
        if name == b"." {
            return self.by_number(dir);
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

    /// Returns the node of an inode by its number, of any type; `None` if it is free. The kernel
    /// asks for `.` in it where a program opens a file by its handle, and compares the generation.
    fn by_number(&self, ino: Ino) -> Reply<Option<Node>> {
        let found = self.fs.inode(ino).and_then(|inode| {
            let _hold = InodeHold::of_inode(&*self.fs, &inode)?;
            Ok(self.node(&inode))
        });
        match found {
            Err(error) if is_gone(&error) => Ok(None),
            found => self.reply(found).map(Some),
        }
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
        whiteout: Option<&NewNode>,
    ) -> Reply<()> {
        self.to_change()?;
        self.may_remove(from, old)?;
        self.may_replace(to, new)?;
        let renamed = match whiteout {
            Some(left) => self.fs.rename_leaving(from, old, to, new, mode, left),
            None => self.fs.rename(from, old, to, new, mode),
        };
        match renamed {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use xfskit_core::{OpenOptions, Volume};
    use xfskit_test_support::{verify, volumes};
    use xfskit_vfs::Clock;

    use super::*;
    use crate::operations::Operations;
    use crate::options::Options;

    #[test]
    fn an_inode_is_found_by_its_number_whatever_its_type() {
        let dev = volumes::make(64 << 20, &[]);
        let options = OpenOptions { write: true, cache_bytes: 4 << 20, ..OpenOptions::default() };
        let volume = Volume::open(Arc::clone(&dev) as _, &options).unwrap();
        let fs = Arc::new(Fs::new(volume, Clock::system()));
        let root = fs.volume().geo().rootino;
        let server = Server::new(Arc::clone(&fs), root, &Options::default());
        for new in [NewNode::file(0o644), NewNode::directory(0o755), NewNode::symlink(b"target")] {
            let is_dir = new == NewNode::directory(0o755);
            let made = server.make(root, b"name", &new).unwrap().stat;
            server.forget(made.ino, 1);
            let found = server.lookup(made.ino, b".").unwrap().expect("a node").stat;
            assert_eq!((found.ino, found.generation), (made.ino, made.generation));
            server.forget(found.ino, 1);
            server.remove(root, b"name", is_dir).unwrap();
            assert!(server.lookup(made.ino, b".").unwrap().is_none(), "it is free");
        }
        assert!(server.lookup(Ino(1 << 50), b".").unwrap().is_none(), "there is no such inode");
        assert_eq!(server.nodes(), 0);
        drop(server);
        Arc::into_inner(fs).expect("one user").close().unwrap();
        verify::device(&*dev).unwrap();
    }
}
