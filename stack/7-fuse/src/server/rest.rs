//! Freezing: the volume is whole on its device, and nothing changes.

use std::ops::Deref;
use std::sync::atomic::Ordering;

use xfskit_units::Ino;
use xfskit_vfs::{self as vfs, Fs};

use super::Server;
use crate::freeze::Gate;
use crate::nodes::Node;

impl<F: Deref<Target = Fs> + Clone + Send + Sync + 'static> Server<F> {
    /// Returns what changes pass through.
    pub(crate) fn changes(&self) -> &Gate {
        &self.gate
    }

    /// Returns the files of which the kernel may have content that was not sent.
    pub(crate) fn may_be_dirty(&self) -> Vec<Ino> {
        self.nodes.may_be_dirty()
    }

    /// Makes changes so far durable and writes them in place, while others go on: what is left for
    /// [`quiesce`](Self::quiesce) is little.
    pub(crate) fn write_back(&self) -> vfs::Result<()> {
        if self.writable { Ok(self.fs.volume().write_back()?) } else { Ok(()) }
    }

    /// Makes all changes durable and writes them in place. The gate is closed.
    pub(crate) fn quiesce(&self) -> vfs::Result<()> {
        if !self.writable {
            return Ok(());
        }
        self.fs.quiesce()?;
        self.changed.store(false, Ordering::Release);
        Ok(())
    }

    /// Frees inodes without a name that the kernel forgot while the mount was frozen.
    pub(crate) fn free_unnamed(&self) {
        self.unnamed.run(&self.gate, &());
    }

    /// Drops an inode that the kernel has forgotten. One without a name is freed by that, when the
    /// mount is not frozen.
    pub(super) fn let_go(&self, ino: Ino, node: Node<F>) {
        let passage = self.gate.enter_again();
        if !passage.is_frozen() || self.is_named(ino) {
            drop(node);
        } else {
            self.unnamed.keep(passage, move |(): &()| drop(node));
        }
    }

    fn is_named(&self, ino: Ino) -> bool {
        self.fs.inode(ino).is_ok_and(|inode| inode.core().nlink() > 0)
    }
}
