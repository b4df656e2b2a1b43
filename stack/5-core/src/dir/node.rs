//! The node form: many leaves below a hash tree, and a free index.

use xfskit_format::dir::free::Free;
use xfskit_format::dir::leaf::{Kind, Leaf};
use xfskit_format::dir::{DataPtr, Entry, NULLDATAOFF, free_edit, free_max, leaf_edit};
use xfskit_format::{Fork, Layout, da};
use xfskit_units::FileOff;
use zerocopy::big_endian::U16;

use crate::da::tree::{Path, Tree};
use crate::dir::fork::{DirFork, TreeBlocks, tree_at};
use crate::dir::leaves::DirLeaves;
use crate::dir::names::{EntryPosition, EntryTarget, Names, parse_leaf};
use crate::error::{Error, Result};

/// A name, found through the tree.
#[derive(Debug)]
pub(crate) struct NodeEntryPosition {
    /// The path to its leaf.
    path: Path,
    /// The index of its entry there.
    index: usize,
    pub(crate) position: EntryPosition,
}

/// The slot of one data block in the free index.
struct FreeSlot {
    db: u32,
    /// The block of the free index, and the slot there.
    at: FileOff,
    slot: usize,
}

impl<F: DirFork> Names<'_, F> {
    /// Runs a closure on the tree.
    pub(crate) fn tree<T>(
        &mut self,
        work: impl FnOnce(&mut Tree<'_, TreeBlocks<'_, F>>) -> Result<T>,
    ) -> Result<T> {
        let from = &mut self.free_index.tree_from;
        let mut blocks = TreeBlocks { geo: self.geo, fork: &mut *self.fork, from };
        work(&mut Tree::new(self.geo, Fork::Data, self.ino, &mut blocks))
    }

    /// Returns the path to the leaf for `name` with its `hash`, and `name` itself if it exists.
    pub(crate) fn node_find(
        &mut self,
        hash: u32,
        name: &[u8],
    ) -> Result<(Path, Option<NodeEntryPosition>)> {
        let geo = self.geo;
        let mut path = self.tree(|tree| tree.find(hash))?;
        // The path to the first leaf, once the search continues to the next.
        let mut first = None;
        loop {
            let leaf = parse_leaf(self.fork.bytes(tree_at(path.leaf()))?, geo)?;
            let goes_on = leaf.last_hash().is_none_or(|last| last <= hash);
            let run = leaf.run_range(hash);
            if let ([first, ..], Some(last)) = (leaf.lents, leaf.last_hash()) {
                self.free_index.leaves.note((first.hashval.get(), last), path.leaf());
            }
            if let Some((index, position)) = self.first_match(tree_at(path.leaf()), run, name)? {
                let first = first.unwrap_or_else(|| path.clone());
                return Ok((first, Some(NodeEntryPosition { path, index, position })));
            }
            if !goes_on {
                return Ok((first.unwrap_or(path), None));
            }
            let here = path.clone();
            let is_last = !self.tree(|tree| tree.advance(&mut path))?;
            let first = first.get_or_insert(here);
            if is_last {
                return Ok((first.clone(), None));
            }
        }
    }

    /// Adds `entry`; its `hash` goes to the leaf at the end of `path`.
    pub(crate) fn node_create(&mut self, entry: &Entry<'_>, hash: u32, path: Path) -> Result<()> {
        let lent = leaf_edit::entry(hash, self.place(entry)?);
        self.tree(|tree| tree.insert::<DirLeaves>(path, lent))
    }

    /// Adds `entry` to a data block; returns its position.
    pub(crate) fn place(&mut self, entry: &Entry<'_>) -> Result<DataPtr> {
        let slot = self.block_with_room(self.len_of(entry))?;
        let (ptr, best) = self.add_to(slot.db, entry)?;
        self.set_free(slot, best)?;
        Ok(ptr)
    }

    /// Removes the entry of `name` from its data block.
    pub(crate) fn vacate(&mut self, position: &EntryPosition, name: &[u8]) -> Result<()> {
        let best = self.take_from(position, name)?;
        let db = DataPtr::new(self.geo, position.at, 0).map_or(0, |ptr| ptr.db(self.geo));
        self.set_free(self.free_slot(db), best)?;
        if best == NULLDATAOFF && db + 1 == self.data_blocks() {
            self.trim_size()?;
        }
        self.free_index.set(db, (best != NULLDATAOFF).then_some(best));
        Ok(())
    }

    /// Removes `name`.
    pub(crate) fn node_remove(&mut self, name: &[u8]) -> Result<EntryTarget> {
        let geo = self.geo;
        let found = self.node_find(self.hash(name), name)?.1.ok_or(Error::NoEntry)?;
        self.vacate(&found.position, name)?;
        leaf_edit::remove(&mut self.fork.image(tree_at(found.path.leaf()))?, geo, found.index);
        self.tree(|tree| tree.removed::<DirLeaves>(found.path))?;
        self.node_to_leaf()?;
        Ok(found.position.target)
    }

    pub(crate) fn node_is_empty(&mut self) -> Result<bool> {
        let geo = self.geo;
        let mut path = self.tree(|tree| tree.find(0))?;
        let mut live = 0;
        loop {
            live +=
                leaf_edit::live_count(&parse_leaf(self.fork.bytes(tree_at(path.leaf()))?, geo)?);
            if live > 2 || !self.tree(|tree| tree.advance(&mut path))? {
                return Ok(live <= 2);
            }
        }
    }

    // ---- the free index ----------------------------------------------------------------------

    /// Returns the slot of data block `db` in the free index.
    fn free_slot(&self, db: u32) -> FreeSlot {
        let max = free_max(self.geo);
        let (number, slot) = (db as usize / max, db as usize % max);
        let start = number as u64 * u64::from(self.geo.dirblkfsbs());
        FreeSlot { db, at: FileOff(u64::from(self.geo.dir_freeblk().0) + start), slot }
    }

    /// Returns a data block's longest unused space in the free index; `None` if the block does not
    /// exist.
    fn free(&mut self, slot: &FreeSlot) -> Result<Option<u16>> {
        let best = self.bests(slot.at)?.get(slot.slot).map(|best| best.get());
        Ok(best.filter(|best| *best != NULLDATAOFF))
    }

    /// Returns the slots of the free index block at `at`; none if there is no such block.
    fn bests(&mut self, at: FileOff) -> Result<&[U16]> {
        let geo = self.geo;
        let free = self.fork.bytes_if_mapped(at)?.and_then(|bytes| Free::parse(bytes, geo));
        Ok(free.map_or(&[], |free| free.fbests))
    }

    /// Sets a data block's longest unused space in the free index.
    fn set_free(&mut self, FreeSlot { db, at, slot }: FreeSlot, best: u16) -> Result<()> {
        let geo = self.geo;
        if !self.fork.is_mapped(at)? {
            self.fork.map(at)?;
            let id = self.id(at)?;
            let firstdb = db - u32::try_from(slot).unwrap_or(0);
            free_edit::init(&mut self.fork.image(at)?, geo, id, firstdb, &[]);
        }
        let used = free_edit::set_best(&mut self.fork.image(at)?, geo, slot, best);
        if used == Some(0) {
            self.fork.unmap(at)?;
        }
        Ok(())
    }

    /// Reads the free index into [`FreeSpaceIndex`](crate::dir_cache::FreeSpaceIndex).
    fn learn_room(&mut self) -> Result<()> {
        for db in (0..self.data_blocks()).step_by(free_max(self.geo)) {
            let bests = self.bests(self.free_slot(db).at)?.to_vec();
            for (db, best) in (db..).zip(bests) {
                self.free_index.set(db, Some(best.get()).filter(|best| *best != NULLDATAOFF));
            }
        }
        self.free_index.known = true;
        Ok(())
    }

    /// Returns a data block with `need` contiguous unused bytes: an existing one, else a new one.
    fn block_with_room(&mut self, need: usize) -> Result<FreeSlot> {
        if !self.free_index.known {
            self.learn_room()?;
        }
        loop {
            let guess =
                self.free_index.find(need).or_else(|| self.free_index.hole(self.data_blocks()));
            let db = guess.unwrap_or_else(|| self.data_blocks());
            let slot = self.free_slot(db);
            match self.free(&slot)? {
                Some(best) if usize::from(best) >= need => return Ok(slot),
                None => {
                    self.new_data_block(db)?;
                    let whole = xfskit_format::dir::data_edit::longest_when_empty(self.geo);
                    self.free_index.set(db, Some(whole));
                    return Ok(slot);
                }
                best => {
                    self.agree("dir.free.nvalid", slot.at, guess.is_some())?;
                    self.free_index.set(db, best);
                }
            }
        }
    }

    /// Sets the size after the last data block was freed, to the end of the last one that is left.
    fn trim_size(&mut self) -> Result<()> {
        let mut end = self.data_blocks();
        while end > 0 {
            let FreeSlot { at, slot, .. } = self.free_slot(end - 1);
            let start = end - 1 - u32::try_from(slot).unwrap_or(0);
            let bests = self.bests(at)?;
            let below = bests.get(..slot + 1).unwrap_or(bests);
            let last = below.iter().rposition(|best| best.get() != NULLDATAOFF);
            if let Some(last) = last {
                end = start + u32::try_from(last).unwrap_or(0) + 1;
                break;
            }
            end = start;
        }
        self.set_data_blocks(end.max(1));
        Ok(())
    }

    // ---- to leaf form and back ---------------------------------------------------------------

    /// Moves the table of free space to blocks of its own. Returns the path to the leaf for `hash`.
    pub(crate) fn leaf_to_node(&mut self, hash: u32) -> Result<Path> {
        let (geo, root, free) = (self.geo, self.root(), self.free_slot(0).at);
        let bests = parse_leaf(self.fork.bytes(root)?, geo)?.lbests.to_vec();
        leaf_edit::to_leafn(&mut self.fork.image(root)?);
        self.fork.map(free)?;
        let id = self.id(free)?;
        free_edit::init(&mut self.fork.image(free)?, geo, id, 0, &bests);
        self.free_index.known = false;
        self.tree(|tree| tree.find(hash))
    }

    /// Moves the free index behind the entries of the only leaf, if there is one leaf and the index
    /// fits.
    pub(crate) fn node_to_leaf(&mut self) -> Result<()> {
        let (geo, root, free) = (self.geo, self.root(), self.free_slot(0).at);
        if da::magic(self.fork.bytes(root)?) != Some(Layout::V5.dir_leafn_magic) {
            return Ok(());
        }
        let end = free.0 + u64::from(geo.dirblkfsbs());
        if self.data_blocks() as usize > free_max(geo) || self.fork.end()?.0 > end {
            return Ok(());
        }
        let bests = Free::parse(self.fork.bytes(free)?, geo).map_or(&[][..], |free| free.fbests);
        let used = bests.iter().rposition(|best| best.get() != NULLDATAOFF);
        let bests: Vec<U16> = bests.iter().take(used.map_or(0, |last| last + 1)).copied().collect();
        let leaf = parse_leaf(self.fork.bytes(root)?, geo)?;
        if !leaf_fits(&leaf, geo.dirblksize(), &bests) {
            return Ok(());
        }
        leaf_edit::compact(&mut self.fork.image(root)?, geo);
        leaf_edit::to_leaf1(&mut self.fork.image(root)?, geo, &bests);
        self.fork.unmap(free)?;
        *self.free_index = crate::dir_cache::FreeSpaceIndex::default();
        self.leaf_to_block()
    }
}

/// Returns true if the live entries of `leaf` and `bests` fit one block of `len` bytes, as a leaf1.
fn leaf_fits(leaf: &Leaf<'_>, len: usize, bests: &[U16]) -> bool {
    debug_assert_eq!(leaf.kind, Kind::LeafN);
    let entries = leaf_edit::live_count(leaf) * 8;
    Layout::V5.dir_leaf_header + entries + size_of_val(bests) + 4 <= len
}
