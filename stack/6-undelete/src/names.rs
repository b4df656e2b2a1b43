//! Names of removed files: dead entries of directories, and entries in the journal.
//!
//! [`dead`](xfskit_format::dir::dead) finds entries in bytes; here they get their files.

use rustc_hash::FxHashMap;
use xfskit_format::dir::data::{Slot, Slots};
use xfskit_format::dir::dead::{Area, Entry, is_name};
use xfskit_format::dir::{ENTRY_ALIGN, FTYPE_END};
use xfskit_format::inode::FileType;
use xfskit_format::{Layout, bytes};
use xfskit_units::{Geometry, Ino, Lsn};

use crate::candidate::{Candidate, Name};

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
                Area::unused(bytes, offset).entries(geo, each);
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
