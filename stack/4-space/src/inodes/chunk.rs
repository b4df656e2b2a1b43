//! Allocation and freeing of inode chunks.

use std::mem::offset_of;

use xfskit_format::Image;
use xfskit_format::agi::Agi;
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK, INODES_PER_HOLEMASK_BIT};
use xfskit_format::log::item::encode;
use xfskit_format::reserve;
use xfskit_trans::{BufMap, NewCluster};
use xfskit_units::{AgBlock, AgIno, ExtLen, Sectors};
use zerocopy::big_endian::U32;

use super::group::InodeGroup;
use super::records;
use crate::error::{Error, Result};
use crate::extent::{AllocRequest, Owner};
use crate::tx::SpaceTx;

/// Allocates a chunk in the group, a sparse one if free space is fragmented. Returns `false` if
/// there is no space for either.
pub(super) fn make(tx: &mut SpaceTx<'_>, group: InodeGroup, generation: u32) -> Result<bool> {
    let geo = tx.space().geo();
    if over_limit(tx) {
        return Ok(false);
    }
    let whole = geo.chunk_blocks();
    let align = if geo.inoalignmt == 0 { 1 } else { geo.cluster_align().max(geo.inoalignmt) };
    let is_busy = match alloc(tx, group, whole, align) {
        Ok(start) => {
            init(tx, group, start, whole, generation)?;
            add_whole(tx, group, start)?;
            return Ok(true);
        }
        Err(Error::NoSpace(_)) => false,
        Err(Error::BusyExtents) => true,
        Err(error) => return Err(error),
    };
    let part = geo.spino_align;
    if geo.features.sparse() && part > 0 && part < whole {
        match alloc(tx, group, part, part) {
            Ok(start) if fits(tx, group, start) => {
                init(tx, group, start, part, generation)?;
                add_sparse(tx, group, start, part)?;
                return Ok(true);
            }
            Ok(start) => {
                // At the very end of the group, where no record may reach beyond.
                let fsb = geo.agb_to_fsb(group.agno, start);
                tx.free_extent(fsb, ExtLen(part), Owner::Inodes)?;
            }
            Err(Error::NoSpace(_) | Error::BusyExtents) => {}
            Err(error) => return Err(error),
        }
    }
    if is_busy { Err(Error::BusyExtents) } else { Ok(false) }
}

/// Returns true if one more chunk would exceed the volume's limit for inodes.
fn over_limit(tx: &SpaceTx<'_>) -> bool {
    let geo = tx.space().geo();
    let Some(most) = reserve::inodes_max(geo) else { return false };
    let icount = tx.space().engine().map_or(0, |engine| engine.counters().get().icount);
    let more = u64::from(geo.chunk_blocks()) << geo.inopblog;
    u64::try_from(icount).unwrap_or(0).saturating_add(more) > most
}

fn alloc(tx: &mut SpaceTx<'_>, group: InodeGroup, blocks: u32, align: u32) -> Result<AgBlock> {
    let geo = tx.space().geo();
    let newino = group.header(tx)?.newino.get();
    let near = if newino == u32::MAX { AgBlock(0) } else { geo.agino_to_agb(AgIno(newino)) };
    let request = AllocRequest::exactly(blocks, geo.agb_to_fsb(group.agno, near), Owner::Inodes)
        .align(align)
        .in_this_group();
    let (start, _) = tx.alloc_extent(&request)?;
    Ok(geo.fsb_split(start).map_or(AgBlock(0), |(_, agbno)| agbno))
}

/// Returns true if Linux accepts a sparse record for a chunk with a part at `start`.
fn fits(tx: &SpaceTx<'_>, group: InodeGroup, start: AgBlock) -> bool {
    let geo = tx.space().geo();
    let align = geo.inoalignmt.max(1);
    let length = geo.ag_length(group.agno);
    let last = (length - length % align).saturating_sub(geo.chunk_blocks());
    let chunk = start.0 - start.0 % align;
    chunk >= align && chunk <= last
}

/// Initialises `blocks` blocks with empty inodes.
fn init(
    tx: &mut SpaceTx<'_>,
    group: InodeGroup,
    start: AgBlock,
    blocks: u32,
    generation: u32,
) -> Result<()> {
    let geo = tx.space().geo();
    let cluster = geo.cluster_blocks().min(blocks).max(1);
    for first in (start.0..start.0.saturating_add(blocks)).step_by(cluster as usize).map(AgBlock) {
        let len = Sectors(geo.block_sectors().0 * u64::from(cluster));
        let map = BufMap::single(geo.agb_to_daddr(group.agno, first), len);
        let first = geo.agino_to_ino(group.agno, geo.agb_to_agino(first));
        tx.new_cluster(&map, NewCluster { first, generation })?;
    }
    tx.icreate(encode::icreate(geo, group.agno, start, ExtLen(blocks), generation));
    let newino = U32::new(geo.agb_to_agino(start).0);
    tx.image(group.agi).put(offset_of!(Agi, newino), &newino);
    Ok(())
}

/// Adds a record for every 64 inodes of a whole chunk: blocks may hold more than 64.
fn add_whole(tx: &mut SpaceTx<'_>, group: InodeGroup, start: AgBlock) -> Result<()> {
    let geo = tx.space().geo();
    let first = geo.agb_to_agino(start).0;
    let inodes = geo.chunk_blocks() << geo.inopblog;
    for startino in (first..first.saturating_add(inodes)).step_by(INODES_PER_CHUNK as usize) {
        let chunk = Chunk {
            startino: AgIno(startino),
            holemask: 0,
            count: INODES_PER_CHUNK,
            freecount: INODES_PER_CHUNK,
            free: u64::MAX,
        };
        records::insert(tx, group, &chunk)?;
    }
    group.count(tx, inodes.into(), inodes.into())
}

/// Adds a sparse record, merged into the present one for the same 64 numbers.
fn add_sparse(tx: &mut SpaceTx<'_>, group: InodeGroup, start: AgBlock, blocks: u32) -> Result<()> {
    let geo = tx.space().geo();
    let chunk_start = AgBlock(start.0 - start.0 % geo.inoalignmt.max(1));
    let startino = geo.agb_to_agino(chunk_start);
    let ahead = (start.0 - chunk_start.0) << geo.inopblog;
    let inodes = blocks << geo.inopblog;
    let bits = (0..16).filter(|bit| {
        let number = bit * INODES_PER_HOLEMASK_BIT;
        (ahead..ahead + inodes).contains(&number)
    });
    let present = bits.fold(0_u16, |mask, bit| mask | 1 << bit);
    let new =
        Chunk { startino, holemask: !present, count: inodes, freecount: inodes, free: u64::MAX };
    match records::exactly(tx, group, startino)? {
        None => records::insert(tx, group, &new)?,
        Some(old) => {
            let merged = Chunk {
                startino,
                holemask: old.holemask & new.holemask,
                count: old.count + new.count,
                freecount: old.freecount + new.freecount,
                free: old.free & new.free,
            };
            records::update(tx, group, &old, &merged)?;
        }
    }
    group.count(tx, inodes.into(), inodes.into())
}

/// Frees a chunk, one of whose inodes is the last in use: `chunk` is its present record.
pub(super) fn give_back(tx: &mut SpaceTx<'_>, group: InodeGroup, chunk: &Chunk) -> Result<()> {
    let geo = tx.space().geo().clone();
    records::delete(tx, group, chunk)?;
    group.count(tx, -i64::from(chunk.count), -i64::from(chunk.freecount))?;
    let first = geo.agino_to_ino(group.agno, chunk.startino).0;
    for ino in (first..first + u64::from(INODES_PER_CHUNK)).map(xfskit_units::Ino) {
        tx.forget_inode(ino)?;
    }
    let start = geo.agino_to_agb(chunk.startino).0;
    for (from, len) in present_blocks(chunk, geo.inopblog) {
        let cluster = geo.cluster_blocks().min(len).max(1);
        for block in (start + from..start + from + len).step_by(cluster as usize) {
            let daddr = geo.agb_to_daddr(group.agno, AgBlock(block));
            let sectors = Sectors(geo.block_sectors().0 * u64::from(cluster));
            tx.invalidate_at(&BufMap::single(daddr, sectors))?;
        }
        let fsb = geo.agb_to_fsb(group.agno, AgBlock(start + from));
        tx.free_extent(fsb, ExtLen(len), Owner::Inodes)?;
    }
    Ok(())
}

/// Returns the runs of blocks that a chunk has, counted from its first number's block.
fn present_blocks(chunk: &Chunk, inopblog: u8) -> Vec<(u32, u32)> {
    let present = chunk.present();
    let blocks = INODES_PER_CHUNK >> inopblog;
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for block in 0..blocks.max(1) {
        if present & (1 << (block << inopblog)) == 0 {
            continue;
        }
        match runs.last_mut() {
            Some((from, len)) if *from + *len == block => *len += 1,
            _ => runs.push((block, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_sparse_chunks_are_those_without_holes() {
        let chunk =
            |holemask| Chunk { startino: AgIno(128), holemask, count: 32, freecount: 0, free: 0 };
        assert_eq!(present_blocks(&chunk(0), 3), [(0, 8)]);
        assert_eq!(present_blocks(&chunk(0xff00), 3), [(0, 4)]);
        assert_eq!(present_blocks(&chunk(0x00ff), 3), [(4, 4)]);
        assert_eq!(present_blocks(&chunk(0x0ff0), 3), [(0, 2), (6, 2)]);
        assert_eq!(present_blocks(&chunk(0), 6), [(0, 1)]);
    }
}
