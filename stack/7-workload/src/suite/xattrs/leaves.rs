//! Fill levels of the leaves of an attribute fork, counted on the volume itself.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;

use serde::Serialize;
use xfskit_core::Volume;
use xfskit_format::attr::leaf::Leaf;
use xfskit_units::Ino;

use super::published::BELOW;

/// Bytes of a leaf's header.
const HEAD: usize = 80;
/// Bytes of a leaf entry.
const ENTRY: usize = 8;
/// Width of a histogram bin in bytes of used space.
const BIN: usize = 128;

/// Number of leaves, or hash values, by some count.
pub type Histogram = BTreeMap<usize, u64>;

/// Counts over the leaves of one file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Leaves {
    /// Number of leaves.
    pub leaves: u64,
    /// Bytes of a leaf.
    pub leaf_bytes: usize,
    /// Attributes in the leaves.
    pub attributes: u64,
    /// Leaves with less than 2,700 bytes used.
    pub below: u64,
    /// Free bytes in these leaves.
    pub wasted: u64,
    /// Free bytes in all leaves.
    pub free: u64,
    /// Leaves by used bytes, in bins of 128.
    pub used_bytes: Histogram,
    /// Leaves by the number of different hash values in them.
    pub hashes_per_leaf: Histogram,
    /// Hash values by the number of attributes that share them.
    pub attributes_per_hash: Histogram,
    /// The run of equal hash values at the end of the last leaf.
    #[serde(skip)]
    run: Option<(u32, usize)>,
}

impl Leaves {
    /// Counts the leaves of file `name` in the root of `volume`.
    ///
    /// # Errors
    /// If the file or a leaf cannot be read.
    pub fn of(volume: &Volume, name: &[u8]) -> io::Result<Self> {
        let root = volume.iget(volume.geo().rootino).map_err(io::Error::other)?;
        let found = volume.lookup(&root, name).map_err(io::Error::other)?;
        let (ino, _) = found.ok_or(io::ErrorKind::NotFound)?;
        Self::of_inode(volume, ino)
    }

    fn of_inode(volume: &Volume, ino: Ino) -> io::Result<Self> {
        let inode = volume.iget(ino).map_err(io::Error::other)?;
        let mut counted = Self { leaf_bytes: volume.geo().blocksize(), ..Self::default() };
        let mut failed = None;
        volume.open_attrs(&inode).map_err(io::Error::other)?.each_leaf(&mut |leaf| match leaf {
            Ok(leaf) => {
                counted.count(&leaf);
                ControlFlow::Continue(())
            }
            Err(err) => {
                failed = Some(io::Error::other(err));
                ControlFlow::Break(())
            }
        });
        counted.end_run();
        failed.map_or(Ok(counted), Err)
    }

    fn count(&mut self, leaf: &Leaf<'_>) {
        let used = HEAD + ENTRY * leaf.entries.len() + usize::from(leaf.usedbytes);
        let free = self.leaf_bytes.saturating_sub(used) as u64;
        self.leaves += 1;
        self.attributes += leaf.entries.len() as u64;
        self.free += free;
        if used < BELOW {
            self.below += 1;
            self.wasted += free;
        }
        *self.used_bytes.entry(used / BIN * BIN).or_default() += 1;
        let mut different = 0;
        let mut last = None;
        for hash in leaf.entries.iter().map(|entry| entry.hashval.get()) {
            different += usize::from(last != Some(hash));
            last = Some(hash);
            self.run = match self.run {
                Some((same, n)) if same == hash => Some((hash, n + 1)),
                _ => {
                    self.end_run();
                    Some((hash, 1))
                }
            };
        }
        *self.hashes_per_leaf.entry(different).or_default() += 1;
    }

    fn end_run(&mut self) {
        if let Some((_, n)) = self.run.take() {
            *self.attributes_per_hash.entry(n).or_default() += 1;
        }
    }

    /// Returns the bytes of all leaves.
    pub fn total(&self) -> u64 {
        self.leaves * self.leaf_bytes as u64
    }

    /// Returns `bytes` in percent of all leaves.
    #[allow(clippy::cast_precision_loss)] // of a share
    pub fn percent(&self, bytes: u64) -> f64 {
        bytes as f64 * 100.0 / (self.total() as f64).max(1.0)
    }

    /// Returns the used bytes per attribute, headers included.
    #[allow(clippy::cast_precision_loss)] // of a mean
    pub fn used_each(&self) -> f64 {
        (self.total() - self.free) as f64 / self.attributes as f64
    }

    /// Returns the percentage of leaves with less than 2,700 bytes used.
    #[allow(clippy::cast_precision_loss)] // of a share
    pub fn below_percent(&self) -> f64 {
        self.below as f64 * 100.0 / (self.leaves as f64).max(1.0)
    }
}

/// Returns the points of a plot: percent of all over the count.
#[allow(clippy::cast_precision_loss)] // of a share
pub fn shares(histogram: &Histogram) -> Vec<(f64, f64)> {
    let all: u64 = histogram.values().sum();
    let share = |(&n, &count): (&usize, &u64)| (n as f64, count as f64 * 100.0 / all as f64);
    histogram.iter().map(share).collect()
}
