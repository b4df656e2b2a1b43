//! The inodes that the kernel refers to, each held open until the kernel forgets it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use xfskit_units::Ino;
use xfskit_vfs::{FileHandle, FileReader, Fs, InodeHold};

/// Parts of the table, each behind a lock of its own: a power of two.
const SHARDS: usize = 64;

/// An open file.
#[derive(Debug)]
pub(crate) enum OpenFile<F: Deref<Target = Fs>> {
    /// On a volume that is mounted read-write.
    Writable(FileHandle<F>),
    /// On one that is mounted read-only.
    ReadOnly(FileReader<F>),
}

/// What one inode's users share.
#[derive(Debug)]
pub(crate) struct File<F: Deref<Target = Fs>> {
    pub open: OpenFile<F>,
    /// It has neither setuid, setgid nor capabilities, as far as is known.
    pub plain: AtomicBool,
    /// Its atime was looked at since it was opened.
    pub atime_seen: AtomicBool,
    /// It was opened for writing: the kernel may have content that was not sent.
    pub may_be_dirty: AtomicBool,
}

/// One inode.
#[derive(Debug)]
pub(crate) struct Node<F: Deref<Target = Fs>> {
    /// References of the kernel.
    lookups: u64,
    /// Open files of the kernel.
    opens: u64,
    /// Its content, while the file is open.
    file: Option<Arc<File<F>>>,
    /// Keeps the inode when its last name is removed. Dropped last.
    _hold: InodeHold<F>,
}

/// A part of the table.
type Shard<F> = Mutex<FxHashMap<Ino, Node<F>>>;

/// All inodes that the kernel refers to. A lock of this table is never held while the volume is
/// asked for anything but a hold.
#[derive(Debug)]
pub(crate) struct Nodes<F: Deref<Target = Fs>> {
    shards: Box<[Shard<F>]>,
}

impl<F: Deref<Target = Fs> + Clone> Nodes<F> {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, ino: Ino) -> &Shard<F> {
        // Inodes of one chunk are neighbours: the low bits spread them.
        &self.shards[xfskit_units::index(ino.0) % SHARDS]
    }

    /// Adds one reference of the kernel to `ino`, which exists: the caller holds it.
    pub(crate) fn remember(&self, fs: &F, ino: Ino) {
        let mut shard = self.shard(ino).lock();
        let node = shard.entry(ino).or_insert_with(|| Node {
            lookups: 0,
            opens: 0,
            file: None,
            _hold: InodeHold::new(fs.clone(), ino),
        });
        node.lookups += 1;
    }

    /// Takes `count` references back. Returns an inode without references: dropped, it is freed if
    /// it has no name. That takes transactions, outside of the table's lock.
    pub(crate) fn forget(&self, ino: Ino, count: u64) -> Option<Node<F>> {
        let mut shard = self.shard(ino).lock();
        let node = shard.get_mut(&ino)?;
        node.lookups = node.lookups.saturating_sub(count);
        if node.lookups == 0 { shard.remove(&ino) } else { None }
    }

    /// Returns the file of `ino` if it is open.
    pub(crate) fn file(&self, ino: Ino) -> Option<Arc<File<F>>> {
        self.shard(ino).lock().get(&ino).and_then(|node| node.file.clone())
    }

    /// Adds `opens` open files to `ino`, and makes `file` theirs unless another thread was faster.
    /// Returns the file that counts.
    pub(crate) fn opened(&self, ino: Ino, opens: u64, file: File<F>) -> Arc<File<F>> {
        let mut spare = None;
        let mut shard = self.shard(ino).lock();
        let Some(node) = shard.get_mut(&ino) else { return Arc::new(file) };
        node.opens += opens;
        let counts = match &node.file {
            Some(there) => {
                spare = Some(file);
                Arc::clone(there)
            }
            None => Arc::clone(node.file.insert(Arc::new(file))),
        };
        drop(shard);
        drop(spare);
        counts
    }

    /// Adds an open file to `ino` if it is open already.
    pub(crate) fn reopened(&self, ino: Ino) -> Option<Arc<File<F>>> {
        let mut shard = self.shard(ino).lock();
        let node = shard.get_mut(&ino)?;
        let file = node.file.clone()?;
        node.opens += 1;
        Some(file)
    }

    /// Takes an open file back. The last one closes the content.
    pub(crate) fn released(&self, ino: Ino) {
        let closed = {
            let mut shard = self.shard(ino).lock();
            let Some(node) = shard.get_mut(&ino) else { return };
            node.opens = node.opens.saturating_sub(1);
            if node.opens == 0 { node.file.take() } else { None }
        };
        drop(closed);
    }

    /// Records that `ino` may have setuid, setgid or capabilities now.
    pub(crate) fn not_plain(&self, ino: Ino) {
        if let Some(file) = self.file(ino) {
            file.plain.store(false, Ordering::Release);
        }
    }

    /// Returns the files of which the kernel may have content that was not sent.
    pub(crate) fn may_be_dirty(&self) -> Vec<Ino> {
        let mut dirty = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let is_dirty = |node: &Node<F>| {
                node.file.as_ref().is_some_and(|file| file.may_be_dirty.load(Ordering::Relaxed))
            };
            dirty.extend(shard.iter().filter(|(_, node)| is_dirty(node)).map(|(&ino, _)| ino));
        }
        dirty
    }

    /// Returns the number of inodes in the table.
    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Forgets everything: the mount is gone.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let gone = std::mem::take(&mut *shard.lock());
            drop(gone);
        }
    }
}
