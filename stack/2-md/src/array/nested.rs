//! Arrays of arrays.
//!
//! A member that is itself an array has alternatives of its own for a range
//! (`BlockDevice::alternatives`), because one of *its* members may be wrong. They follow the outer
//! array's own alternatives.
//!
//! A member's wrong data are repaired through the alternative that delivers the right data, so that
//! its members agree afterwards. An ordinary write would keep their disagreement: it changes parity
//! by the difference to the old data.
//!
//! In the other direction, [`Array::array_ranges`] tells which data of the outer array a mismatch
//! inside a member concerns.

use std::ops::Range;

use xfskit_block::{BlockDevice, Error, Result};
use xfskit_units::{ByteLen, ByteOffset, Column, MemberByte, PositionRange};

use super::io::WriteJob;
use super::member::Member;
use super::mirror::Copy;
use super::scrub::{MemberPage, Mismatch};
use super::stripes::Span;
use super::{Array, Map};

/// A copy of a piece, and the alternative by which its member is read.
pub(super) type CopyAlternative = (Copy, usize);

impl Array {
    /// Returns the number of alternatives that a member has for a range; 0 if the member is
    /// missing.
    pub(super) fn member_alternatives(&self, role: usize, at: MemberByte, len: ByteLen) -> usize {
        let member = &self.members[role];
        member.device().map_or(0, |device| device.alternatives(member.position(at), len))
    }

    /// Reads a member by its alternative `k`.
    ///
    /// # Errors
    /// Returns an error if the member is missing, has no such alternative, or fails.
    pub(super) fn read_member_alternative(
        &self,
        role: usize,
        at: MemberByte,
        buf: &mut [u8],
        k: usize,
    ) -> Result<()> {
        let member = &self.members[role];
        let device = member.device().ok_or(Error::NoAlternative(k))?;
        self.counters.count_read(ByteLen::of(buf));
        device.read_alternative(member.position(at), buf, k)
    }

    /// Passes healing down to a member: `good` is what its alternative `k` returned.
    pub(super) fn heal_member(
        &self,
        role: usize,
        at: MemberByte,
        good: &[u8],
        k: usize,
    ) -> Result<bool> {
        let member = &self.members[role];
        member.device().map_or(Ok(false), |device| device.heal(member.position(at), good, k))
    }

    /// Returns the alternatives for a piece of a mirror: each copy, then the other alternatives of
    /// copies that are arrays.
    pub(super) fn copy_alternatives(
        &self,
        offset: ByteOffset,
        len: ByteLen,
    ) -> Vec<CopyAlternative> {
        let copies = self.copies_in_order(offset, len);
        let others = copies.iter().flat_map(|copy| {
            (1..self.member_alternatives(copy.role, copy.at, len)).map(|inner| (*copy, inner))
        });
        copies.iter().map(|copy| (*copy, 0)).chain(others).collect()
    }

    /// Gives a member the right data. A member that is an array is healed through the alternative
    /// that already has them.
    ///
    /// # Errors
    /// See [`store`](Self::store).
    pub(super) fn repair_member(&self, job: &WriteJob<'_>) -> Result<()> {
        let WriteJob { role, at, buf } = *job;
        let mut found = vec![0; buf.len()];
        for k in 1..self.member_alternatives(role, at, ByteLen::of(buf)) {
            let matches =
                self.read_member_alternative(role, at, &mut found, k).is_ok() && found == buf;
            if matches && self.heal_member(role, at, buf, k)? && self.holds(role, at, buf) {
                return Ok(());
            }
        }
        self.store(&[WriteJob { role, at, buf }])
    }

    /// Finds, among members that disagree, the only one that would agree by another of its own
    /// alternatives, and returns what it should hold. `given` has a page of each. `agrees` tells
    /// whether all would agree if the member with this index held these data.
    pub(super) fn located_by_nested_members(
        &self,
        given: &[MemberPage<'_>],
        agrees: impl Fn(usize, &[u8]) -> bool,
    ) -> Option<(usize, Vec<u8>)> {
        let mut named: Option<(usize, Vec<u8>)> = None;
        for (i, (role, at, held)) in given.iter().enumerate() {
            let mut content = vec![0; held.len()];
            for k in 1..self.member_alternatives(*role, *at, ByteLen::of(held)) {
                let read = self.read_member_alternative(*role, *at, &mut content, k);
                if read.is_err() || content == *held || !agrees(i, &content) {
                    continue;
                }
                match &named {
                    Some((other, right)) if other != role || *right != content => return None,
                    _ => named = Some((*role, content.clone())),
                }
            }
        }
        named
    }

    /// Returns the name of the member that serves a role; `None` if there is no such role.
    pub fn member_name(&self, role: usize) -> Option<&str> {
        self.members.get(role).map(Member::name)
    }

    /// Returns the role that the member of this name serves.
    pub fn role_of(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name() == name)
    }

    /// Returns the ranges of the array that lie in a range of this role's device, in bytes from the
    /// start of the device. Parity and space beyond the array's end give no range. Returns `None`
    /// if the range is not all in the data area.
    pub fn array_ranges(
        &self,
        role: usize,
        range: &Range<ByteOffset>,
    ) -> Option<Vec<Range<ByteOffset>>> {
        let data = self.data_area_range(role, range)?;
        let mut found = Vec::new();
        let mut at = data.start;
        while at < data.end {
            let (content, len) = self.array_offset_at(role, at);
            let len = len.min(data.end.distance_from(at));
            // A RAID0 whose chunk is not a power of two leaves the last bytes of its members
            // unused.
            let part = content.map(|start| start..start.plus(len).min(self.end()));
            found.extend(part.filter(|part| part.start < part.end));
            at = at.plus(len);
        }
        Some(found)
    }

    /// Converts a range of a role's device to one of its data area.
    fn data_area_range(&self, role: usize, range: &Range<ByteOffset>) -> Option<Range<MemberByte>> {
        let start = self.members.get(role)?.position(MemberByte(0));
        let data = MemberByte(range.start.since(start)?)..MemberByte(range.end.since(start)?);
        (data.end.0 <= self.geometry.member_size(role).byte_len().0).then_some(data)
    }

    /// Returns which byte of the array a byte of a member is, and how far this continues. The first
    /// value is `None` for parity and unused space.
    fn array_offset_at(&self, role: usize, at: MemberByte) -> (Option<ByteOffset>, ByteLen) {
        const ALL: ByteLen = ByteLen(u64::MAX);
        let chunk = self.geometry.chunk_bytes();
        match &self.map {
            Map::Concat(map) => {
                map.array_offset(role, at).map_or((None, ALL), |(start, len)| (Some(start), len))
            }
            Map::Raid1 => (Some(ByteOffset(at.0)), ALL),
            Map::Raid10(map) => {
                let within = at.within(chunk);
                let found = map.chunk_at(role, at.whole(chunk));
                let content = found.map(|found| ByteOffset(chunk.times(found).plus(within).0));
                (content, chunk.minus(within))
            }
            Map::Parity => {
                let column = Column(at.within(chunk).0);
                let Span { layout, stripe, .. } = self.span(at.whole(chunk), self.whole_chunk());
                let d = (0..layout.data_disks()).find(|d| layout.data_role(*d) == role);
                let content = d.map(|d| self.array_byte(stripe, d, column));
                (content, self.chunk_end().distance_from(column))
            }
        }
    }

    /// Returns true if a mismatching page overlaps this range of a role's device.
    pub fn mismatch_overlaps(
        &self,
        mismatch: &Mismatch,
        role: usize,
        range: &Range<ByteOffset>,
    ) -> bool {
        let Some(data) = self.data_area_range(role, range) else { return false };
        if matches!(self.map, Map::Parity) {
            return mismatch.bytes().overlaps(&data);
        }
        let page_ranges = self.mismatch_ranges(mismatch);
        let member_ranges = self.array_ranges(role, range).unwrap_or_default();
        member_ranges.iter().any(|a| page_ranges.iter().any(|b| a.overlaps(b)))
    }
}
