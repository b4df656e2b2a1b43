//! Trimming of free space, group by group.

use std::ops::Range;

use xfskit_units::{AgBlock, ByteLen, ByteOffset};

use crate::error::Result;
use crate::volume::Volume;

impl Volume {
    /// Discards the free blocks in `bytes` of the device, in runs of at least `least` bytes
    /// (FITRIM). Returns their length. Other threads may change the volume meanwhile.
    ///
    /// # Errors
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Device`](crate::Error::Device),
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::Trans`](crate::Error::Trans).
    pub fn trim(&self, bytes: Range<ByteOffset>, least: ByteLen) -> Result<ByteLen> {
        let geo = self.geo();
        // Blocks that were freed just before can be discarded too.
        self.engine()?.checkpoint()?;
        let (first, end) = (bytes.start.0.div_ceil(1 << geo.blocklog), bytes.end.0 >> geo.blocklog);
        let least = u32::try_from(least.0.div_ceil(1 << geo.blocklog)).unwrap_or(u32::MAX);
        let mut blocks = 0;
        for agno in geo.ags() {
            let before = u64::from(agno.0) * u64::from(geo.agblocks);
            let length = geo.ag_length(agno);
            let inside = |block: u64| {
                let inside = block.saturating_sub(before).min(length.into());
                AgBlock(u32::try_from(inside).unwrap_or(length))
            };
            let (mut at, end) = (inside(first), inside(end));
            while at < end {
                let trimmed = self.transact(|tx| Ok(tx.trim(agno, at..end, least)?))?;
                blocks += trimmed.blocks;
                at = trimmed.next;
            }
        }
        Ok(ByteLen(blocks << geo.blocklog))
    }
}
