//! Where the tree blocks of large attribute forks are.
//!
//! A change of an attribute needs a block of each level of the tree. The map of a fork of a million
//! attributes is a tree of its own, and a look-up there takes longer than one in a leaf. So the
//! locations that were looked up are kept for the next change of the same fork.
//!
//! 1. Only committed locations are kept. A change that has mapped or unmapped blocks of the fork
//!    adds nothing any more, because it may be undone. Blocks that it unmaps are forgotten.
//! 2. The entry of a fork is used under its inode's ILOCK: a transaction takes it from the cache,
//!    and returns it before it releases the lock.

use std::ops::Range;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;
use xfskit_format::bmbt::Extent;
use xfskit_trans::lock::{LockRank, RankedMutex};
use xfskit_trans::{Handle, LogItem};
use xfskit_units::{DaBlock, Daddr, Ino, index};

use crate::dir_cache::Block;

/// Maximum number of blocks of one fork whose locations are kept.
const BLOCKS_MAX: usize = 1 << 20;
/// Maximum number of forks of one shard.
const FORKS_MAX: usize = 64;
const SHARDS: usize = 16;
/// Bytes of a block's head that a weak reference keeps in memory.
const HEAD: usize = 300;
/// The heads take at most this part of the memory of the buffer cache.
const HEADS_PART: usize = 16;

/// The tree blocks of one attribute fork whose locations are known.
#[derive(Debug, Default)]
pub(crate) struct AttrMap {
    /// The tree blocks by number, as far as they are known.
    blocks: Vec<Block>,
    /// Number of them with a reference to the block in memory.
    objects: usize,
    /// Of these, the number that [`AttrMaps::objects`] counts.
    counted: usize,
    /// The blocks that the running change holds.
    pub(crate) held: Vec<(DaBlock, Handle)>,
    /// The extent that the running change looked up last, as of its last change of the map.
    pub(crate) extent: Option<Extent>,
}

impl AttrMap {
    /// Returns the block `dablk`, if its location is known.
    #[inline]
    pub(crate) fn get(&self, dablk: DaBlock) -> Option<&Block> {
        self.blocks.get(dablk.0 as usize).filter(|block| block.daddr != Daddr(0))
    }

    /// Keeps the location of block `dablk`, and a reference to it.
    pub(crate) fn set(&mut self, dablk: DaBlock, daddr: Daddr, object: Weak<LogItem>) {
        let number = dablk.0 as usize;
        if number >= BLOCKS_MAX {
            return;
        }
        if number >= self.blocks.len() {
            self.blocks.resize(number + 1, Block::default());
        }
        let new = Block { daddr, object: Some(object) };
        let old = std::mem::replace(&mut self.blocks[number], new);
        self.objects += usize::from(old.object.is_none());
    }

    /// Forgets the blocks in `range`, because the map of the fork changes there.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        self.extent = None;
        self.held.retain(|(held, _)| !range.contains(&held.0.into()));
        let end = index(range.end).min(self.blocks.len());
        for block in self.blocks.get_mut(index(range.start)..end).into_iter().flatten() {
            self.objects -= usize::from(std::mem::take(block).object.is_some());
        }
    }

    /// Forgets where the blocks are in memory, and keeps their locations.
    fn forget_objects(&mut self) {
        if std::mem::take(&mut self.objects) > 0 {
            self.blocks.iter_mut().for_each(|block| block.object = None);
        }
    }
}

/// The attribute forks that were changed last.
#[derive(Debug)]
pub(crate) struct AttrMaps {
    shards: [Shard; SHARDS],
    /// Number of references to blocks that all forks keep, taken ones too.
    objects: AtomicUsize,
    objects_max: usize,
}

/// `None` for a fork that is being changed.
type Forks = FxHashMap<Ino, Option<AttrMap>>;

/// One shard, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(RankedMutex<Forks>);

impl AttrMaps {
    /// Returns an empty cache beside a buffer cache of `cache_bytes`.
    pub(crate) fn new(cache_bytes: usize) -> Self {
        let shard = |_| Shard(RankedMutex::new(LockRank::Leaf, Forks::default()));
        Self {
            shards: std::array::from_fn(shard),
            objects: AtomicUsize::new(0),
            objects_max: cache_bytes / HEADS_PART / HEAD,
        }
    }

    fn shard(&self, ino: Ino) -> &RankedMutex<Forks> {
        &self.shards[index(ino.0 ^ (ino.0 >> 8)) % SHARDS].0
    }

    /// Takes what is known of the attribute fork of inode `ino`, whose ILOCK the caller holds.
    fn take(&self, ino: Ino) -> AttrMap {
        self.shard(ino).lock().get_mut(&ino).and_then(Option::take).unwrap_or_default()
    }

    /// Returns it to the cache. A fork of one block is not worth keeping.
    fn put(&self, ino: Ino, mut known: AttrMap) {
        known.held.clear();
        known.extent = None;
        let mut forks = self.shard(ino).lock();
        if known.blocks.len() < 2 {
            forks.remove(&ino);
            return;
        }
        if forks.len() >= FORKS_MAX && !forks.contains_key(&ino) {
            for map in forks.drain().filter_map(|(_, map)| map) {
                self.objects.fetch_sub(map.counted, Ordering::Relaxed);
            }
        }
        self.count(&mut known);
        forks.insert(ino, Some(known));
    }

    /// Counts the references of a fork, if their number has changed. Forgets them if all forks
    /// together have too many.
    fn count(&self, known: &mut AttrMap) {
        if let Some(more) = known.objects.checked_sub(known.counted).filter(|more| *more > 0) {
            let before = self.objects.fetch_add(more, Ordering::Relaxed);
            known.counted = known.objects;
            if before.saturating_add(more) > self.objects_max {
                known.forget_objects();
            }
        }
        let fewer = known.counted - known.objects;
        if fewer > 0 {
            self.objects.fetch_sub(fewer, Ordering::Relaxed);
            known.counted = known.objects;
        }
    }
}

/// The attribute fork that a transaction changes, taken from the cache. It is returned when the
/// transaction changes another one, or ends.
#[derive(Debug)]
pub(crate) struct TakenMap<'v> {
    maps: &'v AttrMaps,
    taken: Option<(Ino, AttrMap)>,
}

impl<'v> TakenMap<'v> {
    /// Takes nothing yet.
    pub(crate) fn new(maps: &'v AttrMaps) -> Self {
        Self { maps, taken: None }
    }

    /// Returns what is known of the attribute fork of inode `ino`, whose ILOCK the transaction
    /// holds.
    #[inline]
    pub(crate) fn of(&mut self, ino: Ino) -> &mut AttrMap {
        if self.taken.as_ref().is_none_or(|(taken, _)| *taken != ino) {
            self.put_back();
        }
        let maps = self.maps;
        &mut self.taken.get_or_insert_with(|| (ino, maps.take(ino))).1
    }

    /// Returns it to the cache. The transaction still holds the ILOCK.
    pub(crate) fn put_back(&mut self) {
        if let Some((ino, known)) = self.taken.take() {
            self.maps.put(ino, known);
        }
    }
}

impl Drop for TakenMap<'_> {
    fn drop(&mut self) {
        self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(map: &mut AttrMap, blocks: Range<u32>) {
        for dablk in blocks {
            map.set(DaBlock(dablk), Daddr(u64::from(dablk) * 8 + 8), Weak::new());
        }
    }

    #[test]
    fn locations_are_kept_for_the_next_change_and_forgotten_where_the_map_changes() {
        let maps = AttrMaps::new(1 << 20);
        let (one, other) = (Ino(128), Ino(129));
        let mut taken = TakenMap::new(&maps);
        fill(taken.of(one), 0..10);
        taken.of(one).set(DaBlock(u32::MAX), Daddr(8), Weak::new());
        fill(taken.of(other), 0..1);
        taken.of(one).forget(3..5);
        taken.of(one).forget(20..30);
        drop(taken);
        let mut taken = TakenMap::new(&maps);
        let known = |map: &AttrMap| -> Vec<u64> {
            (0..12).filter_map(|n| Some(map.get(DaBlock(n))?.daddr.0 / 8 - 1)).collect()
        };
        assert_eq!(known(taken.of(one)), [0, 1, 2, 5, 6, 7, 8, 9]);
        assert_eq!(taken.of(one).objects, 8);
        assert_eq!(known(taken.of(other)), [], "a fork of one block");
        assert!(taken.of(one).get(DaBlock(u32::MAX)).is_none());
    }

    #[test]
    fn references_to_blocks_are_counted_and_forgotten_where_they_are_too_many() {
        let maps = AttrMaps::new(HEADS_PART * HEAD * 100);
        let change = |ino: u64, blocks: Range<u32>| {
            let mut taken = TakenMap::new(&maps);
            fill(taken.of(Ino(ino)), blocks);
            taken.of(Ino(ino)).objects
        };
        assert_eq!(change(1, 0..60), 60);
        assert_eq!(change(1, 30..70), 70);
        assert_eq!(change(2, 0..30), 30);
        assert_eq!(maps.objects.load(Ordering::Relaxed), 100);
        assert_eq!(change(3, 0..2), 2, "too many");
        assert_eq!(change(3, 0..0), 0);
        assert_eq!(TakenMap::new(&maps).of(Ino(3)).get(DaBlock(1)).unwrap().daddr, Daddr(16));
        assert_eq!(maps.objects.load(Ordering::Relaxed), 100);
        // As many forks as a shard holds, and one more.
        for n in 1..=FORKS_MAX as u64 {
            change(1 + (n << 16), 0..2);
        }
        assert_eq!(maps.shard(Ino(1)).lock().len(), 1);
        assert_eq!(maps.objects.load(Ordering::Relaxed), 32);
    }
}
