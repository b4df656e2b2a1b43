//! A volume: its parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use xfskit_block::BlockDevice;
use xfskit_format::agf::Agf;
use xfskit_format::agi::Agi;
use xfskit_format::sb::Superblock;
use xfskit_format::{Corruption, Ctx, Location, VerifyResult};
use xfskit_recovery::Replay;
use xfskit_space::{Counts, Space};
use xfskit_trans::{Buf, BufCache, Engine, Stats};
use xfskit_units::{AgNumber, Geometry, Lsn};

use crate::attr_map::AttrMaps;
use crate::dir_cache::DirCache;
use crate::error::{Error, Result};
use crate::open_files::Contents;
use crate::orphan::Orphan;
use crate::superblock::SecondarySuperblock;
use crate::swept::Swept;

/// An XFS filesystem, open for reading, or for reading and writing. All threads share it.
#[derive(Debug)]
pub struct Volume {
    /// Its allocation groups: geometry, cache, engine.
    pub(crate) space: Space,
    /// If true, every change is durable before it returns.
    pub(crate) wsync: bool,
    /// Inodes without a name that stay on the unlinked lists, although they are not open.
    pub(crate) orphans_left: Mutex<Vec<Orphan>>,
    /// Damaged orphans, which stay on their lists.
    pub(crate) damaged_orphans: Mutex<Vec<Orphan>>,
    /// Files that are open for writing.
    pub(crate) contents: Contents,
    /// True once the volume was closed: every later change is refused.
    pub(crate) closed: AtomicBool,
    pub(crate) replay: Option<Replay>,
    /// The device of an external log, if one was named.
    pub(crate) log_dev: Option<Arc<dyn BlockDevice>>,
    pub(crate) faults: Vec<Corruption>,
    /// The secondary superblock that is read in place of a damaged primary.
    pub(crate) secondary: Option<SecondarySuperblock>,
    /// Inodes whose attribute forks have no incomplete attributes left by a crash.
    pub(crate) swept: Swept,
    /// Free space and block maps of large directories.
    pub(crate) dir_cache: DirCache,
    /// Block maps of large attribute forks.
    pub(crate) attr_maps: AttrMaps,
}

impl Volume {
    /// Makes a volume of its allocation groups.
    pub(crate) fn new(space: Space) -> Self {
        Self {
            attr_maps: AttrMaps::new(space.cache().limit()),
            space,
            wsync: false,
            orphans_left: Mutex::default(),
            damaged_orphans: Mutex::default(),
            contents: Contents::default(),
            closed: AtomicBool::new(false),
            replay: None,
            log_dev: None,
            faults: Vec::new(),
            secondary: None,
            swept: Swept::default(),
            dir_cache: DirCache::default(),
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

    /// Returns the device of the external log with which the volume was opened.
    pub fn log_device(&self) -> Option<&dyn BlockDevice> {
        self.log_dev.as_deref()
    }

    /// Returns the journal's head, if it is known. No metadata may be newer.
    pub fn log_head(&self) -> Option<Lsn> {
        self.space.log_head()
    }

    /// Returns the allocation groups: what is free, and what is reserved.
    #[inline]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the volume's sizes, which also convert units.
    #[inline]
    pub fn geo(&self) -> &Geometry {
        self.space.geo()
    }

    /// Returns the engine of a volume that is open for writing.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Closed`].
    #[inline]
    pub fn engine(&self) -> Result<&Engine> {
        self.check_open()?;
        Ok(self.space.engine()?)
    }

    /// Fails if the volume was closed.
    ///
    /// # Errors
    /// [`Error::Closed`].
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns the statistics so far. A read-only volume has those of the buffer cache only.
    pub fn stats(&self) -> Stats {
        self.space.stats()
    }

    /// Returns the primary superblock, as recovery and the last change of it left it. For counters
    /// see [`counts`](Self::counts).
    pub fn superblock(&self) -> Superblock {
        self.space.superblock()
    }

    /// Returns the numbers of inodes and blocks.
    pub fn counts(&self) -> Counts {
        self.space.counts()
    }

    /// Returns the free blocks that file data can take. Data that waits in memory has its blocks
    /// reserved already.
    pub fn blocks_available(&self) -> u64 {
        self.space.blocks_available()
    }

    /// Returns the buffer cache, and the device below it.
    #[inline]
    pub fn cache(&self) -> &BufCache {
        self.space.cache()
    }

    /// Returns the data device, seen through the replayed journal.
    #[inline]
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        self.cache().device()
    }

    /// Returns what a verifier needs to know about a block at `at`.
    #[inline]
    pub fn ctx(&self, at: Location) -> Ctx<'_> {
        self.space.ctx(at)
    }

    /// Returns the metadata block at `at` (its `daddr` and `sectors`), verified by `verify`.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn read_buf(
        &self,
        at: Location,
        verify: &dyn Fn(&[u8], &Ctx<'_>) -> VerifyResult,
    ) -> Result<Arc<Buf>> {
        Ok(self.space.read_buf(at, verify)?)
    }

    /// Returns the AGF of group `agno`, verified.
    ///
    /// # Errors
    /// As [`read_buf`](Self::read_buf).
    pub fn agf(&self, agno: AgNumber) -> Result<Agf> {
        Ok(self.space.agf(agno)?)
    }

    /// Returns the AGI of group `agno`, verified.
    ///
    /// # Errors
    /// As [`read_buf`](Self::read_buf).
    pub fn agi(&self, agno: AgNumber) -> Result<Agi> {
        Ok(self.space.agi(agno)?)
    }
}
