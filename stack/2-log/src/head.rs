//! Finding head and tail.
//!
//! Every block carries the number of the cycle in which it was written. So the head is where the
//! cycle falls by one; a binary search finds it. When the power fails, up to eight records may be
//! in flight, and they arrive in any order. Some blocks before that point may still be of the
//! previous cycle (a hole), and the newest records may be torn, which their checksums reveal. The
//! head moves back to the first of these. If such a record could have overwritten the tail, the
//! tail moves forward.
//!
//! Linux takes the number of header blocks of all records from the oldest one, and so drops records
//! that a later mount wrote with another record size. Here each record states its own.

use xfskit_format::log::RecordHeader;
use xfskit_format::log::op::{OpFlags, OpHeader};
use xfskit_format::log::record::{BLOCK, MAGIC, cycle_of, next_cycle};
use xfskit_format::{Corruption, Expected, Value};
use xfskit_units::{LogBlock, Lsn};
use zerocopy::FromBytes;

use crate::record::{Crc, Record, summed_header};
use crate::ring::{RECORD_MAX, Ring, Window};
use crate::{Error, Result};

/// Most blocks in flight at once: 2 MiB, whatever the record size.
pub(crate) const IN_FLIGHT: u32 = 4096;
/// Most records in flight at once.
const IN_FLIGHT_RECORDS: usize = 8;

/// The result of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// Position of the next record.
    pub head: Lsn,
    /// Position where recovery starts.
    pub tail: Lsn,
    /// True if there is nothing to recover.
    pub clean: bool,
    /// The newest record.
    pub last_record: Option<LogBlock>,
    /// The records that were cut off.
    pub torn: Option<Torn>,
}

/// An incomplete record at the head, or a damaged one. It is cut off together with everything after
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The head before the cut.
    pub head: LogBlock,
    /// The first record cut off.
    pub at: LogBlock,
    /// The check that failed.
    pub corruption: Box<Corruption>,
    /// All of it arrived: its checksum is right, and the field that failed is damage.
    pub is_whole: bool,
    /// It is whole, and marks the journal clean: nothing is lost with it.
    pub is_unmount: bool,
}

impl Torn {
    fn incomplete(head: LogBlock, at: LogBlock, corruption: Box<Corruption>) -> Self {
        Self { head, at, corruption, is_whole: false, is_unmount: false }
    }
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

// ---- the head
// ------------------------------------------------------------------------------------

/// Returns the block after the newest whole record, and what was cut off there; `None` in a ring
/// that was never written.
fn find_head(ring: &Ring<'_>) -> Result<Option<(LogBlock, Option<Torn>)>> {
    let last_block = LogBlock(ring.blocks() - 1);
    let (first, last) = (ring.cycle(LogBlock(0))?, ring.cycle(last_block)?);
    if first == 0 {
        return Ok(None);
    }
    let candidate = if last == 0 {
        // The first cycle: zeroes after the head.
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

/// Finds the first block of cycle `cycle` by binary search. The last block has this cycle and the
/// first has not.
fn first_with(ring: &Ring<'_>, cycle: u32) -> Result<u32> {
    let (mut low, mut high) = (0, ring.blocks() - 1);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if ring.cycle(LogBlock(middle))? == cycle { high = middle } else { low = middle }
    }
    Ok(high)
}

/// Moves `candidate` back to the first block of the previous cycle in the window before it. Such
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

/// Returns the first block of `[from, to)` that carries `cycle`.
fn hole(ring: &Ring<'_>, from: u32, to: u32, cycle: u32) -> Result<Option<u32>> {
    let bytes = ring.read_blocks(LogBlock(from), to - from)?;
    let found = bytes.chunks_exact(BLOCK).position(|block| cycle_of(block) == cycle);
    Ok(found.and_then(|n| u32::try_from(n).ok()).map(|n| from + n))
}

/// Moves `candidate` back to the end of a whole record. Nothing that the record states is trusted
/// before; even its header may be torn.
fn whole_records(ring: &Ring<'_>, candidate: LogBlock) -> Result<(LogBlock, Option<Torn>)> {
    let end = ring.forward(candidate, 0);
    let (mut head, mut torn) = (end, None);
    let mut reader = Window::new(ring);
    for _ in 0..IN_FLIGHT_RECORDS {
        let at = last_header(ring, head)?;
        match Record::read(&mut reader, ring, at, Crc::IfPresent) {
            Ok(record) => {
                let blocks = record.blocks();
                if blocks == ring.distance(at, head) {
                    break;
                }
                // The record is whole, and the blocks after it are the part that arrived of one
                // without its header.
                if blocks < ring.distance(at, head) {
                    let behind = ring.forward(at, blocks);
                    if is_cleared(ring, at, behind, end)? {
                        return Ok((behind, None));
                    }
                    let corruption = no_header(ring, behind, "a record header");
                    return Ok((behind, Some(Torn::incomplete(end, behind, corruption))));
                }
            }
            Err(Error::Corrupt(corruption)) => {
                torn = Some(cut_off(&mut reader, ring, Torn::incomplete(end, at, corruption))?);
            }
            Err(error) => return Err(error),
        }
        head = at;
    }
    Ok((head, torn))
}

/// Returns true if xfsprogs cleared the journal (`xfs_repair -L`, `xfs_metadump`): the record at
/// its start marks it clean, and only zeroes follow up to the next record, at `end`. Blocks in the
/// place of a lost write carry the cycle before.
fn is_cleared(ring: &Ring<'_>, at: LogBlock, behind: LogBlock, end: LogBlock) -> Result<bool> {
    if at != LogBlock(0) || !is_unmount(ring, at, &*header_at(ring, at)?, behind)? {
        return Ok(false);
    }
    let between = ring.read_blocks(behind, ring.distance(behind, end))?;
    let next = ring.read_blocks(end, 1)?;
    Ok(between.iter().all(|&byte| byte == 0) && next.starts_with(&MAGIC.to_be_bytes()))
}

/// Tells a record that is damaged from one that did not arrive as a whole.
fn cut_off(reader: &mut Window<'_, '_>, ring: &Ring<'_>, torn: Torn) -> Result<Torn> {
    let Some(header) = summed_header(reader, ring, torn.at)? else { return Ok(torn) };
    let blocks = u32::try_from(header.blocks()).unwrap_or(u32::MAX);
    let is_unmount = is_unmount(ring, torn.at, &header, ring.forward(torn.at, blocks))?;
    Ok(Torn { is_whole: true, is_unmount, ..torn })
}

// ---- headers, backwards
// --------------------------------------------------------------------------

/// Returns the block of the nearest record header before `block`.
fn last_header(ring: &Ring<'_>, block: LogBlock) -> Result<LogBlock> {
    let nearest = headers_before(ring, block, RECORD_MAX)?.first().copied();
    let wanted = "a record within 520 blocks before the head";
    nearest.ok_or_else(|| no_header(ring, block, wanted).into())
}

fn no_header(ring: &Ring<'_>, at: LogBlock, wanted: &'static str) -> Box<Corruption> {
    ring.ctx(at).corruption(
        "log.record.magicno",
        Expected::Described(wanted.into()),
        Value::Missing,
    )
}

/// Returns the blocks of all record headers in the `window` blocks before `block`, nearest first.
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

/// Reads and verifies the header at block `at`.
pub(crate) fn header_at(ring: &Ring<'_>, at: LogBlock) -> Result<Box<RecordHeader>> {
    let block = ring.read_blocks(at, 1)?;
    Ok(Box::new(RecordHeader::verify(&block, &ring.ctx(at), at)?.clone()))
}

// ---- the tail
// ------------------------------------------------------------------------------------

/// Returns the state that the record before `head` describes.
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

/// Returns true if the record at `at` ends at `head` and marks the journal clean.
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
    let op = OpHeader::ref_from_prefix(&payload);
    Ok(op.is_ok_and(|(op, _)| op.flags.contains(OpFlags::UNMOUNT)))
}

/// Checks that the tail lies in this cycle before the head, or in the previous one after it.
fn check_tail(ring: &Ring<'_>, at: LogBlock, head: Lsn, tail: Lsn) -> Result<()> {
    let (cycle, block) = (tail.cycle(), tail.block());
    let this_lap = cycle == head.cycle() && block < head.block();
    let last_lap =
        next_cycle(cycle) == head.cycle() && block > head.block() && block.0 < ring.blocks();
    ring.ctx(at).require(
        "log.record.tail_lsn",
        this_lap || last_lap,
        "a position within one cycle before the head",
        tail,
    )?;
    Ok(())
}

// ---- records in flight
// ---------------------------------------------------------------------------

/// Returns the first of the newest records that is not intact. One whose header is lost is found by
/// the gap that it leaves between its neighbours.
fn first_torn(ring: &Ring<'_>, found: &Search) -> Result<Option<Torn>> {
    let head = found.head.block();
    let span = ring.distance(found.tail.block(), head);
    let window = span.min(RECORD_MAX * u32::try_from(IN_FLIGHT_RECORDS).unwrap_or(1));
    let headers = headers_before(ring, head, window)?;
    let mut reader = Window::new(ring);
    let mut next = None;
    for at in headers.into_iter().take(IN_FLIGHT_RECORDS).rev() {
        if let Some(lost) = next.filter(|&next| next != at) {
            let corruption = no_header(ring, lost, "a record header");
            return Ok(Some(Torn::incomplete(head, lost, corruption)));
        }
        match Record::read(&mut reader, ring, at, Crc::IfPresent) {
            Ok(record) => {
                let blocks = record.blocks();
                next = Some(ring.forward(at, blocks));
            }
            Err(Error::Corrupt(corruption)) => {
                return cut_off(&mut reader, ring, Torn::incomplete(head, at, corruption))
                    .map(Some);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns the first intact record from the tail on. Only records that the records in flight, ahead
/// of the head, can have overwritten may be skipped.
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

/// Returns the block of the next record header after `at` and before `head`.
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
