//! Names in the unused space of directories: of entries that were removed, and not overwritten yet.
//!
//! Such a name ([`dead`]) is that of an inode only as far as its number goes: it may be an older
//! name of it, or one of a file that had the number before.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_format::dir::data::{FREETAG, Form};
use xfskit_format::dir::{ENTRY_ALIGN, dead};
use xfskit_format::inode::{Dinode, FileType, Format};
use xfskit_format::{Fork, Layout, bytes};
use xfskit_units::{AgIno, AgNumber, Geometry, Ino, index};

use crate::error::Result;
use crate::view::{Link, View};

/// Names that are kept for directories that are made again, at most.
const KEPT_MAX: usize = 1 << 20;

/// A name in unused space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadEntry {
    pub ino: Ino,
    pub link: Link,
    /// File block with which the block of the directory begins.
    pub fileoff: u64,
}

/// Returns the names in unused space of all directories, for the inodes `wanted`; `kept`: those of
/// directories that were made again since.
pub(crate) fn of(
    view: View<'_>,
    wanted: &BTreeSet<Ino>,
    kept: &[DeadEntry],
) -> Result<BTreeMap<Ino, Vec<DeadEntry>>> {
    let mut found = BTreeMap::<Ino, Vec<DeadEntry>>::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let mut add = |entry: DeadEntry| {
        if wanted.contains(&entry.ino) {
            found.entry(entry.ino).or_default().push(entry);
        }
    };
    kept.iter().cloned().for_each(&mut add);
    for dir in view.used_inodes() {
        let Some(bytes) = view.inode(dir)? else { continue };
        let inode = Dinode::verify(&bytes, &view.ctx(dir), dir);
        if let Some(inode) = inode.ok().filter(Dinode::is_dir) {
            of_directory(view, &inode, dir, &mut add)?;
        }
    }
    Ok(found)
}

/// Keeps the names in unused space of directory `dir`, which is about to be made again, that name
/// an inode in use.
pub(crate) fn keep(
    view: View<'_>,
    inode: &Dinode<'_>,
    dir: Ino,
    kept: &mut Vec<DeadEntry>,
) -> Result<()> {
    of_directory(view, inode, dir, &mut |entry| {
        if kept.len() < KEPT_MAX && view.is_used(entry.ino) {
            kept.push(entry);
        }
    })
}

/// Passes the names in unused space of the data blocks of a directory to `each`.
fn of_directory(
    view: View<'_>,
    inode: &Dinode<'_>,
    dir: Ino,
    each: &mut dyn FnMut(DeadEntry),
) -> Result<()> {
    let geo = view.geo;
    if inode.format() == Some(Format::Local) {
        return Ok(());
    }
    let map = view.map(inode, dir, Fork::Data).extents;
    let (step, end) = (u64::from(geo.dirblkfsbs()).max(1), u64::from(geo.dir_leafblk().0));
    let mut behind = 0;
    for extent in map.iter().filter(|extent| extent.startoff.0 < end) {
        let first = (extent.startoff.0 / step * step).max(behind);
        for fileoff in (first..extent.end().0.min(end)).step_by(index(step)) {
            behind = fileoff + step;
            let Some(block) = view.read_mapped(&map, fileoff, geo.dirblksize())? else { continue };
            of_block(geo, &block, &mut |ino, name, kind| {
                let (generation, name) = (inode.generation(), name.to_vec());
                each(DeadEntry { ino, link: Link { dir, generation, name, kind }, fileoff });
            });
        }
    }
    Ok(())
}

/// Receives inode, name and type of an entry.
type OnEntry<'e> = dyn FnMut(Ino, &[u8], Option<FileType>) + 'e;

/// Passes the names in unused space of a data block, which may be damaged, to `each`.
fn of_block(geo: &Geometry, block: &[u8], each: &mut OnEntry<'_>) {
    if Form::of(block, geo).is_none() {
        return;
    }
    let mut at = Layout::of(geo).dir_data_header;
    while at < block.len() {
        let Some(area) = unused(block, at) else {
            at += ENTRY_ALIGN;
            continue;
        };
        dead::Area::unused(area, at).entries(geo, &mut |entry| {
            if let Some(ino) = number(geo, &entry) {
                let kind = geo.features.ftype().then_some(entry.ftype);
                each(ino, entry.name, kind.and_then(FileType::from_ftype));
            }
        });
        at += area.len();
    }
}

/// Returns the unused space that begins at byte `at` of a block, if it ends with its own offset.
fn unused(block: &[u8], at: usize) -> Option<&[u8]> {
    let len = usize::from(bytes::be16(block, at + 2)?);
    let is_tagged =
        bytes::be16(block, at)? == FREETAG && len > 0 && len.is_multiple_of(ENTRY_ALIGN);
    let area = block.get(at..at.checked_add(len)?).filter(|_| is_tagged)?;
    let tag = bytes::be16(area, len.checked_sub(2)?)?;
    (usize::from(tag) == at).then_some(area)
}

/// Returns the inode number of a dead entry; `None` if its high half was overwritten, and may not
/// have been zero.
fn number(geo: &Geometry, entry: &dead::Entry<'_>) -> Option<Ino> {
    let end = geo.agino_to_ino(AgNumber(geo.agcount), AgIno(0));
    let has_no_high = end.0 <= 1 << 32;
    let high = entry.high.or(has_no_high.then_some(0))?;
    Some(Ino(u64::from(high) << 32 | u64::from(entry.low)))
}

#[cfg(test)]
mod tests {
    use xfskit_format::sb::Superblock;
    use xfskit_test_support::entry::dir_entry;
    use xfskit_test_support::kept;

    use super::*;

    /// Returns the names in a data block with `unused` at byte 64.
    fn names(unused: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let sector = kept::unpack("v5-plain")[..512].to_vec();
        let geo = Superblock::verify(&sector, AgNumber(0)).unwrap().geometry();
        let mut block = vec![0; geo.dirblksize()];
        block[..4].copy_from_slice(b"XDD3");
        block[64..64 + unused.len()].copy_from_slice(unused);
        let mut found = Vec::new();
        of_block(&geo, &block, &mut |ino, name, kind| {
            assert_eq!(kind, Some(FileType::Regular));
            found.push((ino.0, name.to_vec()));
        });
        found
    }

    /// Makes removed entries one unused space at byte 64.
    fn removed(mut entries: Vec<u8>) -> Vec<u8> {
        let len = u16::try_from(entries.len()).unwrap();
        entries[..2].copy_from_slice(&FREETAG.to_be_bytes());
        entries[2..4].copy_from_slice(&len.to_be_bytes());
        let end = entries.len();
        entries[end - 2..].copy_from_slice(&64u16.to_be_bytes());
        entries
    }

    #[test]
    fn removed_entries_have_their_names_still() {
        assert_eq!(names(&removed(dir_entry(131, b"gone", 64))), [(131, b"gone".to_vec())]);
        let two = [dir_entry(131, b"one", 64), dir_entry(132, b"two", 80)].concat();
        assert_eq!(names(&removed(two)), [(131, b"one".to_vec()), (132, b"two".to_vec())]);
    }

    #[test]
    fn what_is_in_use_or_is_no_entry_has_none() {
        assert!(names(&dir_entry(131, b"here", 64)).is_empty(), "in use");
        assert!(names(&removed(dir_entry(131, b"a/b", 64))).is_empty(), "not a name");
        let mut cut = removed(dir_entry(131, b"gone", 64));
        cut[2..4].copy_from_slice(&4096u16.to_be_bytes());
        assert!(names(&cut).is_empty(), "longer than the block");
    }
}
