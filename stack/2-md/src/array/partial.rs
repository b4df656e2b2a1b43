//! Writing with a partial parity log: the write hole of RAID5, closed.
//!
//! Before data and parity of a row change, the xor of what the write leaves alone is on the disk, on the member
//! that holds the row's parity. From there parity can be computed whichever part of the write
//! arrives. A log holds one write: the next that uses it waits until the one before is on the disk, for
//! only then may its entry go.

use std::sync::{Mutex, PoisonError};

use xfskit_block::{BlockDevice, Result};
use xfskit_units::{ByteOffset, index};

use super::Array;
use super::io::WriteJob;
use super::mirror::PAGE;
use super::rows::Span;
use super::write::{New, add};
use crate::ppl::{HEADER_BYTES, PplEntry, PplHeader};

/// The log of one member.
#[derive(Debug)]
pub(crate) struct Log {
    /// Where it begins, in bytes of the device.
    pub(crate) at: u64,
    /// How much room it has, in bytes.
    pub(crate) room: u64,
    /// The newest there is.
    pub(crate) generation: u64,
}

/// The logs of an array's members, in role order.
#[derive(Debug)]
pub(crate) struct Logs {
    /// The array's identity.
    pub(crate) set_uuid: [u8; 16],
    /// A log for each role that has a member. Each lock is taken below the row's, and held until what the
    /// log announces is on the disk.
    pub(crate) logs: Vec<Option<Mutex<Log>>>,
}

impl Logs {
    /// The most columns, in bytes, that one entry may announce.
    pub(super) fn columns_max(&self) -> u64 {
        let room = |log: &Mutex<Log>| log.lock().unwrap_or_else(PoisonError::into_inner).room;
        let least = self.logs.iter().flatten().map(room).min().unwrap_or(u64::MAX);
        (least.saturating_sub(HEADER_BYTES as u64) / PAGE * PAGE).max(PAGE)
    }
}

impl Array {
    /// The array, whose writes are announced in these logs.
    pub(crate) fn announced_in(mut self, logs: Logs) -> Self {
        self.logs = Some(logs);
        self
    }

    /// Writes data and parity of a span, announced in the log of the parity's member.
    pub(super) fn store_announced(
        &self,
        logs: &Logs,
        span: &Span,
        new: &[New<'_>],
        p: &[u8],
        jobs: &[WriteJob<'_>],
    ) -> Result<()> {
        let role = span.row.p;
        let log = logs.logs.get(role).and_then(Option::as_ref);
        let parity = log.filter(|_| self.members[role].device().is_some());
        let Some(log) = parity else { return self.store(jobs) };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.generation = log.generation.wrapping_add(1);
        let bytes = self.announcement(logs.set_uuid, log.generation, span, new, p);
        if let Some(device) = self.members[role].device()
            && let Err(error) = device.write_fua(ByteOffset(log.at), &bytes)
        {
            self.fail_member(role, error)?;
        }
        self.store(jobs)?;
        for job in jobs {
            if let Some(Err(error)) = self.members[job.role].device().map(BlockDevice::flush) {
                self.fail_member(job.role, error)?;
            }
        }
        Ok(())
    }

    /// The log that says what is about to be written.
    fn announcement(
        &self,
        set_uuid: [u8; 16],
        generation: u64,
        span: &Span,
        new: &[New<'_>],
        p: &[u8],
    ) -> Vec<u8> {
        let disks = span.row.data_disks();
        let first = new.first().map_or(0, |new| new.d);
        let mut partial = Vec::new();
        if new.len() < disks {
            partial.extend_from_slice(p);
            for new in new {
                add(&mut partial, new.buf);
            }
        }
        let chunk = self.geometry.chunk_bytes().0;
        let at = (span.stripe * disks as u64 + first as u64) * chunk + span.columns.start;
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let entry = PplEntry {
            data_sector: (at / 512).into(),
            pp_size: size(partial.len()).into(),
            data_size: size(new.len() * index(span.len())).into(),
            parity_disk: size(span.row.p).into(),
            checksum: xfskit_crc::crc32c(&partial).into(),
        };
        let mut bytes = PplHeader::new(set_uuid, generation, &[entry]).encode();
        bytes.extend_from_slice(&partial);
        bytes
    }

    /// A part of a row, made to begin and end with a page by what stands there: what a log announces is
    /// whole pages. The row's lock is held.
    pub(super) fn whole_pages(
        &self,
        stripe: u64,
        start: u64,
        content: &[u8],
    ) -> Result<(u64, Vec<u8>)> {
        let end = start + content.len() as u64;
        let (first, last) = (start / PAGE * PAGE, end.next_multiple_of(PAGE));
        let mut pages = vec![0; index(last - first)];
        let chunk = self.geometry.chunk_bytes().0;
        for page in [first, last - PAGE] {
            let span = self.span(stripe, page % chunk..page % chunk + PAGE);
            let out = &mut pages[index(page - first)..][..index(PAGE)];
            self.read_hole(&span, index(page / chunk), out, &[])?;
        }
        pages[index(start - first)..][..content.len()].copy_from_slice(content);
        Ok((first, pages))
    }
}
