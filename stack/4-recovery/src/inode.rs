//! INODE and ICREATE items.

use std::ops::Range;

use xfskit_format::inode::{self, Dinode};
use xfskit_format::log::item::inode::{
    ABROOT, CORE_LEN, DBROOT, DEV, Inode, LogDinode, NEXT_UNLINKED_OFFSET,
};
use xfskit_format::log::item::{Icreate, buf};
use xfskit_format::{Ctx, Fork, Layout, bytes};
use xfskit_units::{AgBlock, Daddr, Lsn, Sectors};

use crate::error::Result;
use crate::pass::Pass;
use crate::queue::SECTOR;

/// Offset of `flushiter` in a version 1 or 2 inode.
const FLUSHITER_OFFSET: usize = 30;
/// The logged bytes behind the CRC of a version 3 inode.
const BEHIND_CRC: Range<usize> = 104..CORE_LEN;
/// Offset of the fields that recovery sets itself.
const LSN_OFFSET: usize = 112;
const PAD2: Range<usize> = 132..144;

impl Pass<'_> {
    /// Applies an inode item.
    pub(crate) fn replay_inode(&mut self, item: &Inode<'_>, ctx: &Ctx<'_>) -> Result<()> {
        let ino = item.ino();
        let ctx = &ctx.at(ctx.at.ino(ino));
        let (daddr, sectors) = item.format.cluster();
        if self.cancelled.has(daddr, sectors) {
            self.counts.cancelled += 1;
            return Ok(());
        }
        ctx.within("log.inode.len", 1..=u64::from(buf::LEN_MAX), sectors.0)?;
        self.check_range(daddr, sectors, ctx)?;
        let start = item.format.boffset.get() as usize;
        let here = daddr.byte_offset().saturating_add(start as u64);
        let place = self.geo.ino_to_byte(ino).map_or(u64::MAX, |byte| byte.0);
        ctx.eq("log.inode.boffset", place, here.0)?;

        // Of the cluster only the sectors of the inode: most clusters have many logged inodes.
        let size = self.geo.inodesize();
        if start.saturating_add(size) as u64 > sectors.byte_len().0 {
            return Err(ctx.short("log.inode.boffset", start).into());
        }
        let daddr = Daddr(daddr.0.saturating_add((start / SECTOR) as u64));
        let range = start % SECTOR..start % SECTOR + size;
        let mut sectors = self.queue.read(daddr, Sectors(range.end.div_ceil(SECTOR) as u64))?;
        let Some(disk) = sectors.get_mut(range.clone()) else {
            return Err(ctx.short("log.inode.boffset", start).into());
        };
        let magic = bytes::be16(disk, 0).unwrap_or(0);
        ctx.eq_hex("log.inode.disk_magic", inode::MAGIC, magic)?;
        if is_in_place(disk, &item.core, self.lsn, self.geo.v5()) {
            self.counts.in_place += 1;
        } else {
            write_core(disk, item, self.lsn, self.geo.v5());
            write_forks(disk, item, ctx, Layout::of(&self.geo))?;
            if self.geo.v5() {
                inode::stamp(disk);
            }
            let ctx = Ctx::new(&self.geo, ctx.at).crc_known();
            Dinode::verify(disk, &ctx, ino)?;
            self.queue.change(daddr, &sectors, range.clone());
            self.counts.inodes += 1;
        }
        let disk = sectors.get(range).unwrap_or_default();
        self.pieces.saw_inode(disk, ino, &self.geo);
        self.change_owner(item, disk, ctx)
    }

    /// Writes empty inodes over a whole chunk, unless a part of it was freed later.
    pub(crate) fn replay_icreate(&mut self, item: &Icreate, ctx: &Ctx<'_>) -> Result<()> {
        let ctx = Ctx::new(&self.geo, ctx.at);
        let (agno, agbno, length) = item.verify(&ctx)?;
        let daddr = self.geo.agb_to_daddr(agno, agbno);
        let whole = Sectors(self.geo.block_sectors().0 * u64::from(length.0));
        self.check_range(daddr, whole, &ctx)?;
        let cluster = self.geo.cluster_blocks();
        let sectors = Sectors(self.geo.block_sectors().0 * u64::from(cluster));
        let end = agbno.0 + length.0;
        let first = agbno.0 / cluster * cluster;
        let mut clusters = (first..end).step_by(cluster as usize);
        let geo = &self.geo;
        if clusters.any(|at| self.cancelled.has(geo.agb_to_daddr(agno, AgBlock(at)), sectors)) {
            self.counts.cancelled += 1;
            return Ok(());
        }
        let mut chunk = vec![0; length.0 as usize * geo.blocksize()];
        let first = geo.agb_to_agino(agbno);
        for (n, bytes) in (0u32..).zip(chunk.chunks_exact_mut(geo.inodesize())) {
            let agino = first.saturating_add(n);
            inode::template(bytes, geo, geo.agino_to_ino(agno, agino), item.r#gen.get());
        }
        let daddr = geo.agb_to_daddr(agno, agbno);
        self.queue.change(daddr, &chunk, 0..chunk.len());
        self.counts.chunks += 1;
        Ok(())
    }
}

/// Returns true if the inode on disk is newer than the logged one. An equal LSN does not count,
/// because several transactions may share one.
///
/// An inode with a wrong CRC is never newer, whatever its LSN: power failed while it was written,
/// perhaps within the LSN. The journal has its newest item where it has any, and replays up to
/// that.
fn is_in_place(disk: &[u8], logged: &LogDinode, current: Lsn, v5: bool) -> bool {
    if v5 {
        let lsn = Lsn(bytes::be64(disk, LSN_OFFSET).unwrap_or(0));
        return !lsn.is_unset() && lsn > current && inode::is_whole(disk);
    }
    let on_disk = bytes::be16(disk, FLUSHITER_OFFSET).unwrap_or(0);
    let wrapped = on_disk == u16::MAX && logged.flushiter() < u16::MAX / 2;
    logged.flushiter() < on_disk && !wrapped
}

/// Copies the logged core over that of the inode `disk`, with the LSN of its transaction. The
/// unlinked pointer is kept; the CRC is computed later. Without effect if `disk` is too short.
pub fn write_core(disk: &mut [u8], item: &Inode<'_>, lsn: Lsn, v5: bool) {
    let core = item.core.to_disk();
    let mut put = |range: Range<usize>, bytes: &[u8]| {
        if let Some(place) = disk.get_mut(range) {
            place.copy_from_slice(bytes);
        }
    };
    put(0..NEXT_UNLINKED_OFFSET, &core[..NEXT_UNLINKED_OFFSET]);
    if v5 {
        put(BEHIND_CRC, &core[BEHIND_CRC]);
        put(LSN_OFFSET..LSN_OFFSET + 8, &lsn.0.to_be_bytes());
        put(PAD2, &[0; PAD2.end - PAD2.start]);
    } else {
        put(FLUSHITER_OFFSET..FLUSHITER_OFFSET + 2, &[0; 2]);
    }
}

/// Copies the logged forks over those of the inode `disk`, whose core is in place already.
///
/// # Errors
/// Corruption, if a fork does not fit its place.
pub fn write_forks(
    disk: &mut [u8],
    item: &Inode<'_>,
    ctx: &Ctx<'_>,
    layout: &Layout,
) -> Result<()> {
    let literal = disk.get_mut(layout.inode_core..).unwrap_or_default();
    let boundary = match item.core.forkoff {
        0 => literal.len(),
        units => usize::from(units) * 8,
    };
    if boundary > literal.len() {
        return Err(ctx
            .corruption(
                "log.inode.forkoff",
                xfskit_format::Expected::AtMost((literal.len() / 8).into()),
                item.core.forkoff,
            )
            .into());
    }
    let (data, attr) = literal.split_at_mut(boundary);
    let fields = item.format.fields.get();
    if fields & DEV != 0
        && let Some(field) = data.first_chunk_mut()
    {
        *field = item.format.rdev.get().to_be_bytes();
    }
    for (room, fork, broot) in [(data, Fork::Data, DBROOT), (attr, Fork::Attr, ABROOT)] {
        let Some(logged) = item.fork(fork) else { continue };
        let ctx = &ctx.at(ctx.at.fork(fork));
        if fields & broot != 0 {
            write_root(room, logged, ctx, layout)?;
        } else {
            ctx.at_most("log.inode.fork", room.len(), logged.len())?;
            room[..logged.len()].copy_from_slice(logged);
        }
    }
    Ok(())
}

/// Copies a btree root into the inode. It is logged with a whole block's header, keys and pointers.
/// The inode holds a shorter header, and its pointers begin where the fork's size determines.
fn write_root(room: &mut [u8], logged: &[u8], ctx: &Ctx<'_>, layout: &Layout) -> Result<()> {
    let body = logged.get(layout.long_header..).unwrap_or_default();
    let (from, to) = (body.len() / 16, room.len().saturating_sub(4) / 16);
    let numrecs = usize::from(bytes::be16(logged, 6).unwrap_or(0));
    ctx.within("log.inode.broot", 1..=from.min(to), numrecs)?;
    let len = numrecs * 8;
    room[..4].copy_from_slice(&logged[4..8]);
    room[4..][..len].copy_from_slice(&body[..len]);
    room[4 + to * 8..][..len].copy_from_slice(&body[from * 8..][..len]);
    Ok(())
}
