//! What all clones of a volume, its files and its iterators share.

use std::cell::RefCell;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use xfskit_block::SnapshotGroup;
use xfskit_core::Closed;
use xfskit_vfs::{self as vfs, Fs};

use crate::cause::Cause;
use crate::{Error, Result};

thread_local! {
    /// The volumes whose operations this thread is in: a close of one of them would wait for
    /// itself.
    static INSIDE: RefCell<Vec<*const Shared>> = const { RefCell::new(Vec::new()) };
}

/// The filesystem, and whether it is open.
///
/// Dropped while it is open for writing, it closes itself as well as it can, and logs a failure. In
/// a thread that unwinds from a panic it is abandoned: what the panic left half done is not
/// written.
#[derive(Debug)]
pub(crate) struct Shared {
    fs: Fs,
    /// Held shared by each operation, and exclusively by a close, which so waits for them.
    running: RwLock<()>,
    /// No operation begins any more. Set before `running` is taken exclusively.
    closed: AtomicBool,
}

/// How snapshots of a volume are taken.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    pub(crate) group: Arc<SnapshotGroup>,
    /// Directory for what is overwritten meanwhile and does not stay in memory.
    pub(crate) dir: Option<PathBuf>,
}

/// A reference to a volume that keeps it: what files and iterators have in place of a borrow.
#[derive(Clone, Debug)]
pub(crate) struct Owner(Arc<Shared>);

/// An operation under way: the volume is not closed meanwhile.
pub(crate) struct Running<'s> {
    _lock: RwLockReadGuard<'s, ()>,
    _inside: Inside,
}

/// Marks this thread as one that an operation of the volume runs on.
pub(crate) struct Inside(*const Shared);

impl Inside {
    fn enter(shared: *const Shared) -> Self {
        // While a thread ends, its list is gone, and it closes nothing any more.
        let _ignored = INSIDE.try_with(|volumes| volumes.borrow_mut().push(shared));
        Self(shared)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ignored = INSIDE.try_with(|volumes| {
            let mut volumes = volumes.borrow_mut();
            // Guards may end in another order than they began.
            if let Some(at) = volumes.iter().rposition(|&volume| std::ptr::eq(volume, self.0)) {
                volumes.swap_remove(at);
            }
        });
    }
}

impl Owner {
    pub(crate) fn new(fs: Fs) -> Self {
        let (running, closed) = (RwLock::new(()), AtomicBool::new(false));
        Self(Arc::new(Shared { fs, running, closed }))
    }

    /// Begins an operation.
    pub(crate) fn enter(&self) -> Result<Running<'_>> {
        let running = self.enter_to_end();
        if self.0.closed.load(Ordering::Acquire) {
            return Err(Error::new(xfskit_core::Error::Closed));
        }
        Ok(running)
    }

    /// Begins the end of a file or an iterator, which a closed volume has too.
    pub(crate) fn enter_to_end(&self) -> Running<'_> {
        // An operation may begin within another one of the same thread while a close waits.
        Running { _lock: self.0.running.read_recursive(), _inside: self.inside() }
    }

    /// Marks this thread as one that runs a part of an operation which another thread began.
    pub(crate) fn inside(&self) -> Inside {
        Inside::enter(Arc::as_ptr(&self.0))
    }

    /// Returns true if changes are allowed.
    pub(crate) fn is_writable(&self) -> bool {
        self.volume().engine().is_ok()
    }

    /// Waits for the operations that are under way, and closes the volume.
    pub(crate) fn close(&self) -> Result<Closed> {
        self.end()?;
        self.0.fs.close_shared().map_err(Error::new)
    }

    /// Waits for the operations that are under way, and refuses later ones.
    ///
    /// # Errors
    /// This thread runs one of them, or the volume was closed already.
    pub(crate) fn end(&self) -> Result<()> {
        let this = Arc::as_ptr(&self.0);
        let is_inside = INSIDE.try_with(|volumes| volumes.borrow().contains(&this));
        if is_inside.unwrap_or(false) {
            return Err(Error::new(Cause::Within));
        }
        if self.0.closed.swap(true, Ordering::AcqRel) {
            return Err(Error::new(xfskit_core::Error::Closed));
        }
        drop(self.0.running.write());
        Ok(())
    }
}

impl Deref for Owner {
    type Target = Fs;
    fn deref(&self) -> &Fs {
        &self.0.fs
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let is_open = !*self.closed.get_mut() && self.fs.volume().engine().is_ok();
        if !is_open || std::thread::panicking() {
            return;
        }
        match self.fs.close_shared() {
            Ok(closed) => {
                for orphan in closed.orphans_left {
                    tracing::error!(%orphan, "the journal stays dirty");
                }
            }
            Err(error) => {
                let error: &vfs::Error = &error;
                tracing::error!(%error, "the volume could not be closed: changes since the last sync may be lost");
            }
        }
    }
}
