//! Preconditions for changing a volume: every feature can be written, the journal has been replayed
//! onto the device, and the counters are known.

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_format::sb::Superblock;
use xfskit_log::LogWriter;
use xfskit_recovery::{Replay, open_log, replay_if};
use xfskit_trans::{BufCache, Delta, Engine, Journal};
use xfskit_units::features::WRITABLE;

use crate::error::{Error, Result};
use crate::intents;
use crate::options::OpenOptions;

/// Estimated memory that a cached inode takes, in bytes.
const INODE_COST: usize = 1024;

/// Refuses a volume with a feature that is not in [`WRITABLE`], by the feature's name, and one
/// that its device does not hold whole.
///
/// # Errors
/// [`Error::Unwritable`], [`Error::ReadOnly`], [`Error::ShortDevice`].
pub(crate) fn refuse(sb: &Superblock, dev: &dyn BlockDevice) -> Result<()> {
    if dev.is_read_only() {
        return Err(Error::ReadOnly);
    }
    let features = sb.features();
    let no = |what: &str| Err(Error::Unwritable(what.to_owned()));
    if features.version != WRITABLE.version {
        return no("version 4 of the format");
    }
    if features.needsrepair() {
        return no("the needsrepair mark: run xfs_repair");
    }
    if let Some(beyond) = features.beyond(&WRITABLE) {
        return no(&beyond);
    }
    if sb.rblocks.get() != 0 {
        return no("a realtime device");
    }
    if sb.inprogress != 0 {
        return no("an unfinished mkfs (sb_inprogress is set)");
    }
    let (size, need) = (dev.size().0, sb.geometry().data_bytes().0);
    if size < need {
        return Err(Error::ShortDevice { size, need });
    }
    Ok(())
}

/// Replays the journal onto the device.
pub(crate) fn recover(
    dev: &Arc<dyn BlockDevice>,
    sb: &Superblock,
    options: &OpenOptions,
) -> Result<Replay> {
    let log_dev = options.log_dev.as_deref();
    replay_if(&**dev, log_dev, sb, &options.replay, intents::refuse)
}

/// Returns the engine of a volume whose journal is clean or was replayed. The engine continues the
/// journal at its head. An unmount record is written only when no orphans are left, because
/// recovery does not look for orphans behind one. Unfinished intents keep the tail where it is.
pub(crate) fn engine(
    sb: &Superblock,
    cache: Arc<BufCache>,
    options: &OpenOptions,
    replay: &Replay,
) -> Result<Engine> {
    let counters = Delta {
        icount: i64::try_from(sb.icount.get()).unwrap_or(i64::MAX),
        ifree: i64::try_from(sb.ifree.get()).unwrap_or(i64::MAX),
        fdblocks: i64::try_from(sb.fdblocks.get()).unwrap_or(i64::MAX),
    };
    let dev = Arc::clone(cache.device());
    let geo = sb.geometry();
    let log = open_log(&*dev, options.log_dev.as_deref(), &geo)?;
    let log_dev = options.log_dev.as_ref().filter(|_| geo.logstart.is_none()).unwrap_or(&dev);
    let (log_dev, data) = (Arc::clone(log_dev), Arc::clone(&dev));
    let writer = if replay.unfinished.is_empty() {
        LogWriter::new(&log, log_dev, data, options.journal.logbsize)?
    } else {
        LogWriter::resume(&log, log_dev, data)?
    };
    let writer = writer.buffers(options.journal.logbufs);
    // A quarter is for blocks, an eighth for inodes. Changes that wait to be written in place may
    // take as much in addition, and the rest is for the allocator.
    let inodes = options.cache_bytes / 8 / INODE_COST;
    let engine = Engine::new(geo.clone(), cache, Journal::new(writer), counters, inodes);
    Ok(engine.with_discard(options.discard))
}
