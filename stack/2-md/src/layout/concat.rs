//! Linear and RAID0: arrays without redundancy, whose members may differ in size.

use xfskit_units::{ByteLen, ByteOffset, MemberByte, Sectors};

use crate::layout::Raid0Layout;

/// A part of the array that is striped over the same members.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// Where it starts in the array.
    start: ByteOffset,
    /// Where it starts on each of its members.
    member_start: MemberByte,
    /// Its members' roles, in order.
    roles: Vec<usize>,
}

/// The chunk of a linear array: all of a zone.
const ONE_CHUNK: ByteLen = ByteLen(u64::MAX);

/// The zones of an array, in order.
#[derive(Clone, Debug)]
pub struct Concat {
    zones: Vec<Zone>,
    /// The chunk; [`ONE_CHUNK`] if each zone is one member.
    chunk: ByteLen,
    /// Chunks are counted from the start of the array, not of the zone.
    absolute: bool,
}

/// A piece of the array on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberExtent {
    /// The member.
    pub role: usize,
    /// Where on that member.
    pub at: MemberByte,
    /// How far the bytes from there on are contiguous in the array, too.
    pub len: ByteLen,
}

impl Concat {
    /// Returns the map of a linear array with members of these sizes.
    pub fn linear(members: &[Sectors]) -> Self {
        let mut start = ByteOffset(0);
        let mut zones = Vec::with_capacity(members.len());
        for (role, size) in members.iter().enumerate() {
            zones.push(Zone { start, member_start: MemberByte(0), roles: vec![role] });
            start = start.plus(size.byte_len());
        }
        Self { zones, chunk: ONE_CHUNK, absolute: false }
    }

    /// Returns the map of a RAID0 with members of these sizes, each a multiple of `chunk`, which is
    /// not 0.
    pub fn raid0(layout: Raid0Layout, members: &[Sectors], chunk: Sectors) -> Self {
        let end_of = |size: &Sectors| MemberByte(size.byte_len().0);
        let mut ends: Vec<MemberByte> = members.iter().map(end_of).collect();
        ends.sort_unstable();
        ends.dedup();
        let (mut start, mut member_start) = (ByteOffset(0), MemberByte(0));
        let mut zones = Vec::with_capacity(ends.len());
        for end in ends {
            let reaches = |(_, size): &(usize, &Sectors)| end_of(size) >= end;
            let roles: Vec<usize> =
                members.iter().enumerate().filter(reaches).map(|(role, _)| role).collect();
            let bytes = end.distance_from(member_start).times(roles.len() as u64);
            zones.push(Zone { start, member_start, roles });
            start = start.plus(bytes);
            member_start = end;
        }
        Self { zones, chunk: chunk.byte_len(), absolute: layout == Raid0Layout::Original }
    }

    /// Returns where byte `at` of the array lies, which must be within the array.
    pub fn locate(&self, at: ByteOffset) -> MemberExtent {
        let next = self.zones.partition_point(|zone| zone.start <= at);
        let zone = &self.zones[next - 1];
        let zone_end = self.zones.get(next).map_or(ByteOffset::MAX, |zone| zone.start);
        let from_start = ByteOffset(at.distance_from(zone.start).0);
        let members = zone.roles.len() as u64;
        let (turn, within) = (from_start.whole(self.chunk), from_start.within(self.chunk));
        let counted = if self.absolute { at.whole(self.chunk) } else { turn };
        #[allow(clippy::cast_possible_truncation)] // a role: less than 2^11
        let role = zone.roles[(counted % members) as usize];
        let stripes = self.chunk.saturating_times(turn / members);
        MemberExtent {
            role,
            at: zone.member_start.plus(stripes).plus(within),
            len: self.chunk.minus(within).min(zone_end.distance_from(at)),
        }
    }

    /// Returns the byte of the array that lies at `at` of member `role`, and how far the bytes from
    /// there on are contiguous in the array, too. Returns `None` if the member has no data there.
    pub fn array_offset(&self, role: usize, at: MemberByte) -> Option<(ByteOffset, ByteLen)> {
        let reaches = |zone: &&Zone| zone.member_start <= at && zone.roles.contains(&role);
        let zone = self.zones.iter().rev().find(reaches)?;
        let position = zone.roles.iter().position(|other| *other == role)? as u64;
        let members = zone.roles.len() as u64;
        let from_start = MemberByte(at.distance_from(zone.member_start).0);
        let (stripe, within) = (from_start.whole(self.chunk), from_start.within(self.chunk));
        // Chunks counted from the start of the array need not begin with the zone's first member.
        let first = if self.absolute { zone.start.whole(self.chunk) % members } else { 0 };
        let turn = stripe * members + (position + members - first) % members;
        let ahead = self.chunk.saturating_times(turn).saturating_plus(within);
        let content = zone.start.plus(ahead);
        let extent = self.locate(content);
        (extent.role == role && extent.at == at).then_some((content, extent.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_array_goes_from_member_to_member() {
        let map = Concat::linear(&[Sectors(10), Sectors(7), Sectors(5)]);
        let extent = |role, at, len| MemberExtent { role, at: MemberByte(at), len: ByteLen(len) };
        assert_eq!(map.locate(ByteOffset(5119)), extent(0, 5119, 1));
        assert_eq!(map.locate(ByteOffset(5120)), extent(1, 0, 7 * 512));
        assert_eq!(map.locate(ByteOffset(17 * 512 + 8)).role, 2);
        let found = map.array_offset(1, MemberByte(512));
        assert_eq!(found, Some((ByteOffset(11 * 512), ByteLen(6 * 512))));
    }

    #[test]
    fn array_offset_is_the_inverse_of_locate() {
        let sizes = [Sectors(8), Sectors(24), Sectors(40)];
        for layout in [Raid0Layout::Original, Raid0Layout::Alternate] {
            let map = Concat::raid0(layout, &sizes, Sectors(8));
            for byte in (0..9 * 4096).step_by(512).map(ByteOffset) {
                let MemberExtent { role, at, len } = map.locate(byte);
                let left = ByteOffset(9 * 4096).distance_from(byte);
                let len = len.min(left);
                let found = map.array_offset(role, at).map(|(at, n)| (at, n.min(left)));
                assert_eq!(found, Some((byte, len)), "{layout:?}");
            }
        }
    }

    #[test]
    fn the_two_layouts_differ_only_behind_a_zone_that_ends_within_a_turn() {
        let sizes = [Sectors(8), Sectors(24), Sectors(24)];
        let map = |layout| {
            let zones = Concat::raid0(layout, &sizes, Sectors(8));
            let at = |chunk: u64| zones.locate(ByteOffset(chunk * 4096));
            (0..7).map(at).map(|found| (found.role, found.at.whole(ByteLen(4096)))).collect()
        };
        let original: Vec<_> = map(Raid0Layout::Original);
        let alternate: Vec<_> = map(Raid0Layout::Alternate);
        assert_eq!(alternate, [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]);
        assert_eq!(original, [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (2, 2), (1, 2)]);
    }
}
