//! A volume: open, geometry, AG headers, counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use xfskit_block::{BlockDevice, NoBarrierDevice, OverlayDevice};
use xfskit_format::agf::Agf;
use xfskit_format::agi::Agi;
use xfskit_format::sb::{self, Superblock};
use xfskit_format::{Corruption, Ctx, Expected, Location, VerifyResult, agf, agi};
use xfskit_trans::{Buf, BufCache, BufMap, Running, Stats};
use xfskit_units::{AgNumber, ByteLen, ByteOffset, Geometry, Lsn};

use crate::attr::debris::Swept;
use crate::dir::cache::DirCache;
use crate::error::{Error, Result};
use crate::file::Contents;
use crate::ialloc::{Orphan, RecordCache, Rotor};
use crate::options::{JournalOptions, OpenOptions};
use crate::recovery::{self, Replay};
use crate::space::Hints;
use crate::superblock::{
    FoundSuperblock, SecondarySuperblock, find_superblock, read_superblock, superblock_to_write,
};
use crate::writable;

/// Most memory that a replay in memory takes for what it changes, in bytes.
const REPLAY_MEMORY_MAX: u64 = 256 << 20;

/// The superblock's counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Allocated inodes, the free ones included.
    pub icount: u64,
    /// Free inodes.
    pub ifree: u64,
    /// Free blocks.
    pub fdblocks: u64,
}

/// The result of closing a volume.
#[derive(Clone, Debug)]
pub struct Closed {
    /// Statistics since the volume was opened.
    pub stats: Stats,
    /// Deleted inodes that could not be freed because the device failed. For them the journal stays
    /// dirty, and the next opening for writing tries again.
    pub orphans_left: Vec<Orphan>,
}

/// An XFS filesystem, open for reading, or for reading and writing. All threads share it.
#[derive(Debug)]
pub struct Volume {
    geo: Geometry,
    /// The primary superblock. No other lock is taken under this one.
    pub(crate) sb: RwLock<Superblock>,
    cache: Arc<BufCache>,
    /// The transaction engine of a writable volume.
    pub(crate) engine: Option<Running>,
    /// If true, every change is durable before it returns.
    pub(crate) wsync: bool,
    /// Hints on where free space is. Kept only for a writable volume.
    pub(crate) space: Hints,
    /// Chooses the group of the next directory.
    pub(crate) rotor: Rotor,
    /// Positions of the inode records that were changed last.
    pub(crate) record_cache: RecordCache,
    /// Inodes without a name that stay on the unlinked lists, although they are not open.
    pub(crate) orphans_left: Mutex<Vec<Orphan>>,
    /// Damaged orphans, which stay on their lists.
    pub(crate) damaged_orphans: Mutex<Vec<Orphan>>,
    /// Files that are open for writing.
    pub(crate) contents: Contents,
    /// It was closed: every later change is refused.
    closed: AtomicBool,
    log_head: Option<Lsn>,
    replay: Option<Replay>,
    faults: Vec<Corruption>,
    /// The secondary superblock that is read in place of a damaged primary.
    secondary: Option<SecondarySuperblock>,
    /// Inodes whose attribute forks have no incomplete attributes left by a crash.
    pub(crate) swept: Swept,
    /// Free space and block maps of large directories.
    pub(crate) dir_cache: DirCache,
}

impl Volume {
    /// Opens the volume on `dev`. The device is written only if [`OpenOptions::write`] asks for it.
    ///
    /// A device that ends before the volume does is opened too, so that what is left can be read:
    /// see [`faults`](Self::faults). The journal is replayed if all of it is there.
    ///
    /// # Errors
    /// [`Error::Superblock`] if the device is not XFS or needs a newer reader, [`Error::Device`],
    /// and [`Error::Journal`] if the journal cannot be replayed.
    pub fn open(dev: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Self> {
        if options.write {
            return Self::open_writable(dev, options);
        }
        let FoundSuperblock { sb, healed, secondary } = find_superblock(&*dev)?;
        let geo = sb.geometry();
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
        Ok(Self {
            geo: sb.geometry(),
            sb: RwLock::new(sb),
            cache,
            engine: None,
            wsync: false,
            space: Hints::default(),
            rotor: Rotor::default(),
            record_cache: RecordCache::default(),
            orphans_left: Mutex::default(),
            damaged_orphans: Mutex::default(),
            contents: Contents::default(),
            closed: AtomicBool::new(false),
            log_head,
            replay,
            faults,
            secondary,
            swept: Swept::default(),
            dir_cache: DirCache::default(),
        })
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
        writable::refuse(&sb, &*dev)?;
        let replay = writable::recover(&dev, &sb, options)?;
        let clean = replay.clean;
        let volume = Self::replayed(dev, options, replay)?;
        writable::reset_quota(&volume)?;
        volume.inactivate_orphans()?;
        if !clean {
            volume.free_staging()?;
        }
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
        let (log_head, space) = (None, Hints::new(sb.agcount.get()));
        let volume = Self {
            geo: sb.geometry(),
            sb: RwLock::new(sb),
            cache,
            engine: Some(Running::new(engine)),
            wsync: options.journal.wsync,
            space,
            rotor: Rotor::default(),
            record_cache: RecordCache::default(),
            orphans_left: Mutex::default(),
            damaged_orphans: Mutex::default(),
            contents: Contents::default(),
            closed: AtomicBool::new(false),
            log_head,
            replay: Some(replay),
            faults: vec![],
            secondary: None,
            swept: Swept::default(),
            dir_cache: DirCache::default(),
        };
        if !intents.is_empty() {
            recovery::finish(&volume, &intents)?;
        }
        volume.set_aside();
        Ok(volume)
    }

    /// Makes all changes so far durable, file contents included.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Trans`] if the volume was shut down, or if this call shuts it
    /// down.
    pub fn sync(&self) -> Result<()> {
        let engine = self.engine()?;
        self.flush_contents()?;
        Ok(engine.checkpoint()?)
    }

    /// Closes the volume: makes all changes durable, writes them in place, writes the counters to
    /// the superblock, and marks the journal clean. The journal stays dirty if there are orphans
    /// that could not be freed, because no mount looks for orphans behind a clean journal. Does
    /// nothing for a volume that is open for reading.
    ///
    /// # Errors
    /// [`Error::Trans`] if the volume was shut down, or if this call shuts it down.
    pub fn close(self) -> Result<()> {
        self.close_counted().map(drop)
    }

    /// Closes like [`close`](Self::close), and returns the statistics since the volume was opened
    /// and the orphans that keep the journal dirty.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn close_counted(self) -> Result<Closed> {
        self.close_shared()
    }

    /// The same for a volume that other parts of the program still refer to: every later change
    /// fails with [`Error::Closed`]. The caller makes sure that no change is under way.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn close_shared(&self) -> Result<Closed> {
        self.check_open()?;
        if let Some(engine) = &self.engine {
            self.flush_contents()?;
            self.unstage_contents()?;
            if !std::mem::take(&mut *self.orphans_left.lock()).is_empty() {
                engine.checkpoint()?;
                self.inactivate_orphans()?;
            }
            writable::log_counters(self)?;
            if self.orphans_left.lock().is_empty() {
                engine.unmount()?;
            } else {
                engine.checkpoint()?;
                engine.write_back()?;
            }
        }
        self.closed.store(true, Ordering::Release);
        let orphans_left = std::mem::take(&mut *self.orphans_left.lock());
        Ok(Closed { stats: self.stats(), orphans_left })
    }

    /// Fails if the volume was closed.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns the statistics so far. A read-only volume has those of the buffer cache only.
    pub fn stats(&self) -> Stats {
        match &self.engine {
            Some(engine) => engine.stats(),
            None => Stats { buffers: self.cache.stats(), ..Stats::default() },
        }
    }

    /// Returns the corruptions of the volume as a whole that did not keep it from being opened.
    pub fn faults(&self) -> &[Corruption] {
        &self.faults
    }

    /// Returns the secondary superblock that is read in place of the primary, if that is damaged.
    pub fn secondary_superblock(&self) -> Option<&SecondarySuperblock> {
        self.secondary.as_ref()
    }

    /// Returns what the journal held when the volume was opened; `None` if it was not read.
    pub fn replay(&self) -> Option<&Replay> {
        self.replay.as_ref()
    }

    /// Returns the journal's head, if it is known. No metadata may be newer.
    pub fn log_head(&self) -> Option<Lsn> {
        self.log_head
    }

    /// Returns the volume's sizes, which also convert units.
    pub fn geo(&self) -> &Geometry {
        &self.geo
    }

    /// Returns the primary superblock, as recovery and later changes left it. For counters see
    /// [`counts`](Self::counts).
    pub fn superblock(&self) -> Superblock {
        self.sb.read().clone()
    }

    /// Returns the numbers of inodes and blocks.
    pub fn counts(&self) -> Counts {
        let sb = self.superblock();
        let Some(engine) = &self.engine else {
            let (icount, ifree) = (sb.icount.get(), sb.ifree.get());
            return Counts { icount, ifree, fdblocks: sb.fdblocks.get() };
        };
        engine.commit_parked();
        let now = engine.counters().get();
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        let (icount, ifree) = (count(now.icount), count(now.ifree));
        Counts { icount, ifree, fdblocks: count(now.fdblocks) }
    }

    /// Returns the buffer cache. The device lies below it.
    pub fn cache(&self) -> &BufCache {
        &self.cache
    }

    /// Returns the data device, seen through the replayed journal.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.cache.device()
    }

    /// Returns the context for verifying a block at `at`.
    pub fn ctx(&self, at: Location) -> Ctx<'_> {
        Ctx::new(&self.geo, at).log_head(self.log_head)
    }

    /// Reads the metadata block at `at` (its `daddr` and `sectors`) and checks it with `verify`.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn read_buf(
        &self,
        at: Location,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Arc<Buf>> {
        let daddr = at.daddr.ok_or_else(|| Error::Unsupported(format!("{at}: no address")))?;
        Ok(self.cache.read(&BufMap::single(daddr, at.sectors), &self.ctx(at), verify)?)
    }

    /// Reads and verifies the AGF of group `agno`.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn agf(&self, agno: AgNumber) -> Result<Agf> {
        let at = agf::location(&self.geo, agno);
        let buf = self.read_buf(at, &|bytes, ctx| Agf::verify(bytes, ctx, agno).map(|_| ()))?;
        Ok(Agf::verify(&buf, &self.ctx(at).crc_known(), agno)?.clone())
    }

    /// Reads and verifies the AGI of group `agno`.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn agi(&self, agno: AgNumber) -> Result<Agi> {
        let at = agi::location(&self.geo, agno);
        let buf = self.read_buf(at, &|bytes, ctx| Agi::verify(bytes, ctx, agno).map(|_| ()))?;
        Ok(Agi::verify(&buf, &self.ctx(at).crc_known(), agno)?.clone())
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
    let log = recovery::open_log(&*dev, log_dev, &geo);
    if log.is_ok_and(|log| log.is_clean()) {
        let replay = recovery::replay(&*dev, log_dev, sb)?;
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
    let replay = recovery::replay_if(&*copy, log_dev, sb, &options.replay, |_| Ok(()))?;
    if replay.unfinished.is_empty() {
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
    recovery::refuse(&replay.unfinished)?;
    let options = OpenOptions { log_dev, ..options.clone() };
    let volume = Volume::replayed(Arc::clone(&copy), &options, replay.clone())?;
    let mut replay = volume.replay.clone().unwrap_or_else(|| replay.clone());
    volume.close()?;
    replay.head = recovery::open_log(&*copy, options.log_dev.as_deref(), &sb.geometry())?.head();
    Ok((copy, replay))
}

/// Adds the blocks that healed during the replay to those of the cache.
fn note_healed(cache: &BufCache, replay: &Replay) {
    for record in &replay.healed {
        cache.heals().note(Box::new(record.corruption.clone()), record.rewritten);
    }
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
