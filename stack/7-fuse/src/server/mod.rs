//! The operations of a mounted filesystem, on a volume.
//!
//! | module | operations |
//! | --- | --- |
//! | `delegate` | all of them, and the module of each |
//! | `names` | on names: lookup, create, link, rename, remove |
//! | `content` | on content: open, read, write, fallocate, copy |
//! | `metadata` | on metadata: permissions, owners, times, attributes, ioctls |
//! | `listing` | listings of directories |
//! | `protected` | immutable and append-only files |
//! | `rest` | freezing |
//! | `failures` | what failed first; panics, and the shutdown of the volume |

mod content;
mod delegate;
mod failures;
mod listing;
mod metadata;
mod names;
mod protected;
mod rest;

pub(crate) use metadata::is_stored_acl;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::io::Errno;
use xfskit_core::Error as Core;
use xfskit_format::timestamp::Timestamp;
use xfskit_units::Ino;
use xfskit_vfs::{self as vfs, Fs, InodeHold, Stat};

use crate::freeze::{Gate, Kept};
use crate::nodes::Nodes;
use crate::operations::{Node, Reply};
use crate::options::{Atime, Durable, Options};

/// The filesystem behind a mount.
///
/// `F` refers to the volume. The mount is the only writer: what the kernel caches stays true.
#[derive(Debug)]
pub struct Server<F: Deref<Target = Fs>> {
    fs: F,
    root: Ino,
    nodes: Nodes<F>,
    atime: Atime,
    /// Listings leave the atimes of directories alone.
    nodiratime: bool,
    writable: bool,
    durable: Durable,
    /// Files are used without an OPEN (`-o no_open`).
    no_open: bool,
    /// Something was changed since the last commit.
    changed: AtomicBool,
    gate: Gate,
    /// Inodes without a name that the kernel forgot while the mount was frozen.
    unnamed: Kept<()>,
    /// The first failure of the device or the volume.
    first_failure: Mutex<Option<String>>,
    /// When an operation found no space.
    last_full: Mutex<Option<Instant>>,
}

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Server<F> {
    /// Returns the server of the tree below `root`.
    pub fn new(fs: F, root: Ino, options: &Options) -> Self {
        let writable = fs.volume().engine().is_ok() && !options.read_only;
        let nodes = Nodes::new();
        Self {
            root,
            nodes,
            atime: options.atime,
            nodiratime: options.nodiratime,
            writable,
            durable: options.durable(),
            no_open: options.no_open,
            changed: AtomicBool::new(false),
            gate: Gate::default(),
            unnamed: Kept::default(),
            first_failure: Mutex::new(None),
            last_full: Mutex::new(None),
            fs,
        }
    }

    /// Makes all changes durable, if there are any. Returns true if there were.
    ///
    /// # Errors
    /// The volume cannot be written.
    pub fn commit(&self) -> vfs::Result<bool> {
        // A frozen mount has nothing to commit.
        let Some(_changing) = self.gate.try_enter() else { return Ok(false) };
        if !self.writable || !self.changed.swap(false, Ordering::AcqRel) {
            return Ok(false);
        }
        self.fs.sync().inspect_err(|error| self.keep_failure(error)).map(|()| true)
    }

    /// Returns the number of inodes that the kernel refers to.
    pub fn nodes(&self) -> usize {
        self.nodes.count()
    }

    /// Ends the use of the volume: files without a name are freed.
    pub fn end(&self) {
        self.gate.thaw();
        self.safely("the end of the mount", || {
            self.unnamed.run(&self.gate, &());
            self.nodes.clear();
        });
    }

    fn reply<T>(&self, result: vfs::Result<T>) -> Reply<T> {
        result.map_err(|error| self.failed(&error))
    }

    /// Refuses a change of a mount that is read-only.
    fn to_change(&self) -> Reply<()> {
        if self.writable { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// Records a change of names or attributes that was made, for the next commit, and makes it
    /// durable if the mount is synchronous for these. A mark before the change could be taken by a
    /// commit that does not have it.
    fn changed<T>(&self, result: vfs::Result<T>) -> Reply<T> {
        self.changed_as(Durable::Names, result)
    }

    /// … a change of content.
    fn content_changed<T>(&self, result: vfs::Result<T>) -> Reply<T> {
        self.changed_as(Durable::Everything, result)
    }

    fn changed_as<T>(&self, kind: Durable, result: vfs::Result<T>) -> Reply<T> {
        self.changed.store(true, Ordering::Release);
        let value = self.reply(result)?;
        if self.durable >= kind {
            self.reply(self.fs.sync())?;
        }
        Ok(value)
    }

    /// Returns the node of an inode that the caller holds, with one more reference of the kernel.
    fn node(&self, inode: &vfs::Inode) -> Node {
        self.nodes.remember(&self.fs, inode.ino());
        Node { stat: self.fs.stat(inode) }
    }

    /// Returns the node of inode `ino`, which has a name.
    fn held_node(&self, ino: Ino) -> vfs::Result<Node> {
        let hold = InodeHold::new(&*self.fs, ino);
        let inode = self.fs.inode(ino)?;
        let node = self.node(&inode);
        drop(hold);
        Ok(node)
    }

    fn stat_of(&self, ino: Ino) -> vfs::Result<Stat> {
        Ok(self.fs.stat(&self.fs.inode(ino)?))
    }

    fn now(&self) -> Timestamp {
        self.fs.clock().now()
    }

    /// Updates the atime of `ino` after a read, as the mount's rule has it.
    fn accessed(&self, ino: Ino) {
        if !self.writable || self.atime == Atime::Never {
            return;
        }
        let Ok(inode) = self.fs.inode(ino) else { return };
        let (stat, now) = (self.fs.stat(&inode), self.now());
        if !self.atime.is_due(&stat, now) {
            return;
        }
        // As in Linux, reads of a frozen filesystem leave atimes alone.
        let Some(_changing) = self.gate.try_enter() else { return };
        if let Err(error) = self.fs.set_atime(ino, now) {
            tracing::debug!(%ino, %error, "the atime stays as it is");
        }
        self.changed.store(true, Ordering::Release);
    }
}

/// Returns true if the inode is gone, as far as a lookup is concerned.
fn is_gone(error: &vfs::Error) -> bool {
    matches!(error.reason(), vfs::Error::Core(Core::NoInode(_)))
}
