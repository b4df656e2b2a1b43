//! State of every inode of the volume, in flat arrays.
//!
//! An inode's *rank* is 64 times the number of its chunk, counted over all groups, plus its index
//! in the chunk. Threads write different ranks, or only add, so relaxed atomics suffice.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK};
use xfskit_format::inode::FileType;
use xfskit_units::{AgIno, AgNumber, Geometry};

use crate::groups::Group;

/// State of the inode at a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No inode, or a free one.
    Free,
    /// An inode in use.
    Used(FileType),
    /// An inode that could not be verified. Entries that name it are not reported.
    Broken,
}

const BROKEN: u8 = u8::MAX;

/// The state of all inodes, indexed by rank.
pub(crate) struct InodeTable {
    /// 0 for free, an ftype for used, [`BROKEN`].
    kinds: Vec<AtomicU8>,
    /// Link counts as the inodes record them.
    nlinks: Vec<AtomicU32>,
    /// Link counts as found in directories.
    links: Vec<AtomicU32>,
    /// With parent pointers: the sum over directory entries minus the sum over parent pointers.
    parents: Vec<AtomicU64>,
}

fn zeroes<T: Default>(len: usize) -> Vec<T> {
    std::iter::repeat_with(T::default).take(len).collect()
}

impl InodeTable {
    /// Makes a table for the chunks of `groups`, and sets their bases.
    pub(crate) fn new(geo: &Geometry, groups: &mut [Group]) -> Self {
        let mut chunks = 0usize;
        for group in groups {
            group.chunks.base = chunks;
            chunks += group.chunks.list.len();
        }
        let inodes = chunks * INODES_PER_CHUNK as usize;
        let with_parents = if geo.features.parent() { inodes } else { 0 };
        Self {
            kinds: zeroes(inodes),
            nlinks: zeroes(inodes),
            links: zeroes(inodes),
            parents: zeroes(with_parents),
        }
    }

    /// Returns the bytes that the table takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.kinds.len() * 9 + self.parents.len() * 8) as u64
    }

    pub(crate) fn set(&self, rank: usize, kind: Kind, nlink: u32) {
        let code = match kind {
            Kind::Free => 0,
            Kind::Used(file_type) => file_type.ftype(),
            Kind::Broken => BROKEN,
        };
        if let (Some(kind), Some(links)) = (self.kinds.get(rank), self.nlinks.get(rank)) {
            kind.store(code, Ordering::Relaxed);
            links.store(nlink, Ordering::Relaxed);
        }
    }

    pub(crate) fn kind(&self, rank: usize) -> Kind {
        match self.kinds.get(rank).map_or(0, |k| k.load(Ordering::Relaxed)) {
            0 => Kind::Free,
            code => FileType::from_ftype(code).map_or(Kind::Broken, Kind::Used),
        }
    }

    pub(crate) fn nlink(&self, rank: usize) -> u32 {
        self.nlinks.get(rank).map_or(0, |n| n.load(Ordering::Relaxed))
    }

    /// Returns the number of links found so far.
    pub(crate) fn links(&self, rank: usize) -> u32 {
        self.links.get(rank).map_or(0, |n| n.load(Ordering::Relaxed))
    }

    /// Counts one more link to the inode.
    pub(crate) fn add_link(&self, rank: usize) {
        if let Some(links) = self.links.get(rank) {
            links.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds a directory entry that names the inode, as a number (see [`crate::parents`]).
    pub(crate) fn add_parent(&self, rank: usize, entry: u64) {
        if let Some(sum) = self.parents.get(rank) {
            sum.fetch_add(entry, Ordering::Relaxed);
        }
    }

    /// Subtracts a parent pointer of the inode, as a number.
    pub(crate) fn remove_parent(&self, rank: usize, entry: u64) {
        if let Some(sum) = self.parents.get(rank) {
            sum.fetch_sub(entry, Ordering::Relaxed);
        }
    }

    /// Returns true if directory entries and parent pointers match.
    pub(crate) fn parents_agree(&self, rank: usize) -> bool {
        self.parents.get(rank).is_none_or(|sum| sum.load(Ordering::Relaxed) == 0)
    }
}

/// Returns the rank of inode `agino` of group `agno`.
pub(crate) fn rank_in(groups: &[Group], agno: AgNumber, agino: AgIno) -> Option<usize> {
    let (rank, chunk) = chunk_in(groups, agno, agino)?;
    let slot = agino.since(chunk.startino)?;
    let there = chunk.present() >> slot & 1 != 0;
    there.then(|| rank + slot as usize)
}

/// Returns the chunk that has the number `agino` of group `agno`, and the rank of its first inode.
pub(crate) fn chunk_in(groups: &[Group], agno: AgNumber, agino: AgIno) -> Option<(usize, &Chunk)> {
    let chunks = &groups.get(agno.0 as usize)?.chunks;
    let (place, chunk) = chunks.find(agino)?;
    Some(((chunks.base + place) * INODES_PER_CHUNK as usize, chunk))
}
