//! A group whose inodes change: its AGI, locked.

use std::mem::offset_of;

use xfskit_format::agi::Agi;
use xfskit_format::{Image, agi};
use xfskit_trans::Handle;
use xfskit_units::AgNumber;
use zerocopy::FromBytes;
use zerocopy::big_endian::U32;

use crate::error::{Error, Result};
use crate::tx::SpaceTx;

/// A group whose inodes a transaction changes, with its AGI locked.
#[derive(Clone, Copy, Debug)]
pub struct InodeGroup {
    /// The group.
    pub agno: AgNumber,
    /// Its AGI.
    pub agi: Handle,
}

impl InodeGroup {
    /// Locks the inodes of group `agno`.
    ///
    /// # Errors
    /// As [`SpaceTx::agi`].
    pub fn lock(tx: &mut SpaceTx<'_>, agno: AgNumber) -> Result<Self> {
        Ok(Self { agno, agi: tx.agi(agno)? })
    }

    /// Returns the AGI with the changes of this transaction.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is not one: never, since it was verified.
    pub fn header<'t>(self, tx: &'t SpaceTx<'_>) -> Result<&'t Agi> {
        let header = Agi::ref_from_prefix(tx.bytes(self.agi)).ok().map(|(agi, _)| agi);
        header.ok_or_else(|| Error::Unsupported("a short AGI".into()))
    }

    /// Updates the group's counters and the superblock's.
    pub(super) fn count(self, tx: &mut SpaceTx<'_>, inodes: i64, free: i64) -> Result<()> {
        let agi = self.header(tx)?;
        let add = |old: u32, more: i64| u32::try_from(i64::from(old).saturating_add(more));
        let (Ok(count), Ok(freecount)) =
            (add(agi.count.get(), inodes), add(agi.freecount.get(), free))
        else {
            let ctx = tx.space().ctx(agi::location(tx.space().geo(), self.agno));
            let found = agi.freecount.get();
            return Ok(ctx.require("agi.freecount", false, "what the trees add up to", found)?);
        };
        let mut image = tx.image(self.agi);
        if inodes != 0 {
            image.put(offset_of!(Agi, count), &U32::new(count));
        }
        image.put(offset_of!(Agi, freecount), &U32::new(freecount));
        tx.delta.icount += inodes;
        tx.delta.ifree += free;
        Ok(())
    }
}
