//! Healing: rewriting a member that holds wrong data, once a layer above knows which data are
//! right.
//!
//! md knows that the members of a stripe disagree, but not which one is wrong. A layer above may
//! know: a block with a checksum passes in one way to obtain it (`BlockDevice::alternatives`) and
//! fails in another.
//!
//! 1. `BlockDevice::heal` takes the alternative that passed. The members that this alternative did
//!    without are computed from those that it used, and rewritten if they hold something else.
//!    Parity is not updated together with the data, as an ordinary write would do: it is either
//!    right already, or one of the rewritten roles.
//! 2. [`Array::resync_page`]: if all data of a page are known to be right, parity or the other
//!    copies are made to follow.
//!
//! Only members that contradict the known data are written. A crash during a rewrite leaves the old
//! state, so superblocks and bitmap need not be updated first. Nothing is healed where a resync is
//! due: data and parity may both be valid there.

use std::ops::Range;
use std::sync::atomic::Ordering;

use xfskit_block::Result;
use xfskit_units::{ByteOffset, index};

use super::io::WriteJob;
use super::scrub::Mismatch;
use super::striped::Alternative;
use super::stripes::{New, Span};
use super::{Array, Map};

impl Array {
    /// Heals a range piece by piece, each under the lock of its stripe.
    pub(super) fn heal_redundant(&self, offset: u64, good: &[u8], k: usize) -> Result<bool> {
        if !self.is_synced(self.sync_sectors(offset, good.len() as u64).end.saturating_mul(512)) {
            return Ok(false);
        }
        let (mut at, mut rest, mut any) = (offset, good, false);
        while !rest.is_empty() {
            let left = match self.map {
                Map::Parity => {
                    let chunk = self.geometry.chunk_bytes().0;
                    chunk - at % chunk
                }
                _ => self.mirror_piece(at),
            };
            let (piece, behind) = rest.split_at(index(left).min(rest.len()));
            any |= match self.map {
                Map::Parity => self.heal_chunk(at, piece, k)?,
                _ => self.heal_copies(at, piece, k)?,
            };
            (at, rest) = (at + piece.len() as u64, behind);
        }
        Ok(any)
    }

    /// Heals a piece within one unit of copies.
    fn heal_copies(&self, at: u64, good: &[u8], k: usize) -> Result<bool> {
        let _alone = self.lock_stripe(at / self.mirror_unit());
        let alternatives = self.copy_alternatives(at, good.len() as u64);
        let Some((source, inner)) = alternatives.get(k).or(alternatives.last()) else {
            return Ok(false);
        };
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

    /// Heals a piece within one chunk of a stripe with parity.
    fn heal_chunk(&self, at: u64, good: &[u8], k: usize) -> Result<bool> {
        let chunk = self.geometry.chunk_bytes().0;
        let stripe = at / self.stripe_bytes();
        let span = self.span(stripe, at % chunk..at % chunk + good.len() as u64);
        let d = index(at % self.stripe_bytes() / chunk);
        let _alone = self.lock_stripe(stripe);
        let alternatives = self.chunk_alternatives(&span, d);
        let without = match alternatives.get(k).or(alternatives.last()) {
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

    /// Writes to `roles` what belongs there, given all `data` of the stripe. Returns true if one of
    /// them held something else.
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

    /// Returns the ranges of the array, in bytes, whose data lie in a mismatching page. On RAID4, 5
    /// and 6 these are one range for each data chunk of the stripe.
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

    /// Makes every later read of a mirror use the first readable copy only. This copy is the one
    /// that [`resync_page`](Self::resync_page) treats as right.
    pub fn read_first_copies(&self) {
        self.first_copy_only.store(true, Ordering::Relaxed);
    }

    /// Makes the parity, or the other copies, of a mismatching page follow its data (the first
    /// copy), as md's `repair` does. The caller knows that the data are right. Returns true if
    /// something was written.
    ///
    /// # Errors
    /// Returns an error if members cannot be read or written.
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
