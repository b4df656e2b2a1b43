//! Names are obfuscated so that their hashes and lengths stay.
//!
//! The hash of a name is linear over exclusive or: the hash of `a ^ b` is the exclusive or of their
//! hashes. A *mask* with hash 0 therefore changes a name and keeps its hash. Masks are drawn at
//! random from a stream that depends on a secret key and on hash and length of the name, and on
//! nothing else. Invariants:
//!
//! 1. Hash and length of a name stay, so directories and attribute forks remain valid.
//! 2. Different names of one length and hash become different names: a mask is applied only where
//!    the result is a valid name too, and it is then applied to that name as well, so each step
//!    exchanges names in pairs. No directory gets the same name twice.
//! 3. One key gives one result for a name, wherever it stands. Hard links, parent pointers and the
//!    targets of symlinks still agree with each other.
//! 4. Printable names stay printable.
//!
//! Names of up to four bytes stay as they are, because almost no other names have their hashes.
//! From the hash of a name of five to eight bytes its text can be guessed. `lost+found` stays.

use std::hash::{Hash, Hasher};

use xfskit_format::hash;
use xfskit_units::Geometry;

/// The shortest name that has a mask, in bytes.
pub const LEN_MIN: usize = 5;
/// Most bytes that a mask changes.
const WINDOW: usize = 8;
/// Masks tried for each window.
const TRIES: usize = 12;
/// Masks tried for names with bytes other than printable ASCII, to which almost any mask applies.
const TRIES_OTHER: usize = 2;
/// Bytes from one window to the next.
const STEP: usize = 3;
/// The name that `xfs_repair` looks for.
const ORPHANAGE: &[u8] = b"lost+found";

/// The names that a step may produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Class {
    /// Printable ASCII.
    Printable,
    /// Anything else.
    Other,
}

/// Obfuscates names by a secret key.
#[derive(Clone, Debug)]
pub struct Obfuscator {
    key: [u64; 2],
    /// True if directories ignore the case of letters.
    fold: bool,
}

impl Obfuscator {
    /// Returns the obfuscator of `key` for the volume `geo`.
    pub fn new(key: [u8; 16], geo: &Geometry) -> Self {
        let key = u128::from_le_bytes(key);
        #[allow(clippy::cast_possible_truncation)] // the two halves are meant
        let key = [key as u64, (key >> 64) as u64];
        Self { key, fold: geo.features.ascii_ci() }
    }

    /// Obfuscates the name of a directory entry or of a parent pointer.
    pub fn entry(&self, name: &mut [u8]) {
        if name.len() < LEN_MIN {
            return;
        }
        if self.fold {
            name.iter_mut().for_each(|byte| *byte = hash::fold(*byte));
        }
        self.obfuscate(name, self.fold);
    }

    /// Obfuscates the name of an attribute.
    pub fn attr(&self, name: &mut [u8]) {
        self.obfuscate(name, false);
    }

    /// Obfuscates each part of the target of a symlink, as the entry that it names.
    pub fn path(&self, target: &mut [u8]) {
        target.split_mut(|byte| *byte == b'/').for_each(|name| self.entry(name));
    }

    fn obfuscate(&self, name: &mut [u8], fold: bool) {
        if name.len() < LEN_MIN || name == ORPHANAGE {
            return;
        }
        self.exchange(name, fold);
        if name == ORPHANAGE {
            // The name that became `lost+found` takes the place that `lost+found` would have got.
            self.exchange(name, fold);
        }
    }

    /// Exchanges `name` with another name of its length, hash and class.
    fn exchange(&self, name: &mut [u8], fold: bool) {
        let class = class_of(name);
        let mut random = self.stream(hash::name_hash(name), name.len(), class);
        let window = name.len().min(WINDOW);
        let last = name.len() - window;
        let tries = if class == Class::Printable { TRIES } else { TRIES_OTHER };
        let mut start = 0;
        loop {
            for _ in 0..tries {
                let mask = mask(&mut random, window, class);
                apply(name, start, &mask[..window]);
                let fits =
                    |&byte: &u8| is_valid(byte, class) && !(fold && byte != hash::fold(byte));
                let valid = name[start..start + window].iter().all(fits);
                if !valid || (class == Class::Other && class_of(name) != class) {
                    apply(name, start, &mask[..window]); // takes it back
                }
            }
            if start == last {
                return;
            }
            start = (start + STEP).min(last);
        }
    }

    /// Returns the stream of random numbers for the names of one hash, length and class.
    fn stream(&self, hash: u32, len: usize, class: Class) -> Stream {
        #[allow(deprecated)] // the only keyed hash of std whose key can be given
        let mut hasher = std::hash::SipHasher::new_with_keys(self.key[0], self.key[1]);
        (hash, len as u64, class).hash(&mut hasher);
        Stream(hasher.finish())
    }
}

fn apply(name: &mut [u8], start: usize, mask: &[u8]) {
    for (byte, mask) in name[start..].iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Returns a mask of `window` bytes, at least five, whose hash is 0.
fn mask(random: &mut Stream, window: usize, class: Class) -> [u8; WINDOW] {
    let bits = random.next();
    let mut mask = [0; WINDOW];
    let (head, tail) = mask[..window].split_at_mut(window - LEN_MIN);
    // Five bits leave a letter in its column of the ASCII table.
    let keep = if class == Class::Printable { 0x1f } else { 0xff };
    for (byte, random) in head.iter_mut().zip(bits.to_le_bytes()) {
        *byte = random & keep;
    }
    // Five bytes more rotate the hash by 35 bits, and have a bit of 7 for each of its 32.
    let rest = hash::name_hash(head).rotate_left(35 % 32);
    let seven = |shift: u32| (rest >> shift & 0x7f) as u8;
    tail.copy_from_slice(&[seven(28), seven(21), seven(14), seven(7), seven(0)]);
    // Pairs of bits that have the same place in the hash.
    let [.., pairs] = bits.to_le_bytes();
    let flip = |bit: u8| pairs >> bit & 1;
    for bit in 0..3 {
        tail[0] ^= flip(bit) << (4 + bit);
        tail[4] ^= flip(bit) << bit;
    }
    if class == Class::Other {
        tail[0] ^= flip(3) << 7;
        tail[4] ^= flip(3) << 3;
        for bit in 1..5 {
            tail[usize::from(bit)] ^= flip(3 + bit) << 7;
            tail[usize::from(bit) - 1] ^= flip(3 + bit);
        }
    }
    mask
}

/// Returns true if a name of `class` may contain `byte`.
fn is_valid(byte: u8, class: Class) -> bool {
    match class {
        Class::Printable => (0x20..0x7f).contains(&byte) && byte != b'/',
        Class::Other => byte != 0 && byte != b'/',
    }
}

fn class_of(name: &[u8]) -> Class {
    let printable = name.iter().all(|byte| is_valid(*byte, Class::Printable));
    if printable { Class::Printable } else { Class::Other }
}

/// A stream of random numbers: SplitMix64.
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests;
