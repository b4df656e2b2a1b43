//! Evidence from the journal: inodes as they were before they were removed, and names.
//!
//! The ring holds all changes since it last came around, also those that are in place. An item of
//! an inode has its whole core, and a fork if that changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use xfskit_core::Volume;
use xfskit_format::dir::{data, dead::Area, sf};
use xfskit_format::inode::{Dinode, FileType};
use xfskit_format::log::item::buf::{Buf, BufType};
use xfskit_format::log::item::{self, Item};
use xfskit_format::timestamp::Timestamp;
use xfskit_format::{Ctx, Fork, Layout, bytes};
use xfskit_log::Log;
use xfskit_recovery::{for_items, open_log, write_forks};
use xfskit_units::{Daddr, Ino, Lsn, index};

use crate::candidate::Name;
use crate::names::{Hint, Named};
use crate::remains::changecount;

/// Byte of the owner in a directory block's header.
const DIR_OWNER: usize = 40;

/// A file that the journal saw: one inode number between its allocation and its removal.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    /// The inode, as on disk, as it was before it was removed. The forks are there if the journal
    /// has them.
    pub image: Vec<u8>,
    pub has_core: bool,
    pub has_data: bool,
    pub has_attr: bool,
    /// When it was removed.
    pub removed: Option<Timestamp>,
    /// The last transaction that had the inode.
    pub lsn: Lsn,
    /// The most links that it had.
    pub links: u32,
    unlinked: bool,
}

/// All files that the journal saw, by number and generation.
pub(crate) type Lives = BTreeMap<(Ino, u32), Life>;

/// Called with the blocks that were read and all; a break ends the walk.
pub(crate) type Step<'p> = dyn Fn(u64, u64) -> ControlFlow<()> + 'p;

/// Reads all transactions of the journal, oldest first, and passes their items to `each`. Returns
/// false if `step` ended it.
pub(crate) fn walk(
    volume: &Volume,
    step: &Step<'_>,
    each: &mut dyn FnMut(&Item<'_>, Lsn, &Ctx<'_>),
) -> xfskit_core::Result<bool> {
    let geo = volume.geo();
    let log: Log<'_> = open_log(&**volume.device(), volume.log_device(), geo)?;
    let mut history = log.history();
    let total = u64::from(history.blocks_left());
    while let Some(transaction) = history.next() {
        if step(total.saturating_sub(history.blocks_left().into()), total).is_break() {
            return Ok(false);
        }
        let transaction = transaction?;
        let ctx = history.ctx(&transaction);
        // A damaged transaction is left out.
        let _ = for_items(&transaction, &ctx, |items| {
            for item in items.iter() {
                each(item, transaction.lsn, &ctx);
            }
            Ok(())
        });
    }
    Ok(step(total, total).is_continue())
}

/// Returns the files that the journal saw; `None` if `step` ended the walk.
pub(crate) fn lives(volume: &Volume, step: &Step<'_>) -> xfskit_core::Result<Option<Lives>> {
    let mut lives = Lives::new();
    let complete = walk(volume, step, &mut |item, lsn, ctx| {
        if let Item::Inode(inode) = item {
            add(volume, &mut lives, inode, lsn, ctx);
        }
    })?;
    Ok(complete.then_some(lives))
}

/// Adds one item to the file that it is of.
fn add(volume: &Volume, lives: &mut Lives, item: &item::Inode<'_>, lsn: Lsn, ctx: &Ctx<'_>) {
    let (geo, ino) = (volume.geo(), item.ino());
    let generation = item.core.r#gen.get();
    let core = item.core.to_disk();
    if !geo.valid_ino(ino) {
        return;
    }
    let ctime = Dinode::parse(&[&core[..], &vec![0; geo.inodesize()]].concat(), geo)
        .map(|inode| inode.ctime());
    if item.core.mode.get() == 0 {
        // Freeing an inode adds one to its generation.
        if let Some(life) = lives.get_mut(&(ino, generation.wrapping_sub(1))) {
            life.lsn = lsn;
            life.removed = life.removed.or(ctime);
        }
        return;
    }
    let life = lives.entry((ino, generation)).or_insert_with(|| Life::new(geo.inodesize()));
    life.lsn = lsn;
    life.links = life.links.max(item.core.nlink.get());
    if item.core.nlink.get() == 0 {
        life.removed = life.removed.or(ctime);
        if std::mem::replace(&mut life.unlinked, true) || !life.is_complete_in(item, volume) {
            return;
        }
    } else {
        // It may have been given back after it was removed.
        (life.unlinked, life.removed) = (false, None);
    }
    life.update(item, &core, ctx, Layout::of(geo));
}

impl Life {
    fn new(inodesize: usize) -> Self {
        Self {
            image: vec![0; inodesize],
            has_core: false,
            has_data: false,
            has_attr: false,
            removed: None,
            lsn: Lsn::NONE,
            links: 0,
            unlinked: false,
        }
    }

    /// Returns true if an unlinked inode is still what it was before: Linux cuts its content off
    /// before it frees it, perhaps in the transaction that unlinks it.
    fn is_complete_in(&self, item: &item::Inode<'_>, volume: &Volume) -> bool {
        let (size, nblocks) = (item.core.size.get(), item.core.nblocks.get());
        match Dinode::parse(&self.image, volume.geo()) {
            Some(before) if self.has_core => {
                size >= before.size().0 && nblocks >= before.nblocks().0
            }
            _ => size > 0,
        }
    }

    fn update(&mut self, item: &item::Inode<'_>, core: &[u8], ctx: &Ctx<'_>, layout: &Layout) {
        if let Some(place) = self.image.get_mut(..core.len()) {
            place.copy_from_slice(core);
        }
        self.has_core = true;
        if write_forks(&mut self.image, item, ctx, layout).is_ok() {
            self.has_data |= item.fork(Fork::Data).is_some();
            self.has_attr |= item.fork(Fork::Attr).is_some();
        }
    }

    /// Takes what the journal does not have from the inode on disk, or its remains.
    pub(crate) fn complete_from(&mut self, disk: &[u8], volume: &Volume) {
        if !self.has_core || changecount(&self.image) < changecount(disk) && is_linked(disk, volume)
        {
            self.image = disk.to_vec();
            (self.has_core, self.has_data, self.has_attr) = (true, true, true);
            return;
        }
        let Some(inode) = Dinode::parse(&self.image, volume.geo()) else { return };
        let end = self.image.len();
        let core = end.saturating_sub(inode.literal().len());
        let boundary = core.saturating_add(inode.data_fork().len()).min(end);
        for (has, range) in [(self.has_data, core..boundary), (self.has_attr, boundary..end)] {
            if let (false, Some(from)) = (has, disk.get(range.clone()))
                && let Some(to) = self.image.get_mut(range)
            {
                to.copy_from_slice(from);
            }
        }
    }
}

/// Returns true for an inode in use that has a name.
fn is_linked(disk: &[u8], volume: &Volume) -> bool {
    Dinode::parse(disk, volume.geo()).is_some_and(|inode| inode.mode() != 0 && inode.nlink() > 0)
}

/// Adds the names in the journal. Returns false if `step` ended the walk.
pub(crate) fn names(
    volume: &Volume,
    named: &mut Named<'_>,
    step: &Step<'_>,
) -> xfskit_core::Result<bool> {
    walk(volume, step, &mut |item, lsn, _| match item {
        Item::Buf(buf) if matches!(buf.buf_type(), BufType::DirBlock | BufType::DirData) => {
            block_names(volume, buf, lsn, named);
        }
        Item::Inode(inode) => short_names(volume, inode, lsn, named),
        _ => {}
    })
}

/// Adds the names in the logged parts of a directory block.
fn block_names(volume: &Volume, buf: &Buf<'_>, lsn: Lsn, named: &mut Named<'_>) {
    let mut owner = None;
    for change in buf.changes() {
        if change.offset == 0 {
            owner = bytes::be64(change.bytes, DIR_OWNER).map(Ino);
        }
        let area = Area::logged(change.bytes, change.offset);
        area.entries(volume.geo(), &mut |entry| {
            if named.wants(&entry) {
                owner = owner.or_else(|| owner_of(volume, buf.daddr()));
                named.add(Hint::new(&entry, owner, lsn));
            }
        });
    }
}

/// Returns the directory whose block is at `daddr`, if it is still one.
fn owner_of(volume: &Volume, daddr: Daddr) -> Option<Ino> {
    let geo = volume.geo();
    geo.daddr_to_agb(daddr)?;
    let mut head = vec![0; geo.sectsize()];
    volume.device().read_at(daddr.byte_offset(), &mut head).ok()?;
    is_dir_block(volume, &head, daddr).then(|| bytes::be64(&head, DIR_OWNER).map(Ino)).flatten()
}

/// Returns true if a block begins with the header of a directory's data block that was written at
/// `daddr` of this volume.
pub(crate) fn is_dir_block(volume: &Volume, block: &[u8], daddr: Daddr) -> bool {
    let geo = volume.geo();
    data::Form::of(block, geo).is_some()
        && bytes::be64(block, 8) == Some(daddr.0)
        && block.get(24..40) == Some(&geo.meta_uuid.as_bytes()[..])
}

/// Adds the names of a logged short form.
fn short_names(volume: &Volume, inode: &item::Inode<'_>, lsn: Lsn, named: &mut Named<'_>) {
    let is_dir = FileType::from_mode(inode.core.mode.get()) == Some(FileType::Directory);
    let (true, 1, Some(fork)) = (is_dir, inode.core.format, inode.fork(Fork::Data)) else { return };
    let used = fork.get(..index(inode.core.size.get())).unwrap_or(fork);
    let Some(list) = sf::Sf::parse(used, volume.geo()) else { return };
    for entry in list.entries() {
        let file_type = entry.filetype.and_then(FileType::from_ftype);
        let name = Name { parent: Some(inode.ino()), name: entry.name.to_vec(), file_type, lsn };
        if let Some(hint) = Hint::of(entry.inumber, name) {
            named.add(hint);
        }
    }
}
