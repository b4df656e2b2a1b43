//! RAID1 and RAID10: where the copies of a chunk lie.

use crate::layout::Raid10Layout;

/// One copy of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The member that has it.
    pub role: usize,
    /// Where on that member, in chunks from its data offset.
    pub chunk: u64,
}

/// The arrangement of chunks on a RAID10.
#[derive(Clone, Copy, Debug)]
pub struct Raid10 {
    layout: Raid10Layout,
    disks: u64,
    /// Chunks of the array.
    chunks: u64,
    /// Chunks from one far copy to the next.
    stride: u64,
}

impl Raid10 {
    /// Returns the map of an array of `array_chunks` chunks on `disks` members.
    pub fn new(layout: Raid10Layout, disks: u32, array_chunks: u64) -> Self {
        let disks = u64::from(disks);
        let copies = u64::from(layout.copies());
        let used = array_chunks.saturating_mul(copies).div_ceil(disks);
        let stride = if layout.offset() { 1 } else { used / u64::from(layout.far()) };
        Self { layout, disks, chunks: array_chunks, stride }
    }

    /// Returns the copies of array chunk `chunk`, in order.
    pub fn copies(&self, chunk: u64) -> impl Iterator<Item = Copy> + use<> {
        let this = *self;
        let (near, far) = (u64::from(this.layout.near()), u64::from(this.layout.far()));
        let first = chunk * near;
        let stripe_step = if this.layout.offset() { far } else { 1 };
        (0..near).flat_map(move |j| {
            let dev = first % this.disks + j;
            let stripe = (first / this.disks + dev / this.disks) * stripe_step;
            let dev = dev % this.disks;
            (0..far).map(move |f| Copy {
                #[allow(clippy::cast_possible_truncation)] // a role: less than 2^11
                role: this.far_role(dev, f * near) as usize,
                chunk: stripe + f * this.stride,
            })
        })
    }

    /// Returns the array chunk of which `role` has a copy at member chunk `chunk`; `None` if it has
    /// none.
    pub fn chunk_at(&self, role: usize, chunk: u64) -> Option<u64> {
        let (near, far) = (u64::from(self.layout.near()), u64::from(self.layout.far()));
        let (stripe, copy) = if self.layout.offset() {
            (chunk / far, chunk % far)
        } else {
            (chunk.checked_rem(self.stride)?, chunk.checked_div(self.stride)?)
        };
        // The role with this far copy is `copy` steps behind the role with the first one.
        let dev = (0..self.disks).find(|dev| self.far_role(*dev, copy * near) == role as u64)?;
        let found = (stripe * self.disks + dev) / near;
        let has = |place: Copy| place.role == role && place.chunk == chunk;
        (found < self.chunks && self.copies(found).any(has)).then_some(found)
    }

    /// Returns the role `step` members behind `dev`, wrapping within its far set.
    fn far_role(&self, dev: u64, step: u64) -> u64 {
        let size = match self.layout.far_sets() {
            0 => self.disks,
            1 => self.disks / u64::from(self.layout.far()),
            _ => u64::from(self.layout.copies()),
        };
        let sets = (self.disks / size.max(1)).max(1);
        let set = (dev / size.max(1)).min(sets - 1);
        let start = set * size;
        // The members left over at the end belong to the last set.
        let size = if set == sets - 1 { self.disks - start } else { size };
        start + (dev - start + step) % size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(name: &str, disks: u32, chunks: u64, chunk: u64) -> Vec<(usize, u64)> {
        let map = Raid10::new(Raid10Layout::from_name(name).unwrap(), disks, chunks);
        map.copies(chunk).map(|copy| (copy.role, copy.chunk)).collect()
    }

    /// Returns the chunks of an array whose members have twelve chunks each.
    fn chunks_of(layout: Raid10Layout, disks: u32) -> u64 {
        12 / u64::from(layout.far()) * u64::from(disks) / u64::from(layout.near())
    }

    #[test]
    fn near_copies_are_side_by_side_and_wrap_into_the_next_stripe() {
        assert_eq!(copies("n2", 4, 64, 3), [(2, 1), (3, 1)]);
        assert_eq!(copies("n2", 3, 48, 1), [(2, 0), (0, 1)]);
        assert_eq!(copies("n3", 4, 85, 1), [(3, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn far_copies_are_one_member_further_in_the_other_half() {
        assert_eq!(copies("f2", 3, 48, 4), [(1, 1), (2, 17)]);
        assert_eq!(copies("f2", 4, 64, 3), [(3, 0), (0, 16)]);
    }

    #[test]
    fn offset_copies_are_one_member_further_in_the_next_stripe() {
        assert_eq!(copies("o2", 3, 48, 4), [(1, 2), (2, 3)]);
    }

    #[test]
    fn no_two_copies_share_a_member_chunk() {
        for (name, disks) in
            [("n2", 5), ("n3", 4), ("f2", 5), ("f3", 4), ("o2", 3), ("n2,f2", 5), ("n2,o2", 5)]
        {
            let layout = Raid10Layout::from_name(name).unwrap();
            let chunks = chunks_of(layout, disks);
            let mut seen = std::collections::HashSet::new();
            for chunk in 0..chunks {
                let copies = copies(name, disks, chunks, chunk);
                let roles: std::collections::HashSet<_> = copies.iter().map(|c| c.0).collect();
                assert_eq!(roles.len(), copies.len(), "{name} on {disks}: {copies:?}");
                for copy in copies {
                    assert!(copy.1 < 12 && seen.insert(copy), "{name} on {disks}: {copy:?}");
                    let map = Raid10::new(layout, disks, chunks_of(layout, disks));
                    assert_eq!(map.chunk_at(copy.0, copy.1), Some(chunk), "{name} on {disks}");
                }
            }
        }
    }
}
