//! Replaying a log's entries onto the members.

use xfskit_block::Result;
use xfskit_units::{ByteLen, ByteOffset, MemberByte, index};

use super::Array;
use super::io::{ReadJob, WriteJob};
use super::write::add;

/// A write that a partial parity log recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PplWrite<'a> {
    /// Where it began in the array.
    pub(crate) at: ByteOffset,
    /// Its length, summed over all data chunks.
    pub(crate) len: ByteLen,
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
        if write.at >= self.end() {
            return Ok(false);
        }
        let (stripe, start) = self.stripe_at(write.at);
        let (first, column) = self.chunk_at(start);
        let each = ByteLen(write.len.0 / u64::from(self.geometry.data_disks()));
        let len = write.partial.map_or(each, ByteLen::of);
        let count = if len.is_zero() { 0 } else { index(write.len.whole(len)) };
        let span = self.span(stripe, column..column.saturating_plus(len));
        let layout = span.layout;
        let fits = span.columns.end <= self.chunk_end()
            && first.saturating_add(count) <= layout.data_disks();
        if count == 0 || !fits || write.parity != layout.p {
            return Ok(false);
        }
        let _alone = self.lock_stripe(stripe);
        let at = self.member_at(&span);
        let mut parity = write.partial.map_or_else(|| vec![0; len.index()], <[u8]>::to_vec);
        let mut data = vec![0; len.index()];
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
    pub(crate) fn stripe_position(&self, offset: ByteOffset) -> (MemberByte, usize) {
        let (stripe, start) = self.stripe_at(offset);
        let (d, column) = self.chunk_at(start);
        (self.member_byte(stripe, column), d)
    }

    /// Writes data chunks, by number, and parity of one stripe as a journal has them, from byte
    /// `at` of every member on.
    pub(crate) fn replay_stripe(
        &self,
        at: MemberByte,
        data: &[(usize, &[u8])],
        parity: &[&[u8]],
    ) -> Result<()> {
        let span = self.span_at(at, ByteLen(1));
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
