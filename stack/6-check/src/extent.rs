//! Extents of one group.

use xfskit_units::{AgBlock, AgNumber, ExtLen};

use crate::volume::Volume;

/// A free extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    pub start: u32,
    pub len: u32,
}

/// Returns true if `[start, start + len)` can be an extent of group `agno`.
pub(crate) fn valid_extent(vol: &Volume<'_>, agno: AgNumber, start: u32, len: u32) -> bool {
    vol.geo.valid_agb_extent(agno, AgBlock(start), ExtLen(len))
}
