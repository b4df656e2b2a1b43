//! Entries that were removed and not overwritten: what unused space of a data block still tells.
//!
//! Unused space begins with a tag and its length, which overwrite the high half of an entry's inode
//! number. The rest of the entry stays: the low half, the name, the type, and its own offset at the
//! end, or that of the unused space if the entry is the last one there.

use xfskit_units::Geometry;

use super::data::FREETAG;
use super::{ENTRY_ALIGN, FTYPE_END};
use crate::bytes;

/// An entry, as far as it can be read.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Low half of the inode number.
    pub low: u32,
    /// High half, if it was not overwritten.
    pub high: Option<u32>,
    /// 1 to 255 bytes, without a slash or a NUL; not `.` or `..`.
    pub name: &'a [u8],
    /// The type byte; 0 on a volume without types in its entries.
    pub ftype: u8,
}

/// Bytes with entries, and where they lie in their directory block.
#[derive(Clone, Copy, Debug)]
pub struct Area<'a> {
    bytes: &'a [u8],
    /// Offset of the first byte in the block.
    offset: usize,
    /// The offset that the last two bytes hold in place of the last entry's own.
    tag: Option<usize>,
}

impl<'a> Area<'a> {
    /// Returns a part of a directory block from the journal, which begins at `offset` of the block.
    pub fn logged(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset, tag: None }
    }

    /// Returns unused space, which begins at `offset` of its block.
    pub fn unused(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset, tag: Some(offset) }
    }

    /// Passes all that looks like an entry to `each`.
    pub fn entries(&self, geo: &Geometry, each: &mut dyn FnMut(Entry<'a>)) {
        let ftype = geo.features.ftype();
        for at in (0..self.bytes.len()).step_by(ENTRY_ALIGN) {
            if let Some(entry) = self.entry(ftype, at) {
                each(entry);
            }
        }
    }

    fn entry(&self, ftype: bool, at: usize) -> Option<Entry<'a>> {
        let rest = self.bytes.get(at..)?;
        let namelen = usize::from(*rest.get(8)?);
        let name = rest.get(9..namelen.checked_add(9)?)?;
        let raw = namelen.saturating_add(11).saturating_add(ftype.into());
        let length = bytes::round_up(raw, ENTRY_ALIGN);
        let tag = usize::from(bytes::be16(rest, length.checked_sub(2)?)?);
        let own = self.offset.saturating_add(at);
        let is_last = length == rest.len() && Some(tag) == self.tag;
        let type_byte = if ftype { *rest.get(namelen.saturating_add(9))? } else { 0 };
        if (tag != own && !is_last) || type_byte >= FTYPE_END || !is_name(name) {
            return None;
        }
        let high = (bytes::be16(rest, 0)? != FREETAG).then(|| bytes::be32(rest, 0)).flatten();
        Some(Entry { low: bytes::be32(rest, 4)?, high, name, ftype: type_byte })
    }
}

/// Returns true for bytes that can be the name of a file.
pub fn is_name(name: &[u8]) -> bool {
    let dots = name == b"." || name == b"..";
    !name.is_empty() && !dots && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

#[cfg(test)]
mod tests {
    use xfskit_test_support::entry::dir_entry;

    use super::*;

    fn names(area: &Area<'_>) -> Vec<(u32, Option<u32>, Vec<u8>)> {
        let places = (0..area.bytes.len()).step_by(ENTRY_ALIGN);
        let found = places.filter_map(|at| area.entry(true, at));
        found.map(|entry| (entry.low, entry.high, entry.name.to_vec())).collect()
    }

    #[test]
    fn a_dead_entry_keeps_low_half_and_name() {
        let mut bytes = dir_entry(0x1_0000_0083, b"gone", 96);
        let len = u16::try_from(bytes.len()).unwrap();
        bytes[..2].copy_from_slice(&FREETAG.to_be_bytes());
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        let area = Area::unused(&bytes, 96);
        assert_eq!(names(&area), [(0x83, None, b"gone".to_vec())]);
    }

    #[test]
    fn a_merged_entry_ends_with_the_tag_of_the_unused_space() {
        let (first, mut second) = (dir_entry(0x83, b"one", 96), dir_entry(0x84, b"two", 112));
        let end = second.len();
        second[end - 2..].copy_from_slice(&96u16.to_be_bytes());
        let bytes = [first, second].concat();
        let area = Area::unused(&bytes, 96);
        let found = [(0x83, Some(0), b"one".to_vec()), (0x84, Some(0), b"two".to_vec())];
        assert_eq!(names(&area), found);
        assert_eq!(names(&Area::logged(&bytes, 96)), found[..1], "its own tag is not there");
    }

    #[test]
    fn names_with_slashes_and_wrong_tags_are_none() {
        let bytes = [dir_entry(0x83, b"a/b", 96), dir_entry(0x84, b"two", 96)].concat();
        assert!(names(&Area::logged(&bytes, 96)).is_empty());
    }
}
