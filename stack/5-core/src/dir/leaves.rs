//! Directory leaves (leafn) as the leaf level of the hash btree.

use xfskit_format::da_edit::Identity;
use xfskit_format::dir::leaf::{Kind, Leaf, LeafEntry, leaf_max};
use xfskit_format::dir::leaf_edit;
use xfskit_format::{Fork, Image};
use xfskit_units::Geometry;

use crate::da::tree::Level;

/// The leaf level of a directory's tree.
pub(crate) enum DirLeaves {}

impl Level for DirLeaves {
    type Item<'a> = LeafEntry;
    const WHOLE_RUNS: bool = false;

    fn shorten<'s, 'l: 's>(item: LeafEntry) -> LeafEntry {
        item
    }
    fn hash(item: LeafEntry) -> u32 {
        item.hashval.get()
    }
    fn len(_: LeafEntry) -> usize {
        size_of::<LeafEntry>()
    }
    fn capacity(geo: &Geometry, _: Fork) -> usize {
        leaf_max(geo) * size_of::<LeafEntry>()
    }
    fn used(block: &[u8], geo: &Geometry) -> usize {
        let live = Leaf::parse(block, geo).map_or(0, |leaf| leaf_edit::live_count(&leaf));
        live * size_of::<LeafEntry>()
    }
    fn items(block: &[u8], geo: &Geometry) -> Vec<LeafEntry> {
        Leaf::parse(block, geo).map_or_else(Vec::new, |leaf| match leaf.stale {
            0 => leaf.lents.to_vec(),
            _ => leaf_edit::live(leaf.lents),
        })
    }
    fn last_hash(block: &[u8], geo: &Geometry) -> Option<u32> {
        Leaf::parse(block, geo)?.last_hash()
    }
    fn init(image: &mut impl Image, geo: &Geometry, id: Identity, _: u16) {
        leaf_edit::init(image, Kind::LeafN, geo, id, &[]);
    }
    fn pack(image: &mut impl Image, _: &Geometry, _: Fork, items: &[LeafEntry]) {
        leaf_edit::pack(image, items);
    }
    fn insert(
        image: &mut impl Image,
        geo: &Geometry,
        _: Fork,
        _: usize,
        items: &[LeafEntry],
    ) -> bool {
        let [item] = items else { return false };
        leaf_edit::insert(image, geo, *item)
    }
}
