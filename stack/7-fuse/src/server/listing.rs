//! Listings of directories.

use std::ops::{ControlFlow, Deref};

use xfskit_format::inode::FileType;
use xfskit_units::Ino;
use xfskit_vfs::{Fs, Inode, InodeHold};

use super::{Server, is_gone};
use crate::operations::{Listed, Node, Reply, Room};

/// Bytes of a reply that an entry takes at least: a header of 24 bytes, and a name.
const ENTRY: usize = 32;
/// … with the metadata of its inode.
const ENTRY_NODE: usize = 160;

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

    pub(super) fn list_dir(
        &self,
        dir: Ino,
        cookie: u64,
        bytes: usize,
        each: &mut dyn FnMut(&Listed) -> Room,
    ) -> Reply<()> {
        let inode = self.reply(self.fs.inode(dir))?;
        for entry in self.entries(&inode, cookie, bytes / ENTRY + 1)? {
            if each(&entry) == Room::Full {
                break;
            }
        }
        if cookie == 0 {
            self.accessed(dir);
        }
        Ok(())
    }

    pub(super) fn list_dir_nodes(
        &self,
        dir: Ino,
        cookie: u64,
        bytes: usize,
        each: &mut dyn FnMut(&Listed, Option<&Node>) -> Room,
    ) -> Reply<()> {
        let inode = self.reply(self.fs.inode(dir))?;
        let entries = self.entries(&inode, cookie, bytes / ENTRY_NODE + 1)?;
        let inos: Vec<Ino> = entries.iter().map(|entry| entry.ino).collect();
        self.fs.volume().read_ahead_inodes(&inos);
        for entry in &entries {
            let node = self.listed_node(&inode, entry)?;
            if each(entry, node.as_ref()) == Room::Full {
                if let Some(node) = node {
                    self.nodes.forget(node.stat.ino, 1);
                }
                break;
            }
        }
        if cookie == 0 {
            self.accessed(dir);
        }
        Ok(())
    }

    /// Returns the node of an entry; `None` for `.`, `..`, and inodes that cannot be read or are
    /// gone: the kernel looks such names up when it needs them.
    fn listed_node(&self, dir: &Inode, entry: &Listed) -> Reply<Option<Node>> {
        if matches!(&*entry.name, b"." | b"..") {
            return Ok(None);
        }
        let hold = InodeHold::new(&*self.fs, entry.ino);
        let Ok(inode) = self.fs.inode(entry.ino) else { return Ok(None) };
        // The name may have been removed since it was listed, and the number be another file's.
        match self.fs.lookup(dir, &entry.name) {
            Ok(Some(ino)) if ino == entry.ino => {}
            Ok(_) => return Ok(None),
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        }
        let node = self.node(&inode);
        drop(hold);
        Ok(Some(node))
    }
}
