//! Direct access to the leaf of the hash tree for a name, without reading root, nodes or the
//! directory's form.
//!
//! [`Leaves`](crate::dir_cache::Leaves) caches the hash at which leaves begin, as seen by earlier
//! descents through the tree.
//!
//! 1. A cached position is a hint. It is verified on the block itself, which the transaction holds:
//!    the block must be a leaf of a hash tree, with entries of lower and of higher hashes. Leaves
//!    are in the order of their entries. All entries of a hash in between are therefore in this
//!    leaf, and a new one belongs there too. A block that is mapped and such a leaf is part of the
//!    tree, so the directory is in node form.
//! 2. Only changes that concern the leaf alone are made here: an added entry that fits and leaves
//!    the last entry as it is, because the nodes repeat its hash; and a removed entry where enough
//!    are left. All other changes descend through the tree, which records the leaf in `Leaves`.
//! 3. Transactions are undone without updating the cache, and leaves are rebalanced or removed. The
//!    hint is wrong then, and a descent through the tree finds a better one.

use std::ops::Range;

use xfskit_format::dir::leaf::{Leaf, LeafEntry};
use xfskit_format::dir::{Entry, leaf_edit};
use xfskit_format::{Fork, Image, Layout};
use xfskit_units::FileOff;

use crate::da::tree;
use crate::dir::fork::{DirFork, tree_at};
use crate::dir::leaves::DirLeaves;
use crate::dir::names::{EntryPosition, EntryTarget, Names};
use crate::error::{Error, Result};

/// The leaf of a name's hash, found without the tree.
#[derive(Debug)]
pub(crate) struct Direct {
    hash: u32,
    pub(super) leaf: FileOff,
    /// Its entries with that hash.
    run: Range<usize>,
    /// A new entry may replace a stale one, which may be the last.
    may_move_last: bool,
}

impl<F: DirFork> Names<'_, F> {
    /// Returns the leaf for `name` from the cache; `None` if the tree must be searched.
    pub(crate) fn direct(&mut self, name: &[u8]) -> Result<Option<Direct>> {
        if self.free_index.leaves.0.is_empty() {
            return Ok(None);
        }
        let (geo, hash) = (self.geo, self.hash(name));
        let Some(leaf) = self.free_index.leaves.guess(hash).map(tree_at) else { return Ok(None) };
        let found = self.fork.bytes_if_mapped(leaf)?.and_then(|bytes| Leaf::parse(bytes, geo));
        let Some(Leaf { info, stale, lents, .. }) = found else { return Ok(None) };
        let hash_of = |entry: Option<&LeafEntry>| entry.map_or(hash, |e| e.hashval.get());
        let is_leaf = info.magic.get() == Layout::V5.dir_leafn_magic;
        if !is_leaf || hash_of(lents.first()) >= hash || hash_of(lents.last()) <= hash {
            return Ok(None);
        }
        let last_is_stale = stale > 0 && lents.last().is_some_and(|last| last.dataptr().is_none());
        let run = xfskit_format::dir::leaf::run_range(lents, hash);
        Ok(Some(Direct { hash, leaf, run, may_move_last: last_is_stale }))
    }

    /// Returns the entry of `name`, if it exists: its index in the leaf, and the entry.
    pub(crate) fn direct_find(
        &mut self,
        direct: &Direct,
        name: &[u8],
    ) -> Result<Option<(usize, EntryPosition)>> {
        self.first_match(direct.leaf, direct.run.clone(), name)
    }

    /// Adds `entry`, unless its name exists.
    pub(crate) fn direct_create(&mut self, direct: &Direct, entry: &Entry<'_>) -> Result<()> {
        let (geo, hash) = (self.geo, direct.hash);
        if self.direct_find(direct, entry.name)?.is_some() {
            return Err(Error::Exists);
        }
        let lent = leaf_edit::entry(hash, self.place(entry)?);
        let done = !direct.may_move_last
            && leaf_edit::insert_at(&mut self.fork.image(direct.leaf)?, geo, direct.run.end, lent);
        if done {
            return Ok(());
        }
        self.tree(|tree| {
            let path = tree.find(hash)?;
            tree.insert::<DirLeaves>(path, lent)
        })
    }

    /// Removes `name`.
    pub(crate) fn direct_remove(&mut self, direct: &Direct, name: &[u8]) -> Result<EntryTarget> {
        let (geo, root) = (self.geo, self.root());
        let (index, position) = self.direct_find(direct, name)?.ok_or(Error::NoEntry)?;
        self.vacate(&position, name)?;
        let mut leaf = self.fork.image(direct.leaf)?;
        leaf_edit::remove(&mut leaf, geo, index);
        let stays = tree::needs_no_help::<DirLeaves>(leaf.bytes(), geo, Fork::Data);
        drop(leaf);
        if direct.leaf == root || !stays {
            self.tree(|tree| {
                let path = tree.find(direct.hash)?;
                tree.removed::<DirLeaves>(path)
            })?;
            self.node_to_leaf()?;
        }
        Ok(position.target)
    }
}

#[cfg(test)]
mod tests;
