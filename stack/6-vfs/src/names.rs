//! Names in the listing of one directory. A repeated name is damage, and hides a file.
//!
//! The cost is small: each name is hashed once, and sets a bit of a filter. Only names whose bit
//! was set before are doubtful, and are compared with all others at the end.

use std::hash::{BuildHasher, RandomState};

use xfskit_core::Volume;
use xfskit_format::Location;
use xfskit_units::Ino;

use crate::{Entry, Error};

/// Minimum number of bits of the filter for each name: at most one name in so many is doubtful.
const BITS: usize = 16;

/// The names of one directory that were listed so far: a hash of each, which is keyed, so that two
/// names cannot be made to collide.
#[derive(Debug)]
pub(crate) struct Names {
    keys: [u64; 2],
    hashes: Vec<u64>,
    filter: Filter,
    /// Names whose bit was set before: the place of each in `hashes`, and the name.
    doubtful: Vec<(usize, Vec<u8>)>,
}

impl Default for Names {
    fn default() -> Self {
        let random = RandomState::new();
        let keys = [random.hash_one(0), random.hash_one(1)];
        Self { keys, hashes: Vec::new(), filter: Filter::default(), doubtful: Vec::new() }
    }
}

impl Names {
    /// Adds the next `entries` of the listing.
    pub(crate) fn add(&mut self, entries: &[Entry]) {
        let known = self.hashes.len();
        self.hashes.extend(entries.iter().map(|entry| hash(self.keys, &entry.name)));
        if !self.filter.is_for(self.hashes.len()) {
            let growth = if known == 0 { 1 } else { 2 };
            self.filter = Filter::new(growth * self.hashes.len());
            for &hash in &self.hashes[..known] {
                self.filter.set(hash);
            }
        }
        for (index, entry) in (known..).zip(entries) {
            if self.filter.set(self.hashes[index]) {
                self.doubtful.push((index, entry.name.clone()));
            }
        }
    }

    /// Returns an error for each name of directory `dir` that came again.
    pub(crate) fn repeated(self, volume: &Volume, dir: Ino) -> Vec<Error> {
        let again = self.indexes_of_repeated();
        let names = self.doubtful.iter().filter(|(index, _)| again.binary_search(index).is_ok());
        let error = |(_, name): &(usize, Vec<u8>)| {
            let ctx = volume.ctx(Location::of("directory").ino(dir));
            let found = format!("the name {:?} is there twice", String::from_utf8_lossy(name));
            let fault = ctx.fail("dir.dup", "each name once", found).err()?;
            Some(xfskit_core::Error::from(fault).into())
        };
        names.filter_map(error).collect()
    }

    /// Returns the places in `hashes` of those that an earlier one equals, ascending.
    fn indexes_of_repeated(&self) -> Vec<usize> {
        if self.doubtful.is_empty() {
            return Vec::new();
        }
        let mut wanted = Filter::new(self.doubtful.len());
        for &(index, _) in &self.doubtful {
            wanted.set(self.hashes[index]);
        }
        let hashes = self.hashes.iter().zip(0..).filter(|(hash, _)| wanted.has(**hash));
        let mut near: Vec<(u64, usize)> = hashes.map(|(&hash, index)| (hash, index)).collect();
        near.sort_unstable();
        let pairs = near.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let mut again: Vec<usize> = pairs.map(|pair| pair[1].1).collect();
        again.sort_unstable();
        again
    }
}

/// A bit for each hash; several share one. Its length is a power of two.
#[derive(Debug, Default)]
struct Filter(Vec<u64>);

impl Filter {
    fn new(names: usize) -> Self {
        Self(vec![0; (names * BITS).div_ceil(64).next_power_of_two()])
    }

    /// Returns true if there are enough bits for so many names.
    fn is_for(&self, names: usize) -> bool {
        self.0.len() * 64 >= names * BITS
    }

    /// Returns the word and the bit of a hash.
    #[allow(clippy::cast_possible_truncation)] // the low bits
    fn place(&self, hash: u64) -> (usize, u64) {
        ((hash >> 6) as usize & (self.0.len() - 1), 1 << (hash & 63))
    }

    fn has(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        self.0[word] & bit != 0
    }

    /// Sets the bit of `hash`; returns whether it was set before.
    fn set(&mut self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        let before = self.0[word];
        self.0[word] = before | bit;
        before & bit != 0
    }
}

/// Returns a hash of `name` by multiplications whose halves are folded, keyed with `keys`.
fn hash([key, factor]: [u64; 2], name: &[u8]) -> u64 {
    let factor = factor | 1;
    let (words, rest) = name.as_chunks::<8>();
    let state = words.iter().fold(key ^ name.len() as u64, |state, word| {
        folded(state ^ u64::from_le_bytes(*word), factor)
    });
    let last = rest.iter().fold(0, |last, &byte| last << 8 | u64::from(byte));
    folded(folded(state ^ last, factor) ^ key, factor)
}

/// Returns the exclusive or of both halves of a product.
#[allow(clippy::cast_possible_truncation)] // halves
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileType;

    fn entry(name: String) -> Entry {
        Entry { name: name.into_bytes(), ino: Ino(131), file_type: FileType::Regular }
    }

    /// Adds `names` in portions. Returns the places of those that came again.
    fn repeated(names: impl Iterator<Item = String>, portion: usize) -> Vec<usize> {
        let entries: Vec<Entry> = names.map(entry).collect();
        let mut listed = Names::default();
        entries.chunks(portion).for_each(|entries| listed.add(entries));
        listed.indexes_of_repeated()
    }

    #[test]
    fn every_repeated_name_is_found_and_no_other() {
        for count in [0, 1, 2, 3, 63, 1000, 50_000] {
            for portion in [1 + count / 7, 50_001] {
                let name = |i: usize| format!("name {i}");
                assert!(repeated((0..count).map(name), portion).is_empty(), "{count}");
                let with_again = (0..count).map(name).chain([name(count / 2), name(count / 3)]);
                let expected = if count == 0 { vec![1] } else { vec![count, count + 1] };
                assert_eq!(repeated(with_again, portion), expected, "{count} by {portion}");
            }
        }
    }

    #[test]
    fn few_names_are_doubtful() {
        let mut listed = Names::default();
        let entries: Vec<Entry> = (0..100_000).map(|i| entry(format!("{i:08}"))).collect();
        listed.add(&entries);
        assert!(listed.doubtful.len() < entries.len() / BITS, "{}", listed.doubtful.len());
    }
}
