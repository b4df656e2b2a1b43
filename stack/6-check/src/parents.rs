//! Parent pointers against directory entries, without storing either.
//!
//! Both record the same fact: this directory, of this generation, has this inode under this name.
//! Each fact is hashed to one number. An entry adds its number to the inode that it names, and a
//! parent pointer subtracts its number from its own inode. A sum other than 0 is wrong.

use xfskit_units::Ino;

/// Returns the hash of a parent, its generation and a name, in 64 bits.
pub(crate) fn number(parent: Ino, generation: u32, name: &[u8]) -> u64 {
    let mut sum = mix(parent.0 ^ u64::from(generation).rotate_left(40));
    let (eights, rest) = name.as_chunks::<8>();
    for eight in eights {
        sum = mix(sum ^ u64::from_le_bytes(*eight));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    mix(sum ^ u64::from_le_bytes(last) ^ (name.len() as u64).rotate_left(56)) | 1
}

/// Spreads every bit over all bits (the finaliser of MurmurHash3).
fn mix(mut n: u64) -> u64 {
    n = (n ^ (n >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    n = (n ^ (n >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    n ^ (n >> 33)
}
