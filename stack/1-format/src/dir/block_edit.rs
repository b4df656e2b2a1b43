//! Edits the block form: a data block with its own hash table after the names.
//!
//! The table grows towards the names, into the unused space before it. Removing its stale entries
//! returns their space.

use xfskit_units::{Geometry, Ino};
use zerocopy::IntoBytes;
use zerocopy::big_endian::U32;

use crate::da_edit::Identity;
use crate::dir::data::{Data, Form};
use crate::dir::data_edit::{self, Best, Gap};
use crate::dir::leaf::LeafEntry;
use crate::dir::sf::Sf;
use crate::dir::{self, DataPtr, Entry, leaf_edit, sf_edit};
use crate::hash;
use crate::image::Image;
use crate::layout::Layout;

const V5: Layout = Layout::V5;
const ENTRY: usize = size_of::<LeafEntry>();
/// Bytes of `count` and `stale`.
const TAIL: usize = 8;
const DIRECTORY: u8 = 2;

/// Returns the data pointer of byte `offset` of a directory's first block.
fn dataptr(offset: u16) -> DataPtr {
    DataPtr(u32::from(offset) >> 3)
}

/// Returns the length of a hash table of `count` names and its tail, in bytes.
pub fn table_len(count: usize) -> usize {
    count.saturating_mul(ENTRY).saturating_add(TAIL)
}

/// Writes the table whose entries are `sorted`, and its tail.
fn put_table(image: &mut impl Image, sorted: &[LeafEntry]) {
    let start = image.bytes().len().saturating_sub(table_len(sorted.len()));
    let stale = sorted.iter().filter(|e| e.address.get() == 0).count();
    if !sorted.is_empty() {
        image.put(start, sorted.as_bytes());
    }
    put_tail(image, sorted.len(), stale);
}

fn put_tail(image: &mut impl Image, count: usize, stale: usize) {
    let number = |n: usize| U32::new(u32::try_from(n).unwrap_or(u32::MAX));
    let tail = image.bytes().len().saturating_sub(TAIL);
    image.put(tail, &[number(count), number(stale)]);
}

/// Returns the first two entries of the directory `ino` below `parent`.
pub fn dots(geo: &Geometry, ino: Ino, parent: Ino) -> [Entry<'static>; 2] {
    let filetype = geo.features.ftype().then_some(DIRECTORY);
    let first = u16::try_from(V5.dir_data_header).unwrap_or(0);
    let second = first.saturating_add(u16::try_from(dir::entry_len(geo, 1)).unwrap_or(0));
    [
        Entry { inumber: ino, name: b".", filetype, offset: first },
        Entry { inumber: parent, name: b"..", filetype, offset: second },
    ]
}

/// Makes `image` the only block of a directory with `entries`, "." and ".." first, each at its
/// offset.
///
/// # Panics
/// If they do not fit.
pub fn build(image: &mut impl Image, geo: &Geometry, id: Identity, entries: &[Entry<'_>]) {
    let end = geo.dirblksize().saturating_sub(table_len(entries.len()));
    let by_hash = |e: &Entry<'_>| leaf_edit::entry(hash::dir_hash(geo, e.name), dataptr(e.offset));
    let mut table: Vec<LeafEntry> = entries.iter().map(by_hash).collect();
    table.sort_unstable_by_key(|e| (e.hashval.get(), e.address.get()));
    data_edit::init_to(image, geo, Form::Block, id, end);
    put_table(image, &table);
    for entry in entries {
        data_edit::place(image, geo, entry);
    }
}

/// Makes `image` the only block of the directory that was in the inode as `sf`.
///
/// # Panics
/// Never for a verified short form: it fits a block.
pub fn from_sf(image: &mut impl Image, geo: &Geometry, id: Identity, sf: &Sf<'_>) {
    let entries: Vec<_> = dots(geo, id.owner, sf.parent).into_iter().chain(sf.entries()).collect();
    build(image, geo, id, &entries);
}

/// Returns the short form of the verified block `data`, unless it is longer than `max` bytes.
pub fn to_sf(data: &Data<'_>, max: usize) -> Option<Vec<u8>> {
    let parent = data.entries().find(|e| e.name == b"..")?.inumber;
    let entries = data.entries().skip(2);
    let live = data.bleaf.len().saturating_sub(data.stale as usize);
    // Each entry takes at least 9 bytes, so most blocks are recognized as too long at once.
    if live.saturating_sub(2).saturating_mul(9) > max || sf_edit::len(parent, entries.clone()) > max
    {
        return None;
    }
    sf_edit::build(parent, entries)
}

/// A position for a new entry of `len` bytes.
enum Fit {
    /// The start of this space, with a stale entry of the hash table.
    Stale(Gap),
    /// The start of this space, with a new entry of the table.
    Grow(Gap),
    /// Some position, after the stale entries are removed.
    Compact,
    /// No position.
    None,
}

fn find_fit(data: &Data<'_>, block: &[u8], geo: &Geometry, len: usize) -> Fit {
    let Best([first, second, _]) = Best::of(block);
    let last = data_edit::gap_before(block, data_edit::area_end(block, geo));
    let stale = (data.stale as usize).saturating_mul(ENTRY);
    if stale > 0 {
        return if first.length >= len {
            Fit::Stale(first)
        } else if last.length.saturating_add(stale) >= len.saturating_add(ENTRY) {
            Fit::Compact
        } else {
            Fit::None
        };
    }
    if last.length < ENTRY {
        return Fit::None;
    }
    // The last space must hold the table's new entry as well.
    let fits = |gap: &Gap| {
        let usable = gap.length.saturating_sub(if gap.offset == last.offset { ENTRY } else { 0 });
        usable >= len
    };
    [first, second].into_iter().find(fits).map_or(Fit::None, Fit::Grow)
}

/// Adds `entry` to the verified block in `image`, and returns its position. Returns `None` and
/// changes nothing if it does not fit.
pub fn add(image: &mut impl Image, geo: &Geometry, entry: &Entry<'_>) -> Option<u16> {
    let len = dir::entry_len(geo, entry.name.len());
    let data = Data::parse(image.bytes(), geo)?;
    let (gap, grows) = match find_fit(&data, image.bytes(), geo, len) {
        Fit::Stale(gap) => (gap, false),
        Fit::Grow(gap) => (gap, true),
        Fit::Compact => {
            compact(image, geo);
            return add(image, geo, entry);
        }
        Fit::None => return None,
    };
    let offset = u16::try_from(gap.offset).ok()?;
    insert(image, geo, grows, leaf_edit::entry(hash::dir_hash(geo, entry.name), dataptr(offset)));
    data_edit::put_entry(image, geo, gap.offset, entry);
    // The table may have grown into the same space.
    let end = gap.end().min(data_edit::area_end(image.bytes(), geo));
    let gap = Gap { length: end.saturating_sub(gap.offset), ..gap };
    data_edit::take(image, geo, gap, gap.offset, len);
    Some(offset)
}

/// Inserts `new` into the hash table: over a stale entry, or the table grows into the unused space
/// before it.
fn insert(image: &mut impl Image, geo: &Geometry, grows: bool, new: LeafEntry) {
    let Some(data) = Data::parse(image.bytes(), geo) else { return };
    let (count, stale) = (data.bleaf.len(), data.stale as usize);
    let index = leaf_edit::place_of(data.bleaf, new.hashval.get());
    let table = data_edit::area_end(image.bytes(), geo);
    if grows {
        let last = data_edit::gap_before(image.bytes(), table);
        let start = table.saturating_sub(ENTRY);
        let at = |i: usize| start.saturating_add(i.saturating_mul(ENTRY));
        image.shift(table..at(index.saturating_add(1)), start);
        image.put(at(index), &new);
        put_tail(image, count.saturating_add(1), stale);
        data_edit::take(image, geo, last, start, ENTRY);
    } else if let Some(old) = leaf_edit::nearest_stale(data.bleaf, index) {
        leaf_edit::reuse(image, table, index, old, new);
        put_tail(image, count, stale.saturating_sub(1));
    }
}

/// Removes the stale entries of the hash table. Their space becomes unused space before it.
pub fn compact(image: &mut impl Image, geo: &Geometry) {
    let Some(data) = Data::parse(image.bytes(), geo) else { return };
    let freed = (data.stale as usize).saturating_mul(ENTRY);
    if freed == 0 {
        return;
    }
    let live = leaf_edit::live(data.bleaf);
    let start = data_edit::area_end(image.bytes(), geo);
    put_table(image, &live);
    data_edit::release(image, geo, start, freed);
}

/// Removes the entry at byte `offset`, with `name`, from the verified block in `image`.
pub fn remove(image: &mut impl Image, geo: &Geometry, offset: u16, name: &[u8]) {
    let Some(data) = Data::parse(image.bytes(), geo) else { return };
    let (count, stale) = (data.bleaf.len(), data.stale as usize);
    let index = leaf_edit::find(data.bleaf, hash::dir_hash(geo, name), dataptr(offset));
    let Some(index) = index else { return };
    let table = data_edit::area_end(image.bytes(), geo);
    let address = table.saturating_add(index.saturating_mul(ENTRY)).saturating_add(4);
    image.put(address, &U32::ZERO);
    put_tail(image, count, stale.saturating_add(1));
    data_edit::remove(image, geo, offset, name.len());
}

/// Converts the only data block of a directory, which is verified, to block form, with the hash
/// table `live`, which has no stale entries. Returns false and changes nothing if the end of the
/// block has no space for it.
pub fn from_data(image: &mut impl Image, geo: &Geometry, live: &[LeafEntry]) -> bool {
    let end = image.bytes().len();
    let last = data_edit::gap_before(image.bytes(), end);
    let len = table_len(live.len());
    if last.length < len {
        return false;
    }
    image.put(0, &U32::new(V5.dir_block_magic));
    put_table(image, live);
    data_edit::take(image, geo, last, end.saturating_sub(len), len);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::sf::empty;
    use crate::testing::{geo_v5, geo_v5_1k};
    use crate::{Ctx, Fork, Location};
    use std::collections::BTreeMap;
    use xfskit_test_support::Random;
    use xfskit_units::{Daddr, FileOff};

    const ID: Identity = Identity { owner: Ino(75), daddr: Daddr(56) };

    fn ctx(geo: &Geometry) -> Ctx<'_> {
        let at = Location::of("test").ino(ID.owner).fork(Fork::Data).fileoff(FileOff(0));
        Ctx::new(geo, Location { daddr: Some(ID.daddr), ..at })
    }

    fn verify_block<'a>(block: &'a mut [u8], geo: &'a Geometry) -> Data<'a> {
        data_edit::stamp(block);
        let data = Data::verify(block, &ctx(geo), Some(Form::Block)).unwrap();
        assert_eq!(data.verify_dots(&ctx(geo), ID.owner).unwrap(), Ino(74));
        data
    }

    /// Makes names of which many have one hash: the low bits of a byte coincide with the high ones
    /// of the next.
    fn name(n: usize) -> Vec<u8> {
        let twin = [[0x41, 0x41], [0x40, 0xc1]][n % 2];
        [&twin[..], format!("{:01$}", n / 2, n / 2 % 90 + 1).as_bytes()].concat()
    }

    #[test]
    fn a_directory_of_one_block_holds_what_a_map_holds() {
        let large = Geometry { blocklog: 16, ..geo_v5() };
        let mut refused = 0;
        for (geo, steps, seed) in [(geo_v5_1k(), 6000, 1), (geo_v5(), 6000, 2), (large, 1000, 3)] {
            let mut random = Random::of_test(seed);
            let mut block = vec![0xff; geo.dirblksize()];
            let sf = empty(Ino(74));
            from_sf(&mut block, &geo, ID, &Sf::parse(&sf, &geo).unwrap());
            let mut model: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
            for step in 0..steps {
                let pick = model.keys().nth(random.below(model.len() + 1)).copied();
                match pick {
                    Some(offset) if step % 1000 > 800 || random.one_in(6) => {
                        remove(&mut block, &geo, offset, &model.remove(&offset).unwrap());
                    }
                    _ => {
                        let name = name(random.below(1000));
                        if model.values().any(|old| *old == name) {
                            continue;
                        }
                        let entry =
                            Entry { inumber: Ino(98), name: &name, filetype: Some(1), offset: 0 };
                        let before = block.clone();
                        if let Some(offset) = add(&mut block, &geo, &entry) {
                            assert!(model.insert(offset, name).is_none());
                        } else {
                            assert_eq!(block, before);
                            refused += 1;
                        }
                    }
                }
                let data = verify_block(&mut block, &geo);
                let found = data.entries().skip(2).map(|e| (e.offset, e.name.to_vec()));
                assert!(found.eq(model.clone()));
            }
        }
        assert!(refused > 0, "blocks were full at times");
    }

    #[test]
    fn forms_convert_into_each_other_and_back() {
        let geo = geo_v5();
        let mut sf = empty(Ino(74));
        for n in 0..12 {
            let name = name(n);
            let entry = Entry { inumber: Ino(98), name: &name, filetype: Some(1), offset: 0 };
            sf = sf_edit::add(&Sf::parse(&sf, &geo).unwrap(), &geo, entry).unwrap();
        }
        for n in [3, 4, 11] {
            sf = sf_edit::remove(&Sf::parse(&sf, &geo).unwrap(), &geo, &name(n)).unwrap();
        }
        let mut block = vec![0; geo.dirblksize()];
        from_sf(&mut block, &geo, ID, &Sf::verify(&sf, &ctx(&geo)).unwrap());
        let data = verify_block(&mut block, &geo);
        assert_eq!(to_sf(&data, sf.len() - 1), None);
        assert_eq!(to_sf(&data, sf.len()).unwrap(), sf);
        let table = data.bleaf.to_vec();
        let whole = block.clone();
        data_edit::from_block_form(&mut block, &geo);
        data_edit::stamp(&mut block);
        Data::verify(&block, &ctx(&geo), Some(Form::Data)).unwrap();
        assert!(from_data(&mut block, &geo, &table));
        verify_block(&mut block, &geo);
        let names = |block: &[u8]| -> Vec<Vec<u8>> {
            Data::parse(block, &geo).unwrap().entries().map(|e| e.name.to_vec()).collect()
        };
        assert_eq!(names(&block), names(&whole));
    }
}
