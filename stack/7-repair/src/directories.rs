//! Directories, made again from the entries that can be read.
//!
//! The data blocks of a directory are its evidence: an entry there ends with its own offset, so
//! that those of a damaged block are found too. Hash tables and free indexes follow from them.

use std::collections::BTreeMap;

use xfskit_bulk::dir::{DirPlan, NewEntry};
use xfskit_format::attr::forkoff;
use xfskit_format::bmbt::Extent;
use xfskit_format::dir::data::{self, Data};
use xfskit_format::dir::{Entry, sf};
use xfskit_format::inode::{Dinode, FileType, Format, InodeMut};
use xfskit_format::{Ctx, Fork, hash};
use xfskit_units::{FsBlock, Geometry, Ino, index};

use crate::attributes;
use crate::error::{Error, Result};
use crate::forks::{Content, Forks, Writer};
use crate::view::{Link, View};

/// The longest name.
const NAME_MAX: usize = 255;

/// An entry that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub name: Vec<u8>,
    pub ino: Ino,
    pub kind: FileType,
}

/// An old name, and the new one.
pub(crate) type Renamed = (Vec<u8>, Vec<u8>);

/// What can be read of a directory.
#[derive(Debug, Default)]
pub(crate) struct Salvage {
    /// The inode that ".." names, if it is a directory.
    pub parent: Option<Ino>,
    pub entries: Vec<Kept>,
    /// Entries that name no inode in use, and the inode that each names.
    pub dropped: Vec<(Link, Ino)>,
    /// Entries that have another name now, because theirs was there already, or cannot be a name.
    pub renamed: Vec<Renamed>,
    /// Data blocks that are damaged.
    pub damaged: usize,
    /// Data blocks to which no map leads.
    pub strays: usize,
}

/// Returns the byte at which the data blocks of a directory end; `None` if its map has none.
pub(crate) fn end(geo: &Geometry, map: &[Extent]) -> Option<u64> {
    let limit = u64::from(geo.dir_leafblk().0);
    let data = map.iter().filter(|extent| extent.startoff.0 < limit);
    let end = data.map(|extent| extent.end().0.min(limit)).max()?;
    end.checked_mul(geo.blocksize() as u64)
}

/// Reads what can be read of the directory `ino`.
pub(crate) fn salvage(view: View<'_>, inode: &Dinode<'_>, ino: Ino) -> Result<Salvage> {
    salvage_with(view, inode, ino, &[])
}

/// Reads what can be read of the directory `ino`, and its data blocks `strays`, to which no map
/// leads.
pub(crate) fn salvage_with(
    view: View<'_>,
    inode: &Dinode<'_>,
    ino: Ino,
    strays: &[FsBlock],
) -> Result<Salvage> {
    let mut found = Salvage::default();
    let dir = (ino, inode.generation());
    found.damaged = each_entry(view, inode, ino, &mut |entry| add(view, dir, entry, &mut found))?;
    let mut block = vec![0; view.geo.dirblksize()];
    for at in strays.iter().filter_map(|stray| view.geo.fsb_to_byte(*stray)) {
        view.dev.read_at(at, &mut block)?;
        data::salvage(&block, view.geo).try_for_each(|entry| add(view, dir, &entry, &mut found))?;
        found.strays += 1;
    }
    if let Some(parent) = found.parent
        && view.kind(parent)? != Some(FileType::Directory)
    {
        found.parent = None;
    }
    let (entries, renamed) = distinct(view.geo, std::mem::take(&mut found.entries));
    found.entries = entries;
    found.renamed.extend(renamed);
    Ok(found)
}

/// Receives an entry.
pub(crate) type OnEntry<'e> = dyn FnMut(&Entry<'_>) -> Result<()> + 'e;

/// Passes all entries that can be read to `each`, ".." among them. Returns the number of damaged
/// blocks.
pub(crate) fn each_entry(
    view: View<'_>,
    inode: &Dinode<'_>,
    ino: Ino,
    each: &mut OnEntry<'_>,
) -> Result<usize> {
    match inode.format() {
        Some(Format::Local) => each_of_short_form(view, inode, ino, each),
        _ => each_of_blocks(view, inode, ino, each),
    }
}

fn each_of_short_form(
    view: View<'_>,
    inode: &Dinode<'_>,
    ino: Ino,
    each: &mut OnEntry<'_>,
) -> Result<usize> {
    let fork = inode.data_fork();
    let size = usize::try_from(inode.size().0).unwrap_or(usize::MAX);
    let bytes = fork.get(..size).unwrap_or(fork);
    let ctx = view.ctx(ino);
    let verified = sf::Sf::verify(bytes, &ctx).ok().or_else(|| sf::Sf::recounted(bytes, &ctx));
    let damaged = usize::from(verified.is_none());
    let Some(list) = verified.or_else(|| sf::Sf::parse(fork, view.geo)) else {
        return Ok(damaged);
    };
    each(&Entry { inumber: list.parent, name: b"..", filetype: None, offset: 0 })?;
    for entry in list.entries() {
        each(&entry)?;
    }
    Ok(damaged)
}

fn each_of_blocks(
    view: View<'_>,
    inode: &Dinode<'_>,
    ino: Ino,
    each: &mut OnEntry<'_>,
) -> Result<usize> {
    let geo = view.geo;
    let map = view.map(inode, ino, Fork::Data).extents;
    let (step, end) = (u64::from(geo.dirblkfsbs()).max(1), u64::from(geo.dir_leafblk().0));
    let (mut damaged, mut behind) = (0, 0);
    for extent in map.iter().filter(|extent| extent.startoff.0 < end) {
        let first = (extent.startoff.0 / step * step).max(behind);
        for fileoff in (first..extent.end().0.min(end)).step_by(index(step)) {
            behind = fileoff + step;
            let Some(block) = view.read_mapped(&map, fileoff, geo.dirblksize())? else {
                damaged += 1;
                continue;
            };
            let ctx = Ctx::new(geo, view.block(&map, ino, Fork::Data, fileoff));
            match Data::verify(&block, &ctx, None) {
                Ok(data) => data.entries().try_for_each(|entry| each(&entry))?,
                Err(_) if is_foreign(&block, ino) => damaged += 1,
                Err(_) => {
                    damaged += 1;
                    data::salvage(&block, geo).try_for_each(|entry| each(&entry))?;
                }
            }
        }
    }
    Ok(damaged)
}

/// Returns true if a block is whole, and of another inode: its entries are of that one.
fn is_foreign(block: &[u8], ino: Ino) -> bool {
    let whole = xfskit_crc::verify(block, data::CRC_OFFSET);
    let owner = block.get(OWNER_AT..OWNER_AT + 8).and_then(|bytes| bytes.try_into().ok());
    whole && owner.is_some_and(|owner| u64::from_be_bytes(owner) != ino.0)
}

/// Byte of the owner in the header of a data block.
const OWNER_AT: usize = 40;

/// Returns the inode that ".." of directory `ino` names.
pub(crate) fn dotdot(view: View<'_>, inode: &Dinode<'_>, ino: Ino) -> Result<Option<Ino>> {
    let mut above = None;
    each_entry(view, inode, ino, &mut |entry| {
        above = above.or((entry.name == b"..").then_some(entry.inumber));
        Ok(())
    })?;
    Ok(above)
}

/// Adds an entry of the directory `dir` (its inode and generation), if it names an inode in use.
fn add(
    view: View<'_>,
    (dir, generation): (Ino, u32),
    entry: &Entry<'_>,
    found: &mut Salvage,
) -> Result<()> {
    match entry.name {
        b"." | b"" => return Ok(()),
        b".." => {
            found.parent = found.parent.or(Some(entry.inumber));
            return Ok(());
        }
        _ => {}
    }
    let (name, ino) = (possible_name(entry.name), entry.inumber);
    if let Some(kind) = view.kind(ino)? {
        if name != entry.name {
            found.renamed.push((entry.name.to_vec(), name.clone()));
        }
        found.entries.push(Kept { name, ino, kind });
    } else {
        let kind = entry.filetype.and_then(FileType::from_ftype);
        found.dropped.push((Link { dir, generation, name, kind }, ino));
    }
    Ok(())
}

/// Returns true for a byte that no name has.
fn is_impossible(byte: u8) -> bool {
    matches!(byte, b'/' | 0)
}

/// Returns a name with a `_` for each byte that no name has.
fn possible_name(name: &[u8]) -> Vec<u8> {
    name.iter().map(|&byte| if is_impossible(byte) { b'_' } else { byte }).collect()
}

/// Returns the entries with a name each, and which ones have another one now. An entry that is
/// there twice is one.
fn distinct(geo: &Geometry, entries: Vec<Kept>) -> (Vec<Kept>, Vec<Renamed>) {
    let mut seen: BTreeMap<Vec<u8>, Ino> = BTreeMap::new();
    let (mut kept, mut renamed) = (Vec::with_capacity(entries.len()), Vec::new());
    for mut entry in entries {
        let key = |name: &[u8]| hash::folded(geo, name).into_owned();
        match seen.get(&key(&entry.name)) {
            Some(ino) if *ino == entry.ino => continue,
            Some(_) => {
                let free = |name: &Vec<u8>| !seen.contains_key(&key(name));
                let new = other_names(&entry.name, entry.ino).find(free);
                let Some(new) = new else { continue };
                renamed.push((std::mem::replace(&mut entry.name, new.clone()), new));
            }
            None => {}
        }
        seen.insert(key(&entry.name), entry.ino);
        kept.push(entry);
    }
    (kept, renamed)
}

/// Returns other names for an entry: the number of its inode behind its own.
pub(crate) fn other_names(name: &[u8], ino: Ino) -> impl Iterator<Item = Vec<u8>> {
    (0u32..1000).map(move |n| {
        let suffix = if n == 0 { format!(".{ino}") } else { format!(".{ino}.{n}") };
        let room = NAME_MAX.saturating_sub(suffix.len());
        let stem = name.get(..room).unwrap_or(name);
        [stem, suffix.as_bytes()].concat()
    })
}

/// Adds entries to those that a directory has. Returns all, and the names that the added ones got.
pub(crate) fn with(
    geo: &Geometry,
    mut entries: Vec<Kept>,
    added: &[Kept],
) -> (Vec<Kept>, Vec<Vec<u8>>) {
    let there = entries.len();
    entries.extend_from_slice(added);
    let (entries, _) = distinct(geo, entries);
    let name_of = |kept: &Kept| {
        let mut named = entries.iter().skip(there).filter(|entry| entry.ino == kept.ino);
        named.next().map_or_else(|| kept.name.clone(), |entry| entry.name.clone())
    };
    let names = added.iter().map(name_of).collect();
    (entries, names)
}

/// Returns what a salvage shows, in words.
pub(crate) fn evidence(found: &Salvage) -> Vec<String> {
    let mut evidence = vec![format!("{} entries that can be read", found.entries.len())];
    let shown = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
    if found.damaged > 0 {
        evidence.push(format!("{} of its blocks are damaged", found.damaged));
    }
    if found.strays > 0 {
        evidence.push(format!("{} blocks without an owner that name it", found.strays));
    }
    for (link, ino) in &found.dropped {
        evidence.push(format!("{:?} is left out: inode {ino} is free", shown(&link.name)));
    }
    for (old, new) in &found.renamed {
        let impossible = old.iter().any(|&byte| is_impossible(byte));
        let why = if impossible { "it is not a name" } else { "the name is there twice" };
        evidence.push(format!("{:?} becomes {:?}: {why}", shown(old), shown(new)));
    }
    evidence
}

/// Makes the directory `ino`, whose core is in `bytes`, again, with these entries.
///
/// # Errors
/// Those of [`Writer::write`].
pub(crate) fn make(
    writer: &mut Writer<'_, '_>,
    view: View<'_>,
    (ino, bytes): (Ino, &mut [u8]),
    parent: Ino,
    entries: &[Kept],
) -> Result<()> {
    let geo = view.geo;
    let attr = attributes::content(view, bytes, ino);
    let inode = Dinode::parse(bytes, geo);
    let forkoff = inode.filter(|_| !matches!(attr, Content::None)).map_or(0, |i| i.forkoff());
    let room = if forkoff == 0 { forkoff::literal_len(geo) } else { usize::from(forkoff) * 8 };
    let listed = entries.iter().map(|entry| NewEntry {
        name: &entry.name,
        ino: entry.ino,
        ftype: entry.kind,
    });
    let plan = DirPlan::new(geo, ino, parent, listed.collect(), room);
    let plan = plan.map_err(|_| Error::NoFit { ino: ino.0 })?;
    let (data, size) = match plan {
        DirPlan::Short(list) => {
            let size = list.len() as u64;
            (Content::Local(list), size)
        }
        DirPlan::Blocks(blocks) => {
            let parts = blocks.spaces().map(|space| (space.start.0, u64::from(space.blocks)));
            let map = writer.room.map(writer.near(ino), &parts)?;
            for (start, len) in parts {
                for fileoff in (start..start + len).step_by(geo.dirblkfsbs() as usize) {
                    let Some(at) = view.daddr(&map, fileoff) else { continue };
                    let block = blocks.fill(xfskit_units::FileOff(fileoff), at);
                    writer.put_mapped(&map, fileoff, &block)?;
                }
            }
            (Content::Mapped(map), blocks.size().0)
        }
    };
    if let Some(inode) = InodeMut::new(bytes) {
        inode.core.core.size = size.into();
    }
    writer.write(ino, bytes, &Forks { data, attr, forkoff: None })
}
