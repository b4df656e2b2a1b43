//! What lied is rewritten, once somebody can tell who did.
//!
//! md knows that members of a row do not agree, and not who is wrong. Whoever stands above may: a block with
//! a checksum is right in one way to obtain it (`BlockDevice::alternatives`) and wrong in another.
//!
//! 1. `BlockDevice::heal`: what a way that passed did without is computed from what that way used, and
//!    rewritten where a member holds something else. Parity is not changed with the data, as an ordinary
//!    write would: it is right already, or one of those that were left out.
//! 2. [`Array::agree`]: where nothing of a page's data is doubted, parity and the other copies follow it.
//!
//! Only members are written that contradict what is known to be right, and a crash in the midst of it
//! leaves what was there before: superblocks and bitmap need not announce it. Where a resync is due nothing
//! is healed; data and parity may both be right then.

use std::ops::Range;
use std::sync::atomic::Ordering;

use xfskit_block::Result;
use xfskit_units::{ByteOffset, index};

use super::io::WriteJob;
use super::scrub::Mismatch;
use super::striped::Alternative;
use super::stripes::Span;
use super::write::New;
use super::{Array, Map};

impl Array {
    /// Heals a range piece by piece, each under the lock of its row.
    pub(super) fn heal_redundant(&self, offset: u64, good: &[u8], k: usize) -> Result<bool> {
        if !self.is_synced(self.sync_sectors(offset, good.len() as u64).end.saturating_mul(512)) {
            return Ok(false);
        }
        let (mut at, mut rest, mut any) = (offset, good, false);
        while !rest.is_empty() {
            let room = match self.map {
                Map::Parity => {
                    let chunk = self.geometry.chunk_bytes().0;
                    chunk - at % chunk
                }
                _ => self.mirror_piece(at),
            };
            let (piece, behind) = rest.split_at(index(room).min(rest.len()));
            any |= match self.map {
                Map::Parity => self.heal_chunk(at, piece, k)?,
                _ => self.heal_copies(at, piece, k)?,
            };
            (at, rest) = (at + piece.len() as u64, behind);
        }
        Ok(any)
    }

    /// A piece within one unit of copies.
    fn heal_copies(&self, at: u64, good: &[u8], k: usize) -> Result<bool> {
        let _alone = self.lock_stripe(at / self.mirror_unit());
        let ways = self.copy_alternatives(at, good.len() as u64);
        let Some((source, inner)) = ways.get(k).or(ways.last()) else { return Ok(false) };
        let mut found = vec![0; good.len()];
        let read = self.read_member_alternative(source.role, source.at, &mut found, *inner);
        if read.is_err() || found != good {
            return Ok(false);
        }
        let copies = self.copies_in_order(at, good.len() as u64);
        let wrong = copies.iter().filter(|copy| !self.holds(copy.role, copy.at, good));
        let jobs: Vec<WriteJob<'_>> =
            wrong.map(|copy| WriteJob { role: copy.role, at: copy.at, buf: good }).collect();
        jobs.iter().try_for_each(|job| self.repair_member(job))?;
        Ok(!jobs.is_empty())
    }

    /// A piece within one chunk of a row with parity.
    fn heal_chunk(&self, at: u64, good: &[u8], k: usize) -> Result<bool> {
        let chunk = self.geometry.chunk_bytes().0;
        let stripe = at / self.stripe_bytes();
        let span = self.span(stripe, at % chunk..at % chunk + good.len() as u64);
        let d = index(at % self.stripe_bytes() / chunk);
        let _alone = self.lock_stripe(stripe);
        let ways = self.chunk_alternatives(&span, d);
        let without = match ways.get(k).or(ways.last()) {
            None => return Ok(false),
            Some(Alternative::Member(inner)) => {
                return self.heal_member(
                    span.layout.data_role(d),
                    self.member_at(&span),
                    good,
                    *inner,
                );
            }
            Some(Alternative::Without(roles)) => roles,
        };
        let mut memory = vec![0; span.layout.data_disks() * good.len()];
        let mut data: Vec<&mut [u8]> = memory.chunks_mut(good.len()).collect();
        self.read_stripe(&span, &mut data, without)?;
        if data[d] != good {
            return Ok(false);
        }
        let data: Vec<New<'_>> = data.iter().enumerate().map(|(d, buf)| New { d, buf }).collect();
        let any = self.rewrite_roles(&span, &data, without)?;
        if any {
            self.cache.forget(stripe);
        }
        Ok(any)
    }

    /// Gives these roles what belongs there beside `data`, the whole row's. True where one held something
    /// else.
    fn rewrite_roles(&self, span: &Span, data: &[New<'_>], roles: &[usize]) -> Result<bool> {
        let (layout, at) = (span.layout, self.member_at(span));
        let (p, q) = self.parity_of(span, data);
        let right = |role: usize| -> &[u8] {
            let of_data = data.iter().find(|new| layout.data_role(new.d) == role);
            of_data.map_or(if role == layout.p { &p } else { &q }, |new| new.buf)
        };
        let jobs: Vec<WriteJob<'_>> = roles
            .iter()
            .map(|role| WriteJob { role: *role, at, buf: right(*role) })
            .filter(|job| !self.holds(job.role, at, job.buf))
            .collect();
        jobs.iter().try_for_each(|job| self.repair_member(job))?;
        Ok(!jobs.is_empty())
    }

    /// The content of the array that lies in a page that does not agree: ranges in bytes, of RAID4, 5 and 6
    /// one for each data chunk of the row.
    pub fn mismatch_ranges(&self, mismatch: &Mismatch) -> Vec<Range<ByteOffset>> {
        let sectors = &mismatch.sectors;
        let (start, end) = (sectors.start.0.saturating_mul(512), sectors.end.0.saturating_mul(512));
        let len = end.saturating_sub(start);
        let starts: Vec<u64> = if matches!(self.map, Map::Parity) {
            let chunk = self.geometry.chunk_bytes().0;
            let disks = u64::from(self.geometry.data_disks());
            let first = mismatch.stripe * self.stripe_bytes() + start % chunk;
            (0..disks).map(|d| first + d * chunk).collect()
        } else {
            let unit = mismatch.stripe * self.mirror_unit();
            let copy = self.copies(unit).first().map_or(0, |copy| copy.at);
            vec![unit + start.saturating_sub(copy)]
        };
        let size = self.size_bytes();
        let range = |at: u64| ByteOffset(at.min(size))..ByteOffset((at + len).min(size));
        starts.into_iter().map(range).filter(|range| !range.is_empty()).collect()
    }

    /// From now on mirrors are read from the first copy that is there, and from no other: what is judged so is
    /// what [`agree`](Self::agree) takes for the truth.
    pub fn read_first_copies(&self) {
        self.first_copy_only.store(true, Ordering::Relaxed);
    }

    /// Makes parity, or the other copies, of a page that does not agree follow its data (the first copy), as
    /// md's `repair` does. For data that nobody doubts. True where something was written.
    ///
    /// # Errors
    /// Where members cannot be read or written.
    pub fn resync_page(&self, mismatch: &Mismatch) -> Result<bool> {
        if self.read_only {
            return Ok(false);
        }
        let _alone = self.lock_stripe(mismatch.stripe);
        match self.map {
            Map::Concat(_) => Ok(false),
            Map::Parity => {
                self.cache.forget(mismatch.stripe);
                let chunk = self.geometry.chunk_bytes().0;
                let start = mismatch.sectors.start.0 * 512 % chunk;
                let len = (mismatch.sectors.end.0 - mismatch.sectors.start.0) * 512;
                self.resync_span(&self.span(mismatch.stripe, start..(start + len).min(chunk)))
            }
            Map::Raid1 | Map::Raid10(_) => {
                let pieces = self.mismatch_ranges(mismatch);
                let each = |piece: &Range<ByteOffset>| {
                    self.resync_copies_of(piece.start.0, piece.end.0 - piece.start.0)
                };
                pieces.iter().try_fold(false, |any, piece| Ok(any | each(piece)?))
            }
        }
    }
}
