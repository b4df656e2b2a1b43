//! Preconditions for changing a volume: every feature can be written, the journal has been replayed
//! onto the device, and the counters are known.

use std::mem::offset_of;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_format::sb::{self, Superblock};
use xfskit_format::{Ctx, Image, VerifyResult};
use xfskit_log::LogWriter;
use xfskit_trans::{BufCache, Delta, Engine, Held, Journal};
use xfskit_units::AgNumber;
use xfskit_units::features::{WRITABLE, versionnum};
use zerocopy::big_endian::{U16, U64};

use crate::error::{Error, Result};
use crate::options::OpenOptions;
use crate::recovery::{self, Replay};
use crate::volume::Volume;

/// Estimated memory that a cached inode takes, in bytes.
const INODE_COST: usize = 1024;

/// ATTR in `versionnum`.
#[allow(clippy::cast_possible_truncation)] // 0x10
const ATTR_BIT: u16 = versionnum::ATTR as u16;

/// Longest label in bytes.
const LABEL_MAX: usize = 12;

/// Refuses a volume with a feature that is not in [`WRITABLE`], by the feature's name.
///
/// # Errors
/// [`Error::Unsupported`], [`Error::ReadOnly`].
pub(crate) fn refuse(sb: &Superblock, dev: &dyn BlockDevice) -> Result<()> {
    if dev.is_read_only() {
        return Err(Error::ReadOnly);
    }
    let features = sb.features();
    let no = |what: &str| Err(Error::Unsupported(format!("changing a volume with {what}")));
    if features.version != WRITABLE.version {
        return no("version 4 of the format");
    }
    if features.needsrepair() {
        return no("the needsrepair mark: run xfs_repair");
    }
    if let Some(beyond) = features.beyond(&WRITABLE) {
        return no(&beyond.to_string());
    }
    if sb.rblocks.get() != 0 {
        return no("a realtime device");
    }
    if sb.inprogress != 0 {
        return no("an unfinished mkfs (sb_inprogress is set)");
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
    recovery::replay_if(&**dev, log_dev, sb, &options.replay, recovery::refuse)
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
    let log = recovery::open_log(&*dev, options.log_dev.as_deref(), &geo)?;
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
    Ok(Engine::new(geo.clone(), cache, Journal::new(writer), counters, inodes))
}

/// Clears the quota-checked flags in the superblock, before the first change. Quota is not counted
/// here. As after a mount of Linux without quota, the next mount with quota counts anew.
///
/// # Errors
/// As [`Volume::transact`].
pub(crate) fn reset_quota(volume: &Volume) -> Result<()> {
    if volume.superblock().qflags.get() == 0 {
        return Ok(());
    }
    edit_superblock(volume, |image| image.put(offset_of!(Superblock, qflags), &U16::new(0)))
}

/// Sets the ATTR bit in the superblock, in a transaction before the one that makes the first
/// attribute. Linux' online check calls every attribute fork of a volume without that bit corrupt.
///
/// # Errors
/// As [`Volume::transact`].
pub(crate) fn set_attr_bit(volume: &Volume) -> Result<()> {
    let with_bit = U16::new(volume.superblock().versionnum.get() | ATTR_BIT);
    edit_superblock(volume, |image| image.put(offset_of!(Superblock, versionnum), &with_bit))
}

/// Writes the superblock's current counters.
///
/// # Errors
/// As [`Volume::transact`].
pub(crate) fn log_counters(volume: &Volume) -> Result<()> {
    let engine = volume.engine()?;
    engine.commit_parked();
    let now = engine.counters().get();
    let counter = |value: i64| U64::new(u64::try_from(value).unwrap_or(0));
    edit_superblock(volume, |image| {
        image.put(offset_of!(Superblock, icount), &counter(now.icount));
        image.put(offset_of!(Superblock, ifree), &counter(now.ifree));
        image.put(offset_of!(Superblock, fdblocks), &counter(now.fdblocks));
    })
}

impl Volume {
    /// Returns true if the superblock has the ATTR bit.
    pub(crate) fn has_attr_bit(&self) -> bool {
        self.sb.read().versionnum.get() & ATTR_BIT != 0
    }

    /// Returns the current label.
    pub fn label(&self) -> Vec<u8> {
        let fname = self.superblock().fname;
        fname.split(|&b| b == 0).next().unwrap_or_default().to_vec()
    }

    /// Updates [`Volume::superblock`] from the buffer cache.
    fn reread_superblock(&self) -> Result<()> {
        let place = sb::location(self.geo(), AgNumber(0));
        let buf = self.read_buf(place, &|bytes, _| verify(bytes, AgNumber(0)))?;
        if let Some(sb) = Superblock::parse(&buf) {
            *self.sb.write() = sb.clone();
        }
        Ok(())
    }

    /// Sets the label, at most 12 bytes, in all superblocks.
    ///
    /// # Errors
    /// [`Error::Limit`] for a longer one or one with zeroes in it, and as [`Volume::transact`].
    pub fn set_label(&self, label: &[u8]) -> Result<()> {
        let mut fname = [0; LABEL_MAX];
        match fname.get_mut(..label.len()) {
            Some(room) if !label.contains(&0) => room.copy_from_slice(label),
            _ => return Err(Error::Limit("a label has at most 12 bytes, none of them zero")),
        }
        for agno in self.geo().ags() {
            edit_superblock_of(self, agno, |image| {
                image.put(offset_of!(Superblock, fname), &fname);
            })?;
        }
        Ok(())
    }
}

/// Changes the primary superblock in a transaction of its own.
pub(crate) fn edit_superblock(volume: &Volume, edit: impl Fn(&mut Held<'_, '_>)) -> Result<()> {
    edit_superblock_of(volume, AgNumber(0), edit)
}

/// Changes the superblock copy in group `agno` in a transaction of its own.
fn edit_superblock_of(
    volume: &Volume,
    agno: AgNumber,
    edit: impl Fn(&mut Held<'_, '_>),
) -> Result<()> {
    // A superblock has no rank in the lock order: a thread that waits for one holds nothing else,
    // and releases it at once.
    let engine = volume.engine()?;
    engine.commit_parked();
    volume.transact(|tx| {
        let verify = |bytes: &[u8], _: &Ctx<'_>| verify(bytes, agno);
        let handle = tx.read_buf(sb::location(volume.geo(), agno), &verify)?;
        edit(&mut tx.image(handle));
        Ok(())
    })?;
    engine.commit_parked();
    if agno == AgNumber(0) {
        volume.reread_superblock()?;
    }
    Ok(())
}

/// Verifies the superblock of group `agno`, as a metadata block.
fn verify(bytes: &[u8], agno: AgNumber) -> VerifyResult {
    Superblock::verify(bytes, agno).map(drop).map_err(|error| error.corruption())
}
