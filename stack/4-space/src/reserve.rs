//! The free space that is held back: as much as Linux holds back ([`xfskit_format::reserve`]), so
//! that a volume that was filled here still mounts there without a warning.

use std::mem::offset_of;

use xfskit_format::agf::Agf;
use xfskit_format::bytes::be32;
use xfskit_format::reserve::{self, SET_ASIDE, TreeBlocks};
use xfskit_units::{AgNumber, Geometry};

use crate::space::Space;

/// Returns the number of blocks of group `agno`, beside its AGFL, that only its own trees may
/// allocate now, according to its AGF. The blocks of the finobt are not known without the AGI. They
/// are few: its root is counted.
pub(crate) fn held_back(geo: &Geometry, agno: AgNumber, agf: &[u8]) -> u32 {
    let field = |at| u64::from(be32(agf, at).unwrap_or(0));
    let have = TreeBlocks {
        refcount: field(offset_of!(Agf, refcntblocks)),
        fino: 1,
        rmap: field(offset_of!(Agf, rmapblocks)),
    };
    let refill = SET_ASIDE.saturating_sub(field(offset_of!(Agf, flcount)));
    u32::try_from(reserve::growth(geo, agno, &have) + refill).unwrap_or(u32::MAX)
}

impl Space {
    /// Returns the number of free blocks that Linux reserves for the volume itself: the difference
    /// between its `statfs` and the superblock's counter. A group whose headers cannot be read
    /// counts with the most that it can need.
    pub(crate) fn withheld(&self) -> u64 {
        let geo = self.geo();
        let of_group = |agno| match (self.agf(agno), self.agi(agno)) {
            (Ok(agf), Ok(agi)) => reserve::of_group(geo, agno, &agf, &agi),
            _ => reserve::growth(geo, agno, &TreeBlocks::default()) + SET_ASIDE,
        };
        geo.ags().map(of_group).sum::<u64>() + reserve::pool(geo)
    }
}
