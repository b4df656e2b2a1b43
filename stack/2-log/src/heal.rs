//! Records that one member of an array has wrong, read from the others.
//!
//! A record whose checksum fails is put together from the other ways that the device has to give its blocks
//! (`BlockDevice::alternatives`): pieces of 4 KiB in which every block carries the record's cycle, until the checksum
//! agrees. Of several the newest counts. What was found so lies over the ring from then on ([`Ring`]), and is
//! rewritten on the member that lied where the device can be written.
//!
//! Two kinds of damage have to be told apart. Between tail and head all records must be sound, and one that is
//! not is healed where it stands. Near the head a record may also be torn, for the power went; and a block that lies
//! may mislead the search for the head. Then the blocks around what is torn, or else all of the ring, are looked
//! through for records that are whole in another way only, and the search is done again. What is torn in every way
//! stays torn.

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

/// Blocks of a piece that is taken in one way: 4 KiB, which no chunk of an array cuts.
const PIECE: u32 = 8;
/// Blocks looked through at once: 1 MiB.
const WINDOW: u32 = 2048;

/// A record that was bad in the way it was read first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealedRecord {
    /// What was wrong with it there.
    pub fault: Corruption,
    /// The device holds the right one in every way now.
    pub rewritten: bool,
}

/// A record as the device has it in other ways than the first.
struct Found {
    lsn: Lsn,
    at: LogBlock,
    /// What is to lie over the ring; `None` where the ring has it.
    bytes: Option<Vec<u8>>,
    /// Blocks that it takes.
    blocks: u32,
}

/// Finds head and tail of `ring`, and heals what lies between.
pub(crate) fn search(ring: &mut Ring<'_>) -> Result<(Search, Vec<HealedRecord>)> {
    // Without checksums nobody can tell.
    if !ring.geo().v5() || !ring.tell_ways_apart() {
        return head::search(ring).map(|found| (found, Vec::new()));
    }
    let (found, mut healed) = (head::search(ring), Vec::new());
    let sound = |found: &Search| found.torn.is_none() && !is_misled(ring, found).unwrap_or(true);
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
                (between || newest) && record.lsn.cycle() == lap_of(found.head, record.at)
            };
            let rewritten = rewrite(ring, &patches);
            let records = records.into_iter().filter(|(record, _)| counts(record));
            healed.extend(records.map(|(_, fault)| HealedRecord { fault, rewritten }));
            found
        }
    };
    heal_between(ring, &found, &mut healed)?;
    Ok((found, healed))
}

/// True where the newest record is of another lap than the ring's first block: some block before it lied.
fn is_misled(ring: &Ring<'_>, found: &Search) -> Result<bool> {
    match found.last_record {
        Some(at) if at < found.head.block() => {
            Ok(header_at(ring, at)?.cycle.get() != ring.cycle(LogBlock(0))?)
        }
        _ => Ok(false),
    }
}

/// Heals the records from tail to head, as far as that goes.
fn heal_between(ring: &mut Ring<'_>, found: &Search, healed: &mut Vec<HealedRecord>) -> Result<()> {
    let (mut at, head) = (found.tail.block(), found.head.block());
    let crc = Crc::for_replay(true);
    while at != head {
        let fault = match Record::read(&mut Window::new(ring), ring, at, crc) {
            Ok(record) => {
                let blocks = u32::try_from(record.header.blocks()).unwrap_or(u32::MAX);
                if blocks > ring.distance(at, head) {
                    return Ok(()); // whoever reads it says so
                }
                at = ring.forward(at, blocks);
                continue;
            }
            Err(Error::Corrupt(fault)) => fault,
            Err(error) => return Err(error),
        };
        let fits = |record: &Found| {
            record.lsn.cycle() == lap_of(found.head, at) && record.blocks <= ring.distance(at, head)
        };
        let Some(record) = other_ways(ring, at).filter(fits) else { return Ok(()) };
        let mut patches = Patches::new();
        lay(ring, &record, &mut patches);
        let rewritten = rewrite(ring, &patches);
        healed.push(HealedRecord { fault: *fault, rewritten });
        ring.patch(patches);
    }
    Ok(())
}

/// The cycle of block `at`, which lies before `head`.
pub(crate) fn lap_of(head: Lsn, at: LogBlock) -> u32 {
    if at < head.block() { head.cycle() } else { previous_cycle(head.cycle()) }
}

/// Has the device rewrite what is wrong in one of its ways between these blocks, and right in another. For a device
/// whose journal is clean, and whose ways are known not to agree there.
pub(crate) fn mend(ring: &mut Ring<'_>, blocks: Range<u32>) -> Result<()> {
    if !ring.geo().v5() || !ring.tell_ways_apart() {
        return Ok(());
    }
    let from = blocks.start.saturating_sub(RECORD_MAX);
    let count = blocks.end.saturating_add(RECORD_MAX).min(ring.blocks()).saturating_sub(from);
    let (_, patches) = heal_region(ring, &Region { from: LogBlock(from), count })?;
    rewrite(ring, &patches);
    Ok(())
}

/// Blocks of the ring in a row.
struct Region {
    from: LogBlock,
    count: u32,
}

impl Region {
    fn all(ring: &Ring<'_>) -> Self {
        Self { from: LogBlock(0), count: ring.blocks() }
    }

    /// Where blocks may have been on their way together with this one.
    fn around(ring: &Ring<'_>, at: LogBlock) -> Self {
        let count = (2 * IN_FLIGHT).min(ring.blocks());
        Self { from: ring.back(at, count / 2), count }
    }

    /// It in windows: from which block on, and how many.
    fn windows(&self, ring: &Ring<'_>) -> Vec<(LogBlock, u32)> {
        let starts = (0..self.count).step_by(WINDOW as usize);
        starts.map(|n| (ring.forward(self.from, n), WINDOW.min(self.count - n))).collect()
    }
}

/// What of a region is whole in another way only: records, and blocks whose cycle makes no sense. Answers the records
/// with what was wrong with each, and what is to lie over the ring.
fn heal_region(ring: &Ring<'_>, region: &Region) -> Result<(Vec<(Found, Corruption)>, Patches)> {
    let mut records = Vec::new();
    let mut reader = Window::new(ring);
    for at in headers(ring, region) {
        match Record::read(&mut reader, ring, at, Crc::Required) {
            Ok(record) => {
                let blocks = u32::try_from(record.header.blocks()).unwrap_or(u32::MAX);
                records.push((Found { lsn: record.lsn(), at, bytes: None, blocks }, None));
            }
            Err(Error::Corrupt(fault)) => {
                records.extend(other_ways(ring, at).map(|record| (record, Some(*fault))));
            }
            Err(error) => return Err(error),
        }
    }
    records.sort_by_key(|(record, _)| record.lsn);
    let mut patches = Patches::new();
    for (record, _) in &records {
        lay(ring, record, &mut patches);
    }
    if let Some((newest, _)) = records.last() {
        mend_cycles(ring, region, newest.lsn.cycle(), &mut patches)?;
    }
    let records = records.into_iter().filter_map(|(record, fault)| Some((record, fault?)));
    Ok((records.collect(), patches))
}

/// The blocks of a region at which a record begins in any way.
fn headers(ring: &Ring<'_>, region: &Region) -> BTreeSet<LogBlock> {
    let mut found = BTreeSet::new();
    for (from, count) in region.windows(ring) {
        let mut bytes = vec![0; count as usize * BLOCK];
        for k in 0..ring.ways() {
            if ring.read_way(from, &mut bytes, k).is_err() {
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

/// Blocks that no lap near `cycle` can have written are had in a way in which one has.
fn mend_cycles(ring: &Ring<'_>, region: &Region, cycle: u32, patches: &mut Patches) -> Result<()> {
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
            let mut gives =
                |k| ring.read_way(LogBlock(at), &mut other, k).is_ok() && makes_sense(&other);
            if (1..ring.ways()).any(&mut gives) {
                patches.insert(at, Box::new(other));
            }
        }
    }
    Ok(())
}

/// Lays a record over what is older.
fn lay(ring: &Ring<'_>, record: &Found, patches: &mut Patches) {
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

/// Has the device give these blocks in every way. False where it cannot.
fn rewrite(ring: &Ring<'_>, patches: &Patches) -> bool {
    patches.iter().all(|(at, good)| {
        let mut found = [0; BLOCK];
        let mut gives = |k| ring.read_way(LogBlock(*at), &mut found, k).is_ok() && found == **good;
        let (right, wrong): (Vec<usize>, Vec<usize>) = (0..ring.ways()).partition(|k| gives(*k));
        wrong.is_empty()
            || right
                .first()
                .is_some_and(|k| ring.heal(LogBlock(*at), &good[..], *k).unwrap_or(false))
    })
}

/// The newest record at `at` that is whole in other ways than the first.
fn other_ways(ring: &Ring<'_>, at: LogBlock) -> Option<Found> {
    let ctx = ring.ctx(at);
    let mut headers: Vec<RecordHeader> = Vec::new();
    for k in 0..ring.ways() {
        let mut block = [0; BLOCK];
        if ring.read_way(at, &mut block, k).is_err() {
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
            && let Some(bytes) = put_together(ring, at, lsn, blocks)
        {
            return Some(Found { lsn, at, bytes: Some(bytes), blocks });
        }
    }
    None
}

/// A record of so many blocks, piece by piece in ways whose blocks carry its cycle, so that its checksum agrees: all
/// in the first such way, or all but one piece.
fn put_together(ring: &Ring<'_>, at: LogBlock, lsn: Lsn, blocks: u32) -> Option<Vec<u8>> {
    let pieces: Vec<Vec<Vec<u8>>> =
        cut(ring, at, blocks).map(|piece| candidates(ring, at, lsn, &piece)).collect();
    let mut choice = vec![0; pieces.len()];
    let assemble = |choice: &[usize]| -> Option<Vec<u8>> {
        let parts = pieces.iter().zip(choice).map(|(ways, i)| ways.get(*i).map(Vec::as_slice));
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

/// A record cut at multiples of a piece of the device, and at the end of the ring; blocks behind `at`.
fn cut(ring: &Ring<'_>, at: LogBlock, blocks: u32) -> impl Iterator<Item = Range<u32>> {
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

/// What the ways in which every block of a piece carries the record's cycle give, each content once.
fn candidates(ring: &Ring<'_>, at: LogBlock, lsn: Lsn, piece: &Range<u32>) -> Vec<Vec<u8>> {
    let from = ring.forward(at, piece.start);
    let wrapped = from < at;
    let cycle = if wrapped { next_cycle(lsn.cycle()) } else { lsn.cycle() };
    let mut found: Vec<Vec<u8>> = Vec::new();
    for k in 0..ring.ways() {
        let mut bytes = vec![0; piece.len() * BLOCK];
        let fits = ring.read_way(from, &mut bytes, k).is_ok()
            && bytes.chunks_exact(BLOCK).all(|block| cycle_of(block) == cycle);
        if fits && !found.contains(&bytes) {
            found.push(bytes);
        }
    }
    found
}

/// True where these bytes are a whole record at `at`.
fn is_whole(ring: &Ring<'_>, at: LogBlock, bytes: &[u8]) -> bool {
    Record::of_bytes(bytes, ring, at, Crc::Required).is_ok()
}
