//! Where a device's stripes lie, for filesystems that align their structures to them.
//!
//! Linux tells the same of a queue by `minimum_io_size`, `optimal_io_size` and `alignment_offset`, and devices
//! that are made of others combine what those say in the same way.

use xfskit_units::ByteLen;

/// The stripes of a device. All zero where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// What lies on one member in a row, in bytes.
    pub stripe_unit: ByteLen,
    /// The data of one stripe over all members, in bytes.
    pub stripe_width: ByteLen,
    /// The first stripe unit that begins on the device, in bytes from its start: 0 on one that is aligned.
    pub alignment_offset: ByteLen,
}

impl Topology {
    /// True where the device has stripes.
    pub fn is_striped(&self) -> bool {
        self.stripe_unit.0 > 0 && self.stripe_width.0 > 0
    }

    /// The stripes as they lie on a part of the device from byte `start` on.
    #[must_use]
    pub fn from(self, start: u64) -> Self {
        let Some(within) = start.checked_rem(self.stripe_unit.0) else { return self };
        let offset = self.alignment_offset.0 % self.stripe_unit.0 + self.stripe_unit.0 - within;
        Self { alignment_offset: ByteLen(offset % self.stripe_unit.0), ..self }
    }

    /// The stripes as they lie on a device that has these from its byte `start` on.
    #[must_use]
    pub fn back(self, start: u64) -> Self {
        let within = start.checked_rem(self.stripe_unit.0).unwrap_or(0);
        self.from(self.stripe_unit.0 - within)
    }

    /// The stripes of a device with these of its own, made of a member with those of `member`: the longer
    /// unit, and a width that is whole stripes of both.
    #[must_use]
    pub fn over(self, member: Self) -> Self {
        Self {
            stripe_unit: self.stripe_unit.max(member.stripe_unit),
            stripe_width: common_multiple(self.stripe_width, member.stripe_width),
            alignment_offset: self.alignment_offset.max(member.alignment_offset),
        }
    }
}

/// The least common multiple; of one that is 0, the other, and where it is too large, the larger.
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
    fn a_part_is_aligned_where_linux_says_so() {
        // What /sys/block/md0/md0p1/alignment_offset says of a partition at this sector.
        for (sector, offset) in
            [(2048, 0), (63, 33_280), (64, 32_768), (128, 0), (1000, 12_288), (8, 61_440)]
        {
            let part = stripes(64, 192).from(sector * 512);
            assert_eq!(part.alignment_offset, ByteLen(offset), "sector {sector}");
        }
        assert_eq!(stripes(12, 36).from(1 << 20).alignment_offset, ByteLen(8192));
        // A part of a part: what was lost may be found again.
        let part = stripes(64, 192).from(63 * 512).from(65 * 512);
        assert_eq!(part, stripes(64, 192));
        assert_eq!(Topology::default().from(63 * 512), Topology::default());
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
            assert_eq!(own.over(member), both);
        }
    }
}
