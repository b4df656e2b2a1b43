//! The state of a transaction: the items it has joined, what it changed of them, how to undo that,
//! and what its commit inserts into the CIL.
//!
//! A transaction has one change or, if it was parked in between, several: the
//! complete ones, and a running one that can be undone.

use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use xfskit_units::{Daddr, Ino, index};

use crate::buf_map::BufMap;
use crate::busy::Freed;
use crate::bytes::Bytes;
use crate::cil::{Cil, CilItems, Delta};
use crate::guard::Locked;
use crate::lock::LockPosition;
use crate::log_item::{Chunks, DiskLocation, LogItem, NewCluster};
use crate::sync::atomic::Ordering;

/// Identifies a log item within a transaction, without a look-up in the caches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A block: the address of its first piece, and its length in bytes.
    Block(Daddr, usize),
    /// An inode.
    Inode(Ino),
}

impl Key {
    /// Returns the word of a [`KeyFilter`] for the key, and its bit there.
    fn filter_bit(self) -> (usize, u64) {
        let (Self::Block(Daddr(number), _) | Self::Inode(Ino(number))) = self;
        // The product's high bits depend on all bits of the number.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (index(mixed >> 60), 1 << (mixed >> 54 & 63))
    }

    pub(crate) fn of_block(map: &BufMap) -> Self {
        Self::Block(map.first().0, map.byte_len())
    }

    pub(crate) fn of(location: &DiskLocation) -> Self {
        match location {
            DiskLocation::Block(map) => Self::of_block(map),
            DiskLocation::Inode { ino, .. } => Self::Inode(*ino),
        }
    }
}

/// A set of keys that may contain more than was added: most look-ups in a transaction are for items
/// that it has not joined, and need not search all of those that it has.
#[derive(Clone, Copy, Default)]
struct KeyFilter([u64; 16]);

impl KeyFilter {
    fn add(&mut self, key: Key) {
        let (word, bit) = key.filter_bit();
        self.0[word] |= bit;
    }

    fn may_have(&self, key: Key) -> bool {
        let (word, bit) = key.filter_bit();
        self.0[word] & bit != 0
    }
}

/// Identifies a log item within one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub(crate) u32);

/// A log item that the transaction holds locked.
pub(crate) struct JoinedItem {
    pub state: Locked,
    pub position: Option<LockPosition>,
    /// The chunks that this transaction changed.
    pub dirty: Chunks,
    pub unlinked: bool,
    /// The item is a new inode cluster.
    pub new: bool,
    pub stale: bool,
    /// Undo for the whole item, if all of it was replaced.
    pub before: Option<Before>,
}

impl JoinedItem {
    pub(crate) fn new(state: Locked, position: Option<LockPosition>) -> Self {
        let dirty = Chunks::default();
        Self { state, position, dirty, unlinked: false, new: false, stale: false, before: None }
    }

    /// Replaces all bytes of the item.
    pub(crate) fn replace(&mut self, bytes: Bytes, new: Option<Box<NewCluster>>) {
        self.new = new.is_some();
        let state = &mut *self.state;
        let before = Before {
            bytes: std::mem::replace(&mut state.bytes, bytes),
            new: std::mem::replace(&mut state.new, new),
        };
        self.before.get_or_insert(before);
        state.verified = true;
        self.stale = false;
    }

    /// Returns true if the commit must insert the item into the CIL.
    pub(crate) fn is_changed(&self) -> bool {
        !self.dirty.is_empty() || self.stale || self.unlinked || self.new
    }

    /// Restores the bytes from before the item was replaced.
    fn undo(&mut self) {
        if let Some(Before { bytes, new }) = self.before.take() {
            let state = &mut *self.state;
            state.verified = state.verified && (bytes.is_some() || new.is_some());
            (state.bytes, state.new) = (bytes, new);
        }
        // Complete changes that are not committed have freed nothing.
        self.stale = false;
    }

    /// Completes the change that joined the item. From now on a new inode has a position like any
    /// other. Returns the length of its bytes.
    fn complete_change(&mut self, key: Key) -> usize {
        self.before = None;
        if let (Key::Inode(ino), None) = (key, self.position) {
            self.position = Some(LockPosition::Inode(ino));
        }
        self.state.bytes.len()
    }

    /// Merges the change into the committed state of the item. Returns the bytes that it adds to
    /// the CIL, and whether the item is new there.
    fn commit(&mut self, seq: u64) -> (usize, bool) {
        let state = &mut *self.state;
        let added = state.bytes_to_log(&self.dirty, self.unlinked);
        state.dirty.merge(&self.dirty);
        state.unlinked |= self.unlinked;
        if !self.dirty.is_empty() {
            state.new = None;
        }
        state.stale = self.stale;
        if self.stale {
            state.dirty = Chunks::default();
        }
        let is_new = !std::mem::replace(&mut state.in_cil, true);
        let item = self.state.item();
        if is_new {
            item.pins.fetch_add(1, Ordering::AcqRel);
        }
        item.last_checkpoint.store(seq, Ordering::Release);
        (added, is_new)
    }
}

/// The bytes of a block from before it was replaced.
pub(crate) struct Before {
    /// Empty if it had not been read.
    bytes: Bytes,
    new: Option<Box<NewCluster>>,
}

/// The bytes of a log item from before an edit.
struct Undo {
    handle: Handle,
    start: usize,
    len: usize,
    /// The old bytes if they are few; else they are in [`Work::undo_bytes`].
    short: [u8; SHORT],
}

/// Longest edit whose old bytes are kept in position, in bytes: most edits are of one field.
const SHORT: usize = 16;

impl Undo {
    /// Returns the undo for `range` of `bytes`.
    #[inline]
    fn new(handle: Handle, bytes: &[u8], range: &Range<usize>, long: &mut Vec<u8>) -> Self {
        let Range { start, end } = *range;
        let (len, mut short) = (end - start, [0; SHORT]);
        if len > SHORT {
            long.extend_from_slice(&bytes[start..end]);
        } else if let Some(around) = bytes.get(start..start + SHORT) {
            // Copying a fixed length is one instruction; copying `len` bytes is a call.
            short.copy_from_slice(around);
        } else {
            short[..len].copy_from_slice(&bytes[start..end]);
        }
        Self { handle, start, len, short }
    }

    /// Restores the old bytes in `bytes`; long ones are taken from the end of `long`.
    fn restore(&self, bytes: Option<&mut [u8]>, long: &mut Vec<u8>) {
        let from = if self.len > SHORT { long.len() - self.len } else { long.len() };
        let old = if self.len > SHORT { &long[from..] } else { &self.short[..self.len] };
        if let Some(bytes) = bytes {
            bytes[self.start..self.start + self.len].copy_from_slice(old);
        }
        long.truncate(from);
    }
}

/// The state of a transaction.
#[derive(Default)]
pub(crate) struct Work {
    joined: Vec<Option<JoinedItem>>,
    /// The keys of `joined`, apart from them because they are searched often.
    keys: Vec<Key>,
    /// Has all of `keys`.
    filter: KeyFilter,
    undo: Vec<Undo>,
    undo_bytes: Vec<u8>,
    pub freed: Vec<Freed>,
    /// What the commit inserts into the CIL.
    pub cil_items: CilItems,
    /// The running change does more than edit blocks and take inodes from existing chunks.
    pub is_structural: bool,
    /// The running change has changed anything at all.
    changes: bool,
    complete: Complete,
    is_committed: bool,
    /// The inode cluster that was looked up last: inodes of a chunk are taken one after another.
    pub cluster: Option<(Daddr, Arc<LogItem>)>,
}

/// The complete changes of a transaction: they are committed whatever happens to the next one.
#[derive(Clone, Copy, Debug, Default)]
struct Complete {
    changes: u64,
    /// Complete changes that changed nothing, counted apart.
    empty: u64,
    /// Number of items that had been joined when the last of them was complete.
    joined: usize,
    /// Bytes of these items.
    bytes: usize,
    delta: Delta,
}

impl Work {
    // ---- items -----------------------------------------------------------------------------

    pub(crate) fn join(&mut self, key: Key, joined: JoinedItem) -> Handle {
        let handle = Handle(u32::try_from(self.joined.len()).unwrap_or(u32::MAX));
        self.joined.push(Some(joined));
        self.keys.push(key);
        self.filter.add(key);
        handle
    }

    pub(crate) fn find(&self, key: Key) -> Option<Handle> {
        if !self.filter.may_have(key) {
            return None;
        }
        let mut found = (0..).zip(&self.keys).filter(|(_, held)| **held == key);
        found
            .find(|(at, _)| self.joined[*at].is_some())
            .and_then(|(at, _)| u32::try_from(at).ok().map(Handle))
    }

    /// Returns all joined items.
    pub(crate) fn all(&self) -> impl Iterator<Item = &JoinedItem> {
        self.joined.iter().flatten()
    }

    pub(crate) fn held(&self, handle: Handle) -> &JoinedItem {
        self.joined[handle.0 as usize].as_ref().expect("the handle of a joined item")
    }

    pub(crate) fn held_mut(&mut self, handle: Handle) -> &mut JoinedItem {
        self.joined[handle.0 as usize].as_mut().expect("the handle of a joined item")
    }

    /// Releases an unchanged log item, unless a complete change joined it: an unchanged AGF
    /// protects the blocks of its group that were changed.
    pub(crate) fn release(&mut self, handle: Handle) {
        if (handle.0 as usize) < self.complete.joined {
            return;
        }
        let slot = &mut self.joined[handle.0 as usize];
        slot.take_if(|held| !held.is_changed() && held.before.is_none());
    }

    /// Returns the bytes in `range` for change. Saves them for undo and marks them for the journal.
    pub(crate) fn edit(&mut self, handle: Handle, range: Range<usize>) -> &mut [u8] {
        let Self { joined, undo, undo_bytes, .. } = self;
        let held = joined[handle.0 as usize].as_mut().expect("the handle of a joined item");
        self.changes = true;
        held.dirty.mark(&range);
        let bytes = held.state.bytes.edit().expect("a joined item has been read");
        if held.before.is_none() {
            undo.push(Undo::new(handle, bytes, &range, undo_bytes));
        }
        &mut bytes[range]
    }

    /// Replaces all bytes of a log item. If an earlier change joined the item, undo could not tell
    /// the two changes apart, so the change counts as structural.
    pub(crate) fn replace(
        &mut self,
        handle: Handle,
        bytes: Bytes,
        new: Option<Box<NewCluster>>,
    ) -> &mut JoinedItem {
        self.is_structural |= (handle.0 as usize) < self.complete.joined;
        self.changes = true;
        let held = self.held_mut(handle);
        held.replace(bytes, new);
        held
    }

    // ---- changes -----------------------------------------------------------------------------

    /// Returns roughly, and at most, how many bytes the complete changes add to the CIL.
    pub(crate) fn bytes(&self) -> usize {
        self.complete.bytes
    }

    /// Returns what the complete changes add to the superblock's counters.
    pub(crate) fn delta(&self) -> Delta {
        self.complete.delta
    }

    /// Completes the running change. It can no longer be undone.
    pub(crate) fn complete_change(&mut self, delta: Delta) {
        let before = self.complete.joined;
        let complete = &mut self.complete;
        for (held, key) in self.joined[before..].iter_mut().zip(&self.keys[before..]) {
            complete.bytes += held.as_mut().map_or(0, |held| held.complete_change(*key));
        }
        (complete.joined, complete.delta) = (self.joined.len(), delta);
        let changed = std::mem::take(&mut self.changes) || self.is_structural;
        *(if changed { &mut complete.changes } else { &mut complete.empty }) += 1;
        self.undo.clear();
        self.undo_bytes.clear();
    }

    /// Undoes the running change: first restores the blocks that were replaced, then the edits, the
    /// newest first.
    fn undo(&mut self) {
        self.joined.iter_mut().flatten().for_each(JoinedItem::undo);
        while let Some(undo) = self.undo.pop() {
            let held = self.joined.get_mut(undo.handle.0 as usize).and_then(Option::as_mut);
            let bytes = held.and_then(|held| held.state.bytes.edit());
            undo.restore(bytes.map(|bytes| &mut bytes[..]), &mut self.undo_bytes);
        }
        self.joined.truncate(self.complete.joined);
        self.keys.truncate(self.complete.joined);
        self.freed.clear();
        self.cil_items.clear();
        self.changes = false;
        self.cil_items.tally.transactions.undone += 1;
    }

    /// Ends the transaction: undoes the running change, and commits the complete ones.
    pub(crate) fn end(&mut self, cil: &Cil) {
        if self.is_committed {
            return;
        }
        self.undo();
        if self.complete.changes + self.complete.empty > 0 {
            self.commit(cil);
        }
    }

    /// Makes the complete changes visible and inserts their items into the CIL. Returns the number
    /// of the checkpoint. The caller holds the context lock.
    pub(crate) fn commit(&mut self, cil: &Cil) -> u64 {
        let seq = cil.checkpoint_number();
        let Self { joined, cil_items, complete, .. } = self;
        let mut relogged = 0;
        for held in joined.iter_mut().flatten().filter(|held| held.is_changed()) {
            let (added, is_new) = held.commit(seq);
            cil_items.bytes += added;
            if is_new {
                cil_items.items.push(Arc::clone(held.state.item()));
            }
            relogged += u64::from(!is_new);
        }
        joined.clear();
        let (tally, fresh) = (&mut cil_items.tally.transactions, cil_items.items.len() as u64);
        tally.items += fresh;
        tally.relogged += relogged;
        tally.changes += complete.changes;
        tally.committed += u64::from(complete.changes > 0);
        tally.empty += complete.empty;
        cil.insert(cil_items);
        cil.counters.add(complete.delta);
        self.is_committed = true;
        seq
    }

    /// Clears everything, and keeps the memory.
    fn clear(&mut self) {
        self.joined.clear();
        self.keys.clear();
        self.filter = KeyFilter::default();
        self.undo.clear();
        self.undo_bytes.clear();
        self.freed.clear();
        self.cil_items.clear();
        self.complete = Complete::default();
        self.cluster = None;
        (self.is_structural, self.changes, self.is_committed) = (false, false, false);
    }
}

/// An undo buffer with more bytes than this is not kept for the next transaction.
const UNDO_MAX: usize = 1 << 20;

thread_local! {
    static REUSED: Cell<Option<Box<Work>>> = const { Cell::new(None) };
}

/// A [`Work`] that a thread reuses for its next transaction, so that its vectors need not grow
/// again.
pub(crate) struct ReusedWork(Option<Box<Work>>);

impl ReusedWork {
    pub(crate) fn new() -> Self {
        Self(Some(REUSED.take().unwrap_or_default()))
    }

    /// Takes the work away from a transaction. Returns `None` if that has happened before.
    pub(crate) fn detach(&mut self) -> Option<Self> {
        self.0.take().map(|work| Self(Some(work)))
    }

    /// Returns the work, unless it was taken away.
    pub(crate) fn get(&mut self) -> Option<&mut Work> {
        self.0.as_deref_mut()
    }
}

impl Deref for ReusedWork {
    type Target = Work;
    fn deref(&self) -> &Work {
        self.0.as_ref().expect("the work is present until it is detached or dropped")
    }
}

impl DerefMut for ReusedWork {
    fn deref_mut(&mut self) -> &mut Work {
        self.0.as_mut().expect("the work is present until it is detached or dropped")
    }
}

impl Drop for ReusedWork {
    /// Clears the work, and keeps it for the thread's next transaction.
    fn drop(&mut self) {
        let Some(mut work) = self.0.take() else { return };
        work.clear();
        if work.undo_bytes.capacity() <= UNDO_MAX {
            REUSED.set(Some(work));
        }
    }
}
