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
use xfskit_units::{ByteLen, ByteOffset, Column, MemberByte, PositionRange};

use super::io::WriteJob;
use super::scrub::Mismatch;
use super::striped::Alternative;
use super::stripes::{New, Span};
use super::{Array, Map};

impl Array {
    /// Heals a range piece by piece, each under the lock of its stripe.
    pub(super) fn heal_redundant(&self, offset: ByteOffset, good: &[u8], k: usize) -> Result<bool> {
        if !self.is_synced(self.sync_sectors(offset, ByteLen::of(good)).end) {
            return Ok(false);
        }
        let (mut at, mut rest, mut any) = (offset, good, false);
        while !rest.is_empty() {
            let left = match self.map {
                Map::Parity => {
                    let chunk = self.geometry.chunk_bytes();
                    chunk.minus(at.within(chunk))
                }
                _ => self.mirror_piece(at),
            };
            let len = left.min(ByteLen::of(rest));
            let (piece, behind) = rest.split_at(len.index());
            any |= match self.map {
                Map::Parity => self.heal_chunk(at, piece, k)?,
                _ => self.heal_copies(at, piece, k)?,
            };
            (at, rest) = (at.plus(len), behind);
        }
        Ok(any)
    }

    /// Heals a piece within one unit of copies.
    fn heal_copies(&self, at: ByteOffset, good: &[u8], k: usize) -> Result<bool> {
        let _alone = self.lock_stripe(at.whole(self.mirror_unit()));
        let alternatives = self.copy_alternatives(at, ByteLen::of(good));
        let Some((source, inner)) = alternatives.get(k).or(alternatives.last()) else {
            return Ok(false);
        };
        let mut found = vec![0; good.len()];
        let read = self.read_member_alternative(source.role, source.at, &mut found, *inner);
        if read.is_err() || found != good {
            return Ok(false);
        }
        let copies = self.copies_in_order(at, ByteLen::of(good));
        let wrong = copies.iter().filter(|copy| !self.holds(copy.role, copy.at, good));
        let jobs: Vec<WriteJob<'_>> =
            wrong.map(|copy| WriteJob { role: copy.role, at: copy.at, buf: good }).collect();
        jobs.iter().try_for_each(|job| self.repair_member(job))?;
        Ok(!jobs.is_empty())
    }

    /// Heals a piece within one chunk of a stripe with parity.
    fn heal_chunk(&self, at: ByteOffset, good: &[u8], k: usize) -> Result<bool> {
        let (stripe, start) = self.stripe_at(at);
        let (d, column) = self.chunk_at(start);
        let span = self.span(stripe, column.range(ByteLen::of(good)));
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

    /// Returns the ranges of the array whose data lie in a mismatching page. On RAID4, 5
    /// and 6 these are one range for each data chunk of the stripe.
    pub fn mismatch_ranges(&self, mismatch: &Mismatch) -> Vec<Range<ByteOffset>> {
        let (stripe, page) = (mismatch.stripe, mismatch.bytes());
        let starts: Vec<ByteOffset> = if matches!(self.map, Map::Parity) {
            let column = Column(page.start.within(self.geometry.chunk_bytes()).0);
            let disks = self.geometry.data_disks() as usize;
            (0..disks).map(|d| self.array_byte(stripe, d, column)).collect()
        } else {
            let unit = self.mirror_start(stripe);
            let copy = self.copies(unit).first().map_or(MemberByte(0), |copy| copy.at);
            vec![unit.plus(page.start.saturating_distance_from(copy))]
        };
        let range = |at: ByteOffset| at.min(self.end())..at.plus(page.length()).min(self.end());
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
                let page = mismatch.bytes();
                let column = Column(page.start.within(self.geometry.chunk_bytes()).0);
                let end = column.plus(page.length()).min(self.chunk_end());
                self.resync_span(&self.span(mismatch.stripe, column..end))
            }
            Map::Raid1 | Map::Raid10(_) => {
                let pieces = self.mismatch_ranges(mismatch);
                let each =
                    |piece: &Range<ByteOffset>| self.resync_copies_of(piece.start, piece.length());
                pieces.iter().try_fold(false, |any, piece| Ok(any | each(piece)?))
            }
        }
    }
}
