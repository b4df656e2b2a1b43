//! A cache of the tree position of the record that a group's last inode was allocated from or freed
//! to. The next inode is mostly of the same chunk, and neither tree need be searched.
//!
//! 1. A cached position is a hint. A caller that holds the AGI verifies that both blocks are still
//!    leaves of their trees with that record at that index, and searches if they are not.
//! 2. Only changes that do not restructure either tree are made here: the record has free inodes
//!    before and after, and inodes in use.
//! 3. Cached blocks stay in memory, so only the few most recent groups are cached.

use std::sync::Arc;

use xfskit_format::inobt::INODES_PER_CHUNK;
use xfskit_trans::LogItem;
use xfskit_trans::lock::{LockRank, RankedMutex};
use xfskit_units::{AgIno, AgNumber, Ino, index};

/// Number of groups that are cached at once.
const GROUPS: usize = 64;

/// The cached positions of all groups.
#[derive(Debug)]
pub(crate) struct RecordCache {
    /// By group number, modulo the number of slots; rank [`LockRank::Leaf`].
    slots: Vec<RankedMutex<Slot>>,
}

impl Default for RecordCache {
    fn default() -> Self {
        let slot = || RankedMutex::new(LockRank::Leaf, Slot::default());
        Self { slots: (0..GROUPS).map(|_| slot()).collect() }
    }
}

/// The cached positions of one group, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot {
    /// The directory that the last inode was allocated for, and its record.
    last_alloc: Option<(Ino, Arc<CachedRecord>)>,
    /// The record that the last inode was freed to.
    last_free: Option<Arc<CachedRecord>>,
}

impl RecordCache {
    fn slot(&self, agno: AgNumber) -> &RankedMutex<Slot> {
        &self.slots[index(agno.0.into()) % GROUPS]
    }

    /// Returns the record of the group's last allocation, if that was near `parent`.
    pub(crate) fn last_alloc(&self, agno: AgNumber, parent: Ino) -> Option<Arc<CachedRecord>> {
        let slot = self.slot(agno).lock();
        let (near, known) = slot.last_alloc.as_ref()?;
        (*near == parent && known.agno == agno).then(|| Arc::clone(known))
    }

    /// Returns the record of the group's last freeing, if that was in the chunk of `agino`.
    pub(crate) fn last_free(&self, agno: AgNumber, agino: AgIno) -> Option<Arc<CachedRecord>> {
        let slot = self.slot(agno).lock();
        let known = slot.last_free.as_ref()?;
        (known.agno == agno && known.bit_of(agino).is_some()).then(|| Arc::clone(known))
    }

    /// Records an allocation near `parent` from `known`.
    pub(crate) fn note_alloc(&self, parent: Ino, known: Arc<CachedRecord>) {
        let mut slot = self.slot(known.agno).lock();
        slot.last_alloc = Some((parent, known));
    }

    /// Records a freeing to `known`.
    pub(crate) fn note_free(&self, known: Arc<CachedRecord>) {
        let mut slot = self.slot(known.agno).lock();
        slot.last_free = Some(known);
    }
}

/// The position of a record in its leaf.
#[derive(Clone, Debug)]
pub(crate) struct RecordPosition {
    pub(crate) leaf: Arc<LogItem>,
    pub(crate) index: usize,
}

/// The record of a chunk, in both trees.
#[derive(Debug)]
pub(crate) struct CachedRecord {
    pub(crate) agno: AgNumber,
    pub(crate) agi: Arc<LogItem>,
    pub(crate) startino: AgIno,
    pub(crate) inobt: RecordPosition,
    pub(crate) finobt: RecordPosition,
}

impl CachedRecord {
    /// Returns the bit of inode `agino` in the masks of the record, if it is of this chunk.
    pub(crate) fn bit_of(&self, agino: AgIno) -> Option<u64> {
        let ahead = agino.0.checked_sub(self.startino.0)?;
        (ahead < INODES_PER_CHUNK).then(|| 1 << ahead)
    }
}
