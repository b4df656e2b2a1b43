//! A transaction: objects locked, changed through declared ranges, then committed or undone.
//!
//! ```text
//!   begin ──▶ join objects (their locks) ──▶ edit ──▶ commit: listed for the next checkpoint
//!                                              └────▶ drop:   every byte as it was before
//! ```
//!
//! 1. A transaction lies in one checkpoint as a whole: it holds the gate from begin to end.
//! 2. A transaction that is dropped leaves no trace: neither bytes nor flags nor counters.
//! 3. Locks that have an order ([`Place`]) are waited for in that order only; out of order they are
//!    tried, and [`TransError::Busy`] says which one to wait for, holding nothing, before the next try.

use crate::sync::atomic::Ordering;
use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Weak};

use xfskit_format::log::item::intent::Work as Promised;
use xfskit_format::log::item::{Done, Family, Icreate, Intent};
use xfskit_format::{Ctx, Image, Verdict};
use xfskit_units::{AgBlock, AgNumber, Daddr, ExtLen, FsBlock, Ino};

use crate::buf::{BufError, BufMap};
use crate::bytes::Bytes;
use crate::engine::{DataTicket, Engine, GateGuard, Listed, ShutDown};
use crate::guard::Locked;
use crate::icache::{self, InodeHome};
use crate::lock::LockStats;
use crate::object::{Buf, Chunks, Content, Home, NewCluster, Object, zeroed};
use crate::promises::Promise;
use crate::stats::counted;

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
pub struct Busy(Arc<Object>);

impl Busy {
    /// Waits until the lock was free once. The caller holds no transaction.
    pub fn wait(self) {
        self.0.wait();
    }
}

/// The place of a lock in the order in which transactions wait for them: inodes by number, then the
/// AGI and AGF of each group, ascending. Other blocks are protected by one of these and have no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// An inode's ILOCK.
    Inode(Ino),
    /// AGI of a group.
    Agi(AgNumber),
    /// AGF of a group.
    Agf(AgNumber),
}

/// An object of a transaction. Good for this transaction only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(u32);

/// What an object of a transaction is found by, without a look into the caches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    /// A block: the address of its first piece, its length in bytes.
    Block(Daddr, usize),
    Inode(Ino),
}

impl Key {
    fn of_block(map: &BufMap) -> Self {
        Self::Block(map.first().0, map.byte_len())
    }

    fn of(home: &Home) -> Self {
        match home {
            Home::Block(map) => Self::of_block(map),
            Home::Inode { ino, .. } => Self::Inode(*ino),
        }
    }
}

/// One object, held.
struct Joined {
    key: Key,
    content: Locked,
    place: Option<Place>,
    /// What this transaction changed.
    dirty: Chunks,
    unlinked: bool,
    /// It is a new cluster.
    new: bool,
    stale: bool,
    /// Undo for all of a block that was taken over as fresh.
    before: Option<Before>,
}

impl Joined {
    /// All of it is new.
    fn becomes(&mut self, bytes: Bytes, new: Option<Box<NewCluster>>) {
        self.new = new.is_some();
        let content = &mut *self.content;
        let before = Before {
            bytes: std::mem::replace(&mut content.bytes, bytes),
            new: std::mem::replace(&mut content.new, new),
        };
        self.before.get_or_insert(before);
        content.verified = true;
        self.stale = false;
    }
}

/// What stood in a block before it was taken over as fresh.
struct Before {
    /// None where it had not been read.
    bytes: Bytes,
    new: Option<Box<NewCluster>>,
}

/// Bytes that stood in an object before an edit.
struct Undo {
    handle: Handle,
    start: usize,
    len: usize,
}

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
    work: Kept,
    /// Held to the end: fields are dropped in this order.
    _gate: GateGuard<'e>,
    /// Changes of the superblock's counters, applied at commit.
    pub delta: Delta,
    waits_for_data: bool,
    is_committed: bool,
}

/// What a transaction gathers.
#[derive(Default)]
struct Work {
    joined: Vec<Option<Joined>>,
    undo: Vec<Undo>,
    undo_bytes: Vec<u8>,
    freed: Vec<Freed>,
    /// What the commit lists.
    listed: Listed,
}

/// Undo of more bytes than this is not kept for the next transaction.
const UNDO_KEPT: usize = 1 << 20;

thread_local! {
    static KEPT: Cell<Option<Box<Work>>> = const { Cell::new(None) };
}

/// A [`Work`] that its thread keeps for the next transaction, so that the vectors need not grow again.
struct Kept(Option<Box<Work>>);

impl Kept {
    fn new() -> Self {
        Self(Some(KEPT.take().unwrap_or_default()))
    }
}

impl Deref for Kept {
    type Target = Work;
    fn deref(&self) -> &Work {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut Work {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Kept {
    /// Empties it, and leaves it for the thread's next transaction.
    fn drop(&mut self) {
        self.joined.clear();
        self.undo.clear();
        self.undo_bytes.clear();
        self.freed.clear();
        self.listed.clear();
        if self.undo_bytes.capacity() <= UNDO_KEPT {
            KEPT.set(self.0.take());
        }
    }
}

impl std::fmt::Debug for Trans<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trans").field("joined", &self.work.joined.len()).finish_non_exhaustive()
    }
}

impl<'e> Trans<'e> {
    pub(crate) fn new(engine: &'e Engine, gate: GateGuard<'e>, gate_waits: LockStats) -> Self {
        let mut work = Kept::new();
        work.listed.tally.gate += gate_waits;
        Self {
            engine,
            _gate: gate,
            work,
            is_committed: false,
            delta: Delta::default(),
            waits_for_data: false,
        }
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
        place: Option<Place>,
        ctx: &Ctx<'_>,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> Verdict,
    ) -> Result<Handle, TransError> {
        let key = Key::of_block(map);
        if let Some(handle) = self.find(key) {
            return Ok(handle);
        }
        let handle = self.join(self.engine.cache().object(map), key, place)?;
        let content = &mut self.held_mut(handle).content;
        if !(content.verified && content.bytes.get().is_some()) {
            let loaded =
                self.engine.cache().load(map, &mut self.held_mut(handle).content, ctx, verify);
            if let Err(error) = loaded {
                self.release(handle);
                return Err(error.into());
            }
        }
        Ok(handle)
    }

    /// The block at `map`, where this transaction holds it.
    pub fn held_at(&self, map: &BufMap) -> Option<Handle> {
        self.find(Key::of_block(map))
    }

    /// Inode `ino`, where this transaction holds it.
    pub fn held_inode(&self, ino: Ino) -> Option<Handle> {
        self.find(Key::Inode(ino))
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
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> Verdict,
    ) -> Result<Arc<Buf>, TransError> {
        match self.held_at(map).and_then(|handle| self.held(handle).content.bytes.share()) {
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
        match self.find(key) {
            Some(handle) => Ok(handle),
            None => self.join(self.engine.cache().object(map), key, None),
        }
    }

    /// All of an object is new.
    fn replace(&mut self, handle: Handle, bytes: Arc<Buf>) {
        let held = self.held_mut(handle);
        held.dirty.mark(&(0..bytes.len()));
        held.becomes(bytes.into(), None);
    }

    /// The cluster of inodes at `map`, just allocated: written back but never logged.
    /// [`icreate`](Self::icreate) is what the journal says of it.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub fn new_cluster(&mut self, map: &BufMap, new: NewCluster) -> Result<(), TransError> {
        let handle = self.take_unread(map)?;
        let held = self.held_mut(handle);
        held.dirty = Chunks::default();
        held.becomes(Bytes::default(), Some(Box::new(new)));
        Ok(())
    }

    /// The cluster of the inode at `home`, where nothing of it was ever needed but single inodes.
    pub fn untaken(&self, home: &InodeHome) -> Option<NewCluster> {
        let (daddr, len) = home.cluster;
        let cluster = BufMap::single(daddr, len);
        match self.held_at(&cluster) {
            Some(handle) => self.held(handle).content.new.as_deref().copied(),
            None => self.engine.cache().untaken(home),
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
        self.held_mut(handle).dirty = Chunks::default();
        self.engine.wrote_unlogged();
        Ok(())
    }

    /// Logs that a chunk of inodes was made.
    pub fn icreate(&mut self, item: Icreate) {
        self.work.listed.icreates.push(item);
    }

    /// Logs that something shall be done, should this transaction be the last before a crash. Answers the promise,
    /// whose [`done`](Intent::done) the transaction that does it [`keep`](Self::keep)s.
    pub fn promise(&mut self, family: Family, work: Promised) -> Intent {
        let intent = Intent { family, id: self.engine.promise_ids.next(), work };
        self.work.listed.promises.push(Promise::Made(intent.clone()));
        intent
    }

    /// Logs that this transaction does what was promised.
    pub fn keep(&mut self, done: Done) {
        self.work.listed.promises.push(Promise::Kept(done));
    }

    /// Inode `ino`, its ILOCK taken; read with `load` where it is not in memory.
    ///
    /// # Errors
    /// [`TransError::Busy`], and those of `load`.
    pub fn inode<E: From<TransError>>(
        &mut self,
        ino: Ino,
        home: &InodeHome,
        load: impl FnOnce() -> Result<Arc<Buf>, E>,
    ) -> Result<Handle, E> {
        if let Some(handle) = self.find(Key::Inode(ino)) {
            return Ok(handle);
        }
        let object = self.engine.inodes().object(ino, home);
        let handle = self.join(object, Key::Inode(ino), Some(Place::Inode(ino)))?;
        if let Err(error) = icache::fill(&mut self.held_mut(handle).content, load) {
            self.release(handle);
            return Err(error);
        }
        Ok(handle)
    }

    /// Inode `ino`, free so far: known to nobody else, it may be taken out of order. What it held, if that is in memory.
    ///
    /// # Errors
    /// [`TransError::Busy`].
    pub fn newborn(
        &mut self,
        ino: Ino,
        home: &InodeHome,
    ) -> Result<(Handle, Option<Arc<Buf>>), TransError> {
        let handle = match self.find(Key::Inode(ino)) {
            Some(handle) => handle,
            None => self.join(self.engine.inodes().object(ino, home), Key::Inode(ino), None)?,
        };
        Ok((handle, self.held(handle).content.bytes.share()))
    }

    /// All of a newborn inode is `bytes`, of which the journal is told `changed`.
    pub fn bear(&mut self, handle: Handle, bytes: Arc<Buf>, changed: &Range<usize>) {
        let held = self.held_mut(handle);
        held.dirty.mark(changed);
        held.becomes(bytes.into(), None);
    }

    /// The chunk of inode `ino` is given back: whatever is in memory of the inode is never written.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub fn forget_inode(&mut self, ino: Ino) -> Result<(), TransError> {
        if let Some(object) = self.engine.inodes().get(ino) {
            let handle = match self.find(Key::Inode(ino)) {
                Some(handle) => handle,
                None => self.join(object, Key::Inode(ino), None)?,
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
        object: &Arc<Object>,
        place: Option<Place>,
        is_it: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<Handle>, TransError> {
        let sound = |held: &Joined| {
            let Content { bytes, verified, stale, .. } = &*held.content;
            let bytes = bytes.get().filter(|_| *verified && !*stale && !held.stale);
            bytes.is_some_and(is_it)
        };
        let key = Key::of(object.home());
        if let Some(handle) = self.find(key) {
            return Ok(sound(self.held(handle)).then_some(handle));
        }
        let object = Arc::clone(object);
        let handle = match place {
            Some(_) => self.join(object, key, place)?,
            None => match Locked::try_take(object) {
                Ok(content) => self.push(content, key, None),
                Err(_) => return Ok(None),
            },
        };
        let sound = sound(self.held(handle));
        if !sound {
            self.release(handle);
        }
        Ok(sound.then_some(handle))
    }

    /// The block at `at` (address and length in bytes), which somebody remembers as `object` of the buffer cache: held, where it is still in memory, in use,
    /// and nobody's, not even this transaction's. Else the cache is to be asked.
    #[inline]
    pub fn recall(&mut self, at: (Daddr, usize), object: &Weak<Object>) -> Option<Handle> {
        let content = Locked::try_take(object.upgrade()?).ok()?;
        if !content.verified || content.stale || content.bytes.get().is_none() {
            return None;
        }
        content.object().used.mark();
        Some(self.push(content, Key::Block(at.0, at.1), None))
    }

    /// Takes an object's lock: waits for it where the order allows, else tries.
    fn join(
        &mut self,
        object: Arc<Object>,
        key: Key,
        place: Option<Place>,
    ) -> Result<Handle, TransError> {
        let in_order = place.is_none_or(|place| {
            self.work
                .joined
                .iter()
                .flatten()
                .all(|held| held.place.is_none_or(|other| other < place))
        });
        let stats = self.work.listed.tally.of_place(place);
        let content = match Locked::try_take(object) {
            Err(object) if !in_order => return Err(TransError::Busy(Busy(object))),
            attempt => counted(stats, attempt, Locked::take),
        };
        Ok(self.push(content, key, place))
    }

    fn push(&mut self, content: Locked, key: Key, place: Option<Place>) -> Handle {
        let handle = Handle(u32::try_from(self.work.joined.len()).unwrap_or(u32::MAX));
        self.work.joined.push(Some(Joined {
            key,
            content,
            place,
            dirty: Chunks::default(),
            unlinked: false,
            new: false,
            stale: false,
            before: None,
        }));
        handle
    }

    /// True where this transaction holds the block at `map`.
    pub fn holds(&self, map: &BufMap) -> bool {
        self.held_at(map).is_some()
    }

    /// True where somebody holds the block at `map` just now, as far as one can see without waiting.
    pub fn is_contended(&self, map: &BufMap) -> bool {
        self.engine.cache().object(map).lock.is_locked()
    }

    fn find(&self, key: Key) -> Option<Handle> {
        let is_it = |held: &Option<Joined>| held.as_ref().is_some_and(|held| held.key == key);
        let at = self.work.joined.iter().position(is_it)?;
        u32::try_from(at).ok().map(Handle)
    }

    fn held(&self, handle: Handle) -> &Joined {
        self.work.joined[handle.0 as usize].as_ref().expect("a handle of an object that is held")
    }

    fn held_mut(&mut self, handle: Handle) -> &mut Joined {
        self.work.joined[handle.0 as usize].as_mut().expect("a handle of an object that is held")
    }

    /// The object behind a handle.
    pub fn object(&self, handle: Handle) -> &Arc<Object> {
        self.held(handle).content.object()
    }

    /// Its bytes, with this transaction's changes.
    pub fn bytes(&self, handle: Handle) -> &[u8] {
        self.held(handle).content.bytes.get().unwrap_or(&[])
    }

    /// Its bytes as a snapshot: it stays as it is, whatever this transaction does next.
    pub fn snapshot(&self, handle: Handle) -> Arc<Buf> {
        self.held(handle).content.bytes.share().expect("a joined object has been read")
    }

    /// Its bytes, to be edited.
    pub fn image(&mut self, handle: Handle) -> Held<'_, 'e> {
        Held { trans: self, handle }
    }

    /// The part `range` of an object, to be changed: saved for undo, marked for the journal.
    ///
    /// # Panics
    /// Where `range` lies outside of the object.
    pub fn edit(&mut self, handle: Handle, range: Range<usize>) -> &mut [u8] {
        let Work { joined, undo, undo_bytes, .. } = &mut *self.work;
        let held = joined[handle.0 as usize].as_mut().expect("a handle of an object that is held");
        held.dirty.mark(&range);
        let part =
            &mut held.content.bytes.edit().expect("a joined object has been read")[range.clone()];
        if held.before.is_none() {
            undo.push(Undo { handle, start: range.start, len: range.len() });
            undo_bytes.extend_from_slice(part);
        }
        part
    }

    /// Says that an inode's unlinked pointer changes: inode items do not carry it.
    pub fn log_unlinked(&mut self, handle: Handle) {
        self.held_mut(handle).unlinked = true;
    }

    /// Lets go of an object that this transaction has not changed; changed ones stay held.
    pub fn release(&mut self, handle: Handle) {
        let slot = &mut self.work.joined[handle.0 as usize];
        let changed = |held: &Joined| !held.dirty.is_empty() || held.before.is_some() || held.stale;
        if slot.as_ref().is_some_and(|held| !changed(held)) {
            *slot = None;
        }
    }

    /// The block was freed: the journal cancels it, nothing of it is written any more.
    pub fn invalidate(&mut self, handle: Handle) {
        self.held_mut(handle).stale = true;
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
            .joined
            .iter()
            .flatten()
            .map(|held| match held.content.object().home() {
                Home::Block(map) => held.dirty.runs(map.byte_len()).map(|run| run.len()).sum(),
                Home::Inode { .. } if held.dirty.is_empty() => 0,
                Home::Inode { .. } => held.content.bytes.get().map_or(0, <[u8]>::len),
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
        let seq = self.engine.checkpoint_number();
        let mut added = 0;
        // Before anybody else has the group.
        self.engine.busy().add(&self.work.freed, seq);
        self.is_committed = true;
        let Work { joined, listed, .. } = &mut *self.work;
        let tally = &mut listed.tally.transactions;
        let mut changed = 0;
        for held in joined.iter_mut().flatten() {
            let touched = !held.dirty.is_empty() || held.stale || held.unlinked || held.new;
            if !touched {
                continue;
            }
            changed += 1;
            let content = &mut *held.content;
            added += content.bytes_to_log(&held.dirty, held.unlinked);
            content.dirty.merge(&held.dirty);
            content.unlinked |= held.unlinked;
            if !held.dirty.is_empty() {
                content.new = None;
            }
            content.stale = held.stale;
            if held.stale {
                content.dirty = Chunks::default();
            }
            let is_new = !std::mem::replace(&mut content.listed, true);
            let object = held.content.object();
            if is_new {
                object.pins.fetch_add(1, Ordering::AcqRel);
                listed.objects.push(Arc::clone(object));
            }
            object.listed_in.store(seq, Ordering::Release);
        }
        joined.clear();
        let fresh = listed.objects.len() as u64;
        tally.items += fresh;
        tally.relogged += changed - fresh;
        if changed > 0 {
            tally.committed += 1;
        } else {
            tally.empty += 1;
        }
        listed.bytes = added;
        self.engine.list(listed);
        self.engine.apply(self.delta);
        self.work.undo.clear();
        seq
    }
}

impl Drop for Trans<'_> {
    /// Undoes what was not committed, the newest change first: blocks taken over as fresh get back what
    /// stood there, then every edit before that is taken back.
    fn drop(&mut self) {
        self.work.listed.tally.transactions.undone += u64::from(!self.is_committed);
        for held in self.work.joined.iter_mut().flatten() {
            if let Some(Before { bytes, new }) = held.before.take() {
                let content = &mut *held.content;
                content.verified = content.verified && (bytes.get().is_some() || new.is_some());
                (content.bytes, content.new) = (bytes, new);
            }
        }
        let Work { joined, undo, undo_bytes, .. } = &mut *self.work;
        while let Some(Undo { handle, start, len }) = undo.pop() {
            let from = undo_bytes.len() - len;
            let held = joined.get_mut(handle.0 as usize).and_then(Option::as_mut);
            if let Some(buf) = held.and_then(|held| held.content.bytes.edit()) {
                buf[start..start + len].copy_from_slice(&undo_bytes[from..]);
            }
            undo_bytes.truncate(from);
        }
    }
}

/// One object of a transaction, as an [`Image`].
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
