//! The contents of the groups' headers and btrees.

use xfskit_format::bmbt::Extent as Mapped;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK};
use xfskit_format::rmap::{self, owner};
use xfskit_mkfs::group::{Group, owned};
use xfskit_mkfs::group_btrees::place_btrees;
use xfskit_mkfs::layout::{AgLayout, Extent};
use xfskit_units::{AgBlock, AgIno, AgNumber, ExtLen, Geometry, Ino};

use super::inode_order::{InodeOrder, REALTIME_INODES};
use super::inode_plan::{InodePlan, Map};
use super::space::Space;

/// Owners of all blocks of all groups.
pub(super) struct Owners<'g> {
    geo: &'g Geometry,
    /// Indexed by group. Empty if the volume does not record them.
    records: Vec<Vec<rmap::Rec>>,
}

impl<'g> Owners<'g> {
    pub(super) fn new(geo: &'g Geometry) -> Self {
        Self { geo, records: geo.ags().map(|_| Vec::new()).collect() }
    }

    /// Adds all blocks of one inode.
    pub(super) fn add(&mut self, inode_plan: &InodePlan<'_>) {
        if !self.geo.features.rmapbt() {
            return;
        }
        self.add_map(inode_plan.ino, &inode_plan.data, 0);
        self.add_map(inode_plan.ino, &inode_plan.attr, rmap::OFF_ATTR_FORK);
    }

    fn add_map(&mut self, ino: Ino, map: &Map, fork: u64) {
        for Mapped { startoff, startblock, blockcount, .. } in &map.extents {
            let len = u32::try_from(blockcount.0).unwrap_or(u32::MAX);
            self.push(ino, startblock.0, len, fork | startoff.0);
        }
        for place in &map.places {
            self.push(ino, place.0, 1, fork | rmap::OFF_BMBT_BLOCK);
        }
    }

    fn push(&mut self, ino: Ino, fsbno: u64, len: u32, offset: u64) {
        let Some((agno, agbno)) = self.geo.fsb_split(xfskit_units::FsBlock(fsbno)) else { return };
        self.records[agno.0 as usize].push(rmap::Rec {
            startblock: agbno.0.into(),
            blockcount: len.into(),
            owner: ino.0.into(),
            offset: offset.into(),
        });
    }

    /// Returns all groups, with blocks for their btrees.
    pub(super) fn into_groups(self, inode_order: &InodeOrder, space: Space<'_>) -> Vec<Group> {
        let geo = self.geo;
        let all = geo.ags().zip(self.records).zip(space.groups);
        all.map(|((agno, records), space)| {
            place_btrees(geo, filled(geo, agno, records, inode_order), space)
        })
        .collect()
    }
}

/// Returns a group with its files, whose btrees have no blocks yet.
fn filled(
    geo: &Geometry,
    agno: AgNumber,
    files: Vec<rmap::Rec>,
    inode_order: &InodeOrder,
) -> Group {
    let layout = AgLayout::of(geo, agno);
    let inodes = &inode_order.groups[agno.0 as usize];
    let mut group = Group::empty(geo, agno);
    if let Some(chunks) = inodes.chunks {
        let realtime = if agno.0 == 0 { REALTIME_INODES } else { 0 };
        let used = u32::try_from(inodes.count).unwrap_or(u32::MAX) + realtime;
        group.chunks = chunk_records(geo, chunks, used);
        let newest = AgBlock(chunks.end() - geo.chunk_blocks());
        group.newino = Some(geo.agb_to_agino(newest));
        let first = layout.chunk.map_or(0, |chunk| chunk.len.0);
        let more =
            Extent { start: AgBlock(chunks.start.0 + first), len: ExtLen(chunks.len.0 - first) };
        if more.len.0 > 0 {
            group.owners.push(owned(more, owner::INODES));
        }
    }
    group.owners.extend(files);
    group
}

/// Returns the records of `chunks`, of which the first `used` inodes are in use.
fn chunk_records(geo: &Geometry, chunks: Extent, used: u32) -> Vec<Chunk> {
    let first = geo.agb_to_agino(chunks.start).0;
    let end = first + (chunks.len.0 << geo.inopblog);
    let record = |startino: u32| {
        let used = used.saturating_sub(startino - first).min(INODES_PER_CHUNK);
        Chunk {
            startino: AgIno(startino),
            holemask: 0,
            count: INODES_PER_CHUNK,
            freecount: INODES_PER_CHUNK - used,
            free: u64::MAX.checked_shl(used).unwrap_or(0),
        }
    };
    (first..end).step_by(INODES_PER_CHUNK as usize).map(record).collect()
}
