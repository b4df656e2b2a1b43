//! Resync: members are made to agree after a crash.
//!
//! As in md, data are right on levels with parity, and the first copy is right on mirrors. Where a
//! write was in flight, either may be old or new, and both are valid. Until a region is resynced,
//! only the first copy is read, and writes compute parity from all data instead of updating parity
//! that may be wrong.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;

use xfskit_block::{BlockDevice, Result};
use xfskit_units::{ByteLen, ByteOffset, MemberByte, Sectors, SyncSector};

use super::io::{ReadJob, WriteJob, io_error};
use super::metadata::ArrayMetadata;
use super::mirror::Copy;
use super::stripes::{New, Span};
use super::sync_action::{Completion, SyncJob};
use super::{Array, Map};

/// The part of the sync space after which progress is recorded.
const MARK: ByteLen = ByteLen(64 << 20);

impl Array {
    /// Marks the array as due for a resync from this sector on.
    pub fn with_resync_from(self, from: SyncSector) -> Self {
        self.synced_to.store(from.0, Ordering::Release);
        self
    }

    /// Returns true if everything before `end` is known to agree.
    pub(super) fn is_synced(&self, end: SyncSector) -> bool {
        end.0 <= self.synced_to.load(Ordering::Acquire)
    }

    /// Makes everything agree that a crash may have left different: the regions that the bitmap
    /// names, or without a bitmap all from where the last resync ended. `progress` receives how
    /// much of the sync space is done, and how much lies between the first and the last region. It
    /// returns whether to continue. A resync that was stopped or killed continues from there the
    /// next time. Returns true if the array is in sync then.
    ///
    /// # Errors
    /// Returns an error if members cannot be read or written.
    pub fn resync(&self, mut progress: impl FnMut(ByteLen, ByteLen) -> bool) -> Result<bool> {
        let Some(metadata) = &self.metadata else { return Ok(true) };
        let _alone = self.sync_action.lock();
        let unit = self.sectors_per_stripe();
        let end = SyncSector(unit.saturating_times(self.scrub_stripes()).0);
        let todo = metadata.out_of_sync(end);
        let todo: Vec<Range<u64>> = todo.iter().map(|region| self.stripes_of(region)).collect();
        let (start, end) = (
            todo.first().map_or(0, |stripes| stripes.start),
            todo.last().map_or(0, |stripes| stripes.end),
        );
        let bytes = |stripes: u64| unit.saturating_times(stripes).byte_len();
        let mut marked = start;
        let job = SyncJob {
            units: start..end,
            unit_bytes: bytes(1),
            needs_work: &|stripe| {
                let next = todo.partition_point(|stripes| stripes.end <= stripe);
                todo.get(next).is_some_and(|stripes| stripes.contains(&stripe))
            },
            prefetch: &|stripe| self.prefetch_scrub(stripe),
        };
        let after = |next: u64, _: Vec<bool>| {
            let goes_on = progress(bytes(next - start), bytes(end - start));
            if !goes_on || bytes(next - marked) >= MARK {
                self.mark_synced(SyncSector(unit.times(next).0))?;
                marked = next;
            }
            Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        if self.run_sync_action(&job, |stripe| self.resync_stripe(stripe), after)?
            == Completion::Stopped
        {
            return Ok(false);
        }
        self.flush()?;
        self.update_metadata(ArrayMetadata::finish_resync)?;
        self.synced_to.store(SyncSector::MAX.0, Ordering::Release);
        Ok(true)
    }

    /// Returns the sectors of the sync space in a stripe.
    fn sectors_per_stripe(&self) -> Sectors {
        match self.map {
            Map::Parity => self.geometry.chunk(),
            _ => self.mirror_unit().sectors(),
        }
    }

    /// Returns the stripes that touch these sectors of the sync space.
    fn stripes_of(&self, sectors: &Range<SyncSector>) -> Range<u64> {
        let unit = self.sectors_per_stripe();
        let end = sectors.end.div_ceil(unit).min(self.scrub_stripes());
        sectors.start.whole(unit).min(end)..end
    }

    fn mark_synced(&self, sector: SyncSector) -> Result<()> {
        self.flush()?;
        self.update_metadata(|metadata| metadata.set_synced_to(sector))
    }

    /// Makes the members of one stripe agree. Returns true if something was written.
    ///
    /// # Errors
    /// Returns an error if its data cannot be read or a member cannot be written.
    pub fn resync_stripe(&self, stripe: u64) -> Result<bool> {
        let _alone = self.lock_stripe(stripe);
        match self.map {
            Map::Concat(_) => Ok(false),
            Map::Raid1 | Map::Raid10(_) => self.resync_copies(stripe),
            Map::Parity => {
                self.cache.forget(stripe);
                let whole = self.span(stripe, self.whole_chunk());
                let mut spans = whole.cut(self.slice_bytes());
                spans.try_fold(false, |any, span| Ok(any | self.resync_span(&span)?))
            }
        }
    }

    pub(super) fn resync_span(&self, span: &Span) -> Result<bool> {
        let (layout, at, len) = (span.layout, self.member_at(span), span.len().index());
        let mut memory = vec![0; layout.data_disks() * len];
        let mut data: Vec<&mut [u8]> = memory.chunks_mut(len).collect();
        self.read_stripe(span, &mut data, &[])?;
        let data: Vec<New<'_>> = data.iter().enumerate().map(|(d, buf)| New { d, buf }).collect();
        let (p, q) = self.parity_of(span, &data);
        let parity = [(Some(layout.p), &p), (layout.q, &q)];
        let jobs = parity.into_iter().filter_map(|(role, buf)| {
            let role = role.filter(|role| !self.holds(*role, at, buf))?;
            Some(WriteJob { role, at, buf })
        });
        let jobs: Vec<WriteJob<'_>> = jobs.collect();
        self.store(&jobs)?;
        Ok(!jobs.is_empty())
    }

    fn resync_copies(&self, stripe: u64) -> Result<bool> {
        let start = self.mirror_start(stripe);
        self.resync_copies_of(start, self.mirror_piece(start).min(self.end().distance_from(start)))
    }

    /// Makes all copies of a piece equal to the first one that can be read.
    pub(super) fn resync_copies_of(&self, start: ByteOffset, len: ByteLen) -> Result<bool> {
        let mut first = vec![0; len.index()];
        let source = self.copies(start).into_iter().find(|Copy { role, at }| {
            let job = ReadJob { role: *role, at: *at, buf: &mut first };
            self.fetch(&mut [job]).is_empty()
        });
        if source.is_none() {
            return Err(io_error("resync", start, len, "no copy of it can be read".into()));
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

    /// Returns true if the member is missing, or holds these data already.
    pub(super) fn holds(&self, role: usize, at: MemberByte, content: &[u8]) -> bool {
        let mut found = vec![0; content.len()];
        self.members[role].device().is_none()
            || (self.fetch(&mut [ReadJob { role, at, buf: &mut found }]).is_empty()
                && found == content)
    }
}
