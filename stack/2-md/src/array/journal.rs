//! Writing with a journal device: the data and parity of a stripe are durable in the journal before
//! members change.
//!
//! After a crash, incomplete writes are replayed from the journal. There is no write hole, even
//! with members missing, and nothing to resync. Only one write is in flight at a time, because an
//! entry may leave the journal only when all members have it. The journal is emptied when it is
//! full and when the array becomes clean.

use std::ops::Range;

use parking_lot::Mutex;
use xfskit_block::{BlockDevice, Result};
use xfskit_units::{ArraySector, ByteLen, ByteOffset, Column, MemberByte};

use super::Array;
use super::io::{WriteJob, io_error};
use super::mirror::PAGE;
use super::stripes::{New, Span};
use crate::journal::{JournalWriter, StripePage};

impl Array {
    /// Sets the journal that all writes go to first.
    pub(crate) fn with_journal(mut self, writer: JournalWriter) -> Self {
        self.journal = Some(Mutex::new(writer));
        self
    }

    /// Returns true if writes go to a log first. They are then made in whole pages.
    pub(super) fn is_logged(&self) -> bool {
        self.logs.is_some() || self.journal.is_some()
    }

    /// Writes the data and parity of a span, in whole pages, through the journal.
    pub(super) fn store_with_journal(
        &self,
        journal: &Mutex<JournalWriter>,
        span: &Span,
        new: &[New<'_>],
        (p, q): (&[u8], &[u8]),
        jobs: &[WriteJob<'_>],
    ) -> Result<()> {
        let mut writer = journal.lock();
        let unit = PAGE.times(writer.pages_max(jobs.len()) as u64);
        for part in span.cut(unit) {
            let from = part.columns.start.distance_from(span.columns.start).index();
            let bytes = from..from + part.len().index();
            let columns = self.columns(&part, new, (p, q), &bytes);
            if !writer.has_space_for(&columns) {
                self.reclaim_journal(&mut writer)?;
            }
            if !writer.append(&columns)? {
                let why = "the journal has no space for one page of each member".into();
                return Err(io_error("write", ByteOffset(0), ByteLen(0), why));
            }
            let at = self.member_at(&part);
            let jobs = jobs.iter();
            let jobs =
                jobs.map(|job| WriteJob { role: job.role, at, buf: &job.buf[bytes.clone()] });
            self.store(&jobs.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Returns the pages of a span as the journal stores them: the pages at one offset of all
    /// members together.
    fn columns<'a>(
        &self,
        span: &Span,
        new: &[New<'a>],
        (p, q): (&'a [u8], &'a [u8]),
        bytes: &Range<usize>,
    ) -> Vec<StripePage<'a>> {
        let page = |buf: &'a [u8], at: usize| &buf[at..at + PAGE.index()];
        let sector = |new: &New<'_>, column: Column| {
            ArraySector::of_byte(self.array_byte(span.stripe, new.d, column))
        };
        let column = |(i, at): (u64, usize)| {
            let ahead = PAGE.times(i);
            let column = span.columns.start.plus(ahead);
            StripePage {
                data: new.iter().map(|new| (sector(new, column), page(new.buf, at))).collect(),
                member_sector: self.member_at(span).plus(ahead).sector_floor(),
                parity: [p, q].into_iter().filter(|p| !p.is_empty()).map(|p| page(p, at)).collect(),
            }
        };
        (0..).zip(bytes.clone().step_by(PAGE.index())).map(column).collect()
    }

    /// Flushes all members, then empties the journal.
    fn reclaim_journal(&self, writer: &mut JournalWriter) -> Result<()> {
        for (role, member) in self.members.iter().enumerate() {
            if let Some(Err(error)) = member.device().map(BlockDevice::flush) {
                self.fail_member(role, error)?;
            }
        }
        let tail = writer.append_empty_block()?;
        self.update_metadata(|metadata| metadata.set_journal_tail(tail))?;
        writer.mark_empty();
        Ok(())
    }

    /// Empties the journal if there is one with entries.
    pub(super) fn flush_journal(&self) -> Result<()> {
        match self.journal.as_ref().map(Mutex::lock) {
            Some(mut writer) if writer.has_entries() => self.reclaim_journal(&mut writer),
            _ => Ok(()),
        }
    }

    /// Returns P and Q of a page of a stripe, from byte `at` of every member on, as they will be
    /// when `data` has been written to its data chunks.
    pub(crate) fn parity_with(
        &self,
        at: MemberByte,
        data: &[(usize, &[u8])],
    ) -> Result<Vec<Vec<u8>>> {
        let span = self.span_at(at, PAGE);
        let _shared = self.lock_stripe_shared(span.stripe);
        let mut memory = vec![0; span.layout.data_disks() * PAGE.index()];
        let mut parts: Vec<&mut [u8]> = memory.chunks_mut(PAGE.index()).collect();
        self.read_stripe(&span, &mut parts, &[])?;
        let mut whole: Vec<New<'_>> =
            parts.iter().enumerate().map(|(d, buf)| New { d, buf }).collect();
        for (d, buf) in data.iter().filter(|(d, _)| *d < span.layout.data_disks()) {
            whole[*d].buf = buf;
        }
        let (p, q) = self.parity_of(&span, &whole);
        Ok([p, q].into_iter().filter(|parity| !parity.is_empty()).collect())
    }
}
