//! Writing with a partial parity log (PPL), which closes the write hole of RAID5.
//!
//! Before data and parity of a stripe change, the xor of the data that the write leaves alone is
//! made durable on the member that holds the stripe's parity. Parity can be computed from it after
//! a crash, whichever part of the write arrived. A log holds one write. The next write that needs
//! the same log waits until the previous one is durable, because only then may its entry be
//! overwritten.

use parking_lot::Mutex;
use xfskit_block::{BlockDevice, Result};
use xfskit_units::{ArraySector, ByteLen, ByteOffset, StripeByte};

use super::Array;
use super::io::WriteJob;
use super::mirror::PAGE;
use super::stripes::{New, Span};
use super::write::add;
use crate::ppl::{self, HEADER_BYTES, PplEntry, PplHeader};
use crate::superblock::MemberRange;

/// The log of one member.
#[derive(Debug)]
pub(crate) struct PplLog {
    /// Offset on the device.
    pub(crate) at: ByteOffset,
    /// Size.
    pub(crate) len: ByteLen,
    /// The newest generation written.
    pub(crate) generation: u64,
}

impl PplLog {
    /// Opens the log at `place` and empties it.
    pub(crate) fn open(
        device: &dyn BlockDevice,
        place: MemberRange,
        set_uuid: [u8; 16],
    ) -> Result<Self> {
        let generation = ppl::clear(device, place, set_uuid)?;
        Ok(Self { at: place.at.byte_offset(), len: place.len.byte_len(), generation })
    }

    /// Returns the most columns that one entry may cover.
    fn columns_max(&self) -> ByteLen {
        let behind = self.len.saturating_minus(ByteLen(HEADER_BYTES as u64));
        PAGE.times(behind.whole(PAGE).max(1))
    }
}

/// What the logs of an array's members have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PplLogs {
    /// The array's UUID.
    pub(crate) set_uuid: [u8; 16],
    /// The most columns that one entry may cover.
    pub(super) columns_max: ByteLen,
}
impl Array {
    /// Sets the members' partial parity logs, in role order.
    pub(crate) fn with_ppl(mut self, set_uuid: [u8; 16], logs: Vec<Option<PplLog>>) -> Self {
        let columns_max = logs.iter().flatten().map(PplLog::columns_max).min().unwrap_or(PAGE);
        for (member, log) in self.members.iter().zip(logs) {
            member.set_log(log);
        }
        self.logs = Some(PplLogs { set_uuid, columns_max });
        self
    }

    /// Opens and empties the log of a new member. Returns `None` if the array has no such logs.
    pub(super) fn open_ppl(
        &self,
        device: &dyn BlockDevice,
        place: Option<MemberRange>,
    ) -> Result<Option<PplLog>> {
        let open =
            |(logs, place): (&PplLogs, MemberRange)| PplLog::open(device, place, logs.set_uuid);
        self.logs.as_ref().zip(place).map(open).transpose()
    }

    /// Writes data and parity of a span, logged first in the log of the parity's member.
    pub(super) fn store_with_ppl(
        &self,
        logs: &PplLogs,
        span: &Span,
        new: &[New<'_>],
        p: &[u8],
        jobs: &[WriteJob<'_>],
    ) -> Result<()> {
        let role = span.layout.p;
        loop {
            let member = self.members[role].current();
            let (Some(device), Some(log)) = (member.device(), member.log()) else {
                return self.store(jobs);
            };
            let mut log = log.lock();
            // While this thread waited for the lock, a replacement may have taken over.
            if !std::ptr::eq(member, self.members[role].current()) {
                continue;
            }
            log.generation = log.generation.wrapping_add(1);
            let bytes = self.ppl_entry(logs.set_uuid, log.generation, span, new, p);
            if let Err(error) = device.write_fua(log.at, &bytes) {
                self.fail_member(role, error)?;
            }
            self.store(jobs)?;
            for job in jobs {
                if let Some(Err(error)) = self.members[job.role].device().map(BlockDevice::flush) {
                    self.fail_member(job.role, error)?;
                }
            }
            return Ok(());
        }
    }

    /// Runs `work` while the log of this role's member is not in use.
    pub(super) fn with_idle_ppl<T>(&self, role: usize, work: impl FnOnce() -> T) -> T {
        let _alone = self.members[role].current().log().map(Mutex::lock);
        work()
    }

    /// Returns the bytes of a log with an entry for this write.
    fn ppl_entry(
        &self,
        set_uuid: [u8; 16],
        generation: u64,
        span: &Span,
        new: &[New<'_>],
        p: &[u8],
    ) -> Vec<u8> {
        let disks = span.layout.data_disks();
        let first = new.first().map_or(0, |new| new.d);
        let mut partial = Vec::new();
        if new.len() < disks {
            partial.extend_from_slice(p);
            for new in new {
                add(&mut partial, new.buf);
            }
        }
        let at = self.array_byte(span.stripe, first, span.columns.start);
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let entry = PplEntry {
            data_sector: ArraySector::of_byte(at).0.into(),
            pp_size: size(partial.len()).into(),
            data_size: size(new.len() * span.len().index()).into(),
            parity_disk: size(span.layout.p).into(),
            checksum: xfskit_crc::crc32c(&partial).into(),
        };
        let mut bytes = PplHeader::new(set_uuid, generation, &[entry]).encode();
        bytes.extend_from_slice(&partial);
        bytes
    }

    /// Extends a part of a stripe to whole pages with the data that are there, because a log covers
    /// whole pages. The stripe's lock is held.
    pub(super) fn whole_pages(
        &self,
        stripe: u64,
        start: StripeByte,
        content: &[u8],
    ) -> Result<(StripeByte, Vec<u8>)> {
        let end = start.plus(ByteLen::of(content));
        let (first, last) = (start.round_down(PAGE), end.round_up(PAGE));
        let mut pages = vec![0; last.distance_from(first).index()];
        for page in [first, last.minus(PAGE)] {
            let (d, column) = self.chunk_at(page);
            let span = self.span(stripe, column.range(PAGE));
            let out = &mut pages[page.distance_from(first).index()..][..PAGE.index()];
            self.read_chunk(&span, d, out, &[])?;
        }
        pages[start.distance_from(first).index()..][..content.len()].copy_from_slice(content);
        Ok((first, pages))
    }
}
