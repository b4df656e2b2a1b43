//! An inode as the journal has it.
//!
//! An item has the whole core of an inode, and each fork that changed. Three inodes are made of the
//! items since it was allocated, the most credible first:
//!
//! 1. The inode on disk with the logged parts over it, if the checksum on disk is right for that.
//! 2. The logged parts alone, if all of the inode is logged.
//! 3. The logged core over the forks on disk, where nothing of the core on disk is left.

use xfskit_format::inode::{self, Dinode, Format, InodeMut, MAGIC, NULLAGINO};
use xfskit_format::log::item;
use xfskit_format::{Ctx, Fork, Layout};
use xfskit_recovery::{write_core, write_forks};
use xfskit_units::{Ino, Lsn};

use crate::view::View;

/// The logged parts of an inode.
#[derive(Debug)]
pub(crate) struct InodeCopy {
    /// The inode on disk.
    disk: Vec<u8>,
    /// That with the logged parts over it.
    over: Vec<u8>,
    /// The logged parts alone.
    alone: Vec<u8>,
    /// Generation and `forkoff` of the newest item; `None` without an item.
    newest: Option<(u32, u8)>,
    /// Whether the data fork and the attribute fork are logged.
    has_fork: [bool; 2],
    /// The newest transaction.
    pub lsn: Lsn,
}

impl InodeCopy {
    /// Returns the copy of an inode, of which nothing is known yet; `disk` are its bytes.
    pub(crate) fn new(disk: Vec<u8>) -> Self {
        Self {
            over: disk.clone(),
            alone: vec![0; disk.len()],
            disk,
            newest: None,
            has_fork: [false; 2],
            lsn: Lsn::NONE,
        }
    }

    /// Forgets everything: what follows is another file.
    fn forget(&mut self) {
        *self = Self::new(std::mem::take(&mut self.disk));
    }

    /// Takes the parts of a newer item.
    pub(crate) fn take(&mut self, item: &item::Inode<'_>, lsn: Lsn, ctx: &Ctx<'_>) {
        let (generation, forkoff) = (item.core.r#gen.get(), item.core.forkoff);
        if self.newest.is_some_and(|(before, _)| before != generation) {
            self.forget();
        }
        if item.core.mode.get() == 0 {
            self.forget();
            return;
        }
        if self.newest.is_some_and(|(_, before)| before != forkoff) {
            // The attribute fork is at another place now.
            self.has_fork[1] = false;
        }
        self.newest = Some((generation, forkoff));
        self.lsn = lsn;
        let layout = Layout::of(ctx.geo);
        let write = |inode: &mut Vec<u8>| {
            write_core(inode, item, lsn, ctx.geo.v5());
            write_forks(inode, item, ctx, layout)
        };
        if write(&mut self.over).and_then(|()| write(&mut self.alone)).is_err() {
            self.forget();
            return;
        }
        let is_device = item.format.fields.get() & item::inode::DEV != 0;
        self.has_fork[0] |= is_device || item.fork(Fork::Data).is_some();
        self.has_fork[1] |= item.fork(Fork::Attr).is_some();
    }

    /// Returns the inode as it was, and why it is believed; `None` if the one on disk is sound, or
    /// the journal does not have enough of it.
    pub(crate) fn sound(&self, view: View<'_>, ino: Ino) -> Option<(Vec<u8>, &'static str)> {
        if self.newest.is_none() || is_own(&self.disk, view, ino) {
            return None;
        }
        let is_sound = |bytes: &[u8]| {
            let inode = Dinode::verify(bytes, &view.ctx(ino), ino);
            inode.is_ok_and(|inode| !inode.is_free() && inode.nlink() > 0)
        };
        if let Some(inode) = self.laid_over().filter(|inode| is_sound(inode)) {
            return Some((inode, "with the logged parts over it, the checksum on disk is right"));
        }
        if self.is_older_than_disk(view, ino) {
            return None;
        }
        if self.is_complete(view) {
            let inode = stamped(&self.alone, self.lsn);
            return Some((inode, "its core and its forks are logged")).filter(|(i, _)| is_sound(i));
        }
        let inode = stamped(&self.over, self.lsn);
        let fits = !has_identity(&self.disk, view, ino) && is_sound(&inode);
        let whole = fits && has_whole_maps(&inode, view, ino);
        whole.then_some((inode, "its core is logged, and its forks on disk fit that"))
    }

    /// Returns the inode on disk with the logged parts over it, if that makes its checksum right.
    /// Its LSN may be that of the disk or of the newest item.
    fn laid_over(&self) -> Option<Vec<u8>> {
        let mut disk = self.disk.clone();
        let on_disk = InodeMut::new(&mut disk)?.core;
        for lsn in [self.lsn.0.into(), on_disk.lsn] {
            let mut bytes = self.over.clone();
            let inode = InodeMut::new(&mut bytes)?;
            inode.core.lsn = lsn;
            inode.core.crc = on_disk.crc;
            if inode::is_whole(&bytes) {
                return Some(bytes);
            }
        }
        None
    }

    /// Returns true if everything that the newest core leads to in the inode is logged.
    fn is_complete(&self, view: View<'_>) -> bool {
        let Some(inode) = Dinode::parse(&self.alone, view.geo) else { return false };
        let is_empty = match inode.format() {
            Some(Format::Extents) => inode.nextents() == 0,
            Some(Format::Local) => inode.size().0 == 0,
            _ => false,
        };
        let without_attrs = inode.forkoff() == 0
            || inode.aformat() == Some(Format::Extents) && inode.anextents() == 0;
        (self.has_fork[0] || is_empty) && (self.has_fork[1] || without_attrs)
    }

    /// Returns true if the inode on disk is one of this volume, and names a newer transaction.
    fn is_older_than_disk(&self, view: View<'_>, ino: Ino) -> bool {
        let disk = Dinode::parse(&self.disk, view.geo);
        has_identity(&self.disk, view, ino) && disk.is_some_and(|disk| disk.lsn() > self.lsn)
    }
}

/// Returns true if an inode has the right checksum, number and UUID.
pub(crate) fn is_own(bytes: &[u8], view: View<'_>, ino: Ino) -> bool {
    inode::is_whole(bytes) && has_identity(bytes, view, ino)
}

/// Returns true if magic, number and UUID are right.
fn has_identity(bytes: &[u8], view: View<'_>, ino: Ino) -> bool {
    let own = Dinode::parse(bytes, view.geo).and_then(|inode| Some((inode.core, inode.v3?)));
    own.is_some_and(|(core, v3)| {
        core.magic.get() == MAGIC
            && v3.inumber.get() == ino.0
            && v3.uuid == *view.geo.meta_uuid.as_bytes()
    })
}

/// Returns an inode with its LSN and checksum, on no list of unlinked ones.
fn stamped(bytes: &[u8], lsn: Lsn) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(inode) = InodeMut::new(&mut bytes) {
        inode.core.core.next_unlinked = NULLAGINO.into();
        inode::stamp_lsn(&mut bytes, lsn);
    }
    bytes
}

fn has_whole_maps(bytes: &[u8], view: View<'_>, ino: Ino) -> bool {
    let Some(inode) = Dinode::parse(bytes, view.geo) else { return false };
    [Fork::Data, Fork::Attr].iter().all(|fork| view.map(&inode, ino, *fork).whole)
}
