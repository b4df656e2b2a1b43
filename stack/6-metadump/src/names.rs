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
const TRIES: usize = 6;
/// Masks tried for each window of a name of fewer than [`SHORT`] bytes, which has few windows.
const TRIES_SHORT: usize = 24;
const SHORT: usize = 16;
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
            for byte in name.iter_mut() {
                *byte = hash::fold(*byte);
            }
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
        let tries = match class {
            Class::Printable if name.len() < SHORT => TRIES_SHORT,
            Class::Printable => TRIES,
            Class::Other => TRIES_OTHER,
        };
        let mut start = 0;
        loop {
            let mut word = load(&name[start..start + window]);
            for i in 0..tries {
                let other = word ^ mask(&mut random, window - LEN_MIN, class, i);
                if is_valid(other, class) && !(fold && is_folded(other)) {
                    store(&mut name[start..start + window], other);
                    if class == Class::Printable || class_of(name) == class {
                        word = other;
                    }
                }
            }
            store(&mut name[start..start + window], word);
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

/// Returns the bytes of a window, the last one lowest. Shorter windows are filled with a letter.
fn load(window: &[u8]) -> u64 {
    let mut bytes = [b'a'; WINDOW];
    bytes[WINDOW - window.len()..].copy_from_slice(window);
    u64::from_be_bytes(bytes)
}

fn store(window: &mut [u8], word: u64) {
    let len = window.len();
    window.copy_from_slice(&word.to_be_bytes()[WINDOW - len..]);
}

/// Returns a mask whose hash is 0: of `head` bytes, at most three, and five more.
fn mask(random: &mut Stream, head: usize, class: Class, number: usize) -> u64 {
    let bits = random.next();
    // Three bits of the head keep a letter of the rest a letter, five mix more.
    let keep: u64 = match (class, number % 2) {
        (Class::Other, _) => 0xff_ffff,
        (Class::Printable, 0) => 0x07_0707,
        (Class::Printable, _) => 0x1f_1f1f,
    };
    let head = bits & keep & ((1 << (8 * head)) - 1);
    // The hash of the head, rotated by the five bytes after it: by 35 bits, which are 3.
    let hash = (head & 0xff) ^ (head >> 8 & 0xff) << 7 ^ (head >> 16) << 14;
    let rest = hash << 3;
    // Each of its bits has a place in one of the five bytes.
    let seven = |n: u32| (rest >> (7 * n) & 0x7f) << (8 * n);
    let mut mask = head << 40 | seven(0) | seven(1) | seven(2) | seven(3);
    // Pairs of bits that have the same place in the hash: of the first and the last of the five.
    let pairs = bits >> 32;
    mask ^= (pairs & 7) << 36 ^ (pairs & 7);
    if class == Class::Other {
        mask ^= (pairs >> 3 & 1) << 39 ^ (pairs >> 3 & 1) << 3;
        for n in 0..4 {
            // The highest bit of a byte, and the lowest of the byte before it.
            mask ^= (pairs >> (4 + n) & 1) * (0x180 << (8 * n));
        }
    }
    mask
}

/// `byte` in each byte of a word.
const fn all(byte: u8) -> u64 {
    u64::from_be_bytes([byte; WINDOW])
}

/// Returns true if a name of `class` may contain all bytes of `word`.
fn is_valid(word: u64, class: Class) -> bool {
    let high = all(0x80);
    let none_is = |byte: u8| {
        let different = word ^ all(byte);
        (((different & !high) + all(0x7f)) | different) & high == high
    };
    match class {
        Class::Printable => {
            let from_space = word.wrapping_add(all(0x60)) & high == high;
            word & high == 0 && from_space && none_is(0x7f) && none_is(b'/')
        }
        Class::Other => none_is(0) && none_is(b'/'),
    }
}

/// Returns true if directories that ignore case change a byte of `word` before they hash it.
fn is_folded(word: u64) -> bool {
    word.to_be_bytes().iter().any(|&byte| byte != hash::fold(byte))
}

fn class_of(name: &[u8]) -> Class {
    let printable = name.iter().all(|&byte| (0x20..0x7f).contains(&byte) && byte != b'/');
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
