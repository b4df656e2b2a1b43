//! Linear and RAID0: each byte lies on exactly one member.

use xfskit_block::{Error, Result};
use xfskit_units::{ByteLen, ByteOffset};

use super::Array;
use super::io::{ReadJob, WriteJob, io_error};
use crate::layout::concat::{Concat, MemberExtent};

impl Array {
    pub(super) fn read_concat(
        &self,
        map: &Concat,
        offset: ByteOffset,
        buf: &mut [u8],
    ) -> Result<()> {
        let mut jobs = Vec::new();
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let extent = map.locate(at);
            let len = extent.len.min(ByteLen::of(rest));
            let (piece, behind) = rest.split_at_mut(len.index());
            jobs.push(ReadJob { role: extent.role, at: extent.at, buf: piece });
            (at, rest) = (at.plus(len), behind);
        }
        self.prefetch(&jobs);
        match self.fetch(&mut jobs).first() {
            None => Ok(()),
            Some(&i) => {
                // Reads once more to obtain the member's own error.
                let ReadJob { role, at, buf } = &mut jobs[i];
                let member = &self.members[*role];
                let why =
                    format!("member {} (role {role}) cannot be read at this offset", member.name());
                member.read(*at, buf).unwrap_or(Ok(()))?;
                if member.is_readable(*at, ByteLen::of(buf)) {
                    return Ok(());
                }
                Err(io_error("read", offset, ByteLen::of(buf), why))
            }
        }
    }

    pub(super) fn write_concat(&self, map: &Concat, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        let mut jobs = Vec::new();
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let extent = map.locate(at);
            let len = extent.len.min(ByteLen::of(rest));
            let (piece, behind) = rest.split_at(len.index());
            jobs.push(WriteJob { role: extent.role, at: extent.at, buf: piece });
            (at, rest) = (at.plus(len), behind);
        }
        self.store(&jobs)
    }

    /// Returns the parts of a range, each on one member.
    fn parts(
        map: &Concat,
        offset: ByteOffset,
        len: ByteLen,
    ) -> impl Iterator<Item = MemberExtent> + use<'_> {
        let (mut at, end) = (offset, offset.saturating_plus(len));
        std::iter::from_fn(move || {
            let extent = (at < end).then(|| map.locate(at))?;
            let len = extent.len.min(end.distance_from(at));
            at = at.plus(len);
            Some(MemberExtent { len, ..extent })
        })
    }

    /// Returns the largest number of alternatives of any part: a member may itself be an array.
    pub(super) fn concat_alternatives(
        &self,
        map: &Concat,
        offset: ByteOffset,
        len: ByteLen,
    ) -> usize {
        let len = len.min(self.end().saturating_distance_from(offset));
        let alternatives =
            |part: MemberExtent| self.member_alternatives(part.role, part.at, part.len);
        Self::parts(map, offset, len).map(alternatives).fold(1, usize::max)
    }

    /// Reads the range by alternative `k`. A part with fewer alternatives is read by its last one.
    pub(super) fn read_concat_alternative(
        &self,
        map: &Concat,
        offset: ByteOffset,
        buf: &mut [u8],
        k: usize,
    ) -> Result<()> {
        if k >= self.concat_alternatives(map, offset, ByteLen::of(buf)) {
            return Err(Error::NoAlternative(k));
        }
        if k == 0 {
            return self.read_concat(map, offset, buf);
        }
        let mut rest = buf;
        Self::parts(map, offset, ByteLen::of(rest)).try_for_each(|part| {
            let (piece, behind) = std::mem::take(&mut rest).split_at_mut(part.len.index());
            rest = behind;
            let last = self.member_alternatives(part.role, part.at, part.len).saturating_sub(1);
            self.read_member_alternative(part.role, part.at, piece, k.min(last))
        })
    }

    /// Passes healing down to members that are arrays. Returns true if any of them rewrote
    /// something.
    pub(super) fn heal_concat(
        &self,
        map: &Concat,
        offset: ByteOffset,
        good: &[u8],
        k: usize,
    ) -> Result<bool> {
        let mut rest = good;
        Self::parts(map, offset, ByteLen::of(good)).try_fold(false, |any, part| {
            let (piece, behind) = rest.split_at(part.len.index());
            rest = behind;
            let last = self.member_alternatives(part.role, part.at, part.len).saturating_sub(1);
            Ok(any | self.heal_member(part.role, part.at, piece, k.min(last))?)
        })
    }
}
