//! Which blocks of removed files still hold their content: those that are free, and that no file
//! had that was removed later.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use xfskit_core::{Error, Volume};
use xfskit_format::agbtree::Tree;
use xfskit_format::alloc;
use xfskit_units::{AgNumber, FilBlks, FileOff};

use crate::candidate::{Candidate, Lost, LostReason};
use crate::realtime;
use xfskit_core::Warnings;

/// A run of blocks of a group, or of the realtime device, that a candidate had.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    end: u64,
    candidate: usize,
    startoff: u64,
}

/// Sets the lost parts of all candidates.
pub(crate) fn find_lost(volume: &Volume, candidates: &mut [Candidate], warnings: &mut Warnings) {
    let mut groups = BTreeMap::<AgNumber, Vec<Piece>>::new();
    let mut on_realtime = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        for extent in &candidate.extents {
            let block = extent.startblock;
            let (pieces, start) = if candidate.realtime {
                (&mut on_realtime, block.0)
            } else {
                let Some((agno, start)) = volume.geo().fsb_split(block) else { continue };
                (groups.entry(agno).or_default(), u64::from(start.0))
            };
            let end = start.saturating_add(extent.blockcount.0);
            pieces.push(Piece { start, end, candidate: index, startoff: extent.startoff.0 });
        }
    }
    for (agno, mut pieces) in groups {
        pieces.sort_unstable_by_key(|piece| piece.start);
        in_use(volume, agno, &pieces, candidates, warnings);
        reused(pieces, candidates);
    }
    if !on_realtime.is_empty() {
        in_use_on_realtime(volume, &on_realtime, candidates, warnings);
        reused(on_realtime, candidates);
    }
    for candidate in candidates {
        candidate.lost.sort_by_key(|lost| lost.startoff);
    }
}

impl Piece {
    /// Records that blocks `start` to `end` of the group are lost.
    fn lose(&self, start: u64, end: u64, reason: LostReason, candidates: &mut [Candidate]) {
        let (start, end) = (start.max(self.start), end.min(self.end));
        if start < end {
            let ahead = start.saturating_sub(self.start);
            let startoff = FileOff(self.startoff.saturating_add(ahead));
            let blockcount = FilBlks(end.saturating_sub(start));
            candidates[self.candidate].lost.push(Lost { startoff, blockcount, reason });
        }
    }
}

/// Records what of `pieces`, which are sorted, is not free. A free extent does not adjoin another,
/// so each piece lies between two gaps or in one extent.
fn in_use(
    volume: &Volume,
    agno: AgNumber,
    pieces: &[Piece],
    candidates: &mut [Candidate],
    warnings: &mut Warnings,
) {
    // Each block of a piece up to here is known to be free, or was recorded as lost.
    let mut known: Vec<u64> = pieces.iter().map(|piece| piece.start).collect();
    let longest = pieces.iter().map(|piece| piece.end.saturating_sub(piece.start)).max();
    let longest = longest.unwrap_or(0);
    let lose_to = |known: &mut u64, piece: &Piece, end: u64, candidates: &mut [Candidate]| {
        piece.lose(*known, end, LostReason::InUse, candidates);
        *known = (*known).max(end);
    };
    let walked = volume.space().walk_tree(agno, Tree::Bno, &(0..u32::MAX), &mut |_, block| {
        let block = block?;
        let recs = if block.level == 0 { block.recs::<alloc::Rec>() } else { &[] };
        for rec in recs {
            let start = u64::from(rec.startblock.get());
            let end = start.saturating_add(rec.blockcount.get().into());
            let from = start.saturating_sub(longest);
            let first = pieces.partition_point(|piece| piece.start < from);
            let last = pieces.partition_point(|piece| piece.start < end);
            for index in first..last.max(first) {
                let (piece, known) = (&pieces[index], &mut known[index]);
                if piece.end > start {
                    lose_to(known, piece, start, candidates);
                    *known = (*known).max(end);
                }
            }
        }
        Ok(())
    });
    if let Err(error) = walked {
        warnings.add(Error::from(error));
    }
    for (piece, known) in pieces.iter().zip(&mut known) {
        lose_to(known, piece, piece.end, candidates);
    }
}

/// Records what of `pieces` of the realtime device is not free. Where that cannot be told, no
/// candidate there is called good.
fn in_use_on_realtime(
    volume: &Volume,
    pieces: &[Piece],
    candidates: &mut [Candidate],
    warnings: &mut Warnings,
) {
    let bitmap = realtime::Bitmap::open(volume).and_then(|mut bitmap| {
        for piece in pieces {
            bitmap.each_used(piece.start..piece.end, &mut |used| {
                piece.lose(used.start, used.end, LostReason::InUse, candidates);
            })?;
        }
        Ok(())
    });
    if let Err(error) = bitmap {
        warnings.add(error);
        candidates.iter_mut().filter(|file| file.realtime).for_each(Candidate::doubt);
    }
}

/// Records what of `pieces` a file that was removed later had, too.
fn reused(mut pieces: Vec<Piece>, candidates: &mut [Candidate]) {
    // The file that was removed last comes first, and takes its blocks.
    pieces.sort_by_key(|piece| {
        let candidate = &candidates[piece.candidate];
        Reverse((candidate.lsn, candidate.removed))
    });
    // Runs that do not overlap: the end by the start.
    let mut claimed = BTreeMap::<u64, u64>::new();
    for piece in &pieces {
        let before = claimed.range(..piece.start).next_back();
        let mut at = piece.start;
        let first = before.map_or(piece.start, |(start, _)| *start);
        let overlapping: Vec<(u64, u64)> = claimed
            .range(first..piece.end)
            .map(|(start, end)| (*start, *end))
            .filter(|(_, end)| *end > piece.start)
            .collect();
        for (start, end) in overlapping {
            if at < start {
                claimed.insert(at, start);
            }
            piece.lose(start, end, LostReason::Reused, candidates);
            at = at.max(end);
        }
        if at < piece.end {
            claimed.insert(at, piece.end);
        }
    }
}
