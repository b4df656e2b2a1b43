//! Operations with a map of owners before them.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use xfskit_units::Ino;
use xfskit_vfs::{NewNode, RenameMode, Seek, SetMode, Stat};

use super::{IdMap, UNMAPPED, xattr};
use crate::freeze::Gate;
use crate::operations::{
    Caller, Changes, Fallocate, Listed, Node, Open, Operations, Reply, Room, Statfs,
};

/// Operations whose owners are mapped: programs see and set those of the mount, the volume has its
/// own.
#[derive(Debug)]
pub(crate) struct Mapped<O> {
    operations: Arc<O>,
    map: IdMap,
}

impl<O: Operations> Mapped<O> {
    pub(crate) fn new(operations: Arc<O>, map: IdMap) -> Self {
        Self { operations, map }
    }

    fn stat_shown(&self, stat: Stat) -> Stat {
        let uid = self.map.users.shown(stat.uid).unwrap_or(UNMAPPED);
        let gid = self.map.groups.shown(stat.gid).unwrap_or(UNMAPPED);
        Stat { uid, gid, ..stat }
    }

    fn node_shown(&self, Node { stat }: Node) -> Node {
        Node { stat: self.stat_shown(stat) }
    }

    /// Returns the caller with its ids in the volume. What it may do as root stays.
    fn caller(&self, caller: Caller) -> Caller {
        let uid = self.map.users.in_volume(caller.uid).unwrap_or(UNMAPPED);
        let gid = self.map.groups.in_volume(caller.gid).unwrap_or(UNMAPPED);
        Caller { uid, gid, ..caller }
    }

    fn user(&self, uid: u32) -> Reply<u32> {
        self.map.users.in_volume(uid).ok_or(Errno::OVERFLOW)
    }

    fn group(&self, gid: u32) -> Reply<u32> {
        self.map.groups.in_volume(gid).ok_or(Errno::OVERFLOW)
    }

    fn new_node(&self, new: &NewNode) -> Reply<NewNode> {
        Ok(new.clone().owner(self.user(new.uid)?, self.group(new.gid)?))
    }
}

impl<O: Operations> Operations for Mapped<O> {
    fn root(&self) -> Ino {
        self.operations.root()
    }

    fn gate(&self) -> &Gate {
        self.operations.gate()
    }

    fn check_not_shut_down(&self) -> Reply<()> {
        self.operations.check_not_shut_down()
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        self.operations.panicked(panic);
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Reply<Option<Node>> {
        Ok(self.operations.lookup(dir, name)?.map(|node| self.node_shown(node)))
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.operations.forget(ino, count);
    }

    fn make(&self, dir: Ino, name: &[u8], new: &NewNode) -> Reply<Node> {
        self.operations.make(dir, name, &self.new_node(new)?).map(|node| self.node_shown(node))
    }

    fn create(&self, dir: Ino, name: &[u8], new: &NewNode) -> Reply<Node> {
        self.operations.create(dir, name, &self.new_node(new)?).map(|node| self.node_shown(node))
    }

    fn create_unnamed(&self, dir: Ino, new: &NewNode) -> Reply<Node> {
        let new = self.new_node(new)?;
        self.operations.create_unnamed(dir, &new).map(|node| self.node_shown(node))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Reply<Node> {
        self.operations.link(ino, dir, name).map(|node| self.node_shown(node))
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Reply<()> {
        self.operations.unlink(dir, name)
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> Reply<()> {
        self.operations.rmdir(dir, name)
    }

    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        whiteout: Option<&NewNode>,
    ) -> Reply<()> {
        let whiteout = whiteout.map(|new| self.new_node(new)).transpose()?;
        self.operations.rename(from, to, mode, whiteout.as_ref())
    }

    fn read_link(&self, ino: Ino) -> Reply<Vec<u8>> {
        self.operations.read_link(ino)
    }

    fn stat(&self, ino: Ino) -> Reply<Stat> {
        self.operations.stat(ino).map(|stat| self.stat_shown(stat))
    }

    fn change(&self, caller: Caller, ino: Ino, changes: &Changes) -> Reply<Stat> {
        let uid = changes.uid.map(|uid| self.user(uid)).transpose()?;
        let gid = changes.gid.map(|gid| self.group(gid)).transpose()?;
        let changes = Changes { uid, gid, ..*changes };
        let changed = self.operations.change(self.caller(caller), ino, &changes);
        changed.map(|stat| self.stat_shown(stat))
    }

    fn statfs(&self) -> Statfs {
        self.operations.statfs()
    }

    fn open(&self, caller: Caller, ino: Ino, how: Open) -> Reply<()> {
        self.operations.open(self.caller(caller), ino, how)
    }

    fn release(&self, ino: Ino) {
        self.operations.release(ino);
    }

    fn read(
        &self,
        ino: Ino,
        offset: u64,
        size: usize,
        done: &mut dyn FnMut(&[&[u8]]),
    ) -> Reply<()> {
        self.operations.read(ino, offset, size, done)
    }

    fn write(
        &self,
        caller: Caller,
        ino: Ino,
        offset: u64,
        data: &[u8],
        kill_bits: bool,
    ) -> Reply<()> {
        self.operations.write(self.caller(caller), ino, offset, data, kill_bits)
    }

    fn fsync(&self, ino: Ino) -> Reply<()> {
        self.operations.fsync(ino)
    }

    fn sync(&self) -> Reply<()> {
        self.operations.sync()
    }

    fn fallocate(
        &self,
        caller: Caller,
        ino: Ino,
        range: Range<u64>,
        how: Fallocate,
    ) -> Reply<bool> {
        self.operations.fallocate(self.caller(caller), ino, range, how)
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Reply<u64> {
        self.operations.seek(ino, offset, what)
    }

    fn copy_range(&self, caller: Caller, from: (Ino, u64), to: (Ino, u64), len: u64) -> Reply<u64> {
        self.operations.copy_range(self.caller(caller), from, to, len)
    }

    fn list(&self, dir: Ino, cookie: u64, each: &mut dyn FnMut(&Listed) -> Room) -> Reply<()> {
        self.operations.list(dir, cookie, each)
    }

    fn list_nodes(
        &self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(&Listed, Option<&Node>) -> Room,
    ) -> Reply<()> {
        self.operations.list_nodes(dir, cookie, &mut |entry, node| {
            let node = node.map(|node| self.node_shown(node.clone()));
            each(entry, node.as_ref())
        })
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Reply<Vec<u8>> {
        let value = self.operations.xattr(ino, name)?;
        if xattr::is_acl(name) {
            return Ok(self.map.acl_shown(&value));
        }
        if xattr::is_capability(name) {
            return self.map.capability_shown(&value);
        }
        Ok(value)
    }

    fn xattr_names(&self, caller: Caller, ino: Ino) -> Reply<Vec<u8>> {
        self.operations.xattr_names(self.caller(caller), ino)
    }

    fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: SetMode) -> Reply<()> {
        if xattr::is_acl(name) {
            let before = match self.operations.xattr(ino, name) {
                Err(Errno::NODATA) => Vec::new(),
                before => before?,
            };
            let value = self.map.acl_in_volume(value, &before)?;
            return self.operations.set_xattr(ino, name, &value, mode);
        }
        if xattr::is_capability(name) {
            let value = self.map.capability_in_volume(value)?;
            return self.operations.set_xattr(ino, name, &value, mode);
        }
        self.operations.set_xattr(ino, name, value, mode)
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Reply<()> {
        self.operations.remove_xattr(ino, name)
    }

    fn ioctl(&self, caller: Caller, ino: Ino, command: u32, argument: &[u8]) -> Reply<Vec<u8>> {
        self.operations.ioctl(self.caller(caller), ino, command, argument)
    }
}
