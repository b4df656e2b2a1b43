//! What an inode says of its file: one as it was, or the remains of one that was freed.

use xfskit_core::Volume;
use xfskit_core::bmap::ForkPart;
use xfskit_core::restore::RemovedAttr;
use xfskit_format::attr::{Namespace, parent, sf};
use xfskit_format::bmbt::{self, BmdrRoot, Extent};

use xfskit_format::inode::{self, Dinode, FileType, Format, InodeMut};
use xfskit_format::{Ctx, Fork, bytes, symlink};
use xfskit_units::{ByteLen, FileOff, Ino, Lsn};

use crate::candidate::{Candidate, Known, Name, Size};

/// Byte of `changecount` in a core.
const CHANGECOUNT: usize = 104;

/// Returns the inode in `bytes` if it identifies itself as `ino` of this volume.
pub(crate) fn identify<'a>(volume: &Volume, bytes: &'a [u8], ino: Ino) -> Option<Dinode<'a>> {
    let geo = volume.geo();
    let inode = Dinode::parse(bytes, geo)?;
    let magic = bytes::be16(bytes, 0)? == inode::MAGIC;
    let own = bytes::be64(bytes, 152)? == ino.0;
    let uuid = bytes.get(160..176)? == geo.meta_uuid.as_bytes();
    (magic && own && uuid && inode::is_whole(bytes.get(..geo.inodesize())?)).then_some(inode)
}

/// Returns the count of changes of an inode.
pub(crate) fn changecount(bytes: &[u8]) -> u64 {
    bytes::be64(bytes, CHANGECOUNT).unwrap_or(0)
}

/// Returns the file of inode `ino`, which was as `image` shows before it was removed.
pub(crate) fn of_image(volume: &Volume, ino: Ino, image: &[u8]) -> Candidate {
    let mut file = Candidate::new(ino);
    let Some(inode) = Dinode::parse(image, volume.geo()) else { return file };
    file.generation = Some(inode.generation());
    file.file_type = inode.file_type();
    file.mode = Some(inode.mode());
    file.owner = Some((inode.uid(), inode.gid()));
    file.size = Size::Exact(inode.size().0);
    (file.mtime, file.atime, file.crtime) =
        (Some(inode.mtime()), Some(inode.atime()), inode.crtime());
    (file.projid, file.flags, file.flags2) = (inode.projid(), inode.flags(), inode.flags2());
    file.links = inode.nlink();
    attributes(volume, &inode, &mut file);
    match file.file_type {
        Some(FileType::Regular) => content(volume, &inode, &mut file),
        Some(FileType::Symlink) => target(volume, &inode, &mut file),
        Some(_) => file.known = Known::All,
        None => {}
    }
    file.names.extend(parents(volume, &inode));
    file
}

/// Finds the extents of a regular file. They are all there if they sum up to its blocks.
fn content(volume: &Volume, inode: &Dinode<'_>, file: &mut Candidate) {
    file.realtime = inode.is_realtime();
    let mut used = 0u64;
    let walked = volume.each_fork_part(inode, file.ino, Fork::Data, &mut |part| match part {
        ForkPart::Extent(extent) => {
            used = used.saturating_add(extent.blockcount.0);
            file.extents.push(extent);
        }
        ForkPart::TreeBlock(_) => used = used.saturating_add(1),
    });
    let of_attributes = inode.nblocks().0.checked_sub(used);
    let fits = of_attributes.is_some_and(|rest| rest == 0 || inode.anextents() > 0);
    file.known = if walked.is_ok() && fits { Known::All } else { Known::Part };
}

/// Finds the target of a symbolic link.
fn target(volume: &Volume, inode: &Dinode<'_>, file: &mut Candidate) {
    let len = usize::try_from(inode.size().0).unwrap_or(usize::MAX);
    let target = match inode.format() {
        Some(Format::Local) => inode.data_fork().get(..len).map(<[u8]>::to_vec),
        Some(Format::Extents) => {
            content(volume, inode, file);
            remote_target(volume, file, inode.size())
        }
        _ => None,
    };
    file.known = if target.is_some() { Known::All } else { Known::Nothing };
    file.target = target;
}

/// Reads a target that has blocks of its own. They prove by checksum and owner whose they are.
fn remote_target(volume: &Volume, file: &Candidate, size: ByteLen) -> Option<Vec<u8>> {
    let geo = volume.geo();
    if size.0 > symlink::MAX_LEN.into() {
        return None;
    }
    let mut target = Vec::new();
    for extent in &file.extents {
        let len = geo.filblks_to_bytes(extent.blockcount).0.min(1 << 16);
        let mut buf = vec![0; usize::try_from(len).ok()?];
        volume.device().read_at(geo.fsb_to_byte(extent.startblock)?, &mut buf).ok()?;
        let at = symlink::location(geo, extent.startblock, extent.blockcount).ino(file.ino);
        let offset = u32::try_from(target.len()).ok()?;
        let left = ByteLen(size.0.saturating_sub(offset.into()));
        target.extend_from_slice(symlink::verify(&buf, &Ctx::new(geo, at), offset, left).ok()?);
    }
    (target.len() as u64 == size.0).then_some(target)
}

/// Returns the file of a freed inode, whose literal area may hold what it held before.
pub(crate) fn of_freed(volume: &Volume, ino: Ino, freed: &[u8]) -> Candidate {
    let mut file = Candidate::new(ino);
    let Some(inode) = Dinode::parse(freed, volume.geo()) else { return file };
    file.generation = inode.generation().checked_sub(1);
    (file.mtime, file.crtime) = (Some(inode.mtime()), inode.crtime());
    (file.removed, file.lsn) = (Some(inode.ctime()), inode.lsn());
    if let Some(target) = inline_target(&inode) {
        file.size = Size::Exact(target.len() as u64);
        (file.file_type, file.target, file.known) =
            (Some(FileType::Symlink), Some(target), Known::All);
        return file;
    }
    file.extents = inline_extents(volume, inode.literal());
    if file.extents.is_empty() {
        file.extents = tree_extents(volume, ino, freed);
    }
    if let Some(last) = file.extents.last() {
        file.size = Size::AtMost(volume.geo().fileoff_to_byte(last.end()).0);
        (file.file_type, file.known) = (Some(FileType::Regular), Known::Part);
    }
    file.names.extend(freed_parents(volume, ino, &inode));
    file
}

/// Returns the target of a removed link: Linux leaves its size. A directory's short form has bytes
/// that no path has.
fn inline_target(inode: &Dinode<'_>) -> Option<Vec<u8>> {
    let len = usize::try_from(inode.size().0).ok()?;
    let target = inode.literal().get(..len)?;
    let is_path = len > 0 && !target.iter().any(u8::is_ascii_control);
    is_path.then(|| target.to_vec())
}

/// Returns the extent records at the start of a literal area, up to the first that is none.
fn inline_extents(volume: &Volume, literal: &[u8]) -> Vec<Extent> {
    let geo = volume.geo();
    let mut end = FileOff::ZERO;
    let sound = |extent: &Extent| {
        let follows = extent.startoff >= end;
        end = extent.end();
        let blocks = extent.blockcount.0;
        follows && blocks > 0 && geo.valid_fsb_extent(extent.startblock, blocks)
    };
    let count = bmbt::inline_records(literal.len());
    bmbt::records(literal, count)
        .iter()
        .map(bmbt::Rec::decode)
        .take_while(sound_by(sound))
        .collect()
}

/// Lets a closure that keeps state serve as the test of `take_while`.
fn sound_by<T>(mut test: impl FnMut(&T) -> bool) -> impl FnMut(&T) -> bool {
    move |item| test(item)
}

/// Returns the extents of the btree whose root a freed inode still holds. Where its pointers begin
/// follows from the place of the attribute fork, of which each is tried.
fn tree_extents(volume: &Volume, ino: Ino, freed: &[u8]) -> Vec<Extent> {
    let geo = volume.geo();
    let ctx = volume.ctx(inode::location(geo, ino).fork(Fork::Data));
    let units = geo.inodesize().saturating_sub(176) / 8;
    for forkoff in 0..=u8::try_from(units).unwrap_or(u8::MAX) {
        let mut image = freed.to_vec();
        let Some(edit) = InodeMut::new(&mut image) else { break };
        let core = &mut edit.core.core;
        core.mode = FileType::Regular.mode().into();
        core.format = 3;
        core.forkoff = forkoff;
        core.nextents = u32::MAX.into();
        core.big_nextents = u64::from(u32::MAX).into();
        let Some(inode) = Dinode::parse(&image, geo) else { break };
        if BmdrRoot::verify(inode.data_fork(), &ctx, Fork::Data).is_err() {
            continue;
        }
        let mut extents = Vec::new();
        // The count is not known, so the walk always ends with an error.
        let walked = volume.each_fork_part(&inode, ino, Fork::Data, &mut |part| {
            if let ForkPart::Extent(extent) = part {
                extents.push(extent);
            }
        });
        if walked.is_err() && !extents.is_empty() {
            return extents;
        }
    }
    Vec::new()
}

/// Takes the extended attributes in an inode, or the map of the blocks that they had.
fn attributes(volume: &Volume, inode: &Dinode<'_>, file: &mut Candidate) {
    let Some(fork) = inode.attr_fork() else { return };
    match inode.aformat() {
        Some(Format::Local) => {
            let at = inode::location(volume.geo(), file.ino).fork(Fork::Attr);
            let list = sf::Sf::verify(fork, &volume.ctx(at)).ok();
            file.attr_blocks.is_damaged = list.is_none();
            file.attrs = list.iter().flat_map(sf::Sf::entries).filter_map(attribute).collect();
        }
        Some(Format::Extents | Format::Btree) if inode.anextents() > 0 => {
            let blocks = &mut file.attr_blocks;
            let walked = volume.each_fork_part(inode, file.ino, Fork::Attr, &mut |part| {
                if let ForkPart::Extent(extent) = part {
                    blocks.map.push(extent);
                }
            });
            blocks.is_damaged = walked.is_err();
        }
        _ => {}
    }
}

/// Returns an attribute of a short form, if it is no parent pointer.
fn attribute(entry: sf::Entry<'_>) -> Option<RemovedAttr> {
    let namespace = entry.namespace().filter(|space| *space != Namespace::Parent)?;
    let (name, value) = (entry.name.to_vec(), entry.value.to_vec());
    Some(RemovedAttr { namespace, name, value })
}

/// Returns the names in the parent pointers of an inode.
fn parents(volume: &Volume, inode: &Dinode<'_>) -> Vec<Name> {
    match inode.attr_fork() {
        Some(fork) if inode.aformat() == Some(Format::Local) => pointers(volume, fork),
        _ => Vec::new(),
    }
}

fn pointers(volume: &Volume, fork: &[u8]) -> Vec<Name> {
    let Some(list) = sf::Sf::parse(fork) else { return Vec::new() };
    let of_parent = |entry: &sf::Entry<'_>| entry.namespace() == Some(Namespace::Parent);
    let name = |entry: sf::Entry<'_>| {
        let parent = parent::Rec::parse(entry.value)?.ino();
        let name = entry.name.to_vec();
        let valid = volume.geo().valid_ino(parent);
        valid.then_some(Name { parent: Some(parent), name, file_type: None, lsn: Lsn::NONE })
    };
    list.entries().filter(of_parent).filter_map(name).collect()
}

/// Returns the names in the parent pointers that a freed inode still holds. Where its attribute
/// fork began is not known any more, so each place is tried.
fn freed_parents(volume: &Volume, ino: Ino, inode: &Dinode<'_>) -> Vec<Name> {
    if !volume.geo().features.parent() {
        return Vec::new();
    }
    let ctx = volume.ctx(inode::location(volume.geo(), ino).fork(Fork::Attr));
    let places = (8..inode.literal().len()).step_by(8);
    let forks = places.filter_map(|at| inode.literal().get(at..));
    let mut names = forks.filter(|fork| sf::Sf::verify(fork, &ctx).is_ok());
    names
        .find_map(|fork| Some(pointers(volume, fork)).filter(|names| !names.is_empty()))
        .unwrap_or_default()
}
