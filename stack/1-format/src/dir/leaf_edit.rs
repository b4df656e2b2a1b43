//! Edits hash leaves: leaf1 with its table of free space, and leafn.
//!
//! A removed name's entry remains as a stale one, so that a later name can take its slot and few
//! entries move. Equal hashes are in any order.

use xfskit_units::Geometry;
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U32};

use crate::da_edit::{self, Identity};
use crate::dir::leaf::{Kind, Leaf, LeafEntry};
use crate::dir::{DataPtr, NULLDATAOFF};
use crate::image::Image;
use crate::layout::Layout;

const V5: Layout = Layout::V5;
const ENTRY: usize = size_of::<LeafEntry>();
/// Byte of `count` and `stale`.
const COUNTS: usize = V5.da_count;

/// Makes an entry for a name with `hash` at `address`.
pub fn entry(hash: u32, address: DataPtr) -> LeafEntry {
    LeafEntry { hashval: hash.into(), address: address.0.into() }
}

/// Returns the index in `sorted` for a new entry with `hash`: after those of the same hash.
pub(super) fn place_of(sorted: &[LeafEntry], hash: u32) -> usize {
    sorted.partition_point(|e| e.hashval.get() <= hash)
}

/// Returns the index in `sorted` of the entry with `hash` and `address`.
pub fn find(sorted: &[LeafEntry], hash: u32, address: DataPtr) -> Option<usize> {
    let start = sorted.partition_point(|e| e.hashval.get() < hash);
    let run = sorted.get(start..)?.iter().take_while(|e| e.hashval.get() == hash);
    let at = run.into_iter().position(|e| e.address.get() == address.0)?;
    start.checked_add(at)
}

/// Returns the stale entry of `sorted` that is nearest to `index`.
pub(super) fn nearest_stale(sorted: &[LeafEntry], index: usize) -> Option<usize> {
    let stale = |i: &usize| sorted.get(*i).is_some_and(|e| e.address.get() == 0);
    let before = (0..index).rev().find(stale);
    let near = before.map_or(usize::MAX, |at| index.saturating_sub(at));
    let behind = (index..index.saturating_add(near).min(sorted.len())).find(stale);
    behind.or(before)
}

/// Inserts `new` at `index` of the entries from byte `table` on, in place of the stale one at
/// `stale`. The entries between move by one.
pub(super) fn reuse(
    image: &mut impl Image,
    table: usize,
    index: usize,
    stale: usize,
    new: LeafEntry,
) {
    let at = |i: usize| table.saturating_add(i.saturating_mul(ENTRY));
    if stale < index {
        let span = image.edit(at(stale)..at(index));
        span.copy_within(ENTRY.., 0);
        if let Some(last) = span.last_chunk_mut::<ENTRY>() {
            *last = zerocopy::transmute!(new);
        }
    } else {
        push_in(image.edit(at(index)..at(stale.saturating_add(1))), new);
    }
}

/// Inserts `new` at the start of `span`, whose entries move by one. The last one is overwritten.
fn push_in(span: &mut [u8], new: LeafEntry) {
    span.copy_within(..span.len().saturating_sub(ENTRY), ENTRY);
    if let Some(first) = span.first_chunk_mut::<ENTRY>() {
        *first = zerocopy::transmute!(new);
    }
}

/// Returns the byte of entry `index` of a leaf.
fn entry_at(index: usize) -> usize {
    V5.dir_leaf_header.saturating_add(index.saturating_mul(ENTRY))
}

fn put_counts(image: &mut impl Image, count: usize, stale: usize) {
    let number = |n: usize| U16::new(u16::try_from(n).unwrap_or(u16::MAX));
    image.put(COUNTS, &[number(count), number(stale)]);
}

/// Returns the free bytes between the entries of a leaf and the tables after them.
pub fn room(leaf: &Leaf<'_>, geo: &Geometry) -> usize {
    let behind = match leaf.kind {
        Kind::Leaf1 => size_of_val(leaf.lbests).saturating_add(size_of::<U32>()),
        Kind::LeafN => 0,
    };
    let used = entry_at(leaf.lents.len()).saturating_add(behind);
    geo.dirblksize().saturating_sub(used)
}

/// Makes `image` a leaf with `entries`, which come in hash order; a leaf1 without data blocks.
///
/// # Panics
/// If the entries do not fit.
pub fn init(
    image: &mut impl Image,
    kind: Kind,
    geo: &Geometry,
    id: Identity,
    entries: &[LeafEntry],
) {
    da_edit::init(image, geo, magic(kind), id);
    image.zero(COUNTS..V5.dir_leaf_header);
    if kind == Kind::Leaf1 {
        image.put(geo.dirblksize().saturating_sub(4), &U32::ZERO);
    }
    pack(image, entries);
}

fn magic(kind: Kind) -> u16 {
    match kind {
        Kind::Leaf1 => V5.dir_leaf1_magic,
        Kind::LeafN => V5.dir_leafn_magic,
    }
}

/// Converts a leaf1, whose table of free space was moved to the free index, to a leafn.
pub fn to_leafn(image: &mut impl Image) {
    image.put(8, &U16::new(V5.dir_leafn_magic));
}

/// Converts a leafn without siblings to a leaf1 with the free space of these data blocks.
///
/// # Panics
/// If [`room`] is too short for `bests`.
pub fn to_leaf1(image: &mut impl Image, geo: &Geometry, bests: &[U16]) {
    image.put(8, &U16::new(V5.dir_leaf1_magic));
    put_bests(image, geo, bests);
}

/// Writes the whole table of free space.
fn put_bests(image: &mut impl Image, geo: &Geometry, bests: &[U16]) {
    let tail = geo.dirblksize().saturating_sub(size_of::<U32>());
    if !bests.is_empty() {
        image.put(tail.saturating_sub(size_of_val(bests)), bests);
    }
    image.put(tail, &U32::new(u32::try_from(bests.len()).unwrap_or(u32::MAX)));
}

/// Fills a leaf with exactly `entries`, which come in hash order.
///
/// # Panics
/// If they do not fit.
pub fn pack(image: &mut impl Image, entries: &[LeafEntry]) {
    if !entries.is_empty() {
        image.put(V5.dir_leaf_header, entries.as_bytes());
    }
    let stale = entries.iter().filter(|e| e.address.get() == 0).count();
    put_counts(image, entries.len(), stale);
}

/// Inserts `new` into the verified leaf in `image`, over a stale entry if there is one. Returns
/// false and changes nothing if it is full.
pub fn insert(image: &mut impl Image, geo: &Geometry, new: LeafEntry) -> bool {
    let Some(leaf) = Leaf::parse(image.bytes(), geo) else { return false };
    let index = place_of(leaf.lents, new.hashval.get());
    insert_at(image, geo, index, new)
}

/// Inserts `new` like [`insert`], at the known `index`.
pub fn insert_at(image: &mut impl Image, geo: &Geometry, index: usize, new: LeafEntry) -> bool {
    let Some(leaf) = Leaf::parse(image.bytes(), geo) else { return false };
    let (count, stale) = (leaf.lents.len(), usize::from(leaf.stale));
    if stale > 0
        && let Some(old) = nearest_stale(leaf.lents, index)
    {
        reuse(image, V5.dir_leaf_header, index, old, new);
        put_counts(image, count, stale.saturating_sub(1));
        return true;
    }
    if room(&leaf, geo) < ENTRY {
        return false;
    }
    let more = count.saturating_add(1);
    push_in(image.edit(entry_at(index)..entry_at(more)), new);
    put_counts(image, more, stale);
    true
}

/// Makes entry `index` of the verified leaf in `image` stale.
pub fn remove(image: &mut impl Image, geo: &Geometry, index: usize) {
    let Some(leaf) = Leaf::parse(image.bytes(), geo) else { return };
    if leaf.lents.get(index).is_none_or(|e| e.address.get() == 0) {
        return;
    }
    let (count, stale) = (leaf.lents.len(), usize::from(leaf.stale));
    image.put(entry_at(index).saturating_add(size_of::<U32>()), &U32::ZERO);
    put_counts(image, count, stale.saturating_add(1));
}

/// Removes all stale entries of the verified leaf in `image`.
pub fn compact(image: &mut impl Image, geo: &Geometry) {
    let Some(leaf) = Leaf::parse(image.bytes(), geo) else { return };
    if leaf.stale > 0 {
        pack(image, &live(leaf.lents));
    }
}

/// Returns the number of entries of `leaf` that are not stale.
pub fn live_count(leaf: &Leaf<'_>) -> usize {
    leaf.lents.len().saturating_sub(leaf.stale.into())
}

/// Returns the entries of `lents` that are not stale.
pub fn live(lents: &[LeafEntry]) -> Vec<LeafEntry> {
    let mut live = Vec::with_capacity(lents.len());
    live.extend(lents.iter().filter(|e| e.address.get() != 0));
    live
}

/// Returns the byte of the slot of data block `db` in a leaf1 with `count` slots.
fn best_at(geo: &Geometry, count: usize, db: usize) -> usize {
    let tail = geo.dirblksize().saturating_sub(size_of::<U32>());
    tail.saturating_sub(count.saturating_sub(db).saturating_mul(size_of::<U16>()))
}

/// Returns the part of [`room`] in bytes that the table of free space takes when it grows to hold
/// data block `db`.
pub fn best_growth(leaf: &Leaf<'_>, db: usize) -> usize {
    db.saturating_add(1).saturating_sub(leaf.lbests.len()).saturating_mul(size_of::<U16>())
}

/// Sets the longest unused space of data block `db` in the leaf1 in `image` in bytes, or
/// [`NULLDATAOFF`] if that block no longer exists. Returns false and changes nothing if the table
/// cannot grow.
pub fn set_best(image: &mut impl Image, geo: &Geometry, db: usize, best: u16) -> bool {
    let Some(leaf) = Leaf::parse(image.bytes(), geo) else { return false };
    let count = leaf.lbests.len();
    let last = db.saturating_add(1) == count;
    if db < count && !(last && best == NULLDATAOFF) {
        image.put(best_at(geo, count, db), &U16::new(best));
        return true;
    }
    if best_growth(&leaf, db) > room(&leaf, geo) {
        return false;
    }
    let mut bests = leaf.lbests.to_vec();
    bests.resize(db.saturating_add(1), U16::new(NULLDATAOFF));
    if let Some(slot) = bests.get_mut(db) {
        slot.set(best);
    }
    while bests.last().is_some_and(|best| best.get() == NULLDATAOFF) {
        bests.pop();
    }
    put_bests(image, geo, &bests);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::geo_v5_1k;
    use crate::{Ctx, Fork, Location};
    use std::collections::BTreeMap;
    use xfskit_test_support::Random;
    use xfskit_units::{Daddr, FileOff, Ino};

    const ID: Identity = Identity { owner: Ino(75), daddr: Daddr(56) };

    fn verify_block(block: &[u8], geo: &Geometry) -> Vec<(u32, u32)> {
        let mut stamped = block.to_vec();
        da_edit::stamp(&mut stamped);
        let at = Location::of("test").ino(ID.owner).fork(Fork::Data);
        let at = Location { daddr: Some(ID.daddr), ..at.fileoff(FileOff(1 << 25)) };
        let leaf = Leaf::verify(&stamped, &Ctx::new(geo, at), None).unwrap();
        let live = leaf.lents.iter().filter(|e| e.address.get() != 0);
        let mut live: Vec<_> = live.map(|e| (e.hashval.get(), e.address.get())).collect();
        live.sort_unstable();
        live
    }

    #[test]
    fn a_leaf_holds_what_a_map_holds() {
        let geo = geo_v5_1k();
        for (kind, max) in [(Kind::LeafN, 504), (Kind::Leaf1, 503)] {
            let mut block = vec![0xff; geo.dirblksize()];
            init(&mut block, kind, &geo, ID, &[]);
            if kind == Kind::Leaf1 {
                assert!(set_best(&mut block, &geo, 0, 8));
            }
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            let (mut random, mut refused) = (Random::of_test(1), 0);
            for step in 0..4000 {
                let address = random.below(500) + 8;
                if step % 1000 > 700 && step % 1000 < 900 || step == 0 {
                    compact(&mut block, &geo);
                } else if let Some(hash) = model.get(&address).copied() {
                    if random.one_in(4) {
                        let leaf = Leaf::parse(&block, &geo).unwrap();
                        let index = find(leaf.lents, hash, DataPtr(address)).unwrap();
                        remove(&mut block, &geo, index);
                        model.remove(&address);
                    }
                } else {
                    let hash = random.below(40);
                    let fits = model.len() < max;
                    let took = insert(&mut block, &geo, entry(hash, DataPtr(address)));
                    assert_eq!(took, fits);
                    if took {
                        model.insert(address, hash);
                    } else {
                        refused += 1;
                    }
                }
                let mut expected: Vec<_> = model.iter().map(|(a, h)| (*h, *a)).collect();
                expected.sort_unstable();
                assert_eq!(verify_block(&block, &geo), expected);
            }
            assert!(refused > 0 || model.len() < max);
        }
    }

    #[test]
    fn the_table_of_free_space_grows_and_shrinks_at_its_end() {
        let geo = geo_v5_1k();
        let mut block = vec![0; geo.dirblksize()];
        init(&mut block, Kind::Leaf1, &geo, ID, &[]);
        let bests = |block: &[u8]| -> Vec<u16> {
            verify_block(block, &geo);
            Leaf::parse(block, &geo).unwrap().lbests.iter().map(|b| b.get()).collect()
        };
        assert!(set_best(&mut block, &geo, 0, 100));
        assert!(set_best(&mut block, &geo, 3, 300));
        assert!(set_best(&mut block, &geo, 1, 200));
        assert_eq!(bests(&block), [100, 200, NULLDATAOFF, 300]);
        assert!(set_best(&mut block, &geo, 1, NULLDATAOFF));
        assert!(set_best(&mut block, &geo, 3, NULLDATAOFF));
        assert_eq!(bests(&block), [100]);
        while insert(&mut block, &geo, entry(7, DataPtr(8))) {}
        assert!(!set_best(&mut block, &geo, 2, 1), "no room left");
    }
}
