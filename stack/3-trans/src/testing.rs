//! Shared by tests: the geometry of a small volume, and an engine on a device in memory.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_format::log::item::{Item, split};
use xfskit_format::log::seed_record;
use xfskit_format::{Ctx, Location};
use xfskit_log::{Log, LogWriter};
use xfskit_units::features::{Incompat, RoCompat};
use xfskit_units::{ByteLen, ByteOffset, Daddr, Features, Geometry, RfsBlock, Sectors, example};

use crate::{BufCache, BufMap, Delta, Engine, Handle, Journal, LockPosition, Trans, TransError};

/// Size of the volume.
pub(crate) const SIZE: ByteLen = ByteLen(16 << 20);

/// Returns the geometry of one group of 16 MiB.
pub(crate) fn geo() -> Geometry {
    let example = example::geometry();
    Geometry {
        features: Features {
            ro_compat: RoCompat::empty(),
            incompat: Incompat::from_bits_retain(1),
            ..example.features
        },
        agblklog: 12,
        dblocks: RfsBlock(4096),
        agcount: 1,
        agblocks: 4096,
        logstart: None,
        ..example
    }
}

/// Returns an engine with 1,000 free blocks; blocks from 3000 on belong to no structure.
pub(crate) fn engine() -> Engine {
    engine_and_log().0
}

/// Returns an engine and the device of its journal.
pub(crate) fn engine_and_log() -> (Engine, Arc<dyn BlockDevice>) {
    engine_on(Arc::new(MemDevice::new(SIZE)))
}

/// Returns an engine on `dev` and the device of its journal.
pub(crate) fn engine_on(dev: Arc<dyn BlockDevice>) -> (Engine, Arc<dyn BlockDevice>) {
    engine_of(dev, 100)
}

/// Returns an engine with memory for `inodes` inodes, and the device of its journal. With few
/// inodes, transactions are not parked.
pub(crate) fn engine_of(
    dev: Arc<dyn BlockDevice>,
    inodes: usize,
) -> (Engine, Arc<dyn BlockDevice>) {
    let geo = geo();
    let log_dev: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(64 << 20)));
    log_dev.write_at(ByteOffset(0), &seed_record(geo.uuid, 512, true)).unwrap();
    let log = Log::open(&*log_dev, Daddr(0), &geo).unwrap();
    let writer = LogWriter::new(&log, Arc::clone(&log_dev), Arc::clone(&dev), 32768).unwrap();
    let cache = Arc::new(BufCache::new(dev, 1 << 20));
    let counters = Delta { fdblocks: 1000, ..Delta::default() };
    (Engine::new(geo, cache, Journal::new(writer), counters, inodes), log_dev)
}

/// Returns the location of block `block`, 4 KiB.
pub(crate) fn map(block: u64) -> BufMap {
    BufMap::single(Daddr(block * 8), Sectors(8))
}

/// Joins block `block` to a transaction; the verifier accepts everything.
pub(crate) fn read(
    tx: &mut Trans<'_>,
    block: u64,
    position: Option<LockPosition>,
) -> Result<Handle, TransError> {
    let geo = geo();
    tx.read(&map(block), position, &Ctx::new(&geo, Location::of("test")), &|_, _| Ok(()))
}

/// Returns block `block` as recovery would leave it: the journal's changes from its tail on,
/// applied to what is in position.
pub(crate) fn recovered(engine: &Engine, log_dev: &dyn BlockDevice, block: u64) -> Vec<u8> {
    recovered_on(&**engine.device(), log_dev, block)
}

/// Returns what [`recovered`] does, with `dev` as what is left of the device.
pub(crate) fn recovered_on(
    dev: &dyn BlockDevice,
    log_dev: &dyn BlockDevice,
    block: u64,
) -> Vec<u8> {
    let geo = geo();
    let mut bytes = vec![0; 4096];
    dev.read_at(ByteOffset(block * 4096), &mut bytes).unwrap();
    let log = Log::open(log_dev, Daddr(0), &geo).unwrap();
    let ctx = Ctx::new(&geo, Location::of("test"));
    for transaction in log.transactions().map(Result::unwrap) {
        let regions = transaction.regions();
        for item in split(&regions[1..], &ctx) {
            let Item::Buf(buf) = Item::decode(item.unwrap(), &ctx).unwrap() else { continue };
            let here = buf.daddr() == Daddr(block * 8);
            for change in buf.changes().filter(|_| here) {
                bytes[change.offset..][..change.bytes.len()].copy_from_slice(change.bytes);
            }
        }
    }
    bytes
}
