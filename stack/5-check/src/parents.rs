//! Parent pointers against directory entries, without keeping either.
//!
//! Both say the same: this directory, of this generation, calls this inode by this name. Each such
//! statement is mixed into one number. Entries add theirs to the inode they name, parent pointers
//! take theirs away from the inode they stand on; what is left over is wrong.

use xfskit_units::Ino;

/// The number of one statement: 64 bits that differ wherever parent, generation or name do.
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
