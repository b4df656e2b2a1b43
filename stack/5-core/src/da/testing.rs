//! An attribute fork in memory, for tests.

use std::collections::{HashMap, HashSet};

use xfskit_format::Image;
use xfskit_test_trees::attr::home;
use xfskit_units::{DaBlock, Daddr};

use crate::da::tree::DaBlocks;
use crate::error::Result;

/// A fork in memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) blocks: HashMap<DaBlock, Vec<u8>>,
    len: usize,
    free: Vec<DaBlock>,
    /// Blocks that were accessed since the last check.
    pub(crate) touched: HashSet<DaBlock>,
}

impl Memory {
    /// Returns a fork with one block, `root`.
    pub(crate) fn new(at: DaBlock, root: Vec<u8>) -> Self {
        let len = root.len();
        Self { blocks: HashMap::from([(at, root)]), len, free: Vec::new(), touched: HashSet::new() }
    }
}

impl DaBlocks for Memory {
    fn bytes(&mut self, dablk: DaBlock) -> Result<&[u8]> {
        self.touched.insert(dablk);
        Ok(&self.blocks[&dablk])
    }
    fn image(&mut self, dablk: DaBlock) -> Result<impl Image + '_> {
        self.touched.insert(dablk);
        Ok(self.blocks.get_mut(&dablk).expect("a block of the fork").as_mut_slice())
    }
    fn daddr(&mut self, dablk: DaBlock) -> Result<Daddr> {
        Ok(home(dablk))
    }
    fn grow(&mut self) -> Result<DaBlock> {
        let free = self.free.pop().unwrap_or_else(|| {
            let above = self.blocks.keys().max().map_or(0, |last| last.0 + 1);
            DaBlock(above)
        });
        self.blocks.insert(free, vec![0xee; self.len]);
        Ok(free)
    }
    fn shrink(&mut self, dablk: DaBlock) -> Result<()> {
        self.blocks.remove(&dablk).expect("a block of the fork");
        self.free.push(dablk);
        Ok(())
    }
}
