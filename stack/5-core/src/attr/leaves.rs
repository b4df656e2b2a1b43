//! Attribute leaves as the leaf level of the hash btree.

use xfskit_format::attr::leaf::Leaf;
use xfskit_format::attr::leaf_edit::{self, Item};
use xfskit_format::da_edit::Identity;
use xfskit_format::{Fork, Image};
use xfskit_units::Geometry;

use crate::da::tree::Level;

/// The leaf level of an attribute fork's tree.
pub(crate) enum AttrLeaves {}

impl Level for AttrLeaves {
    type Item<'a> = Item<'a>;
    const WHOLE_RUNS: bool = true;

    fn shorten<'s, 'l: 's>(item: Item<'l>) -> Item<'s> {
        item
    }
    fn hash(item: Item<'_>) -> u32 {
        item.hash
    }
    fn len(item: Item<'_>) -> usize {
        item.space()
    }
    fn capacity(geo: &Geometry, _: Fork) -> usize {
        leaf_edit::room(geo)
    }
    fn used(block: &[u8], geo: &Geometry) -> usize {
        Leaf::parse(block, geo).map_or(0, |leaf| leaf_edit::used(&leaf))
    }
    fn items<'a>(block: &'a [u8], geo: &Geometry) -> Vec<Item<'a>> {
        let Some(leaf) = Leaf::parse(block, geo) else { return Vec::new() };
        // With space for a new one.
        let mut items = Vec::with_capacity(leaf.entries.len() + 1);
        items.extend(leaf_edit::items(&leaf));
        items
    }
    fn last_hash(block: &[u8], geo: &Geometry) -> Option<u32> {
        Leaf::parse(block, geo)?.last_hash()
    }
    fn init(image: &mut impl Image, geo: &Geometry, id: Identity, _: u16) {
        leaf_edit::init(image, geo, id);
    }
    fn pack(image: &mut impl Image, geo: &Geometry, _: Fork, items: &[Item<'_>]) {
        let fits = leaf_edit::pack(image, geo, items.iter().copied());
        debug_assert!(fits, "planned to fit");
    }
    fn insert(
        image: &mut impl Image,
        geo: &Geometry,
        _: Fork,
        _: usize,
        items: &[Item<'_>],
    ) -> bool {
        let [item] = items else { return false };
        leaf_edit::insert(image, geo, *item)
    }
}

#[cfg(test)]
mod tests;
