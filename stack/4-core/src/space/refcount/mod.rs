//! Reference counts: how many files share a block, and which blocks wait to replace shared ones.
//!
//! A block that one file maps has no record; one that `n` map has a record that says `n`. So the second file
//! makes a record and the last but one removes it, and what loses its last file without a record is free.
//! Staging extents of copy-on-write, allocated and not mapped by any file yet, are in a domain of their
//! own behind all shared ones: a crash leaves them there for the next who opens the volume to free.
//!
//! What becomes of the records is decided in [`plan`], on plain records; here they are found in the tree and
//! the edits are made. No volume without REFLINK has any of this.

#[expect(dead_code, reason = "waits for the cursor")]
mod plan;
#[cfg(test)]
mod tests;

use xfskit_units::{ExtLen, FsBlock};

use crate::error::{Error, Result};
use crate::tx::Tx;

/// One file more maps the extent.
pub(super) fn increase(tx: &mut Tx<'_>, start: FsBlock, len: ExtLen) -> Result<()> {
    let _ = (tx, start, len);
    Err(Error::Unsupported("sharing blocks".into()))
}

/// One file less maps the extent. What no file maps any more is freed.
pub(super) fn decrease(tx: &mut Tx<'_>, start: FsBlock, len: ExtLen) -> Result<()> {
    let _ = (tx, start, len);
    Err(Error::Unsupported("sharing blocks".into()))
}

/// The extent, allocated for [`Owner::Cow`](crate::space::Owner::Cow), is recorded as a staging extent.
pub(super) fn stage(tx: &mut Tx<'_>, start: FsBlock, len: ExtLen) -> Result<()> {
    let _ = (tx, start, len);
    Err(Error::Unsupported("sharing blocks".into()))
}

/// The extent is no staging extent any more, and belongs to nobody.
pub(super) fn unstage(tx: &mut Tx<'_>, start: FsBlock, len: ExtLen) -> Result<()> {
    let _ = (tx, start, len);
    Err(Error::Unsupported("sharing blocks".into()))
}

impl Tx<'_> {
    /// The first part of `[start, start + len)` (in one group) that several files share: where it begins and how
    /// long it is. `None` where all of it is one file's alone.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn find_shared(
        &mut self,
        start: FsBlock,
        len: ExtLen,
    ) -> Result<Option<(FsBlock, ExtLen)>> {
        let _ = (start, len);
        if !self.volume().geo().features.reflink() {
            return Ok(None);
        }
        Err(Error::Unsupported("sharing blocks".into()))
    }

    /// How far from `start` on, at most `len` blocks, the counts of blocks can be changed in one go: the part
    /// that touches no more than [`RECORDS_MAX`] records. At least 1.
    ///
    /// # Errors
    /// As [`find_shared`](Self::find_shared).
    pub fn refcount_reach(&mut self, start: FsBlock, len: ExtLen) -> Result<ExtLen> {
        let _ = start;
        Ok(len)
    }
}

/// Records of the refcountbt that one change of counts should meet at most: each is some dozen bytes of the
/// journal, or a block where they are far apart.
pub const RECORDS_MAX: usize = 64;
