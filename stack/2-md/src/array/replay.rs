//! Replaying a log's entries onto the members.

use xfskit_block::Result;
use xfskit_units::index;

use super::Array;
use super::io::{ReadJob, WriteJob};
use super::write::add;

/// A write that a partial parity log recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PplWrite<'a> {
    /// Where it began, in bytes of the array.
    pub(crate) at: u64,
    /// Its length in bytes, summed over all data chunks.
    pub(crate) len: u64,
    /// The role that holds the stripe's parity.
    pub(crate) parity: usize,
    /// The xor of the data that it left alone; `None` if it wrote all chunks of the stripe.
    pub(crate) partial: Option<&'a [u8]>,
}

impl Array {
    /// Recomputes parity where this write may or may not have completed. Returns false if nothing
    /// was done: the entry is not valid, or the written data cannot be read, so that nothing can be
    /// computed.
    pub(crate) fn replay_ppl_write(&self, write: &PplWrite<'_>) -> Result<bool> {
        let (chunk, stripe_bytes) = (self.geometry.chunk_bytes().0, self.stripe_bytes());
        if write.at >= self.size_bytes() {
            return Ok(false);
        }
        let (stripe, column) = (write.at / stripe_bytes, write.at % chunk);
        let first = index(write.at % stripe_bytes / chunk);
        let disks = u64::from(self.geometry.data_disks());
        let len = write.partial.map_or(write.len / disks, |partial| partial.len() as u64);
        let count = index(write.len.checked_div(len).unwrap_or(0));
        let span = self.span(stripe, column..column.saturating_add(len));
        let layout = span.layout;
        let fits = span.columns.end <= chunk && first.saturating_add(count) <= layout.data_disks();
        if count == 0 || !fits || write.parity != layout.p {
            return Ok(false);
        }
        let _alone = self.lock_stripe(stripe);
        let at = self.member_at(&span);
        let mut parity = write.partial.map_or_else(|| vec![0; index(len)], <[u8]>::to_vec);
        let mut data = vec![0; index(len)];
        for d in first..first + count {
            let job = ReadJob { role: layout.data_role(d), at, buf: &mut data };
            if !self.fetch(&mut [job]).is_empty() {
                return Ok(false);
            }
            add(&mut parity, &data);
        }
        self.store(&[WriteJob { role: layout.p, at, buf: &parity }])?;
        Ok(true)
    }

    /// Returns where byte `offset` of the array lies: the byte on every member of its stripe, and
    /// the number of its data chunk.
    pub(crate) fn stripe_position(&self, offset: u64) -> (u64, usize) {
        let (chunk, stripe_bytes) = (self.geometry.chunk_bytes().0, self.stripe_bytes());
        (offset / stripe_bytes * chunk + offset % chunk, index(offset % stripe_bytes / chunk))
    }

    /// Writes data chunks, by number, and parity of one stripe as a journal has them, `at` bytes
    /// from the start of the members' data.
    pub(crate) fn replay_stripe(
        &self,
        at: u64,
        data: &[(usize, &[u8])],
        parity: &[&[u8]],
    ) -> Result<()> {
        let chunk = self.geometry.chunk_bytes().0;
        let span = self.span(at / chunk, at % chunk..at % chunk + 1);
        let layout = span.layout;
        let _alone = self.lock_stripe(span.stripe);
        let data = data.iter().filter(|(d, _)| *d < layout.data_disks());
        let mut jobs: Vec<WriteJob<'_>> =
            data.map(|(d, buf)| WriteJob { role: layout.data_role(*d), at, buf }).collect();
        let roles = [Some(layout.p), layout.q].into_iter().flatten();
        jobs.extend(roles.zip(parity).map(|(role, buf)| WriteJob { role, at, buf }));
        self.store(&jobs)
    }
}
