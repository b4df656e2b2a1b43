//! Names that a listing of one directory has come to: a name that comes again is damage, and hides
//! a file.

use std::hash::{BuildHasher, RandomState};

use xfskit_core::Volume;
use xfskit_format::Location;
use xfskit_units::Ino;

use crate::{Entry, Error};

/// The names of one directory, as far as it was listed: a hash of each, which is keyed, so that no
/// two names can be made to share one.
#[derive(Debug, Default)]
pub struct Names {
    hashes: Vec<u64>,
    hasher: RandomState,
}

impl Names {
    /// Adds the next `entries` of the listing. Returns an error for each that has the name of an
    /// earlier one.
    pub fn add(&mut self, volume: &Volume, dir: Ino, entries: &[Entry]) -> Vec<Error> {
        let hash = |entry: &Entry| self.hasher.hash_one(&*entry.name);
        let mut new: Vec<(u64, usize)> = entries.iter().map(hash).zip(0..).collect();
        new.sort_unstable();
        let mut errors = Vec::new();
        for (n, &(hash, index)) in new.iter().enumerate() {
            let here = n.checked_sub(1).is_some_and(|before| new[before].0 == hash);
            if here || self.hashes.binary_search(&hash).is_ok() {
                let ctx = volume.ctx(Location::of("directory").ino(dir));
                let name = String::from_utf8_lossy(&entries[index].name).into_owned();
                let found = ctx.require("dir.dup", false, "each name once", name);
                errors.extend(found.err().map(|fault| xfskit_core::Error::from(fault).into()));
            }
        }
        self.hashes.extend(new.iter().map(|&(hash, _)| hash));
        // Two sorted runs, which the stable sort merges in linear time.
        #[allow(clippy::stable_sort_primitive)]
        self.hashes.sort();
        errors
    }
}
