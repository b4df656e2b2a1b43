//! Finding head and tail.
//!
//! Every block carries the cycle of the lap in which it was written, so the head is where the cycle
//! falls by one; a binary search finds it. Up to eight records may have been on their way to the
//! disk when the power went, in any order: blocks before that place may still be of the last lap
//! (a hole), and the newest records may be torn, which their checksums tell. The head goes back to
//! the first of these. Had the tail been about to be overwritten by such a record, the tail moves on.
//!
//! Linux takes the number of header blocks of all records from the oldest one, and so drops records
//! that a mount with another record size wrote behind it. Here each record speaks for itself.

use xfskit_format::log::RecordHeader;
use xfskit_format::log::op::{OpHeader, UNMOUNT};
use xfskit_format::log::record::{BLOCK, MAGIC, cycle_of, next_cycle};
use xfskit_format::{Expected, Corruption, Value};
use xfskit_units::{LogBlock, Lsn};
use zerocopy::FromBytes;

use crate::record::{Crc, Record};
use crate::ring::{RECORD_MAX, Ring, Window};
use crate::{Error, Result};

/// Blocks that may be on their way to the disk at once: 2 MiB, whatever the record size.
pub(crate) const IN_FLIGHT: u32 = 4096;
/// Records that may be on their way to the disk at once.
const IN_FLIGHT_RECORDS: usize = 8;

/// What the search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// Where the next record goes.
    pub head: Lsn,
    /// Where recovery starts.
    pub tail: Lsn,
    /// Nothing to recover.
    pub clean: bool,
    /// The newest record.
    pub last_record: Option<LogBlock>,
    /// What was cut off.
    pub torn: Option<Torn>,
}

/// A record at the head that was not written to its end, and with it all behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where the head was before.
    pub head: LogBlock,
    /// The first record cut off.
    pub at: LogBlock,
    /// What was wrong with it.
    pub fault: Box<Corruption>,
}

/// Finds head and tail of `ring`.
pub(crate) fn search(ring: &Ring<'_>) -> Result<Search> {
    let Some((block, torn)) = find_head(ring)? else {
        let start = Lsn::new(1, LogBlock(0));
        return Ok(Search { head: start, tail: start, clean: true, last_record: None, torn: None });
    };
    let mut found = Search { torn, ..state(ring, block)? };
    if found.clean {
        return Ok(found);
    }
    if let Some(torn) = first_torn(ring, &found)? {
        found = Search { torn: Some(torn.clone()), ..state(ring, torn.at)? };
    }
    if !found.clean {
        found.tail = intact_tail(ring, &found)?;
    }
    Ok(found)
}

// ---- the head ------------------------------------------------------------------------------------

/// The block behind the newest whole record, and what was cut off there; `None` in a ring that was never written.
fn find_head(ring: &Ring<'_>) -> Result<Option<(LogBlock, Option<Torn>)>> {
    let last_block = LogBlock(ring.blocks() - 1);
    let (first, last) = (ring.cycle(LogBlock(0))?, ring.cycle(last_block)?);
    if first == 0 {
        return Ok(None);
    }
    let candidate = if last == 0 {
        // The first lap: zeroes behind the head.
        let candidate = first_with(ring, 0)?;
        hole(ring, candidate.saturating_sub(IN_FLIGHT), candidate, 0)?.unwrap_or(candidate)
    } else {
        let (candidate, stale) = if first == last {
            (ring.blocks(), last.wrapping_sub(1))
        } else {
            (first_with(ring, last)?, last)
        };
        without_holes(ring, candidate, stale, last.wrapping_sub(1))?
    };
    whole_records(ring, LogBlock(candidate)).map(Some)
}

/// Binary search for the first block of cycle `cycle`, which the last block has and the first has
/// not.
fn first_with(ring: &Ring<'_>, cycle: u32) -> Result<u32> {
    let (mut low, mut high) = (0, ring.blocks() - 1);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if ring.cycle(LogBlock(middle))? == cycle { high = middle } else { low = middle }
    }
    Ok(high)
}

/// Moves `candidate` back to the first block in the window before it that the last lap wrote. Such
/// blocks carry `stale`; where the window reaches back over the start of the ring, `older`.
fn without_holes(ring: &Ring<'_>, candidate: u32, stale: u32, older: u32) -> Result<u32> {
    let window = IN_FLIGHT.min(ring.blocks());
    if candidate >= window {
        return Ok(hole(ring, candidate - window, candidate, stale)?.unwrap_or(candidate));
    }
    let end = ring.blocks();
    if let Some(found) = hole(ring, end - (window - candidate), end, older)? {
        return Ok(found);
    }
    Ok(hole(ring, 0, candidate, stale)?.unwrap_or(candidate))
}

/// The first block of `[from, to)` that carries `cycle`.
fn hole(ring: &Ring<'_>, from: u32, to: u32, cycle: u32) -> Result<Option<u32>> {
    let bytes = ring.read_blocks(LogBlock(from), to - from)?;
    let found = bytes.chunks_exact(BLOCK).position(|block| cycle_of(block) == cycle);
    Ok(found.and_then(|n| u32::try_from(n).ok()).map(|n| from + n))
}

/// Moves `candidate` back to where a whole record ends: nothing that the one before it says is believed before. Even
/// its header may be torn.
fn whole_records(ring: &Ring<'_>, candidate: LogBlock) -> Result<(LogBlock, Option<Torn>)> {
    let end = ring.forward(candidate, 0);
    let (mut head, mut torn) = (end, None);
    let mut reader = Window::new(ring);
    for _ in 0..IN_FLIGHT_RECORDS {
        let at = last_header(ring, head)?;
        match Record::read(&mut reader, ring, at, Crc::IfPresent) {
            Ok(record) => {
                let blocks = u32::try_from(record.header.blocks()).unwrap_or(u32::MAX);
                if blocks == ring.distance(at, head) {
                    break;
                }
                // It is whole, and what lies behind it is what arrived of one without its header.
                if blocks < ring.distance(at, head) {
                    let behind = ring.forward(at, blocks);
                    let fault = no_header(ring, behind, "a record header");
                    return Ok((behind, Some(Torn { head: end, at: behind, fault })));
                }
            }
            Err(Error::Corrupt(fault)) => torn = Some(Torn { head: end, at, fault }),
            Err(error) => return Err(error),
        }
        head = at;
    }
    Ok((head, torn))
}

// ---- headers, backwards --------------------------------------------------------------------------

/// The block of the nearest record header before `block`.
fn last_header(ring: &Ring<'_>, block: LogBlock) -> Result<LogBlock> {
    let nearest = headers_before(ring, block, RECORD_MAX)?.first().copied();
    let wanted = "a record within 520 blocks before the head";
    nearest.ok_or_else(|| no_header(ring, block, wanted).into())
}

fn no_header(ring: &Ring<'_>, at: LogBlock, wanted: &'static str) -> Box<Corruption> {
    ring.ctx(at).corruption("log.record.magicno", Expected::Described(wanted.into()), Value::Missing)
}

/// The blocks of all record headers in the `window` blocks before `block`, nearest first.
fn headers_before(ring: &Ring<'_>, block: LogBlock, window: u32) -> Result<Vec<LogBlock>> {
    let window = window.min(ring.blocks());
    let from = ring.back(block, window);
    let bytes = ring.read_blocks(from, window)?;
    let headers = (0..window).zip(bytes.chunks_exact(BLOCK));
    let is_header = |block: &[u8]| block.first_chunk() == Some(&MAGIC.to_be_bytes());
    Ok(headers
        .rev()
        .filter(|(_, block)| is_header(block))
        .map(|(n, _)| ring.forward(from, n))
        .collect())
}

/// The header at block `at`, judged.
pub(crate) fn header_at(ring: &Ring<'_>, at: LogBlock) -> Result<Box<RecordHeader>> {
    let block = ring.read_blocks(at, 1)?;
    Ok(Box::new(RecordHeader::verify(&block, &ring.ctx(at), at)?.clone()))
}

// ---- the tail ------------------------------------------------------------------------------------

/// What the record before `head` says.
fn state(ring: &Ring<'_>, head: LogBlock) -> Result<Search> {
    let at = last_header(ring, head)?;
    let header = header_at(ring, at)?;
    let wrapped = at >= head;
    let cycle = header.cycle.get();
    let head = Lsn::new(if wrapped { next_cycle(cycle) } else { cycle }, head);
    let clean = is_unmount(ring, at, &header, head.block())?;
    let tail = if clean { head } else { header.tail_lsn() };
    if !clean {
        check_tail(ring, at, head, tail)?;
    }
    Ok(Search { head, tail, clean, last_record: Some(at), torn: None })
}

/// True where the record at `at` reaches to `head` and says that the journal is clean.
fn is_unmount(
    ring: &Ring<'_>,
    at: LogBlock,
    header: &RecordHeader,
    head: LogBlock,
) -> Result<bool> {
    let blocks = u32::try_from(header.blocks()).unwrap_or(u32::MAX);
    if header.num_logops.get() != 1 || ring.distance(at, head) != blocks {
        return Ok(false);
    }
    let headers = u32::try_from(header.header_blocks()).unwrap_or(u32::MAX);
    let payload = ring.read_blocks(ring.forward(at, headers), 1)?;
    let unmount = OpHeader::ref_from_prefix(&payload).is_ok_and(|(op, _)| op.flags & UNMOUNT != 0);
    Ok(unmount)
}

/// The tail must lie on this lap before the head, or on the last one behind it.
fn check_tail(ring: &Ring<'_>, at: LogBlock, head: Lsn, tail: Lsn) -> Result<()> {
    let (lap, block) = (tail.cycle(), tail.block());
    let this_lap = lap == head.cycle() && block < head.block();
    let last_lap =
        next_cycle(lap) == head.cycle() && block > head.block() && block.0 < ring.blocks();
    ring.ctx(at).require(
        "log.record.tail_lsn",
        this_lap || last_lap,
        "a position within one lap before the head",
        tail,
    )?;
    Ok(())
}

// ---- what was on its way -------------------------------------------------------------------------

/// The first of the newest records that is not as its writer meant it.
fn first_torn(ring: &Ring<'_>, found: &Search) -> Result<Option<Torn>> {
    let head = found.head.block();
    let span = ring.distance(found.tail.block(), head);
    let window = span.min(RECORD_MAX * u32::try_from(IN_FLIGHT_RECORDS).unwrap_or(1));
    let headers = headers_before(ring, head, window)?;
    let mut reader = Window::new(ring);
    for at in headers.into_iter().take(IN_FLIGHT_RECORDS).rev() {
        match Record::read(&mut reader, ring, at, Crc::IfPresent) {
            Ok(_) => {}
            Err(Error::Corrupt(fault)) => {
                return Ok(Some(Torn { head, at, fault }));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The first intact record from the tail on, where only those may be skipped that records on their
/// way, ahead of the head, can have overwritten.
fn intact_tail(ring: &Ring<'_>, found: &Search) -> Result<Lsn> {
    let (head, mut tail) = (found.head.block(), found.tail);
    let mut reader = Window::new(ring);
    loop {
        let at = tail.block();
        let error = match Record::read(&mut reader, ring, at, Crc::IfPresent) {
            Ok(record) if record.lsn() == tail => return Ok(tail),
            Ok(record) => {
                return Err(ring
                    .ctx(at)
                    .corruption("log.record.tail_lsn", Expected::Exactly(record.lsn().into()), tail)
                    .into());
            }
            Err(error) => error,
        };
        if !matches!(error, Error::Corrupt(_)) || ring.distance(head, at) > IN_FLIGHT {
            return Err(error);
        }
        let Some(next) = next_header(ring, at, head)? else { return Err(error) };
        tail = header_at(ring, next)?.lsn();
        check_tail(ring, next, found.head, tail)?;
    }
}

/// The block of the next record header behind `at` and before `head`.
fn next_header(ring: &Ring<'_>, at: LogBlock, head: LogBlock) -> Result<Option<LogBlock>> {
    let from = ring.forward(at, 1);
    let window = ring.distance(from, head).min(RECORD_MAX);
    let bytes = ring.read_blocks(from, window)?;
    let magic = MAGIC.to_be_bytes();
    let found = (0..window)
        .zip(bytes.chunks_exact(BLOCK))
        .find(|(_, block)| block.first_chunk() == Some(&magic));
    Ok(found.map(|(n, _)| ring.forward(from, n)))
}
