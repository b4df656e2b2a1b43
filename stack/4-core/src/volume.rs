//! A volume: open, geometry, AG headers, counters.

use std::sync::Arc;

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
use crate::ialloc::{Orphan, Remembered, Rotor};
use crate::options::{JournalOptions, OpenOptions};
use crate::recovery::{self, Replay};
use crate::space::Hints;
use crate::superblock::{
    FoundSuperblock, StandIn, find_superblock, read_superblock, superblock_to_write,
};
use crate::writable;

/// Most memory that a replay in memory takes for what it changes, in bytes.
const REPLAY_MEMORY_MAX: u64 = 64 << 20;

/// The superblock's counters, as they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Inodes that there are, those that are free included.
    pub icount: u64,
    /// Inodes that are free.
    pub ifree: u64,
    /// Blocks that are free.
    pub fdblocks: u64,
}

/// What became of a volume that was closed.
#[derive(Clone, Debug)]
pub struct Closed {
    /// What was done with it.
    pub stats: Stats,
    /// Deleted inodes that could not be given back for a failure of the device. For them the
    /// journal stays dirty, and the next opening for writing tries again.
    pub orphans_left: Vec<Orphan>,
}

/// An XFS filesystem, open for reading, or for writing too. Shared by all threads.
#[derive(Debug)]
pub struct Volume {
    geo: Geometry,
    /// The primary superblock; nothing is locked while this is.
    pub(crate) sb: RwLock<Superblock>,
    cache: Arc<BufCache>,
    /// What makes it writable.
    pub(crate) engine: Option<Running>,
    /// Every change is durable before it is answered.
    pub(crate) wsync: bool,
    /// Where free space is, roughly; of a volume that is open for writing.
    pub(crate) space: Hints,
    /// Where the next directory goes.
    pub(crate) rotor: Rotor,
    /// Where the records of the newest inodes stand.
    pub(crate) remembered: Remembered,
    /// Inodes without a name may be on unlinked lists that nobody holds open.
    pub(crate) orphans_left: Mutex<Vec<Orphan>>,
    /// Orphans that are damaged, and stay on their lists.
    pub(crate) damaged_orphans: Mutex<Vec<Orphan>>,
    /// Files that are open for writing.
    pub(crate) contents: Contents,
    log_head: Option<Lsn>,
    replay: Option<Replay>,
    faults: Vec<Corruption>,
    /// The copy that is read in the place of the primary superblock.
    stand_in: Option<StandIn>,
    /// Inodes whose attributes hold nothing that Linux left behind.
    pub(crate) swept: Swept,
    /// Where large directories have room.
    pub(crate) rooms: DirCache,
}

impl Volume {
    /// Opens the volume on `dev`, which is written to only where [`OpenOptions::write`] asks for
    /// that.
    ///
    /// A device that ends before the volume does is opened all the same, for what is left of it may
    /// be wanted: see [`faults`](Self::faults). Its journal is replayed where all of it is there.
    ///
    /// # Errors
    /// [`Error::Superblock`] for what is no XFS or needs a newer reader, [`Error::Device`], and
    /// [`Error::Journal`] where the journal cannot be replayed.
    pub fn open(dev: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Self> {
        if options.write {
            return Self::open_writable(dev, options);
        }
        let FoundSuperblock { sb, healed, stand_in } = find_superblock(&*dev)?;
        let geo = sb.geometry();
        let faults = judge_size(&geo, dev.size());
        let (dev, replay) = if options.recovery && log_is_there(&geo, dev.size()) {
            recovered(dev, options, &sb, stand_in.is_some())?
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
            remembered: Remembered::default(),
            orphans_left: Mutex::default(),
            damaged_orphans: Mutex::default(),
            contents: Contents::default(),
            log_head,
            replay,
            faults,
            stand_in,
            swept: Swept::default(),
            rooms: DirCache::default(),
        })
    }

    /// Opens for reading and writing: what cannot be written refuses by name first, then the
    /// journal is replayed onto the device and continued, and its intents are finished.
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
            remembered: Remembered::default(),
            orphans_left: Mutex::default(),
            damaged_orphans: Mutex::default(),
            contents: Contents::default(),
            log_head,
            replay: Some(replay),
            faults: vec![],
            stand_in: None,
            swept: Swept::default(),
            rooms: DirCache::default(),
        };
        if !intents.is_empty() {
            recovery::finish(&volume, &intents)?;
        }
        volume.set_aside();
        Ok(volume)
    }

    /// All changes so far become durable, the content of files too.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Trans`] where the volume was shut down, or is by this.
    pub fn sync(&self) -> Result<()> {
        let engine = self.engine()?;
        self.flush_contents()?;
        Ok(engine.checkpoint()?)
    }

    /// All changes become durable and go in place, the counters go into the superblock, and the
    /// journal is marked clean, unless there are orphans that could not be given back: nobody would
    /// look for them behind a clean journal. Nothing to do for a volume that is open for reading.
    ///
    /// # Errors
    /// [`Error::Trans`] where the volume was shut down, or is by this.
    pub fn close(self) -> Result<()> {
        self.close_counted().map(drop)
    }

    /// The same, and answers what was done with the volume since it was opened, and which orphans
    /// keep the journal from being clean.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn close_counted(self) -> Result<Closed> {
        if let Some(engine) = &self.engine {
            self.flush_contents()?;
            self.unstage_contents()?;
            if !std::mem::take(&mut *self.orphans_left.lock()).is_empty() {
                engine.checkpoint()?;
                self.inactivate_orphans()?;
            }
            writable::log_counters(&self)?;
            if self.orphans_left.lock().is_empty() {
                engine.unmount()?;
            } else {
                engine.checkpoint()?;
                engine.write_back()?;
            }
        }
        let orphans_left = std::mem::take(&mut *self.orphans_left.lock());
        Ok(Closed { stats: self.stats(), orphans_left })
    }

    /// What was done with the volume so far. Of one that is open for reading the buffers only.
    pub fn stats(&self) -> Stats {
        match &self.engine {
            Some(engine) => engine.stats(),
            None => Stats { buffers: self.cache.stats(), ..Stats::default() },
        }
    }

    /// What was found wrong with the volume as a whole, though it could be opened.
    pub fn faults(&self) -> &[Corruption] {
        &self.faults
    }

    /// The copy that is read in the place of the primary superblock, where that is damaged.
    pub fn stand_in(&self) -> Option<&StandIn> {
        self.stand_in.as_ref()
    }

    /// What the journal held when the volume was opened; `None` where nobody looked.
    pub fn replay(&self) -> Option<&Replay> {
        self.replay.as_ref()
    }

    /// The journal's head, where it is known: no metadata may be newer.
    pub fn log_head(&self) -> Option<Lsn> {
        self.log_head
    }

    /// Sizes and conversions.
    pub fn geo(&self) -> &Geometry {
        &self.geo
    }

    /// The primary superblock, as recovery and the last change of it left it. For counters see
    /// [`counts`](Self::counts).
    pub fn superblock(&self) -> Superblock {
        self.sb.read().clone()
    }

    /// Inodes and blocks, counted.
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

    /// The buffer cache, and the device below it.
    pub fn cache(&self) -> &BufCache {
        &self.cache
    }

    /// The data device, seen through the replayed journal.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.cache.device()
    }

    /// What a verifier needs to know about a block at `at`.
    pub fn ctx(&self, at: Location) -> Ctx<'_> {
        Ctx::new(&self.geo, at).log_head(self.log_head)
    }

    /// The metadata block at `at` (its `daddr` and `sectors`), judged by `verify`.
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

    /// The AGF of group `agno`, verified.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn agf(&self, agno: AgNumber) -> Result<Agf> {
        let at = agf::location(&self.geo, agno);
        let buf = self.read_buf(at, &|bytes, ctx| Agf::verify(bytes, ctx, agno).map(|_| ()))?;
        Ok(Agf::verify(&buf, &self.ctx(at).crc_known(), agno)?.clone())
    }

    /// The AGI of group `agno`, verified.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn agi(&self, agno: AgNumber) -> Result<Agi> {
        let at = agi::location(&self.geo, agno);
        let buf = self.read_buf(at, &|bytes, ctx| Agi::verify(bytes, ctx, agno).map(|_| ()))?;
        Ok(Agi::verify(&buf, &self.ctx(at).crc_known(), agno)?.clone())
    }
}

/// The device as it is with the journal replayed: `dev` itself where the journal is clean, else a
/// copy-on-write copy of it in memory. `stand_in`: `sb` is not what stands on the device, and goes
/// into the copy.
fn recovered(
    dev: Arc<dyn BlockDevice>,
    options: &OpenOptions,
    sb: &Superblock,
    stand_in: bool,
) -> Result<(Arc<dyn BlockDevice>, Option<Replay>)> {
    let log_dev = options.log_dev.as_deref();
    // Damage is reported by the replay.
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
    if stand_in {
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

/// Memory for what a replay in memory changes, beside `cache_bytes` for metadata.
fn replay_memory(cache_bytes: usize) -> ByteLen {
    ByteLen((cache_bytes as u64 / 4).min(REPLAY_MEMORY_MAX))
}

/// A copy in memory of `dev`, whose journal was replayed, with its intents finished.
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

/// What healed of the journal is told with what heals of the rest.
fn note_healed(cache: &BufCache, replay: &Replay) {
    for record in &replay.healed {
        cache.heals().note(Box::new(record.corruption.clone()), record.rewritten);
    }
}

/// The fault of a device that ends before the volume does.
fn judge_size(geo: &Geometry, size: ByteLen) -> Vec<Corruption> {
    if geo.data_bytes() <= size {
        return Vec::new();
    }
    let ctx = Ctx::new(geo, sb::location(geo, AgNumber(0)));
    let need = Expected::AtLeast(geo.data_bytes().0.into());
    vec![*ctx.corruption("sb.device-size", need, size.0)]
}

/// True unless the device ends before an internal log does.
fn log_is_there(geo: &Geometry, size: ByteLen) -> bool {
    let Some(start) = geo.log_daddr() else { return true };
    let end = start.byte_offset().0 + (u64::from(geo.logblocks) << geo.blocklog);
    end <= size.0
}
