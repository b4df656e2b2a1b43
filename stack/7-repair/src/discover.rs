//! Inode chunks of a group whose inode btrees are lost, or lack some.
//!
//! Each inode of version 5 has its own number, the volume's UUID and a checksum, so that the block
//! of an inode is known by itself. Inodes that were deleted with their chunk may be on the disk
//! still: only blocks that the rmapbt has as inodes count, or, without it, blocks that no
//! free-space btree has as free. A chunk in which no inode is in use is left out: its blocks become
//! free.
//!
//! An inobt that can be read may have lost records: the AGI counts more inodes, or the finobt has
//! chunks that it lacks. Then the files of the other chunks show which blocks hold old inodes.

use std::ops::Range;

use xfskit_block::BlockDevice;
use xfskit_check::{Finding, GroupSurvey, Run, parallel};
use xfskit_format::corruption::{Expected, Value};
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK, INODES_PER_HOLEMASK_BIT};
use xfskit_format::inode::{self, CRC_OFFSET, Dinode, MAGIC};
use xfskit_units::{AgBlock, AgIno, AgNumber, Geometry};

use crate::error::Result;

/// Blocks that are read at once.
const BATCH: u32 = 256;

/// Which evidence showed where inodes may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The rmapbt.
    Rmapbt,
    /// A free-space btree, which shows where they are not.
    FreeSpace,
    /// The inodes alone.
    Inodes,
}

impl Evidence {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Rmapbt => "inodes with right checksums, where the rmapbt has inodes",
            Self::FreeSpace => "inodes with right checksums, outside of free space",
            Self::Inodes => "inodes with right checksums; no btree shows where they may be",
        }
    }
}

/// Returns true if the inobt of a group cannot be trusted, though it can be read.
pub(crate) fn is_doubtful(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| {
        let corruption = &finding.corruption;
        match (corruption.check.0, &corruption.expected, &corruption.found) {
            ("agi.count", Expected::Exactly(Value::Number(present)), Value::Number(count)) => {
                count > present
            }
            (id, ..) => OF_CHUNKS.contains(&id),
        }
    })
}

/// Checks of records of the inobt: where they fail, chunks are wrong or missing.
const OF_CHUNKS: [&str; 8] = [
    "finobt.extra",
    "inobt.align",
    "inobt.chunk",
    "inobt.count",
    "inobt.holemask",
    "inobt.numrecs",
    "inobt.overlap",
    "inobt.rec",
];

/// Takes chunks away whose blocks files use: these hold old inodes, which were not overwritten.
pub(crate) fn drop_old(
    geo: &Geometry,
    survey: &GroupSurvey,
    chunks: &mut Vec<Chunk>,
) -> Result<()> {
    let mut files: Vec<Range<u32>> = Vec::new();
    for rec in survey.owners.load()?.iter().filter(|rec| rec.inode().is_some()) {
        let (start, end) = (rec.start().0, rec.start().0.saturating_add(rec.len().0));
        match files.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => files.push(start..end),
        }
    }
    let is_of_file = |agbno: u32| {
        let behind = files.partition_point(|range| range.start <= agbno);
        behind.checked_sub(1).is_some_and(|at| agbno < files[at].end)
    };
    let per_block = geo.inopblock().min(INODES_PER_CHUNK);
    chunks.retain(|chunk| {
        let slots = (0..INODES_PER_CHUNK).step_by(per_block as usize);
        let mut there = slots.filter(|slot| chunk.present() >> slot & 1 == 1);
        !there.any(|slot| {
            is_of_file(geo.agino_to_agb(AgIno(chunk.startino.0.saturating_add(slot))).0)
        })
    });
    Ok(())
}

/// Returns the inode chunks of a group, by number. Up to [`parallel::READERS`] times `threads`
/// threads look for them. What they find does not depend on their number.
pub(crate) fn chunks(
    dev: &dyn BlockDevice,
    geo: &Geometry,
    survey: &GroupSurvey,
    threads: usize,
) -> Result<(Vec<Chunk>, Evidence)> {
    let (runs, evidence) = places(geo, survey);
    let group = Group { dev, geo, agno: survey.agno };
    let pieces = group.pieces(&runs);
    let readers = threads.saturating_mul(parallel::READERS);
    let workers = parallel::for_each(readers, pieces.len(), Worker::default, |worker, at| {
        worker.read(&group, at, pieces[at]);
    });
    let mut found: Vec<_> = workers.into_iter().flat_map(|worker| worker.found).collect();
    found.sort_unstable_by_key(|(at, _)| *at);
    let mut chunks = Chunks { geo, list: Vec::new() };
    for (_, inodes) in found {
        inodes?.iter().for_each(|inodes| chunks.add(inodes));
    }
    let in_use = |chunk: &Chunk| chunk.used() != 0;
    let mut chunks = chunks.list.into_iter().filter(in_use).collect();
    add_root(dev, geo, survey.agno, &mut chunks)?;
    Ok((chunks, evidence))
}

/// Adds the chunk of the root directory, if it is lost with all of its inodes: they are free then,
/// but the root and the inodes of the realtime device, which are made anew.
fn add_root(
    dev: &dyn BlockDevice,
    geo: &Geometry,
    agno: AgNumber,
    chunks: &mut Vec<Chunk>,
) -> Result<()> {
    let Some((of_root, root)) = geo.ino_split(geo.rootino) else { return Ok(()) };
    let is_aligned = geo.features.sparse();
    let start = if is_aligned { AgIno(root.0 / INODES_PER_CHUNK * INODES_PER_CHUNK) } else { root };
    let overlaps = |chunk: &Chunk| chunk.startino.0.abs_diff(start.0) < INODES_PER_CHUNK;
    if of_root != agno || chunks.iter().any(overlaps) {
        return Ok(());
    }
    let made_anew = [Some(geo.rootino), geo.rbmino, geo.rsumino];
    let mut chunk =
        Chunk { startino: start, holemask: 0, count: INODES_PER_CHUNK, freecount: 0, free: 0 };
    let mut bytes = vec![0; geo.inodesize()];
    for bit in 0..INODES_PER_CHUNK {
        let ino = geo.agino_to_ino(agno, start.saturating_add(bit));
        if made_anew.contains(&Some(ino)) {
            continue;
        }
        chunk.free |= 1 << bit;
        inode::template(&mut bytes, geo, ino, 0);
        if let Some(at) = geo.ino_to_byte(ino) {
            dev.write_at(at, &bytes)?;
        }
    }
    chunk.freecount = chunk.free.count_ones();
    chunks.insert(chunks.partition_point(|before| before.startino < start), chunk);
    Ok(())
}

/// Returns where inodes may be.
fn places(geo: &Geometry, survey: &GroupSurvey) -> (Vec<Run>, Evidence) {
    let first = geo.ag_header_last().0 + 1;
    let all = Run { start: first, len: geo.ag_length(survey.agno).saturating_sub(first) };
    if let Some(inodes) = &survey.recorded_inodes {
        return (inodes.clone(), Evidence::Rmapbt);
    }
    let Some(free) = &survey.recorded_free else { return (vec![all], Evidence::Inodes) };
    let (mut runs, mut at, end) = (Vec::new(), all.start, all.start + all.len);
    let behind = Run { start: end, len: 0 };
    for free in free.iter().chain([&behind]) {
        let start = free.start.min(end);
        if at < start {
            runs.push(Run { start: at, len: start - at });
        }
        at = at.max(start.saturating_add(free.len));
    }
    (runs, Evidence::FreeSpace)
}

/// Inodes that exist, of 64 whose numbers follow one another.
struct Inodes {
    /// The first number, a multiple of 64.
    start: AgIno,
    exist: u64,
    /// Of these, the ones in use.
    used: u64,
}

/// The group in which inodes are looked for.
struct Group<'g> {
    dev: &'g dyn BlockDevice,
    geo: &'g Geometry,
    agno: AgNumber,
}

/// What one thread found.
#[derive(Default)]
struct Worker {
    blocks: Vec<u8>,
    /// The number of a piece, and its inodes in order. Pieces without inodes are left out.
    found: Vec<(usize, Result<Vec<Inodes>>)>,
}

impl Worker {
    /// Reads piece number `at`.
    fn read(&mut self, group: &Group<'_>, at: usize, piece: Run) {
        let inodes = group.inodes(piece, &mut self.blocks);
        if !inodes.as_ref().is_ok_and(Vec::is_empty) {
            self.found.push((at, inodes));
        }
    }
}

impl Group<'_> {
    /// Cuts runs into pieces that are read at once, in order. Holes of the device are left out.
    fn pieces(&self, runs: &[Run]) -> Vec<Run> {
        let mut pieces = Vec::new();
        for run in runs {
            let (mut start, end) = (run.start, run.end());
            while start < end {
                let at = self.geo.agb_to_daddr(self.agno, AgBlock(start)).byte_offset();
                let hole = (self.dev.skip_hole(at).0 - at.0) >> self.geo.blocklog;
                if hole > 0 {
                    start = start.saturating_add(u32::try_from(hole).unwrap_or(u32::MAX));
                    continue;
                }
                let len = BATCH.min(end - start);
                pieces.push(Run { start, len });
                start += len;
            }
        }
        pieces
    }

    /// Reads a piece into `blocks`, and returns its inodes in order.
    fn inodes(&self, piece: Run, blocks: &mut Vec<u8>) -> Result<Vec<Inodes>> {
        blocks.resize(piece.len as usize * self.geo.blocksize(), 0);
        let at = self.geo.agb_to_daddr(self.agno, AgBlock(piece.start)).byte_offset();
        self.dev.read_at(at, blocks)?;
        let mut inodes = Vec::new();
        for (agbno, block) in (piece.start..).zip(blocks.chunks_exact(self.geo.blocksize())) {
            self.add_block(AgBlock(agbno), block, &mut inodes);
        }
        Ok(inodes)
    }

    /// Adds the inodes of a block, if it has some.
    fn add_block(&self, agbno: AgBlock, block: &[u8], inodes: &mut Vec<Inodes>) {
        let first = self.geo.agb_to_agino(agbno);
        let slots = || (first.0..).map(AgIno).zip(block.chunks_exact(self.geo.inodesize()));
        if slots().all(|(agino, slot)| self.is_used(agino, slot).is_none()) {
            return;
        }
        for (agino, slot) in slots() {
            let start = AgIno(agino.0 / INODES_PER_CHUNK * INODES_PER_CHUNK);
            if inodes.last().is_none_or(|last| last.start != start) {
                inodes.push(Inodes { start, exist: 0, used: 0 });
            }
            let Some(last) = inodes.last_mut() else { return };
            let bit = 1 << (agino.0 - start.0);
            last.exist |= bit;
            // One whose checksum is wrong counts as used: the check names it.
            if self.is_used(agino, slot).unwrap_or(true) {
                last.used |= bit;
            }
        }
    }

    /// Returns whether an inode is in use; `None` if it is none.
    fn is_used(&self, agino: AgIno, slot: &[u8]) -> Option<bool> {
        let inode = Dinode::parse(slot, self.geo)?;
        let v3 = inode.v3?;
        let own = v3.inumber.get() == self.geo.agino_to_ino(self.agno, agino).0
            && v3.uuid == *self.geo.meta_uuid.as_bytes()
            && inode.core.magic.get() == MAGIC;
        (own && xfskit_crc::verify(slot, CRC_OFFSET)).then(|| !inode.is_free())
    }
}

/// The chunks found so far.
struct Chunks<'g> {
    geo: &'g Geometry,
    list: Vec<Chunk>,
}

impl Chunks<'_> {
    /// Adds inodes. They are added in order.
    fn add(&mut self, inodes: &Inodes) {
        for bit in (0..INODES_PER_CHUNK).filter(|bit| inodes.exist >> bit & 1 == 1) {
            self.put(AgIno(inodes.start.0 + bit), inodes.used >> bit & 1 == 1);
        }
    }

    /// Adds an inode that exists.
    fn put(&mut self, agino: AgIno, is_used: bool) {
        let start = self.chunk_start(agino);
        if self.list.last().is_none_or(|chunk| chunk.startino != start) {
            self.list.push(Chunk {
                startino: start,
                holemask: u16::MAX,
                count: 0,
                freecount: 0,
                free: u64::MAX,
            });
        }
        let Some(chunk) = self.list.last_mut() else { return };
        let bit = agino.0 - start.0;
        chunk.holemask &= !(1 << (bit / INODES_PER_HOLEMASK_BIT));
        chunk.count += 1;
        if is_used {
            chunk.free &= !(1 << bit);
        } else {
            chunk.freecount += 1;
        }
    }

    /// Returns where the chunk of an inode starts. With sparse inodes chunks are aligned to their
    /// size; without, a chunk goes on where the last one began.
    fn chunk_start(&self, agino: AgIno) -> AgIno {
        let inside = |chunk: &&Chunk| agino.0 - chunk.startino.0 < INODES_PER_CHUNK;
        if self.geo.features.sparse() {
            return AgIno(agino.0 / INODES_PER_CHUNK * INODES_PER_CHUNK);
        }
        self.list.last().filter(inside).map_or(agino, |chunk| chunk.startino)
    }
}

#[cfg(test)]
mod tests {
    use xfskit_format::rmap;

    use super::*;

    #[test]
    fn old_inodes_in_blocks_of_a_file_are_no_chunk() {
        let geo = xfskit_units::example::geometry();
        let chunk = |agbno: u32| Chunk {
            startino: geo.agb_to_agino(AgBlock(agbno)),
            holemask: 0,
            count: 64,
            freecount: 0,
            free: 0,
        };
        let blocks = INODES_PER_CHUNK.div_ceil(geo.inopblock());
        let used = |start: u32, len: u32, owner: u64| rmap::Rec {
            startblock: start.into(),
            blockcount: len.into(),
            owner: owner.into(),
            offset: 0.into(),
        };
        let owners = vec![
            used(64, blocks, rmap::owner::INODES),
            used(128, 4 * blocks, 131),
            used(128 + blocks, 1, 132),
        ];
        let survey = GroupSurvey {
            agno: AgNumber(0),
            owners: owners.into(),
            shared: Vec::new(),
            disputes: Vec::new(),
            chunks: Vec::new(),
            chunks_complete: true,
            recorded_inodes: None,
            recorded_free: None,
            ownerless: None,
            made_again: Vec::new(),
            recorded_files: None,
            unlinked: None,
        };
        let all = [64, 128 + 3 * blocks, 256, 128 + 4 * blocks].map(chunk);
        let mut chunks = all.to_vec();
        drop_old(&geo, &survey, &mut chunks).unwrap();
        assert_eq!(chunks, [all[0], all[2], all[3]]);
    }
}
