//! Edits attribute leaves.
//!
//! New names and values go to the end of the gap between entries and names. Removing one elsewhere
//! leaves a hole, which `holes` records. When a new attribute needs the space of holes, the leaf is
//! [packed](pack) without them. So `freemap` lists only the gap, which the format allows. A leaf
//! written by Linux, with holes in its `freemap`, is treated the same way: the verifier guarantees
//! that the space between the entries and `firstused` is free, and the rest is not needed.

use xfskit_units::Geometry;
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U32};

use crate::attr::LOCAL;
use crate::attr::leaf::{
    ALIGN, Attr, AttrValue, FreeMap, Hdr, LOCAL_HEAD, Leaf, LeafEntry, REMOTE_HEAD,
};
use crate::da_edit::{self, Identity};
use crate::image::Image;
use crate::layout::Layout;

const V5: Layout = Layout::V5;
const ENTRY: usize = size_of::<LeafEntry>();

/// An attribute and its hash, taken out of a leaf or to be put into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// [`Attr::hash`].
    pub hash: u32,
    /// Those of its entry.
    flags: u8,
    /// [`Attr::size`].
    pub size: usize,
    content: Content<'a>,
}

/// Name and value of an [`Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content<'a> {
    New(&'a Attr<'a>),
    /// The bytes that the attribute had in its leaf: they are copied as they are.
    Stored(&'a [u8]),
}

impl<'a> Item<'a> {
    /// Makes the item of `attr` on the volume `geo`.
    pub fn new(geo: &Geometry, attr: &'a Attr<'a>) -> Self {
        let flags = match attr.value {
            AttrValue::Local(_) => attr.flags | LOCAL,
            AttrValue::Remote { .. } => attr.flags & !LOCAL,
        };
        Self { hash: attr.hash(geo), flags, size: attr.size(), content: Content::New(attr) }
    }

    /// Returns the part of [`room`] that it takes, in bytes.
    pub fn space(&self) -> usize {
        self.size.saturating_add(ENTRY)
    }

    /// Makes its entry, if name and value lie at `nameidx`.
    fn entry(&self, nameidx: usize) -> LeafEntry {
        let nameidx = U16::new(u16::try_from(nameidx).unwrap_or(0));
        LeafEntry { hashval: self.hash.into(), nameidx, flags: self.flags, pad2: 0 }
    }

    /// Writes name and value over `place`, which is as long as they are.
    fn write(&self, place: &mut [u8]) {
        match self.content {
            Content::New(attr) => write(place, attr),
            Content::Stored(stored) => {
                let (bytes, padding) = place.split_at_mut(stored.len().min(place.len()));
                bytes.copy_from_slice(stored);
                padding.fill(0);
            }
        }
    }
}

/// Returns the attributes of `leaf`, in hash order.
pub fn items<'a>(leaf: &Leaf<'a>) -> impl Iterator<Item = Item<'a>> + Clone + use<'a> {
    let leaf = *leaf;
    leaf.entries.iter().filter_map(move |entry| {
        let (stored, size) = leaf.stored(*entry)?;
        let (hash, content) = (entry.hashval.get(), Content::Stored(stored));
        Some(Item { hash, flags: entry.flags, size, content })
    })
}

/// Returns the space for attributes in one leaf, in bytes.
pub fn room(geo: &Geometry) -> usize {
    geo.blocksize().saturating_sub(V5.attr_leaf_header)
}

/// Returns the part of [`room`] that the attributes of `leaf` take, in bytes.
pub fn used(leaf: &Leaf<'_>) -> usize {
    size_of_val(leaf.entries).saturating_add(leaf.usedbytes.into())
}

/// Returns true if a value of `valuelen` bytes under a name of `namelen` must have blocks of its
/// own, because the attribute would take three quarters of a leaf.
pub fn is_remote(geo: &Geometry, namelen: usize, valuelen: usize) -> bool {
    let len = LOCAL_HEAD.saturating_add(namelen).saturating_add(valuelen);
    let limit = (geo.blocksize() >> 1).saturating_add(geo.blocksize() >> 2);
    crate::bytes::round_up(len, ALIGN) >= limit
}

/// Makes `image` an empty leaf.
pub fn init(image: &mut impl Image, geo: &Geometry, id: Identity) {
    da_edit::init(image, geo, V5.attr_leaf_magic, id);
    pack(image, geo, []);
}

/// Returns the byte after `count` entries.
fn table_end(count: usize) -> usize {
    V5.attr_leaf_header.saturating_add(count.saturating_mul(ENTRY))
}

/// Makes the header of a leaf with `count` entries, whose names begin at `firstused`.
fn head(count: usize, usedbytes: usize, firstused: usize, holes: bool) -> Hdr {
    let number = |n: usize| U16::new(u16::try_from(n).unwrap_or(0));
    let base = table_end(count);
    let gap = match firstused.saturating_sub(base) {
        0 => FreeMap { base: U16::ZERO, size: U16::ZERO },
        size => FreeMap { base: number(base), size: number(size) },
    };
    let none = FreeMap { base: U16::ZERO, size: U16::ZERO };
    Hdr {
        count: number(count),
        usedbytes: number(usedbytes),
        // 65536 does not fit into its field, and is stored as 0.
        firstused: number(firstused),
        holes: holes.into(),
        pad1: 0,
        freemap: [gap, none, none],
    }
}

/// Writes name and value over `place`, which is as long as they are.
#[expect(clippy::indexing_slicing, reason = "the place is as long as the attribute")]
fn write(place: &mut [u8], attr: &Attr<'_>) {
    let namelen = u8::try_from(attr.name.len()).unwrap_or(u8::MAX);
    let (head, value) = match attr.value {
        AttrValue::Local(value) => {
            let valuelen = U16::new(u16::try_from(value.len()).unwrap_or(u16::MAX));
            place[..2].copy_from_slice(valuelen.as_bytes());
            (LOCAL_HEAD, value)
        }
        AttrValue::Remote { valueblk, valuelen } => {
            place[..4].copy_from_slice(U32::new(valueblk.0).as_bytes());
            place[4..8].copy_from_slice(U32::new(valuelen).as_bytes());
            (REMOTE_HEAD, &[][..])
        }
    };
    let (fields, rest) = place.split_at_mut(head);
    if let Some(last) = fields.last_mut() {
        *last = namelen;
    }
    let (name, rest) = rest.split_at_mut(attr.name.len());
    name.copy_from_slice(attr.name);
    let (behind, padding) = rest.split_at_mut(value.len());
    behind.copy_from_slice(value);
    padding.fill(0);
}

/// Fills the leaf in `image` with exactly `items`, which come in hash order. Returns false and
/// changes nothing if they do not fit.
pub fn pack<'a>(
    image: &mut impl Image,
    geo: &Geometry,
    items: impl IntoIterator<Item = Item<'a>, IntoIter: Clone>,
) -> bool {
    let (items, end) = (items.into_iter(), geo.blocksize());
    let (count, usedbytes) = items.clone().fold((0usize, 0usize), |(count, bytes), item| {
        (count.saturating_add(1), bytes.saturating_add(item.size))
    });
    let table = table_end(count);
    let Some(firstused) = end.checked_sub(usedbytes).filter(|first| *first >= table) else {
        return false;
    };
    let start = V5.da_count;
    let at = |offset: usize| offset.saturating_sub(start);
    let mut area = image.edit(start..end);
    area.put(0, &head(count, usedbytes, firstused, false));
    area.zero(size_of::<Hdr>()..at(table_end(0)));
    let mut first = end;
    for (index, item) in items.enumerate() {
        let nameidx = first.saturating_sub(item.size);
        item.write(area.edit(at(nameidx)..at(first)));
        area.put(at(table_end(index)), &item.entry(nameidx));
        first = nameidx;
    }
    area.zero(at(table)..at(firstused));
    true
}

/// Inserts `item` into the verified leaf in `image`, after those of the same hash. Returns false
/// and changes nothing if it does not fit.
pub fn insert(image: &mut impl Image, geo: &Geometry, item: Item<'_>) -> bool {
    let Some(leaf) = Leaf::parse(image.bytes(), geo) else { return false };
    let (count, size) = (leaf.entries.len(), item.size);
    let index = leaf.entries.partition_point(|e| e.hashval.get() <= item.hash);
    let nameidx = (leaf.firstused & !(ALIGN - 1)).saturating_sub(size);
    let new_count = count.saturating_add(1);
    if nameidx < table_end(new_count) {
        return used(&leaf).saturating_add(item.space()) <= room(geo)
            && pack_with(image, geo, index, item);
    }
    let usedbytes = usize::from(leaf.usedbytes).saturating_add(size);
    let head = head(new_count, usedbytes, nameidx, leaf.holes);
    item.write(image.edit(nameidx..nameidx.saturating_add(size)));
    let mut table = image.edit(table_end(index)..table_end(new_count));
    table.copy_within(..table.len().saturating_sub(ENTRY), ENTRY);
    table.put(0, &item.entry(nameidx));
    image.put(V5.da_count, &head);
    true
}

/// Packs the leaf in `image` with `item` as entry `index`.
fn pack_with(image: &mut impl Image, geo: &Geometry, index: usize, item: Item<'_>) -> bool {
    let old = image.bytes().to_vec();
    let Some(leaf) = Leaf::parse(&old, geo) else { return false };
    let (before, behind) = (items(&leaf).take(index), items(&leaf).skip(index));
    pack(image, geo, before.chain([item]).chain(behind))
}

/// Removes entry `index` from the verified leaf in `image`.
pub fn remove(image: &mut impl Image, geo: &Geometry, index: usize) {
    let Some(leaf) = Leaf::parse(image.bytes(), geo) else { return };
    let Some(gone) = leaf.entries.get(index) else { return };
    let Some(size) = leaf.attr(gone).map(|attr| attr.size()) else { return };
    let (count, nameidx) = (leaf.entries.len(), usize::from(gone.nameidx.get()));
    let others = leaf.entries.iter().enumerate().filter(|(i, _)| *i != index);
    let others = others.map(|(_, e)| usize::from(e.nameidx.get()));
    let lowest = nameidx <= leaf.firstused;
    let firstused = if lowest { others.min().unwrap_or(geo.blocksize()) } else { leaf.firstused };
    let usedbytes = usize::from(leaf.usedbytes).saturating_sub(size);
    let holes = firstused.saturating_add(usedbytes) < geo.blocksize();
    let head = head(count.saturating_sub(1), usedbytes, firstused, holes);
    let end = nameidx.saturating_add(size).min(geo.blocksize());
    image.zero(nameidx..end);
    let mut table = image.edit(table_end(index)..table_end(count));
    table.copy_within(ENTRY.., 0);
    table.zero(table.len().saturating_sub(ENTRY)..table.len());
    image.put(V5.da_count, &head);
}

/// Replaces entry `index` of the verified leaf in `image` by `item`, which has the same hash.
/// Returns false and changes nothing if it is longer or shorter.
pub fn replace(image: &mut impl Image, geo: &Geometry, index: usize, item: Item<'_>) -> bool {
    let Some(leaf) = Leaf::parse(image.bytes(), geo) else { return false };
    let Some(old) = leaf.entries.get(index) else { return false };
    if leaf.attr(old).is_none_or(|old| old.size() != item.size) {
        return false;
    }
    let nameidx = usize::from(old.nameidx.get());
    let end = nameidx.saturating_add(item.size);
    let new = item.entry(nameidx);
    let changed = new != *old;
    if end > geo.blocksize() {
        return false;
    }
    item.write(image.edit(nameidx..end));
    if changed {
        image.put(table_end(index), &new);
    }
    true
}

#[cfg(test)]
mod tests;
