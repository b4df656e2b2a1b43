//! The stripe layout of a device, for filesystems that align their structures to it.
//!
//! Linux reports it as `minimum_io_size`, `optimal_io_size` and `alignment_offset` of a queue.
//! Stacked devices combine the layouts of their members as Linux does.

use xfskit_units::ByteLen;

/// The stripe layout of a device. All zero if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Contiguous bytes on one member.
    pub stripe_unit: ByteLen,
    /// Data bytes of one stripe over all members.
    pub stripe_width: ByteLen,
    /// Offset in bytes of the first stripe unit that begins on the device: 0 if it is aligned.
    pub alignment_offset: ByteLen,
}

impl Topology {
    /// Returns true if the device has stripes.
    pub fn is_striped(&self) -> bool {
        self.stripe_unit.0 > 0 && self.stripe_width.0 > 0
    }

    /// Returns the layout of the part of the device that begins at byte `start`.
    #[must_use]
    pub fn for_part(self, start: u64) -> Self {
        let Some(within) = start.checked_rem(self.stripe_unit.0) else { return self };
        let offset = self.alignment_offset.0 % self.stripe_unit.0 + self.stripe_unit.0 - within;
        Self { alignment_offset: ByteLen(offset % self.stripe_unit.0), ..self }
    }

    /// Returns the layout of a device of which the part from byte `start` on has this layout.
    #[must_use]
    pub fn for_whole(self, start: u64) -> Self {
        let within = start.checked_rem(self.stripe_unit.0).unwrap_or(0);
        self.for_part(self.stripe_unit.0 - within)
    }

    /// Returns the layout of a device with this layout whose members have the layout `member`: the
    /// longer unit, and a width of whole stripes of both.
    #[must_use]
    pub fn stacked_on(self, member: Self) -> Self {
        Self {
            stripe_unit: self.stripe_unit.max(member.stripe_unit),
            stripe_width: common_multiple(self.stripe_width, member.stripe_width),
            alignment_offset: self.alignment_offset.max(member.alignment_offset),
        }
    }
}

/// Returns the least common multiple. If one number is 0, returns the other; if the multiple is too
/// large, the larger number.
fn common_multiple(a: ByteLen, b: ByteLen) -> ByteLen {
    let (mut x, mut y) = (a.0, b.0);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let multiple = a.0.checked_div(x).and_then(|parts| parts.checked_mul(b.0));
    multiple.filter(|multiple| *multiple != 0).map_or(a.max(b), ByteLen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn stripes(unit: u64, width: u64) -> Topology {
        let [stripe_unit, stripe_width] = [unit, width].map(|kib| ByteLen(kib * KIB));
        Topology { stripe_unit, stripe_width, ..Topology::default() }
    }

    #[test]
    fn a_part_is_aligned_as_linux_reports_it() {
        // The value of /sys/block/md0/md0p1/alignment_offset for a partition at this sector.
        for (sector, offset) in
            [(2048, 0), (63, 33_280), (64, 32_768), (128, 0), (1000, 12_288), (8, 61_440)]
        {
            let part = stripes(64, 192).for_part(sector * 512);
            assert_eq!(part.alignment_offset, ByteLen(offset), "sector {sector}");
        }
        assert_eq!(stripes(12, 36).for_part(1 << 20).alignment_offset, ByteLen(8192));
        // A part of a part may be aligned again.
        let part = stripes(64, 192).for_part(63 * 512).for_part(65 * 512);
        assert_eq!(part, stripes(64, 192));
        assert_eq!(Topology::default().for_part(63 * 512), Topology::default());
    }

    #[test]
    fn arrays_of_arrays_have_the_stripes_that_linux_gives_them() {
        for (own, member, both) in [
            (stripes(64, 128), stripes(64, 128), stripes(64, 128)),
            (stripes(512, 1024), stripes(64, 128), stripes(512, 1024)),
            (stripes(64, 128), stripes(512, 1024), stripes(512, 1024)),
            (stripes(0, 0), stripes(64, 192), stripes(64, 192)),
            (stripes(64, 128), stripes(12, 36), stripes(64, 1152)),
            (stripes(64, 128), stripes(0, 0), stripes(64, 128)),
        ] {
            assert_eq!(own.stacked_on(member), both);
        }
    }
}
