//! Names of removed files: dead entries of directories, and entries in the journal.
//!
//! Unused space of a data block begins with a tag and its length, which overwrite the high half of
//! an entry's inode number. The rest of the entry stays: the low half, the name, the type, and its
//! own offset at the end.

use rustc_hash::FxHashMap;
use xfskit_format::dir::data::{FREETAG, Slot, Slots};
use xfskit_format::dir::{ENTRY_ALIGN, FTYPE_END};
use xfskit_format::inode::FileType;
use xfskit_format::{Layout, bytes};
use xfskit_units::{Geometry, Ino, Lsn};

use crate::candidate::{Candidate, Name};

/// An entry, as far as it can be read.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    /// Low half of the inode number.
    low: u32,
    /// High half, if it was not overwritten.
    high: Option<u32>,
    name: &'a [u8],
    ftype: u8,
}

/// Bytes with entries, and where they lie in their directory block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area<'a> {
    bytes: &'a [u8],
    /// Offset of the first byte in the block.
    offset: usize,
    /// The offset that the last two bytes hold in place of the last entry's own.
    tag: Option<usize>,
}

impl<'a> Area<'a> {
    /// Returns a part of a directory block from the journal, which begins at `offset` of the block.
    pub(crate) fn logged(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset, tag: None }
    }

    /// Passes all that looks like an entry to `each`.
    pub(crate) fn entries(&self, geo: &Geometry, each: &mut dyn FnMut(Entry<'a>)) {
        for at in (0..self.bytes.len()).step_by(ENTRY_ALIGN) {
            if let Some(entry) = self.entry(geo, at) {
                each(entry);
            }
        }
    }

    fn entry(&self, geo: &Geometry, at: usize) -> Option<Entry<'a>> {
        let rest = self.bytes.get(at..)?;
        let namelen = usize::from(*rest.get(8)?);
        let name = rest.get(9..namelen.checked_add(9)?)?;
        let ftype = geo.features.ftype();
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

/// Passes the dead entries of a directory block to `each`; those in use too, if `all` is set.
pub(crate) fn of_block<'a>(
    block: &'a [u8],
    geo: &Geometry,
    all: bool,
    each: &mut dyn FnMut(Entry<'a>),
) {
    for slot in Slots::of(block, geo) {
        match slot {
            Slot::Entry(entry) if all && is_name(entry.name) => each(Entry {
                low: low(entry.inumber),
                high: u32::try_from(entry.inumber.0 >> 32).ok(),
                name: entry.name,
                ftype: entry.filetype.unwrap_or(0),
            }),
            Slot::Entry(_) => {}
            Slot::Unused { offset, length, .. } => {
                let end = offset.saturating_add(length);
                let Some(bytes) = block.get(offset..end) else { return };
                Area { bytes, offset, tag: Some(offset) }.entries(geo, each);
            }
        }
    }
}

/// Passes what looks like an entry of a short form in `bytes` to `each`: the part of a literal area
/// behind the entries in use. The numbers of such entries have four bytes.
pub(crate) fn of_short_form<'a>(bytes: &'a [u8], geo: &Geometry, each: &mut dyn FnMut(Entry<'a>)) {
    let first = Layout::of(geo).dir_first_entry;
    for at in 0..bytes.len() {
        let Some(rest) = bytes.get(at..) else { return };
        let entry = short_entry(rest, first);
        if let Some(entry) = entry.filter(|entry| geo.valid_ino(Ino(entry.low.into()))) {
            each(entry);
        }
    }
}

fn short_entry(rest: &[u8], first: usize) -> Option<Entry<'_>> {
    let namelen = usize::from(*rest.first()?);
    let offset = usize::from(bytes::be16(rest, 1)?);
    let name = rest.get(3..namelen.checked_add(3)?)?;
    let ftype = *rest.get(namelen.saturating_add(3))?;
    let low = bytes::be32(rest, namelen.saturating_add(4))?;
    let placed = offset >= first && offset.is_multiple_of(ENTRY_ALIGN);
    let typed = (1..FTYPE_END).contains(&ftype);
    let printable = !name.iter().any(u8::is_ascii_control);
    (placed && typed && printable && is_name(name)).then_some(Entry {
        low,
        high: Some(0),
        name,
        ftype,
    })
}

/// Returns true for bytes that can be the name of a file.
fn is_name(name: &[u8]) -> bool {
    let dots = name == b"." || name == b"..";
    !name.is_empty() && !dots && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

/// Returns the low half of a number.
fn low(ino: Ino) -> u32 {
    u32::try_from(ino.0 & u64::from(u32::MAX)).unwrap_or(0)
}

/// A name and the inode that it names.
#[derive(Clone, Debug)]
pub(crate) struct Hint {
    low: u32,
    high: Option<u32>,
    name: Name,
}

impl Hint {
    /// Returns what `entry` of directory `parent` tells, which the journal saw at `lsn`.
    pub(crate) fn new(entry: &Entry<'_>, parent: Option<Ino>, lsn: Lsn) -> Self {
        let file_type = FileType::from_ftype(entry.ftype).filter(|kind| *kind != FileType::Unknown);
        let name = Name { parent, name: entry.name.to_vec(), file_type, lsn };
        Self { low: entry.low, high: entry.high, name }
    }

    /// Returns what a whole entry tells.
    pub(crate) fn of(ino: Ino, name: Name) -> Option<Self> {
        let high = Some(u32::try_from(ino.0 >> 32).unwrap_or(0));
        is_name(&name.name).then_some(Self { low: low(ino), high, name })
    }
}

/// Finds the candidates that names are of.
#[derive(Debug)]
pub(crate) struct Named<'c> {
    candidates: &'c mut [Candidate],
    by_low: FxHashMap<u32, Vec<usize>>,
}

impl<'c> Named<'c> {
    pub(crate) fn new(candidates: &'c mut [Candidate]) -> Self {
        let mut by_low = FxHashMap::<u32, Vec<usize>>::default();
        for (index, candidate) in candidates.iter().enumerate() {
            by_low.entry(low(candidate.ino)).or_default().push(index);
        }
        // Oldest first: of files that had one inode, a name in the journal is of the first that was
        // removed after it.
        for same in by_low.values_mut() {
            same.sort_by_key(|&index| candidates[index].lsn);
        }
        Self { candidates, by_low }
    }

    /// Returns true if a candidate may have the entry's inode.
    pub(crate) fn wants(&self, entry: &Entry<'_>) -> bool {
        self.by_low.contains_key(&entry.low)
    }

    /// Adds a name to the file that it is of. A number of which only the low half is left names a
    /// file only if no other has the same.
    pub(crate) fn add(&mut self, hint: Hint) {
        let Some(same) = self.by_low.get(&hint.low) else { return };
        let fits = |&&index: &&usize| {
            let high = u32::try_from(self.candidates[index].ino.0 >> 32).unwrap_or(0);
            hint.high.is_none_or(|known| known == high)
        };
        let mut fitting = same.iter().filter(fits).copied();
        let Some(first) = fitting.next() else { return };
        let ino = self.candidates[first].ino;
        let rest: Vec<usize> = fitting.collect();
        if rest.iter().any(|&index| self.candidates[index].ino != ino) {
            return;
        }
        let all = || std::iter::once(first).chain(rest.iter().copied());
        let after = all().find(|&index| self.candidates[index].lsn >= hint.name.lsn);
        let newest = all().next_back();
        let chosen = if hint.name.lsn.is_unset() { newest } else { after };
        if let Some(index) = chosen {
            self.candidates[index].add_name(hint.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use xfskit_test_support::kept;

    use super::*;

    /// Builds an entry at offset `at` of a block, as on disk.
    fn entry(ino: u64, name: &[u8], at: u16) -> Vec<u8> {
        let mut entry = ino.to_be_bytes().to_vec();
        entry.push(u8::try_from(name.len()).unwrap());
        entry.extend_from_slice(name);
        entry.push(1);
        entry.resize((entry.len() + 2).next_multiple_of(ENTRY_ALIGN) - 2, 0);
        entry.extend_from_slice(&at.to_be_bytes());
        entry
    }

    fn names(area: &Area<'_>) -> Vec<(u32, Option<u32>, Vec<u8>)> {
        let device = kept::device("v5");
        let volume = xfskit_core::Volume::open(device, &xfskit_core::OpenOptions::default());
        let mut found = Vec::new();
        area.entries(volume.unwrap().geo(), &mut |entry| {
            found.push((entry.low, entry.high, entry.name.to_vec()));
        });
        found
    }

    #[test]
    fn a_dead_entry_keeps_low_half_and_name() {
        let mut bytes = entry(0x1_0000_0083, b"gone", 96);
        let len = u16::try_from(bytes.len()).unwrap();
        bytes[..2].copy_from_slice(&FREETAG.to_be_bytes());
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        let area = Area { bytes: &bytes, offset: 96, tag: Some(96) };
        assert_eq!(names(&area), [(0x83, None, b"gone".to_vec())]);
    }

    #[test]
    fn a_merged_entry_ends_with_the_tag_of_the_unused_space() {
        let (first, mut second) = (entry(0x83, b"one", 96), entry(0x84, b"two", 112));
        let end = second.len();
        second[end - 2..].copy_from_slice(&96u16.to_be_bytes());
        let bytes = [first, second].concat();
        let area = Area { bytes: &bytes, offset: 96, tag: Some(96) };
        let found = [(0x83, Some(0), b"one".to_vec()), (0x84, Some(0), b"two".to_vec())];
        assert_eq!(names(&area), found);
        assert_eq!(names(&Area::logged(&bytes, 96)), found[..1], "its own tag is not there");
    }

    #[test]
    fn names_with_slashes_and_wrong_tags_are_none() {
        let bytes = [entry(0x83, b"a/b", 96), entry(0x84, b"two", 96)].concat();
        assert!(names(&Area::logged(&bytes, 96)).is_empty());
    }
}
