//! Edits data blocks: names take unused space and leave it again, and `bestfree` follows.
//!
//! 1. Entries and unused spaces tile the block at every moment between two calls.
//! 2. No two unused spaces are adjacent.
//! 3. `bestfree` holds the three longest. It is updated without scanning the block unless an
//!    unlisted space could now be longer than a listed one.

use xfskit_units::{Geometry, Ino};
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U32, U64};

use crate::bytes;
use crate::da;
use crate::da_edit::Identity;
use crate::dir::data::{BestFree, CRC_OFFSET, FREETAG, Form, Hdr, Slot, Slots};
use crate::dir::leaf::LeafEntry;
use crate::dir::{self, Entry};
use crate::image::Image;
use crate::layout::Layout;

const V5: Layout = Layout::V5;

/// Unused space: offset and length, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) offset: usize,
    pub(super) length: usize,
}

impl Gap {
    fn between(offset: usize, end: usize) -> Self {
        Self { offset, length: end.saturating_sub(offset) }
    }

    pub(super) fn end(self) -> usize {
        self.offset.saturating_add(self.length)
    }
}

/// The three longest unused spaces, longest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Best(pub(super) [Gap; 3]);

impl Best {
    pub(super) fn of(block: &[u8]) -> Self {
        let mut best = Self::default();
        let listed = da::table::<BestFree>(block, V5.dir_bestfree, 3).unwrap_or(&[]);
        for (gap, listed) in best.0.iter_mut().zip(listed) {
            *gap = Gap { offset: listed.offset.get().into(), length: listed.length.get().into() };
        }
        best
    }

    /// Inserts `gap` after those that are no shorter, if it is one of the three.
    fn with(self, gap: Gap) -> Self {
        let [first, second, third] = self.0;
        Self(if gap.length > first.length {
            [gap, first, second]
        } else if gap.length > second.length {
            [first, gap, second]
        } else if gap.length > third.length {
            [first, second, gap]
        } else {
            self.0
        })
    }

    fn shortest(&self) -> usize {
        let [.., last] = self.0;
        last.length
    }

    fn write(&self, image: &mut impl Image) {
        image.put(V5.dir_bestfree, &self.0.map(BestFree::from));
    }
}

impl From<Gap> for BestFree {
    fn from(gap: Gap) -> Self {
        Self { offset: number(gap.offset), length: number(gap.length) }
    }
}

/// Returns the length of the longest unused space of a data block in bytes, as the tables of free
/// space store it.
pub fn longest(block: &[u8]) -> u16 {
    bytes::be16(block, V5.dir_bestfree.saturating_add(2)).unwrap_or(0)
}

/// Returns [`longest`] of an empty data block.
pub fn longest_when_empty(geo: &Geometry) -> u16 {
    u16::try_from(geo.dirblksize().saturating_sub(V5.dir_data_header)).unwrap_or(u16::MAX)
}

/// Writes the header that data and free-index blocks share; LSN and CRC are 0.
pub(super) fn put_hdr(image: &mut impl Image, geo: &Geometry, magic: u32, id: Identity) {
    let hdr = Hdr {
        magic: magic.into(),
        crc: [0; 4],
        bno: id.daddr.0.into(),
        lsn: U64::ZERO,
        uuid: *geo.meta_uuid.as_bytes(),
        owner: id.owner.0.into(),
    };
    image.put(0, &hdr);
}

/// Stamps the CRC of a finished block: of a data block in either form, or of the free index.
///
/// # Panics
/// If `block` is shorter than its header, which is the caller's mistake.
pub fn stamp(block: &mut [u8]) {
    xfskit_crc::update(block, CRC_OFFSET);
}

/// Makes `image` a data block of this form whose names end before byte `end`, all of it unused.
pub(super) fn init_to(
    image: &mut impl Image,
    geo: &Geometry,
    form: Form,
    id: Identity,
    end: usize,
) {
    let magic = match form {
        Form::Block => V5.dir_block_magic,
        Form::Data => V5.dir_data_magic,
    };
    put_hdr(image, geo, magic, id);
    image.zero(V5.dir_bestfree..V5.dir_data_header);
    let all = Gap::between(V5.dir_data_header, end);
    put_gap(image, all);
    Best([all, Gap::default(), Gap::default()]).write(image);
}

/// Makes `image` a data block of a leaf or node form directory, all of it unused.
pub fn init(image: &mut impl Image, geo: &Geometry, id: Identity) {
    init_to(image, geo, Form::Data, id, geo.dirblksize());
}

/// Returns the byte after the last name or unused space.
pub(super) fn area_end(block: &[u8], geo: &Geometry) -> usize {
    if Form::of(block, geo) != Some(Form::Block) {
        return block.len();
    }
    let tail = block.len().saturating_sub(size_of::<U64>());
    let count = xfskit_units::index(bytes::be32(block, tail).unwrap_or(0).into());
    tail.saturating_sub(count.saturating_mul(size_of::<LeafEntry>()))
}

/// Returns the unused space that ends at byte `end`; an empty one if a name ends there.
pub(super) fn gap_before(block: &[u8], end: usize) -> Gap {
    let start = usize::from(bytes::be16(block, end.saturating_sub(2)).unwrap_or(0));
    if start < V5.dir_data_header || start >= end {
        return Gap { offset: end, length: 0 };
    }
    let gap = gap_at(block, start);
    if gap.end() == end { gap } else { Gap { offset: end, length: 0 } }
}

/// Returns the unused space that begins at byte `offset`; an empty one if a name begins there.
fn gap_at(block: &[u8], offset: usize) -> Gap {
    let unused = bytes::be16(block, offset) == Some(FREETAG);
    let length = if unused { bytes::be16(block, offset.saturating_add(2)).unwrap_or(0) } else { 0 };
    Gap { offset, length: length.into() }
}

fn number(n: usize) -> U16 {
    U16::new(u16::try_from(n).unwrap_or(u16::MAX))
}

/// Returns the first words of an unused space.
fn gap_head(gap: Gap) -> [U16; 2] {
    [U16::new(FREETAG), number(gap.length)]
}

/// Writes the tag at the end of an unused space.
fn put_gap_tag(image: &mut impl Image, gap: Gap) {
    image.put(gap.end().saturating_sub(2), &number(gap.offset));
}

fn put_gap(image: &mut impl Image, gap: Gap) {
    if gap.length > 0 {
        image.put(gap.offset, &gap_head(gap));
        put_gap_tag(image, gap);
    }
}

/// Updates `bestfree`: the spaces `gone` were removed, the spaces `new` were added.
fn update_best(image: &mut impl Image, geo: &Geometry, gone: [Gap; 2], new: [Gap; 2]) {
    let old = Best::of(image.bytes());
    // The usual cases: a name took the start of the longest, whose remainder is still the longest;
    // or a name left, and the longest has grown.
    let ([first, second, third], [one, other]) = (old.0, new);
    let (now, none) = if one.length > 0 { (one, other) } else { (other, one) };
    let stay = !gone.contains(&second) && !gone.contains(&third);
    if gone.contains(&first) && stay && none.length == 0 && now.length > second.length {
        image.put(V5.dir_bestfree, &BestFree::from(now));
        return;
    }
    let mut best = Best::default();
    for gap in old.0.into_iter().filter(|gap| !gone.contains(gap)).chain(new) {
        best = best.with(gap);
    }
    // Unlisted spaces were no longer than the shortest listed one, if there were three.
    if best.shortest() < old.shortest() {
        best = Best::default();
        for slot in Slots::of(image.bytes(), geo) {
            if let Slot::Unused { offset, length, .. } = slot {
                best = best.with(Gap { offset, length });
            }
        }
    }
    if best != old {
        best.write(image);
    }
}

/// Takes the `len` bytes from `at` on, which are part of `gap` and already hold their new content.
pub(super) fn take(image: &mut impl Image, geo: &Geometry, gap: Gap, at: usize, len: usize) {
    let before = Gap::between(gap.offset, at);
    let behind = Gap::between(at.saturating_add(len), gap.end());
    if before.length > 0 {
        put_gap(image, before);
    }
    put_gap(image, behind);
    update_best(image, geo, [gap; 2], [before, behind]);
}

/// Makes the `len` bytes from `at` on unused, merged with the unused spaces on both sides.
pub(super) fn release(image: &mut impl Image, geo: &Geometry, at: usize, len: usize) {
    let (block, end) = (image.bytes(), at.saturating_add(len));
    let left = gap_before(block, at);
    let right = if end < area_end(block, geo) { gap_at(block, end) } else { Gap::default() };
    let all = Gap::between(left.offset.min(at), end.saturating_add(right.length));
    put_gap(image, all);
    update_best(image, geo, [left, right], [all, Gap::default()]);
}

/// Writes `entry` at byte `at`, which the caller knows to be free.
pub(super) fn put_entry(image: &mut impl Image, geo: &Geometry, at: usize, entry: &Entry<'_>) {
    let len = dir::entry_len(geo, entry.name.len());
    fill_entry(image.edit(at..at.saturating_add(len)), at, entry);
}

/// Writes `entry` over `place`, which begins at byte `at` and has its length.
fn fill_entry(place: &mut [u8], at: usize, entry: &Entry<'_>) {
    let (head, rest) = place.split_at_mut(9);
    let (inumber, length) = head.split_at_mut(8);
    inumber.copy_from_slice(&entry.inumber.0.to_be_bytes());
    length.fill(u8::try_from(entry.name.len()).unwrap_or(u8::MAX));
    let (name, rest) = rest.split_at_mut(entry.name.len());
    name.copy_from_slice(entry.name);
    rest.fill(0);
    if let (Some(filetype), Some(byte)) = (entry.filetype, rest.first_mut()) {
        *byte = filetype;
    }
    if let Some(tag) = rest.last_chunk_mut() {
        *tag = number(at).to_bytes();
    }
}

/// Writes `entry` at its own offset, which lies in the unused space at the end of the block: for
/// blocks that are filled from the front.
pub fn place(image: &mut impl Image, geo: &Geometry, entry: &Entry<'_>) {
    let gap = gap_before(image.bytes(), area_end(image.bytes(), geo));
    let at = usize::from(entry.offset);
    put_entry(image, geo, at, entry);
    take(image, geo, gap, at, dir::entry_len(geo, entry.name.len()));
}

/// Adds `entry` at the start of the longest unused space of the verified block in `image`, which is
/// of the data form. Returns its offset. Returns `None` and changes nothing if it does not fit.
pub fn add(image: &mut impl Image, geo: &Geometry, entry: &Entry<'_>) -> Option<u16> {
    let Best([gap, second, _]) = Best::of(image.bytes());
    let len = dir::entry_len(geo, entry.name.len());
    if gap.length < len {
        return None;
    }
    let offset = u16::try_from(gap.offset).ok()?;
    let left = Gap::between(gap.offset.saturating_add(len), gap.end());
    if left.length == 0 {
        put_entry(image, geo, gap.offset, entry);
    } else {
        // The header of the remainder follows the name.
        let head = gap_head(left);
        let place = image.edit(gap.offset..left.offset.saturating_add(size_of_val(&head)));
        let (name, behind) = place.split_at_mut(len);
        fill_entry(name, gap.offset, entry);
        behind.copy_from_slice(head.as_bytes());
        put_gap_tag(image, left);
    }
    if left.length > second.length {
        // The remainder of the longest is usually still the longest.
        image.put(V5.dir_bestfree, &BestFree::from(left));
    } else {
        update_best(image, geo, [gap; 2], [Gap::default(), left]);
    }
    Some(offset)
}

/// Removes the entry at byte `offset`, with a name of `namelen` bytes, from the verified block in
/// `image`. The hash table of a block form stays as it is.
pub fn remove(image: &mut impl Image, geo: &Geometry, offset: u16, namelen: usize) {
    release(image, geo, offset.into(), dir::entry_len(geo, namelen));
}

/// Sets another inode and type for the name at byte `offset`.
pub fn replace(image: &mut impl Image, offset: u16, ino: Ino, filetype: Option<u8>) {
    let at = usize::from(offset);
    image.put(at, &U64::new(ino.0));
    let namelen = image.bytes().get(at.saturating_add(8)).copied().unwrap_or(0);
    if let Some(filetype) = filetype {
        image.put(at.saturating_add(9).saturating_add(namelen.into()), &filetype);
    }
}

/// Converts a block from block form to data form. Its hash table, which was copied to a leaf,
/// becomes unused space.
pub fn from_block_form(image: &mut impl Image, geo: &Geometry) {
    let (start, end) = (area_end(image.bytes(), geo), image.bytes().len());
    image.put(0, &U32::new(V5.dir_data_magic));
    release(image, geo, start, end.saturating_sub(start));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::data::Data;
    use crate::testing::{geo_v5, geo_v5_1k};
    use crate::{Ctx, Fork, Location};
    use std::collections::BTreeMap;
    use xfskit_test_support::Random;
    use xfskit_units::{Daddr, FileOff};

    const ID: Identity = Identity { owner: Ino(75), daddr: Daddr(56) };

    fn verify_block<'a>(block: &'a mut [u8], geo: &'a Geometry) -> Data<'a> {
        stamp(block);
        let at = Location::of("test").ino(ID.owner).fork(Fork::Data).fileoff(FileOff(0));
        let at = Location { daddr: Some(ID.daddr), ..at };
        let data = Data::verify(block, &Ctx::new(geo, at), None).unwrap();
        let end = area_end(block, geo);
        let tiled: usize = data
            .slots()
            .map(|slot| match slot {
                Slot::Entry(e) => dir::entry_len(geo, e.name.len()),
                Slot::Unused { length, .. } => length,
            })
            .sum();
        assert_eq!(tiled, end - V5.dir_data_header);
        data
    }

    #[test]
    fn a_block_holds_what_a_map_holds() {
        let large = Geometry { blocklog: 16, dirblklog: 0, ..geo_v5() };
        let mut refused = 0;
        for (geo, steps, seed) in [(geo_v5_1k(), 5000, 1), (geo_v5(), 5000, 2), (large, 1500, 3)] {
            let mut random = Random::of_test(seed);
            let mut block = vec![0xff; geo.dirblksize()];
            init(&mut block, &geo, ID);
            let mut model: BTreeMap<u16, (u64, Vec<u8>)> = BTreeMap::new();
            for step in 0..steps {
                let draining = step % 1000 > 800;
                let pick = model.keys().nth(random.below(model.len() + 1)).copied();
                match pick {
                    Some(offset) if draining || random.one_in(6) => {
                        let (_, name) = model.remove(&offset).unwrap();
                        remove(&mut block, &geo, offset, name.len());
                    }
                    Some(offset) if random.one_in(4) => {
                        replace(&mut block, offset, Ino(99), Some(2));
                        model.get_mut(&offset).unwrap().0 = 99;
                    }
                    _ => {
                        let name = vec![b'n'; random.below(255) % (step % 255 + 1) + 1];
                        let entry =
                            Entry { inumber: Ino(98), name: &name, filetype: Some(1), offset: 0 };
                        let longest = usize::from(longest(&block));
                        if let Some(offset) = add(&mut block, &geo, &entry) {
                            assert!(model.insert(offset, (98, name)).is_none());
                        } else {
                            assert!(longest < dir::entry_len(&geo, name.len()));
                            refused += 1;
                        }
                    }
                }
                let data = verify_block(&mut block, &geo);
                let found = data.entries().map(|e| (e.offset, (e.inumber.0, e.name.to_vec())));
                assert!(found.eq(model.clone()));
                assert_eq!(model.is_empty(), longest(&block) == longest_when_empty(&geo));
            }
        }
        assert!(refused > 0, "blocks were full at times");
    }
}
