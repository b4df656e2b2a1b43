//! An [`Object`]: one image that transactions change, a metadata block or an inode.
//!
//! An object is found through the cache ([`BufCache`](crate::BufCache), [`InodeCache`](crate::InodeCache)),
//! locked by one transaction at a time, and passes through these states:
//!
//! ```text
//!   clean ──commit──▶ listed (CIL) ──checkpoint──▶ in the AIL ──write-back──▶ clean
//!                        ▲                             │
//!                        └───────────commit────────────┘
//! ```
//!
//! 1. Readers take a snapshot ([`Object::snapshot`]) and never see what is not committed.
//! 2. An object is *pinned* while a checkpoint that holds a change of it is not durable: from the commit
//!    that lists it to the end of the checkpoint. Pinned objects are not written in place.
//! 3. A listed, pinned or AIL object stays in memory: the lists hold references, and the caches keep
//!    what others refer to.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::sync::{ArcRwLockReadGuard, RawRwLock, RwLock};
use xfskit_format::log::item::buf::CHUNK;
use xfskit_units::{Daddr, Ino, Lsn, Sectors};

use crate::buf::BufMap;

/// The bytes of an object as they were at one moment. Snapshots are `Arc<Buf>`s.
#[derive(Clone)]
pub struct Buf {
    pub(crate) bytes: Box<[u8]>,
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.bytes.len())
    }
}

/// What an object is and where it is written in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// A metadata block, or a cluster of inodes.
    Block(BufMap),
    /// An inode: `offset` bytes into its cluster.
    Inode {
        /// Its number.
        ino: Ino,
        /// Its cluster, one buffer.
        cluster: (Daddr, Sectors),
        /// Where it begins in the cluster, in bytes.
        offset: usize,
    },
}

/// Which 128-byte chunks of a block changed: the journal's own granularity. 512 chunks are the longest
/// block there is, a directory block of 64 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunks([u64; 8]);

impl Chunks {
    /// Marks every chunk that `range` (bytes) touches; answers how many were not marked before.
    pub fn mark(&mut self, range: &Range<usize>) -> usize {
        let mut fresh = 0;
        for chunk in range.start / CHUNK..range.end.div_ceil(CHUNK) {
            let (word, bit) = (&mut self.0[chunk / 64], 1 << (chunk % 64));
            fresh += usize::from(*word & bit == 0);
            *word |= bit;
        }
        fresh
    }

    /// Adds the marks of `other`; answers how many were new.
    pub fn merge(&mut self, other: &Self) -> usize {
        let mut fresh = 0;
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            fresh += (theirs & !*mine).count_ones() as usize;
            *mine |= theirs;
        }
        fresh
    }

    /// How many chunks are marked.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True where nothing is marked.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 8]
    }

    /// True where the chunk with byte `offset` is marked.
    pub fn has(&self, offset: usize) -> bool {
        let chunk = offset / CHUNK;
        self.0[chunk / 64] & (1 << (chunk % 64)) != 0
    }

    /// The runs of marked chunks as byte ranges, within a block of `len` bytes.
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

/// What of an object is in the journal and not in place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unplaced {
    pub chunks: Chunks,
    /// Of an inode: its unlinked pointer.
    pub unlinked: bool,
}

impl Unplaced {
    /// Adds `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.chunks.merge(&other.chunks);
        self.unlinked |= other.unlinked;
    }
}

/// What an object's lock covers.
#[derive(Debug)]
pub(crate) struct Content {
    /// `None` until it is read, and again where reading failed or a fresh block was undone.
    pub bytes: Option<Arc<Buf>>,
    /// False for bytes that were read ahead and not judged.
    pub verified: bool,
    /// Changed and committed since the last checkpoint.
    pub dirty: Chunks,
    /// Logged since it was last copied to be written in place. The journal's tail passes older items of an object
    /// as soon as there is a newer one, so each says all that is not in place, not only what is new.
    pub logged: Unplaced,
    /// Logged before that, and on its way: not in place yet for all one knows.
    pub writing: Unplaced,
    /// On the committed-item list.
    pub listed: bool,
    /// Freed: the checkpoint cancels it instead of logging it.
    pub stale: bool,
    /// Of an inode: its unlinked pointer changed, which an inode item does not carry.
    pub unlinked: bool,
    /// A new cluster of inodes: written back like any block, but not logged. The ICREATE item says
    /// what stands there, and its inodes are logged one by one.
    pub ordered: bool,
}

impl Content {
    /// All that is in the journal and not known to be in place.
    pub(crate) fn unplaced(&self) -> Unplaced {
        let mut all = self.logged;
        all.merge(&self.writing);
        all
    }

    /// What is logged is copied now, to be written in place.
    pub(crate) fn is_being_written(&mut self) {
        let logged = std::mem::take(&mut self.logged);
        self.writing.merge(&logged);
    }

    pub(crate) fn new(bytes: Option<Arc<Buf>>, verified: bool) -> Self {
        let dirty = Chunks::default();
        Self {
            bytes,
            verified,
            dirty,
            logged: Unplaced::default(),
            writing: Unplaced::default(),
            listed: false,
            stale: false,
            unlinked: false,
            ordered: false,
        }
    }
}

/// An object that stays as it is: [`Object::share`].
pub struct Shared {
    _guard: ArcRwLockReadGuard<RawRwLock, Content>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// One image in memory.
pub struct Object {
    home: Home,
    /// The object's lock: for an inode its ILOCK, for AG headers the group's AGI or AGF lock.
    pub(crate) lock: Arc<RwLock<Content>>,
    /// Checkpoints that hold a change of this object and are not durable yet.
    pub(crate) pins: AtomicU32,
    /// Start LSN of the newest durable checkpoint whose change is not in place; 0 is none.
    pub(crate) ail_lsn: AtomicU64,
    /// Number of the checkpoint that this object was last listed in; 0 is none.
    pub(crate) listed_in: AtomicU64,
}

impl Object {
    pub(crate) fn new(home: Home, content: Content) -> Self {
        Self {
            home,
            lock: Arc::new(RwLock::new(content)),
            pins: AtomicU32::new(0),
            ail_lsn: AtomicU64::new(0),
            listed_in: AtomicU64::new(0),
        }
    }

    /// What it is and where it is written in place.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The bytes as of the last commit; waits for a transaction that holds the object. `None` where
    /// they were never read.
    pub fn snapshot(&self) -> Option<Arc<Buf>> {
        self.lock.read_recursive().bytes.clone()
    }

    /// Keeps the object as it is: no transaction changes it while the answer lives. The caller is in no
    /// transaction. The same thread may ask for [`snapshot`](Self::snapshot)s meanwhile.
    pub fn share(&self) -> Shared {
        Shared { _guard: self.lock.read_arc_recursive() }
    }

    /// True while a change of it is in memory only, or in the journal only.
    pub fn is_dirty(&self) -> bool {
        self.pins.load(Ordering::Acquire) > 0 || self.lsn().is_some()
    }

    /// The checkpoint, by number, that must be durable for all committed changes of this object to be.
    pub fn listed_in(&self) -> u64 {
        self.listed_in.load(Ordering::Acquire)
    }

    /// One checkpoint with a change of it is durable.
    pub(crate) fn unpin(&self) {
        self.pins.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn lsn(&self) -> Option<Lsn> {
        Some(self.ail_lsn.load(Ordering::Acquire)).filter(|&lsn| lsn != 0).map(Lsn)
    }

    /// Waits until nobody holds the object.
    pub(crate) fn wait(&self) {
        drop(self.lock.write());
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("home", &self.home).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_chunks_come_back_as_runs() {
        let mut chunks = Chunks::default();
        assert_eq!(chunks.mark(&(5..6)), 1);
        assert_eq!(chunks.mark(&(127..129)), 1);
        assert_eq!(chunks.mark(&(1000..1001)), 1);
        assert_eq!(chunks.mark(&(65535..65536)), 1);
        let runs: Vec<_> = chunks.runs(65536).collect();
        assert_eq!(runs, [0..256, 896..1024, 65408..65536]);
        assert_eq!(Chunks::default().merge(&chunks), 4);
        assert_eq!(chunks.runs(1000).collect::<Vec<_>>(), [0..256, 896..1000]);
    }
}
