//! The size and free space of a volume, as statfs returns it.

use serde::Serialize;
use xfskit_core::Counts;
use xfskit_core::Volume;
use xfskit_format::reserve;

/// The size and free space of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Statfs {
    /// Size of a block in bytes.
    pub blocksize: u32,
    /// Number of blocks, without those of an internal log.
    pub blocks: u64,
    /// Number of blocks that content can have now, as in Linux' `statfs`: without the reserve that
    /// the volume needs ([`xfskit_format::reserve`]), and without delayed-allocation reservations.
    pub blocks_free: u64,
    /// Number of inodes in use, and of those for which there is space.
    pub inodes: u64,
    /// Number of inodes that could be made.
    pub inodes_free: u64,
    /// Length of the longest name, in bytes.
    pub name_max: u32,
}

impl Statfs {
    /// Returns the present values of `volume`.
    pub(crate) fn of(volume: &Volume) -> Self {
        let (geo, sb) = (volume.geo(), volume.superblock());
        let Counts { icount, ifree, .. } = volume.counts();
        let blocks_free = volume.blocks_available();
        let log = if geo.logstart.is_some() { u64::from(geo.logblocks) } else { 0 };
        let blocks = sb.dblocks.get().saturating_sub(log);
        let per_block = u64::from(sb.inopblock.get());
        let most = reserve::inodes_max(geo).unwrap_or(u64::MAX);
        let room = blocks_free.saturating_mul(per_block);
        let inodes = icount.saturating_add(room).min(most.max(icount));
        Self {
            blocksize: sb.blocksize.get(),
            blocks,
            blocks_free,
            inodes,
            inodes_free: inodes.saturating_sub(icount.saturating_sub(ifree)),
            name_max: 255,
        }
    }
}
