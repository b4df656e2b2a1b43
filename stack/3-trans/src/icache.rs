//! The inode cache: each inode that transactions use, as a log item.
//!
//! Inodes are read from their cluster and written back into it. They are locked, changed and logged
//! one by one, so that writers of neighbouring inodes do not contend.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use xfskit_units::{Daddr, Ino, Sectors, index};

use crate::bytes::{Buf, Bytes};
use crate::guard::Shared;
use crate::lock::{LockRank, LockStats, RankedMutex};
use crate::log_item::{DiskLocation, ItemState, LogItem};
use crate::park::Parking;

const SHARDS: usize = 64;

/// Where an inode is written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeLocation {
    /// Its cluster, one buffer.
    pub cluster: (Daddr, Sectors),
    /// Where it begins in the cluster, in bytes.
    pub offset: usize,
}

/// Sixteen inodes whose numbers differ in the last four bits only. They are found together, because
/// inodes of a chunk are created one after another.
type IcacheNode = [Option<Arc<LogItem>>; 16];

/// Returns the number of an inode's node, and the inode's index in the node.
fn split(ino: Ino) -> (u64, usize) {
    (ino.0 >> 4, index(ino.0 & 15))
}

/// One shard of the cache, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    nodes: FxHashMap<u64, Box<IcacheNode>>,
    /// Inodes in all nodes.
    count: usize,
    /// Number of inodes from which on unused ones are dropped. If most are in use, the next sweep
    /// comes when there are half as many more, because a sweep looks at all of them.
    sweep_at: usize,
}

impl Shard {
    fn get(&self, ino: Ino) -> Option<&Arc<LogItem>> {
        let (node, at) = split(ino);
        self.nodes.get(&node)?[at].as_ref()
    }

    fn insert(&mut self, ino: Ino, item: &Arc<LogItem>) {
        let (node, at) = split(ino);
        self.nodes.entry(node).or_default()[at] = Some(Arc::clone(item));
        self.count += 1;
    }

    fn sweep(&mut self, limit: usize) {
        let mut left = 0;
        self.nodes.retain(|_, node| {
            for slot in node.iter_mut() {
                slot.take_if(|item| Arc::strong_count(item) == 1);
            }
            let left_in_node = node.iter().flatten().count();
            left += left_in_node;
            left_in_node > 0
        });
        self.count = left;
        self.sweep_at = limit.max(left.saturating_add(limit / 2));
    }
}

/// The inode cache. All threads share it.
#[derive(Debug)]
pub struct InodeCache {
    /// Rank [`LockRank::Leaf`].
    shards: Vec<RankedMutex<Shard>>,
    shard_limit: usize,
    /// The CIL, for parked transactions that hold inodes.
    parking: Arc<Parking>,
}

impl InodeCache {
    /// Returns a cache that keeps about `limit` inodes, besides those that are changed or that
    /// transactions of `cil` use.
    pub(crate) fn new(limit: usize, parking: Arc<Parking>) -> Self {
        let shard_limit = limit.div_ceil(SHARDS).max(16);
        let empty = || Shard { nodes: FxHashMap::default(), count: 0, sweep_at: shard_limit };
        let shard = || RankedMutex::new(LockRank::Leaf, empty());
        Self { shards: (0..SHARDS).map(|_| shard()).collect(), shard_limit, parking }
    }

    fn shard(&self, ino: Ino) -> &RankedMutex<Shard> {
        let (node, _) = split(ino);
        &self.shards[index(node.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)]
    }

    pub(crate) fn lock_stats(&self) -> LockStats {
        self.shards.iter().map(RankedMutex::stats).sum()
    }

    /// Returns the inode if it is in memory.
    pub fn get(&self, ino: Ino) -> Option<Arc<LogItem>> {
        self.shard(ino).lock().get(ino).cloned()
    }

    /// Locks the inode at `location` shared: no transaction changes it, nor what its ILOCK covers,
    /// while the guard lives. Reads it first with `load` if it is not in memory, because a holder
    /// of the shared lock could not.
    ///
    /// # Errors
    /// The errors of `load`.
    pub fn share<E>(
        &self,
        ino: Ino,
        location: &InodeLocation,
        load: impl Fn() -> Result<Arc<Buf>, E>,
    ) -> Result<Shared, E> {
        let item = self.item(ino, location);
        loop {
            let shared = Shared::take(Arc::clone(&item), &self.parking);
            if item.read(Some(&self.parking)).bytes.is_some() {
                return Ok(shared);
            }
            drop(shared);
            fill(&mut item.write(Some(&self.parking)), &load)?;
        }
    }

    /// Returns the inode at `location`, read or not. A caller reads it under its lock, because
    /// nothing else caches it.
    pub(crate) fn item(&self, ino: Ino, location: &InodeLocation) -> Arc<LogItem> {
        let mut shard = self.shard(ino).lock();
        if let Some(found) = shard.get(ino) {
            return Arc::clone(found);
        }
        if shard.count >= shard.sweep_at {
            shard.sweep(self.shard_limit);
        }
        let location =
            DiskLocation::Inode { ino, cluster: location.cluster, offset: location.offset };
        let new = Arc::new(LogItem::new(location, ItemState::new(Bytes::default(), false)));
        shard.insert(ino, &new);
        new
    }

    /// Returns the inode as last committed. Reads it with `load` if it is not in memory.
    ///
    /// # Errors
    /// The errors of `load`.
    pub fn read<E>(
        &self,
        ino: Ino,
        location: &InodeLocation,
        load: impl FnOnce() -> Result<Arc<Buf>, E>,
    ) -> Result<Arc<Buf>, E> {
        let item = self.item(ino, location);
        if let Some(bytes) = item.read(Some(&self.parking)).bytes.share() {
            return Ok(bytes);
        }
        fill(&mut item.write(Some(&self.parking)), load)
    }
}

/// Reads an inode with `load` if its `state`, locked by the caller, has no bytes.
pub(crate) fn fill<E>(
    state: &mut ItemState,
    load: impl FnOnce() -> Result<Arc<Buf>, E>,
) -> Result<Arc<Buf>, E> {
    state.bytes.expand();
    if let Some(bytes) = state.bytes.share() {
        return Ok(bytes);
    }
    let bytes = load()?;
    state.bytes = Arc::clone(&bytes).into();
    state.verified = true;
    Ok(bytes)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::bytes::zeroed;
    use crate::cil::Cil;

    #[test]
    fn a_shared_inode_has_been_read() {
        let cache = InodeCache::new(1, Arc::new(Parking::new(Cil::new(1 << 20, false))));
        let location = InodeLocation { cluster: (Daddr(64), Sectors(32)), offset: 512 };
        let load = || Ok::<_, ()>(zeroed(512));
        // An inode that was read before may have been dropped since.
        for number in 0..100 {
            let ino = Ino(number);
            cache.read(ino, &location, load).unwrap();
            cache.shard(ino).lock().sweep(0);
            let _shared = cache.share(ino, &location, load).unwrap();
            cache.read(ino, &location, || Err(())).unwrap();
        }
    }

    #[test]
    fn a_sweep_drops_the_inodes_that_are_not_referenced() {
        let cache = InodeCache::new(1, Arc::new(Parking::new(Cil::new(1 << 20, false))));
        let location = InodeLocation { cluster: (Daddr(64), Sectors(32)), offset: 0 };
        let held: Vec<_> = (0..4096).step_by(17).map(|n| cache.item(Ino(n), &location)).collect();
        (0..4096).for_each(|n| drop(cache.item(Ino(n), &location)));
        cache.shards.iter().for_each(|shard| shard.lock().sweep(0));
        let counts = cache.shards.iter().map(|shard| shard.lock().count);
        assert_eq!(counts.sum::<usize>(), held.len());
        assert!((0..4096).all(|n| cache.get(Ino(n)).is_some() == (n % 17 == 0)));
    }
}
