//! The free index of a large directory: the length of the longest unused space of each data block.
//!
//! ```text
//! head | firstdb nvalid nused | bests[nvalid]
//! ```
//!
//! Its blocks begin at 64 GiB of the data fork. Number N covers the data blocks from N times
//! [`free_max`], and may be missing if none of those exists.

use xfskit_units::{FileOff, Geometry};
use zerocopy::big_endian::U16;

use crate::bytes;
use crate::corruption::VerifyResult;
use crate::ctx::Ctx;
use crate::da::{self, Ids, ids};
use crate::dir::{NULLDATAOFF, data, free_max};
use crate::layout::Layout;

/// Byte of the CRC field on version 5.
pub const CRC_OFFSET: usize = data::CRC_OFFSET;

/// A verified block.
#[derive(Clone, Copy, Debug)]
pub struct Free<'a> {
    /// The data block that `fbests` begins with.
    pub firstdb: u32,
    /// Number of `fbests` whose data blocks exist.
    pub nused: u32,
    /// The longest unused space of each data block, in bytes; [`NULLDATAOFF`] for no block.
    pub fbests: &'a [U16],
}

/// Returns the first data block that the free-index block at `fileoff` covers.
pub fn firstdb(geo: &Geometry, fileoff: FileOff) -> Option<u32> {
    let blocks = fileoff.0.checked_sub(geo.dir_freeblk().0.into())?;
    let number = blocks >> geo.dirblklog;
    u32::try_from(number.checked_mul(free_max(geo) as u64)?).ok()
}

impl<'a> Free<'a> {
    /// Verifies `block`, one directory block at `ctx.at.fileoff`, as part of the free index.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(block: &'a [u8], ctx: &Ctx<'_>) -> VerifyResult<Self> {
        const IDS: Ids = ids!("dir.free");
        let layout = Layout::of(ctx.geo);
        data::verify_hdr(block, ctx, &IDS, &[layout.dir_free_magic])?;
        let nvalid = bytes::be32(block, layout.dir_free_fields.saturating_add(4)).unwrap_or(0);
        let max = u32::try_from(free_max(ctx.geo)).unwrap_or(0);
        ctx.at_most("dir.free.nvalid", max, nvalid)?;
        let Some(free) = Self::parse(block, ctx.geo) else {
            return Err(ctx.short("dir.free.nvalid", block.len()));
        };
        if let Some(expected) = ctx.at.fileoff.and_then(|at| firstdb(ctx.geo, at)) {
            ctx.eq("dir.free.firstdb", expected, free.firstdb)?;
        }
        let used = free.fbests.iter().filter(|best| best.get() != NULLDATAOFF).count();
        ctx.eq("dir.free.nused", used as u64, free.nused.into())?;
        Ok(free)
    }

    /// Parses a block that was verified before, or as much as possible of a damaged one. `None` if
    /// its slots do not fit into the block.
    pub fn parse(block: &'a [u8], geo: &Geometry) -> Option<Self> {
        let layout = Layout::of(geo);
        let fields = block.get(layout.dir_free_fields..)?;
        let (firstdb, nused) = (bytes::be32(fields, 0)?, bytes::be32(fields, 8)?);
        let nvalid = xfskit_units::index(bytes::be32(fields, 4)?.into());
        let fbests = da::table::<U16>(block, layout.dir_free_header, nvalid)?;
        Some(Self { firstdb, nused, fbests })
    }
}
