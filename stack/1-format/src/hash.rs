//! The name hash of directories and attribute forks, and its two variations.
//!
//! For each byte, the hash so far is rotated left by 7 bits and the byte is added by exclusive or.
//! Volumes made with `-n version=ci` hash (and compare) directory names with their letters folded
//! to lower case; attribute names are never folded. The hash of a parent pointer also mixes in the
//! parent's inode number, so that a thousand links named `x` from a thousand directories have
//! different hashes.

use std::borrow::Cow;

use xfskit_units::{Geometry, Ino};

/// Returns the hash of `name`, letter case as it is: attribute names, and directory names on all
/// volumes but those with [`ascii_ci`](xfskit_units::Features::ascii_ci).
pub fn name_hash(name: &[u8]) -> u32 {
    // Four bytes make one step: 4 * 7 bits of rotation, each byte shifted by its remaining
    // rotation.
    let (fours, rest) = name.as_chunks::<4>();
    let sum = fours.iter().fold(0u32, |sum, four| {
        let [a, b, c, d] = four.map(u32::from);
        sum.rotate_left(28) ^ (a << 21) ^ (b << 14) ^ (c << 7) ^ d
    });
    rest.iter().fold(sum, |sum, &byte| sum.rotate_left(7) ^ u32::from(byte))
}

/// Returns the hash of `name` in directories of the volume `geo`.
pub fn dir_hash(geo: &Geometry, name: &[u8]) -> u32 {
    if geo.features.ascii_ci() {
        return name.iter().fold(0u32, |sum, &b| sum.rotate_left(7) ^ u32::from(fold(b)));
    }
    name_hash(name)
}

/// Returns the hash of a parent pointer: an entry called `name` in the directory `parent`.
pub fn parent_hash(geo: &Geometry, name: &[u8], parent: Ino) -> u32 {
    let [high, low] = halves(parent.0);
    dir_hash(geo, name) ^ high ^ low
}

#[allow(clippy::cast_possible_truncation)] // the two halves are meant
const fn halves(n: u64) -> [u32; 2] {
    [(n >> 32) as u32, n as u32]
}

/// Returns `byte` in lower case if it is a letter of ISO 8859-1.
pub const fn fold(byte: u8) -> u8 {
    match byte {
        0x41..=0x5a | 0xc0..=0xd6 | 0xd8..=0xde => byte | 0x20,
        _ => byte,
    }
}

/// Returns `name` as directories of the volume `geo` compare it.
pub fn folded<'a>(geo: &Geometry, name: &'a [u8]) -> Cow<'a, [u8]> {
    if geo.features.ascii_ci() {
        return Cow::Owned(name.iter().copied().map(fold).collect());
    }
    Cow::Borrowed(name)
}

/// Returns true if directories of the volume `geo` take `a` and `b` for the same name.
pub fn same_name(geo: &Geometry, a: &[u8], b: &[u8]) -> bool {
    if geo.features.ascii_ci() {
        return a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| fold(a) == fold(b));
    }
    a == b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::geo_v5;

    fn ci() -> Geometry {
        let mut geo = geo_v5();
        geo.features.versionnum |= xfskit_units::features::VersionNum::BORG;
        geo
    }

    #[test]
    fn hashes_are_the_ones_that_linux_stores() {
        for (name, hash) in [
            ("", 0),
            (".", 0x2e),
            ("..", 0x172e),
            ("a", 0x61),
            ("foo", 0x0019_b7ef),
            ("abcd", 0x0c38_b1e4),
            ("abcde", 0x1c58_f263),
            ("alpha", 0x1d9c_3467),
            ("abcdefgh", 0x4c7a_38f6),
            ("file000", 0xccad_837e),
            ("k000000", 0x060d_b5b3),
            ("lost+found", 0x021a_a60c),
            ("SGI_ACL_FILE", 0x275b_19c4),
            ("SGI_ACL_DEFAULT", 0x9811_8557),
            (&"a".repeat(255), 0xc200_0000),
        ] {
            assert_eq!(name_hash(name.as_bytes()), hash, "{name}");
            assert_eq!(dir_hash(&geo_v5(), name.as_bytes()), hash, "{name}");
        }
    }

    #[test]
    fn four_bytes_at_once_equal_one_by_one() {
        let name: Vec<u8> = (0..=255).map(|i: u8| i.wrapping_mul(167)).collect();
        for end in 0..name.len() {
            let slow = name[..end].iter().fold(0u32, |h, &b| h.rotate_left(7) ^ u32::from(b));
            assert_eq!(name_hash(&name[..end]), slow, "{end} bytes");
        }
    }

    #[test]
    fn case_folds_only_where_the_volume_folds_it() {
        let ci = ci();
        assert_eq!(dir_hash(&ci, b"FooBar"), 0xfdf8_b3c4);
        assert_eq!(dir_hash(&ci, b"foobar"), 0xfdf8_b3c4);
        assert_eq!(dir_hash(&ci, &[0xc3, 0x80, 0xc3, 0x89]), 0x1c40_7109);
        assert_eq!(name_hash(b"FooBar"), 0xfdf0_b2c4, "attributes: as they are");
        assert!(same_name(&ci, b"FooBar", b"fOObAR") && !same_name(&ci, b"foo", b"fooo"));
        assert!(!same_name(&geo_v5(), b"FooBar", b"foobar"));
        assert_eq!(&*folded(&ci, b"A[Z"), b"a[z");
    }

    #[test]
    fn a_parent_pointer_mixes_its_parent_in() {
        assert_eq!(parent_hash(&geo_v5(), b"f", Ino(131)), 0xe5);
        assert_eq!(parent_hash(&geo_v5(), b"f", Ino(17_179_869_315)), 0xe1);
    }
}
