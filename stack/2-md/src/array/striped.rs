//! RAID4, 5 and 6: requests, cut into stripes.
//!
//! A large read of a degraded array gets threads of its own, fewer while other requests compute. In
//! a shared pool, a request that waits for a slow member would hold up all others.

use std::ops::Range;
use std::sync::atomic::Ordering;

use xfskit_block::{Error, Result};
use xfskit_units::{ByteLen, ByteOffset, Column, PositionRange, StripeByte, index};

use super::io::ReadJob;
use super::stripe_cache::Lent;
use super::stripes::Span;
use super::{Array, Map};

/// Stripes of one request that are read at once.
const STRIPES_AT_ONCE: usize = 16;

/// The part of a request that lies in one stripe.
pub(super) struct StripePart<'a> {
    pub(super) stripe: u64,
    /// The first byte.
    pub(super) start: StripeByte,
    pub(super) buf: &'a mut [u8],
}

/// A part of one data chunk.
pub(super) struct Piece<'a> {
    pub(super) span: Span,
    pub(super) d: usize,
    pub(super) buf: &'a mut [u8],
}

/// A way to obtain a piece of a data chunk.
pub(super) enum Alternative {
    /// Without reading these roles.
    Without(Vec<usize>),
    /// From the chunk's own member, by this alternative of the member.
    Member(usize),
}

impl Array {
    /// Returns the size of the data in one stripe.
    pub(super) fn stripe_bytes(&self) -> ByteLen {
        self.geometry.chunk_bytes().times(self.geometry.data_disks().into())
    }

    /// Returns the end of the array.
    pub(super) fn end(&self) -> ByteOffset {
        ByteOffset(self.geometry.array_size().byte_len().0)
    }

    /// Returns the stripe that holds a byte of the array, and the byte's place there.
    pub(super) fn stripe_at(&self, offset: ByteOffset) -> (u64, StripeByte) {
        let stripe_bytes = self.stripe_bytes();
        (offset.whole(stripe_bytes), StripeByte(offset.within(stripe_bytes).0))
    }

    /// Returns the data chunk that holds a byte of a stripe's data, and the byte's column.
    pub(super) fn chunk_at(&self, at: StripeByte) -> (usize, Column) {
        let chunk = self.geometry.chunk_bytes();
        (index(at.whole(chunk)), Column(at.within(chunk).0))
    }

    /// Returns where in the array a column of data chunk `d` of a stripe lies.
    pub(super) fn array_byte(&self, stripe: u64, d: usize, column: Column) -> ByteOffset {
        let chunks = stripe * u64::from(self.geometry.data_disks()) + d as u64;
        ByteOffset(self.geometry.chunk_bytes().times(chunks).0 + column.0)
    }

    /// Returns the end of a chunk's columns.
    pub(super) fn chunk_end(&self) -> Column {
        Column(self.geometry.chunk_bytes().0)
    }

    /// Returns all columns of a chunk.
    pub(super) fn whole_chunk(&self) -> Range<Column> {
        Column(0)..self.chunk_end()
    }

    pub(super) fn stripe_parts<'a>(
        &self,
        offset: ByteOffset,
        buf: &'a mut [u8],
    ) -> Vec<StripePart<'a>> {
        let stripe_end = StripeByte(self.stripe_bytes().0);
        let (mut at, mut rest) = (offset, buf);
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (stripe, start) = self.stripe_at(at);
            let len = stripe_end.distance_from(start).min(ByteLen::of(rest));
            let (buf, behind) = rest.split_at_mut(len.index());
            parts.push(StripePart { stripe, start, buf });
            (at, rest) = (at.plus(len), behind);
        }
        parts
    }

    pub(super) fn pieces<'a>(&self, part: StripePart<'a>) -> Vec<Piece<'a>> {
        let (mut at, mut rest) = (part.start, part.buf);
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let (d, column) = self.chunk_at(at);
            let len = self.chunk_end().distance_from(column).min(ByteLen::of(rest));
            let (buf, behind) = rest.split_at_mut(len.index());
            let span = self.span(part.stripe, column.range(len));
            pieces.push(Piece { span, d, buf });
            (at, rest) = (at.plus(len), behind);
        }
        pieces
    }

    fn is_piece_readable(&self, piece: &Piece<'_>) -> bool {
        self.is_role_readable(&piece.span, piece.span.layout.data_role(piece.d))
    }

    pub(super) fn read_striped(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        let range = offset.range(ByteLen::of(buf));
        let sequential = self.cache.continues(&range, None);
        let until = self.cache.until(range.end);
        let mut parts = self.stripe_parts(offset, buf).into_iter();
        loop {
            let some: Vec<_> = parts.by_ref().take(STRIPES_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(());
            }
            self.read_parts(some, sequential, until)?;
        }
    }

    /// Reads the parts for a reader that goes on until `until`, at most.
    fn read_parts(
        &self,
        parts: Vec<StripePart<'_>>,
        sequential: bool,
        until: ByteOffset,
    ) -> Result<()> {
        let (mut direct, mut whole, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for mut part in parts {
            let until = self.stripe_byte(part.stripe, until);
            let missing_chunk = self.last_missing_chunk(part.stripe, until);
            if missing_chunk.is_none() {
                direct.extend(self.pieces(part));
            } else if ByteLen::of(part.buf) == self.stripe_bytes() {
                let span = self.span(part.stripe, self.whole_chunk());
                self.prefetch_span(&span, &[]);
                whole.push((span, part.buf));
            } else if !self.read_cached(&mut part, sequential, until, missing_chunk) {
                for piece in self.pieces(part) {
                    if self.is_piece_readable(&piece) {
                        direct.push(piece);
                    } else {
                        self.prefetch_span(&piece.span, &[]);
                        missing.push(piece);
                    }
                }
            }
        }
        let mut jobs: Vec<ReadJob<'_>> = direct
            .iter_mut()
            .map(|Piece { span, d, buf }| ReadJob {
                role: span.layout.data_role(*d),
                at: self.member_at(span),
                buf,
            })
            .collect();
        self.prefetch(&jobs);
        let mut failed = self.fetch(&mut jobs);
        failed.sort_unstable();
        for i in failed.into_iter().rev() {
            missing.push(direct.swap_remove(i));
        }
        for Piece { span, d, buf } in missing {
            let _shared = self.lock_stripe_shared(span.stripe);
            self.read_chunk(&span, d, buf, &[])?;
        }
        self.read_full_stripes(whole)
    }

    /// Returns the last data chunk of the stripe before byte `until` that its member cannot
    /// deliver, if any.
    fn last_missing_chunk(&self, stripe: u64, until: StripeByte) -> Option<usize> {
        if self.is_optimal.load(Ordering::Acquire) {
            return None;
        }
        let span = self.span(stripe, self.whole_chunk());
        let end = index(until.0.div_ceil(self.geometry.chunk_bytes().0));
        let mut chunks = (0..span.layout.data_disks().min(end)).rev();
        chunks.find(|d| !self.is_role_readable(&span, span.layout.data_role(*d)))
    }

    /// Returns the byte of the stripe at `at`, its end if that lies behind it.
    fn stripe_byte(&self, stripe: u64, at: ByteOffset) -> StripeByte {
        let start = self.array_byte(stripe, 0, Column(0));
        StripeByte(at.saturating_distance_from(start).min(self.stripe_bytes()).0)
    }

    /// Reads the part from the stripe cache.
    fn read_cached(
        &self,
        part: &mut StripePart<'_>,
        sequential: bool,
        until: StripeByte,
        missing_chunk: Option<usize>,
    ) -> bool {
        let len = ByteLen::of(part.buf);
        let range = part.start.range(len);
        let Some(lent) = self.cached(part.stripe, range, sequential, until, missing_chunk) else {
            return false;
        };
        self.cache.copy(lent, part.buf);
        self.counters.count_memory(len, len);
        true
    }

    /// Returns a range of a stripe from the stripe cache, for a reader that goes on until `until`,
    /// at most. The rest of the stripe is read, as far as the reader goes on, if that pays: for a
    /// request that covers most of the stripe, for a sequential reader that has not passed the
    /// missing chunk yet, and for a request that needs most of that chunk, because all others are
    /// read for it.
    fn cached(
        &self,
        stripe: u64,
        range: Range<StripeByte>,
        sequential: bool,
        until: StripeByte,
        missing_chunk: Option<usize>,
    ) -> Option<Lent> {
        let (first_chunk, _) = self.chunk_at(range.start);
        let len = range.length();
        let is_before_missing = missing_chunk.is_some_and(|missing| first_chunk <= missing);
        let is_large = || len.times(2) > self.stripe_bytes() || self.needs_missing(stripe, &range);
        let may_fill = is_before_missing && (sequential || is_large());
        let fill_until = may_fill.then_some(until.max(range.end));
        self.cache.get(stripe, range.start, len, fill_until, |first, chunks| {
            self.prefetch_span(&self.span(stripe, self.whole_chunk()), &[]);
            let _shared = self.lock_stripe_shared(stripe);
            self.read_chunks(stripe, first, chunks)
        })
    }

    /// Returns true if the range has most of a missing chunk.
    fn needs_missing(&self, stripe: u64, range: &Range<StripeByte>) -> bool {
        let (chunk, span) = (self.geometry.chunk_bytes(), self.span(stripe, self.whole_chunk()));
        let mut chunks = index(range.start.whole(chunk))..index(range.end.div_ceil(chunk));
        chunks.any(|d| {
            let start = StripeByte(chunk.times(d as u64).0);
            let needed = range.intersection(&start.range(chunk)).length();
            let is_there = || self.is_role_readable(&span, span.layout.data_role(d));
            needed.times(2) > chunk && !is_there()
        })
    }

    /// Calls `take` with the bytes of the range if all of them are in the stripe cache, or are read
    /// into it. Returns false if they are not.
    pub(super) fn lend_striped(
        &self,
        offset: ByteOffset,
        len: ByteLen,
        ahead: ByteLen,
        take: &mut dyn FnMut(&[&[u8]]),
    ) -> bool {
        let range = offset.range(len);
        if self.is_optimal.load(Ordering::Acquire) || range.is_empty() || range.end > self.end() {
            return false;
        }
        let sequential = self.cache.continues(&range, Some(ahead));
        let until = range.end.saturating_plus(ahead);
        let mut lent = Vec::new();
        let mut at = offset;
        while at < range.end {
            let (stripe, start) = self.stripe_at(at);
            let left = self.stripe_bytes().minus(ByteLen(start.0));
            let len = left.min(range.end.distance_from(at));
            // A whole stripe is better computed where the caller wants it.
            if len == self.stripe_bytes() {
                return false;
            }
            let until = self.stripe_byte(stripe, until);
            let missing = self.last_missing_chunk(stripe, until);
            if missing.is_none() {
                return false;
            }
            let range = start.range(len);
            let Some(part) = self.cached(stripe, range, sequential, until, missing) else {
                return false;
            };
            lent.push(part);
            at = at.plus(len);
        }
        let parts: Vec<&[u8]> = lent.iter().flat_map(Lent::parts).collect();
        take(&parts);
        for part in lent {
            self.cache.deliver(part);
        }
        true
    }

    fn read_full_stripe(&self, span: &Span, buf: &mut [u8]) -> Result<()> {
        let _shared = self.lock_stripe_shared(span.stripe);
        let mut data: Vec<&mut [u8]> =
            buf.chunks_mut(self.geometry.chunk_bytes().index()).collect();
        self.read_stripe(span, &mut data, &[])
    }

    /// Reads whole stripes, divided among threads if few other requests are computing.
    fn read_full_stripes(&self, mut stripes: Vec<(Span, &mut [u8])>) -> Result<()> {
        if stripes.is_empty() {
            return Ok(());
        }
        let others = self.computing.fetch_add(1, Ordering::Relaxed);
        let threads = (self.options.threads / (index(others) + 1)).clamp(1, stripes.len());
        let read = |stripes: &mut [(Span, &mut [u8])]| {
            stripes.iter_mut().try_for_each(|(span, buf)| self.read_full_stripe(span, buf))
        };
        let result = if threads == 1 {
            read(&mut stripes)
        } else {
            let share = stripes.len().div_ceil(threads);
            std::thread::scope(|scope| {
                let workers: Vec<_> = stripes
                    .chunks_mut(share)
                    .map(|stripes| scope.spawn(|| read(stripes)))
                    .collect();
                workers.into_iter().try_for_each(|worker| match worker.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
            })
        };
        self.computing.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Announces a range of the array.
    pub(super) fn prefetch_range(&self, range: Range<ByteOffset>) {
        let mut at = range.start;
        while at < range.end {
            let left = range.end.distance_from(at);
            let len = match &self.map {
                Map::Concat(map) => {
                    let extent = map.locate(at);
                    let len = extent.len.min(left);
                    self.members[extent.role].will_need(extent.at, len);
                    len
                }
                Map::Raid1 | Map::Raid10(_) => {
                    let len = self.mirror_piece(at).min(left);
                    if let Some(copy) = self.readable_copies(at, len).first() {
                        self.members[copy.role].will_need(copy.at, len);
                    }
                    len
                }
                Map::Parity => {
                    let (span, d) = self.span_from(at, left);
                    let (len, role) = (span.len(), span.layout.data_role(d));
                    if self.is_role_readable(&span, role) {
                        self.members[role].will_need(self.member_at(&span), len);
                    }
                    len
                }
            };
            at = at.plus(len);
        }
    }

    /// Returns the columns of the chunk that holds byte `at` of the array, from there on, at most
    /// `len` of them, and the number of that data chunk.
    fn span_from(&self, at: ByteOffset, len: ByteLen) -> (Span, usize) {
        let (stripe, start) = self.stripe_at(at);
        let (d, column) = self.chunk_at(start);
        let len = self.chunk_end().distance_from(column).min(len);
        (self.span(stripe, column.range(len)), d)
    }

    /// Returns the alternatives for a piece of data chunk `d`. The first one is what an ordinary
    /// read does.
    ///
    /// The next one does without the chunk's own member. If one more member may be left out, the
    /// following ones also do without each of the others in turn, P first, because any of them may
    /// be wrong. Last come the other alternatives of the chunk's own member, if that is an array.
    pub(super) fn chunk_alternatives(&self, span: &Span, d: usize) -> Vec<Alternative> {
        let own = span.layout.data_role(d);
        let readable = |role: usize| self.is_role_readable(span, role);
        let missing =
            (0..self.members.len()).filter(|role| !readable(*role) && *role != own).count();
        let tolerated = self.geometry.tolerates() as usize;
        let mut alternatives = Vec::new();
        if readable(own) {
            alternatives.push(Alternative::Without(Vec::new()));
        }
        if missing < tolerated {
            alternatives.push(Alternative::Without(vec![own]));
        }
        if missing + 1 < tolerated {
            let mut others: Vec<usize> = (0..self.members.len())
                .filter(|role| *role != own && Some(*role) != span.layout.q && readable(*role))
                .collect();
            others.sort_by_key(|role| *role != span.layout.p);
            alternatives
                .extend(others.into_iter().map(|role| Alternative::Without(vec![own, role])));
        }
        if readable(own) {
            let inner = self.member_alternatives(own, self.member_at(span), span.len());
            alternatives.extend((1..inner).map(Alternative::Member));
        }
        alternatives
    }

    pub(super) fn striped_alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        let end = offset.saturating_plus(len).min(self.end());
        let mut most = 1;
        let mut at = offset;
        while at < end {
            let (span, d) = self.span_from(at, end.distance_from(at));
            most = most.max(self.chunk_alternatives(&span, d).len());
            at = at.plus(span.len());
        }
        most
    }

    /// Reads the range by alternative `k`. A piece with fewer alternatives is read by its last one.
    pub(super) fn read_striped_alternative(
        &self,
        offset: ByteOffset,
        buf: &mut [u8],
        k: usize,
    ) -> Result<()> {
        if k >= self.striped_alternatives(offset, ByteLen::of(buf)) {
            return Err(Error::NoAlternative(k));
        }
        for part in self.stripe_parts(offset, buf) {
            for Piece { span, d, buf } in self.pieces(part) {
                let alternatives = self.chunk_alternatives(&span, d);
                let _shared = self.lock_stripe_shared(span.stripe);
                match alternatives.get(k).or(alternatives.last()) {
                    None => return Err(Error::NoAlternative(k)),
                    Some(Alternative::Without(roles)) => self.read_chunk(&span, d, buf, roles)?,
                    Some(Alternative::Member(inner)) => {
                        let (role, at) = (span.layout.data_role(d), self.member_at(&span));
                        self.read_member_alternative(role, at, buf, *inner)?;
                    }
                }
            }
        }
        Ok(())
    }
}
