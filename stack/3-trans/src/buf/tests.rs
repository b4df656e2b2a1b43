use super::*;
use crate::testing::geo;
use xfskit_block::MemDevice;
use xfskit_format::Location;
use xfskit_units::ByteLen;

fn device() -> Arc<MemDevice> {
    let dev = MemDevice::new(ByteLen(16 << 20));
    for block in 0..4096u64 {
        dev.write_at(ByteOffset(block * 4096), &block.to_be_bytes()).unwrap();
    }
    Arc::new(dev)
}

fn is_block(n: u64) -> impl Fn(&[u8], &Ctx<'_>) -> VerifyResult {
    move |bytes, ctx| ctx.eq("dir.data.bno", n, u64::from_be_bytes(bytes[..8].try_into().unwrap()))
}

#[test]
fn a_block_is_read_once_and_verified() {
    let (geo, cache) = (geo(), BufCache::new(device(), 1 << 20));
    let ctx = Ctx::new(&geo, Location::of("test"));
    let map = BufMap::single(Daddr(8 * 7), Sectors(8));
    for _ in 0..3 {
        assert_eq!(cache.read(&map, &ctx, &is_block(7)).unwrap()[7], 7);
    }
    assert_eq!(cache.stats(), Stats { lookups: 3, hits: 2, bytes_read: 4096, healed: 0 });
    let other = BufMap::single(Daddr(8 * 9), Sectors(8));
    assert!(matches!(cache.read(&other, &ctx, &is_block(7)), Err(BufError::Corrupt(_))));
}

#[test]
fn memory_stays_bounded_and_read_ahead_is_found() {
    let (geo, cache) = (geo(), BufCache::new(device(), 64 * 8 * 4096));
    let ctx = Ctx::new(&geo, Location::of("test"));
    for round in 0..2 {
        for n in 0..4096u64 {
            if n % 64 == 0 {
                let ahead: Vec<_> = (n..n + 64).map(|b| (Daddr(b * 8), Sectors(8))).collect();
                cache.read_ahead(&ahead);
            }
            let map = BufMap::single(Daddr(n * 8), Sectors(8));
            cache.read(&map, &ctx, &is_block(n)).unwrap();
        }
        let held: usize = cache.shards.iter().map(|s| s.lock().bytes).sum();
        assert!(held <= 64 * 8 * 4096, "round {round}: {held} bytes held");
    }
    assert!(cache.stats().hits > 4000, "{:?}", cache.stats());
}

#[test]
fn a_block_in_pieces_is_one_buffer() {
    let (geo, cache) = (geo(), BufCache::new(device(), 1 << 20));
    let ctx = Ctx::new(&geo, Location::of("test"));
    let map = BufMap::pieces(vec![(Daddr(8 * 5), Sectors(8)), (Daddr(8 * 3), Sectors(8))]).unwrap();
    let buf = cache.read(&map, &ctx, &is_block(5)).unwrap();
    assert_eq!((buf.len(), buf[7], buf[4096 + 7]), (8192, 5, 3));
}

/// Returns a cache that holds one block of 4 KiB in each shard, and a function that evicts all
/// other blocks.
fn one_block_per_shard() -> (BufCache, impl Fn(&BufCache)) {
    let others = |cache: &BufCache| {
        for n in 100..100 + 8 * SHARDS as u64 {
            cache.item(&BufMap::single(Daddr(8 * n), Sectors(8)));
        }
    };
    (BufCache::new(device(), SHARDS * 4096), others)
}

#[test]
fn an_upgraded_buffer_stays_and_a_dropped_one_does_not_return() {
    let (cache, evict_others) = one_block_per_shard();
    let map = BufMap::single(Daddr(8 * 7), Sectors(8));
    let weak = Arc::downgrade(&cache.item(&map));
    let upgraded = weak.upgrade().unwrap();
    evict_others(&cache);
    assert!(Arc::ptr_eq(&cache.item(&map), &upgraded));
    drop(upgraded);
    evict_others(&cache);
    evict_others(&cache);
    assert!(weak.upgrade().is_none());
    assert_eq!(Arc::strong_count(&cache.item(&map)), OWN_REFS + 1);
    for shard in &cache.shards {
        let shard = shard.lock();
        assert_eq!((shard.ring.len(), shard.bytes), (shard.table.len(), 4096 * shard.ring.len()));
    }
}

#[test]
fn concurrent_lookups_find_one_buffer_for_a_block() {
    let (cache, evict_others) = one_block_per_shard();
    let map = BufMap::single(Daddr(8 * 7), Sectors(8));
    let gone = AtomicU64::new(0);
    let look = || {
        let mut weak = std::sync::Weak::new();
        for _ in 0..300 {
            if let Some(item) = weak.upgrade() {
                assert!(Arc::ptr_eq(&item, &cache.item(&map)));
            } else {
                weak = Arc::downgrade(&cache.item(&map));
                gone.fetch_add(1, Ordering::Relaxed);
            }
            evict_others(&cache);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(look);
        scope.spawn(look);
    });
    assert!(gone.into_inner() > 2);
}

#[test]
fn a_cleared_block_is_read_again() {
    let (geo, cache) = (geo(), BufCache::new(device(), 1 << 20));
    let ctx = Ctx::new(&geo, Location::of("test"));
    let map = BufMap::single(Daddr(8 * 7), Sectors(8));
    let before = cache.read(&map, &ctx, &is_block(7)).unwrap();
    let item = cache.item(&map);
    cache.dev.write_at(ByteOffset(4096 * 7), &9u64.to_be_bytes()).unwrap();
    cache.clear();
    assert!(item.read(None).bytes.share().is_none());
    assert_eq!(cache.read(&map, &ctx, &is_block(9)).unwrap()[7], 9);
    assert_eq!((before[7], item.read(None).bytes.share().unwrap()[7]), (7, 9));
}
