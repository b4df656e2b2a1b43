//! Opening of a volume, for reading or for writing.

use std::sync::Arc;

use xfskit_block::{BlockDevice, NoBarrierDevice, OverlayDevice};
use xfskit_format::log::item::Intent;
use xfskit_format::sb::{self, Superblock};
use xfskit_format::{Corruption, Ctx, Expected};
use xfskit_recovery::Replay;
use xfskit_space::Space;
use xfskit_trans::BufCache;
use xfskit_units::{AgNumber, ByteLen, ByteOffset, Geometry};

use crate::error::{Error, Result};
use crate::intents;
use crate::options::{JournalOptions, OpenOptions};
use crate::superblock::{FoundSuperblock, find_superblock, read_superblock, superblock_to_write};
use crate::superblock_edit;
use crate::volume::Volume;
use crate::writable;

/// Most memory that a replay in memory takes for what it changes, in bytes.
const REPLAY_MEMORY_MAX: u64 = 64 << 20;

impl Volume {
    /// Opens the volume on `dev`. The device is written only if [`OpenOptions::write`] asks for it.
    ///
    /// A device that ends before the volume does is opened too, so that what is left can be read:
    /// see [`faults`](Self::faults). The journal is replayed if all of it is there.
    ///
    /// # Errors
    /// [`Error::Superblock`] if the device is not XFS or needs a newer reader, [`Error::Device`],
    /// [`Error::Journal`] if the journal cannot be replayed, [`Error::InternalLog`]; for writing
    /// also [`Error::ShortDevice`].
    pub fn open(dev: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Self> {
        if options.write {
            return Self::open_writable(dev, options);
        }
        let FoundSuperblock { sb, healed, secondary } = find_superblock(&*dev)?;
        let geo = sb.geometry();
        check_log_dev(&geo, options)?;
        let faults = check_size(&geo, dev.size());
        let (dev, replay) = if options.recovery && log_is_there(&geo, dev.size()) {
            recovered(dev, options, &sb, secondary.is_some())?
        } else {
            (dev, None)
        };
        let (sb, log_head) = match &replay {
            Some(replay) if !replay.clean => (read_superblock(&*dev)?, Some(replay.head)),
            Some(replay) => (sb, Some(replay.head)),
            None => (sb, None),
        };
        let cache = Arc::new(BufCache::new(dev, options.cache_bytes));
        if let Some(fault) = healed {
            cache.heals().note(fault, false);
        }
        if let Some(replay) = &replay {
            note_healed(&cache, replay);
        }
        let space = Space::new(sb, cache, None, log_head);
        let log_dev = options.log_dev.clone();
        Ok(Self { replay, log_dev, faults, secondary, ..Self::new(space) })
    }

    /// Opens for reading and writing. First refuses, by name, what cannot be written. Then replays
    /// the journal onto the device, continues it, and finishes its intents.
    fn open_writable(dev: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Self> {
        if !options.journal.barrier {
            let bare = |dev: Arc<dyn BlockDevice>| -> Arc<dyn BlockDevice> {
                Arc::new(NoBarrierDevice::new(dev))
            };
            let (dev, log_dev) = (bare(dev), options.log_dev.clone().map(bare));
            let journal = JournalOptions { barrier: true, ..options.journal };
            return Self::open_writable(dev, &OpenOptions { log_dev, journal, ..options.clone() });
        }
        let sb = superblock_to_write(&*dev)?;
        check_log_dev(&sb.geometry(), options)?;
        writable::refuse(&sb, &*dev)?;
        let replay = writable::recover(&dev, &sb, options)?;
        let clean = replay.clean;
        let volume = Self::replayed(dev, options, replay)?;
        superblock_edit::reset_quota(&volume)?;
        volume.inactivate_orphans()?;
        if !clean {
            volume.free_staging()?;
        }
        Ok(volume)
    }

    /// Opens for reading and writing a volume of which a damaged journal was replayed in part, and
    /// then cleared. Finishes `unfinished`, the intents of the replayed part, and frees unlinked
    /// inodes. For a repair: what the rest of the journal held is missing, so this may fail.
    ///
    /// # Errors
    /// As [`open`](Self::open) for writing, and those of finishing the intents.
    pub fn open_to_finish(dev: Arc<dyn BlockDevice>, unfinished: &[Intent]) -> Result<Self> {
        intents::refuse(unfinished)?;
        let volume = Self::open(dev, &OpenOptions { write: true, ..OpenOptions::default() })?;
        if !unfinished.is_empty() {
            intents::finish(&volume, unfinished)?;
        }
        volume.free_staging()?;
        Ok(volume)
    }

    /// Makes a volume writable whose journal was replayed, and finishes its intents.
    fn replayed(
        dev: Arc<dyn BlockDevice>,
        options: &OpenOptions,
        mut replay: Replay,
    ) -> Result<Self> {
        let sb = read_superblock(&*dev)?;
        let cache = Arc::new(BufCache::new(dev, options.cache_bytes / 4));
        note_healed(&cache, &replay);
        let engine = writable::engine(&sb, Arc::clone(&cache), options, &replay)?;
        let intents = std::mem::take(&mut replay.unfinished);
        replay.finished = intents.len() as u64;
        let wsync = options.journal.wsync;
        let space = Space::new(sb, cache, Some(engine), None);
        let log_dev = options.log_dev.clone();
        let volume = Self { replay: Some(replay), log_dev, wsync, ..Self::new(space) };
        if !intents.is_empty() {
            intents::finish(&volume, &intents)?;
        }
        note_replayed(volume.replay.as_ref());
        volume.space().set_aside();
        Ok(volume)
    }
}

fn note_replayed(replay: Option<&Replay>) {
    if let Some(Replay { clean: false, transactions, finished, .. }) = replay {
        tracing::info!(transactions, finished, "the journal was replayed");
    }
}

impl Volume {
    /// Frees the staging extents that a crash left behind.
    fn free_staging(&self) -> Result<()> {
        if !self.geo().features.reflink() {
            return Ok(());
        }
        for agno in self.geo().ags() {
            while self.transact(|tx| Ok(tx.free_some_staging(agno)?))? {}
        }
        Ok(())
    }
}

/// Returns the device with its journal replayed: `dev` itself if the journal is clean, else a
/// copy-on-write copy in memory. If `secondary`, `sb` differs from the primary on the device and is
/// written into the copy.
fn recovered(
    dev: Arc<dyn BlockDevice>,
    options: &OpenOptions,
    sb: &Superblock,
    secondary: bool,
) -> Result<(Arc<dyn BlockDevice>, Option<Replay>)> {
    let log_dev = options.log_dev.as_deref();
    // The replay reports damage.
    let geo = sb.geometry();
    let log = xfskit_recovery::open_log(&*dev, log_dev, &geo);
    if log.is_ok_and(|log| log.is_clean()) {
        let replay = xfskit_recovery::replay(&*dev, log_dev, sb)?;
        return Ok((dev, Some(replay)));
    }
    let mut copy = OverlayDevice::new(dev);
    if let Some(dir) = &options.replay.spill_dir {
        copy = copy.limited_to(replay_memory(options.cache_bytes), dir);
    }
    let copy: Arc<dyn BlockDevice> = Arc::new(copy);
    if secondary {
        copy.write_at(ByteOffset(0), &sb.to_sector())?;
    }
    let replay =
        xfskit_recovery::replay_if(&*copy, log_dev, sb, &options.replay, |_| Ok::<_, Error>(()))?;
    if replay.unfinished.is_empty() {
        note_replayed(Some(&replay));
        return Ok((copy, Some(replay)));
    }
    match finished(&copy, options, &replay, sb) {
        Ok((finished, replay)) => Ok((finished, Some(replay))),
        Err(error) => {
            tracing::warn!(%error, "intents of the journal are left unfinished");
            Ok((copy, Some(replay)))
        }
    }
}

/// Returns the memory for what a replay in memory changes, beside `cache_bytes` for metadata.
fn replay_memory(cache_bytes: usize) -> ByteLen {
    ByteLen((cache_bytes as u64 / 4).min(REPLAY_MEMORY_MAX))
}

/// Returns a copy of `dev` in memory with the journal replayed and its intents finished.
fn finished(
    dev: &Arc<dyn BlockDevice>,
    options: &OpenOptions,
    replay: &Replay,
    sb: &Superblock,
) -> Result<(Arc<dyn BlockDevice>, Replay)> {
    let overlay = |dev: &Arc<dyn BlockDevice>| -> Arc<dyn BlockDevice> {
        Arc::new(OverlayDevice::new(Arc::clone(dev)))
    };
    let (copy, log_dev) = (overlay(dev), options.log_dev.as_ref().map(overlay));
    writable::refuse(sb, &*copy)?;
    intents::refuse(&replay.unfinished)?;
    let options = OpenOptions { log_dev, ..options.clone() };
    let volume = Volume::replayed(Arc::clone(&copy), &options, replay.clone())?;
    let mut replay = volume.replay.clone().unwrap_or_else(|| replay.clone());
    volume.close()?;
    replay.head =
        xfskit_recovery::open_log(&*copy, options.log_dev.as_deref(), &sb.geometry())?.head();
    Ok((copy, replay))
}

/// Adds the blocks that healed during the replay to those of the cache.
fn note_healed(cache: &BufCache, replay: &Replay) {
    for record in &replay.healed {
        cache.heals().note(Box::new(record.corruption.clone()), record.rewritten);
    }
}

/// Refuses a device for a journal that is inside of the volume: the caller means another volume.
pub(crate) fn check_log_dev(geo: &Geometry, options: &OpenOptions) -> Result<()> {
    if options.log_dev.is_some() && geo.logstart.is_some() {
        return Err(Error::InternalLog);
    }
    Ok(())
}

/// Returns the corruption of a device that ends before the volume does.
fn check_size(geo: &Geometry, size: ByteLen) -> Vec<Corruption> {
    if geo.data_bytes() <= size {
        return Vec::new();
    }
    let ctx = Ctx::new(geo, sb::location(geo, AgNumber(0)));
    let need = Expected::AtLeast(geo.data_bytes().0.into());
    vec![*ctx.corruption("sb.device-size", need, size.0)]
}

/// Returns false if the device ends before an internal log does.
fn log_is_there(geo: &Geometry, size: ByteLen) -> bool {
    let Some(start) = geo.log_daddr() else { return true };
    let end = start.byte_offset().0 + (u64::from(geo.logblocks) << geo.blocklog);
    end <= size.0
}
