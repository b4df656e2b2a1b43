//! BUF items.

use std::ops::Range;

use xfskit_format::log::Stamp;
use xfskit_format::log::item::Buf;
use xfskit_format::log::item::inode::NEXT_UNLINKED_OFFSET;
use xfskit_format::sb::Superblock;
use xfskit_format::{Ctx, inode};
use xfskit_units::{AgNumber, Daddr, Sectors};

use crate::error::Result;
use crate::pass::Pass;

/// Bytes of an unlinked pointer.
const POINTER: usize = 4;

impl Pass<'_> {
    /// Applies a buffer item that is no cancellation.
    pub(crate) fn replay_buf(&mut self, buf: &Buf<'_>, ctx: &Ctx<'_>) -> Result<()> {
        let (daddr, sectors) = (buf.daddr(), buf.sectors());
        if self.cancelled.has(daddr, sectors) {
            self.counts.cancelled += 1;
            return Ok(());
        }
        if buf.is_dquot() {
            self.counts.quota += 1;
            return Ok(());
        }
        self.check_range(daddr, sectors, ctx)?;
        let mut bytes = self.queue.read_whole(daddr, sectors, &self.geo)?;
        if buf.is_unlinked() {
            return self.replay_unlinked(buf, &mut bytes, ctx);
        }
        if self.is_in_place(&bytes) {
            self.counts.in_place += 1;
            return Ok(());
        }
        for change in buf.changes() {
            let range = change.offset..change.offset + change.bytes.len();
            if let Some(part) = bytes.get_mut(range.clone()) {
                part.copy_from_slice(change.bytes);
                self.queue.change(daddr, &bytes, range);
            }
        }
        self.counts.buffers += 1;
        if buf.buf_type().is_dir() && buf.byte_len() < self.geo.dirblksize() {
            self.pieces.changed(daddr, self.lsn, &bytes, &self.geo);
        }
        if daddr == Daddr(0) {
            self.take_superblock(bytes)?;
        }
        self.queue.stamp_later(daddr, sectors, buf.buf_type());
        Ok(())
    }

    /// Fails if the buffer is not on the volume, or overlaps the journal, which changes nothing of
    /// itself by its items.
    pub(crate) fn check_range(&self, daddr: Daddr, sectors: Sectors, ctx: &Ctx<'_>) -> Result<()> {
        let end = daddr.0.saturating_add(sectors.0);
        let inside = end <= self.geo.data_bytes().sectors().0;
        ctx.require("log.buf.blkno", inside, "blocks of the volume", daddr)?;
        let in_log = self.geo.log_daddr().is_some_and(|Daddr(log)| {
            let blocks = u64::from(self.geo.logblocks);
            end > log && daddr.0 < log.saturating_add(blocks * self.geo.block_sectors().0)
        });
        Ok(ctx.require("log.buf.blkno", !in_log, "blocks outside the journal", daddr)?)
    }

    /// Returns true if the block on disk is as new as the present transaction. A block without
    /// owner and LSN never is.
    ///
    /// Nor is a block with a wrong CRC, even if its LSN is new: power failed while the block was
    /// written, and some of its sectors are old. The journal has everything that is missing. (Linux
    /// relies on the LSN and then fails the block.)
    fn is_in_place(&self, bytes: &[u8]) -> bool {
        Stamp::of(bytes, &self.geo).is_some_and(|stamp| {
            let lsn = stamp.lsn(bytes);
            let as_new = !lsn.is_unset() && lsn >= self.lsn;
            as_new && stamp.belongs(bytes, &self.geo) && stamp.is_whole(bytes)
        })
    }

    /// Takes over a logged superblock. The volume may have grown, so later items are verified with
    /// the new superblock. What says where things are must be as it was: with another start of the
    /// journal, the next record would overwrite file data.
    fn take_superblock(&mut self, mut sector: Vec<u8>) -> Result<()> {
        if let Some(stamp) = Stamp::of(&sector, &self.geo) {
            stamp.write(&mut sector, self.lsn);
        }
        let sb = Superblock::verify(&sector, AgNumber(0))?;
        sb.verify_successor(&self.sb)?;
        self.geo = sb.geometry();
        *self.sb = sb.clone();
        Ok(())
    }

    /// Replays the unlinked pointers of an inode cluster's image, where their chunk was logged. The
    /// rest of the image is ignored.
    fn replay_unlinked(&mut self, buf: &Buf<'_>, bytes: &mut [u8], ctx: &Ctx<'_>) -> Result<()> {
        let size = self.geo.inodesize();
        for start in (0..bytes.len()).step_by(size) {
            let field = start + NEXT_UNLINKED_OFFSET..start + NEXT_UNLINKED_OFFSET + POINTER;
            let Some(next) = logged(buf, &field) else { continue };
            let nothing = next.iter().all(|&byte| byte == 0);
            ctx.require("log.buf.next_unlinked", !nothing, "an inode, or all ones", 0u8)?;
            let Some(inode) = bytes.get_mut(start..start + size) else { break };
            inode[NEXT_UNLINKED_OFFSET..][..POINTER].copy_from_slice(next);
            if self.geo.v5() {
                inode::stamp(inode);
            }
            self.queue.change(buf.daddr(), bytes, start..start + size);
        }
        self.counts.buffers += 1;
        Ok(())
    }
}

/// Returns the bytes `range` of the buffer, if the item has them.
fn logged<'a>(buf: &Buf<'a>, range: &Range<usize>) -> Option<&'a [u8]> {
    buf.changes().find_map(|change| {
        let start = range.start.checked_sub(change.offset)?;
        change.bytes.get(start..start + range.len())
    })
}
