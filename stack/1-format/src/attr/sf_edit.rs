//! Edits the short form. It is small, so it is rebuilt each time: bytes in, bytes out.

use crate::attr::sf::{Entry, HEADER_LEN, Sf};
use crate::image::Image;

/// Bytes of `flags`, `namelen` and `valuelen` before a name.
const ENTRY_HEAD: usize = 3;

/// Returns the length of an attribute, in bytes.
pub fn entry_len(name: &[u8], value: &[u8]) -> usize {
    ENTRY_HEAD.saturating_add(name.len()).saturating_add(value.len())
}

/// Builds the short form of `entries`, in this order; `None` if there are too many, or some are too
/// long for the form. The caller checks that it fits into the inode.
pub fn build<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Option<Vec<u8>> {
    let mut list = vec![0; HEADER_LEN];
    let mut count = 0u8;
    for entry in entries {
        let (namelen, valuelen) = (entry.name.len().try_into(), entry.value.len().try_into());
        list.extend([namelen.ok()?, valuelen.ok()?, entry.flags]);
        list.extend(entry.name);
        list.extend(entry.value);
        count = count.checked_add(1)?;
    }
    let totsize = u16::try_from(list.len()).ok()?;
    list.put(0, &totsize.to_be_bytes());
    list.put(2, &count);
    Some(list)
}

/// Returns `sf` with `entry` at its end.
pub fn add(sf: &Sf<'_>, entry: Entry<'_>) -> Option<Vec<u8>> {
    build(sf.entries().chain([entry]))
}

/// Returns `sf` without the attributes that `goes` selects.
pub fn remove(sf: &Sf<'_>, goes: impl Fn(&Entry<'_>) -> bool) -> Option<Vec<u8>> {
    build(sf.entries().filter(|entry| !goes(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::geo_v5_1k;
    use crate::{Ctx, Location};

    fn entry<'a>(flags: u8, name: &'a str, value: &'a str) -> Entry<'a> {
        Entry { flags, name: name.as_bytes(), value: value.as_bytes() }
    }

    fn read(list: &[u8]) -> Vec<(u8, Vec<u8>, Vec<u8>)> {
        let geo = geo_v5_1k();
        let sf = Sf::verify(list, &Ctx::new(&geo, Location::of("test"))).unwrap();
        assert_eq!(usize::from(sf.totsize), list.len());
        sf.entries().map(|e| (e.flags, e.name.to_vec(), e.value.to_vec())).collect()
    }

    #[test]
    fn the_bytes_are_those_of_linux() {
        let list =
            build([entry(0, "foo", "bar"), entry(2, "t", "tv"), entry(4, "s", "sv")]).unwrap();
        assert_eq!(list, b"\0\x19\x03\0\x03\x03\0foobar\x01\x02\x02ttv\x01\x02\x04ssv");
    }

    #[test]
    fn attributes_come_and_go() {
        let empty = build([]).unwrap();
        assert_eq!(empty, [0, 4, 0, 0]);
        let one = add(&Sf::parse(&empty).unwrap(), entry(0, "a", "1")).unwrap();
        let two = add(&Sf::parse(&one).unwrap(), entry(2, "a", "")).unwrap();
        assert_eq!(
            read(&two),
            [(0, b"a".to_vec(), b"1".to_vec()), (2, b"a".to_vec(), b"".to_vec())]
        );
        let left = remove(&Sf::parse(&two).unwrap(), |e| e.flags == 0).unwrap();
        assert_eq!(read(&left), [(2, b"a".to_vec(), b"".to_vec())]);
        let long = "v".repeat(256);
        assert_eq!(add(&Sf::parse(&two).unwrap(), entry(0, "b", &long)), None);
    }
}
