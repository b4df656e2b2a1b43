//! Writing with a journal device: data and parity of a row are in the journal, on its disk, before members change.
//!
//! What a crash leaves half done is done again from there, whole: there is no write hole, with members missing
//! neither, and nothing to be resynced. One write is under way at a time, for only what all members have may leave
//! the journal. It is emptied when it is full, and when the array becomes clean.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xfskit_block::{BlockDevice, Result};
use xfskit_units::index;

use super::Array;
use super::io::{WriteJob, lost};
use super::mirror::PAGE;
use super::rows::Span;
use super::write::New;
use crate::journal::{Column, Ring};

impl Array {
    /// The array, whose writes go to this journal first.
    pub(crate) fn journaled_in(mut self, ring: Ring) -> Self {
        self.journal = Some(Mutex::new(ring));
        self
    }

    /// True where what is written goes somewhere else before: by whole pages then.
    pub(super) fn is_logged(&self) -> bool {
        self.logs.is_some() || self.journal.is_some()
    }

    /// Writes data and parity of a span, in whole pages, by way of the journal.
    pub(super) fn store_journaled(
        &self,
        journal: &Mutex<Ring>,
        span: &Span,
        new: &[New<'_>],
        (p, q): (&[u8], &[u8]),
        jobs: &[WriteJob<'_>],
    ) -> Result<()> {
        let mut ring = lock(journal);
        let unit = ring.columns_max(jobs.len()) as u64 * PAGE;
        for part in span.cut(unit) {
            let from = index(part.columns.start - span.columns.start);
            let bytes = from..from + index(part.len());
            let columns = self.columns(&part, new, (p, q), &bytes);
            if !ring.has_room_for(&columns) {
                self.empty_journal(&mut ring)?;
            }
            if !ring.append(&columns)? {
                let why = "the journal has no room for one page of each member".into();
                return Err(lost("write", 0, 0, why));
            }
            let at = self.member_at(&part);
            let jobs = jobs.iter();
            let jobs =
                jobs.map(|job| WriteJob { role: job.role, at, buf: &job.buf[bytes.clone()] });
            self.store(&jobs.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// The pages of a span as the journal has them: those at one place of all members together.
    fn columns<'a>(
        &self,
        span: &Span,
        new: &[New<'a>],
        (p, q): (&'a [u8], &'a [u8]),
        bytes: &Range<usize>,
    ) -> Vec<Column<'a>> {
        let chunk = self.geometry.chunk_bytes().0;
        let first = span.stripe * self.row_bytes() + span.columns.start;
        let page = |buf: &'a [u8], at: usize| &buf[at..at + index(PAGE)];
        let column = |(i, at): (u64, usize)| Column {
            data: new
                .iter()
                .map(|new| ((first + new.d as u64 * chunk + i * PAGE) / 512, page(new.buf, at)))
                .collect(),
            row: (self.member_at(span) + i * PAGE) / 512,
            parity: [p, q].into_iter().filter(|p| !p.is_empty()).map(|p| page(p, at)).collect(),
        };
        (0..).zip(bytes.clone().step_by(index(PAGE))).map(column).collect()
    }

    /// Takes everything off the journal: all members have it, on their disks.
    fn empty_journal(&self, ring: &mut Ring) -> Result<()> {
        for (role, member) in self.members.iter().enumerate() {
            if let Some(Err(error)) = member.device().map(BlockDevice::flush) {
                self.fail_member(role, error)?;
            }
        }
        let tail = ring.empty()?;
        self.note(|ledger| ledger.journal_tail(tail))?;
        ring.emptied();
        Ok(())
    }

    /// Empties the journal, where there is one that holds something.
    pub(super) fn settle_journal(&self) -> Result<()> {
        match self.journal.as_ref().map(lock) {
            Some(mut ring) if ring.holds_entries() => self.empty_journal(&mut ring),
            _ => Ok(()),
        }
    }

    /// P and Q of a page of a row `at` bytes from where the members' data begin, of which these data chunks are to
    /// be written.
    pub(crate) fn parity_with(&self, at: u64, data: &[(usize, &[u8])]) -> Result<Vec<Vec<u8>>> {
        let chunk = self.geometry.chunk_bytes().0;
        let span = self.span(at / chunk, at % chunk..at % chunk + PAGE);
        let _shared = self.share_row(span.stripe);
        let mut memory = vec![0; span.row.data_disks() * index(PAGE)];
        let mut parts: Vec<&mut [u8]> = memory.chunks_mut(index(PAGE)).collect();
        self.read_row(&span, &mut parts, &[])?;
        let mut row: Vec<New<'_>> =
            parts.iter().enumerate().map(|(d, buf)| New { d, buf }).collect();
        for (d, buf) in data.iter().filter(|(d, _)| *d < span.row.data_disks()) {
            row[*d].buf = buf;
        }
        let (p, q) = self.parity_of(&span, &row);
        Ok([p, q].into_iter().filter(|parity| !parity.is_empty()).collect())
    }
}

fn lock(journal: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}
