//! Linear and RAID0: arrays without redundancy, whose members may differ in size.

use xfskit_units::Sectors;

use crate::layout::Raid0Layout;

/// A part of the array that is striped over the same members.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// Where it starts in the array, in bytes.
    start: u64,
    /// Where it starts on each of its members, in bytes from the data offset.
    member_start: u64,
    /// Its members' roles, in order.
    roles: Vec<usize>,
}

/// The zones of an array, in order.
#[derive(Clone, Debug)]
pub struct Concat {
    zones: Vec<Zone>,
    /// Bytes per chunk; `u64::MAX` if each zone is one member.
    chunk: u64,
    /// Chunks are counted from the start of the array, not of the zone.
    absolute: bool,
}

/// A piece of the array on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberExtent {
    /// The member.
    pub role: usize,
    /// Where on that member, in bytes from its data offset.
    pub at: u64,
    /// How many bytes from there on are contiguous in the array, too.
    pub len: u64,
}

impl Concat {
    /// Returns the map of a linear array with members of these sizes.
    pub fn linear(members: &[Sectors]) -> Self {
        let mut start = 0;
        let mut zones = Vec::with_capacity(members.len());
        for (role, size) in members.iter().enumerate() {
            zones.push(Zone { start, member_start: 0, roles: vec![role] });
            start += size.byte_len().0;
        }
        Self { zones, chunk: u64::MAX, absolute: false }
    }

    /// Returns the map of a RAID0 with members of these sizes, each a multiple of `chunk`, which is
    /// not 0.
    pub fn raid0(layout: Raid0Layout, members: &[Sectors], chunk: Sectors) -> Self {
        let mut ends: Vec<u64> = members.iter().map(|size| size.byte_len().0).collect();
        ends.sort_unstable();
        ends.dedup();
        let (mut start, mut member_start) = (0, 0);
        let mut zones = Vec::with_capacity(ends.len());
        for end in ends {
            let reaches = |(_, size): &(usize, &Sectors)| size.byte_len().0 >= end;
            let roles: Vec<usize> =
                members.iter().enumerate().filter(reaches).map(|(role, _)| role).collect();
            let bytes = (end - member_start) * roles.len() as u64;
            zones.push(Zone { start, member_start, roles });
            start += bytes;
            member_start = end;
        }
        Self { zones, chunk: chunk.byte_len().0, absolute: layout == Raid0Layout::Original }
    }

    /// Returns where byte `at` of the array lies, which must be within the array.
    pub fn locate(&self, at: u64) -> MemberExtent {
        let next = self.zones.partition_point(|zone| zone.start <= at);
        let zone = &self.zones[next - 1];
        let zone_end = self.zones.get(next).map_or(u64::MAX, |zone| zone.start);
        let x = at - zone.start;
        let members = zone.roles.len() as u64;
        let (turn, within) = (x / self.chunk, x % self.chunk);
        let counted = if self.absolute { at / self.chunk } else { turn };
        #[allow(clippy::cast_possible_truncation)] // a role: less than 2^11
        let role = zone.roles[(counted % members) as usize];
        let stripe = (turn / members).saturating_mul(self.chunk);
        MemberExtent {
            role,
            at: zone.member_start + stripe + within,
            len: (self.chunk - within).min(zone_end - at),
        }
    }

    /// Returns the byte of the array at `at` of member `role`, in bytes from its data offset, and
    /// how many bytes from there on are contiguous in the array, too. Returns `None` if the member
    /// has no data there.
    pub fn array_offset(&self, role: usize, at: u64) -> Option<(u64, u64)> {
        let reaches = |zone: &&Zone| zone.member_start <= at && zone.roles.contains(&role);
        let zone = self.zones.iter().rev().find(reaches)?;
        let position = zone.roles.iter().position(|other| *other == role)? as u64;
        let members = zone.roles.len() as u64;
        let x = at - zone.member_start;
        let (stripe, within) = (x / self.chunk, x % self.chunk);
        // Chunks counted from the start of the array need not begin with the zone's first member.
        let first = if self.absolute { zone.start / self.chunk % members } else { 0 };
        let turn = stripe * members + (position + members - first) % members;
        let content = zone.start + turn.saturating_mul(self.chunk).saturating_add(within);
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
        assert_eq!(map.locate(5119), MemberExtent { role: 0, at: 5119, len: 1 });
        assert_eq!(map.locate(5120), MemberExtent { role: 1, at: 0, len: 7 * 512 });
        assert_eq!(map.locate(17 * 512 + 8).role, 2);
        assert_eq!(map.array_offset(1, 512), Some((11 * 512, 6 * 512)));
    }

    #[test]
    fn array_offset_is_the_inverse_of_locate() {
        let sizes = [Sectors(8), Sectors(24), Sectors(40)];
        for layout in [Raid0Layout::Original, Raid0Layout::Alternate] {
            let map = Concat::raid0(layout, &sizes, Sectors(8));
            for byte in (0..9 * 4096).step_by(512) {
                let MemberExtent { role, at, len } = map.locate(byte);
                let len = len.min(9 * 4096 - byte);
                let found = map.array_offset(role, at).map(|(at, n)| (at, n.min(9 * 4096 - byte)));
                assert_eq!(found, Some((byte, len)), "{layout:?}");
            }
        }
    }

    #[test]
    fn the_two_layouts_differ_only_behind_a_zone_that_ends_within_a_turn() {
        let sizes = [Sectors(8), Sectors(24), Sectors(24)];
        let map = |layout| {
            let zones = Concat::raid0(layout, &sizes, Sectors(8));
            (0..7u64).map(|c| zones.locate(c * 4096)).map(|p| (p.role, p.at / 4096)).collect()
        };
        let original: Vec<_> = map(Raid0Layout::Original);
        let alternate: Vec<_> = map(Raid0Layout::Alternate);
        assert_eq!(alternate, [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]);
        assert_eq!(original, [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (2, 2), (1, 2)]);
    }
}
