//! Verified reads: reads that check the redundancy, for data without checksums of their own.
//!
//! An ordinary read of a healthy stripe trusts each member. A verified read reads all members of a
//! stripe and compares them, as [`scrub`] does, before it delivers anything. If exactly one member
//! explains the disagreement, the right data are delivered in its place; members are not rewritten.
//! Otherwise the data are delivered as the members hold them, and the page is recorded as
//! undecided.
//!
//! Where a resync is due, disagreement is no evidence against a member, because old and new data
//! are both valid. Pages are recorded there, and nothing is corrected.
//!
//! A partial write to a stripe with parity reads too. Its parity is computed from the corrected
//! data, so that a member with wrong data can still be named afterwards.
//!
//! A rebuild reads in the same way if reads are verified, so that wrong data of one member does not
//! silently become the content of another. Undecided pages become bad blocks of what is rebuilt.
//!
//! A member that is an array checks its own redundancy if it was opened that way.

use std::collections::BTreeMap;
use std::ops::Range;

use parking_lot::Mutex;
use xfskit_block::Result;
use xfskit_units::{
    ByteLen, ByteOffset, Column, MemberByte, MemberSector, PositionRange, StripeByte,
};

use super::mirror::PAGE;
use super::scrub::{self, Mismatch, PageMismatch, SpanData};
use super::striped::StripePart;
use super::stripes::{New, Span, part_of};
use super::{Array, Map};

/// Pages that are recorded one by one; further pages are only counted.
const RECORDED_MAX: usize = 100_000;

/// What a comparison of a span's members shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SpanState {
    /// The members agree now.
    Right,
    /// These pages do not, and no member can be named: bytes within the chunk.
    Undecided(Vec<Range<Column>>),
    /// Nothing is left to compare with.
    Unchecked,
}

/// The findings of an array's verified reads.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Pages that did not agree, each once. Those with a `role` were delivered corrected.
    pub pages: Vec<Mismatch>,
    /// Pages beyond the limit. A page that was read twice counts twice here.
    pub more: u64,
    /// Something was delivered that had nothing to be compared with.
    pub unchecked: bool,
    /// Undecided sectors of rebuilt members that their bad-block logs have no room for. A later
    /// scrub may take them for right.
    pub unlisted_sectors: u64,
}

/// Records the findings of verified reads. A leaf lock.
#[derive(Debug, Default)]
pub(super) struct Verifier(Mutex<VerifyLog>);

#[derive(Debug, Default)]
struct VerifyLog {
    /// By stripe and first sector.
    pages: BTreeMap<(u64, MemberSector), Mismatch>,
    more: u64,
    unchecked: bool,
    unlisted_sectors: u64,
}

impl Verifier {
    fn record(&self, page: Mismatch) {
        let mut log = self.0.lock();
        let key = (page.stripe, page.sectors.start);
        if log.pages.len() < RECORDED_MAX || log.pages.contains_key(&key) {
            log.pages.insert(key, page);
        } else {
            log.more += 1;
        }
    }

    fn record_unchecked(&self) {
        self.0.lock().unchecked = true;
    }

    /// Records an undecided range of a rebuilt member that could not be listed as bad, in bytes.
    pub(super) fn record_unlisted(&self, len: ByteLen) {
        self.0.lock().unlisted_sectors += len.sectors().0;
    }
}

impl Array {
    /// Makes every later read compare what it delivers with the available redundancy.
    pub fn verify_reads(&self) {
        let _ = self.verifier.set(Verifier::default());
    }

    /// Returns the findings of verified reads so far.
    pub fn verify_report(&self) -> VerifyReport {
        let Some(verifier) = self.verifier.get() else { return VerifyReport::default() };
        let log = verifier.0.lock();
        let pages = log.pages.values().cloned().collect();
        let VerifyLog { more, unchecked, unlisted_sectors, .. } = *log;
        VerifyReport { pages, more, unchecked, unlisted_sectors }
    }

    pub(super) fn read_verified(
        &self,
        verifier: &Verifier,
        offset: ByteOffset,
        buf: &mut [u8],
    ) -> Result<()> {
        match &self.map {
            Map::Concat(map) => self.read_concat(map, offset, buf),
            Map::Raid1 | Map::Raid10(_) => self.read_verified_copies(verifier, offset, buf),
            Map::Parity => self.read_verified_stripes(verifier, offset, buf),
        }
    }

    /// Returns true if the members are known to agree about a range of the array unless one is
    /// wrong.
    fn is_range_synced(&self, offset: ByteOffset, len: ByteLen) -> bool {
        self.is_synced(self.sync_sectors(offset, len).end)
    }

    fn is_stripe_synced(&self, span: &Span) -> bool {
        let start = self.array_byte(span.stripe, 0, Column(0));
        self.is_range_synced(start, self.stripe_bytes())
    }

    /// Reads whole stripes through the stripe cache for a sequential reader, so that each is
    /// checked once.
    fn read_verified_stripes(
        &self,
        verifier: &Verifier,
        offset: ByteOffset,
        buf: &mut [u8],
    ) -> Result<()> {
        let chunk = self.geometry.chunk_bytes();
        let sequential = self.cache.continues(&offset.range(ByteLen::of(buf)), None);
        for part in self.stripe_parts(offset, buf) {
            let stripe = part.stripe;
            let whole = sequential || ByteLen::of(part.buf).times(2) > self.stripe_bytes();
            let fill_until = whole.then_some(StripeByte::MAX);
            let fill = |first, last: &mut [&mut [u8]]| {
                let span = self.span(stripe, self.whole_chunk());
                // The check needs all chunks.
                let mut memory = vec![0; chunk.times(first as u64).index()];
                let mut data: Vec<&mut [u8]> = memory.chunks_mut(chunk.index()).collect();
                data.extend(last.iter_mut().map(|buf| &mut **buf));
                self.read_stripe_verified(verifier, &span, &mut data)
            };
            match self.cache.get(stripe, part.start, ByteLen::of(part.buf), fill_until, fill) {
                Some(lent) => self.cache.copy(lent, part.buf),
                None => self.read_part_verified(verifier, part)?,
            }
        }
        Ok(())
    }

    /// Reads without the cache: of every member only the pages that hold a part of what is
    /// requested.
    fn read_part_verified(&self, verifier: &Verifier, part: StripePart<'_>) -> Result<()> {
        let stripe = part.stripe;
        for piece in self.pieces(part) {
            let requested = piece.span.columns.clone();
            let first = requested.start.round_down(PAGE);
            let end = requested.end.round_up(PAGE).min(self.chunk_end());
            let span = self.span(stripe, first..end);
            let len = span.len().index();
            let mut memory = vec![0; span.layout.data_disks() * len];
            let mut data: Vec<&mut [u8]> = memory.chunks_mut(len).collect();
            self.read_stripe_verified(verifier, &span, &mut data)?;
            let start = requested.start.distance_from(first).index();
            piece.buf.copy_from_slice(&data[piece.d][start..start + piece.buf.len()]);
        }
        Ok(())
    }

    /// Fills `data`, the span's part of every data chunk of the stripe, in order.
    fn read_stripe_verified(
        &self,
        verifier: &Verifier,
        span: &Span,
        data: &mut [&mut [u8]],
    ) -> Result<()> {
        let _shared = self.lock_stripe_shared(span.stripe);
        self.read_locked_stripe(verifier, span, data).map(drop)
    }

    /// Fills `data` as [`read_stripe_verified`](Self::read_stripe_verified) does. Returns the
    /// undecided pages where no resync is due: bytes within the chunk. The stripe's lock is held.
    pub(super) fn read_locked_stripe(
        &self,
        verifier: &Verifier,
        span: &Span,
        data: &mut [&mut [u8]],
    ) -> Result<Vec<Range<Column>>> {
        let mut undecided = Vec::new();
        for slice in span.cut(self.slice_bytes()) {
            let mut parts = part_of(data, span, &slice);
            let members = self.read_span(&slice);
            if !members.failed || slice.len() <= PAGE {
                undecided.extend(self.deliver(verifier, &slice, members, &mut parts)?);
                continue;
            }
            for page in slice.cut(PAGE) {
                let mut parts = part_of(data, span, &page);
                let members = self.read_span(&page);
                undecided.extend(self.deliver(verifier, &page, members, &mut parts)?);
            }
        }
        Ok(undecided)
    }

    /// Compares the members' data and delivers them, with located errors corrected. Returns the
    /// undecided pages where no resync is due: bytes within the chunk. The stripe's lock is held.
    fn deliver(
        &self,
        verifier: &Verifier,
        span: &Span,
        mut members: SpanData,
        data: &mut [&mut [u8]],
    ) -> Result<Vec<Range<Column>>> {
        let state = self.correct(verifier, span, &mut members);
        if state == SpanState::Unchecked {
            return self.read_stripe(span, data, &[]).map(|()| Vec::new());
        }
        for (d, buf) in data.iter_mut().enumerate() {
            buf.copy_from_slice(members.chunk(span, d));
        }
        Ok(match state {
            SpanState::Undecided(pages) if self.is_stripe_synced(span) => pages,
            _ => Vec::new(),
        })
    }

    /// Writes some data chunks' part of a span if a comparison of what is there shows
    /// [`SpanState::Right`]: parity is computed from the corrected data. Otherwise writes nothing.
    /// Returns what it shows; `None` on an array that does not verify reads. The stripe's lock is
    /// held.
    pub(super) fn write_verified(&self, span: &Span, new: &[New<'_>]) -> Result<Option<SpanState>> {
        let Some(verifier) = self.verifier.get() else { return Ok(None) };
        let mut members = self.read_span(span);
        if members.failed {
            return Ok(Some(SpanState::Unchecked));
        }
        let state = self.correct(verifier, span, &mut members);
        if state == SpanState::Right {
            let chunks = (0..span.layout.data_disks()).map(|d| members.chunk(span, d));
            let mut whole: Vec<New<'_>> =
                chunks.enumerate().map(|(d, buf)| New { d, buf }).collect();
            for new in new {
                whole[new.d].buf = new.buf;
            }
            let (p, q) = self.parity_of(span, &whole);
            self.store_with_parity(span, new, &p, &q)?;
        }
        Ok(Some(state))
    }

    /// Compares the members' data, records what disagrees, and corrects what can be located.
    fn correct(&self, verifier: &Verifier, span: &Span, members: &mut SpanData) -> SpanState {
        let len = span.len().index();
        let SpanData { memory, missing, .. } = members;
        let Some(pages) = self.page_mismatches(span, memory, missing) else {
            verifier.record_unchecked();
            return SpanState::Unchecked;
        };
        let synced = self.is_stripe_synced(span);
        let (mut corrected, mut undecided) = (false, Vec::new());
        for PageMismatch { page, wrong } in pages {
            let wrong = wrong.filter(|_| synced);
            let role = wrong.as_ref().map(|(role, _)| *role);
            if let Some((role, right)) = wrong {
                memory[role * len..][page.clone()].copy_from_slice(&right);
                corrected = true;
            } else {
                let start = span.columns.start.plus(ByteLen(page.start as u64));
                undecided.push(start.range(ByteLen(page.len() as u64)));
            }
            let sectors = scrub::sectors(self.member_at(span), &page);
            let counted = sectors.length();
            verifier.record(Mismatch {
                stripe: span.stripe,
                sectors,
                role,
                repaired: false,
                counted,
            });
        }
        if corrected && !missing.is_empty() {
            // The missing chunk was computed from wrong data.
            let _ = self.parity_errors(span, memory, missing);
        }
        if undecided.is_empty() { SpanState::Right } else { SpanState::Undecided(undecided) }
    }

    fn read_verified_copies(
        &self,
        verifier: &Verifier,
        offset: ByteOffset,
        buf: &mut [u8],
    ) -> Result<()> {
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = self.mirror_piece(at).min(ByteLen::of(rest));
            let (piece, behind) = rest.split_at_mut(len.index());
            self.read_piece_of_copies(verifier, at, piece)?;
            (at, rest) = (at.plus(len), behind);
        }
        Ok(())
    }

    /// Reads a piece within one unit of copies, compared by the pages of the unit.
    fn read_piece_of_copies(
        &self,
        verifier: &Verifier,
        at: ByteOffset,
        buf: &mut [u8],
    ) -> Result<()> {
        let _shared = self.lock_stripe_shared(at.whole(self.mirror_unit()));
        self.read_locked_copies(verifier, at, buf).map(drop)
    }

    /// Reads as [`read_piece_of_copies`](Self::read_piece_of_copies) does. Returns the undecided
    /// pages where no resync is due: bytes within `buf`. The unit's lock is held.
    pub(super) fn read_locked_copies(
        &self,
        verifier: &Verifier,
        at: ByteOffset,
        buf: &mut [u8],
    ) -> Result<Vec<Range<Column>>> {
        let unit = self.mirror_unit();
        let stripe = at.whole(unit);
        let start = self.mirror_start(stripe);
        let first = start.plus(PAGE.times(at.distance_from(start).whole(PAGE)));
        let wanted = at.range(ByteLen::of(buf));
        let end = wanted.end.round_up(PAGE);
        let end = end.min(start.plus(unit)).min(self.end());
        let len = end.distance_from(first).index();
        let mut copies = self.copies(first);
        copies.retain(|copy| self.members[copy.role].device().is_some());
        let mut memory = vec![0; copies.len() * len];
        let readable = self.read_copies(&copies, &mut memory, len);
        let (mut content, mut undecided) = (vec![0; len], Vec::new());
        for page in scrub::pages(len) {
            let held = scrub::held(&copies, &memory, &readable, &page);
            let Some(((_, _, given), others)) = held.split_first() else {
                let place = first.plus(ByteLen(page.start as u64));
                self.read_mirror(place, &mut content[page])?;
                verifier.record_unchecked();
                continue;
            };
            content[page.clone()].copy_from_slice(given);
            if others.is_empty() {
                verifier.record_unchecked();
            }
            if others.iter().all(|(_, _, other)| other == given) {
                continue;
            }
            let synced = self.is_range_synced(first, end.distance_from(first));
            let wrong = self.differing_copy(&held).filter(|_| synced);
            let role = wrong.as_ref().map(|(role, _)| *role);
            match wrong {
                Some((_, right)) => content[page.clone()].copy_from_slice(&right),
                None if !synced => {}
                None => {
                    let within = |byte: usize| {
                        let byte = first.plus(ByteLen(byte as u64));
                        Column(0).plus(byte.clamp(at, wanted.end).distance_from(at))
                    };
                    undecided.push(within(page.start)..within(page.end));
                }
            }
            let at = copies.first().map_or(MemberByte(0), |copy| copy.at);
            let sectors = scrub::sectors(at, &page);
            let counted = sectors.length();
            verifier.record(Mismatch { stripe, sectors, role, repaired: false, counted });
        }
        let start = at.distance_from(first).index();
        buf.copy_from_slice(&content[start..start + buf.len()]);
        Ok(undecided)
    }
}
