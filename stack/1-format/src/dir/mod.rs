//! Directories, which map names to inode numbers, in four forms that grow into one another.
//!
//! | form | names | lookup by hash |
//! | --- | --- | --- |
//! | short form ([`sf`]) | the inode itself | none: a scan is fast enough |
//! | block ([`data`]) | one directory block | the same block, after the names |
//! | leaf ([`data`], [`leaf`]) | data blocks | one leaf, with a table of free space |
//! | node ([`data`], [`da`](crate::da), [`leaf`], [`free`]) | data blocks | a btree of leaves |
//!
//! One fork holds three address spaces: data from 0, leaves and nodes from 32 GiB, the free index
//! from 64 GiB. A directory block is `2^dirblklog` filesystem blocks, which need not be adjacent on
//! the disk. The editors of the forms are [`sf_edit`], [`block_edit`], [`data_edit`], [`leaf_edit`]
//! and [`free_edit`]; [`dead`] finds removed entries. An entry never moves within the data space,
//! whatever form the directory takes. Its position, divided by 8, is its [`DataPtr`], which hash
//! leaves store and readers resume from.

use xfskit_units::{FileOff, Geometry, Ino};

use crate::bytes;
use crate::corruption::{Value, VerifyResult};
use crate::ctx::Ctx;
use crate::layout::Layout;

pub mod block_edit;
pub mod data;
pub mod data_edit;
pub mod dead;
pub mod free;
pub mod free_edit;
pub mod leaf;
pub mod leaf_edit;
pub mod sf;
pub mod sf_edit;

/// "No data block here", in the tables of free space.
pub const NULLDATAOFF: u16 = u16::MAX;

/// Longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// Type bytes of entries are smaller than this.
pub const FTYPE_END: u8 = 9;

/// Entries take multiples of this many bytes.
pub const ENTRY_ALIGN: usize = 8;

/// A position in a directory's data space, in units of 8 bytes. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataPtr(pub u32);

impl DataPtr {
    /// Returns the data pointer of byte `offset` of the data block that begins at `fileoff`.
    pub fn new(geo: &Geometry, fileoff: FileOff, offset: usize) -> Option<Self> {
        let byte = fileoff.0.checked_mul(geo.blocksize() as u64)?.checked_add(offset as u64)?;
        u32::try_from(byte >> 3).ok().map(Self)
    }

    /// Returns the byte offset in the data space.
    pub fn byte(self) -> u64 {
        u64::from(self.0) << 3
    }

    /// Returns the number of the directory block, from 0.
    pub fn db(self, geo: &Geometry) -> u32 {
        let db =
            self.byte().checked_shr(u32::from(geo.blocklog).saturating_add(geo.dirblklog.into()));
        db.and_then(|db| u32::try_from(db).ok()).unwrap_or(u32::MAX)
    }

    /// Returns the directory block's first filesystem block.
    pub fn fileoff(self, geo: &Geometry) -> FileOff {
        FileOff(u64::from(self.db(geo)).saturating_mul(geo.dirblkfsbs().into()))
    }

    /// Returns the byte offset in that block.
    pub fn offset(self, geo: &Geometry) -> usize {
        xfskit_units::index(self.byte() & (geo.dirblksize() as u64).saturating_sub(1))
    }
}

/// One name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The inode that it names.
    pub inumber: Ino,
    /// 1 to 255 bytes.
    pub name: &'a [u8],
    /// The type byte, smaller than [`FTYPE_END`]; `None` on volumes without FTYPE.
    pub filetype: Option<u8>,
    /// Bytes from the start of its data block: the `tag` of a data block, the `offset` of a short
    /// form.
    pub offset: u16,
}

impl Entry<'_> {
    /// Fails if no directory can hold the name: it is empty, or contains a slash or a NUL.
    ///
    /// # Errors
    /// `dir.name`.
    pub fn verify_name(&self, ctx: &Ctx<'_>) -> VerifyResult {
        let bad = self.name.is_empty() || self.name.iter().any(|&b| b == b'/' || b == 0);
        let shown = || Value::from(String::from_utf8_lossy(self.name).into_owned());
        if bad {
            ctx.require("dir.name", false, "a name without slash and NUL", shown())?;
        }
        Ok(())
    }
}

/// Returns the length of an entry with a name of `namelen` bytes in a data block, in bytes.
pub fn entry_len(geo: &Geometry, namelen: usize) -> usize {
    let ftype = usize::from(geo.features.ftype());
    // inumber, namelen, name, type, tag
    bytes::round_up(namelen.saturating_add(8 + 1 + 2).saturating_add(ftype), ENTRY_ALIGN)
}

/// Returns the most slots of one free-index block.
pub fn free_max(geo: &Geometry) -> usize {
    crate::da::entries_in::<u16>(geo.dirblksize().saturating_sub(Layout::of(geo).dir_free_header))
}

#[cfg(test)]
mod tests;
