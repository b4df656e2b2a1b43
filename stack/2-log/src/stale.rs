//! Stale blocks, which an interrupted write of this cycle left ahead of the head.
//!
//! When the power fails, later records in flight may have arrived although an earlier one did not.
//! The head then moves back before the missing one, and blocks that carry the current cycle lie
//! ahead of it, whole records among them. A record written before them would join them to the
//! journal.

use xfskit_format::log::RecordHeader;
use xfskit_format::log::record::{BLOCK, FMT_LINUX_LE, MAGIC, cycle_of, previous_cycle};
use xfskit_units::{LogBlock, Lsn};
use zerocopy::{FromZeros, IntoBytes};

use crate::Result;
use crate::head::{IN_FLIGHT, Search, header_at};
use crate::ring::Ring;

/// Overwrites all blocks that may be stale with blocks of the previous cycle, if there are any.
pub(crate) fn clear(ring: &Ring<'_>, found: &Search) -> Result<()> {
    let Some(last) = found.last_record else { return Ok(()) };
    let tail = header_at(ring, last)?.tail_lsn();
    let head = found.head.block();
    // Nothing is free after the tail, nor after the newest record, which a clean journal keeps.
    let free = ring.distance(head, tail.block()).min(ring.distance(head, last));
    let count = free.min(IN_FLIGHT);
    let mut bytes = ring.read_blocks(head, count)?;
    let lsns = || (0..count).map(|n| lsn_of_previous_cycle(found.head, ring.forward(head, n)));
    let is_old = |(lsn, block): (Lsn, &[u8])| cycle_of(block) == lsn.cycle();
    if lsns().zip(bytes.chunks_exact(BLOCK)).all(is_old) {
        return Ok(());
    }
    for (lsn, block) in lsns().zip(bytes.chunks_exact_mut(BLOCK)) {
        block.copy_from_slice(placeholder(ring, lsn, tail).as_bytes());
    }
    ring.write(head, &bytes)?;
    ring.flush()
}

/// Returns the LSN that `block`, ahead of `head`, had when it was last written.
fn lsn_of_previous_cycle(head: Lsn, block: LogBlock) -> Lsn {
    let cycle = if block >= head.block() { previous_cycle(head.cycle()) } else { head.cycle() };
    Lsn::new(cycle, block)
}

/// Makes a header without a record; only its cycle counts.
fn placeholder(ring: &Ring<'_>, lsn: Lsn, tail: Lsn) -> RecordHeader {
    let mut header = RecordHeader::new_zeroed();
    header.magicno = MAGIC.into();
    header.cycle = lsn.cycle().into();
    header.version = 2.into();
    header.lsn = lsn.0.into();
    header.tail_lsn = tail.0.into();
    header.fmt = FMT_LINUX_LE.into();
    header.fs_uuid = *ring.geo().uuid.as_bytes();
    header
}
