//! Healing of records that are bad on one member of an array, from the other members.
//!
//! A record whose checksum fails is assembled from the other sources of the device
//! (`BlockDevice::alternatives`). It is taken in pieces of 4 KiB in which every block carries the
//! record's cycle, until the checksum agrees. Of several candidates the newest counts. From then on
//! the result overlays the ring ([`Ring`]). If the device can be written, the bad member is
//! rewritten.
//!
//! Two kinds of damage must be distinguished. Between tail and head all records must be sound, so a
//! bad one is healed in place. Near the head a record may also be torn, because the power failed,
//! and a bad block may mislead the search for the head. In that case the blocks around the torn
//! record, or else the whole ring, are searched for records that are whole in another source only.
//! Then the search for the head runs again. A record that is torn in every source stays torn.

use std::collections::BTreeSet;
use std::ops::Range;

use xfskit_format::Corruption;
use xfskit_format::log::RecordHeader;
use xfskit_format::log::record::{BLOCK, MAGIC, cycle_of, next_cycle, previous_cycle};
use xfskit_units::{LogBlock, Lsn};

use crate::head::{self, IN_FLIGHT, Search, header_at};
use crate::record::{Crc, Record};
use crate::ring::{Patches, RECORD_MAX, Ring, Window};
use crate::{Error, Result};

/// Blocks of a piece that is taken from one source: 4 KiB, which no chunk of an array splits.
const PIECE: u32 = 8;
/// Blocks searched at once: 1 MiB.
const WINDOW: u32 = 2048;

/// A record that was bad in the source that is read first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealedRecord {
    /// The check that failed there.
    pub corruption: Corruption,
    /// True if the device now holds the correct record in every source.
    pub rewritten: bool,
}

/// A record as another source of the device has it.
struct Found {
    lsn: Lsn,
    at: LogBlock,
    /// The bytes to overlay on the ring; `None` if the ring has them.
    bytes: Option<Vec<u8>>,
    /// Length of the record in blocks.
    blocks: u32,
}

/// Finds head and tail of `ring`, and heals the records between them.
pub(crate) fn search(ring: &mut Ring<'_>) -> Result<(Search, Vec<HealedRecord>)> {
    // Without checksums the correct source cannot be identified.
    if !ring.geo().v5() || !ring.pin_alternatives() {
        return head::search(ring).map(|found| (found, Vec::new()));
    }
    let (found, mut healed) = (head::search(ring), Vec::new());
    let sound =
        |found: &Search| found.torn.is_none() && !search_was_misled(ring, found).unwrap_or(true);
    let found = match found {
        Ok(found) if sound(&found) => found,
        Err(error @ Error::Device(_)) => return Err(error),
        before => {
            let torn = before.as_ref().ok().and_then(|found| found.torn.as_ref());
            let region = torn.map_or(Region::all(ring), |torn| Region::around(ring, torn.at));
            let (records, patches) = heal_region(ring, &region)?;
            let found = if patches.is_empty() {
                before?
            } else {
                ring.patch(patches.clone());
                head::search(ring)?
            };
            let counts = |record: &Found| {
                let (tail, head) = (found.tail.block(), found.head.block());
                let between = ring.distance(tail, record.at) < ring.distance(tail, head);
                let newest = found.last_record == Some(record.at);
                (between || newest)
                    && record.lsn.cycle() == cycle_before_head(found.head, record.at)
            };
            let rewritten = rewrite(ring, &patches);
            let records = records.into_iter().filter(|(record, _)| counts(record));
            healed.extend(records.map(|(_, corruption)| HealedRecord { corruption, rewritten }));
            found
        }
    };
    heal_between(ring, &found, &mut healed)?;
    Ok((found, healed))
}

/// Returns true if the newest record and the ring's first block belong to different cycles: then
/// some block before the record was bad.
fn search_was_misled(ring: &Ring<'_>, found: &Search) -> Result<bool> {
    match found.last_record {
        Some(at) if at < found.head.block() => {
            Ok(header_at(ring, at)?.cycle.get() != ring.cycle(LogBlock(0))?)
        }
        _ => Ok(false),
    }
}

/// Heals the records from tail to head, as far as possible.
fn heal_between(ring: &mut Ring<'_>, found: &Search, healed: &mut Vec<HealedRecord>) -> Result<()> {
    let (mut at, head) = (found.tail.block(), found.head.block());
    let crc = Crc::for_replay(true);
    while at != head {
        let corruption = match Record::read(&mut Window::new(ring), ring, at, crc) {
            Ok(record) => {
                let blocks = record.blocks();
                if blocks > ring.distance(at, head) {
                    return Ok(()); // reading it reports the error
                }
                at = ring.forward(at, blocks);
                continue;
            }
            Err(Error::Corrupt(corruption)) => corruption,
            Err(error) => return Err(error),
        };
        let fits = |record: &Found| {
            record.lsn.cycle() == cycle_before_head(found.head, at)
                && record.blocks <= ring.distance(at, head)
        };
        let Some(record) = find_alternative(ring, at).filter(fits) else { return Ok(()) };
        let mut patches = Patches::new();
        add_patch(ring, &record, &mut patches);
        let rewritten = rewrite(ring, &patches);
        healed.push(HealedRecord { corruption: *corruption, rewritten });
        ring.patch(patches);
    }
    Ok(())
}

/// Returns the cycle of block `at`, which lies before `head`.
pub(crate) fn cycle_before_head(head: Lsn, at: LogBlock) -> u32 {
    if at < head.block() { head.cycle() } else { previous_cycle(head.cycle()) }
}

/// Makes the device rewrite blocks in this range that are wrong in one source and right in another.
/// For a device whose journal is clean, and whose sources are known to differ there.
pub(crate) fn heal_blocks(ring: &mut Ring<'_>, blocks: Range<u32>) -> Result<()> {
    if !ring.geo().v5() || !ring.pin_alternatives() {
        return Ok(());
    }
    let from = blocks.start.saturating_sub(RECORD_MAX);
    let count = blocks.end.saturating_add(RECORD_MAX).min(ring.blocks()).saturating_sub(from);
    let (_, patches) = heal_region(ring, &Region { from: LogBlock(from), count })?;
    rewrite(ring, &patches);
    Ok(())
}

/// A contiguous range of blocks of the ring.
struct Region {
    from: LogBlock,
    count: u32,
}

impl Region {
    fn all(ring: &Ring<'_>) -> Self {
        Self { from: LogBlock(0), count: ring.blocks() }
    }

    /// Returns the range in which blocks may have been in flight together with this one.
    fn around(ring: &Ring<'_>, at: LogBlock) -> Self {
        let count = (2 * IN_FLIGHT).min(ring.blocks());
        Self { from: ring.back(at, count / 2), count }
    }

    /// Splits the region into windows: first block and number of blocks.
    fn windows(&self, ring: &Ring<'_>) -> Vec<(LogBlock, u32)> {
        let starts = (0..self.count).step_by(WINDOW as usize);
        starts.map(|n| (ring.forward(self.from, n), WINDOW.min(self.count - n))).collect()
    }
}

/// Finds the records of a region that are whole in another source only, and blocks whose cycle is
/// impossible. Returns the records with the check that failed for each, and the blocks to overlay
/// on the ring.
fn heal_region(ring: &Ring<'_>, region: &Region) -> Result<(Vec<(Found, Corruption)>, Patches)> {
    let mut records = Vec::new();
    let mut reader = Window::new(ring);
    for at in headers(ring, region) {
        match Record::read(&mut reader, ring, at, Crc::Required) {
            Ok(record) => {
                let blocks = record.blocks();
                records.push((Found { lsn: record.lsn(), at, bytes: None, blocks }, None));
            }
            Err(Error::Corrupt(corruption)) => {
                records
                    .extend(find_alternative(ring, at).map(|record| (record, Some(*corruption))));
            }
            Err(error) => return Err(error),
        }
    }
    records.sort_by_key(|(record, _)| record.lsn);
    let mut patches = Patches::new();
    for (record, _) in &records {
        add_patch(ring, record, &mut patches);
    }
    if let Some((newest, _)) = records.last() {
        heal_cycles(ring, region, newest.lsn.cycle(), &mut patches)?;
    }
    let records =
        records.into_iter().filter_map(|(record, corruption)| Some((record, corruption?)));
    Ok((records.collect(), patches))
}

/// Returns the blocks of a region at which a record begins in any source.
fn headers(ring: &Ring<'_>, region: &Region) -> BTreeSet<LogBlock> {
    let mut found = BTreeSet::new();
    for (from, count) in region.windows(ring) {
        let mut bytes = vec![0; count as usize * BLOCK];
        for k in 0..ring.alternatives() {
            if ring.read_alternative(from, &mut bytes, k).is_err() {
                continue;
            }
            let numbers = (0..).map(|n| ring.forward(from, n));
            let blocks = numbers.zip(bytes.chunks_exact(BLOCK));
            let begins = |(at, block): &(LogBlock, &[u8])| {
                block.first_chunk() == Some(&MAGIC.to_be_bytes())
                    && RecordHeader::verify(block, &ring.ctx(*at), *at).is_ok()
            };
            found.extend(blocks.filter(begins).map(|(at, _)| at));
        }
    }
    found
}

/// Replaces blocks that cannot have been written near `cycle` by those of a source that can.
fn heal_cycles(ring: &Ring<'_>, region: &Region, cycle: u32, patches: &mut Patches) -> Result<()> {
    let makes_sense = |block: &[u8]| {
        let found = cycle_of(block);
        found == cycle || found == previous_cycle(cycle) || found == next_cycle(cycle)
    };
    for (from, count) in region.windows(ring) {
        let bytes = ring.read_blocks(from, count)?;
        for (n, block) in (0..).zip(bytes.chunks_exact(BLOCK)) {
            let LogBlock(at) = ring.forward(from, n);
            if patches.contains_key(&at) || makes_sense(block) || block.iter().all(|b| *b == 0) {
                continue;
            }
            let mut other = [0; BLOCK];
            let mut gives = |k| {
                ring.read_alternative(LogBlock(at), &mut other, k).is_ok() && makes_sense(&other)
            };
            if (1..ring.alternatives()).any(&mut gives) {
                patches.insert(at, Box::new(other));
            }
        }
    }
    Ok(())
}

/// Adds a record to the patches, over older ones.
fn add_patch(ring: &Ring<'_>, record: &Found, patches: &mut Patches) {
    for n in 0..record.blocks {
        let LogBlock(at) = ring.forward(record.at, n);
        let bytes =
            record.bytes.as_ref().and_then(|bytes| bytes.chunks_exact(BLOCK).nth(n as usize));
        match bytes.and_then(|block| <[u8; BLOCK]>::try_from(block).ok()) {
            Some(block) => patches.insert(at, Box::new(block)),
            None => patches.remove(&at),
        };
    }
}

/// Makes the device return these blocks from every source. Returns false if it cannot.
fn rewrite(ring: &Ring<'_>, patches: &Patches) -> bool {
    patches.iter().all(|(at, good)| {
        let mut found = [0; BLOCK];
        let mut gives =
            |k| ring.read_alternative(LogBlock(*at), &mut found, k).is_ok() && found == **good;
        let (right, wrong): (Vec<usize>, Vec<usize>) =
            (0..ring.alternatives()).partition(|k| gives(*k));
        wrong.is_empty()
            || right
                .first()
                .is_some_and(|k| ring.heal(LogBlock(*at), &good[..], *k).unwrap_or(false))
    })
}

/// Returns the newest record at `at` that is whole in another source than the first.
fn find_alternative(ring: &Ring<'_>, at: LogBlock) -> Option<Found> {
    let ctx = ring.ctx(at);
    let mut headers: Vec<RecordHeader> = Vec::new();
    for k in 0..ring.alternatives() {
        let mut block = [0; BLOCK];
        if ring.read_alternative(at, &mut block, k).is_err() {
            continue;
        }
        if let Ok(header) = RecordHeader::verify(&block, &ctx, at) {
            headers.push(header.clone());
        }
    }
    headers.sort_by_key(|header| std::cmp::Reverse(header.lsn()));
    let lengths = headers.iter().map(|header| (header.lsn(), header.blocks()));
    let mut lengths: Vec<(Lsn, usize)> = lengths.collect();
    lengths.dedup();
    for (lsn, blocks) in lengths {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        if blocks <= RECORD_MAX.min(ring.blocks())
            && let Some(bytes) = assemble(ring, at, lsn, blocks)
        {
            return Some(Found { lsn, at, bytes: Some(bytes), blocks });
        }
    }
    None
}

/// Assembles a record of `blocks` blocks so that its checksum agrees. Each piece comes from a
/// source whose blocks carry the record's cycle: all from the first such source, or all except one
/// piece.
fn assemble(ring: &Ring<'_>, at: LogBlock, lsn: Lsn, blocks: u32) -> Option<Vec<u8>> {
    let pieces: Vec<Vec<Vec<u8>>> =
        pieces(ring, at, blocks).map(|piece| candidates(ring, at, lsn, &piece)).collect();
    let mut choice = vec![0; pieces.len()];
    let assemble = |choice: &[usize]| -> Option<Vec<u8>> {
        let parts =
            pieces.iter().zip(choice).map(|(candidates, i)| candidates.get(*i).map(Vec::as_slice));
        let parts: Option<Vec<&[u8]>> = parts.collect();
        parts.map(|parts| parts.concat()).filter(|bytes| is_whole(ring, at, bytes))
    };
    if let Some(bytes) = assemble(&choice) {
        return Some(bytes);
    }
    for piece in 0..pieces.len() {
        for other in 1..pieces[piece].len() {
            choice[piece] = other;
            if let Some(bytes) = assemble(&choice) {
                return Some(bytes);
            }
        }
        choice[piece] = 0;
    }
    None
}

/// Splits a record at multiples of a piece of the device, and at the end of the ring. The ranges
/// count blocks from `at`.
fn pieces(ring: &Ring<'_>, at: LogBlock, blocks: u32) -> impl Iterator<Item = Range<u32>> {
    let (mut from, ring_blocks) = (0, ring.blocks());
    let (start, at) = (ring.start().0 % u64::from(PIECE), at.0);
    std::iter::from_fn(move || {
        let here = (at + from) % ring_blocks;
        let into = u32::try_from((start + u64::from(here)) % u64::from(PIECE)).unwrap_or(0);
        let to = blocks.min(from + (PIECE - into).min(ring_blocks - here));
        let piece = from..to;
        from = to;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Returns the distinct contents of a piece among the sources in which every block carries the
/// record's cycle.
fn candidates(ring: &Ring<'_>, at: LogBlock, lsn: Lsn, piece: &Range<u32>) -> Vec<Vec<u8>> {
    let from = ring.forward(at, piece.start);
    let wrapped = from < at;
    let cycle = if wrapped { next_cycle(lsn.cycle()) } else { lsn.cycle() };
    let mut found: Vec<Vec<u8>> = Vec::new();
    for k in 0..ring.alternatives() {
        let mut bytes = vec![0; piece.len() * BLOCK];
        let fits = ring.read_alternative(from, &mut bytes, k).is_ok()
            && bytes.chunks_exact(BLOCK).all(|block| cycle_of(block) == cycle);
        if fits && !found.contains(&bytes) {
            found.push(bytes);
        }
    }
    found
}

/// Returns true if these bytes are a whole record at `at`.
fn is_whole(ring: &Ring<'_>, at: LogBlock, bytes: &[u8]) -> bool {
    Record::of_bytes(bytes, ring, at, Crc::Required).is_ok()
}
