//! The hash index of a directory: whether it leads to every name, and to nothing else.
//!
//! A name that the index does not have is listed and cannot be looked up. Comparing each name with
//! the index would take a look-up each. Instead, a listing and a walk over the leaves each form a
//! [`Digest`] of the pairs of hash and position that they see. Only if these differ is every name
//! looked up ([`Volume::index_fault`]). In block form, reading the block compares them already.

use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::OnceLock;

use xfskit_format::Fork;
use xfskit_format::dir;
use xfskit_format::dir::leaf::Leaf;
use xfskit_format::hash;
use xfskit_units::{FileOff, Geometry};

use super::DirEntry;
use crate::bmap::Mapping;
use crate::da::DaFork;
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::volume::Volume;

/// A digest of the names of a directory, in any order: of the hash of each, and its position. It is
/// keyed, so that a damaged directory cannot be made to have the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    key: u64,
    names: u64,
    sum: u64,
}

/// The number of names of an index that is damaged.
const UNREADABLE: u64 = u64::MAX;

impl Default for Digest {
    fn default() -> Self {
        static KEY: OnceLock<u64> = OnceLock::new();
        let key = *KEY.get_or_init(|| RandomState::new().hash_one(0));
        Self { key, names: 0, sum: 0 }
    }
}

impl Digest {
    /// Adds an entry of a listing.
    #[inline]
    pub fn add(&mut self, geo: &Geometry, entry: &DirEntry<'_>) {
        let len = dir::entry_len(geo, entry.name.len()) as u64 / 8;
        self.add_pair(hash::dir_hash(geo, entry.name), entry.cookie.saturating_sub(len));
    }

    /// Adds the entries of another part of the directory.
    pub fn add_all(&mut self, other: Self) {
        self.names += other.names;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    #[inline]
    fn add_pair(&mut self, hash: u32, address: u64) {
        let pair = u64::from(hash) << 32 ^ address ^ self.key;
        // Two rounds of multiplication and folding: every bit of the pair reaches every bit.
        let mixed = (pair ^ pair >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.names += 1;
        self.sum = self.sum.wrapping_add(mixed ^ mixed >> 32);
    }
}

/// How the index of a directory differs from its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexFault {
    /// Names are listed and cannot be looked up.
    Missing {
        /// Their number.
        count: u64,
        /// The first.
        first: Vec<u8>,
    },
    /// Every name can be looked up, and the index has more entries than there are names.
    Extra {
        /// The number of entries without a name.
        count: u64,
    },
}

impl Volume {
    /// Returns the digest of the index of the directory `inode`; `None` if it has no index, or if
    /// reading the directory compares them. An index that is damaged has the digest of no listing.
    ///
    /// # Errors
    /// [`Error::NotDirectory`], [`Error::Device`], [`Error::Corrupt`] of the directory's map.
    pub fn index_digest(&self, inode: &Inode) -> Result<Option<Digest>> {
        if !inode.core().is_dir() {
            return Err(Error::NotDirectory(inode.ino()));
        }
        let da = DaFork::open(self, inode, Fork::Data)?;
        let leafblk = FileOff(self.geo().dir_leafblk().0.into());
        if da.extents.extent_at(leafblk)?.is_none() {
            return Ok(None);
        }
        let mut digest = Digest::default();
        let read = da.each_leaf_with_hash(&mut |leaf| {
            let Ok((leaf, hash)) = leaf else { return ControlFlow::Break(()) };
            let Some(leaf) = Leaf::parse(&leaf.buf, self.geo()) else {
                return ControlFlow::Break(());
            };
            if hash.is_some() && leaf.last_hash().is_some() && leaf.last_hash() != hash {
                return ControlFlow::Break(());
            }
            for entry in leaf.lents.iter().filter(|entry| entry.dataptr().is_some()) {
                digest.add_pair(entry.hashval.get(), entry.address.get().into());
            }
            ControlFlow::Continue(())
        });
        if read.is_break() {
            digest.names = UNREADABLE;
        }
        Ok(Some(digest))
    }

    /// Compares the names that the directory `inode` lists with its index, and looks up every name
    /// if they differ. Returns `None` if all are found and the index has no others. An index that
    /// has more entries is no fault of its own where names cannot be read. The caller makes sure
    /// that the directory does not change meanwhile.
    ///
    /// # Errors
    /// As [`index_digest`](Self::index_digest).
    pub fn index_fault(&self, inode: &Inode) -> Result<Option<IndexFault>> {
        let dir = self.open_dir(inode)?;
        let (mut listed, mut is_whole) = (Digest::default(), true);
        dir.read(0, &mut |entry| {
            match entry {
                Ok(entry) => listed.add(self.geo(), &entry),
                Err(_) => is_whole = false,
            }
            ControlFlow::Continue(())
        });
        let Some(indexed) = self.index_digest(inode)?.filter(|indexed| *indexed != listed) else {
            return Ok(None);
        };
        let (mut count, mut first) = (0, Vec::new());
        dir.read(0, &mut |entry| {
            let Ok(entry) = entry else { return ControlFlow::Continue(()) };
            let is_dot = matches!(entry.name, b"." | b"..");
            if !is_dot && !matches!(dir.lookup(entry.name), Ok(Some(_))) {
                if count == 0 {
                    first = entry.name.to_vec();
                }
                count += 1;
            }
            ControlFlow::Continue(())
        });
        if count > 0 {
            return Ok(Some(IndexFault::Missing { count, first }));
        }
        let is_read = is_whole && indexed.names != UNREADABLE;
        let extra = indexed.names.saturating_sub(listed.names);
        Ok((is_read && extra > 0).then_some(IndexFault::Extra { count: extra }))
    }
}
