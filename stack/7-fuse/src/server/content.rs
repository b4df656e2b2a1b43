//! Operations on content.

use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use xfskit_units::Ino;
use xfskit_vfs::{self as vfs, AtEnd, FileHandle, FileReader, Fs, Privileges, Seek};

use super::Server;
use crate::nodes::{File, OpenFile};
use crate::operations::{Caller, Fallocate, Node, Reply};

thread_local! {
    /// The buffer of this thread's reads.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Server<F> {
    fn open_new(&self, ino: Ino) -> vfs::Result<File<F>> {
        let open = if self.writable {
            OpenFile::Writable(FileHandle::open(self.fs.clone(), ino, AtEnd::Leave)?)
        } else {
            OpenFile::ReadOnly(FileReader::open(self.fs.clone(), &self.fs.inode(ino)?)?)
        };
        let [plain, atime_seen, may_be_dirty] = [false; 3].map(AtomicBool::new);
        Ok(File { open, plain, atime_seen, may_be_dirty })
    }

    /// Opens `ino` for one more open file of the kernel.
    pub(super) fn open_file(&self, ino: Ino) -> Reply<Arc<File<F>>> {
        if let Some(file) = self.nodes.reopened(ino) {
            return Ok(file);
        }
        let file = self.reply(self.open_new(ino))?;
        Ok(self.nodes.opened(ino, 1, file))
    }

    /// Returns the open file `ino`. A kernel that does not send opens may use any file.
    pub(super) fn file(&self, ino: Ino) -> Reply<Arc<File<F>>> {
        if let Some(file) = self.nodes.file(ino) {
            return Ok(file);
        }
        let file = self.reply(self.open_new(ino))?;
        file.may_be_dirty.store(self.writable, Ordering::Relaxed);
        Ok(self.nodes.opened(ino, 0, file))
    }

    pub(super) fn read_file(
        &self,
        ino: Ino,
        offset: u64,
        size: usize,
        done: &mut dyn FnMut(&[&[u8]]),
    ) -> Reply<()> {
        let file = self.file(ino)?;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let buffer = &mut buffer[..size];
            let read = match &file.open {
                OpenFile::Writable(handle) => handle.read_with(offset, buffer, done),
                OpenFile::ReadOnly(reader) => reader.read_with(offset, buffer, done),
            };
            self.reply(read)
        })?;
        // The kernel's cache hides most reads: the first one since the file was opened counts.
        if !file.atime_seen.swap(true, Ordering::Relaxed) {
            self.accessed(ino);
        }
        Ok(())
    }

    pub(super) fn write_file(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        group: Option<u32>,
    ) -> Reply<()> {
        self.to_change()?;
        self.may_write(ino)?;
        let file = self.file(ino)?;
        let OpenFile::Writable(handle) = &file.open else { return Err(Errno::ROFS) };
        self.kill_privileges(ino, &file.plain, group)?;
        self.content_changed(handle.write(offset, data))
    }

    /// Removes capabilities before a change of content, and with the `group` of a writer who may
    /// not keep them setuid and setgid. `plain` says that there are none. Returns true if one of
    /// the two bits was removed.
    fn kill_privileges(&self, ino: Ino, plain: &AtomicBool, group: Option<u32>) -> Reply<bool> {
        if plain.load(Ordering::Acquire) {
            return Ok(false);
        }
        let Privileges { removed, left } = self.reply(self.fs.drop_privileges(ino, group))?;
        plain.store(!left, Ordering::Release);
        Ok(removed)
    }

    /// Opens a node that was just made; it is forgotten if that fails.
    pub(super) fn opened_node(&self, node: Node) -> Reply<Node> {
        match self.open_file(node.stat.ino) {
            Ok(file) => {
                file.may_be_dirty.store(true, Ordering::Relaxed);
                Ok(node)
            }
            Err(error) => {
                self.nodes.forget(node.stat.ino, 1);
                Err(error)
            }
        }
    }

    pub(super) fn truncate_file(&self, ino: Ino, size: u64, group: Option<u32>) -> Reply<()> {
        self.to_change()?;
        let file = self.file(ino)?;
        let OpenFile::Writable(handle) = &file.open else { return Err(Errno::ROFS) };
        self.kill_privileges(ino, &file.plain, group)?;
        self.changed(handle.truncate(size))
    }

    pub(super) fn sync_file(&self, ino: Ino) -> Reply<()> {
        if !self.writable {
            return Ok(());
        }
        match self.nodes.file(ino).as_deref() {
            Some(File { open: OpenFile::Writable(handle), .. }) => self.reply(handle.fsync()),
            _ => self.reply(self.fs.fsync(ino)),
        }
    }

    /// The kernel leaves setuid and setgid to the server, as with all changes (HANDLE_KILLPRIV_V2),
    /// but here without a flag.
    pub(super) fn allocate(
        &self,
        caller: Caller,
        ino: Ino,
        range: Range<u64>,
        how: Fallocate,
    ) -> Reply<bool> {
        self.to_change()?;
        self.may_write(ino)?;
        let file = self.file(ino)?;
        let OpenFile::Writable(handle) = &file.open else { return Err(Errno::ROFS) };
        let group = (!caller.is_root()).then_some(caller.gid);
        let removed = self.kill_privileges(ino, &file.plain, group)?;
        self.content_changed(match how {
            Fallocate::Allocate { keep_size } => handle.preallocate(range, keep_size),
            Fallocate::Zero { keep_size } => handle.zero(range, keep_size),
            Fallocate::Punch => handle.punch(range),
        })?;
        Ok(removed)
    }

    pub(super) fn seek_file(&self, ino: Ino, offset: u64, what: Seek) -> Reply<u64> {
        let file = self.file(ino)?;
        let found = match &file.open {
            OpenFile::Writable(handle) => {
                if offset >= handle.size() {
                    return Err(Errno::NXIO);
                }
                self.reply(handle.seek(offset, what))?
            }
            OpenFile::ReadOnly(reader) => self.seek_still(ino, offset, reader.size(), what)?,
        };
        found.ok_or(Errno::NXIO)
    }

    /// Seeks in a file of a volume that does not change.
    fn seek_still(&self, ino: Ino, offset: u64, size: u64, what: Seek) -> Reply<Option<u64>> {
        if offset >= size {
            return Err(Errno::NXIO);
        }
        let map = self.reply(self.fs.inode(ino).and_then(|inode| self.fs.file_map(&inode)))?;
        let data = map.data();
        let mut at = offset;
        for range in data {
            let (start, end) = (range.start.0, range.end.0.min(size));
            if end <= at {
                continue;
            }
            match what {
                Seek::Data => return Ok(Some(at.max(start))),
                Seek::Hole if start > at => return Ok(Some(at)),
                Seek::Hole => at = end,
            }
        }
        Ok((what == Seek::Hole).then_some(at.min(size)))
    }

    pub(super) fn copy(
        &self,
        from: (Ino, u64),
        to: (Ino, u64),
        len: u64,
        group: Option<u32>,
    ) -> Reply<u64> {
        self.to_change()?;
        self.may_write(to.0)?;
        let (source, target) = (self.file(from.0)?, self.file(to.0)?);
        let (OpenFile::Writable(from_file), OpenFile::Writable(to_file)) =
            (&source.open, &target.open)
        else {
            return Err(Errno::ROFS);
        };
        self.kill_privileges(to.0, &target.plain, group)?;
        let end = from.1.saturating_add(len);
        self.content_changed(to_file.copy_range(to.1, from_file, from.1..end))
    }
}
