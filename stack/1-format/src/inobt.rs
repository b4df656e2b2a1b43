//! Inode chunks: the records of inobt and finobt.
//!
//! A record stands for 64 inode numbers. With sparse inodes some of them may not exist: bit `i` of
//! the hole mask stands for inodes `4i` to `4i + 3`. The finobt holds an identical copy of each
//! record that has free inodes. Without sparse inodes the middle four bytes are one 32-bit count.

use xfskit_units::{AgIno, Geometry};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Inode numbers of one record.
pub const INODES_PER_CHUNK: u32 = 64;
/// Inodes that one bit of the hole mask stands for.
pub const INODES_PER_HOLEMASK_BIT: u32 = 4;

/// A record, as it is on disk.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Rec {
    /// First inode number of the 64 (agino).
    pub startino: U32,
    /// Sparse: bit `i` set where inodes `4i..4i+4` do not exist. Else the high half of a count.
    pub holemask: U16,
    /// Sparse: inodes that exist.
    pub count: u8,
    /// Inodes that exist and are free.
    pub freecount: u8,
    /// Bit `n` set where inode `startino + n` is free or does not exist.
    pub free: U64,
}
const _: () = assert!(size_of::<Rec>() == 16);

/// A record in the one form that both layouts decode to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// First inode number of the 64.
    pub startino: AgIno,
    /// Bit `i` set where inodes `4i..4i+4` do not exist.
    pub holemask: u16,
    /// Inodes that exist, according to the record.
    pub count: u32,
    /// Inodes that exist and are free, according to the record.
    pub freecount: u32,
    /// Bit `n` set where inode `startino + n` is free or does not exist.
    pub free: u64,
}

impl Rec {
    /// Decodes the record of a volume like `geo`.
    pub fn decode(&self, geo: &Geometry) -> Chunk {
        let startino = AgIno(self.startino.get());
        let free = self.free.get();
        if geo.features.sparse() {
            Chunk {
                startino,
                holemask: self.holemask.get(),
                count: self.count.into(),
                freecount: self.freecount.into(),
                free,
            }
        } else {
            let [hi, lo] = self.holemask.to_bytes();
            let freecount = u32::from_be_bytes([hi, lo, self.count, self.freecount]);
            Chunk { startino, holemask: 0, count: INODES_PER_CHUNK, freecount, free }
        }
    }
}

impl Chunk {
    /// Returns one bit per inode number: set where the inode exists.
    pub fn present(&self) -> u64 {
        if self.holemask == 0 {
            return u64::MAX;
        }
        let mut present = 0u64;
        for bit in 0..16u32 {
            if self.holemask & (1 << bit) == 0 {
                present |= 0xf << bit.saturating_mul(INODES_PER_HOLEMASK_BIT);
            }
        }
        present
    }

    /// Returns one bit per inode number: set where the inode exists and is in use.
    pub fn used(&self) -> u64 {
        self.present() & !self.free
    }

    /// Returns the first inode that exists and is free.
    pub fn first_free(&self) -> Option<AgIno> {
        let free = self.free & self.present();
        (free != 0).then(|| AgIno(self.startino.0.saturating_add(free.trailing_zeros())))
    }

    /// Returns the chunk with the free inode `agino` in use.
    pub fn with_allocated(&self, agino: AgIno) -> Self {
        let bit = agino.0.wrapping_sub(self.startino.0) % INODES_PER_CHUNK;
        let freecount = self.freecount.saturating_sub(1);
        Self { free: self.free & !(1 << bit), freecount, ..*self }
    }

    /// Encodes the chunk for a volume like `geo`.
    pub fn encode(&self, geo: &Geometry) -> Rec {
        let [b0, b1, b2, b3] = self.freecount.to_be_bytes();
        let low_byte = |n: u32| n.to_be_bytes()[3];
        let sparse = geo.features.sparse();
        Rec {
            startino: self.startino.0.into(),
            holemask: if sparse { self.holemask.into() } else { U16::from_bytes([b0, b1]) },
            count: if sparse { low_byte(self.count) } else { b2 },
            freecount: b3,
            free: self.free.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_follows_the_hole_mask() {
        let chunk =
            Chunk { startino: AgIno(0), holemask: 0xff00, count: 32, freecount: 28, free: !0xf };
        assert_eq!(chunk.present(), 0xffff_ffff);
        assert_eq!(chunk.used(), 0xf);
    }
}
