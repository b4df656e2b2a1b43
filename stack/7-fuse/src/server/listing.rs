//! Listings of directories.

use std::ops::{ControlFlow, Deref};

use xfskit_format::inode::FileType;
use xfskit_units::Ino;
use xfskit_vfs::{Fs, Inode, InodeHold};

use super::Server;
use crate::operations::{Listed, Node, Reply, Room};

/// Entries that are read at once: about those of one page.
const BATCH: usize = 128;
/// … with their inodes.
const BATCH_NODES: usize = 32;

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Server<F> {
    /// Returns at most `max` entries from `cookie` on.
    fn entries(&self, dir: &Inode, cookie: u64, max: usize) -> Reply<Vec<Listed>> {
        let (mut entries, mut fault) = (Vec::new(), None);
        let listed = self.fs.each_entry(dir, cookie, &mut |entry| {
            match entry {
                Ok(entry) => entries.push(Listed {
                    name: entry.name.to_vec(),
                    ino: entry.ino,
                    file_type: entry.ftype.unwrap_or(FileType::Unknown),
                    cookie: entry.cookie,
                }),
                // As in Linux, a listing ends at damage: what is before it is listed, and the next
                // call finds nothing but the fault.
                Err(error) => {
                    fault = Some(error);
                    return ControlFlow::Break(());
                }
            }
            if entries.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.reply(listed)?;
        match fault {
            Some(error) if entries.is_empty() => Err(self.failed(&error.into())),
            _ => Ok(entries),
        }
    }

    /// Passes batches of at most `max` entries from `cookie` on to `each`, until it has no room or
    /// the directory ends.
    fn batches(
        &self,
        dir: &Inode,
        mut cookie: u64,
        max: usize,
        mut each: impl FnMut(&[Listed]) -> Room,
    ) -> Reply<()> {
        if cookie == 0 && !self.nodiratime {
            self.accessed(dir.ino());
        }
        let mut is_first = true;
        loop {
            let entries = match self.entries(dir, cookie, max) {
                // The next call finds it again, with nothing before it.
                Err(_) if !is_first => return Ok(()),
                entries => entries?,
            };
            let Some(last) = entries.last() else { return Ok(()) };
            if each(&entries) == Room::Full {
                return Ok(());
            }
            (cookie, is_first) = (last.cookie, false);
        }
    }

    pub(super) fn list_dir(
        &self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(&Listed) -> Room,
    ) -> Reply<()> {
        let dir = self.reply(self.fs.inode(dir))?;
        self.batches(&dir, cookie, BATCH, |entries| {
            let is_full = entries.iter().any(|entry| each(entry) == Room::Full);
            if is_full { Room::Full } else { Room::Left }
        })
    }

    pub(super) fn list_dir_nodes(
        &self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(&Listed, Option<&Node>) -> Room,
    ) -> Reply<()> {
        let dir = self.reply(self.fs.inode(dir))?;
        self.batches(&dir, cookie, BATCH_NODES, |entries| {
            let inos: Vec<Ino> = entries.iter().map(|entry| entry.ino).collect();
            self.fs.volume().read_ahead_inodes(&inos);
            for entry in entries {
                let node = self.listed_node(&dir, entry);
                if each(entry, node.as_ref()) == Room::Full {
                    if let Some(node) = node {
                        self.nodes.forget(node.stat.ino, 1);
                    }
                    return Room::Full;
                }
            }
            Room::Left
        })
    }

    /// Returns the node of an entry; `None` for `.`, `..`, and inodes that cannot be read or are
    /// gone: the kernel looks such names up when it needs them, and gets the error then.
    fn listed_node(&self, dir: &Inode, entry: &Listed) -> Option<Node> {
        if matches!(&*entry.name, b"." | b"..") {
            return None;
        }
        let _hold = InodeHold::new(&*self.fs, entry.ino);
        let inode = self.fs.inode(entry.ino).ok()?;
        // The name may have been removed since it was listed, and the number be another file's.
        let is_named = self.fs.lookup(dir, &entry.name).ok()? == Some(entry.ino);
        is_named.then(|| self.node(&inode))
    }
}
