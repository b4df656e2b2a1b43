//! Cleanup after an interrupted attribute change of Linux: INCOMPLETE entries, and blocks that no
//! entry names.
//!
//! Linux sets an attribute with a large value in several transactions, and recovery does not undo
//! those that were done. The flagged entry stays, invisible to programs. The next change of the
//! attribute fork removes it.
//!
//! A fork is scanned at its first change since the volume was opened. Once it has no such entry it
//! is not scanned again, because changes made here leave none.

use std::collections::BTreeSet;
use std::ops::Range;

use xfskit_format::attr::INCOMPLETE;
use xfskit_format::attr::leaf::{AttrValue, Leaf};
use xfskit_format::attr::{leaf_edit, remote};
use xfskit_format::{Ctx, Fork, Layout, da};
use xfskit_units::{DaBlock, FilBlks, FileOff};

use crate::attr::blocks::TxBlocks;
use crate::attr::leaves::AttrLeaves;
use crate::attr::tree::{DROP_MAX, ROOT};
use crate::da::tree::{DaBlocks, Tree};
use crate::da::verify_any;
use crate::error::{Error, Result};
use crate::tx::{Tx, TxInode};

/// Maximum number of leaves that one transaction clears; the next change continues with the others.
const LEAVES_MAX: usize = 64;
/// The result of a scan of a fork.
#[derive(Default)]
struct Survey {
    /// For each leaf with INCOMPLETE entries, in hash order, the hash of the first.
    incomplete: Vec<u32>,
    /// The blocks of the tree and those of complete values.
    used: Vec<Range<u64>>,
}

impl Tx<'_> {
    /// Removes the leftovers of Linux' interrupted changes from the attribute fork of `inode`,
    /// which has blocks.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`] if a block to be changed is damaged,
    /// [`Error::NoSpace`] if the map of the fork must grow.
    pub(super) fn attr_clear_debris(&mut self, inode: TxInode) -> Result<()> {
        let swept = &self.volume().swept;
        if swept.has(inode.ino) {
            return Ok(());
        }
        let survey = match self.survey_attrs(inode) {
            Ok(survey) if !survey.incomplete.is_empty() => survey,
            // Corruption elsewhere in the fork does not prevent the change.
            Ok(_) | Err(Error::Corrupt(_)) => {
                swept.add(inode.ino);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for hash in survey.incomplete.iter().take(LEAVES_MAX) {
            self.take_incomplete(inode, *hash)?;
        }
        self.free_unused(inode, survey.used)
    }

    /// Scans the whole tree, without locking its blocks.
    fn survey_attrs(&self, inode: TxInode) -> Result<Survey> {
        let geo = self.volume().geo();
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| verify_any(bytes, ctx, Fork::Attr);
        let mut survey = Survey::default();
        let (mut ahead, mut met) = (vec![ROOT], BTreeSet::from([ROOT]));
        while let Some(dablk) = ahead.pop() {
            let (map, at) = self.attr_block(inode, dablk, "attribute tree")?;
            let bytes = self.peek(&map, &self.volume().ctx(at), &verify)?;
            survey.add_blocks(dablk, 1);
            if da::magic(&bytes) == Some(Layout::V5.da_node_magic) {
                let kids = da::Node::parse(&bytes, geo).map_or(&[][..], |node| node.btree);
                let kids = kids.iter().rev().map(|kid| DaBlock(kid.before.get()));
                ahead.extend(kids.filter(|kid| met.insert(*kid)));
            } else if let Some(leaf) = Leaf::parse(&bytes, geo) {
                survey.add_leaf(&leaf, |valuelen| remote::blocks(geo, valuelen));
            }
        }
        Ok(survey)
    }

    /// Removes all INCOMPLETE entries of the leaf that holds one of `hash`.
    fn take_incomplete(&mut self, inode: TxInode, hash: u32) -> Result<()> {
        let geo = self.volume().geo();
        let mut blocks = TxBlocks::new(self, inode);
        let mut tree = Tree::new(geo, Fork::Attr, inode.ino, &mut blocks);
        let mut path = tree.find(hash)?;
        loop {
            let bytes = tree.blocks.bytes(path.leaf())?;
            let Some(leaf) = Leaf::parse(bytes, geo) else { return Ok(()) };
            let flags = leaf.entries.iter().map(|entry| entry.flags).enumerate();
            let incomplete: Vec<usize> = flags
                .filter(|(_, flags)| flags & INCOMPLETE != 0)
                .map(|(index, _)| index)
                .collect();
            let may_go_on = leaf.last_hash() == Some(hash);
            if !incomplete.is_empty() {
                for index in incomplete.into_iter().rev() {
                    leaf_edit::remove(&mut tree.blocks.image(path.leaf())?, geo, index);
                }
                return tree.removed::<AttrLeaves>(path);
            }
            if !may_go_on || !tree.advance(&mut path)? {
                return Ok(());
            }
        }
    }

    /// Frees the mapped blocks that are not `used`: values of removed entries, and those that were
    /// allocated before an entry named them.
    fn free_unused(&mut self, inode: TxInode, mut used: Vec<Range<u64>>) -> Result<()> {
        used.sort_unstable_by_key(|range| range.start);
        used.push(u64::MAX..u64::MAX);
        let (mut at, mut left) = (0, DROP_MAX);
        for range in used {
            while left > 0
                && let Some(extent) = self.bmap_next(inode, Fork::Attr, FileOff(at))?
            {
                let first = extent.startoff.0.max(at);
                let end = extent.end().0.min(range.start).min(first.saturating_add(left));
                if end <= first {
                    break;
                }
                for dablk in first..end {
                    let dablk = DaBlock(u32::try_from(dablk).unwrap_or(u32::MAX));
                    let (map, _) = self.attr_block(inode, dablk, "attribute fork")?;
                    self.invalidate_at(&map)?;
                }
                self.bunmap(inode, Fork::Attr, FileOff(first), FilBlks(end - first))?;
                left -= end - first;
                at = end;
            }
            at = at.max(range.end);
        }
        Ok(())
    }
}

impl Survey {
    fn add_blocks(&mut self, first: DaBlock, len: u32) {
        let first = u64::from(first.0);
        self.used.push(first..first + u64::from(len));
    }

    fn add_leaf(&mut self, leaf: &Leaf<'_>, blocks: impl Fn(u32) -> u32) {
        let flagged = leaf.entries.iter().find(|entry| entry.flags & INCOMPLETE != 0);
        self.incomplete.extend(flagged.map(|entry| entry.hashval.get()));
        for attr in leaf.attrs().filter(|attr| !attr.is_incomplete()) {
            if let AttrValue::Remote { valueblk, valuelen } = attr.value {
                self.add_blocks(valueblk, blocks(valuelen));
            }
        }
    }
}
