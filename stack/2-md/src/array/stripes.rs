//! A stripe of RAID4, 5 or 6 with missing chunks, and their reconstruction.
//!
//! Reconstruction works on each byte column independently, so a stripe is read and solved in
//! slices. A slice is small enough that the data just read are still in the processor's cache when
//! their parity is computed.

use std::cell::Cell;
use std::ops::Range;

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use xfskit_block::Result;
use xfskit_units::{ByteLen, Column, MemberByte, PositionRange, index};

use super::io::{ReadJob, WriteJob, io_error};
use super::mirror::PAGE;
use super::{Array, STRIPE_LOCKS};
use crate::layout::parity::StripeLayout;

/// What the slices of all members of a stripe may take together: most of a core's own cache.
const SLICES: ByteLen = ByteLen(768 << 10);

thread_local! {
    /// Memory for slices of chunks that the caller does not want. It is reused because its pages
    /// are already mapped.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with `len` bytes of undefined content. A member that is an array itself has other
/// ones.
fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut memory = SCRATCH.take();
    if memory.len() < len {
        memory.resize(len, 0);
    }
    let result = work(&mut memory[..len]);
    SCRATCH.set(memory);
    result
}

/// A range of columns of one stripe.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) stripe: u64,
    pub(super) layout: StripeLayout,
    pub(super) columns: Range<Column>,
}

/// New data for the columns of a span.
pub(super) struct New<'a> {
    pub(super) d: usize,
    pub(super) buf: &'a [u8],
}

impl Span {
    pub(super) fn len(&self) -> ByteLen {
        self.columns.length()
    }

    /// Cuts the span into pieces that end at multiples of `unit`.
    pub(super) fn cut(&self, unit: ByteLen) -> impl Iterator<Item = Self> + use<> {
        let Self { stripe, layout, columns } = self.clone();
        let mut start = columns.start;
        std::iter::from_fn(move || {
            let end = start.round_down(unit).plus(unit).min(columns.end);
            let piece = Self { stripe, layout, columns: start..end };
            start = end;
            (!piece.columns.is_empty()).then_some(piece)
        })
    }
}

impl Array {
    /// Returns the span of stripe `stripe`. Only arrays with parity have stripes of this kind.
    pub(super) fn span(&self, stripe: u64, columns: Range<Column>) -> Span {
        let layout = StripeLayout::new(self.geometry.layout(), self.members.len(), stripe)
            .expect("a level with parity");
        Span { stripe, layout, columns }
    }

    /// Returns the span of the columns that begin at a byte of every member: `len` of them.
    pub(super) fn span_at(&self, at: MemberByte, len: ByteLen) -> Span {
        let chunk = self.geometry.chunk_bytes();
        let column = Column(at.within(chunk).0);
        self.span(at.whole(chunk), column..column.saturating_plus(len))
    }

    /// Returns where the span begins on every member.
    pub(super) fn member_at(&self, span: &Span) -> MemberByte {
        self.member_byte(span.stripe, span.columns.start)
    }

    /// Returns where a column of a stripe lies on every member.
    pub(super) fn member_byte(&self, stripe: u64, column: Column) -> MemberByte {
        MemberByte(self.geometry.chunk_bytes().times(stripe).0 + column.0)
    }

    /// Locks a stripe shared, to compute from it.
    pub(super) fn lock_stripe_shared(&self, stripe: u64) -> RwLockReadGuard<'_, ()> {
        let lock = &self.stripe_locks[index(stripe % STRIPE_LOCKS as u64)];
        lock.read()
    }

    /// Locks a stripe exclusively, to write it.
    pub(super) fn lock_stripe(&self, stripe: u64) -> RwLockWriteGuard<'_, ()> {
        let lock = &self.stripe_locks[index(stripe % STRIPE_LOCKS as u64)];
        lock.write()
    }

    pub(super) fn is_role_readable(&self, span: &Span, role: usize) -> bool {
        self.members[role].is_readable(self.member_at(span), span.len())
    }

    /// Returns the size of one member's slice.
    pub(super) fn slice_bytes(&self) -> ByteLen {
        self.share_of(SLICES)
    }

    /// Returns one member's share of `all`, in whole pages, at least one.
    pub(super) fn share_of(&self, all: ByteLen) -> ByteLen {
        PAGE.times(all.whole(PAGE.times(self.members.len() as u64)).max(1))
    }

    /// Announces what solving the span will read.
    pub(super) fn prefetch_span(&self, span: &Span, without: &[usize]) {
        let at = self.member_at(span);
        let usable = |role: &usize| !without.contains(role) && self.is_role_readable(span, *role);
        let data: Vec<usize> =
            (0..span.layout.data_disks()).map(|d| span.layout.data_role(d)).collect();
        let here = data.iter().copied().filter(usable);
        let parity = [Some(span.layout.p), span.layout.q].into_iter().flatten().filter(usable);
        for role in here.chain(parity).take(data.len()) {
            self.members[role].will_need(at, span.len());
        }
    }

    /// Fills `data`, the span's part of every data chunk of the stripe, in order. Roles in
    /// `without` are not read. The stripe's lock is held.
    pub(super) fn read_stripe(
        &self,
        span: &Span,
        data: &mut [&mut [u8]],
        without: &[usize],
    ) -> Result<()> {
        let mut parity = Parity::default();
        for slice in span.cut(self.slice_bytes()) {
            let mut parts = part_of(data, span, &slice);
            self.read_slice_or_pages(&slice, &mut parts, without, &mut parity)?;
        }
        Ok(())
    }

    /// Fills `chunks`, data chunks of the stripe from the one of number `first` on. The others are
    /// not kept. The stripe's lock is held.
    pub(super) fn read_chunks(
        &self,
        stripe: u64,
        first: usize,
        chunks: &mut [&mut [u8]],
    ) -> Result<()> {
        let span = self.span(stripe, self.whole_chunk());
        let slice_len = self.slice_bytes().min(span.len()).index();
        let others = span.layout.data_disks() - chunks.len();
        with_scratch(others * slice_len, |memory| {
            let mut parity = Parity::default();
            for slice in span.cut(self.slice_bytes()) {
                let len = slice.len().index();
                let others = memory.chunks_mut(slice_len.max(1)).map(|buf| &mut buf[..len]);
                let mut parts: Vec<&mut [u8]> = others.collect();
                let behind = parts.split_off(first);
                parts.extend(part_of(chunks, &span, &slice));
                parts.extend(behind);
                self.read_slice_or_pages(&slice, &mut parts, &[], &mut parity)?;
            }
            Ok(())
        })
    }

    /// Fills `parts`, the slice of every data chunk. A slice with too many failures may be readable
    /// page by page.
    fn read_slice_or_pages(
        &self,
        slice: &Span,
        parts: &mut [&mut [u8]],
        without: &[usize],
        parity: &mut Parity,
    ) -> Result<()> {
        if self.read_slice(slice, parts, without, parity).is_ok() {
            return Ok(());
        }
        for page in slice.cut(PAGE) {
            let mut parts = part_of(parts, slice, &page);
            self.read_slice(&page, &mut parts, without, parity)?;
        }
        Ok(())
    }

    /// Fills `out`, the span's part of data chunk `d`, without returning the rest of the stripe.
    /// The stripe's lock is held.
    pub(super) fn read_chunk(
        &self,
        span: &Span,
        d: usize,
        out: &mut [u8],
        without: &[usize],
    ) -> Result<()> {
        let others = span.layout.data_disks() - 1;
        let len = others * self.slice_bytes().min(span.len()).index();
        with_scratch(len, |memory| self.read_chunk_with(span, d, out, without, memory))
    }

    /// Does the work of [`read_chunk`](Self::read_chunk), with memory for a slice of the other
    /// chunks.
    fn read_chunk_with(
        &self,
        span: &Span,
        d: usize,
        out: &mut [u8],
        without: &[usize],
        memory: &mut [u8],
    ) -> Result<()> {
        let own = span.layout.data_role(d);
        let others = span.layout.data_disks() - 1;
        let mut without = without.to_vec();
        for slice in span.cut(self.slice_bytes()) {
            let (at, len) = (self.member_at(&slice), slice.len().index());
            let start = slice.columns.start.distance_from(span.columns.start).index();
            let buf = &mut out[start..start + len];
            let ask = !without.contains(&own) && self.is_role_readable(&slice, own);
            if ask && self.fetch(&mut [ReadJob { role: own, at, buf }]).is_empty() {
                continue;
            }
            let mut data: Vec<&mut [u8]> = memory.chunks_mut(len).take(others).collect();
            data.insert(d, buf);
            if ask {
                without.push(own);
                self.read_stripe(&slice, &mut data, &without)?;
                without.pop();
                self.rewrite(own, at, data[d]);
            } else {
                self.read_stripe(&slice, &mut data, &without)?;
            }
        }
        Ok(())
    }

    fn read_slice(
        &self,
        span: &Span,
        data: &mut [&mut [u8]],
        without: &[usize],
        parity: &mut Parity,
    ) -> Result<()> {
        let (layout, at) = (span.layout, self.member_at(span));
        let usable = |role: usize| !without.contains(&role) && self.is_role_readable(span, role);
        let (here, mut missing): (Vec<usize>, Vec<usize>) =
            (0..data.len()).partition(|d| usable(layout.data_role(*d)));
        let mut jobs: Vec<ReadJob<'_>> = data
            .iter_mut()
            .enumerate()
            .filter(|(d, _)| !missing.contains(d))
            .map(|(d, buf)| ReadJob { role: layout.data_role(d), at, buf })
            .collect();
        let failed: Vec<usize> = self.fetch(&mut jobs).into_iter().map(|i| here[i]).collect();
        missing.extend(&failed);
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        let get = |role: Option<usize>, buf: &mut Vec<u8>| {
            buf.resize(span.len().index(), 0);
            role.is_some_and(|role| {
                usable(role) && self.fetch(&mut [ReadJob { role, at, buf }]).is_empty()
            })
        };
        let p = get(Some(layout.p), &mut parity.p);
        let q = !(p && missing.len() == 1) && get(layout.q, &mut parity.q);
        let p = p.then_some(parity.p.as_slice());
        let q = q.then_some(parity.q.as_slice());
        if !solve(layout, data, &missing, p, q) {
            let roles: Vec<usize> = missing.iter().map(|d| layout.data_role(*d)).collect();
            let offset = self.array_byte(span.stripe, missing[0], span.columns.start);
            let why = format!("the data of roles {roles:?} cannot be computed from the others");
            return Err(io_error("read", offset, span.len(), why));
        }
        let sources =
            data.len() - missing.len() + usize::from(p.is_some()) + usize::from(q.is_some());
        let of = |chunks: usize| span.len().times(chunks as u64);
        self.counters.count_memory(of(sources), of(missing.len()));
        for d in failed {
            self.rewrite(layout.data_role(d), at, data[d]);
        }
        Ok(())
    }

    /// Rewrites data that a member failed to read.
    pub(super) fn rewrite(&self, role: usize, at: MemberByte, content: &[u8]) {
        if self.read_only {
            return;
        }
        // If the level cannot afford a failure here, the sector stays bad.
        let _ = self.store(&[WriteJob { role, at, buf: content }]);
    }
}

/// Memory for the parity of one slice.
#[derive(Default)]
struct Parity {
    p: Vec<u8>,
    q: Vec<u8>,
}

/// Returns the parts of `data`, which covers `span`, that `part` covers.
pub(super) fn part_of<'a>(
    data: &'a mut [&mut [u8]],
    span: &Span,
    part: &Span,
) -> Vec<&'a mut [u8]> {
    let start = part.columns.start.distance_from(span.columns.start).index();
    let end = start + part.len().index();
    data.iter_mut().map(|buf| &mut buf[start..end]).collect()
}

/// Computes the chunks at `missing`, ascending, from the others and the available parity. Returns
/// false if that is not enough.
fn solve(
    layout: StripeLayout,
    data: &mut [&mut [u8]],
    missing: &[usize],
    p: Option<&[u8]>,
    q: Option<&[u8]>,
) -> bool {
    let mut outs: Vec<&mut [u8]> = missing.iter().map(|d| std::mem::take(&mut data[*d])).collect();
    let solved = match (outs.as_mut_slice(), p, q) {
        ([out], Some(p), _) => {
            let others = data.iter().enumerate().filter(|(d, _)| *d != missing[0]);
            let mut sources: Vec<&[u8]> = others.map(|(_, buf)| &**buf).collect();
            sources.push(p);
            xfskit_parity::xor(&sources, out);
            true
        }
        ([out], None, Some(q)) => {
            let places = places(layout, data, missing);
            xfskit_parity::d_from_q(&places, layout.exponent(missing[0]), q, out);
            true
        }
        ([x, y], Some(p), Some(q)) => {
            let places = places(layout, data, missing);
            let (ex, ey) = (layout.exponent(missing[0]), layout.exponent(missing[1]));
            xfskit_parity::d_and_d(&places, ex, ey, p, q, x, y);
            true
        }
        _ => false,
    };
    for (d, out) in missing.iter().zip(outs) {
        data[*d] = out;
    }
    solved
}

/// Returns the data by exponent, without the missing chunks.
pub(super) fn places<'a>(
    layout: StripeLayout,
    data: &'a [impl AsRef<[u8]>],
    missing: &[usize],
) -> Vec<Option<&'a [u8]>> {
    let mut places = vec![None; layout.exponents()];
    for (d, buf) in data.iter().enumerate().filter(|(d, _)| !missing.contains(d)) {
        places[layout.exponent(d)] = Some(buf.as_ref());
    }
    places
}
