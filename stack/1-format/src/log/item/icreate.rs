//! ICREATE: a new chunk of inodes. Replay writes empty inodes over the whole range.

use xfskit_units::{AgBlock, AgNumber, ExtLen};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian, little_endian,
};

use crate::corruption::VerifyResult;
use crate::ctx::Ctx;

/// The only region; big-endian except for the first two fields.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Icreate {
    /// [`kind::ICREATE`](super::kind::ICREATE).
    pub r#type: little_endian::U16,
    /// 1.
    pub size: little_endian::U16,
    /// Allocation group.
    pub ag: big_endian::U32,
    /// First block in the group.
    pub agbno: big_endian::U32,
    /// Inodes.
    pub count: big_endian::U32,
    /// Bytes of an inode.
    pub isize: big_endian::U32,
    /// Blocks.
    pub length: big_endian::U32,
    /// Generation of every inode.
    pub r#gen: big_endian::U32,
}
const _: () = assert!(size_of::<Icreate>() == 28);

impl Icreate {
    /// Verifies the item against the volume's geometry and returns the location of the chunk.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(&self, ctx: &Ctx<'_>) -> VerifyResult<(AgNumber, AgBlock, ExtLen)> {
        let geo = ctx.geo;
        let (agno, agbno) = (AgNumber(self.ag.get()), AgBlock(self.agbno.get()));
        let length = ExtLen(self.length.get());
        ctx.eq("log.icreate.isize", geo.inodesize(), self.isize.get() as usize)?;
        ctx.within("log.icreate.length", 1..=geo.chunk_blocks(), length.0)?;
        let count = length.0.saturating_mul(geo.inopblock());
        ctx.eq("log.icreate.count", count, self.count.get())?;
        let inside = geo.valid_agb_extent(agno, agbno, length);
        ctx.require("log.icreate.agbno", inside, "blocks of the group after its headers", agbno)?;
        Ok((agno, agbno, length))
    }
}
