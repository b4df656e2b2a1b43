//! Attributes in blocks of their own, changed in a transaction.
//!
//! A value too large for its leaf is written to the device at once and not logged. This is safe
//! because its blocks were free until now, and the checkpoint that makes its entry durable flushes
//! the device before.

use xfskit_format::attr::leaf::{Attr, AttrValue, Leaf};
use xfskit_format::attr::leaf_edit::{self, Item};
use xfskit_format::attr::sf::Entry;
use xfskit_format::attr::{remote, remote_edit, sf_edit};
use xfskit_format::da_edit::Identity;
use xfskit_format::{Ctx, Fork, Layout, Location, da};
use xfskit_trans::BufMap;
use xfskit_units::{DaBlock, FilBlks, FileOff, Sectors};

use crate::attr::blocks::TxBlocks;
use crate::attr::change::{Key, SetMode};
use crate::attr::leaves::AttrLeaves;
use crate::bmap::BUNMAP_MAX;
use crate::da::tree::{DaBlocks, Path, Tree};
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

pub(super) const ROOT: DaBlock = DaBlock(0);
/// Maximum number of blocks that one transaction frees: each is an object of the transaction.
pub(super) const DROP_MAX: u64 = 128;

/// The position of an attribute.
struct Found {
    path: Path,
    /// The index of its entry in the leaf at the end of `path`.
    index: usize,
    /// The blocks of its own that its value has.
    remote: Option<(DaBlock, u32)>,
    /// Bytes that it takes in its leaf.
    size: usize,
}

/// The result of a search for an attribute.
enum Search {
    Found(Found),
    /// It does not exist: the path to the first leaf that may have it.
    Missing(Path),
}

/// Bytes at the beginning of a leaf that a search may read: the header, and entries of attributes
/// that take 64 bytes each.
const ENTRIES: usize = 640;
/// Bytes of a line of the processor's cache.
const LINE: usize = 64;

/// Loads the entries of a leaf into the processor's cache, all lines at once. A binary search would
/// load one after the other, and each waits for memory where the fork is larger than the
/// cache.
fn load_entries(leaf: &[u8]) {
    let lines = leaf.iter().take(ENTRIES).step_by(LINE);
    std::hint::black_box(lines.fold(0, |all, byte| all | byte));
}

/// Searches for an attribute.
fn search(tree: &mut Tree<'_, TxBlocks<'_, '_>>, key: Key<'_>) -> Result<Search> {
    let geo = tree.geo();
    let place = AttrValue::Local(key.value.unwrap_or(&[]));
    let hash = Attr { flags: key.namespace.flags(), name: key.name, value: place }.hash(geo);
    let mut path = tree.find(hash)?;
    let mut first = None;
    loop {
        let bytes = tree.blocks.bytes(path.leaf())?;
        load_entries(bytes);
        let Some(leaf) = Leaf::parse(bytes, geo) else { break };
        let start = leaf.first_of(hash);
        for (ahead, attr) in leaf.run_from(start, hash).enumerate() {
            let (local, remote) = match attr.value {
                AttrValue::Local(value) => (Some(value), None),
                AttrValue::Remote { valueblk, valuelen } => (None, Some((valueblk, valuelen))),
            };
            if !attr.is_incomplete() && key.matches(attr.flags, attr.name, local) {
                let (index, size) = (start + ahead, attr.size());
                return Ok(Search::Found(Found { path, index, remote, size }));
            }
        }
        if leaf.last_hash() != Some(hash) {
            break;
        }
        first.get_or_insert_with(|| path.clone());
        if !tree.advance(&mut path)? {
            break;
        }
    }
    Ok(Search::Missing(first.unwrap_or(path)))
}

/// Replaces `old` by `item`, which has the same hash.
fn replace(tree: &mut Tree<'_, TxBlocks<'_, '_>>, old: &Found, item: Item<'_>) -> Result<()> {
    let geo = tree.geo();
    let leaf = old.path.leaf();
    if leaf_edit::replace(&mut tree.blocks.image(leaf)?, geo, old.index, item) {
        return Ok(());
    }
    leaf_edit::remove(&mut tree.blocks.image(leaf)?, geo, old.index);
    tree.insert::<AttrLeaves>(old.path.clone(), item)?;
    if item.size < old.size {
        let path = tree.find(item.hash)?;
        return tree.removed::<AttrLeaves>(path);
    }
    Ok(())
}

impl Tx<'_> {
    pub(super) fn tree_get(&mut self, inode: TxInode, key: Key<'_>) -> Result<Option<Vec<u8>>> {
        let geo = self.volume().geo();
        let mut blocks = TxBlocks::new(self, inode);
        let mut tree = Tree::new(geo, Fork::Attr, inode.ino, &mut blocks);
        let Search::Found(found) = search(&mut tree, key)? else { return Ok(None) };
        if let Some((valueblk, valuelen)) = found.remote {
            return self.read_value(inode, valueblk, valuelen).map(Some);
        }
        let leaf = Leaf::parse(tree.blocks.bytes(found.path.leaf())?, geo);
        let attr = leaf.and_then(|leaf| leaf.attr(leaf.entries.get(found.index)?));
        Ok(attr.and_then(|attr| match attr.value {
            AttrValue::Local(value) => Some(value.to_vec()),
            AttrValue::Remote { .. } => None,
        }))
    }

    /// Makes the root of a fork without blocks: an empty leaf, which must not stay empty.
    pub(super) fn tree_init(&mut self, inode: TxInode) -> Result<()> {
        let geo = self.volume().geo();
        let mut blocks = TxBlocks::new(self, inode);
        let root = blocks.grow()?;
        let id = Identity { owner: inode.ino, daddr: blocks.daddr(root)? };
        leaf_edit::init(&mut blocks.image(root)?, geo, id);
        Ok(())
    }

    pub(super) fn tree_put(
        &mut self,
        inode: TxInode,
        key: Key<'_>,
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        let geo = self.volume().geo();
        let mut blocks = TxBlocks::new(self, inode);
        let old = search(&mut Tree::new(geo, Fork::Attr, inode.ino, &mut blocks), key)?;
        mode.verify(matches!(old, Search::Found(_)))?;
        let flags = key.namespace.flags();
        let place = if leaf_edit::is_remote(geo, key.name.len(), value.len()) {
            self.write_value(inode, value)?
        } else {
            AttrValue::Local(value)
        };
        let attr = Attr { flags, name: key.name, value: place };
        let item = Item::new(geo, &attr);
        let mut blocks = TxBlocks::new(self, inode);
        let mut tree = Tree::new(geo, Fork::Attr, inode.ino, &mut blocks);
        match old {
            Search::Missing(path) => tree.insert::<AttrLeaves>(path, item),
            Search::Found(old) => {
                replace(&mut tree, &old, item)?;
                self.free_value(inode, old.remote)
            }
        }
    }

    /// Removes an attribute. Returns true if one leaf holds all that are left.
    pub(super) fn tree_take(&mut self, inode: TxInode, key: Key<'_>) -> Result<bool> {
        let geo = self.volume().geo();
        let mut blocks = TxBlocks::new(self, inode);
        let mut tree = Tree::new(geo, Fork::Attr, inode.ino, &mut blocks);
        let Search::Found(found) = search(&mut tree, key)? else { return Err(Error::NoEntry) };
        leaf_edit::remove(&mut tree.blocks.image(found.path.leaf())?, geo, found.index);
        tree.removed::<AttrLeaves>(found.path)?;
        let one_leaf = da::magic(tree.blocks.bytes(ROOT)?) == Some(Layout::V5.attr_leaf_magic);
        self.free_value(inode, found.remote)?;
        Ok(one_leaf)
    }

    // ---- back to the inode -------------------------------------------------------------------

    /// Returns the attributes as a short form; `None` if they are in more than one leaf, or one of
    /// them does not fit into a short form.
    pub(super) fn tree_as_short_form(&mut self, inode: TxInode) -> Result<Option<Vec<u8>>> {
        let geo = self.volume().geo();
        // Leftovers of an interrupted change of Linux are kept for the clean-up.
        let several = self.core(inode).anextents() > 1;
        if several || self.bmap_end(inode, Fork::Attr)? != FileOff(1) {
            return Ok(None);
        }
        let mut blocks = TxBlocks::new(self, inode);
        let bytes = blocks.bytes(ROOT)?;
        if da::magic(bytes) != Some(Layout::V5.attr_leaf_magic) {
            return Ok(None);
        }
        let Some(leaf) = Leaf::parse(bytes, geo) else { return Ok(None) };
        if leaf_edit::used(&leaf) > 2 * geo.inodesize() {
            return Ok(None);
        }
        let entries: Option<Vec<Entry<'_>>> = leaf
            .attrs()
            .map(|attr| match attr.value {
                AttrValue::Local(value) if !attr.is_incomplete() => {
                    let namespace = attr.namespace()?;
                    Some(Entry { flags: namespace.flags(), name: attr.name, value })
                }
                _ => None,
            })
            .collect();
        Ok(entries.and_then(sf_edit::build))
    }

    /// Frees the only block of a fork.
    pub(super) fn tree_drop(&mut self, inode: TxInode) -> Result<()> {
        TxBlocks::new(self, inode).shrink(ROOT)
    }

    /// Frees the last blocks of a fork whose attributes are deleted; returns true if none are left.
    pub(super) fn tree_drop_part(&mut self, inode: TxInode) -> Result<bool> {
        let geo = self.volume().geo();
        let mut blocks = TxBlocks::new(self, inode);
        let id = Identity { owner: inode.ino, daddr: blocks.daddr(ROOT)? };
        leaf_edit::init(&mut blocks.image(ROOT)?, geo, id);
        let mut left = DROP_MAX;
        for _ in 0..BUNMAP_MAX {
            let last = self.bmap_before(inode, Fork::Attr, FileOff(u64::MAX))?;
            let Some(last) = last else { return Ok(true) };
            let len = last.blockcount.0.min(left);
            left = left.saturating_sub(len);
            let first = last.end().0.saturating_sub(len);
            for dablk in first..last.end().0 {
                let dablk = DaBlock(u32::try_from(dablk).unwrap_or(u32::MAX));
                let (map, _) = self.attr_block(inode, dablk, "attribute fork")?;
                self.invalidate_at(&map)?;
            }
            self.bunmap_some(inode, Fork::Attr, FileOff(first), FilBlks(len))?;
            if left == 0 {
                break;
            }
        }
        Ok(self.bmap_end(inode, Fork::Attr)? == FileOff::ZERO)
    }

    // ---- values in blocks of their own -------------------------------------------------------

    /// Returns the single blocks that hold `len` blocks of a value from `valueblk` on.
    fn value_maps(
        &self,
        inode: TxInode,
        valueblk: DaBlock,
        len: u32,
    ) -> Result<Vec<(BufMap, Location)>> {
        let block = |n| self.attr_block(inode, valueblk.saturating_add(n), "attribute value");
        (0..len).map(block).collect()
    }

    /// Writes `value` to blocks of its own.
    fn write_value<'p>(&mut self, inode: TxInode, value: &[u8]) -> Result<AttrValue<'p>> {
        let geo = self.volume().geo();
        let valuelen = u32::try_from(value.len()).unwrap_or(u32::MAX);
        let len = remote::blocks(geo, valuelen);
        let valueblk = self.grow_attr_fork(inode, len)?;
        let mut runs: Vec<(Location, Vec<u8>)> = Vec::new();
        for (n, (map, at)) in (0..).zip(self.value_maps(inode, valueblk, len)?) {
            let Some(daddr) = at.daddr else { continue };
            let mut block = vec![0; geo.blocksize()];
            let id = Identity { owner: inode.ino, daddr };
            remote_edit::fill(&mut block, geo, id, value, n);
            match runs.last_mut() {
                Some((run, bytes))
                    if run.daddr.and_then(|d| d.checked_add(run.sectors.0)) == Some(daddr) =>
                {
                    bytes.extend(&block);
                    run.sectors = Sectors(run.sectors.0.saturating_add(at.sectors.0));
                }
                _ => runs.push((at, block.clone())),
            }
            self.unlogged(&map, block.into())?;
        }
        for (at, bytes) in runs {
            let offset = at.daddr.unwrap_or_default().byte_offset();
            self.engine().device().write_at(offset, &bytes)?;
        }
        Ok(AttrValue::Remote { valueblk, valuelen })
    }

    fn read_value(&mut self, inode: TxInode, valueblk: DaBlock, valuelen: u32) -> Result<Vec<u8>> {
        let len = remote::blocks(self.volume().geo(), valuelen);
        let mut value = Vec::new();
        for (map, at) in self.value_maps(inode, valueblk, len)? {
            let offset = u32::try_from(value.len()).unwrap_or(u32::MAX);
            let verify = |bytes: &[u8], ctx: &Ctx<'_>| {
                remote::verify(bytes, ctx, offset, valuelen).map(drop)
            };
            let ctx = self.volume().ctx(at);
            let buf = self.peek(&map, &ctx, &verify)?;
            value.extend(remote::verify(&buf, &ctx.crc_known(), offset, valuelen)?);
        }
        Ok(value)
    }

    /// Frees the blocks of a value.
    fn free_value(&mut self, inode: TxInode, remote: Option<(DaBlock, u32)>) -> Result<()> {
        let Some((valueblk, valuelen)) = remote else { return Ok(()) };
        let len = remote::blocks(self.volume().geo(), valuelen);
        self.bunmap(inode, Fork::Attr, FileOff(valueblk.0.into()), FilBlks(len.into()))
    }
}
