//! What tests share: a small volume's geometry, and an engine on a device in memory.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_format::log::seed_record;
use xfskit_log::{Log, LogWriter};
use xfskit_units::{ByteLen, ByteOffset, Daddr, Features, Geometry, RfsBlock, example};

use crate::{BufCache, Delta, Engine, Journal};

/// One group of 16 MiB.
pub(crate) fn geo() -> Geometry {
    let example = example::geometry();
    Geometry {
        features: Features { ro_compat: 0, incompat: 1, ..example.features },
        agblklog: 12,
        dblocks: RfsBlock(4096),
        agcount: 1,
        agblocks: 4096,
        logstart: None,
        ..example
    }
}

/// An engine with 1,000 free blocks; blocks from 3000 on are nobody's.
pub(crate) fn engine() -> Engine {
    engine_and_log().0
}

/// The same, and the device of its journal.
pub(crate) fn engine_and_log() -> (Engine, Arc<dyn BlockDevice>) {
    let dev: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(16 << 20)));
    let geo = geo();
    let log_dev: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(64 << 20)));
    log_dev.write_at(ByteOffset(0), &seed_record(geo.uuid, 512, true)).unwrap();
    let log = Log::open(&*log_dev, Daddr(0), &geo).unwrap();
    let writer = LogWriter::new(&log, Arc::clone(&log_dev), Arc::clone(&dev), 32768).unwrap();
    let cache = Arc::new(BufCache::new(dev, 1 << 20));
    let counters = Delta { fdblocks: 1000, ..Delta::default() };
    (Engine::new(geo, cache, Journal::new(writer), counters, 100), log_dev)
}
