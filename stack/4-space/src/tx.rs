//! A transaction that allocates and frees: group headers and metadata blocks, held for change.

use std::ops::{Deref, DerefMut};

use xfskit_format::bytes::be32;
use xfskit_format::{Ctx, Image, Location, VerifyResult, agf, agfl, agi};
use xfskit_trans::{BufMap, Handle, LockPosition, Trans};
use xfskit_units::{AgNumber, Geometry};
use zerocopy::big_endian::U32;

use crate::deferred::Deferred;
use crate::error::{Error, Result};
use crate::reservation::BlockReservation;
use crate::space::Space;

/// A transaction that may allocate and free. What [`Trans`] can do, a `SpaceTx` can.
///
/// Groups are locked in ascending order, AGI before AGF. Work that belongs to the end of a
/// transaction (extents to free, reverse mappings, reference counts) is put off with
/// [`defer`](Self::defer) and done by [`run_deferred`](Self::run_deferred), sorted by group.
#[derive(Debug)]
pub struct SpaceTx<'v> {
    space: &'v Space,
    trans: Trans<'v>,
    /// Changes deferred to the end of the transaction.
    pub(crate) deferred: Vec<Deferred>,
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

impl<'v> Deref for SpaceTx<'v> {
    type Target = Trans<'v>;
    #[inline]
    fn deref(&self) -> &Trans<'v> {
        &self.trans
    }
}

impl<'v> DerefMut for SpaceTx<'v> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Trans<'v> {
        &mut self.trans
    }
}

impl<'v> SpaceTx<'v> {
    /// Makes a transaction of `trans`, which changes `space`.
    #[inline]
    pub fn new(space: &'v Space, trans: Trans<'v>) -> Self {
        Self {
            space,
            trans,
            deferred: Vec::new(),
            met_busy: false,
            uses_reservation: false,
            taken: space.no_reservation(),
            met_reservations: false,
        }
    }

    /// Commits, and returns the checkpoint that will make the change durable.
    #[inline]
    pub fn commit(self) -> u64 {
        self.trans.commit()
    }

    /// Leaves the change open for the next one of the same thread, or commits it.
    #[inline]
    pub fn park(self) -> u64 {
        self.trans.park()
    }

    /// Returns the groups that it changes.
    #[inline]
    pub fn space(&self) -> &'v Space {
        self.space
    }

    /// Sets whether it consumes a reservation, so that it may take reserved blocks. Returns whether
    /// it did so before.
    pub fn set_uses_reservation(&mut self, uses_it: bool) -> bool {
        std::mem::replace(&mut self.uses_reservation, uses_it)
    }

    /// Returns true if it was refused blocks because others reserve them.
    pub fn met_reservations(&self) -> bool {
        self.met_reservations
    }

    /// Defers an operation to the end of the transaction.
    pub fn defer(&mut self, work: Deferred) {
        self.deferred.push(work);
    }

    /// Returns what is put off so far.
    pub fn deferred(&self) -> &[Deferred] {
        &self.deferred
    }

    /// Returns the metadata block at `at` (its `daddr` and `sectors`), held for change.
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
        Ok(self.trans.read(&map, place, &self.space.ctx(at), verify)?)
    }

    /// Returns the AGF of group `agno`, held: its lock is the lock of the group's free space.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`], and [`Error::Trans`] where the transaction must be
    /// run again.
    pub fn agf(&mut self, agno: AgNumber) -> Result<Handle> {
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| agf::Agf::verify(bytes, ctx, agno).map(|_| ());
        let at = agf::location(self.space.geo(), agno);
        self.read_placed(at, Some(LockPosition::Agf(agno)), &verify)
    }

    /// Returns true if the transaction holds the AGF of group `agno`. A look-up that took it may
    /// release it; one that found it held may not: it protects blocks that are changed.
    pub(crate) fn holds_agf(&self, agno: AgNumber) -> bool {
        agf_map(self.space().geo(), agno).is_some_and(|map| self.holds(&map))
    }

    /// Returns the AGI of group `agno`, held: its lock is the lock of the group's inodes.
    ///
    /// # Errors
    /// As [`agf`](Self::agf).
    pub fn agi(&mut self, agno: AgNumber) -> Result<Handle> {
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| agi::Agi::verify(bytes, ctx, agno).map(|_| ());
        let at = agi::location(self.space.geo(), agno);
        self.read_placed(at, Some(LockPosition::Agi(agno)), &verify)
    }

    /// Returns the AGFL of group `agno`; the caller holds its AGF.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn agfl(&mut self, agno: AgNumber) -> Result<Handle> {
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| agfl::Agfl::verify(bytes, ctx, agno).map(|_| ());
        self.read_buf(agfl::location(self.space.geo(), agno), &verify)
    }

    /// Adds `change` to the 32-bit number at byte `at` of an object.
    pub(crate) fn add_u32(&mut self, handle: Handle, at: usize, change: i32) {
        let now = be32(self.bytes(handle), at).unwrap_or(0);
        self.image(handle).put(at, &U32::new(now.saturating_add_signed(change)));
    }
}

/// Returns the place of the AGF of group `agno`.
pub(crate) fn agf_map(geo: &Geometry, agno: AgNumber) -> Option<BufMap> {
    let at = agf::location(geo, agno);
    at.daddr.map(|daddr| BufMap::single(daddr, at.sectors))
}
