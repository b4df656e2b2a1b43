//! Caches of large directories: hints about their blocks, so that a change need not read all of
//! them.
//!
//! The free space of large directories: an index for the query "which data block has this many
//! bytes in one piece?".
//!
//! The free index on disk is a plain list, and a directory of a million names has thousands of data
//! blocks. [`FreeSpaceIndex`] holds the longest unused space of each data block as the leaves of a
//! binary tree. An inner node holds the longest space below it, so the first block that fits is
//! found in the tree's height.
//!
//! 1. The index is a hint. Transactions are undone without updating it. A caller verifies a result
//!    against the free index on disk, and corrects [`FreeSpaceIndex`] where it was wrong.
//! 2. The index may report too much space, never too little: space that names take is noticed only
//!    when a hint turns out wrong. No free space is lost.

mod leaves;

#[cfg(test)]
pub(crate) use leaves::LEAVES_MAX;
pub(crate) use leaves::Leaves;

use std::collections::BTreeSet;
use std::sync::Weak;

use rustc_hash::FxHashMap;
use xfskit_trans::lock::{LockRank, RankedMutex};
use xfskit_trans::{Handle, LogItem};
use xfskit_units::{DaBlock, Daddr, FileOff, Geometry, Ino, index};

/// The free space of one directory.
#[derive(Debug, Default)]
pub(crate) struct FreeSpaceIndex {
    /// False until the free index on disk was read.
    pub(crate) known: bool,
    /// The longest unused space in bytes: of data block `db` at `db + width`, below that the longer
    /// of two. 0 if there is no such block.
    longest: Vec<u16>,
    /// Number of data blocks that the tree has leaves for, a power of two.
    width: usize,
    /// The data block that was found last.
    last: u32,
    /// Block numbers of holes between the existing blocks.
    holes: BTreeSet<u32>,
    /// Every block of the hash tree's space before this one is in use.
    pub(crate) tree_from: DaBlock,
    /// The first hashes of the leaves of the hash tree.
    pub(crate) leaves: Leaves,
}

impl FreeSpaceIndex {
    /// Records that data block `db` has `best` contiguous bytes, or does not exist.
    pub(crate) fn set(&mut self, db: u32, best: Option<u16>) {
        let index = db as usize;
        if index >= self.width {
            self.widen(index + 1);
        }
        let mut at = index + self.width;
        match best {
            // A block with free space exists, and is no hole.
            Some(_) if self.longest[at] > 0 => false,
            Some(_) => self.holes.remove(&db),
            None => self.holes.insert(db),
        };
        self.longest[at] = best.unwrap_or(0);
        while at > 1 {
            at /= 2;
            let longer = self.longest[2 * at].max(self.longest[2 * at + 1]);
            if self.longest[at] == longer {
                break;
            }
            self.longest[at] = longer;
        }
    }

    fn widen(&mut self, blocks: usize) {
        let width = blocks.next_power_of_two().max(64);
        let mut longest = vec![0; 2 * width];
        longest[width..width + self.width].copy_from_slice(&self.longest[self.width..]);
        for at in (1..width).rev() {
            longest[at] = longest[2 * at].max(longest[2 * at + 1]);
        }
        (self.longest, self.width) = (longest, width);
    }

    /// Returns a data block with `need` contiguous bytes: the one that was found last, else the
    /// first.
    pub(crate) fn find(&mut self, need: usize) -> Option<u32> {
        if !self.fits(self.width + self.last as usize, need) {
            self.last = self.first(need)?;
        }
        Some(self.last)
    }

    fn fits(&self, at: usize, need: usize) -> bool {
        self.longest.get(at).is_some_and(|best| usize::from(*best) >= need)
    }

    /// Returns the first data block with `need` contiguous bytes.
    fn first(&self, need: usize) -> Option<u32> {
        let fits = |at| self.fits(at, need);
        let mut at = 1;
        if !fits(at) {
            return None;
        }
        while at < self.width {
            at = if fits(2 * at) { 2 * at } else { 2 * at + 1 };
        }
        u32::try_from(at - self.width).ok()
    }

    /// Returns the first hole before data block `end` for a new block.
    pub(crate) fn hole(&self, end: u32) -> Option<u32> {
        self.holes.first().copied().filter(|db| *db < end)
    }
}

/// The locations of the blocks of one directory, as far as they were looked up.
///
/// Only committed locations are cached. A transaction that has mapped or unmapped a block of the
/// directory adds nothing any more, because it may be undone. Blocks that it unmaps are dropped.
#[derive(Debug, Default)]
pub(crate) struct BlockMapCache {
    /// For each space (names, tree, free index) the blocks by number.
    spaces: [Vec<Block>; 3],
    /// Number of cached objects.
    objects: usize,
}

/// The location of one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    /// 0 if unknown.
    pub(crate) daddr: Daddr,
    /// The block in memory, if it is there. Most blocks are used again soon, and a look-up in the
    /// buffer cache's table costs a cache miss. The weak reference does not keep the block in
    /// memory, but only the space for its head.
    pub(crate) object: Option<Weak<LogItem>>,
}

/// Maximum number of cached locations in one space.
const PLACES_MAX: usize = 1 << 20;

impl BlockMapCache {
    /// Returns space and number of the block at `at`.
    #[inline]
    fn slot(geo: &Geometry, at: FileOff) -> (usize, usize) {
        // The spaces are of one size, which is a power of two.
        let size = u64::from(geo.dir_leafblk().0);
        let space = (at.0 >> size.trailing_zeros()).min(2);
        (index(space), index((at.0 - space * size) >> geo.dirblklog))
    }

    pub(crate) fn get(&self, geo: &Geometry, at: FileOff) -> Option<&Block> {
        let (space, number) = Self::slot(geo, at);
        self.spaces[space].get(number).filter(|block| block.daddr != Daddr(0))
    }

    fn get_mut(&mut self, geo: &Geometry, at: FileOff) -> Option<&mut Block> {
        let (space, number) = Self::slot(geo, at);
        self.spaces[space].get_mut(number)
    }

    fn are_known(&self) -> bool {
        self.spaces.iter().any(|space| !space.is_empty())
    }

    pub(crate) fn set(&mut self, geo: &Geometry, at: FileOff, daddr: Daddr) {
        let (space, number) = Self::slot(geo, at);
        if number >= PLACES_MAX {
            return;
        }
        let space = &mut self.spaces[space];
        if number >= space.len() {
            space.resize(number + 1, Block::default());
        }
        self.forget(geo, at);
        if let Some(block) = self.get_mut(geo, at) {
            block.daddr = daddr;
        }
    }

    /// Records that the block at `at` is `object`, if its location is cached.
    pub(crate) fn set_object(&mut self, geo: &Geometry, at: FileOff, object: Weak<LogItem>) {
        let known = self.get_mut(geo, at).filter(|block| block.daddr != Daddr(0));
        let old = known.map(|block| block.object.replace(object));
        self.objects += usize::from(matches!(old, Some(None)));
    }

    pub(crate) fn forget(&mut self, geo: &Geometry, at: FileOff) {
        let old = self.get_mut(geo, at).map(std::mem::take);
        self.objects -= usize::from(old.is_some_and(|block| block.object.is_some()));
    }

    fn forget_objects(&mut self) {
        if std::mem::take(&mut self.objects) > 0 {
            self.spaces.iter_mut().flatten().for_each(|block| block.object = None);
        }
    }
}

/// The cached state of one directory.
#[derive(Debug, Default)]
pub(crate) struct DirCacheEntry {
    /// Its free space.
    pub(crate) free_index: FreeSpaceIndex,
    /// The locations of its blocks.
    pub(crate) block_map: BlockMapCache,
    /// True once the size was compared with the blocks.
    pub(crate) is_size_verified: bool,
    /// Empty between operations: reused memory for the blocks that an operation holds.
    pub(crate) held: Vec<(FileOff, Handle)>,
}

impl DirCacheEntry {
    /// Returns true if it was costly to collect.
    fn is_worth_keeping(&self) -> bool {
        self.free_index.known
            || self.free_index.tree_from != DaBlock(0)
            || self.block_map.are_known()
    }
}

/// The cache of directories that were changed last.
#[derive(Debug)]
pub(crate) struct DirCache {
    shards: [OwnLines; 16],
}

/// One shard, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct OwnLines(RankedMutex<Shard>);

#[derive(Debug, Default)]
struct Shard {
    /// `None` for a directory that is being changed.
    dirs: FxHashMap<Ino, Option<Box<DirCacheEntry>>>,
    /// Number of objects that they cache.
    objects: usize,
}

impl Default for DirCache {
    fn default() -> Self {
        let shard = |_| OwnLines(RankedMutex::new(LockRank::Leaf, Shard::default()));
        Self { shards: std::array::from_fn(shard) }
    }
}

/// Maximum number of cached directories of one shard.
const SHARD_MAX: usize = 64;
/// Maximum number of objects that all directories of one shard cache. One that left the buffer
/// cache takes some 300 bytes, so all shards together take 20 MiB at most.
const OBJECTS_MAX: usize = 4096;

impl DirCache {
    fn shard(&self, ino: Ino) -> &RankedMutex<Shard> {
        // Directories of one group have neighbouring numbers.
        &self.shards[index(ino.0 ^ (ino.0 >> 8)) % self.shards.len()].0
    }

    /// Returns the cached location of the block at `at` of the directory `ino`. The directory must
    /// not change meanwhile.
    pub(crate) fn location(&self, geo: &Geometry, ino: Ino, at: FileOff) -> Option<Daddr> {
        let shard = self.shard(ino).lock();
        let block = shard.dirs.get(&ino)?.as_ref()?.block_map.get(geo, at)?;
        Some(block.daddr)
    }

    /// Caches a location. The directory must not have changed since it was looked up.
    pub(crate) fn set_location(&self, geo: &Geometry, ino: Ino, at: FileOff, daddr: Daddr) {
        let mut shard = self.shard(ino).lock();
        shard.make_room(ino);
        let Shard { dirs, objects } = &mut *shard;
        let block_map = &mut dirs.entry(ino).or_default().get_or_insert_default().block_map;
        *objects -= block_map.objects;
        block_map.set(geo, at, daddr);
        *objects += block_map.objects;
    }

    /// Takes the cached state of the directory `ino`, whose lock the caller holds.
    pub(crate) fn take(&self, ino: Ino) -> Box<DirCacheEntry> {
        let mut shard = self.shard(ino).lock();
        let known = shard.dirs.get_mut(&ino).and_then(Option::take).unwrap_or_default();
        shard.objects -= known.block_map.objects;
        known
    }

    /// Returns the state to the cache.
    pub(crate) fn put(&self, ino: Ino, known: Box<DirCacheEntry>) {
        let mut shard = self.shard(ino).lock();
        if !known.is_worth_keeping() {
            shard.dirs.remove(&ino);
            return;
        }
        shard.make_room(ino);
        shard.objects += known.block_map.objects;
        shard.dirs.insert(ino, Some(known));
        if shard.objects > OBJECTS_MAX {
            shard.forget_objects();
        }
    }
}

impl Shard {
    /// Drops all other entries if `ino` would be one too many.
    fn make_room(&mut self, ino: Ino) {
        if self.dirs.len() >= SHARD_MAX && !self.dirs.contains_key(&ino) {
            self.dirs.clear();
            self.objects = 0;
        }
    }

    fn forget_objects(&mut self) {
        self.dirs.values_mut().flatten().for_each(|known| known.block_map.forget_objects());
        self.objects = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_that_fits_is_found() {
        let mut free_index = FreeSpaceIndex::default();
        assert_eq!(free_index.first(8), None);
        let best = |db: u32| u16::try_from(db * 7919 % 1000).unwrap();
        for db in 0..1000 {
            free_index.set(db, Some(best(db)));
            for need in [1, 500, 990, 999, 1001] {
                let first = (0..=db).find(|db| usize::from(best(*db)) >= need);
                assert_eq!(free_index.first(need), first);
            }
        }
        assert_eq!(
            (free_index.find(999), free_index.find(500)),
            (free_index.first(999), free_index.first(999))
        );
        free_index.set(17, None);
        free_index.set(5, None);
        assert_eq!((free_index.hole(1000), free_index.hole(5)), (Some(5), None));
        free_index.set(5, Some(4000));
        assert_eq!((free_index.hole(1000), free_index.first(4000)), (Some(17), Some(5)));
        free_index.set(5, Some(0));
        assert_eq!((free_index.find(1001), free_index.first(1001)), (None, None));
    }

    #[test]
    fn places_are_known_by_space_and_forgotten_one_by_one() {
        let geo = xfskit_test_trees::dir::geo(12, 1);
        let mut block_map = BlockMapCache::default();
        let all = [0, 2, 1 << 23, (1 << 23) + 6, 1 << 24].map(FileOff);
        for at in all {
            assert!(block_map.get(&geo, at).is_none());
            block_map.set(&geo, at, Daddr(at.0 + 1));
        }
        block_map.forget(&geo, all[3]);
        let known = all.map(|at| block_map.get(&geo, at).map(|block| block.daddr.0));
        assert_eq!(known, [Some(1), Some(3), Some((1 << 23) + 1), None, Some((1 << 24) + 1)]);
    }

    #[test]
    fn objects_are_counted_and_forgotten_where_they_are_too_many() {
        let (geo, cache) = (xfskit_test_trees::dir::geo(12, 0), DirCache::default());
        // Two directories of one shard.
        let (one, other) = (Ino(3), Ino(3 + 16));
        let remember = |ino, blocks: std::ops::Range<usize>| {
            let mut known = cache.take(ino);
            for at in blocks.map(|n| FileOff(n as u64)) {
                known.block_map.set_object(&geo, at, Weak::new());
                known.block_map.set(&geo, at, Daddr(8));
                known.block_map.set_object(&geo, at, Weak::new());
                known.block_map.set_object(&geo, at, Weak::new());
            }
            cache.put(ino, known);
        };
        let count = |ino| {
            let known = cache.take(ino);
            let count = known.block_map.objects;
            let there = known.block_map.spaces.iter().flatten();
            assert_eq!(there.filter(|block| block.object.is_some()).count(), count);
            cache.put(ino, known);
            count
        };
        remember(one, 0..100);
        remember(other, 0..50);
        cache.set_location(&geo, other, FileOff(7), Daddr(80));
        let mut known = cache.take(one);
        known.block_map.forget(&geo, FileOff(3));
        known.block_map.forget(&geo, FileOff(3));
        cache.put(one, known);
        assert_eq!((count(one), count(other)), (99, 49));
        assert_eq!(cache.shard(one).lock().objects, 148);
        remember(one, 0..OBJECTS_MAX);
        assert_eq!((count(one), count(other), cache.shard(one).lock().objects), (0, 0, 0));
        assert_eq!(cache.location(&geo, one, FileOff(3)), Some(Daddr(8)), "locations are kept");
        // As many directories as a shard holds, and one more.
        remember(one, 0..5);
        for n in 2..=SHARD_MAX as u64 {
            remember(Ino(3 + (n << 16)), 0..1);
        }
        assert_eq!(cache.shard(one).lock().objects, 1);
    }
}
