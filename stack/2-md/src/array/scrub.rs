//! Scrubbing: do members agree with each other, and if not, who is wrong?
//!
//! A row is compared page by page (4 KiB), as md counts. With P and Q the errors of both tell which
//! single member is wrong, if only one is: md itself does not ask, it trusts data and rewrites parity,
//! which makes a silent error permanent. Here only what was located is mended.

use std::ops::Range;

use xfskit_block::Result;
use xfskit_parity::Located;
use xfskit_units::{MemberSector, index};

use super::io::{ReadJob, WriteJob, lost};
use super::mirror::PAGE;
use super::rows::{Span, places};
use super::{Array, Map};
use crate::layout::parity::Row;

/// Bytes of mirrors that md compares at a time.
const COMPARED: usize = 64 << 10;

/// A page whose copies or parity do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The row, as [`Array::scrub_rows`] counts them.
    pub row: u64,
    /// Which sectors of every member of the row; of the first copy on RAID1 and RAID10.
    pub sectors: Range<MemberSector>,
    /// The role that is wrong, where that can be told.
    pub role: Option<usize>,
    /// Its content was made right.
    pub mended: bool,
    /// What md's `mismatch_cnt` grows by: the sectors of the page on levels with parity; on mirrors those
    /// of the 64 KiB that it compares at a time, for every copy that differs, at the first such page.
    pub counted: u64,
}

impl Array {
    /// How many rows there are to scrub: rows of RAID4, 5 and 6, units of copies of RAID1 and RAID10;
    /// none without redundancy.
    pub fn scrub_rows(&self) -> u64 {
        match self.map {
            Map::Concat(_) => 0,
            Map::Raid1 | Map::Raid10(_) => self.size_bytes().div_ceil(self.mirror_unit()),
            Map::Parity => self.size_bytes() / self.row_bytes(),
        }
    }

    /// Compares what the members hold of one row. With `mend` a member that is located as the only
    /// wrong one is given the right content.
    ///
    /// # Errors
    /// Where a member of the row is missing or cannot be read: there is nothing to compare with.
    pub fn scrub_row(&self, row: u64, mend: bool) -> Result<Vec<Mismatch>> {
        if row >= self.scrub_rows() {
            return Ok(Vec::new());
        }
        let mend = mend && !self.read_only;
        match self.map {
            Map::Parity => self.scrub_stripe(row, mend),
            _ => self.scrub_copies(row),
        }
    }

    fn scrub_copies(&self, row: u64) -> Result<Vec<Mismatch>> {
        let _alone = self.own_row(row);
        let start = row * self.mirror_unit();
        let len = self.mirror_piece(start).min(self.size_bytes() - start);
        let copies = self.copies(start);
        let mut memory = vec![0; copies.len() * index(len)];
        let mut jobs: Vec<ReadJob<'_>> = copies
            .iter()
            .zip(memory.chunks_mut(index(len)))
            .map(|(copy, buf)| ReadJob { role: copy.role, at: copy.at, buf })
            .collect();
        if !self.fetch(&mut jobs).is_empty() {
            return Err(lost("scrub", start, index(len), "not all copies can be read".into()));
        }
        let (first, others) = memory.split_at(index(len));
        let differs = |page: &Range<usize>| {
            others.chunks(index(len)).any(|other| other[page.clone()] != first[page.clone()])
        };
        let at = copies.first().map_or(0, |copy| copy.at);
        let mut window = None;
        let mismatch = |page: Range<usize>| {
            let this = page.start / COMPARED;
            let first_of_window = window.replace(this) != Some(this);
            let start = this * COMPARED;
            let compared = start..(start + COMPARED).min(index(len));
            let differ = |other: &&[u8]| other[compared.clone()] != first[compared.clone()];
            let copies = others.chunks(index(len)).filter(differ).count();
            let counted = if first_of_window { copies * compared.len().div_ceil(512) } else { 0 };
            let counted = counted as u64;
            Mismatch { row, sectors: sectors(at, &page), role: None, mended: false, counted }
        };
        Ok(pages(index(len)).filter(differs).map(mismatch).collect())
    }

    fn scrub_stripe(&self, stripe: u64, mend: bool) -> Result<Vec<Mismatch>> {
        let _alone = self.own_row(stripe);
        let whole = self.span(stripe, 0..self.geometry.chunk_bytes().0);
        let mut found = Vec::new();
        for span in whole.cut(self.slice_bytes()) {
            self.scrub_span(&span, mend, &mut found)?;
        }
        if found.iter().any(|mismatch| mismatch.mended) {
            self.cache.forget(stripe);
        }
        Ok(found)
    }

    fn scrub_span(&self, span: &Span, mend: bool, found: &mut Vec<Mismatch>) -> Result<()> {
        let (row, at, len) = (span.row, self.member_at(span), index(span.len()));
        let mut memory = vec![0; self.members.len() * len];
        let mut jobs: Vec<ReadJob<'_>> = memory
            .chunks_mut(len)
            .enumerate()
            .map(|(role, buf)| ReadJob { role, at, buf })
            .collect();
        if !self.fetch(&mut jobs).is_empty() {
            let offset = span.stripe * self.row_bytes();
            return Err(lost("scrub", offset, len, "not all members can be read".into()));
        }
        let chunk = |role: usize| &memory[role * len..(role + 1) * len];
        let data: Vec<&[u8]> = (0..row.data_disks()).map(|d| chunk(row.data_role(d))).collect();
        let (mut p_error, mut q_error) = (vec![0; len], vec![0; len]);
        if let Some(q) = row.q {
            let places = places(row, &data, &[]);
            let (p, q) = (chunk(row.p), chunk(q));
            xfskit_parity::errors(&places, p, q, &mut p_error, &mut q_error);
        } else {
            xfskit_parity::xor(&[data.as_slice(), &[chunk(row.p)]].concat(), &mut p_error);
        }
        self.counters.count_touched((self.members.len() * len) as u64, 2 * len as u64);
        for page in pages(len) {
            let (p_error, q_error) = (&p_error[page.clone()], &q_error[page.clone()]);
            if p_error.iter().chain(q_error).all(|byte| *byte == 0) {
                continue;
            }
            let culprit = if row.q.is_some() { culprit(row, p_error, q_error) } else { None };
            let mut mended = false;
            if let Some(role) = culprit.filter(|_| mend) {
                let error = if Some(role) == row.q { q_error } else { p_error };
                let right = chunk(role)[page.clone()].iter().zip(error).map(|(a, b)| a ^ b);
                let right: Vec<u8> = right.collect();
                self.store(&[WriteJob { role, at: at + page.start as u64, buf: &right }])?;
                mended = true;
            }
            let sectors = sectors(at, &page);
            let counted = sectors.end.0 - sectors.start.0;
            found.push(Mismatch { row: span.stripe, sectors, role: culprit, mended, counted });
        }
        Ok(())
    }
}

/// The only member whose being wrong explains the errors of a page.
fn culprit(row: Row, p_error: &[u8], q_error: &[u8]) -> Option<usize> {
    match xfskit_parity::locate(p_error, q_error) {
        Located::P => Some(row.p),
        Located::Q => row.q,
        Located::Data(exponent) => {
            (0..row.data_disks()).find(|d| row.exponent(*d) == exponent).map(|d| row.data_role(d))
        }
        Located::Nothing | Located::Several => None,
    }
}

/// The pages of so many bytes.
fn pages(len: usize) -> impl Iterator<Item = Range<usize>> {
    let page = index(PAGE);
    (0..len).step_by(page).map(move |start| start..(start + page).min(len))
}

fn sectors(at: u64, page: &Range<usize>) -> Range<MemberSector> {
    let sector = |offset: usize| MemberSector((at + offset as u64).div_ceil(512));
    sector(page.start)..sector(page.end)
}
