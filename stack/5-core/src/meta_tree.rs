//! The btrees of realtime groups, which hang below the inode of a metadata file: their blocks on
//! the data device. A volume that has them is only read.

use std::collections::HashSet;

use xfskit_format::inode::Dinode;
use xfskit_format::metabt::Kind;
use xfskit_format::{Ctx, Fork, Location, bmbt};
use xfskit_units::FsBlock;

use crate::error::Result;
use crate::volume::Volume;

impl Volume {
    /// Passes each block of the tree in the data fork of `core`, where `ctx` is, to `each`.
    pub(crate) fn each_meta_block(
        &self,
        core: &Dinode<'_>,
        ctx: &Ctx<'_>,
        each: &mut dyn FnMut(FsBlock),
    ) -> Result<()> {
        let kind = Kind::of(core.metatype(), ctx)?;
        let root = kind.root(core.fork(Fork::Data).unwrap_or(&[]), ctx)?;
        let mut blocks: Vec<FsBlock> = root.ptrs.iter().map(|ptr| FsBlock(ptr.get())).collect();
        let mut entered = HashSet::new();
        let mut buf = vec![0; self.geo().blocksize()];
        for level in (0..root.level).rev() {
            let mut below = Vec::new();
            for block in blocks {
                let at = bmbt::location(self.geo(), block);
                let ctx = self.ctx(Location { ino: ctx.at.ino, fork: ctx.at.fork, ..at });
                let is_new = entered.insert(block.0);
                ctx.require("bmbt.ptr", is_new, "a block entered only once", block)?;
                each(block);
                let Some(offset) = self.geo().fsb_to_byte(block) else { continue };
                self.device().read_at(offset, &mut buf)?;
                let node = kind.block(&buf, &ctx)?;
                ctx.eq("bmbt.level", level, node.level)?;
                below.extend(node.ptrs.iter().map(|ptr| FsBlock(ptr.get())));
            }
            blocks = below;
        }
        Ok(())
    }
}
