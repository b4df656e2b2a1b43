//! What the files of a volume use, whatever its btrees record: the evidence that a repair builds a
//! group's btrees from.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use xfskit_format::inobt::Chunk;
use xfskit_format::sb::Superblock;
use xfskit_format::{agi, refcount, rmap};
use xfskit_units::AgNumber;

use crate::digests::FileDigests;
use crate::spill::{Memory, Owners, Spill};

/// Inode chunks of groups, by number.
pub type KnownChunks = BTreeMap<AgNumber, Vec<Chunk>>;

/// Consecutive blocks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block (agbno).
    pub start: u32,
    /// Number of blocks.
    pub len: u32,
}

impl Run {
    /// Returns the block after the last one.
    pub fn end(&self) -> u32 {
        self.start.saturating_add(self.len)
    }
}

/// Blocks that several owners claim, and that are not known to be shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispute {
    /// The blocks.
    pub run: Run,
    /// Owners of these blocks by the refcountbt, if that can be read: 1 where it has no record.
    pub counted: Option<u32>,
    /// The claims, each for all of the blocks.
    pub claims: Vec<Claim>,
}

/// A use of disputed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// As in the rmapbt: an inode, or one of [`rmap::owner`].
    pub owner: u64,
    /// As in the rmapbt, for the first disputed block: position in the file, and flags.
    pub offset: u64,
    /// The blocks are content of a regular file.
    pub is_content: bool,
    /// The inode has the flag reflink.
    pub has_flag: bool,
    /// The rmapbt has the claim, or has it not. `None` if that is not known.
    pub recorded: Option<bool>,
}

/// What the files of a volume use.
#[derive(Debug)]
pub struct Survey {
    /// The superblock that the check used.
    pub superblock: Superblock,
    /// The groups that the device has, by number.
    pub groups: Vec<GroupSurvey>,
    /// All inodes and the maps of all their forks are known. Otherwise a block that seems free may
    /// be a file's.
    pub complete: bool,
    /// A digest of each file, if [asked for](crate::Options::digests).
    pub digests: Option<FileDigests>,
}

/// What the files use of one group.
#[derive(Debug)]
pub struct GroupSurvey {
    /// The group.
    pub agno: AgNumber,
    /// Owners of all blocks that are not part of the group's btrees or free list: AG headers,
    /// journal, inodes, extents and btree blocks of forks. In the order of the rmapbt.
    pub owners: Owners,
    /// Blocks that several files map, in order.
    pub shared: Vec<refcount::Rec>,
    /// Blocks that several owners claim, by block: metadata that is made again with the group does
    /// not count.
    pub disputes: Vec<Dispute>,
    /// The inode chunks, by number, with right counts.
    pub chunks: Vec<Chunk>,
    /// All inode chunks are known.
    pub chunks_complete: bool,
    /// Blocks of inodes as the rmapbt has them, if it can be read.
    pub recorded_inodes: Option<Vec<Run>>,
    /// Free extents as a free-space btree has them, if one can be read.
    pub recorded_free: Option<Vec<Run>>,
    /// Blocks for which an owner is missing: neither in use nor free, or mapped by fewer files than
    /// the refcountbt counts. `None` unless all btrees of the group can be read, and those of free
    /// space agree.
    pub ownerless: Option<Vec<Run>>,
    /// Blocks of the group's own btrees, of its free list, and of copy-on-write staging: they are
    /// chosen again when the group is made again.
    pub made_again: Vec<Run>,
    /// Blocks of the [wanted files](crate::Options::owners) as the rmapbt has them, if it can be
    /// read.
    pub recorded_files: Option<Vec<rmap::Rec>>,
    /// Heads of the lists of unlinked inodes, if the AGI is sound.
    pub unlinked: Option<[u32; agi::UNLINKED_BUCKETS]>,
}

/// Collects a survey while a check runs.
#[derive(Default)]
pub(crate) struct Surveyor {
    superblock: OnceLock<Superblock>,
    /// A leaf lock.
    groups: Mutex<Vec<GroupSurvey>>,
    complete: AtomicBool,
    /// Stores owners that are not kept in memory.
    spill: Option<Arc<Spill>>,
}

impl Surveyor {
    /// Makes an empty one. Owners take as much memory as the extents of the check.
    pub(crate) fn new(memory: Option<Memory<'_>>) -> Self {
        Self { spill: memory.map(|memory| Arc::new(Spill::new(memory))), ..Self::default() }
    }

    /// Returns the place for owners that are not kept in memory.
    pub(crate) fn spill(&self) -> Option<&Arc<Spill>> {
        self.spill.as_ref()
    }

    /// Takes the superblock.
    pub(crate) fn begin(&self, superblock: &Superblock) {
        let _once = self.superblock.set(superblock.clone());
    }

    /// Takes what is in use of a group.
    pub(crate) fn add(&self, group: GroupSurvey) {
        self.groups.lock().push(group);
    }

    /// Takes whether everything in use is known.
    pub(crate) fn end(&self, complete: bool) {
        self.complete.store(complete, Ordering::Relaxed);
    }

    /// Returns the survey; `None` if there was no superblock.
    pub(crate) fn survey(self, digests: Option<FileDigests>) -> Option<Survey> {
        let mut groups = self.groups.into_inner();
        groups.sort_unstable_by_key(|group| group.agno);
        let complete = self.complete.into_inner();
        let superblock = self.superblock.into_inner()?;
        Some(Survey { superblock, groups, complete, digests })
    }
}
