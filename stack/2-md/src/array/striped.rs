//! RAID4, 5 and 6: requests, cut into rows.

use xfskit_block::{Error, Result};
use xfskit_units::index;

use super::io::ReadJob;
use super::rows::Span;
use super::{Array, Map};
use std::sync::atomic::Ordering;

/// Rows of one request that are read at once.
const ROWS_AT_ONCE: usize = 16;

/// What a request wants of one row.
pub(super) struct RowPart<'a> {
    pub(super) stripe: u64,
    /// First byte, counted in the row's content: data chunk by data chunk.
    pub(super) start: u64,
    pub(super) buf: &'a mut [u8],
}

/// A part of one data chunk.
pub(super) struct Piece<'a> {
    pub(super) span: Span,
    pub(super) d: usize,
    pub(super) buf: &'a mut [u8],
}

/// A way to obtain a piece of a data chunk.
pub(super) enum Way {
    /// Without asking these roles.
    Without(Vec<usize>),
    /// From its own member, in this one of the member's ways.
    Own(usize),
}

impl Array {
    /// Bytes of content of one row.
    pub(super) fn row_bytes(&self) -> u64 {
        self.geometry.chunk_bytes().0 * u64::from(self.geometry.data_disks())
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.geometry.array_size().byte_len().0
    }

    pub(super) fn row_parts<'a>(&self, offset: u64, buf: &'a mut [u8]) -> Vec<RowPart<'a>> {
        let row_bytes = self.row_bytes();
        let (mut at, mut rest) = (offset, buf);
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (stripe, start) = (at / row_bytes, at % row_bytes);
            let len = index(row_bytes - start).min(rest.len());
            let (buf, behind) = rest.split_at_mut(len);
            parts.push(RowPart { stripe, start, buf });
            (at, rest) = (at + len as u64, behind);
        }
        parts
    }

    pub(super) fn pieces<'a>(&self, part: RowPart<'a>) -> Vec<Piece<'a>> {
        let chunk = self.geometry.chunk_bytes().0;
        let (mut at, mut rest) = (part.start, part.buf);
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let column = at % chunk;
            let len = index(chunk - column).min(rest.len());
            let (buf, behind) = rest.split_at_mut(len);
            let span = self.span(part.stripe, column..column + len as u64);
            pieces.push(Piece { span, d: index(at / chunk), buf });
            (at, rest) = (at + len as u64, behind);
        }
        pieces
    }

    fn is_piece_readable(&self, piece: &Piece<'_>) -> bool {
        self.is_role_readable(&piece.span, piece.span.row.data_role(piece.d))
    }

    pub(super) fn read_striped(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let sequential = self.cache.continues(offset, offset + buf.len() as u64);
        let mut parts = self.row_parts(offset, buf).into_iter();
        loop {
            let some: Vec<_> = parts.by_ref().take(ROWS_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(());
            }
            self.read_parts(some, sequential)?;
        }
    }

    fn read_parts(&self, parts: Vec<RowPart<'_>>, sequential: bool) -> Result<()> {
        let (mut direct, mut whole, mut holes) = (Vec::new(), Vec::new(), Vec::new());
        for mut part in parts {
            let hole = self.last_hole(part.stripe);
            if hole.is_none() {
                direct.extend(self.pieces(part));
            } else if part.buf.len() as u64 == self.row_bytes() {
                let span = self.span(part.stripe, 0..self.geometry.chunk_bytes().0);
                self.announce_span(&span, &[]);
                whole.push((span, part.buf));
            } else if !self.read_cached(&mut part, sequential, hole) {
                for piece in self.pieces(part) {
                    if self.is_piece_readable(&piece) {
                        direct.push(piece);
                    } else {
                        self.announce_span(&piece.span, &[]);
                        holes.push(piece);
                    }
                }
            }
        }
        let mut jobs: Vec<ReadJob<'_>> = direct
            .iter_mut()
            .map(|Piece { span, d, buf }| ReadJob {
                role: span.row.data_role(*d),
                at: self.member_at(span),
                buf,
            })
            .collect();
        self.announce(&jobs);
        let mut failed = self.fetch(&mut jobs);
        failed.sort_unstable();
        for i in failed.into_iter().rev() {
            holes.push(direct.swap_remove(i));
        }
        for Piece { span, d, buf } in holes {
            let _shared = self.share_row(span.stripe);
            self.read_hole(&span, d, buf, &[])?;
        }
        self.read_whole_rows(whole)
    }

    /// The last data chunk of the row that its member does not have, if any.
    fn last_hole(&self, stripe: u64) -> Option<usize> {
        if self.is_whole.load(Ordering::Acquire) {
            return None;
        }
        let span = self.span(stripe, 0..self.geometry.chunk_bytes().0);
        let mut chunks = (0..span.row.data_disks()).rev();
        chunks.find(|d| !self.is_role_readable(&span, span.row.data_role(*d)))
    }

    /// Takes the part out of the row cache. A row that is not there is read whole where it pays: for
    /// one who wants most of it, and for a sequential reader who has the hole still before him.
    fn read_cached(&self, part: &mut RowPart<'_>, sequential: bool, hole: Option<usize>) -> bool {
        let len = part.buf.len() as u64;
        let chunk = self.geometry.chunk_bytes().0;
        let before_hole = hole.is_some_and(|hole| part.start / chunk <= hole as u64);
        let may_fill = before_hole && (sequential || len * 2 > self.row_bytes());
        let stripe = part.stripe;
        let fill = |row: &mut [u8]| {
            let span = self.span(stripe, 0..chunk);
            self.announce_span(&span, &[]);
            self.read_whole_row(&span, row)
        };
        let found = self.cache.read(stripe, part.start, part.buf, may_fill, fill).is_some();
        if found {
            self.counters.count_touched(len, len);
        }
        found
    }

    fn read_whole_row(&self, span: &Span, buf: &mut [u8]) -> Result<()> {
        let _shared = self.share_row(span.stripe);
        let mut data: Vec<&mut [u8]> =
            buf.chunks_mut(index(self.geometry.chunk_bytes().0)).collect();
        self.read_row(span, &mut data, &[])
    }

    /// Rows without a neighbour in time are shared among threads; many readers are threads enough.
    fn read_whole_rows(&self, mut rows: Vec<(Span, &mut [u8])>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let others = self.computing.fetch_add(1, Ordering::Relaxed);
        let threads = (self.options.threads / (index(others) + 1)).clamp(1, rows.len());
        let read = |rows: &mut [(Span, &mut [u8])]| {
            rows.iter_mut().try_for_each(|(span, buf)| self.read_whole_row(span, buf))
        };
        let answer = if threads == 1 {
            read(&mut rows)
        } else {
            let share = rows.len().div_ceil(threads);
            std::thread::scope(|scope| {
                let workers: Vec<_> =
                    rows.chunks_mut(share).map(|rows| scope.spawn(|| read(rows))).collect();
                workers.into_iter().try_for_each(|worker| match worker.join() {
                    Ok(answer) => answer,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
            })
        };
        self.computing.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// Announces a range of the array.
    pub(super) fn announce_range(&self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let len = match &self.map {
                Map::Concat(map) => {
                    let place = map.place(at);
                    let len = place.len.min(end - at);
                    self.members[place.role].will_need(place.at, len);
                    len
                }
                Map::Raid1 | Map::Raid10(_) => {
                    let len = self.mirror_piece(at).min(end - at);
                    if let Some(copy) = self.readable_copies(at, len).first() {
                        self.members[copy.role].will_need(copy.at, len);
                    }
                    len
                }
                Map::Parity => {
                    let chunk = self.geometry.chunk_bytes().0;
                    let column = at % chunk;
                    let len = (chunk - column).min(end - at);
                    let span = self.span(at / self.row_bytes(), column..column + len);
                    let role = span.row.data_role(index(at % self.row_bytes() / chunk));
                    if self.is_role_readable(&span, role) {
                        self.members[role].will_need(self.member_at(&span), len);
                    }
                    len
                }
            };
            at += len;
        }
    }

    /// The ways to obtain a piece of data chunk `d`; the first is what an ordinary read does.
    ///
    /// Without its own member; then, where one more may be left out, without each of the others in
    /// turn, P first: any of them may be the one that lied. Last the other ways of its own member, if that is an
    /// array.
    pub(super) fn ways(&self, span: &Span, d: usize) -> Vec<Way> {
        let own = span.row.data_role(d);
        let readable = |role: usize| self.is_role_readable(span, role);
        let holes = (0..self.members.len()).filter(|role| !readable(*role) && *role != own).count();
        let bears = self.geometry.tolerates() as usize;
        let mut ways = Vec::new();
        if readable(own) {
            ways.push(Way::Without(Vec::new()));
        }
        if holes < bears {
            ways.push(Way::Without(vec![own]));
        }
        if holes + 1 < bears {
            let mut others: Vec<usize> = (0..self.members.len())
                .filter(|role| *role != own && Some(*role) != span.row.q && readable(*role))
                .collect();
            others.sort_by_key(|role| *role != span.row.p);
            ways.extend(others.into_iter().map(|role| Way::Without(vec![own, role])));
        }
        if readable(own) {
            let inner = self.member_ways(own, self.member_at(span), span.len());
            ways.extend((1..inner).map(Way::Own));
        }
        ways
    }

    pub(super) fn striped_alternatives(&self, offset: u64, len: u64) -> usize {
        let end = offset.saturating_add(len).min(self.size_bytes());
        let chunk = self.geometry.chunk_bytes().0;
        let mut most = 1;
        let mut at = offset;
        while at < end {
            let column = at % chunk;
            let len = (chunk - column).min(end - at);
            let span = self.span(at / self.row_bytes(), column..column + len);
            most = most.max(self.ways(&span, index(at % self.row_bytes() / chunk)).len());
            at += len;
        }
        most
    }

    /// The range in way `k`; a piece that has fewer ways is had in its last.
    pub(super) fn read_striped_alternative(
        &self,
        offset: u64,
        buf: &mut [u8],
        k: usize,
    ) -> Result<()> {
        if k >= self.striped_alternatives(offset, buf.len() as u64) {
            return Err(Error::NoAlternative(k));
        }
        for part in self.row_parts(offset, buf) {
            for Piece { span, d, buf } in self.pieces(part) {
                let ways = self.ways(&span, d);
                let _shared = self.share_row(span.stripe);
                match ways.get(k).or(ways.last()) {
                    None => return Err(Error::NoAlternative(k)),
                    Some(Way::Without(roles)) => self.read_hole(&span, d, buf, roles)?,
                    Some(Way::Own(inner)) => {
                        let (role, at) = (span.row.data_role(d), self.member_at(&span));
                        self.read_member_way(role, at, buf, *inner)?;
                    }
                }
            }
        }
        Ok(())
    }
}
