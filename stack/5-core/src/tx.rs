//! Transactions of a volume.
//!
//! [`Volume::transact`] runs a closure in a transaction: either all of its changes happen or none.
//! The closure may run more than once. It therefore takes its locks and reads what it needs inside,
//! anew each time.
//!
//! Inodes are locked in ascending order of their numbers, then groups in ascending order: AGI
//! before AGF. An operation that needs an earlier lock late only tries to take it. If that fails,
//! the closure ends with an error on which `transact` runs it again.
//!
//! Work that belongs to the end of a transaction (extents to free, reverse mappings, reference
//! counts) is deferred with [`SpaceTx::defer`]. It is done before the commit, sorted by group.

use std::ops::{Deref, DerefMut};

use xfskit_format::Layout;
use xfskit_format::inode::Dinode;
use xfskit_space::SpaceTx;
use xfskit_trans::{Handle, TransError};
use xfskit_units::Ino;

use crate::attr_map::{AttrMap, TakenMap};
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::superblock_edit;
use crate::volume::Volume;

/// Checkpoints that a transaction waits for, at most, until freed space is usable.
const BUSY_RETRIES_MAX: usize = 5;

/// A transaction of a volume. What [`SpaceTx`] and [`Trans`](xfskit_trans::Trans) can do, a `Tx`
/// can.
#[derive(Debug)]
pub struct Tx<'v> {
    volume: &'v Volume,
    /// The attribute fork that it changes. Dropped before the locks are released.
    pub(crate) attr_map: TakenMap<'v>,
    space: SpaceTx<'v>,
    /// Inodes that it has mapped or unmapped metadata blocks of: of a directory, or of an attribute
    /// fork.
    pub(crate) remapped: Vec<Ino>,
}

impl<'v> Deref for Tx<'v> {
    type Target = SpaceTx<'v>;
    #[inline]
    fn deref(&self) -> &SpaceTx<'v> {
        &self.space
    }
}

impl<'v> DerefMut for Tx<'v> {
    #[inline]
    fn deref_mut(&mut self) -> &mut SpaceTx<'v> {
        &mut self.space
    }
}

/// An inode that a transaction holds: its ILOCK is taken, its image may be edited through the
/// handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TxInode {
    /// Its number.
    pub ino: Ino,
    /// Its image.
    pub handle: Handle,
}

impl Volume {
    /// Runs `change` in a transaction. On `Ok` it is committed; on an error nothing has happened.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], those of `change`, and [`Error::Trans`] where the volume was shut down.
    pub fn transact<T>(&self, mut change: impl FnMut(&mut Tx<'_>) -> Result<T>) -> Result<T> {
        let engine = self.engine()?;
        let (mut retries, mut flushed) = (0, false);
        loop {
            let mut tx = Tx {
                volume: self,
                attr_map: TakenMap::new(&self.attr_maps),
                space: SpaceTx::new(self.space(), engine.resume()?),
                remapped: Vec::new(),
            };
            let result = change(&mut tx).and_then(|value| Ok(tx.run_deferred().map(|()| value)?));
            match result {
                Ok(value) => {
                    tx.attr_map.put_back();
                    // The caller, which holds the ticket of the data, writes it after this.
                    if self.wsync && !tx.waits_for_data() {
                        engine.force(tx.space.commit())?;
                    } else {
                        tx.space.park();
                    }
                    return Ok(value);
                }
                Err(Error::Trans(TransError::Busy(busy))) => {
                    drop(tx);
                    busy.wait(engine);
                }
                // Other threads may take the space that one checkpoint makes usable, and free more.
                Err(Error::BusyExtents) if retries < BUSY_RETRIES_MAX => {
                    drop(tx);
                    engine.checkpoint()?;
                    retries += 1;
                }
                Err(Error::BusyExtents) => return Err(Error::NoSpace("blocks")),
                Err(Error::AttrBit) => {
                    drop(tx);
                    superblock_edit::set_attr_bit(self)?;
                }
                // Reservations are for the worst case. Writing the data turns them into what it
                // really takes.
                Err(Error::NoSpace(_))
                    if (tx.met_reservations() || self.has_staged()) && !flushed =>
                {
                    drop(tx);
                    self.flush_idle_contents()?;
                    flushed = true;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl<'v> Tx<'v> {
    /// Returns the volume.
    #[inline]
    pub fn volume(&self) -> &'v Volume {
        self.volume
    }

    /// Returns what is known of the attribute fork of inode `ino`, which this transaction holds,
    /// and the transaction of its blocks.
    #[inline]
    pub(crate) fn attr_map_of(&mut self, ino: Ino) -> (&mut AttrMap, &mut SpaceTx<'v>) {
        (self.attr_map.of(ino), &mut self.space)
    }

    /// Returns inode `ino`, which must be in use, with its ILOCK taken.
    ///
    /// # Errors
    /// [`Error::NoInode`], [`Error::Device`], [`Error::Corrupt`], and one that makes
    /// [`Volume::transact`] try again.
    pub fn iget(&mut self, ino: Ino) -> Result<TxInode> {
        let inode = self.iget_any(ino)?;
        if self.core(inode).is_free() {
            return Err(Error::NoInode(ino));
        }
        Ok(inode)
    }

    /// Returns inode `ino` like [`iget`](Self::iget), even if it is free.
    ///
    /// # Errors
    /// As [`iget`](Self::iget).
    pub fn iget_any(&mut self, ino: Ino) -> Result<TxInode> {
        if let Some(handle) = self.held_inode(ino) {
            return Ok(TxInode { ino, handle });
        }
        let volume = self.volume;
        let home = volume.inode_home(ino)?;
        let load = || volume.read_dinode_at(ino, &home);
        let handle = self.inode::<Error>(ino, &home, load)?;
        Ok(TxInode { ino, handle })
    }

    /// Returns the core of an inode, with this transaction's changes.
    ///
    /// # Panics
    /// Never: the bytes were verified when the inode was read.
    pub fn core(&self, inode: TxInode) -> Dinode<'_> {
        let layout = Layout::of(self.volume.geo());
        Dinode::from_core(self.bytes(inode.handle), layout).expect("a verified inode has a core")
    }

    /// Returns a copy of an inode as it is now, for the reading side.
    pub fn inode_copy(&self, inode: TxInode) -> Inode {
        Inode::new(inode.ino, self.snapshot(inode.handle), self.volume.geo())
    }
}

impl Tx<'_> {
    /// Makes `change`, which frees more than it takes, and lets it use the reserve pool, so that a
    /// full volume can be emptied.
    pub(crate) fn with_pool<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.set_uses_reservation(true);
        let result = change(self);
        self.set_uses_reservation(before);
        result
    }
}

impl Volume {
    /// Runs a transaction that consumes a reservation.
    pub(crate) fn transact_reserved<T>(
        &self,
        mut change: impl FnMut(&mut Tx<'_>) -> Result<T>,
    ) -> Result<T> {
        self.transact(|tx| {
            tx.set_uses_reservation(true);
            change(tx)
        })
    }
}
