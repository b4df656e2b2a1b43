//! Builds a whole attribute fork.
//!
//! ```text
//! fork block   0      1 … leaves   … nodes, lower levels first   … values of their own
//!              root   (with a single leaf the root is that leaf)
//! ```
//!
//! Entries are distributed evenly over the leaves. A tree of four leaves or more has none under two
//! thirds unless its entries are very large. Runs of one hash stay in one leaf where they fit.

use std::borrow::Cow;

use xfskit_format::attr::forkoff::{self, DataNeed};
use xfskit_format::attr::leaf::{Attr, AttrValue};
use xfskit_format::attr::leaf_edit::{self, Item};
use xfskit_format::attr::{Namespace, VALUE_MAX, parent, remote, remote_edit, sf, sf_edit};
use xfskit_format::da_cuts::Cut;
use xfskit_format::da_edit::{self, Identity};
use xfskit_format::{Fork, da, da_cuts};
use xfskit_units::{DaBlock, Daddr, Geometry, Ino};
use zerocopy::IntoBytes;

/// An attribute to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAttr<'a> {
    /// The namespace of the name.
    pub namespace: Namespace,
    /// 1 to 255 bytes, without the namespace's prefix.
    pub name: Cow<'a, [u8]>,
    /// The value, at most 65536 bytes.
    pub value: Cow<'a, [u8]>,
}

impl<'a> NewAttr<'a> {
    /// Makes the parent pointer for the name `name` in directory `parent`, of generation
    /// `generation`. For volumes with parent pointers.
    pub fn parent(parent: Ino, generation: u32, name: impl Into<Cow<'a, [u8]>>) -> Self {
        let rec = parent::Rec { p_ino: parent.0.into(), p_gen: generation.into() };
        let value = Cow::Owned(rec.as_bytes().to_vec());
        Self { namespace: Namespace::Parent, name: name.into(), value }
    }

    fn is_remote(&self, geo: &Geometry) -> bool {
        leaf_edit::is_remote(geo, self.name.len(), self.value.len())
    }

    /// Returns the attribute in the form of its leaf. A value of its own is at `valueblk`.
    fn attr(&self, geo: &Geometry, valueblk: DaBlock) -> Attr<'_> {
        let value = if self.is_remote(geo) {
            let valuelen = u32::try_from(self.value.len()).unwrap_or(u32::MAX);
            AttrValue::Remote { valueblk, valuelen }
        } else {
            AttrValue::Local(&self.value)
        };
        Attr { flags: self.namespace.flags(), name: &self.name, value }
    }

    /// Returns the number of blocks of its own that the value takes.
    fn value_blocks(&self, geo: &Geometry) -> u32 {
        if !self.is_remote(geo) {
            return 0;
        }
        remote::blocks(geo, u32::try_from(self.value.len()).unwrap_or(u32::MAX))
    }
}

/// The reason why attributes cannot be stored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The data fork must be smaller, or move out of the inode.
    #[error("beside attributes a data fork has at most {data_max} bytes of the inode")]
    DataFork {
        /// Its maximum size, in bytes.
        data_max: usize,
    },
    /// A name is empty, longer than 255 bytes, or holds a NUL.
    #[error("an attribute's name is empty, too long, or holds a NUL")]
    Name,
    /// A value is longer than 65536 bytes.
    #[error("an attribute's value is longer than 65536 bytes")]
    Value,
    /// Two attributes have one name.
    #[error("two attributes have one name")]
    Duplicate,
    /// More blocks than a fork can have.
    #[error("the attributes take more blocks than a fork can have")]
    TooMany,
}

/// The plan for the attributes of one inode.
#[derive(Debug)]
pub struct AttrPlan<'a> {
    /// The inode's `forkoff`: 0 without attributes.
    pub forkoff: u8,
    /// The attribute fork.
    pub form: AttrForm<'a>,
}

/// The form of an attribute fork.
#[derive(Debug)]
pub enum AttrForm<'a> {
    /// Nothing: there are no attributes.
    None,
    /// These bytes, in the inode. Format local.
    Short(Vec<u8>),
    /// Blocks of the attribute fork, from its block 0 on without a hole. Format extents or btree.
    Blocks(Box<AttrBlocks<'a>>),
}

impl<'a> AttrPlan<'a> {
    /// Plans how inode `ino`, whose data fork has this `need`, stores `attrs`, in any order.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(
        geo: &'a Geometry,
        ino: Ino,
        mut attrs: Vec<NewAttr<'a>>,
        need: DataNeed,
    ) -> Result<Self, PlanError> {
        if attrs.is_empty() {
            return Ok(Self { forkoff: 0, form: AttrForm::None });
        }
        verify(&attrs)?;
        attrs.sort_by(|a, b| key(a).cmp(&key(b)));
        if attrs.windows(2).any(|pair| same(&pair[0], &pair[1])) {
            return Err(PlanError::Duplicate);
        }
        if let Some(plan) = Self::short(geo, &attrs, need) {
            return Ok(plan);
        }
        let data_max = forkoff::data_max(geo);
        let forkoff = forkoff::for_blocks(geo, need).ok_or(PlanError::DataFork { data_max })?;
        let blocks = AttrBlocks::new(geo, ino, attrs)?;
        Ok(Self { forkoff, form: AttrForm::Blocks(Box::new(blocks)) })
    }

    fn short(geo: &Geometry, attrs: &[NewAttr<'_>], need: DataNeed) -> Option<Self> {
        let lens = attrs.iter().map(|attr| sf_edit::entry_len(&attr.name, &attr.value));
        if lens.sum::<usize>() > forkoff::literal_len(geo) {
            return None;
        }
        let list = sf_edit::build(attrs.iter().map(|attr| sf::Entry {
            flags: attr.namespace.flags(),
            name: &attr.name,
            value: &attr.value,
        }))?;
        let forkoff = forkoff::choose(geo, need, list.len())?;
        Some(Self { forkoff, form: AttrForm::Short(list) })
    }
}

fn verify(attrs: &[NewAttr<'_>]) -> Result<(), PlanError> {
    for attr in attrs {
        if !(1..=255).contains(&attr.name.len()) || attr.name.contains(&0) {
            return Err(PlanError::Name);
        }
        if attr.value.len() as u64 > VALUE_MAX.into() {
            return Err(PlanError::Value);
        }
    }
    Ok(())
}

/// Returns the sort key of short forms, and of entries with one hash.
fn key<'k>(attr: &'k NewAttr<'_>) -> (Namespace, &'k [u8], &'k [u8]) {
    (attr.namespace, &attr.name, &attr.value)
}

/// Returns true if both are the same attribute. One name may have several parents, but each of them
/// once.
fn same(a: &NewAttr<'_>, b: &NewAttr<'_>) -> bool {
    let apart = a.namespace == Namespace::Parent && a.value != b.value;
    (a.namespace, &a.name) == (b.namespace, &b.name) && !apart
}

/// One level of the tree.
#[derive(Debug)]
struct Level {
    /// The first of its blocks; the others follow.
    first: u32,
    /// For each block the number of children (of a leaf: attributes) up to its last one.
    ends: Vec<usize>,
    /// For each block the last hash below it.
    hashes: Vec<u32>,
}

impl Level {
    fn block(&self, index: usize) -> DaBlock {
        DaBlock(self.first.saturating_add(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    /// Returns the children of block `index`.
    fn children(&self, index: usize) -> std::ops::Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[index]
    }
}

/// An attribute fork that has blocks of its own.
#[derive(Debug)]
pub struct AttrBlocks<'a> {
    geo: &'a Geometry,
    ino: Ino,
    /// In hash order, with the block of its value if it has blocks of its own.
    attrs: Vec<(NewAttr<'a>, DaBlock)>,
    /// Leaves first. The last level has one block, the root.
    levels: Vec<Level>,
    /// Values with blocks of their own, as indexes into `attrs`, in the order of their blocks.
    remote: Vec<usize>,
    blocks: u32,
}

impl<'a> AttrBlocks<'a> {
    fn new(geo: &'a Geometry, ino: Ino, attrs: Vec<NewAttr<'a>>) -> Result<Self, PlanError> {
        let mut hashed: Vec<(u32, usize, NewAttr<'a>)> = attrs
            .into_iter()
            .map(|attr| {
                let placed = attr.attr(geo, DaBlock(0));
                let item = Item::new(geo, &placed);
                (item.hash, item.space(), attr)
            })
            .collect();
        hashed.sort_by_key(|(hash, ..)| *hash); // stable: equal hashes by name
        let levels = levels(geo, hashed.iter().map(|(hash, len, _)| (*hash, *len)));
        let tree: usize = levels.iter().map(|level| level.ends.len()).sum();
        let mut blocks = u32::try_from(tree).map_err(|_| PlanError::TooMany)?;
        let mut remote = Vec::new();
        let mut placed = Vec::with_capacity(hashed.len());
        for (index, (_, _, attr)) in hashed.into_iter().enumerate() {
            let len = attr.value_blocks(geo);
            if len > 0 {
                remote.push(index);
            }
            placed.push((attr, DaBlock(blocks)));
            blocks = blocks.checked_add(len).ok_or(PlanError::TooMany)?;
        }
        Ok(Self { geo, ino, attrs: placed, levels, remote, blocks })
    }

    /// Returns the number of blocks of the fork: 0 to this, without a hole.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the finished bytes of block `dablk` of the fork, which is at `daddr`.
    ///
    /// # Panics
    /// If the fork has no such block.
    pub fn fill(&self, dablk: DaBlock, daddr: Daddr) -> Vec<u8> {
        assert!(dablk.0 < self.blocks, "block {dablk} of a fork of {} blocks", self.blocks);
        let id = Identity { owner: self.ino, daddr };
        match self.place_in_tree(dablk) {
            Some((0, index)) => self.leaf(index, id),
            Some((level, index)) => self.node(level, index, id),
            None => self.value(dablk, id),
        }
    }

    /// Returns level and number within it of a block of the tree; `None` for one of a value.
    fn place_in_tree(&self, dablk: DaBlock) -> Option<(usize, usize)> {
        self.levels.iter().enumerate().find_map(|(number, level)| {
            let index = dablk.0.checked_sub(level.first)? as usize;
            (index < level.ends.len()).then_some((number, index))
        })
    }

    fn leaf(&self, index: usize, id: Identity) -> Vec<u8> {
        let mut block = vec![0; self.geo.blocksize()];
        leaf_edit::init(&mut block, self.geo, id);
        let attrs = &self.attrs[self.levels[0].children(index)];
        let attrs: Vec<_> =
            attrs.iter().map(|(attr, valueblk)| attr.attr(self.geo, *valueblk)).collect();
        let items = attrs.iter().map(|attr| Item::new(self.geo, attr));
        let fits = leaf_edit::pack(&mut block, self.geo, items);
        debug_assert!(fits, "leaves are planned to fit");
        self.finish(block, 0, index)
    }

    fn node(&self, level: usize, index: usize, id: Identity) -> Vec<u8> {
        let mut block = vec![0; self.geo.blocksize()];
        let number = u16::try_from(level).unwrap_or(u16::MAX);
        da_edit::init_node(&mut block, self.geo, id, number);
        let below = &self.levels[level - 1];
        let children = self.levels[level].children(index);
        let children: Vec<_> =
            children.map(|kid| da_edit::child(below.hashes[kid], below.block(kid))).collect();
        let fits = da_edit::splice_children(&mut block, self.geo, Fork::Attr, 0, 0, &children);
        debug_assert!(fits, "nodes are planned to fit");
        self.finish(block, level, index)
    }

    /// Chains a block of the tree to its siblings and stamps it.
    fn finish(&self, mut block: Vec<u8>, level: usize, index: usize) -> Vec<u8> {
        let level = &self.levels[level];
        if let Some(before) = index.checked_sub(1) {
            da_edit::set_back(&mut block, level.block(before));
        }
        if index + 1 < level.ends.len() {
            da_edit::set_forw(&mut block, level.block(index + 1));
        }
        da_edit::stamp(&mut block);
        block
    }

    fn value(&self, dablk: DaBlock, id: Identity) -> Vec<u8> {
        let behind = self.remote.partition_point(|index| self.attrs[*index].1 <= dablk);
        let (attr, first) = &self.attrs[self.remote[behind.saturating_sub(1)]];
        let mut block = vec![0; self.geo.blocksize()];
        let part = dablk.0.saturating_sub(first.0);
        remote_edit::fill(&mut block, self.geo, id, &attr.value, part);
        block
    }
}

/// Plans the tree over attributes of these hashes and lengths, in hash order.
fn levels(geo: &Geometry, items: impl Iterator<Item = (u32, usize)> + Clone) -> Vec<Level> {
    let capacity = leaf_edit::room(geo);
    let cuts = da_cuts::between_runs(items.clone(), Cut::default(), capacity);
    let hashes: Vec<u32> = items.map(|(hash, _)| hash).collect();
    let mut levels = vec![level(1, &share_all(&cuts, capacity), &hashes)];
    // The root stands at block 0, everything else behind it.
    while let Some(below) = levels.last().filter(|level| level.ends.len() > 1) {
        let (first, hashes) = (below.first, below.hashes.clone());
        let capacity = da::node_max(geo, Fork::Attr);
        let cuts =
            da_cuts::between_runs(hashes.iter().map(|hash| (*hash, 1)), Cut::default(), capacity);
        let next = first.saturating_add(u32::try_from(hashes.len()).unwrap_or(u32::MAX));
        let ends = share_all(&cuts, capacity);
        levels.push(level(next, &ends, &hashes));
    }
    if let Some(root) = levels.last_mut() {
        root.first = 0;
    }
    levels
}

fn level(first: u32, ends: &[Cut], hashes: &[u32]) -> Level {
    let hashes = ends.iter().map(|end| hashes[end.entries - 1]).collect();
    Level { first, ends: ends.iter().map(|end| end.entries).collect(), hashes }
}

/// Distributes `cuts` over few blocks: as few as hold them, or a little more if entries are so
/// large that an even distribution does not work out.
fn share_all(cuts: &[Cut], capacity: usize) -> Vec<Cut> {
    let total = cuts.last().map_or(0, |cut| cut.bytes);
    let more = |blocks: &usize| Some(blocks + blocks / 32 + 1);
    std::iter::successors(Some(total.div_ceil(capacity)), more)
        .take_while(|blocks| *blocks < cuts.len())
        .find_map(|blocks| da_cuts::evenly(Cut::default(), cuts, blocks, capacity))
        .unwrap_or_else(|| cuts.to_vec())
}

#[cfg(test)]
mod tests;
