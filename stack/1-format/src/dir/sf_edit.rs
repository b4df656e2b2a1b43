//! Edits the short form. It is small, so it is rebuilt each time: bytes in, bytes out.
//!
//! An entry keeps the offset that it would have in a data block, from its creation on and through
//! every form, because readers resume from it.

use xfskit_units::{Geometry, Ino};

use crate::dir::sf::Sf;
use crate::dir::{self, Entry};
use crate::hash;
use crate::layout::Layout;

/// Returns true if an inode number needs 8 bytes.
const fn is_wide(ino: Ino) -> bool {
    ino.0 > u32::MAX as u64
}

fn push_ino(bytes: &mut Vec<u8>, ino: Ino, wide: bool) {
    let digits = ino.0.to_be_bytes();
    bytes.extend(digits.iter().skip(if wide { 0 } else { 4 }));
}

/// Builds the short form of a directory below `parent` with `entries`, which come in the order of
/// their offsets; `None` if there are too many for the form. The caller checks that it fits into
/// the inode.
pub fn build<'a>(
    parent: Ino,
    entries: impl IntoIterator<Item = Entry<'a>, IntoIter: Clone>,
) -> Option<Vec<u8>> {
    let entries = entries.into_iter();
    let count = u8::try_from(entries.clone().count()).ok()?;
    let numbers = entries.clone().map(|entry| entry.inumber).chain([parent]);
    let i8count = u8::try_from(numbers.filter(|ino| is_wide(*ino)).count()).ok()?;
    let wide = i8count > 0;
    let mut bytes = vec![count, i8count];
    push_ino(&mut bytes, parent, wide);
    for entry in entries {
        bytes.push(u8::try_from(entry.name.len()).ok()?);
        bytes.extend(entry.offset.to_be_bytes());
        bytes.extend(entry.name);
        bytes.extend(entry.filetype);
        push_ino(&mut bytes, entry.inumber, wide);
    }
    Some(bytes)
}

/// Returns the length of the short form of a directory below `parent` with `entries`, in bytes.
pub fn len<'a>(parent: Ino, entries: impl IntoIterator<Item = Entry<'a>>) -> usize {
    let (mut raw, mut numbers, mut wide) = (2usize, 1usize, is_wide(parent));
    for entry in entries {
        let fixed = 3usize.saturating_add(usize::from(entry.filetype.is_some()));
        raw = raw.saturating_add(entry.name.len()).saturating_add(fixed);
        numbers = numbers.saturating_add(1);
        wide |= is_wide(entry.inumber);
    }
    raw.saturating_add(numbers.saturating_mul(if wide { 8 } else { 4 }))
}

/// Returns `sf` with `entry` added, at the first free offset after the others, or between them.
/// `None` if there is no such offset: neither the short form nor a block could hold it.
pub fn add(sf: &Sf<'_>, geo: &Geometry, entry: Entry<'_>) -> Option<Vec<u8>> {
    let need = dir::entry_len(geo, entry.name.len());
    // As a block, the directory needs a hash entry for each name, ".", "..", and a tail.
    let table = usize::from(sf.count).saturating_add(4).saturating_mul(8);
    let limit = geo.dirblksize().checked_sub(table)?;
    let mut end = Layout::of(geo).dir_first_entry;
    let (mut index, mut hole) = (0usize, None);
    for old in sf.entries() {
        let offset = usize::from(old.offset);
        if hole.is_none() && end.saturating_add(need) <= offset {
            hole = Some((index, end));
        }
        end = offset.saturating_add(dir::entry_len(geo, old.name.len()));
        index = index.saturating_add(1);
    }
    if end > limit {
        return None;
    }
    let behind = (end.saturating_add(need) <= limit).then_some((index, end));
    let (index, offset) = behind.or(hole)?;
    let entry = Entry { offset: u16::try_from(offset).ok()?, ..entry };
    let (before, after) = (sf.entries().take(index), sf.entries().skip(index));
    build(sf.parent, before.chain([entry]).chain(after))
}

/// Returns `sf` without `name`; `None` if it has no such name.
pub fn remove(sf: &Sf<'_>, geo: &Geometry, name: &[u8]) -> Option<Vec<u8>> {
    let gone = sf.entries().position(|e| hash::same_name(geo, e.name, name))?;
    build(sf.parent, sf.entries().enumerate().filter(|(i, _)| *i != gone).map(|(_, e)| e))
}

/// Returns `sf` with another inode and type for `name`; ".." is the parent directory. `None` if it
/// has no such name.
pub fn replace(
    sf: &Sf<'_>,
    geo: &Geometry,
    name: &[u8],
    inumber: Ino,
    filetype: Option<u8>,
) -> Option<Vec<u8>> {
    if name == b".." {
        return build(inumber, sf.entries());
    }
    let index = sf.entries().position(|e| hash::same_name(geo, e.name, name))?;
    let entries = sf.entries().enumerate();
    build(
        sf.parent,
        entries.map(|(i, e)| if i == index { Entry { inumber, filetype, ..e } } else { e }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::sf::empty;
    use crate::testing::geo_v5_1k;
    use crate::{Ctx, Location};
    use xfskit_units::RfsBlock;

    /// Makes a volume large enough for inode numbers above 32 bits.
    fn big() -> Geometry {
        Geometry { agcount: 1 << 20, dblocks: RfsBlock(81920 << 20), ..geo_v5_1k() }
    }

    const WIDE: u64 = (1 << 33) + 64;

    fn entry(name: &str, ino: u64) -> Entry<'_> {
        Entry { inumber: Ino(ino), name: name.as_bytes(), filetype: Some(1), offset: 0 }
    }

    fn read(bytes: &[u8]) -> (u64, Vec<(String, u64, u16)>) {
        let geo = big();
        let sf = Sf::verify(bytes, &Ctx::new(&geo, Location::of("test"))).unwrap();
        let name = |e: &Entry<'_>| String::from_utf8(e.name.to_vec()).unwrap();
        (sf.parent.0, sf.entries().map(|e| (name(&e), e.inumber.0, e.offset)).collect())
    }

    fn parse(bytes: &[u8]) -> Sf<'_> {
        Sf::parse(bytes, Box::leak(Box::new(big()))).unwrap()
    }

    #[test]
    fn names_are_added_and_removed_and_keep_their_offsets() {
        let geo = big();
        let mut sf = empty(Ino(64));
        for (name, ino) in [("alpha", 65), ("link", 66), ("fifo", 67)] {
            sf = add(&parse(&sf), &geo, entry(name, ino)).unwrap();
        }
        let expected = b"\x03\0\0\0\0\x40\x05\0\x60alpha\x01\0\0\0\x41\
            \x04\0\x78link\x01\0\0\0\x42\x04\0\x88fifo\x01\0\0\0\x43";
        assert_eq!(sf, expected, "as Linux writes it");
        sf = remove(&parse(&sf), &geo, b"link").unwrap();
        sf = add(&parse(&sf), &geo, entry("new", 68)).unwrap();
        let names = [("alpha", 65, 0x60), ("fifo", 67, 0x88), ("new", 68, 0x98)];
        assert_eq!(read(&sf), (64, names.map(|(n, i, o)| (n.to_string(), i, o)).to_vec()));
        assert_eq!(remove(&parse(&sf), &geo, b"link"), None);
    }

    #[test]
    fn one_large_number_widens_all_numbers_until_it_is_removed() {
        let geo = big();
        let sf = add(&parse(&empty(Ino(64))), &geo, entry("a", 65)).unwrap();
        let wide = add(&parse(&sf), &geo, entry("b", WIDE)).unwrap();
        assert_eq!((sf.len(), wide.len()), (6 + 9, 10 + 13 + 13));
        assert_eq!(read(&wide).1[1].1, WIDE);
        assert_eq!(len(Ino(64), parse(&wide).entries()), wide.len());
        assert_eq!(remove(&parse(&wide), &geo, b"b").unwrap(), sf);
        let replaced = replace(&parse(&wide), &geo, b"b", Ino(66), Some(1)).unwrap();
        assert_eq!(read(&replaced).1[1], ("b".into(), 66, 0x70));
        let parent = replace(&parse(&sf), &geo, b"..", Ino(2 * WIDE), None).unwrap();
        assert_eq!((read(&parent).0, parent[1]), (2 * WIDE, 1));
        assert_eq!(replace(&parse(&parent), &geo, b"..", Ino(64), None).unwrap(), sf);
    }

    #[test]
    fn a_hole_is_used_when_the_end_of_the_block_is_reached() {
        let geo = big();
        let long = "l".repeat(255);
        let mut sf = empty(Ino(64));
        for i in 0..14 {
            let name = format!("{i:02}{}", &long[2..]);
            sf = add(&parse(&sf), &geo, entry(&name, 65)).unwrap();
        }
        assert_eq!(add(&parse(&sf), &geo, entry(&long, 65)), None, "a block has no space");
        sf = remove(&parse(&sf), &geo, format!("03{}", &long[2..]).as_bytes()).unwrap();
        let sf = add(&parse(&sf), &geo, entry(&long, 65)).unwrap();
        assert_eq!(read(&sf).1[3], (long, 65, 96 + 3 * 272));
    }
}
