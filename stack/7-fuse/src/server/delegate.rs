//! The operations, each in the module that it belongs to.

use std::any::Any;
use std::ops::{Deref, Range};
use std::sync::atomic::Ordering;

use xfskit_units::Ino;
use xfskit_vfs::{Fs, NewNode, RenameMode, Seek, SetMode, Stat};

use super::Server;
use crate::freeze::Gate;
use crate::operations::{
    Caller, Changes, Fallocate, Listed, Node, Open, Operations, Reply, Room, Statfs,
};

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Operations for Server<F> {
    fn root(&self) -> Ino {
        self.root
    }

    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn check_not_shut_down(&self) -> Reply<()> {
        Self::check_not_shut_down(self)
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        self.shut_down_after("a request", panic);
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Reply<Option<Node>> {
        self.look_up(dir, name)
    }

    fn forget(&self, ino: Ino, count: u64) {
        if let Some(node) = self.nodes.forget(ino, count) {
            self.let_go(ino, node);
        }
    }

    fn make(&self, dir: Ino, name: &[u8], new: &NewNode) -> Reply<Node> {
        self.make_node(dir, name, new)
    }

    fn create(&self, dir: Ino, name: &[u8], new: &NewNode) -> Reply<Node> {
        let node = self.make_node(dir, name, new)?;
        self.opened_node(node)
    }

    fn create_unnamed(&self, dir: Ino, new: &NewNode) -> Reply<Node> {
        let node = self.make_unnamed_node(dir, new)?;
        self.opened_node(node)
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Reply<Node> {
        self.link_node(ino, dir, name)
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Reply<()> {
        self.remove(dir, name, false)
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> Reply<()> {
        self.remove(dir, name, true)
    }

    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        whiteout: Option<&NewNode>,
    ) -> Reply<()> {
        self.rename_name(from, to, mode, whiteout)
    }

    fn read_link(&self, ino: Ino) -> Reply<Vec<u8>> {
        let target = self.fs.inode(ino).and_then(|inode| self.fs.read_link(&inode));
        let target = self.reply(target)?;
        self.accessed(ino);
        Ok(target)
    }

    fn stat(&self, ino: Ino) -> Reply<Stat> {
        self.reply(self.stat_of(ino))
    }

    fn change(&self, caller: Caller, ino: Ino, changes: &Changes) -> Reply<Stat> {
        self.change_attributes(caller, ino, changes)
    }

    fn statfs(&self) -> Statfs {
        self.fs.statfs()
    }

    fn open(&self, caller: Caller, ino: Ino, how: Open) -> Reply<()> {
        self.may_open(ino, how)?;
        let file = self.open_file(ino)?;
        if how.write {
            file.may_be_dirty.store(true, Ordering::Relaxed);
        }
        if how.truncate
            && let Err(error) = self.truncate_file(ino, 0, how.kill_bits.then_some(caller.gid))
        {
            self.nodes.released(ino);
            return Err(error);
        }
        Ok(())
    }

    fn release(&self, ino: Ino) {
        self.nodes.released(ino);
    }

    fn read(
        &self,
        ino: Ino,
        offset: u64,
        size: usize,
        done: &mut dyn FnMut(&[&[u8]]),
    ) -> Reply<()> {
        self.read_file(ino, offset, size, done)
    }

    fn write(
        &self,
        caller: Caller,
        ino: Ino,
        offset: u64,
        data: &[u8],
        kill_bits: bool,
    ) -> Reply<()> {
        self.write_file(ino, offset, data, kill_bits.then_some(caller.gid))
    }

    fn fsync(&self, ino: Ino) -> Reply<()> {
        self.sync_file(ino)
    }

    fn sync(&self) -> Reply<()> {
        self.reply(self.commit()).map(|_| ())
    }

    fn fallocate(
        &self,
        caller: Caller,
        ino: Ino,
        range: Range<u64>,
        how: Fallocate,
    ) -> Reply<bool> {
        self.allocate(caller, ino, range, how)
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Reply<u64> {
        self.seek_file(ino, offset, what)
    }

    fn copy_range(&self, caller: Caller, from: (Ino, u64), to: (Ino, u64), len: u64) -> Reply<u64> {
        self.copy(from, to, len, (!caller.is_root()).then_some(caller.gid))
    }

    fn list(&self, dir: Ino, cookie: u64, each: &mut dyn FnMut(&Listed) -> Room) -> Reply<()> {
        self.list_dir(dir, cookie, each)
    }

    fn list_nodes(
        &self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(&Listed, Option<&Node>) -> Room,
    ) -> Reply<()> {
        self.list_dir_nodes(dir, cookie, each)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Reply<Vec<u8>> {
        self.get_xattr(ino, name)
    }

    fn xattr_names(&self, caller: Caller, ino: Ino) -> Reply<Vec<u8>> {
        self.list_xattrs(caller, ino)
    }

    fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: SetMode) -> Reply<()> {
        self.put_xattr(ino, name, value, mode)
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Reply<()> {
        self.drop_xattr(ino, name)
    }

    fn ioctl(&self, caller: Caller, ino: Ino, command: u32, argument: &[u8]) -> Reply<Vec<u8>> {
        self.do_ioctl(caller, ino, command, argument)
    }
}
