//! Where the metadata of a group lies: headers, btrees, inode chunks.
//!
//! Nothing is verified but what is needed to go on: a magic, a level, a pointer within the group.
//! Levels decrease on the way down and no block is read twice, so the walk ends on any volume.

use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashSet;
use xfskit_block::{BlockDevice, IoRead};
use xfskit_format::agbtree::Tree;
use xfskit_format::agf::{self, Agf};
use xfskit_format::agi::{self, Agi};
use xfskit_format::bytes::{be16, be32};
use xfskit_format::{Layout, inobt, inode};
use xfskit_units::{AgBlock, AgNumber, ByteOffset, Daddr, ExtLen, Geometry, Ino};
use zerocopy::FromBytes;

use crate::report::{Sink, WarningKind};
use crate::runs::{Kind, Run};

/// Most blocks that are read at once.
const BATCH: usize = 256;

/// The volume that is dumped.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) dev: &'a dyn BlockDevice,
    pub(crate) geo: &'a Geometry,
    pub(crate) sink: &'a Sink,
    /// Set when inode chunks may be missing from what the inode btrees list.
    pub(crate) inodes_lost: AtomicBool,
}

impl Source<'_> {
    /// Warns that a pointer is not followed.
    pub(crate) fn broken(&self, text: impl FnOnce() -> String) {
        self.sink.warn(WarningKind::Pointer, text);
    }

    pub(crate) fn unreadable(&self, start: Daddr, error: &xfskit_block::Error) {
        self.sink.warn(WarningKind::Unreadable, || format!("sector {start}: {error}"));
    }

    /// Reads the blocks of `blocksize` bytes at `places`. `None` stands for a block that cannot be
    /// read.
    pub(crate) fn read_blocks(&self, places: &[Daddr]) -> Vec<Option<Vec<u8>>> {
        let mut blocks: Vec<Vec<u8>> = vec![vec![0; self.geo.blocksize()]; places.len()];
        let mut batch: Vec<IoRead<'_>> = places
            .iter()
            .zip(&mut blocks)
            .map(|(place, block)| IoRead { offset: place.byte_offset(), buf: block })
            .collect();
        let results = self.dev.read_batch(&mut batch);
        let read = |((place, block), result): ((&Daddr, Vec<u8>), _)| match result {
            Ok(()) => Some(block),
            Err(error) => {
                self.unreadable(*place, &error);
                None
            }
        };
        places.iter().zip(blocks).zip(results).map(read).collect()
    }
}

/// Returns the ranges of group `agno`, in order.
pub(crate) fn group(source: &Source<'_>, agno: AgNumber) -> Vec<Run> {
    let geo = source.geo;
    let start = geo.ag_header_daddr(agno, 0);
    let sectors = u32::try_from(4 * geo.sect_sectors().0).unwrap_or(u32::MAX);
    let mut walk = Walk { source, agno, seen: FxHashSet::default(), runs: Vec::new() };
    walk.runs.push(Run { start, sectors, kind: Kind::Header, owner: None });
    let mut headers = vec![0; 4 * geo.sectsize()];
    if let Err(error) = source.dev.read_at(start.byte_offset(), &mut headers) {
        source.unreadable(start, &error);
        source.inodes_lost.store(true, Ordering::Relaxed);
        return walk.runs;
    }
    let sector = |n: usize| &headers[n * geo.sectsize()..];
    match Agf::ref_from_prefix(sector(1)) {
        Ok((agf, _)) if agf.magicnum.get() == agf::MAGIC => {
            walk.tree(Tree::Bno, agf.bnoroot.get());
            walk.tree(Tree::Cnt, agf.cntroot.get());
            walk.tree(Tree::Rmap, agf.rmaproot.get());
            walk.tree(Tree::Refcount, agf.refcntroot.get());
        }
        _ => source.broken(|| format!("the AGF of group {agno} has no magic")),
    }
    match Agi::ref_from_prefix(sector(2)) {
        Ok((agi, _)) if agi.magicnum.get() == agi::MAGIC => {
            walk.tree(Tree::Ino, agi.root.get());
            walk.tree(Tree::Fino, agi.free_root.get());
        }
        _ => {
            source.inodes_lost.store(true, Ordering::Relaxed);
            source.broken(|| format!("the AGI of group {agno} has no magic"));
        }
    }
    walk.runs
}

struct Walk<'a> {
    source: &'a Source<'a>,
    agno: AgNumber,
    /// Blocks of btrees found so far.
    seen: FxHashSet<u32>,
    runs: Vec<Run>,
}

impl Walk<'_> {
    /// Adds the blocks of a tree, and the inode chunks of the inobt. Leaves of other trees are not
    /// read.
    fn tree(&mut self, tree: Tree, root: u32) {
        let geo = self.source.geo;
        if !tree.exists(geo) {
            return;
        }
        let (agno, name) = (self.agno, tree.ids().tree);
        let mut blocks = vec![root];
        // The level of the blocks; only the root itself tells that of the root.
        let mut level: Option<u16> = None;
        while !blocks.is_empty() {
            blocks.retain(|&agbno| {
                let valid = geo.valid_agbno(agno, AgBlock(agbno)) && self.seen.insert(agbno);
                if !valid {
                    self.lost(tree);
                    self.source.broken(|| {
                        format!("{name} of group {agno}: block {agbno} does not exist or is in use")
                    });
                }
                valid
            });
            let place = |&agbno: &u32| geo.agb_to_daddr(agno, AgBlock(agbno));
            let sectors = u32::try_from(geo.block_sectors().0).unwrap_or(u32::MAX);
            self.runs.extend(blocks.iter().map(|agbno| Run {
                start: place(agbno),
                sectors,
                kind: Kind::Tree(tree),
                owner: None,
            }));
            if level == Some(0) && tree != Tree::Ino {
                return;
            }
            let mut children = Vec::new();
            let mut next = None;
            for some in blocks.chunks(BATCH) {
                let places: Vec<Daddr> = some.iter().map(place).collect();
                let read = self.source.read_blocks(&places);
                for (agbno, block) in some.iter().zip(read) {
                    let Some(block) = block else {
                        self.lost(tree);
                        continue;
                    };
                    if let Some(found) = self.block(tree, *agbno, &block, level, &mut children) {
                        next = Some(found);
                    }
                }
            }
            blocks = children;
            level = next.and_then(|level: u16| level.checked_sub(1));
            if level.is_none() {
                return;
            }
        }
    }

    /// Takes the children of a node, or the chunks of a leaf. Returns the level of the block.
    fn block(
        &mut self,
        tree: Tree,
        agbno: u32,
        block: &[u8],
        expected: Option<u16>,
        children: &mut Vec<u32>,
    ) -> Option<u16> {
        let geo = self.source.geo;
        let (agno, name) = (self.agno, tree.ids().tree);
        let level = be16(block, 4)?;
        let count = usize::from(be16(block, 6)?);
        let right = be32(block, 0) == Some(tree.magic(geo))
            && u32::from(level) < tree.max_levels(geo)
            && expected.is_none_or(|expected| expected == level)
            && count <= tree.maxrecs(geo, level);
        if !right {
            self.lost(tree);
            self.source.broken(|| {
                format!("{name} of group {agno}: block {agbno} is damaged and not followed")
            });
            return None;
        }
        let body = block.get(Layout::of(geo).short_header..)?;
        if level > 0 {
            let ptrs = body.get(tree.maxrecs(geo, level) * tree.key_len()..)?;
            let (words, _) = ptrs.as_chunks::<4>();
            children.extend(words.iter().take(count).map(|word| u32::from_be_bytes(*word)));
        } else if tree == Tree::Ino {
            let (recs, _) = <[inobt::Rec]>::ref_from_prefix_with_elems(body, count).ok()?;
            for rec in recs {
                self.chunk(&rec.decode(geo));
            }
        }
        Some(level)
    }

    /// Takes note that a part of a tree is missing.
    fn lost(&self, tree: Tree) {
        if tree == Tree::Ino {
            self.source.inodes_lost.store(true, Ordering::Relaxed);
        }
    }

    /// Adds the blocks of an inode chunk that exist.
    fn chunk(&mut self, chunk: &inobt::Chunk) {
        let geo = self.source.geo;
        let (agno, startino) = (self.agno, chunk.startino);
        let first = geo.agino_to_agb(startino);
        let per_block = geo.inopblock();
        let present = chunk.present();
        let sectors = u32::try_from(geo.block_sectors().0).unwrap_or(u32::MAX);
        for i in 0..geo.chunk_blocks() {
            let agbno = AgBlock(first.0.saturating_add(i));
            let inodes = match per_block {
                0..64 => present >> (i * per_block) & ((1 << per_block) - 1),
                _ => present,
            };
            if inodes == 0 {
                continue;
            }
            let whole = startino.0.is_multiple_of(per_block.min(64));
            if !whole || !geo.valid_agb_extent(agno, agbno, ExtLen(1)) {
                self.lost(Tree::Ino);
                self.source.broken(|| {
                    format!("inobt of group {agno}: the chunk at {startino} does not exist")
                });
                return;
            }
            let start = geo.agb_to_daddr(agno, agbno);
            match self.runs.last_mut() {
                Some(last) if last.kind == Kind::Inodes && last.end() == start.0 => {
                    last.sectors = last.sectors.saturating_add(sectors);
                }
                Some(last)
                    if last.kind == Kind::Inodes && last.end() > start.0 && per_block > 64 => {}
                _ => self.runs.push(Run { start, sectors, kind: Kind::Inodes, owner: None }),
            }
        }
    }
}

/// Returns the blocks that have inodes and are not `taken`. `named` has the first inode of each 64
/// that are looked for.
pub(crate) fn named_blocks(
    source: &Source<'_>,
    named: &FxHashSet<u64>,
    taken: &[(u64, u64)],
) -> Vec<Run> {
    let geo = source.geo;
    let mut places = Vec::new();
    for first in named.iter().map(|ino| Ino(*ino)) {
        let Some((agno, agino)) = geo.ino_split(first) else { continue };
        let start = geo.agino_to_agb(agino);
        for agbno in (0..geo.chunk_blocks()).map(|i| AgBlock(start.0.saturating_add(i))) {
            let valid = geo.valid_agb_extent(agno, agbno, ExtLen(1));
            let place = geo.agb_to_daddr(agno, agbno);
            let next = taken.partition_point(|(_, end)| *end <= place.0);
            if valid && taken.get(next).is_none_or(|(start, _)| *start > place.0) {
                places.push(place);
            }
        }
    }
    places.sort_unstable();
    places.dedup();
    let mut runs = Vec::new();
    let sectors = u32::try_from(geo.block_sectors().0).unwrap_or(u32::MAX);
    for some in places.chunks(BATCH) {
        for (start, block) in some.iter().zip(source.read_blocks(some)) {
            if block.is_some_and(|block| be16(&block, 0) == Some(inode::MAGIC)) {
                runs.push(Run { start: *start, sectors, kind: Kind::Inodes, owner: None });
            }
        }
    }
    runs
}

/// Returns the offset of a sector in bytes.
pub(crate) fn byte_of(sector: u64) -> ByteOffset {
    Daddr(sector).byte_offset()
}
