//! A directory in memory, for tests: its inode's fork and its blocks.

use std::collections::BTreeSet;

use xfskit_format::Image;
use xfskit_units::{Daddr, FileOff, Geometry};

use crate::dir::fork::DirFork;
use crate::error::{Error, Result};
use xfskit_test_trees::dir::{self as testing, Blocks, Found, home};

/// A directory's inode and blocks.
#[derive(Clone, Debug)]
pub(crate) struct MemoryFork {
    pub(crate) geo: Geometry,
    pub(crate) short: Option<Vec<u8>>,
    pub(crate) blocks: Blocks,
    pub(crate) size: u64,
    pub(crate) capacity: usize,
    /// Blocks that there is space for.
    pub(crate) space: usize,
    /// Blocks that were looked at or changed.
    pub(crate) touched: BTreeSet<FileOff>,
}

impl MemoryFork {
    pub(crate) fn new(geo: &Geometry, capacity: usize) -> Self {
        Self {
            geo: geo.clone(),
            short: Some(vec![]),
            blocks: Blocks::new(),
            size: 0,
            capacity,
            space: usize::MAX,
            touched: BTreeSet::new(),
        }
    }

    /// Makes room for blocks that were made elsewhere.
    pub(crate) fn leave_inode_for(&mut self, size: u64) {
        (self.short, self.size) = (None, size);
    }

    /// Verifies all of it.
    pub(crate) fn verify(&self) -> Found {
        match &self.short {
            Some(bytes) => {
                assert!(self.blocks.is_empty() && self.size == bytes.len() as u64);
                assert!(bytes.len() <= self.capacity);
                testing::verify_sf(&self.geo, bytes)
            }
            None => testing::verify(&self.geo, &self.blocks, self.size),
        }
    }
}

impl DirFork for MemoryFork {
    fn short(&self) -> Option<&[u8]> {
        self.short.as_deref()
    }
    fn set_short(&mut self, bytes: &[u8]) {
        assert!(self.blocks.is_empty());
        self.short = Some(bytes.to_vec());
        self.size = bytes.len() as u64;
    }
    fn leave_inode(&mut self) {
        self.short = None;
    }
    fn capacity(&self) -> usize {
        self.capacity
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn set_size(&mut self, size: u64) {
        self.size = size;
    }
    fn bytes(&mut self, at: FileOff) -> Result<&[u8]> {
        self.touched.insert(at);
        self.blocks.get(&at).map(Vec::as_slice).ok_or(Error::Missing("such block"))
    }
    fn bytes_if_mapped(&mut self, at: FileOff) -> Result<Option<&[u8]>> {
        let bytes = self.blocks.get(&at).map(Vec::as_slice);
        self.touched.extend(bytes.map(|_| at));
        Ok(bytes)
    }
    fn image(&mut self, at: FileOff) -> Result<impl Image + '_> {
        self.touched.insert(at);
        self.blocks.get_mut(&at).map(Vec::as_mut_slice).ok_or(Error::Missing("such block"))
    }
    fn is_mapped(&mut self, at: FileOff) -> Result<bool> {
        Ok(self.blocks.contains_key(&at))
    }
    fn daddr(&mut self, at: FileOff) -> Result<Daddr> {
        Ok(home(at))
    }
    fn end(&mut self) -> Result<FileOff> {
        let last = self.blocks.keys().last().copied().unwrap_or_default();
        Ok(last.saturating_add(self.geo.dirblkfsbs().into()))
    }
    fn map(&mut self, at: FileOff) -> Result<()> {
        if self.blocks.len() >= self.space {
            return Err(Error::NoSpace("blocks"));
        }
        match self.blocks.insert(at, vec![0; self.geo.dirblksize()]) {
            None => Ok(()),
            Some(_) => Err(Error::Missing("hole there")),
        }
    }
    fn unmap(&mut self, at: FileOff) -> Result<()> {
        self.blocks.remove(&at).map(drop).ok_or(Error::Missing("such block"))
    }
}
