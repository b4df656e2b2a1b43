//! The ways to change a field.

use xfskit_test_support::Random;

/// Number that is added and subtracted, cut to the width of the field.
const STEP: u128 = 2017;

/// A way to change a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// All bits zero.
    Zeroes,
    /// All bits one.
    Ones,
    /// The first bit flipped.
    FirstBit,
    /// The bit in the middle flipped.
    MiddleBit,
    /// The last bit flipped.
    LastBit,
    /// A number added.
    Add,
    /// The same number subtracted.
    Sub,
    /// A random value.
    Random,
}

impl Verb {
    /// All verbs, with their names.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Zeroes, "zeroes"),
        (Self::Ones, "ones"),
        (Self::FirstBit, "firstbit"),
        (Self::MiddleBit, "middlebit"),
        (Self::LastBit, "lastbit"),
        (Self::Add, "add"),
        (Self::Sub, "sub"),
        (Self::Random, "random"),
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(verb, _)| *verb == self).map_or("", |(_, name)| name)
    }

    /// Returns the new value of a field of `bits` bits, 1 to 128.
    pub fn apply(self, old: u128, bits: usize, random: &mut Random) -> u128 {
        let mask = u128::MAX >> (128 - bits);
        let step = match STEP & mask {
            0 => 1,
            step => step,
        };
        let new = match self {
            Self::Zeroes => 0,
            Self::Ones => mask,
            Self::FirstBit => old ^ (1 << (bits - 1)),
            Self::MiddleBit => old ^ (1 << (bits / 2)),
            Self::LastBit => old ^ 1,
            Self::Add => old.wrapping_add(step),
            Self::Sub => old.wrapping_sub(step),
            Self::Random => (u128::from(random.bits()) << 64) | u128::from(random.bits()),
        };
        new & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_stays_within_the_bits_of_the_field() {
        let mut random = Random::new(7);
        for (verb, name) in Verb::ALL {
            for bits in [1, 21, 54, 64, 128] {
                let new = verb.apply(0, bits, &mut random);
                assert!(bits == 128 || new >> bits == 0, "{name} of {bits} bits: {new:#x}");
            }
        }
        assert_eq!(Verb::FirstBit.apply(0, 16, &mut random), 0x8000);
        assert_eq!(Verb::Sub.apply(1, 8, &mut random), 0x20, "1 - (2017 mod 256) mod 256");
    }
}
