//! What tests share: a small volume's geometry, and an engine on a device in memory.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_format::log::seed_record;
use xfskit_log::{Log, LogWriter};
use xfskit_units::{ByteLen, ByteOffset, Daddr, Features, Geometry, Ino, RfsBlock, Uuid, Version};

use crate::{BufCache, Delta, Engine, Journal};

/// One group of 16 MiB.
pub(crate) fn geo() -> Geometry {
    Geometry {
        features: Features {
            version: Version::V5,
            versionnum: 0xb4a0,
            features2: 0x18a,
            compat: 0,
            ro_compat: 0,
            incompat: 1,
            log_incompat: 0,
        },
        blocklog: 12,
        sectlog: 9,
        inodelog: 9,
        inopblog: 3,
        agblklog: 12,
        dirblklog: 0,
        dblocks: RfsBlock(4096),
        rblocks: RfsBlock(0),
        rextents: 0,
        rextsize: 1,
        agcount: 1,
        agblocks: 4096,
        logstart: None,
        logblocks: 16384,
        logsectlog: 9,
        logsunit: 1,
        inoalignmt: 4,
        spino_align: 0,
        imax_pct: 25,
        unit: 0,
        width: 0,
        rootino: Ino(64),
        rbmino: None,
        rsumino: None,
        metadirino: None,
        uuid: Uuid::nil(),
        meta_uuid: Uuid::nil(),
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
