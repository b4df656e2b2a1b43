//! A transaction: it locks log items, changes declared byte ranges, and then commits or undoes.
//!
//! ```text
//!   begin ──▶ join items (their locks) ──▶ edit ──▶ commit: in the CIL for the next checkpoint
//!                                              └────▶ drop:   every byte as it was before
//! ```
//!
//! 1. A transaction lies in one checkpoint as a whole: it holds the context lock from begin to end.
//! 2. A transaction that is dropped leaves no trace: neither bytes nor flags nor counters.
//! 3. A transaction waits for locks that have a [`LockPosition`] in that order only. Out of order
//!    it tries; [`TransError::Busy`] names the lock to wait for, while nothing is held, before the
//!    next attempt.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::{Arc, Weak};

use xfskit_format::inode::CoreV3;
use xfskit_format::log::item::intent::Work as IntentWork;
use xfskit_format::log::item::{Done, Family, Icreate, Intent};
use xfskit_format::{Ctx, Image, VerifyResult};
use xfskit_units::{Daddr, FsBlock, Ino};

use crate::buf_map::BufMap;
use crate::busy::Freed;
use crate::bytes::{Buf, Bytes, CompactInode, zeroed};
use crate::cil::{CtxGuard, Delta};
use crate::engine::{DataTicket, Engine, PanicGuard};
use crate::error::{Busy, TransError};
use crate::guard::Locked;
use crate::icache::{self, InodeLocation};
use crate::intents::IntentItem;
use crate::lock::{LockPosition, LockStats};
use crate::log_item::{Chunks, DiskLocation, ItemState, LogItem, NewCluster};
use crate::tally::counted;
use crate::work::{Handle, JoinedItem, Key, ReusedWork};

impl Engine {
    /// Starts a transaction. Waits for space in the CIL. The caller holds no log item.
    ///
    /// # Errors
    /// [`TransError::ShutDown`].
    pub fn begin(&self) -> Result<Trans<'_>, TransError> {
        // Without a thread of the engine, the caller writes the checkpoint.
        if self.cil().is_full() && !self.cil().wait_for_space(|| self.check_not_shut_down().is_ok())
        {
            self.checkpoint_if(|engine| engine.cil().is_full())?;
        }
        self.check_not_shut_down()?;
        let (ctx_lock, waited) = self.cil().enter();
        Ok(Trans::new(self, ctx_lock, waited))
    }

    /// Resumes the thread's [parked](Trans::park) transaction, or starts a new one.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn resume(&self) -> Result<Trans<'_>, TransError> {
        match self.parking.resume() {
            Some((work, ctx_lock)) => {
                let trans = Trans::resume(self, work, ctx_lock);
                self.check_not_shut_down()?;
                Ok(trans)
            }
            None => self.begin(),
        }
    }
}

impl Busy {
    /// Waits until the lock has been free once. The caller holds no transaction.
    pub fn wait(self, engine: &Engine) {
        drop(self.0.write(Some(&engine.parking)));
    }
}

/// A transaction. It undoes itself when it is dropped without [`commit`](Trans::commit).
pub struct Trans<'e> {
    engine: &'e Engine,
    panic_guard: PanicGuard<'e>,
    work: ReusedWork,
    /// Released last: fields are dropped in this order. `None` once the transaction is parked.
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
        Self::resume(engine, work, ctx_lock)
    }

    /// Continues the transaction of `work`.
    pub(crate) fn resume(engine: &'e Engine, work: ReusedWork, ctx_lock: CtxGuard<'e>) -> Self {
        let delta = work.delta();
        let panic_guard = PanicGuard::new(engine, "a change");
        Self { engine, panic_guard, work, ctx_lock: Some(ctx_lock), delta, waits_for_data: false }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// Locks the block at `map` for change, and runs `verify` on it when it is read from the
    /// device. A block with a `position` in the lock order is waited for only in that order.
    ///
    /// # Errors
    /// [`TransError::Buf`], [`TransError::Busy`].
    pub fn read(
        &mut self,
        map: &BufMap,
        position: Option<LockPosition>,
        ctx: &Ctx<'_>,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Handle, TransError> {
        let key = Key::of_block(map);
        if let Some(handle) = self.work.find(key) {
            return Ok(handle);
        }
        let handle = self.join(self.engine.cache().item(map), key, position)?;
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

    /// Returns the block at `map` if this transaction holds it.
    pub fn held_at(&self, map: &BufMap) -> Option<Handle> {
        self.work.find(Key::of_block(map))
    }

    /// Returns inode `ino` if this transaction holds it.
    pub fn held_inode(&self, ino: Ino) -> Option<Handle> {
        self.work.find(Key::Inode(ino))
    }

    /// Returns the current bytes of the block at `map`: with the changes of this transaction, or as
    /// last committed. The transaction does not hold the block afterwards.
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

    /// Takes the newly allocated block at `map`: all zeroes, whatever it held before, and logged as
    /// a whole.
    ///
    /// # Errors
    /// [`TransError::Busy`], never for a block that no other thread knows.
    pub fn fresh(&mut self, map: &BufMap) -> Result<Handle, TransError> {
        let handle = self.take_unread(map)?;
        self.replace(handle, zeroed(map.byte_len()));
        Ok(handle)
    }

    /// Locks the block at `map` without reading it.
    fn take_unread(&mut self, map: &BufMap) -> Result<Handle, TransError> {
        let key = Key::of_block(map);
        match self.work.find(key) {
            Some(handle) => Ok(handle),
            None => self.join(self.engine.cache().item(map), key, None),
        }
    }

    /// Replaces all bytes of a log item.
    fn replace(&mut self, handle: Handle, bytes: Arc<Buf>) {
        let all = 0..bytes.len();
        self.work.is_structural = true;
        self.work.replace(handle, bytes.into(), None).dirty.mark(&all);
    }

    /// Takes the newly allocated inode cluster at `map`: written in position, but never logged.
    /// [`icreate`](Self::icreate) logs it instead.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub fn new_cluster(&mut self, map: &BufMap, new: NewCluster) -> Result<(), TransError> {
        let handle = self.take_unread(map)?;
        self.work.is_structural = true;
        self.work.replace(handle, Bytes::default(), Some(Box::new(new))).dirty = Chunks::default();
        Ok(())
    }

    /// Returns the template of the inode cluster at `location` if the cluster is new and no thread
    /// has needed all of it yet.
    pub fn unmaterialized_cluster(&mut self, location: &InodeLocation) -> Option<NewCluster> {
        let (daddr, len) = location.cluster;
        let cluster = BufMap::single(daddr, len);
        let last = self.work.cluster.take().filter(|(at, _)| *at == daddr);
        let find = || (daddr, self.engine.cache().item(&cluster));
        let (_, item) = self.work.cluster.insert(last.unwrap_or_else(find));
        // In the common case no transaction holds it, and then neither does this one.
        if let Some(state) = item.lock.try_read() {
            return state.unmaterialized_cluster();
        }
        match self.held_at(&cluster) {
            Some(handle) => self.work.held(handle).state.new.as_deref().copied(),
            None => self.engine.cache().unmaterialized_cluster(location),
        }
    }

    /// Takes the newly allocated block at `map` with the content `bytes`. The block is never logged
    /// and never written by the AIL push: the caller writes it to the device before the commit.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub fn unlogged(&mut self, map: &BufMap, bytes: Arc<Buf>) -> Result<(), TransError> {
        let handle = self.fresh(map)?;
        self.replace(handle, bytes);
        self.work.held_mut(handle).dirty = Chunks::default();
        self.engine.note_unlogged_write();
        Ok(())
    }

    /// Logs the initialization of an inode chunk.
    pub fn icreate(&mut self, item: Icreate) {
        self.work.is_structural = true;
        self.work.cil_items.icreates.push(item);
    }

    /// Logs an intent for `work`, to be finished by recovery if the machine crashes after this
    /// transaction. Returns the intent; the transaction that does the work passes its
    /// [`done`](Intent::done) item to [`log_done`](Self::log_done).
    pub fn log_intent(&mut self, family: Family, work: IntentWork) -> Intent {
        let intent = Intent { family, id: self.engine.intent_ids.next(), work };
        self.work.is_structural = true;
        self.work.cil_items.intents.push(IntentItem::Intent(intent.clone()));
        intent
    }

    /// Logs that this transaction does the work of an intent.
    pub fn log_done(&mut self, done: Done) {
        self.work.is_structural = true;
        self.work.cil_items.intents.push(IntentItem::Done(done));
    }

    /// Takes the ILOCK of inode `ino`, and reads the inode with `load` if it is not in memory.
    ///
    /// # Errors
    /// [`TransError::Busy`], and the errors of `load`.
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

    /// Locks inode `ino`, which is being allocated. No other thread knows it, so its lock may be
    /// taken out of order. Returns the previous bytes if they are in memory.
    ///
    /// # Errors
    /// [`TransError::Busy`].
    pub fn new_inode(
        &mut self,
        ino: Ino,
        location: &InodeLocation,
    ) -> Result<(Handle, Option<Arc<Buf>>), TransError> {
        let key = Key::Inode(ino);
        // In the common case no transaction holds it, and then neither does this one.
        let handle = match Locked::try_take(self.engine.inodes().item(ino, location)) {
            Ok(state) => {
                self.work.cil_items.tally.locks_at(None).taken += 1;
                self.work.join(key, JoinedItem::new(state, None))
            }
            Err(item) => match self.work.find(key) {
                Some(handle) => handle,
                None => self.join(item, key, None)?,
            },
        };
        Ok((handle, self.work.held(handle).state.bytes.share()))
    }

    /// Initializes a newly allocated inode of `len` bytes from `core`, with empty forks.
    pub fn init_inode(&mut self, handle: Handle, core: CoreV3, len: usize) {
        let compact = CompactInode::new(zerocopy::transmute!(core), len);
        // The journal receives all of a core if any of it changed; empty forks need not be logged.
        let logged = 0..offset_of!(CoreV3, crc);
        self.work.replace(handle, compact.into(), None).dirty.mark(&logged);
    }

    /// Discards inode `ino` from memory, because its chunk was freed. The inode is never written.
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

    /// Returns the cached block, locked, if it is still in memory and in use, and `matches` accepts
    /// it. A block without a position in the lock order may have been reused for anything, so it is
    /// not waited for.
    ///
    /// # Errors
    /// [`TransError::Busy`], for a block with a position.
    pub fn join_if(
        &mut self,
        item: &Arc<LogItem>,
        position: Option<LockPosition>,
        matches: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<Handle>, TransError> {
        let usable = |held: &JoinedItem| {
            let ItemState { bytes, verified, stale, .. } = &*held.state;
            let bytes = bytes.get().filter(|_| *verified && !*stale && !held.stale);
            bytes.is_some_and(matches)
        };
        let key = Key::of(item.location());
        if let Some(handle) = self.work.find(key) {
            return Ok(usable(self.work.held(handle)).then_some(handle));
        }
        let item = Arc::clone(item);
        let handle = match position {
            Some(_) => self.join(item, key, position)?,
            None => match Locked::try_take(item) {
                Ok(state) => self.work.join(key, JoinedItem::new(state, None)),
                Err(_) => return Ok(None),
            },
        };
        let usable = usable(self.work.held(handle));
        if !usable {
            self.release(handle);
        }
        Ok(usable.then_some(handle))
    }

    /// Returns the block at `at` (address, and length in bytes) if this transaction holds it, or
    /// locks it through `item`, a weak reference into the buffer cache. Returns `None` if the block
    /// is not in memory, not in use, or locked; the caller then asks the cache.
    #[inline]
    pub fn try_join(&mut self, at: (Daddr, usize), item: Option<&Weak<LogItem>>) -> Option<Handle> {
        let key = Key::Block(at.0, at.1);
        if let Some(handle) = self.work.find(key) {
            return Some(handle);
        }
        let state = Locked::try_take(item?.upgrade()?).ok()?;
        if !state.verified || state.stale || !state.bytes.is_some() {
            return None;
        }
        state.item().used.mark();
        self.work.cil_items.tally.locks_at(None).taken += 1;
        Some(self.work.join(key, JoinedItem::new(state, None)))
    }

    /// Takes the lock of a log item. Waits where the lock order allows it, else only tries.
    fn join(
        &mut self,
        item: Arc<LogItem>,
        key: Key,
        position: Option<LockPosition>,
    ) -> Result<Handle, TransError> {
        let in_order = position.is_none_or(|position| {
            self.work.all().all(|held| held.position.is_none_or(|other| other < position))
        });
        let stats = self.work.cil_items.tally.locks_at(position);
        let state = match Locked::try_take(item) {
            Err(item) if !in_order => return Err(TransError::Busy(Busy(item))),
            attempt => counted(stats, attempt, |item| Locked::take(item, &self.engine.parking)),
        };
        Ok(self.work.join(key, JoinedItem::new(state, position)))
    }

    /// Returns true if this transaction holds the block at `map`.
    pub fn holds(&self, map: &BufMap) -> bool {
        self.held_at(map).is_some()
    }

    /// Returns true if the block at `map` is locked at this moment. Does not wait.
    pub fn is_contended(&self, map: &BufMap) -> bool {
        self.engine.cache().item(map).lock.is_locked()
    }

    /// Returns the log item of a handle.
    pub fn item(&self, handle: Handle) -> &Arc<LogItem> {
        self.work.held(handle).state.item()
    }

    /// Returns the bytes of a log item, with the changes of this transaction.
    pub fn bytes(&self, handle: Handle) -> &[u8] {
        self.work.held(handle).state.bytes.get().unwrap_or(&[])
    }

    /// Returns a snapshot of the bytes. Later changes by this transaction do not affect it.
    pub fn snapshot(&self, handle: Handle) -> Arc<Buf> {
        self.work.held(handle).state.bytes.share().expect("a joined item has been read")
    }

    /// Returns the log item as an [`Image`], for editing.
    pub fn image(&mut self, handle: Handle) -> Held<'_, 'e> {
        Held { trans: self, handle }
    }

    /// Returns the bytes in `range` for change. Saves them for undo and marks them for the journal.
    ///
    /// # Panics
    /// If `range` lies outside the item.
    pub fn edit(&mut self, handle: Handle, range: Range<usize>) -> &mut [u8] {
        self.work.edit(handle, range)
    }

    /// Marks the unlinked pointer of an inode as changed: inode items do not carry it.
    pub fn log_unlinked(&mut self, handle: Handle) {
        self.work.held_mut(handle).unlinked = true;
    }

    /// Releases a log item that this change has joined and not changed. Others stay locked.
    pub fn release(&mut self, handle: Handle) {
        self.work.release(handle);
    }

    /// Marks the block as freed. The journal cancels it, and it is not written any more.
    pub fn invalidate(&mut self, handle: Handle) {
        self.work.is_structural = true;
        self.work.held_mut(handle).stale = true;
    }

    /// Marks the block at `map` as freed, like [`invalidate`](Self::invalidate), without reading it
    /// first.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub fn invalidate_at(&mut self, map: &BufMap) -> Result<(), TransError> {
        let handle = self.take_unread(map)?;
        self.invalidate(handle);
        Ok(())
    }

    /// Records an extent that this transaction freed. It is not reused before the checkpoint is
    /// durable.
    pub fn note_freed(&mut self, extent: Freed) {
        self.work.is_structural = true;
        self.work.freed.push(extent);
    }

    /// Records that the extent at `block` was remapped to another offset or file, or is no longer
    /// shared. It is not written in position before this transaction's checkpoint is durable
    /// ([`Engine::remapped_in`]).
    pub fn note_remapped(&self, block: FsBlock) {
        self.engine.note_remapped(block);
    }

    /// Returns the extents that this transaction has freed so far.
    pub fn freed_so_far(&self) -> &[Freed] {
        &self.work.freed
    }

    /// Returns roughly how many bytes this transaction adds to the journal. A caller uses it to
    /// decide when to continue in another transaction.
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

    /// Registers file data that this transaction's metadata refers to, and that is written after
    /// the commit. The checkpoint waits until the ticket is dropped.
    pub fn data_ticket(&mut self) -> DataTicket {
        self.waits_for_data = true;
        self.engine.data_ticket()
    }

    /// Returns true if the checkpoint of this transaction waits for data that is not written yet.
    pub fn waits_for_data(&self) -> bool {
        self.waits_for_data
    }

    /// Makes the changes visible and inserts the changed items into the CIL. Returns the number of
    /// the checkpoint that will contain them ([`Engine::force`]).
    pub fn commit(mut self) -> u64 {
        // Before another transaction can lock the group.
        self.engine.busy().add(&self.work.freed, self.engine.checkpoint_number());
        self.work.complete_change(self.delta);
        self.work.commit(self.engine.cil())
    }

    /// Completes the running change and parks the transaction, so that the thread's next change
    /// continues in it ([`Engine::resume`]). Commits it instead if it may not be parked. Returns
    /// the number of its checkpoint, as [`commit`](Self::commit) does.
    pub fn park(mut self) -> u64 {
        let only_edits = !self.work.is_structural && self.delta.only_takes_inodes();
        if !only_edits || self.waits_for_data {
            return self.commit();
        }
        self.work.complete_change(self.delta);
        let seq = self.engine.checkpoint_number();
        if let (Some(work), Some(ctx_lock)) = (self.work.detach(), self.ctx_lock.take())
            && let Err((work, ctx_lock)) = self.engine.parking.park(work, ctx_lock)
        {
            (self.work, self.ctx_lock) = (work, Some(ctx_lock));
            self.work.commit(self.engine.cil());
        }
        seq
    }
}

impl Drop for Trans<'_> {
    /// Undoes the incomplete change, and commits the complete ones before it. In a panic the volume
    /// is shut down first: the change may have got further than it can be undone.
    fn drop(&mut self) {
        self.panic_guard.check();
        if let Some(work) = self.work.get() {
            work.end(self.engine.cil());
        }
    }
}

/// A log item of a transaction, as an [`Image`].
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
