//! From blocks to the files and structures that own them.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, RangeInclusive};
use std::path::PathBuf;

use xfskit_core::Error as Core;
use xfskit_locate::{self as locate, AgRange, Owned, Owner};
use xfskit_units::{AgBlock, AgNumber, Daddr, FsBlock, Geometry};

use crate::builder::{cancel_method, progress_method};
use crate::cause::Cause;
use crate::progress::Control;
use crate::{
    CancelToken, Error, FileFork, FindPaths, InodePaths, InodeState, Progress, Result, Volume,
};

/// Finds what blocks belong to: a builder. The rmapbt of a volume gives the owners at once. On a
/// volume without, one scan of all structures serves all blocks together, as `blockget` of xfs_db
/// does.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// # let volume = xfskit::Volume::open("disk.img")?;
/// use xfskit::{BlockRange, FindOwners};
///
/// let found = FindOwners::new(&volume).run(&[BlockRange::FsBlocks(24..=31)])?;
/// for owned in found.ranges.into_iter().flatten().flatten() {
///     println!("{} {} {:?} {:?}", owned.fsblock, owned.blockcount, owned.owner, owned.path);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is searched until `run` is called"]
pub struct FindOwners<'c> {
    volume: Volume,
    threads: usize,
    scan: bool,
    without_paths: bool,
    control: Control<'c>,
}

/// Some blocks of a volume, the last one included.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockRange {
    /// By the numbers of the volume, which have the group in the high bits.
    FsBlocks(RangeInclusive<u64>),
    /// Blocks of one group, by their numbers there.
    AgBlocks(u32, RangeInclusive<u32>),
    /// By sectors of 512 bytes on the data device.
    Daddrs(RangeInclusive<u64>),
    /// By bytes on the data device.
    Bytes(RangeInclusive<u64>),
}

/// What a block belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockOwner {
    /// Free space.
    Free,
    /// The free list of the group (AGFL).
    FreeList,
    /// The headers of the group.
    Headers,
    /// The journal.
    Log,
    /// A btree of the group, by the kernel's name: `bnobt`.
    Btree(&'static str),
    /// One of several btrees, or the free list; the block does not show which.
    SomeBtree,
    /// Inodes, used or free, from this number on.
    Inodes(RangeInclusive<u64>),
    /// Staging blocks of copy-on-write, which are freed when the volume is opened for writing.
    Staging,
    /// Content of a fork of a file.
    #[non_exhaustive]
    Extent {
        /// The inode.
        ino: u64,
        /// The fork.
        fork: FileFork,
        /// Offset in the fork, in blocks.
        startoff: u64,
        /// Allocated, and never written.
        unwritten: bool,
        /// Some of the blocks belong to other files, or other offsets of this one, too.
        shared: bool,
    },
    /// A block of the extent tree of a fork.
    #[non_exhaustive]
    ExtentTree {
        /// The inode.
        ino: u64,
        /// The fork.
        fork: FileFork,
    },
    /// An owner that the format does not define.
    Undefined(u64),
    /// Nothing: neither in use nor free.
    Leaked,
    /// Not known, because of damage.
    Unknown,
}

impl BlockOwner {
    /// Returns the inode that owns the blocks.
    pub fn ino(&self) -> Option<u64> {
        match *self {
            Self::Extent { ino, .. } | Self::ExtentTree { ino, .. } => Some(ino),
            _ => None,
        }
    }
}

/// A run of blocks with one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedBlocks {
    /// The first block, in the numbers of the volume.
    pub fsblock: u64,
    /// The group.
    pub agno: u32,
    /// The first block, in the numbers of the group.
    pub agbno: u32,
    /// Number of blocks.
    pub blockcount: u32,
    /// Where on the data device, in bytes.
    pub device_offset: u64,
    /// The owner.
    pub owner: BlockOwner,
    /// A path of the owner, if it is a file and a path was found.
    pub path: Option<PathBuf>,
    /// What the inode of the owner is, if paths were searched for: one without a path may have been
    /// removed, or be the volume's own.
    pub state: Option<InodeState>,
}

/// The result of [`FindOwners`].
#[derive(Debug)]
#[non_exhaustive]
pub struct OwnersFound {
    /// For each range its owners, in the order of the blocks. A shared block has several. A range
    /// that the volume does not have is an error.
    pub ranges: Vec<Result<Vec<OwnedBlocks>>>,
    /// Damage that the search met.
    pub warnings: Vec<Error>,
    /// Number of warnings that were not kept.
    pub warnings_more: u64,
}

impl<'c> FindOwners<'c> {
    /// Returns a search on `volume`.
    pub fn new(volume: &Volume) -> Self {
        let (threads, scan, without_paths) = (0, false, false);
        Self { volume: volume.clone(), threads, scan, without_paths, control: Control::default() }
    }

    /// Scans with so many threads. One for each processor by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Scans the volume even where it has an rmapbt.
    pub fn scan(mut self, scan: bool) -> Self {
        self.scan = scan;
        self
    }

    /// Also finds a path of each file. On by default.
    pub fn paths(mut self, paths: bool) -> Self {
        self.without_paths = !paths;
        self
    }

    progress_method! {
        /// Receives the progress of a scan: of inodes, then of directories, whose total is not
        /// known.
    }

    cancel_method! {
        /// Stops when the token is cancelled: [`Cancelled`](crate::ErrorKind::Cancelled).
    }

    /// Finds the owners of all blocks of these ranges. Damage is a result, not an error. On a
    /// volume that is open for writing, all changes are written in place first; nothing else should
    /// change it meanwhile.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed), [`Cancelled`](crate::ErrorKind::Cancelled); those of
    /// [`Volume::sync`].
    pub fn run(&self, ranges: &[BlockRange]) -> Result<OwnersFound> {
        let owner = &self.volume.owner;
        let _running = owner.enter()?;
        let volume = owner.volume();
        if owner.is_writable() {
            volume.write_back().map_err(Error::new)?;
        }
        let geo = volume.geo();
        let resolved: Vec<_> = ranges.iter().map(|range| groups_of(geo, range)).collect();
        let wanted: Vec<AgRange> = resolved.iter().flatten().flatten().cloned().collect();
        let progress = |done, total| -> ControlFlow<()> {
            let _inside = owner.inside();
            self.control.at(done, total)
        };
        let threads = crate::check::thread_count(self.threads);
        let options = locate::Options { threads, scan: self.scan, progress: &progress };
        let found = locate::owners(volume, &wanted, &options);
        if !found.complete {
            return Err(Error::new(Cause::Cancelled));
        }
        let inos = found.owned.iter().flatten().filter_map(|owned| owned.owner.ino());
        let inos: Vec<u64> = inos.map(|ino| ino.0).collect();
        let mut warnings: Vec<Error> = found.warnings.first.into_iter().map(Error::new).collect();
        let mut warnings_more = found.warnings.more;
        let paths = if self.without_paths || inos.is_empty() {
            BTreeMap::new()
        } else {
            let mut search = FindPaths::new(&self.volume).limit(1).cancel(&self.control.cancel);
            search = search.progress(|at| self.control.report(at.done, at.total));
            let found = search.run(inos)?;
            warnings.extend(found.warnings);
            warnings_more = warnings_more.saturating_add(found.warnings_more);
            found.inodes.into_iter().map(|inode| (inode.ino, inode)).collect()
        };
        let mut owned = found.owned.into_iter();
        let mut next = |groups: Vec<AgRange>| {
            let parts = owned.by_ref().take(groups.len()).flatten().collect::<Vec<_>>();
            describe(geo, &parts, &paths)
        };
        let ranges = resolved.into_iter().map(|groups| Ok(next(groups?))).collect();
        Ok(OwnersFound { ranges, warnings, warnings_more })
    }
}

/// Returns the blocks of a range, group by group.
fn groups_of(geo: &Geometry, range: &BlockRange) -> Result<Vec<AgRange>> {
    let ends = match range {
        BlockRange::FsBlocks(blocks) => {
            let split = |block: &u64| geo.fsb_split(FsBlock(*block));
            split(blocks.start()).zip(split(blocks.end()))
        }
        BlockRange::AgBlocks(agno, blocks) => {
            let agno = AgNumber(*agno);
            let exists = *blocks.end() < geo.ag_length(agno);
            exists.then_some(((agno, AgBlock(*blocks.start())), (agno, AgBlock(*blocks.end()))))
        }
        BlockRange::Daddrs(sectors) => {
            let split = |sector: &u64| geo.daddr_to_agb(Daddr(*sector));
            split(sectors.start()).zip(split(sectors.end()))
        }
        BlockRange::Bytes(bytes) => {
            let split = |byte: &u64| geo.daddr_to_agb(Daddr(*byte / 512));
            split(bytes.start()).zip(split(bytes.end()))
        }
    };
    let Some((first, last)) = ends.filter(|(first, last)| first <= last) else {
        return Err(Error::new(Core::Missing("such block")));
    };
    let groups = (first.0.0..=last.0.0).map(AgNumber).map(|agno| AgRange {
        agno,
        blocks: if agno == first.0 { first.1.0 } else { 0 }..if agno == last.0 {
            last.1.0.saturating_add(1)
        } else {
            geo.ag_length(agno)
        },
    });
    Ok(groups.collect())
}

/// Returns runs of blocks as the caller sees them.
fn describe(
    geo: &Geometry,
    parts: &[Owned],
    paths: &BTreeMap<u64, InodePaths>,
) -> Vec<OwnedBlocks> {
    let shared = shared(parts);
    let described = parts.iter().zip(shared).map(|(part, shared)| {
        let owner = owner_of(geo, part, shared);
        let inode = owner.ino().and_then(|ino| paths.get(&ino));
        OwnedBlocks {
            fsblock: geo.agb_to_fsb(part.agno, part.start).0,
            agno: part.agno.0,
            agbno: part.start.0,
            blockcount: part.len.0,
            device_offset: geo.agb_to_daddr(part.agno, part.start).byte_offset().0,
            path: inode.and_then(|inode| inode.paths.first().cloned()),
            state: inode.map(|inode| inode.state),
            owner,
        }
    });
    described.collect()
}

/// Returns for each run, which are in the order of their blocks, whether it is an extent with
/// blocks that another extent has, too.
fn shared(parts: &[Owned]) -> Vec<bool> {
    let mut shared = vec![false; parts.len()];
    // The extent before that ends last.
    let mut furthest: Option<usize> = None;
    for (index, part) in parts.iter().enumerate() {
        if !matches!(part.owner, Owner::Extent { .. }) {
            continue;
        }
        let before = furthest.filter(|&before| parts[before].agno == part.agno);
        if let Some(before) = before
            && part.start.0 < parts[before].end()
        {
            shared[before] = true;
            shared[index] = true;
        }
        if before.is_none_or(|before| parts[before].end() < part.end()) {
            furthest = Some(index);
        }
    }
    shared
}

fn owner_of(geo: &Geometry, part: &Owned, shared: bool) -> BlockOwner {
    match part.owner {
        Owner::Free => BlockOwner::Free,
        Owner::FreeList => BlockOwner::FreeList,
        Owner::Headers => BlockOwner::Headers,
        Owner::Log => BlockOwner::Log,
        Owner::Tree(tree) => BlockOwner::Btree(tree.ids().tree),
        Owner::AgMetadata | Owner::InodeTree => BlockOwner::SomeBtree,
        Owner::Inodes(first) => {
            let count = u64::from(part.len.0).saturating_mul(geo.inopblock().into());
            BlockOwner::Inodes(first.0..=first.0.saturating_add(count.saturating_sub(1)))
        }
        Owner::Staging => BlockOwner::Staging,
        Owner::Extent { ino, fork: of, startoff, unwritten } => BlockOwner::Extent {
            ino: ino.0,
            fork: of.into(),
            startoff: startoff.0,
            unwritten,
            shared,
        },
        Owner::ForkTree { ino, fork: of } => BlockOwner::ExtentTree { ino: ino.0, fork: of.into() },
        Owner::Undefined(owner) => BlockOwner::Undefined(owner),
        Owner::Leaked => BlockOwner::Leaked,
        Owner::Unknown => BlockOwner::Unknown,
    }
}
