//! Directory blocks in several pieces.
//!
//! A directory block may be larger than a filesystem block, and then lie in several extents. It has
//! one CRC over all pieces, stored in the first. Each piece is logged as a buffer of its own, with
//! nothing that ties them together. Linux replays each piece as if it were a whole block and then
//! cannot mount the volume. This code replays the pieces one by one as well. When everything is in
//! place, the extent maps of the directories concerned show which pieces belong together, and the
//! CRC is computed over all of them (`restamp`).

use std::collections::{BTreeMap, BTreeSet};

use xfskit_format::bytes;
use xfskit_format::inode::Dinode;
use xfskit_format::log::Stamp;
use xfskit_units::{Daddr, Geometry, Ino, Lsn};

/// The pieces in the journal, and the directories that may own them.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The LSN of the last change of each piece, by its address.
    pub(crate) changed: BTreeMap<Daddr, Lsn>,
    /// Directories that changed.
    pub(crate) owners: BTreeSet<Ino>,
}

impl Pieces {
    /// Records a change of the piece at `daddr`. A first piece names its directory.
    pub(crate) fn changed(&mut self, daddr: Daddr, lsn: Lsn, piece: &[u8], geo: &Geometry) {
        self.changed.insert(daddr, lsn);
        if let Some(stamp) = Stamp::of(piece, geo) {
            // The owner follows the UUID.
            self.owners.extend(bytes::be64(piece, stamp.uuid + 16).map(Ino));
        }
    }

    /// Records a replayed inode: a directory may own pieces whose first one did not change.
    pub(crate) fn saw_inode(&mut self, disk: &[u8], ino: Ino, geo: &Geometry) {
        if geo.dirblklog > 0 && Dinode::parse(disk, geo).is_some_and(|inode| inode.is_dir()) {
            self.owners.insert(ino);
        }
    }
}
