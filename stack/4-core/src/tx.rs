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
//! counts) is deferred with [`Tx::defer`]. It is done before the commit, sorted by group.

use std::ops::{Deref, DerefMut};

use xfskit_format::bytes::be32;
use xfskit_format::inode::Dinode;
use xfskit_format::{Ctx, Image, Layout, Location, VerifyResult, agf, agfl, agi};
use xfskit_trans::{BufMap, Engine, Handle, LockPosition, Trans, TransError};
use xfskit_units::{AgNumber, Ino};
use zerocopy::big_endian::U32;

use crate::error::{Error, Result};
use crate::file::BlockReservation;
use crate::inode::Inode;
use crate::space::Deferred;
use crate::volume::Volume;
use crate::writable;

/// Checkpoints that a transaction waits for, at most, until freed space is usable.
const BUSY_RETRIES_MAX: usize = 5;

/// A transaction of a volume. What [`Trans`] can do, a `Tx` can.
#[derive(Debug)]
pub struct Tx<'v> {
    volume: &'v Volume,
    trans: Trans<'v>,
    /// Changes deferred to the end of the transaction.
    pub(crate) deferred: Vec<Deferred>,
    /// Directories that it has mapped or unmapped blocks of.
    pub(crate) remapped: Vec<Ino>,
    /// The allocator met extents that were freed too recently.
    pub(crate) met_busy: bool,
    /// True if it consumes a reservation, so that it may take reserved blocks.
    pub(crate) uses_reservation: bool,
    /// Blocks that it allocated without a reservation. They count as reserved until the commit
    /// subtracts them from the free blocks.
    pub(crate) taken: BlockReservation<'v>,
    /// True if it was refused blocks because others reserve them.
    pub(crate) met_reservations: bool,
}

impl<'v> Deref for Tx<'v> {
    type Target = Trans<'v>;
    fn deref(&self) -> &Trans<'v> {
        &self.trans
    }
}

impl<'v> DerefMut for Tx<'v> {
    fn deref_mut(&mut self) -> &mut Trans<'v> {
        &mut self.trans
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
                trans: engine.resume()?,
                deferred: Vec::new(),
                remapped: Vec::new(),
                met_busy: false,
                uses_reservation: false,
                taken: self.no_reservation(),
                met_reservations: false,
            };
            let result = change(&mut tx).and_then(|result| tx.finish().map(|()| result));
            match result {
                Ok(value) => {
                    // The caller, which holds the ticket of the data, writes it after this.
                    if self.wsync && !tx.trans.waits_for_data() {
                        engine.force(tx.trans.commit())?;
                    } else {
                        tx.trans.park();
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
                    writable::set_attr_bit(self)?;
                }
                // Reservations are for the worst case. Writing the data turns them into what it
                // really takes.
                Err(Error::NoSpace(_))
                    if (tx.met_reservations || self.has_staged()) && !flushed =>
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
    /// The volume.
    pub fn volume(&self) -> &'v Volume {
        self.volume
    }

    /// Does what was put off.
    fn finish(&mut self) -> Result<()> {
        self.run_deferred()
    }

    /// The metadata block at `at` (its `daddr` and `sectors`), held for change.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn read_buf(
        &mut self,
        at: Location,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Handle> {
        self.read_placed(at, None, verify)
    }

    fn read_placed(
        &mut self,
        at: Location,
        place: Option<LockPosition>,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Handle> {
        let daddr = at.daddr.ok_or_else(|| Error::Unsupported(format!("{at}: no address")))?;
        let map = BufMap::single(daddr, at.sectors);
        Ok(self.trans.read(&map, place, &self.volume.ctx(at), verify)?)
    }

    /// The AGF of group `agno`, held: its lock is the lock of the group's free space.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`], and one that makes [`Volume::transact`] try again.
    pub fn agf(&mut self, agno: AgNumber) -> Result<Handle> {
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| agf::Agf::verify(bytes, ctx, agno).map(|_| ());
        self.read_placed(
            agf::location(self.volume.geo(), agno),
            Some(LockPosition::Agf(agno)),
            &verify,
        )
    }

    /// The AGI of group `agno`, held: its lock is the lock of the group's inodes.
    ///
    /// # Errors
    /// As [`agf`](Self::agf).
    pub fn agi(&mut self, agno: AgNumber) -> Result<Handle> {
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| agi::Agi::verify(bytes, ctx, agno).map(|_| ());
        self.read_placed(
            agi::location(self.volume.geo(), agno),
            Some(LockPosition::Agi(agno)),
            &verify,
        )
    }

    /// The AGFL of group `agno`; the caller holds its AGF.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn agfl(&mut self, agno: AgNumber) -> Result<Handle> {
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| agfl::Agfl::verify(bytes, ctx, agno).map(|_| ());
        self.read_buf(agfl::location(self.volume.geo(), agno), &verify)
    }

    /// Adds `change` to the 32-bit number at byte `at` of an object.
    pub(crate) fn add_u32(&mut self, handle: Handle, at: usize, change: i32) {
        let now = be32(self.bytes(handle), at).unwrap_or(0);
        self.image(handle).put(at, &U32::new(now.saturating_add_signed(change)));
    }

    /// Inode `ino`, which must be in use, its ILOCK taken.
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
        if let Some(handle) = self.trans.held_inode(ino) {
            return Ok(TxInode { ino, handle });
        }
        let volume = self.volume;
        let home = volume.inode_home(ino)?;
        let load = || volume.read_dinode_at(ino, &home);
        let handle = self.trans.inode::<Error>(ino, &home, load)?;
        Ok(TxInode { ino, handle })
    }

    /// What an inode says, with this transaction's changes.
    ///
    /// # Panics
    /// Never: the bytes were verified when the inode was read.
    pub fn core(&self, inode: TxInode) -> Dinode<'_> {
        let layout = Layout::of(self.volume.geo());
        Dinode::from_core(self.trans.bytes(inode.handle), layout)
            .expect("a verified inode has a core")
    }

    /// A copy of an inode as it is now, for the reading side.
    pub fn inode_copy(&self, inode: TxInode) -> Inode {
        Inode::new(inode.ino, self.trans.snapshot(inode.handle), self.volume.geo())
    }
}

impl Volume {
    /// The engine of a volume that is open for writing.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Closed`].
    pub fn engine(&self) -> Result<&Engine> {
        self.check_open()?;
        self.engine.as_deref().ok_or(Error::ReadOnly)
    }
}
