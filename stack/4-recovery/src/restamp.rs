//! The CRC of directory blocks in several pieces (`pieces`).

use std::collections::BTreeSet;

use xfskit_format::bmbt::{BmbtBlock, Extent, Rec, records};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::log::Stamp;
use xfskit_format::{Ctx, Fork, Location};
use xfskit_units::{Daddr, FileOff, FsBlock, Ino, Sectors};

use crate::error::Result;
use crate::pass::Pass;

/// Computes the CRC of every directory block whose pieces changed.
pub(crate) fn all(pass: &mut Pass<'_>) -> Result<()> {
    if pass.pieces.changed.is_empty() || !pass.geo.v5() {
        return Ok(());
    }
    for ino in std::mem::take(&mut pass.pieces.owners) {
        restamp_directory(pass, ino)?;
    }
    pass.queue.write()
}

/// One contiguous part of a directory block.
struct Piece {
    daddr: Daddr,
    bytes: Vec<u8>,
}

fn restamp_directory(pass: &mut Pass<'_>, ino: Ino) -> Result<()> {
    let Some(extents) = data_extents(pass, ino)? else { return Ok(()) };
    let per_block = u64::from(pass.geo.dirblkfsbs());
    for block in blocks_at_boundaries(&extents, per_block) {
        let Some(mut pieces) = read_pieces(pass, &extents, block * per_block, per_block)? else {
            continue;
        };
        let newest = pieces.iter().filter_map(|p| pass.pieces.changed.get(&p.daddr)).max();
        let Some(&lsn) = newest else { continue };
        let mut whole: Vec<u8> = pieces.iter().flat_map(|p| p.bytes.iter().copied()).collect();
        let Some(stamp) = Stamp::of(&whole, &pass.geo).filter(|s| s.buf_type.is_dir()) else {
            continue;
        };
        let lsn = lsn.max(stamp.lsn(&whole));
        stamp.write(&mut whole, lsn);
        if let Some(first) = pieces.first_mut() {
            let head = first.bytes.len();
            first.bytes.copy_from_slice(&whole[..head]);
            pass.queue.change(first.daddr, &first.bytes, 0..head);
        }
    }
    Ok(())
}

/// Returns the extents of the data fork of directory `ino`, in order; `None` if it is not a
/// directory with extents.
fn data_extents(pass: &Pass<'_>, ino: Ino) -> Result<Option<Vec<Extent>>> {
    let at = xfskit_format::inode::location(&pass.geo, ino);
    let (Some(daddr), Some(byte)) = (at.daddr, pass.geo.ino_to_byte(ino)) else { return Ok(None) };
    let block = pass.queue.read(daddr, at.sectors)?;
    let offset = usize::try_from(byte.0 - daddr.byte_offset().0).unwrap_or(0);
    let disk = block.get(offset..).unwrap_or_default();
    let Some(inode) = Dinode::parse(disk, &pass.geo).filter(Dinode::is_dir) else {
        return Ok(None);
    };
    let count = usize::try_from(inode.nextents()).unwrap_or(usize::MAX);
    let mut extents: Vec<Extent> = match inode.format() {
        Some(Format::Extents) => {
            records(inode.data_fork(), count).iter().map(Rec::decode).collect()
        }
        Some(Format::Btree) => {
            let mut extents = Vec::new();
            let ctx = Ctx::new(&pass.geo, at);
            for (daddr, bytes) in pass.tree_blocks(disk, ino, Fork::Data, &ctx)? {
                let ctx = ctx.at(Location::of("bmbt block").daddr(daddr, pass.geo.block_sectors()));
                let leaf = BmbtBlock::verify(&bytes, &ctx.crc_known(), Fork::Data)?;
                extents.extend(leaf.recs().iter().map(Rec::decode));
            }
            extents
        }
        _ => return Ok(None),
    };
    extents.sort_by_key(|extent| extent.startoff);
    Ok(Some(extents))
}

/// Returns the numbers of the directory blocks in which an extent begins or ends. All others are in
/// one piece.
fn blocks_at_boundaries(extents: &[Extent], per_block: u64) -> BTreeSet<u64> {
    let inside = |off: FileOff| (!off.0.is_multiple_of(per_block)).then_some(off.0 / per_block);
    extents.iter().flat_map(|e| [inside(e.startoff), inside(e.end())]).flatten().collect()
}

/// Returns the pieces of the directory block of `count` blocks from `first`; `None` if a part of it
/// is a hole or it is in one piece.
fn read_pieces(
    pass: &Pass<'_>,
    extents: &[Extent],
    first: u64,
    count: u64,
) -> Result<Option<Vec<Piece>>> {
    let mut places: Vec<(FsBlock, u64)> = Vec::new();
    for off in (first..first.saturating_add(count)).map(FileOff) {
        let behind = extents.partition_point(|extent| extent.startoff <= off);
        let extent = behind.checked_sub(1).and_then(|i| extents.get(i));
        let Some(fsbno) = extent.and_then(|extent| extent.block_at(off)) else { return Ok(None) };
        match places.last_mut() {
            Some((start, len)) if start.checked_add(*len) == Some(fsbno) => *len += 1,
            _ => places.push((fsbno, 1)),
        }
    }
    if places.len() < 2 {
        return Ok(None);
    }
    let mut pieces = Vec::new();
    for (fsbno, len) in places {
        let Some(daddr) = pass.geo.fsb_to_daddr(fsbno) else { return Ok(None) };
        let sectors = Sectors(pass.geo.block_sectors().0 * len);
        pieces.push(Piece { daddr, bytes: pass.queue.read(daddr, sectors)? });
    }
    Ok(Some(pieces))
}
