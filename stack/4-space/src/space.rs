//! The part of a volume that allocation needs: geometry, superblock, cache, engine, counters.

use std::sync::Arc;

use parking_lot::RwLock;
use xfskit_format::agf::Agf;
use xfskit_format::agi::Agi;
use xfskit_format::sb::Superblock;
use xfskit_format::{Ctx, Location, VerifyResult, agf, agi};
use xfskit_trans::{Buf, BufCache, BufMap, Engine, Running, Stats};
use xfskit_units::features::VersionNum;
use xfskit_units::{AgBlock, AgNumber, ExtLen, FsBlock, Geometry, Ino, Lsn};

use crate::error::{Error, Result};
use crate::hints::Hints;
use crate::kept::Kept;
use crate::record_cache::RecordCache;
use crate::reserved::Reserved;
use crate::rotor::Rotor;

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

/// The allocation groups of a volume, open for reading, or for writing too. Shared by all threads.
#[derive(Debug)]
pub struct Space {
    geo: Geometry,
    /// The primary superblock; no other lock is taken while this one is held.
    sb: RwLock<Superblock>,
    cache: Arc<BufCache>,
    /// The engine of a volume that is open for writing.
    engine: Option<Running>,
    log_head: Option<Lsn>,
    /// The longest free extent of each group.
    pub(crate) hints: Hints,
    /// The group for the next directory.
    rotor: Rotor,
    /// The positions of the newest inodes' records in their trees.
    pub(crate) record_cache: RecordCache,
    /// Free blocks that are reserved.
    pub(crate) reserved: Reserved,
    /// Free extents that the allocator leaves alone.
    pub(crate) kept: Kept,
}

impl Space {
    /// Makes the space of a volume that is read through `cache`. `log_head` is the journal's head
    /// where that is known; with an `engine` the volume can be changed.
    pub fn new(
        sb: Superblock,
        cache: Arc<BufCache>,
        engine: Option<Engine>,
        log_head: Option<Lsn>,
    ) -> Self {
        let hints = if engine.is_some() { Hints::new(sb.agcount.get()) } else { Hints::default() };
        Self {
            geo: sb.geometry(),
            sb: RwLock::new(sb),
            cache,
            engine: engine.map(Running::new),
            log_head,
            hints,
            rotor: Rotor::default(),
            record_cache: RecordCache::default(),
            reserved: Reserved::default(),
            kept: Kept::default(),
        }
    }

    /// Returns sizes and conversions.
    #[inline]
    pub fn geo(&self) -> &Geometry {
        &self.geo
    }

    /// Returns the primary superblock, as recovery and the last change of it left it. For counters
    /// see [`counts`](Self::counts).
    pub fn superblock(&self) -> Superblock {
        self.sb.read().clone()
    }

    /// Replaces the copy of the primary superblock by `sb`, as it was read anew.
    pub fn set_superblock(&self, sb: Superblock) {
        *self.sb.write() = sb;
    }

    /// Returns the superblock's word of version and old features.
    pub fn versionnum(&self) -> VersionNum {
        VersionNum::from_bits_retain(self.sb.read().versionnum.get())
    }

    /// Returns the engine of a volume that is open for writing.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    #[inline]
    pub fn engine(&self) -> Result<&Engine> {
        self.engine.as_deref().ok_or(Error::ReadOnly)
    }

    /// Returns true if the volume is open for writing.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.engine.is_some()
    }

    /// Returns the numbers of inodes and blocks.
    pub fn counts(&self) -> Counts {
        let Ok(engine) = self.engine() else {
            let sb = self.sb.read();
            let (icount, ifree) = (sb.icount.get(), sb.ifree.get());
            return Counts { icount, ifree, fdblocks: sb.fdblocks.get() };
        };
        engine.commit_parked();
        let now = engine.counters().get();
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        let (icount, ifree) = (count(now.icount), count(now.ifree));
        Counts { icount, ifree, fdblocks: count(now.fdblocks) }
    }

    /// Returns the statistics so far. A read-only volume has those of the buffer cache only.
    pub fn stats(&self) -> Stats {
        match self.engine() {
            Ok(engine) => engine.stats(),
            Err(_) => Stats { buffers: self.cache.stats(), ..Stats::default() },
        }
    }

    /// Returns the buffer cache, and the device below it.
    #[inline]
    pub fn cache(&self) -> &BufCache {
        &self.cache
    }

    /// Returns the journal's head, where it is known: no metadata may be newer.
    #[inline]
    pub fn log_head(&self) -> Option<Lsn> {
        self.log_head
    }

    /// Returns what a verifier needs to know about a block at `at`.
    #[inline]
    pub fn ctx(&self, at: Location) -> Ctx<'_> {
        Ctx::new(&self.geo, at).log_head(self.log_head)
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
        let daddr = at.daddr.ok_or_else(|| Error::Unsupported(format!("{at}: no address")))?;
        Ok(self.cache.read(&BufMap::single(daddr, at.sectors), &self.ctx(at), verify)?)
    }

    /// Returns the AGF of group `agno`, verified.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn agf(&self, agno: AgNumber) -> Result<Agf> {
        let at = agf::location(&self.geo, agno);
        let buf = self.read_buf(at, &|bytes, ctx| Agf::verify(bytes, ctx, agno).map(|_| ()))?;
        Ok(Agf::verify(&buf, &self.ctx(at).crc_known(), agno)?.clone())
    }

    /// Returns the AGI of group `agno`, verified.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn agi(&self, agno: AgNumber) -> Result<Agi> {
        let at = agi::location(&self.geo, agno);
        let buf = self.read_buf(at, &|bytes, ctx| Agi::verify(bytes, ctx, agno).map(|_| ()))?;
        Ok(Agi::verify(&buf, &self.ctx(at).crc_known(), agno)?.clone())
    }

    /// Returns the group that contains the whole extent, and its first block there.
    pub(crate) fn split_extent(&self, start: FsBlock, len: ExtLen) -> Result<(AgNumber, AgBlock)> {
        let found = self.geo.fsb_split(start);
        let found = found.filter(|&(agno, agbno)| self.geo.valid_agb_extent(agno, agbno, len));
        found.ok_or(Error::Limit("an extent lies outside of the volume"))
    }

    /// Returns the groups for a new inode, the best first: for a directory the next in turn, for
    /// all else that of its directory `parent`.
    pub fn groups_for(
        &self,
        parent: Ino,
        is_directory: bool,
    ) -> impl Iterator<Item = AgNumber> + use<> {
        self.rotor.candidates(&self.geo, parent, is_directory)
    }
}
