//! Names of inodes that the journal shows, for those without one.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_block::BlockDevice;
use xfskit_format::dir::data::{self, Form};
use xfskit_format::dir::{Entry, sf};
use xfskit_format::inode::{FileType, Format};
use xfskit_format::log::item::buf::{Buf, BufType};
use xfskit_format::log::item::{self, Item};
use xfskit_format::{Fork, bytes};
use xfskit_units::{Daddr, Ino, Lsn, index};

use crate::error::Result;
use crate::journal_items;
use crate::view::{Link, View};

/// Byte of the owner in the header of a data block.
const OWNER_AT: usize = 40;
/// Byte of the block's own address.
const PLACE_AT: usize = 8;
/// Bytes of the volume's UUID.
const UUID: std::ops::Range<usize> = 24..40;

/// The newest name of each inode, and the transaction that shows it.
pub(crate) type Names = BTreeMap<Ino, (Link, Lsn)>;

/// Returns the newest name that the journal on `journal` shows of each of the inodes `wanted`.
/// Generations are 0. The name may have been removed since.
pub(crate) fn of(
    journal: &dyn BlockDevice,
    view: View<'_>,
    wanted: &BTreeSet<Ino>,
) -> Result<Names> {
    let mut names = Names::new();
    if wanted.is_empty() {
        return Ok(names);
    }
    journal_items::each(journal, view.geo, &mut |item, lsn, _| match item {
        Item::Buf(buf) if is_data(buf) => of_block(view, buf, &mut |dir, entry| {
            add(&mut names, wanted, (dir, lsn), entry);
        }),
        Item::Inode(inode) => of_short_form(view, inode, &mut |entry| {
            add(&mut names, wanted, (inode.ino(), lsn), entry);
        }),
        _ => {}
    })?;
    Ok(names)
}

fn is_data(buf: &Buf<'_>) -> bool {
    !buf.is_cancel() && matches!(buf.buf_type(), BufType::DirBlock | BufType::DirData)
}

fn add(names: &mut Names, wanted: &BTreeSet<Ino>, (dir, lsn): (Ino, Lsn), entry: &Entry<'_>) {
    let is_name = !matches!(entry.name, b"" | b"." | b"..")
        && !entry.name.iter().any(|byte| matches!(byte, b'/' | 0));
    if is_name && wanted.contains(&entry.inumber) {
        let kind = entry.filetype.and_then(FileType::from_ftype);
        let link = Link { dir, generation: 0, name: entry.name.to_vec(), kind };
        names.insert(entry.inumber, (link, lsn));
    }
}

/// Passes the entries in the logged parts of a directory block to `each`, if its owner is known.
fn of_block(view: View<'_>, buf: &Buf<'_>, each: &mut dyn FnMut(Ino, &Entry<'_>)) {
    let mut block = vec![0; buf.byte_len()];
    for change in buf.changes() {
        let end = change.offset.saturating_add(change.bytes.len());
        if let Some(part) = block.get_mut(change.offset..end) {
            part.copy_from_slice(change.bytes);
        }
    }
    let mut owner = owner_in(view, &block, buf.daddr());
    for entry in data::salvage(&block, view.geo) {
        owner = owner.or_else(|| owner_on_disk(view, buf.daddr()));
        let Some(owner) = owner else { return };
        each(owner, &entry);
    }
}

/// Returns the directory whose block is at `daddr`, if it is one still.
fn owner_on_disk(view: View<'_>, daddr: Daddr) -> Option<Ino> {
    let mut head = vec![0; view.geo.sectsize()];
    view.dev.read_at(daddr.byte_offset(), &mut head).ok()?;
    owner_in(view, &head, daddr)
}

/// Returns the owner in the header of a directory's data block, if it is the one of `daddr`.
fn owner_in(view: View<'_>, block: &[u8], daddr: Daddr) -> Option<Ino> {
    Form::of(block, view.geo)?;
    let own = bytes::be64(block, PLACE_AT) == Some(daddr.0)
        && block.get(UUID) == Some(&view.geo.meta_uuid.as_bytes()[..]);
    bytes::be64(block, OWNER_AT).filter(|_| own).map(Ino)
}

/// Passes the entries of a logged short form to `each`.
fn of_short_form(view: View<'_>, inode: &item::Inode<'_>, each: &mut dyn FnMut(&Entry<'_>)) {
    let is_dir = FileType::from_mode(inode.core.mode.get()) == Some(FileType::Directory);
    let is_local = inode.core.format == Format::Local as u8;
    let (true, true, Some(fork)) = (is_dir, is_local, inode.fork(Fork::Data)) else { return };
    let used = fork.get(..index(inode.core.size.get())).unwrap_or(fork);
    let list = sf::Sf::parse(used, view.geo);
    list.iter().flat_map(sf::Sf::entries).for_each(|entry| each(&entry));
}
