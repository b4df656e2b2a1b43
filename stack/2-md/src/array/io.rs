//! Reads and writes of several members at once.
//!
//! Reads of different members overlap without threads. All reads are first announced
//! (`BlockDevice::will_need` starts them), then waited for one after the other. Devices in memory
//! ignore the announcement at no cost.

use std::io;

use xfskit_block::{Error, Result};
use xfskit_units::{ByteLen, ByteOffset, MemberByte};

use super::Array;

/// A read of one member.
pub(super) struct ReadJob<'a> {
    pub(super) role: usize,
    pub(super) at: MemberByte,
    pub(super) buf: &'a mut [u8],
}

/// A write of one member.
pub(super) struct WriteJob<'a> {
    pub(super) role: usize,
    pub(super) at: MemberByte,
    pub(super) buf: &'a [u8],
}

/// Returns the error of an operation on a range of the array that cannot be done.
pub(super) fn io_error(op: &'static str, offset: ByteOffset, len: ByteLen, why: String) -> Error {
    Error::Io { op, offset, len, source: io::Error::other(why) }
}

impl Array {
    /// Announces the reads if they go to more than one member.
    pub(super) fn prefetch(&self, jobs: &[ReadJob<'_>]) {
        if jobs.iter().any(|job| job.role != jobs[0].role) {
            for job in jobs {
                self.members[job.role].will_need(job.at, ByteLen::of(job.buf));
            }
        }
    }

    /// Performs the reads, those of each member in one batch. Returns the indices of the reads that
    /// failed or were not allowed. Counts failures, which may fail a member.
    pub(super) fn fetch(&self, jobs: &mut [ReadJob<'_>]) -> Vec<usize> {
        let mut failed = Vec::new();
        let mut order: Vec<(usize, &mut ReadJob<'_>)> = jobs.iter_mut().enumerate().collect();
        order.sort_by_key(|(_, job)| (job.role, job.at));
        for jobs in order.chunk_by_mut(|(_, a), (_, b)| a.role == b.role) {
            let role = jobs[0].1.role;
            let member = &self.members[role];
            let (allowed, refused): (Vec<_>, Vec<_>) = jobs
                .iter_mut()
                .partition(|(_, job)| member.is_readable(job.at, ByteLen::of(job.buf)));
            failed.extend(refused.iter().map(|(i, _)| *i));
            let indices: Vec<usize> = allowed.iter().map(|(i, _)| *i).collect();
            let bytes = allowed.iter().map(|(_, job)| ByteLen::of(job.buf));
            self.counters.count_read(bytes.fold(ByteLen(0), ByteLen::plus));
            let batch = allowed.into_iter().map(|(_, job)| (job.at, &mut *job.buf));
            match member.read_batch(batch) {
                None => failed.extend(indices),
                Some(results) => {
                    let bad = indices.iter().zip(&results).filter(|(_, result)| result.is_err());
                    failed.extend(bad.map(|(i, _)| {
                        self.read_failed(role);
                        *i
                    }));
                }
            }
        }
        failed
    }

    /// Performs the writes, those of each member in one batch. Skips roles without a member. If a
    /// write fails, records a bad block or fails the member.
    ///
    /// # Errors
    /// Returns an error if the level cannot afford that.
    pub(super) fn store(&self, jobs: &[WriteJob<'_>]) -> Result<()> {
        let mut order: Vec<&WriteJob<'_>> = jobs.iter().collect();
        order.sort_by_key(|job| (job.role, job.at));
        for jobs in order.chunk_by(|a, b| a.role == b.role) {
            let member = &self.members[jobs[0].role];
            let Some(results) = member.write_batch(jobs.iter().map(|job| (job.at, job.buf))) else {
                continue;
            };
            for (WriteJob { role, at, buf }, result) in jobs.iter().zip(results) {
                let len = ByteLen::of(buf);
                match result {
                    Ok(()) => {
                        self.clear_badblocks(*role, *at, len)?;
                        self.clear_replacement_badblocks(*role, *at, len)?;
                    }
                    Err(error) => self.write_failed(*role, *at, len, error)?,
                }
            }
        }
        Ok(())
    }
}
