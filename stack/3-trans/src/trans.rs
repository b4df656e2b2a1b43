//! A transaction: items locked, changed through declared ranges, then committed or undone.
//!
//! ```text
//!   begin ──▶ join items (their locks) ──▶ edit ──▶ commit: listed for the next checkpoint
//!                                              └────▶ drop:   every byte as it was before
//! ```
//!
//! 1. A transaction lies in one checkpoint as a whole: it holds the gate from begin to end.
//! 2. A transaction that is dropped leaves no trace: neither bytes nor flags nor counters.
//! 3. Locks that have an order ([`LockPosition`]) are waited for in that order only; out of order they are
//!    tried, and [`TransError::Busy`] says which one to wait for, holding nothing, before the next try.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::{Arc, Weak};

use xfskit_format::inode::CoreV3;
use xfskit_format::log::item::intent::Work as IntentWork;
use xfskit_format::log::item::{Done, Family, Icreate, Intent};
use xfskit_format::{Ctx, Image, VerifyResult};
use xfskit_units::{AgBlock, AgNumber, Daddr, ExtLen, FsBlock, Ino};

use crate::buf::{BufError, BufMap};
use crate::bytes::{Bytes, CompactInode};
use crate::cil::CtxGuard;
use crate::engine::{DataTicket, Engine, ShutDown};
use crate::guard::Locked;
use crate::icache::{self, InodeLocation};
use crate::intents::IntentItem;
use crate::lock::LockStats;
use crate::log_item::zeroed;
use crate::log_item::{Buf, Chunks, DiskLocation, ItemState, LogItem, NewCluster};
use crate::stats::counted;
use crate::work::{JoinedItem, Key, ReusedWork};

/// Why a transaction cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TransError {
    /// A block could not be had.
    #[error(transparent)]
    Buf(#[from] BufError),
    /// Somebody else holds a lock that this transaction may not wait for: drop it,
    /// [`wait`](Busy::wait), and run it again.
    #[error("another transaction holds what this one needs")]
    Busy(Busy),
    /// The volume was shut down earlier.
    #[error(transparent)]
    ShutDown(#[from] ShutDown),
}

/// A lock to wait for.
#[derive(Debug)]
pub struct Busy(Arc<LogItem>);

impl Busy {
    /// Waits until the lock was free once. The caller holds no transaction.
    pub fn wait(self, engine: &Engine) {
        drop(self.0.write(Some(&engine.cil)));
    }
}

/// The place of a lock in the order in which transactions wait for them: inodes by number, then the
/// AGI and AGF of each group, ascending. Other blocks are protected by one of these and have no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockPosition {
    /// An inode's ILOCK.
    Inode(Ino),
    /// AGI of a group.
    Agi(AgNumber),
    /// AGF of a group.
    Agf(AgNumber),
}

/// A log item of a transaction. Good for this transaction only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub(crate) u32);

/// Changes of the superblock's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Inodes that exist.
    pub icount: i64,
    /// Inodes that are free.
    pub ifree: i64,
    /// Blocks that are free.
    pub fdblocks: i64,
}

impl Delta {
    /// True where inodes were taken and given back at most.
    fn is_of_edits(self) -> bool {
        (self.icount, self.fdblocks) == (0, 0)
    }
}

/// Blocks that a transaction freed: not to be used again before its checkpoint is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The group.
    pub agno: AgNumber,
    /// First block.
    pub agbno: AgBlock,
    /// How many.
    pub len: ExtLen,
}

/// A transaction. Dropped without [`commit`](Trans::commit), it undoes itself.
pub struct Trans<'e> {
    engine: &'e Engine,
    work: ReusedWork,
    /// Held to the end: fields are dropped in this order. None of one that rests.
    ctx_lock: Option<CtxGuard<'e>>,
    /// Changes of the superblock's counters, applied at commit.
    pub delta: Delta,
    waits_for_data: bool,
}

impl std::fmt::Debug for Trans<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trans").field("joined", &self.work.all().count()).finish_non_exhaustive()
    }
}

impl<'e> Trans<'e> {
    pub(crate) fn new(engine: &'e Engine, ctx_lock: CtxGuard<'e>, ctx_waits: LockStats) -> Self {
        let mut work = ReusedWork::new();
        work.cil_items.tally.ctx_lock += ctx_waits;
        Self::again(engine, work, ctx_lock)
    }

    /// The transaction of `work` goes on.
    pub(crate) fn again(engine: &'e Engine, work: ReusedWork, ctx_lock: CtxGuard<'e>) -> Self {
        let delta = work.delta();
        Self { engine, work, ctx_lock: Some(ctx_lock), delta, waits_for_data: false }
    }

    /// The engine.
    pub fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// The block at `map`, judged by `verify` when it is read from the device, locked for change. A block
    /// with a `place` in the lock order is waited for only in that order.
    ///
    /// # Errors
    /// [`TransError::Buf`], [`TransError::Busy`].
    pub fn read(
        &mut self,
        map: &BufMap,
        place: Option<LockPosition>,
        ctx: &Ctx<'_>,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Handle, TransError> {
        let key = Key::of_block(map);
        if let Some(handle) = self.work.find(key) {
            return Ok(handle);
        }
        let handle = self.join(self.engine.cache().item(map), key, place)?;
        let state = &mut self.work.held_mut(handle).state;
        if !(state.verified && state.bytes.is_some()) {
            let loaded =
                self.engine.cache().load(map, &mut self.work.held_mut(handle).state, ctx, verify);
            if let Err(error) = loaded {
                self.release(handle);
                return Err(error.into());
            }
        }
        Ok(handle)
    }

    /// The block at `map`, where this transaction holds it.
    pub fn held_at(&self, map: &BufMap) -> Option<Handle> {
        self.work.find(Key::of_block(map))
    }

    /// Inode `ino`, where this transaction holds it.
    pub fn held_inode(&self, ino: Ino) -> Option<Handle> {
        self.work.find(Key::Inode(ino))
    }

    /// The block at `map` as of now: as this transaction changed it, or as it was committed last.
    /// The block is not held afterwards.
    ///
    /// # Errors
    /// [`TransError::Buf`].
    pub fn peek(
        &self,
        map: &BufMap,
        ctx: &Ctx<'_>,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Arc<Buf>, TransError> {
        match self.held_at(map).and_then(|handle| self.work.held(handle).state.bytes.share()) {
            Some(bytes) => Ok(bytes),
            None => Ok(self.engine.cache().read(map, ctx, verify)?),
        }
    }

    /// The block at `map`, just allocated: all zeroes, whatever stood there, and logged as a whole.
    ///
    /// # Errors
    /// [`TransError::Busy`], never for a block that nobody else knows.
    pub fn fresh(&mut self, map: &BufMap) -> Result<Handle, TransError> {
        let handle = self.take_unread(map)?;
        self.replace(handle, zeroed(map.byte_len()));
        Ok(handle)
    }

    /// The block at `map`, whatever stands there.
    fn take_unread(&mut self, map: &BufMap) -> Result<Handle, TransError> {
        let key = Key::of_block(map);
        match self.work.find(key) {
            Some(handle) => Ok(handle),
            None => self.join(self.engine.cache().item(map), key, None),
        }
    }

    /// All of a log item is new.
    fn replace(&mut self, handle: Handle, bytes: Arc<Buf>) {
        let all = 0..bytes.len();
        self.work.is_structural = true;
        self.work.becomes(handle, bytes.into(), None).dirty.mark(&all);
    }

    /// The cluster of inodes at `map`, just allocated: written back but never logged.
    /// [`icreate`](Self::icreate) is what the journal says of it.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub fn new_cluster(&mut self, map: &BufMap, new: NewCluster) -> Result<(), TransError> {
        let handle = self.take_unread(map)?;
        self.work.is_structural = true;
        self.work.becomes(handle, Bytes::default(), Some(Box::new(new))).dirty = Chunks::default();
        Ok(())
    }

    /// The cluster of the inode at `location`, where nothing of it was ever needed but single inodes.
    pub fn untaken(&mut self, location: &InodeLocation) -> Option<NewCluster> {
        let (daddr, len) = location.cluster;
        let cluster = BufMap::single(daddr, len);
        let last = self.work.cluster.take().filter(|(at, _)| *at == daddr);
        let find = || (daddr, self.engine.cache().item(&cluster));
        let (_, item) = self.work.cluster.insert(last.unwrap_or_else(find));
        // Mostly nobody holds it, then neither does this transaction.
        if let Some(state) = item.lock.try_read() {
            return state.untaken();
        }
        match self.held_at(&cluster) {
            Some(handle) => self.work.held(handle).state.new.as_deref().copied(),
            None => self.engine.cache().untaken(location),
        }
    }

    /// The block at `map`, just allocated, holds `bytes` from now on, which the caller writes to the device
    /// itself, before the commit: never logged, never written back.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub fn unlogged(&mut self, map: &BufMap, bytes: Arc<Buf>) -> Result<(), TransError> {
        let handle = self.fresh(map)?;
        self.replace(handle, bytes);
        self.work.held_mut(handle).dirty = Chunks::default();
        self.engine.wrote_unlogged();
        Ok(())
    }

    /// Logs that a chunk of inodes was made.
    pub fn icreate(&mut self, item: Icreate) {
        self.work.is_structural = true;
        self.work.cil_items.icreates.push(item);
    }

    /// Logs that something shall be done, should this transaction be the last before a crash. Answers the promise,
    /// whose [`done`](Intent::done) the transaction that does it [`log_done`](Self::log_done)s.
    pub fn log_intent(&mut self, family: Family, work: IntentWork) -> Intent {
        let intent = Intent { family, id: self.engine.intent_ids.next(), work };
        self.work.is_structural = true;
        self.work.cil_items.intents.push(IntentItem::Intent(intent.clone()));
        intent
    }

    /// Logs that this transaction does what was promised.
    pub fn log_done(&mut self, done: Done) {
        self.work.is_structural = true;
        self.work.cil_items.intents.push(IntentItem::Done(done));
    }

    /// Inode `ino`, its ILOCK taken; read with `load` where it is not in memory.
    ///
    /// # Errors
    /// [`TransError::Busy`], and those of `load`.
    pub fn inode<E: From<TransError>>(
        &mut self,
        ino: Ino,
        location: &InodeLocation,
        load: impl FnOnce() -> Result<Arc<Buf>, E>,
    ) -> Result<Handle, E> {
        if let Some(handle) = self.work.find(Key::Inode(ino)) {
            return Ok(handle);
        }
        let item = self.engine.inodes().item(ino, location);
        let handle = self.join(item, Key::Inode(ino), Some(LockPosition::Inode(ino)))?;
        if let Err(error) = icache::fill(&mut self.work.held_mut(handle).state, load) {
            self.release(handle);
            return Err(error);
        }
        Ok(handle)
    }

    /// Inode `ino`, free so far: known to nobody else, it may be taken out of order. What it held, if that is in memory.
    ///
    /// # Errors
    /// [`TransError::Busy`].
    pub fn new_inode(
        &mut self,
        ino: Ino,
        location: &InodeLocation,
    ) -> Result<(Handle, Option<Arc<Buf>>), TransError> {
        let key = Key::Inode(ino);
        // Mostly nobody holds it, then neither does this transaction.
        let handle = match Locked::try_take(self.engine.inodes().item(ino, location)) {
            Ok(state) => {
                self.work.cil_items.tally.of_place(None).taken += 1;
                self.work.join(key, JoinedItem::new(state, None))
            }
            Err(item) => match self.work.find(key) {
                Some(handle) => handle,
                None => self.join(item, key, None)?,
            },
        };
        Ok((handle, self.work.held(handle).state.bytes.share()))
    }

    /// All of a newborn inode, `len` bytes long, is `core`, and forks without state.
    pub fn init_inode(&mut self, handle: Handle, core: CoreV3, len: usize) {
        let compact = CompactInode::new(zerocopy::transmute!(core), len);
        // The journal is told all of a core where any of it is; empty forks need not be.
        let told = 0..offset_of!(CoreV3, crc);
        self.work.becomes(handle, compact.into(), None).dirty.mark(&told);
    }

    /// The chunk of inode `ino` is given back: whatever is in memory of the inode is never written.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub fn forget_inode(&mut self, ino: Ino) -> Result<(), TransError> {
        if let Some(item) = self.engine.inodes().get(ino) {
            let handle = match self.work.find(Key::Inode(ino)) {
                Some(handle) => handle,
                None => self.join(item, Key::Inode(ino), None)?,
            };
            self.invalidate(handle);
        }
        Ok(())
    }

    /// A block that somebody remembers, where it is still in memory, in use, and what `is_it` says; held then. One without
    /// a place in the lock order may be anything by now, so it is not waited for.
    ///
    /// # Errors
    /// [`TransError::Busy`], for one with a place.
    pub fn known(
        &mut self,
        item: &Arc<LogItem>,
        place: Option<LockPosition>,
        is_it: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<Handle>, TransError> {
        let sound = |held: &JoinedItem| {
            let ItemState { bytes, verified, stale, .. } = &*held.state;
            let bytes = bytes.get().filter(|_| *verified && !*stale && !held.stale);
            bytes.is_some_and(is_it)
        };
        let key = Key::of(item.location());
        if let Some(handle) = self.work.find(key) {
            return Ok(sound(self.work.held(handle)).then_some(handle));
        }
        let item = Arc::clone(item);
        let handle = match place {
            Some(_) => self.join(item, key, place)?,
            None => match Locked::try_take(item) {
                Ok(state) => self.work.join(key, JoinedItem::new(state, None)),
                Err(_) => return Ok(None),
            },
        };
        let sound = sound(self.work.held(handle));
        if !sound {
            self.release(handle);
        }
        Ok(sound.then_some(handle))
    }

    /// The block at `at` (address and length in bytes), which somebody may remember as `item` of the buffer cache: held, where
    /// this transaction does so, or where it is still in memory, in use, and nobody's. Else the cache is to be asked.
    #[inline]
    pub fn recall(&mut self, at: (Daddr, usize), item: Option<&Weak<LogItem>>) -> Option<Handle> {
        let key = Key::Block(at.0, at.1);
        if let Some(handle) = self.work.find(key) {
            return Some(handle);
        }
        let state = Locked::try_take(item?.upgrade()?).ok()?;
        if !state.verified || state.stale || !state.bytes.is_some() {
            return None;
        }
        state.item().used.mark();
        self.work.cil_items.tally.of_place(None).taken += 1;
        Some(self.work.join(key, JoinedItem::new(state, None)))
    }

    /// Takes a log item's lock: waits for it where the order allows, else tries.
    fn join(
        &mut self,
        item: Arc<LogItem>,
        key: Key,
        place: Option<LockPosition>,
    ) -> Result<Handle, TransError> {
        let in_order = place.is_none_or(|place| {
            self.work.all().all(|held| held.place.is_none_or(|other| other < place))
        });
        let stats = self.work.cil_items.tally.of_place(place);
        let state = match Locked::try_take(item) {
            Err(item) if !in_order => return Err(TransError::Busy(Busy(item))),
            attempt => counted(stats, attempt, |item| Locked::take(item, &self.engine.cil)),
        };
        Ok(self.work.join(key, JoinedItem::new(state, place)))
    }

    /// True where this transaction holds the block at `map`.
    pub fn holds(&self, map: &BufMap) -> bool {
        self.held_at(map).is_some()
    }

    /// True where somebody holds the block at `map` just now, as far as one can see without waiting.
    pub fn is_contended(&self, map: &BufMap) -> bool {
        self.engine.cache().item(map).lock.is_locked()
    }

    /// The item behind a handle.
    pub fn item(&self, handle: Handle) -> &Arc<LogItem> {
        self.work.held(handle).state.item()
    }

    /// Its bytes, with this transaction's changes.
    pub fn bytes(&self, handle: Handle) -> &[u8] {
        self.work.held(handle).state.bytes.get().unwrap_or(&[])
    }

    /// Its bytes as a snapshot: it stays as it is, whatever this transaction does next.
    pub fn snapshot(&self, handle: Handle) -> Arc<Buf> {
        self.work.held(handle).state.bytes.share().expect("a joined item has been read")
    }

    /// Its bytes, to be edited.
    pub fn image(&mut self, handle: Handle) -> Held<'_, 'e> {
        Held { trans: self, handle }
    }

    /// The part `range` of a log item, to be changed: saved for undo, marked for the journal.
    ///
    /// # Panics
    /// Where `range` lies outside of the item.
    pub fn edit(&mut self, handle: Handle, range: Range<usize>) -> &mut [u8] {
        self.work.edit(handle, range)
    }

    /// Says that an inode's unlinked pointer changes: inode items do not carry it.
    pub fn log_unlinked(&mut self, handle: Handle) {
        self.work.held_mut(handle).unlinked = true;
    }

    /// Lets go of a log item that this transaction has not changed; changed ones stay held.
    pub fn release(&mut self, handle: Handle) {
        self.work.release(handle);
    }

    /// The block was freed: the journal cancels it, nothing of it is written any more.
    pub fn invalidate(&mut self, handle: Handle) {
        self.work.is_structural = true;
        self.work.held_mut(handle).stale = true;
    }

    /// The block at `map` was freed, which nobody reads now: like [`invalidate`](Self::invalidate),
    /// without reading it first.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub fn invalidate_at(&mut self, map: &BufMap) -> Result<(), TransError> {
        let handle = self.take_unread(map)?;
        self.invalidate(handle);
        Ok(())
    }

    /// Blocks that this transaction gave back: not to be used again before its checkpoint is durable.
    pub fn freed(&mut self, extent: Freed) {
        self.work.is_structural = true;
        self.work.freed.push(extent);
    }

    /// An extent that begins with `block` came to another place or file, or is no longer shared: it is not to be written in
    /// place before this transaction's checkpoint is durable ([`Engine::moved_in`]).
    pub fn moved(&self, block: FsBlock) {
        self.engine.note_moved(block);
    }

    /// What this transaction gave back so far.
    pub fn freed_so_far(&self) -> &[Freed] {
        &self.work.freed
    }

    /// Bytes that this transaction adds to the journal, roughly: when to stop and go on in another.
    pub fn dirty_bytes(&self) -> usize {
        self.work
            .all()
            .map(|held| match held.state.item().location() {
                DiskLocation::Block(map) => {
                    held.dirty.runs(map.byte_len()).map(|run| run.len()).sum()
                }
                DiskLocation::Inode { .. } if held.dirty.is_empty() => 0,
                DiskLocation::Inode { .. } => held.state.bytes.len(),
            })
            .sum()
    }

    /// The data that this transaction's metadata refers to will be written behind the commit, before
    /// the ticket is dropped; the checkpoint waits for it.
    pub fn data_to_come(&mut self) -> DataTicket {
        self.waits_for_data = true;
        self.engine.data_ticket()
    }

    /// True where its checkpoint waits for data that is yet to be written.
    pub fn waits_for_data(&self) -> bool {
        self.waits_for_data
    }

    /// Makes the changes visible, and lists them for the next checkpoint; answers its number
    /// ([`Engine::force`]).
    pub fn commit(mut self) -> u64 {
        // Before anybody else has the group.
        self.engine.busy().add(&self.work.freed, self.engine.checkpoint_number());
        self.work.complete_change(self.delta);
        self.work.commit(&self.engine.cil)
    }

    /// Ends a change, which happens: the transaction rests, and the thread's next change goes on in it
    /// ([`Engine::resume`]). Where it may not rest it is committed. Answers the number of its checkpoint, as
    /// [`commit`](Self::commit) does.
    pub fn park(mut self) -> u64 {
        let only_edits = !self.work.is_structural && self.delta.is_of_edits();
        if !only_edits || self.waits_for_data {
            return self.commit();
        }
        self.work.complete_change(self.delta);
        let seq = self.engine.checkpoint_number();
        if let (Some(work), Some(ctx_lock)) = (self.work.leave(), self.ctx_lock.take())
            && let Err((work, ctx_lock)) = self.engine.cil.park(work, ctx_lock)
        {
            (self.work, self.ctx_lock) = (work, Some(ctx_lock));
            self.work.commit(&self.engine.cil);
        }
        seq
    }
}

impl Drop for Trans<'_> {
    /// Undoes the change that was not complete, and commits those before it.
    fn drop(&mut self) {
        if let Some(work) = self.work.get() {
            work.end(&self.engine.cil);
        }
    }
}

/// One item of a transaction, as an [`Image`].
#[derive(Debug)]
pub struct Held<'t, 'e> {
    trans: &'t mut Trans<'e>,
    handle: Handle,
}

impl Image for Held<'_, '_> {
    fn bytes(&self) -> &[u8] {
        self.trans.bytes(self.handle)
    }

    fn edit(&mut self, range: Range<usize>) -> &mut [u8] {
        self.trans.edit(self.handle, range)
    }
}
