//! After a crash: members are made to agree again.
//!
//! Data are the truth on levels with parity, and the first copy on mirrors, as md has it: either may be
//! old or new where a write was under way, and both are right then. Until a region is resynced the first
//! copy is the one that is read, and writes compute parity anew instead of changing what may be wrong.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;

use xfskit_block::{BlockDevice, Result};
use xfskit_units::{Sectors, index};

use super::io::{ReadJob, WriteJob, lost};
use super::ledger::Ledger;
use super::mirror::Copy;
use super::rows::Span;
use super::tend::{Ended, Job};
use super::write::New;
use super::{Array, Map};

/// Bytes of the sync space after which what was done is noted.
const MARK: u64 = 64 << 20;

impl Array {
    /// The array, of which a resync is due from this sector of its members on (of the array, on RAID10).
    pub fn unsynced_from(self, from: Sectors) -> Self {
        self.synced_to.store(from.0, Ordering::Release);
        self
    }

    /// True where everything before byte `end` of the sync space agrees for sure.
    pub(super) fn is_synced(&self, end: u64) -> bool {
        end.div_ceil(512) <= self.synced_to.load(Ordering::Acquire)
    }

    /// Makes everything agree that a crash may have left otherwise: the regions that the bitmap names, or
    /// all from where the last resync ended. `progress` hears of bytes of the sync space done, and of all
    /// between the first and the last that are to be done, and answers whether to go on; stopped, or killed,
    /// it goes on from there another time. True where the array is in sync then.
    ///
    /// # Errors
    /// Where members cannot be read or written.
    pub fn resync(&self, mut progress: impl FnMut(u64, u64) -> bool) -> Result<bool> {
        let Some(ledger) = &self.ledger else { return Ok(true) };
        let unit = self.sectors_per_row();
        let todo = ledger.out_of_sync(self.scrub_rows().saturating_mul(unit));
        let todo: Vec<Range<u64>> = todo.iter().map(|region| self.rows_of(region)).collect();
        let (start, end) =
            (todo.first().map_or(0, |rows| rows.start), todo.last().map_or(0, |rows| rows.end));
        let bytes = |rows: u64| Sectors(rows.saturating_mul(unit)).byte_len().0;
        let mut marked = start;
        let job = Job {
            units: start..end,
            unit_bytes: bytes(1),
            wanted: &|row| {
                let next = todo.partition_point(|rows| rows.end <= row);
                todo.get(next).is_some_and(|rows| rows.contains(&row))
            },
            announce: &|row| self.announce_scrub(row),
        };
        let after = |next: u64, _: Vec<bool>| {
            let goes_on = progress(bytes(next - start), bytes(end - start));
            if !goes_on || bytes(next - marked) >= MARK {
                self.mark_synced(next * unit)?;
                marked = next;
            }
            Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        if self.carry_out(&job, |row| self.resync_row(row), after)? == Ended::Stopped {
            return Ok(false);
        }
        self.flush()?;
        self.note(Ledger::in_sync)?;
        self.synced_to.store(u64::MAX, Ordering::Release);
        Ok(true)
    }

    /// Sectors of the sync space in a row.
    fn sectors_per_row(&self) -> u64 {
        match self.map {
            Map::Parity => self.geometry.chunk().0,
            _ => self.mirror_unit() / 512,
        }
    }

    /// The rows that touch these sectors of the sync space.
    fn rows_of(&self, sectors: &Range<u64>) -> Range<u64> {
        let unit = self.sectors_per_row();
        let end = sectors.end.div_ceil(unit).min(self.scrub_rows());
        (sectors.start / unit).min(end)..end
    }

    fn mark_synced(&self, sector: u64) -> Result<()> {
        self.flush()?;
        self.note(|ledger| ledger.synced_to(sector))
    }

    /// Makes the members of one row agree. True where something was written.
    ///
    /// # Errors
    /// Where its data cannot be read, or a member not be written.
    pub fn resync_row(&self, row: u64) -> Result<bool> {
        let _alone = self.own_row(row);
        match self.map {
            Map::Concat(_) => Ok(false),
            Map::Raid1 | Map::Raid10(_) => self.resync_copies(row),
            Map::Parity => {
                self.cache.forget(row);
                let whole = self.span(row, 0..self.geometry.chunk_bytes().0);
                let mut spans = whole.cut(self.slice_bytes());
                spans.try_fold(false, |any, span| Ok(any | self.resync_span(&span)?))
            }
        }
    }

    pub(super) fn resync_span(&self, span: &Span) -> Result<bool> {
        let (row, at, len) = (span.row, self.member_at(span), index(span.len()));
        let mut memory = vec![0; row.data_disks() * len];
        let mut data: Vec<&mut [u8]> = memory.chunks_mut(len).collect();
        self.read_row(span, &mut data, &[])?;
        let data: Vec<New<'_>> = data.iter().enumerate().map(|(d, buf)| New { d, buf }).collect();
        let (p, q) = self.parity_of(span, &data);
        let parity = [(Some(row.p), &p), (row.q, &q)];
        let jobs = parity.into_iter().filter_map(|(role, buf)| {
            let role = role.filter(|role| !self.holds(*role, at, buf))?;
            Some(WriteJob { role, at, buf })
        });
        let jobs: Vec<WriteJob<'_>> = jobs.collect();
        self.store(&jobs)?;
        Ok(!jobs.is_empty())
    }

    fn resync_copies(&self, row: u64) -> Result<bool> {
        let start = row * self.mirror_unit();
        self.resync_copies_of(start, self.mirror_piece(start).min(self.size_bytes() - start))
    }

    /// Makes all copies of a piece what the first that can be read is.
    pub(super) fn resync_copies_of(&self, start: u64, len: u64) -> Result<bool> {
        let mut first = vec![0; index(len)];
        let source = self.copies(start).into_iter().find(|Copy { role, at }| {
            let job = ReadJob { role: *role, at: *at, buf: &mut first };
            self.fetch(&mut [job]).is_empty()
        });
        if source.is_none() {
            return Err(lost("resync", start, index(len), "no copy of it can be read".into()));
        }
        let jobs = self
            .copies(start)
            .into_iter()
            .filter(|copy| Some(*copy) != source && !self.holds(copy.role, copy.at, &first))
            .map(|copy| WriteJob { role: copy.role, at: copy.at, buf: &first });
        let jobs: Vec<WriteJob<'_>> = jobs.collect();
        self.store(&jobs)?;
        Ok(!jobs.is_empty())
    }

    /// True where the member is missing, or holds this already.
    pub(super) fn holds(&self, role: usize, at: u64, content: &[u8]) -> bool {
        let mut found = vec![0; content.len()];
        self.members[role].device().is_none()
            || (self.fetch(&mut [ReadJob { role, at, buf: &mut found }]).is_empty()
                && found == content)
    }
}
