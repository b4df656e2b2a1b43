//! Which blocks the forks of an inode map to metadata.
//!
//! Directories, attribute forks, symlinks, quota files, the realtime bitmap and its summary are
//! metadata. Of other files only the extent btree is.

use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use xfskit_format::bmbt::{self, Extent};
use xfskit_format::bytes::{be16, be32};
use xfskit_format::dir::data::{Slot, Slots};
use xfskit_format::dir::sf::Sf;
use xfskit_format::inode::{self, Dinode, FileType, Format, InodeFlags2};
use xfskit_format::{Fork, Layout};
use xfskit_units::{Daddr, FsBlock, Ino, index};
use zerocopy::FromBytes;

use crate::runs::{Kind, Run, Scattered};
use crate::walk::Source;

/// Most blocks of an extent btree that are read at once.
const BATCH: usize = 256;

/// What the forks of inodes led to.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) runs: Vec<Run>,
    pub(crate) scattered: Vec<Scattered>,
    /// First inode of each 64 of which a directory names one: short-form directories, and others if
    /// inode chunks are missing.
    pub(crate) named: FxHashSet<u64>,
}

impl Found {
    /// Adds what was found elsewhere.
    pub(crate) fn extend(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.scattered.extend(other.scattered);
        self.named.extend(other.named);
    }

    /// Adds an inode that a directory names.
    fn name(&mut self, ino: Ino) {
        self.named.insert(ino.0 & !63);
    }
}

/// Adds the inodes that a directory block names.
pub(crate) fn collect_names(source: &Source<'_>, block: &[u8], found: &mut Found) {
    for slot in Slots::of(block, source.geo) {
        if let Slot::Entry(entry) = slot {
            found.name(entry.inumber);
        }
    }
}

/// Facts about all inodes of the volume.
#[derive(Debug)]
pub(crate) struct Inodes {
    /// Regular files that are metadata.
    pub(crate) plain: Vec<Ino>,
    /// Blocks of extent btrees found so far.
    pub(crate) seen: Mutex<FxHashSet<u64>>,
}

/// One fork of one inode.
struct ForkWalk<'a, 'b> {
    source: &'a Source<'a>,
    inodes: &'a Inodes,
    ino: Ino,
    found: &'b mut Found,
}

/// Adds the blocks of both forks of inode `ino`.
pub(crate) fn collect(
    source: &Source<'_>,
    inodes: &Inodes,
    ino: Ino,
    bytes: &[u8],
    found: &mut Found,
) {
    let Some(inode) = Dinode::parse(bytes, source.geo) else { return };
    if inode.core.magic.get() != inode::MAGIC || inode.is_free() {
        return;
    }
    let metadata = inode.flags2().contains(InodeFlags2::METADATA);
    let data = match inode.file_type() {
        Some(FileType::Directory) => Some(Kind::Dir { metadata }),
        Some(FileType::Symlink) => Some(Kind::Symlink { left: 0 }),
        Some(FileType::Regular) if metadata || inodes.plain.contains(&ino) => Some(Kind::Plain),
        _ => None,
    };
    let local = inode.is_dir() && inode.format() == Some(Format::Local);
    if local {
        let entries = Sf::parse(inode.data_fork(), source.geo).map(|sf| sf.entries());
        entries.into_iter().flatten().for_each(|entry| found.name(entry.inumber));
    }
    let mut walk = ForkWalk { source, inodes, ino, found };
    walk.fork(&inode, Fork::Data, data);
    walk.fork(&inode, Fork::Attr, Some(Kind::Attr { metadata }));
}

impl ForkWalk<'_, '_> {
    /// Adds the blocks of one fork: the blocks of its extent btree, and with a `kind` the blocks
    /// that it maps.
    fn fork(&mut self, inode: &Dinode<'_>, fork: Fork, kind: Option<Kind>) {
        let Some(room) = inode.fork(fork) else { return };
        let extents = match inode.fork_format(fork) {
            Some(Format::Extents) if kind.is_some() => {
                let count = index(inode.fork_nextents(fork)).min(bmbt::inline_records(room.len()));
                bmbt::records(room, count).iter().map(bmbt::Rec::decode).collect()
            }
            Some(Format::Btree) => self.btree(room, fork, kind.is_some()),
            _ => return,
        };
        match kind {
            Some(Kind::Dir { .. }) if self.source.geo.dirblkfsbs() > 1 => {
                self.dir(&extents, kind.unwrap_or(Kind::Plain));
            }
            Some(Kind::Symlink { .. }) => self.symlink(&extents, index(inode.size().0)),
            Some(kind) => {
                for extent in &extents {
                    self.extent(extent, kind);
                }
            }
            None => {}
        }
    }

    /// Adds the blocks of an extent btree, and returns its records if `mapped`.
    fn btree(&mut self, room: &[u8], fork: Fork, mapped: bool) -> Vec<Extent> {
        let geo = self.source.geo;
        let mut extents = Vec::new();
        let max = bmbt::root_maxrecs(room.len());
        let (Some(level), Some(count)) = (be16(room, 0), be16(room, 2)) else { return extents };
        if level == 0 || level >= bmbt::max_levels(geo, fork) || usize::from(count) > max {
            self.broken("the root of its extent btree is damaged");
            return extents;
        }
        let mut level = level - 1;
        let mut blocks = pointers(room, 4 + 8 * max, count.into());
        loop {
            blocks.retain(|&block| self.is_new(block));
            let place = |&block: &u64| geo.fsb_to_daddr(FsBlock(block)).unwrap_or(Daddr(0));
            let sectors = u32::try_from(geo.block_sectors().0).unwrap_or(u32::MAX);
            self.found.runs.extend(blocks.iter().map(|block| Run {
                start: place(block),
                sectors,
                kind: Kind::Bmbt,
                owner: Some(self.ino),
            }));
            if level == 0 && !mapped {
                return extents;
            }
            let mut children = Vec::new();
            for some in blocks.chunks(BATCH) {
                let places: Vec<Daddr> = some.iter().map(place).collect();
                for block in self.source.read_blocks(&places).into_iter().flatten() {
                    if !self.block(&block, level, &mut children, &mut extents) {
                        self.broken("a block of its extent btree is damaged and not followed");
                    }
                }
            }
            if level == 0 {
                return extents;
            }
            level -= 1;
            blocks = children;
        }
    }

    /// Takes the children or the records of a block. Returns false if it is damaged.
    fn block(
        &self,
        block: &[u8],
        level: u16,
        children: &mut Vec<u64>,
        extents: &mut Vec<Extent>,
    ) -> bool {
        let geo = self.source.geo;
        let layout = Layout::of(geo);
        let (Some(magic), Some(found), Some(count)) =
            (be32(block, 0), be16(block, 4), be16(block, 6))
        else {
            return false;
        };
        let (count, max) = (usize::from(count), bmbt::maxrecs(geo));
        if magic != layout.bmap_magic || found != level || count > max {
            return false;
        }
        if level > 0 {
            children.extend(pointers(block, layout.long_header + 8 * max, count));
            return true;
        }
        let body = block.get(layout.long_header..).unwrap_or(&[]);
        let Ok((recs, _)) = <[bmbt::Rec]>::ref_from_prefix_with_elems(body, count) else {
            return false;
        };
        extents.extend(recs.iter().map(bmbt::Rec::decode));
        true
    }

    /// Returns true if `block` exists and no extent btree has it yet.
    fn is_new(&self, block: u64) -> bool {
        let valid = self.source.geo.valid_fsbno(FsBlock(block));
        let new = valid && self.inodes.seen.lock().insert(block);
        if !new {
            self.broken("a block of its extent btree does not exist or is in use");
        }
        new
    }

    fn broken(&self, what: &str) {
        self.source.broken(|| format!("inode {}: {what}", self.ino));
    }

    /// Adds the blocks of an extent; nothing if it is not within the volume.
    fn extent(&mut self, extent: &Extent, kind: Kind) {
        if let Some(run) = self.run(extent, kind) {
            self.found.runs.push(run);
        }
    }

    fn run(&self, extent: &Extent, kind: Kind) -> Option<Run> {
        let geo = self.source.geo;
        let (block, count) = (extent.startblock, extent.blockcount.0);
        if !geo.valid_fsb_extent(block, count) {
            self.broken("an extent is not within the volume");
            return None;
        }
        let sectors = u32::try_from(count.checked_mul(geo.block_sectors().0)?).ok()?;
        Some(Run { start: geo.fsb_to_daddr(block)?, sectors, kind, owner: Some(self.ino) })
    }

    /// Adds the blocks of a directory whose blocks are several filesystem blocks: ranges of whole
    /// blocks, and blocks in several extents.
    fn dir(&mut self, extents: &[Extent], kind: Kind) {
        let geo = self.source.geo;
        let step = u64::from(geo.dirblkfsbs());
        let mut open: Vec<Run> = Vec::new();
        let mut filled = 0;
        let mut next = 0;
        for extent in extents {
            let (mut at, end) = (extent.startoff.0, extent.end().0);
            if at != next && filled > 0 {
                self.close(&mut open, &mut filled);
            }
            next = end;
            while at < end {
                let into = at % step;
                let whole = (end - at) / step * step;
                let count = if into == 0 && filled == 0 && whole > 0 {
                    whole
                } else {
                    (step - into).min(end - at)
                };
                let skip = at - extent.startoff.0;
                let part = Extent {
                    startoff: xfskit_units::FileOff(at),
                    startblock: FsBlock(extent.startblock.0.saturating_add(skip)),
                    blockcount: xfskit_units::FilBlks(count),
                    ..*extent
                };
                at += count;
                let Some(run) = self.run(&part, kind) else { break };
                if count == whole && into == 0 && filled == 0 {
                    self.found.runs.push(run);
                    continue;
                }
                open.push(run);
                filled += count;
                if at.is_multiple_of(step) {
                    self.close(&mut open, &mut filled);
                }
            }
        }
        self.close(&mut open, &mut filled);
    }

    /// Ends a directory block in several pieces.
    fn close(&mut self, open: &mut Vec<Run>, filled: &mut u64) {
        let pieces = std::mem::take(open);
        if *filled == u64::from(self.source.geo.dirblkfsbs()) {
            self.found.scattered.push(Scattered { pieces });
        } else if !pieces.is_empty() {
            self.broken("a directory block is incomplete");
            // Its pieces are copied as blocks that cannot be decoded.
            let metadata = matches!(pieces[0].kind, Kind::Dir { metadata: true });
            self.found.scattered.extend(pieces.into_iter().map(|run| Scattered {
                pieces: vec![Run { kind: Kind::Dir { metadata }, ..run }],
            }));
        }
        *filled = 0;
    }

    /// Adds the extents of a remote target of `size` bytes.
    fn symlink(&mut self, extents: &[Extent], size: usize) {
        let geo = self.source.geo;
        let header = Layout::of(geo).symlink_header;
        let mut left = size;
        for extent in extents {
            // A target has 1023 bytes. More blocks than that belong to something else.
            let most = (2048 >> geo.blocklog).max(1) + 2;
            if extent.blockcount.0 > most {
                self.broken("an extent of its target is too long");
                continue;
            }
            let room = (index(extent.blockcount.0) << geo.blocklog).saturating_sub(header);
            self.extent(extent, Kind::Symlink { left: u16::try_from(left).unwrap_or(u16::MAX) });
            left = left.saturating_sub(room);
        }
    }
}

/// Returns `count` pointers of 8 bytes from byte `at` on.
fn pointers(bytes: &[u8], at: usize, count: usize) -> Vec<u64> {
    let (words, _) = bytes.get(at..).unwrap_or(&[]).as_chunks::<8>();
    words.iter().take(count).map(|word| u64::from_be_bytes(*word)).collect()
}
