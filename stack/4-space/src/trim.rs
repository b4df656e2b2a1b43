//! Trimming: the device is told which blocks are free.

use std::ops::Range;

use xfskit_units::{AgBlock, AgNumber, ByteLen};

use crate::error::Result;
use crate::free_space::FreeSpace;
use crate::tx::SpaceTx;

/// Free extents that one transaction visits, at most: the group's free space is locked meanwhile.
const AT_ONCE: usize = 128;

/// The result of one transaction that trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Number of blocks.
    pub blocks: u64,
    /// The block to go on from.
    pub next: AgBlock,
}

impl SpaceTx<'_> {
    /// Discards free extents of group `agno` on the device: the first ones in `blocks`, as far as
    /// they lie there, of at least `least` blocks. Blocks that were freed too recently stay: after
    /// a crash they may be in use again.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device), [`Error::Corrupt`](crate::Error::Corrupt).
    pub fn trim(&mut self, agno: AgNumber, blocks: Range<AgBlock>, least: u32) -> Result<Trimmed> {
        let mut space = FreeSpace::of(self, agno)?;
        let (parts, next) = space.usable_in(self, blocks.start.0..blocks.end.0, AT_ONCE)?;
        space.close(self);
        // The transaction holds the AGF until it ends: nothing of this is allocated meanwhile.
        let (geo, device) = (self.space().geo(), self.engine().device());
        let mut trimmed = 0;
        for part in parts {
            let len = part.end - part.start;
            if len < least.max(1) {
                continue;
            }
            let offset = geo.agb_to_daddr(agno, AgBlock(part.start)).byte_offset();
            device.discard(offset, ByteLen(u64::from(len) << geo.blocklog))?;
            trimmed += u64::from(len);
        }
        Ok(Trimmed { blocks: trimmed, next: AgBlock(next) })
    }
}
