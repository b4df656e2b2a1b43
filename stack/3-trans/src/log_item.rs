//! A [`LogItem`]: one image that transactions change, a metadata block or an inode.
//!
//! A transaction finds a log item through its cache ([`BufCache`](crate::BufCache),
//! [`InodeCache`](crate::InodeCache)) and locks it. A log item passes through these states:
//!
//! ```text
//!   clean ──commit──▶ in the CIL ──checkpoint──▶ in the AIL ──AIL push──▶ clean
//!                        ▲                             │
//!                        └───────────commit────────────┘
//! ```
//!
//! 1. Readers share the bytes as of the last commit, and never see uncommitted changes.
//! 2. A log item is *pinned* while a checkpoint that holds a change of it is not durable: from the
//!    commit that inserts it into the CIL to the end of the checkpoint. Pinned items are not
//!    written in place.
//! 3. An item that is in the CIL, pinned, or in the AIL stays in memory: the lists hold references,
//!    and the caches keep every item that is referenced elsewhere.

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::sync::RwLock;
use xfskit_format::inode;
use xfskit_format::log::item::buf::CHUNK;
use xfskit_units::{Daddr, Geometry, Ino, Lsn, Sectors};

use crate::buf_map::BufMap;
use crate::bytes::{Buf, Bytes, zeroed};

/// What a log item is and where it is written in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskLocation {
    /// A metadata block, or a cluster of inodes.
    Block(BufMap),
    /// An inode: `offset` bytes into its cluster.
    Inode {
        /// Inode number.
        ino: Ino,
        /// Its cluster, one buffer.
        cluster: (Daddr, Sectors),
        /// Where it begins in the cluster, in bytes.
        offset: usize,
    },
}

/// The 128-byte chunks of a block that changed: the granularity of the journal. Blocks of up to 8
/// KiB, and inodes, take one word; blocks of up to 64 KiB, the longest, take allocated memory.
#[derive(Clone, Debug)]
pub enum Chunks {
    /// The first 64 chunks.
    Word(u64),
    /// 512 chunks.
    Words(Box<[u64; 8]>),
}

impl Default for Chunks {
    fn default() -> Self {
        Self::Word(0)
    }
}

impl Chunks {
    fn words(&self) -> &[u64] {
        match self {
            Self::Word(word) => std::slice::from_ref(word),
            Self::Words(words) => &words[..],
        }
    }

    /// Returns the words, at least `count` of them.
    fn words_mut(&mut self, count: usize) -> &mut [u64] {
        if let (Self::Word(word), 2..) = (&*self, count) {
            *self = Self::Words(Box::new([*word, 0, 0, 0, 0, 0, 0, 0]));
        }
        match self {
            Self::Word(word) => std::slice::from_mut(word),
            Self::Words(words) => &mut words[..],
        }
    }

    /// Marks every chunk that `range` (bytes) touches.
    ///
    /// # Panics
    /// If `range` reaches beyond 64 KiB.
    #[inline]
    pub fn mark(&mut self, range: &Range<usize>) {
        let (first, end) = (range.start / CHUNK, range.end.saturating_add(CHUNK - 1) / CHUNK);
        match self {
            Self::Word(word) if first < end && end <= 64 => {
                *word |= (u64::MAX << first) & (u64::MAX >> (64 - end));
            }
            _ => self.mark_long(first, end),
        }
    }

    fn mark_long(&mut self, first: usize, end: usize) {
        if first >= end {
            return;
        }
        for (number, word) in self.words_mut(end.div_ceil(64)).iter_mut().enumerate() {
            let start = number * 64;
            let bits_of_word =
                first.clamp(start, start + 64) - start..end.clamp(start, start + 64) - start;
            *word |= bits(bits_of_word);
        }
    }

    /// Adds the marks of `other`.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        if let (Self::Word(mine), Self::Word(theirs)) = (&mut *self, other) {
            *mine |= theirs;
            return;
        }
        let theirs = other.words();
        for (mine, theirs) in self.words_mut(theirs.len()).iter_mut().zip(theirs) {
            *mine |= theirs;
        }
    }

    /// Returns the number of marked chunks.
    pub fn count(&self) -> usize {
        self.words().iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if no chunk is marked.
    pub fn is_empty(&self) -> bool {
        self.words().iter().all(|&word| word == 0)
    }

    /// Returns true if the chunk with byte `offset` is marked.
    pub fn has(&self, offset: usize) -> bool {
        let chunk = offset / CHUNK;
        self.words().get(chunk / 64).is_some_and(|word| word & (1 << (chunk % 64)) != 0)
    }

    /// Returns the runs of marked chunks as byte ranges, within a block of `len` bytes.
    pub fn runs(&self, len: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let chunks = len.div_ceil(CHUNK);
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < chunks && !self.has(at * CHUNK) {
                at += 1;
            }
            let start = at;
            while at < chunks && self.has(at * CHUNK) {
                at += 1;
            }
            (start < at).then(|| start * CHUNK..(at * CHUNK).min(len))
        })
    }
}

/// Returns a word with the bits of `range` set, which lies within 0 to 64.
fn bits(range: Range<usize>) -> u64 {
    let below = |bit: usize| if bit < 64 { (1 << bit) - 1 } else { u64::MAX };
    below(range.end) & !below(range.start)
}

/// The template of a new inode cluster: it defines the content of every inode that was never
/// allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCluster {
    /// The first inode.
    pub first: Ino,
    /// The generation of every inode.
    pub generation: u32,
}

impl NewCluster {
    /// Returns the inodes from byte `offset` on, `len` bytes of them. Both are multiples of the
    /// inode size; the inodes carry no CRC.
    pub fn image(&self, geo: &Geometry, offset: usize, len: usize) -> Arc<Buf> {
        let mut image = zeroed(len);
        self.fill(geo, offset, Arc::get_mut(&mut image).expect("no other reference exists yet"));
        image
    }

    /// Fills `bytes` with the inodes from byte `offset` on.
    pub(crate) fn fill(&self, geo: &Geometry, offset: usize, bytes: &mut [u8]) {
        let first = self.first.0.saturating_add((offset >> geo.inodelog) as u64);
        for (ino, inode) in (first..).zip(bytes.chunks_exact_mut(geo.inodesize())) {
            inode::template_unstamped(inode, geo, Ino(ino), self.generation);
        }
    }
}

/// Bytes that a log item takes in the journal, the core of an inode included and its chunks
/// excluded.
const ITEM: usize = 128;
/// Bytes of the header of a region of a log item.
const REGION: usize = 12;

/// The part of a log item that is in the journal and not in place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unplaced {
    pub chunks: Chunks,
    /// For an inode: its unlinked pointer.
    pub unlinked: bool,
}

impl Unplaced {
    /// Adds `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.chunks.merge(&other.chunks);
        self.unlinked |= other.unlinked;
    }
}

/// The state that the lock of a log item covers. The fields that every transaction needs come first
/// ([`LogItem`]).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ItemState {
    /// Empty until it is read, and again after a failed read or after a fresh block was undone.
    pub bytes: Bytes,
    /// False for bytes that were read ahead and not verified.
    pub verified: bool,
    /// True while the item is in the CIL.
    pub in_cil: bool,
    /// Freed: the checkpoint cancels it instead of logging it.
    pub stale: bool,
    /// For an inode: its unlinked pointer changed, which an inode item does not carry.
    pub unlinked: bool,
    /// The template of an inode cluster that was never written. The cluster is written with its
    /// inodes, but not logged: the ICREATE item describes it, and its inodes are logged one by one.
    /// It takes no memory until a thread needs all of it; then its inodes carry no CRC.
    pub new: Option<Box<NewCluster>>,
    /// Changed and committed since the last checkpoint.
    pub dirty: Chunks,
    /// Logged since the item was last copied to be written in place. The journal's tail passes
    /// older items of a log item as soon as there is a newer one, so each must hold all that is not
    /// in place, not only what is new.
    pub logged: Unplaced,
    /// Logged before that, and being written: it counts as not in place until the flush.
    pub writing: Unplaced,
}

impl ItemState {
    /// Returns roughly, and at most, how many bytes a change of `dirty`, and of the unlinked
    /// pointer, adds to the next checkpoint: it logs again what is not in place.
    #[inline]
    pub(crate) fn bytes_to_log(&self, dirty: &Chunks, unlinked: bool) -> usize {
        let (logged, writing) = (&self.logged.chunks, &self.writing.chunks);
        let chunks = if let (
            Chunks::Word(in_cil),
            Chunks::Word(logged),
            Chunks::Word(writing),
            Chunks::Word(dirty),
        ) = (&self.dirty, logged, writing, dirty)
        {
            let unplaced = logged | writing;
            let before = if self.in_cil { in_cil | unplaced } else { 0 };
            match (dirty | unplaced) & !before {
                // In the common case the item is in the CIL with all of that.
                0 => 0,
                more => more.count_ones() as usize,
            }
        } else {
            let mut all = self.unplaced().chunks;
            all.merge(&self.dirty);
            let before = if self.in_cil { all.count() } else { 0 };
            all.merge(dirty);
            all.count() - before
        };
        let item = if self.in_cil { 0 } else { ITEM };
        let pointer = if unlinked && !self.unlinked { ITEM + CHUNK } else { 0 };
        item + chunks * (CHUNK + REGION) + pointer
    }

    /// Returns the template of a new cluster of which only single inodes were needed so far.
    pub(crate) fn unmaterialized_cluster(&self) -> Option<NewCluster> {
        self.new.as_deref().filter(|_| !self.bytes.is_some()).copied()
    }

    /// Returns all that is in the journal and not known to be in place.
    pub(crate) fn unplaced(&self) -> Unplaced {
        let mut all = self.logged.clone();
        all.merge(&self.writing);
        all
    }

    /// Returns the bytes for change. Creates them for a new cluster.
    pub(crate) fn materialize(&mut self, geo: &Geometry, len: usize) -> Option<&mut Buf> {
        if let (false, Some(new)) = (self.bytes.is_some(), &self.new) {
            self.bytes = new.image(geo, 0, len).into();
            self.verified = true;
        }
        self.bytes.edit()
    }

    /// Records that the logged part is copied now, to be written in place.
    pub(crate) fn begin_write(&mut self) {
        let logged = std::mem::take(&mut self.logged);
        self.writing.merge(&logged);
    }

    pub(crate) fn new(bytes: Bytes, verified: bool) -> Self {
        let dirty = Chunks::default();
        Self {
            bytes,
            verified,
            dirty,
            logged: Unplaced::default(),
            writing: Unplaced::default(),
            in_cil: false,
            stale: false,
            unlinked: false,
            new: None,
        }
    }
}

/// A reference bit: gives a buffer its second chance before the clock hand.
#[derive(Debug, Default)]
pub(crate) struct Used(AtomicBool);

impl Used {
    /// Sets the bit. Writes only if it is clear, because all threads read this cache line.
    pub(crate) fn mark(&self) {
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Clears the bit. Returns whether it was set.
    pub(crate) fn clear(&self) -> bool {
        let was = self.0.load(Ordering::Relaxed);
        self.0.store(false, Ordering::Relaxed);
        was
    }
}

/// One block or inode in memory.
///
/// The fields lie in the order of use: a look-up counts a reference (before all fields) and marks
/// the item used, then takes the lock and reads the bytes. That is one cache line of the processor,
/// or two neighbours.
#[repr(C)]
pub struct LogItem {
    /// Used since the hand of the buffer cache last passed.
    pub(crate) used: Used,
    /// Checkpoints that hold a change of this item and are not durable yet.
    pub(crate) pins: AtomicU32,
    /// Number of the last checkpoint that contains this item; 0 is none.
    pub(crate) last_checkpoint: AtomicU64,
    /// The item's lock: for an inode its ILOCK, for AG headers the group's AGI or AGF lock.
    pub(crate) lock: RwLock<ItemState>,
    /// Start LSN of the newest durable checkpoint whose change is not in place; 0 is none.
    pub(crate) ail_lsn: AtomicU64,
    location: DiskLocation,
}

impl LogItem {
    pub(crate) fn new(location: DiskLocation, state: ItemState) -> Self {
        Self {
            used: Used::default(),
            pins: AtomicU32::new(0),
            last_checkpoint: AtomicU64::new(0),
            lock: RwLock::new(state),
            ail_lsn: AtomicU64::new(0),
            location,
        }
    }

    /// Returns the identity of the item and where it is written in place.
    pub fn location(&self) -> &DiskLocation {
        &self.location
    }

    /// Returns true while a change of the item is not in place: in memory only, or in the journal.
    pub fn is_dirty(&self) -> bool {
        self.pins.load(Ordering::Acquire) > 0 || self.lsn().is_some()
    }

    /// Returns the number of the checkpoint that makes all committed changes of this item durable.
    pub fn last_checkpoint(&self) -> u64 {
        self.last_checkpoint.load(Ordering::Acquire)
    }

    /// Removes one pin: a checkpoint with a change of this item is durable.
    pub(crate) fn unpin(&self) {
        self.pins.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn lsn(&self) -> Option<Lsn> {
        Some(self.ail_lsn.load(Ordering::Acquire)).filter(|&lsn| lsn != 0).map(Lsn)
    }
}

impl fmt::Debug for LogItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogItem").field("location", &self.location).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_chunks_are_returned_as_runs() {
        let mut chunks = Chunks::default();
        for range in [5..6, 127..129, 7..7, 1000..1001, 65535..65536] {
            chunks.mark(&range);
        }
        let runs: Vec<_> = chunks.runs(65536).collect();
        assert_eq!(runs, [0..256, 896..1024, 65408..65536]);
        assert_eq!(chunks.count(), 4);
        let mut other = Chunks::default();
        other.merge(&chunks);
        assert_eq!(other.count(), 4);
        assert_eq!(chunks.runs(1000).collect::<Vec<_>>(), [0..256, 896..1000]);
    }
}
