//! Writing RAID4, 5 and 6.
//!
//! A full-stripe write needs no reads: parity is computed from the new data. For a partial write,
//! parity comes from what is cheaper to read (md decides in the same way):
//!
//! | | read | then |
//! | --- | --- | --- |
//! | read-modify-write | the old data and parity | parity changes by the difference |
//! | reconstruct-write | the data that are not written | parity is computed from all data |
//!
//! Read-modify-write needs everything it reads to be readable, and parity to be right before, which
//! is not so where a resync is due. Reconstruct-write also works with members missing: what they
//! would have held is computed first.
//!
//! On an array that verifies reads, everything that is read is compared first: see
//! [`Array::write_verified`].

use std::ops::Range;

use xfskit_block::Result;
use xfskit_units::{ByteLen, ByteOffset, Column, StripeByte, SyncSector};

use super::Array;
use super::io::{ReadJob, WriteJob};
use super::stripes::{New, Span, places};
use super::verify::SpanState;

/// What all members' slices of a partial write may take together.
const SLICES: ByteLen = ByteLen(4 << 20);

/// New data for a part of data chunk `d`.
struct Piece<'a> {
    d: usize,
    columns: Range<Column>,
    buf: &'a [u8],
}

impl Array {
    pub(super) fn write_striped(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let chunk = self.geometry.chunk_bytes();
        let stripe_end = StripeByte(self.stripe_bytes().0);
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let (stripe, start) = self.stripe_at(at);
            let len = stripe_end.distance_from(start).min(ByteLen::of(rest));
            let (content, behind) = rest.split_at(len.index());
            let _alone = self.lock_stripe(stripe);
            self.cache.forget(stripe);
            if len == self.stripe_bytes() {
                let span = self.span(stripe, self.whole_chunk());
                let data = content.chunks(chunk.index()).enumerate();
                self.write_full_stripe(
                    &span,
                    &data.map(|(d, buf)| New { d, buf }).collect::<Vec<_>>(),
                )?;
            } else if self.is_logged() {
                let (start, pages) = self.whole_pages(stripe, start, content)?;
                self.write_part(stripe, start, &pages)?;
            } else {
                self.write_part(stripe, start, content)?;
            }
            (at, rest) = (at.plus(len), behind);
        }
        Ok(())
    }

    /// Writes a part of a stripe. If the columns of its first and last chunk differ, ranges of
    /// columns with the same chunks are written one after the other.
    fn write_part(&self, stripe: u64, start: StripeByte, content: &[u8]) -> Result<()> {
        let mut pieces = Vec::new();
        let (mut at, mut rest) = (start, content);
        while !rest.is_empty() {
            let (d, column) = self.chunk_at(at);
            let len = self.chunk_end().distance_from(column).min(ByteLen::of(rest));
            let (buf, behind) = rest.split_at(len.index());
            pieces.push(Piece { d, columns: column.range(len), buf });
            (at, rest) = (at.plus(len), behind);
        }
        let mut ends: Vec<Column> =
            pieces.iter().flat_map(|piece| [piece.columns.start, piece.columns.end]).collect();
        ends.sort_unstable();
        ends.dedup();
        let unit = self.share_of(SLICES);
        let unit = self.logs.as_ref().map_or(unit, |logs| unit.min(logs.columns_max));
        for pair in ends.windows(2) {
            for span in self.span(stripe, pair[0]..pair[1]).cut(unit) {
                let covers = |piece: &&Piece<'_>| {
                    piece.columns.start <= span.columns.start
                        && span.columns.end <= piece.columns.end
                };
                let new = pieces.iter().filter(covers).map(|piece| {
                    let from = span.columns.start.distance_from(piece.columns.start).index();
                    New { d: piece.d, buf: &piece.buf[from..from + span.len().index()] }
                });
                let new: Vec<New<'_>> = new.collect();
                if !new.is_empty() {
                    self.write_span(&span, &new)?;
                }
            }
        }
        Ok(())
    }

    /// Writes some data chunks' part of a span by the cheaper method.
    fn write_span(&self, span: &Span, new: &[New<'_>]) -> Result<()> {
        let layout = span.layout;
        let parities: Vec<usize> = [Some(layout.p), layout.q]
            .into_iter()
            .flatten()
            .filter(|role| self.members[*role].device().is_some())
            .collect();
        let reads = new.len() + parities.len();
        let old = new.iter().map(|new| layout.data_role(new.d)).chain(parities.iter().copied());
        // Without parity there is nothing to protect, but the journal's older data of the stripe
        // must not come back.
        if parities.is_empty() && self.journal.is_none() {
            return self.store(&self.data_jobs(span, new));
        }
        let state = self.write_verified(span, new)?;
        if state == Some(SpanState::Right) {
            return Ok(());
        }
        // Members that disagree go on doing so after an update of the parity. Computed from all
        // data, it would hide that one of them is wrong.
        let modify = (reads < layout.data_disks() - new.len()
            || matches!(state, Some(SpanState::Undecided(_))))
            && self.is_synced(SyncSector(self.member_at(span).plus(span.len()).sector_ceil().0))
            && old.into_iter().all(|role| self.is_role_readable(span, role));
        if modify && self.modify_span(span, new, &parities)? {
            return Ok(());
        }
        self.reconstruct_span(span, new)
    }

    /// Does a read-modify-write. Returns false, and writes nothing, if something could not be read.
    fn modify_span(&self, span: &Span, new: &[New<'_>], parities: &[usize]) -> Result<bool> {
        let (layout, at, len) = (span.layout, self.member_at(span), span.len().index());
        let mut memory = vec![0; (new.len() + 2) * len];
        let (parity, old) = memory.split_at_mut(2 * len);
        let (p, q) = parity.split_at_mut(len);
        let mut jobs: Vec<ReadJob<'_>> = new
            .iter()
            .zip(old.chunks_mut(len))
            .map(|(new, buf)| ReadJob { role: layout.data_role(new.d), at, buf })
            .collect();
        for (role, buf) in [(Some(layout.p), &mut *p), (layout.q, &mut *q)] {
            let there = role.filter(|role| parities.contains(role));
            jobs.extend(there.map(|role| ReadJob { role, at, buf }));
        }
        self.prefetch(&jobs);
        if !self.fetch(&mut jobs).is_empty() {
            return Ok(false);
        }
        for (new, old) in new.iter().zip(old.chunks_mut(len)) {
            add(old, new.buf);
            if layout.q.is_some() {
                xfskit_parity::update(layout.exponent(new.d), old, p, q);
            } else {
                add(p, old);
            }
        }
        let bytes = span.len().times(new.len() as u64);
        self.counters.count_memory(bytes.times(4), bytes.times(3));
        self.store_with_parity(span, new, p, q)?;
        Ok(true)
    }

    /// Does a reconstruct-write.
    fn reconstruct_span(&self, span: &Span, new: &[New<'_>]) -> Result<()> {
        let (layout, at, len) = (span.layout, self.member_at(span), span.len().index());
        let mut memory = vec![0; layout.data_disks() * len];
        let mut data: Vec<&mut [u8]> = memory.chunks_mut(len).collect();
        let is_new = |d: &usize| new.iter().any(|new| new.d == *d);
        let mut jobs: Vec<ReadJob<'_>> = data
            .iter_mut()
            .enumerate()
            .filter(|(d, _)| !is_new(d))
            .map(|(d, buf)| ReadJob { role: layout.data_role(d), at, buf })
            .collect();
        self.prefetch(&jobs);
        if !self.fetch(&mut jobs).is_empty() {
            self.read_stripe(span, &mut data, &[])?;
        }
        let mut whole: Vec<New<'_>> =
            data.iter().enumerate().map(|(d, buf)| New { d, buf }).collect();
        for new in new {
            whole[new.d].buf = new.buf;
        }
        let (p, q) = self.parity_of(span, &whole);
        self.store_with_parity(span, new, &p, &q)
    }

    /// Writes a full stripe, of which `data` has every chunk.
    fn write_full_stripe(&self, span: &Span, data: &[New<'_>]) -> Result<()> {
        let (p, q) = self.parity_of(span, data);
        self.store_with_parity(span, data, &p, &q)
    }

    /// Returns P and Q (empty without Q) of a stripe.
    pub(super) fn parity_of(&self, span: &Span, data: &[New<'_>]) -> (Vec<u8>, Vec<u8>) {
        let mut p = vec![0; span.len().index()];
        let mut q = Vec::new();
        if span.layout.q.is_some() {
            q.resize(p.len(), 0);
            let chunks: Vec<&[u8]> = data.iter().map(|new| new.buf).collect();
            xfskit_parity::pq(&places(span.layout, &chunks, &[]), &mut p, &mut q);
        } else {
            let sources: Vec<&[u8]> = data.iter().map(|new| new.buf).collect();
            xfskit_parity::xor(&sources, &mut p);
        }
        let loaded = span.len().times(data.len() as u64);
        self.counters.count_memory(loaded, ByteLen::of(&p).plus(ByteLen::of(&q)));
        (p, q)
    }

    fn data_jobs<'a>(&self, span: &Span, new: &[New<'a>]) -> Vec<WriteJob<'a>> {
        let at = self.member_at(span);
        let job = |new: &New<'a>| WriteJob { role: span.layout.data_role(new.d), at, buf: new.buf };
        new.iter().map(job).collect()
    }

    pub(super) fn store_with_parity(
        &self,
        span: &Span,
        new: &[New<'_>],
        p: &[u8],
        q: &[u8],
    ) -> Result<()> {
        let at = self.member_at(span);
        let mut jobs = self.data_jobs(span, new);
        jobs.push(WriteJob { role: span.layout.p, at, buf: p });
        jobs.extend(span.layout.q.map(|role| WriteJob { role, at, buf: q }));
        match (&self.logs, &self.journal) {
            (Some(logs), _) => self.store_with_ppl(logs, span, new, p, &jobs),
            (_, Some(journal)) => self.store_with_journal(journal, span, new, (p, q), &jobs),
            (None, None) => self.store(&jobs),
        }
    }
}

/// Adds `other` to `sum` in the field: an exclusive or.
pub(super) fn add(sum: &mut [u8], other: &[u8]) {
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum ^= other;
    }
}
