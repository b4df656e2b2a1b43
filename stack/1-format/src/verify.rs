//! Verification of a block by its magic, the last check before it is written.
//!
//! A reader knows the type of the block that it reads and calls that verifier. Write-back has
//! blocks of every type and identifies them by their magic. A block that a memory error or a bug
//! has damaged does not reach the device unless it passes. The owner in inode forks is not known
//! here, and not verified.

use xfskit_units::ByteLen;

use crate::agbtree::{Block, Tree};
use crate::bmbt::BmbtBlock;
use crate::da::Node;
use crate::dir::data::Data;
use crate::dir::free::Free;
use crate::log::Stamp;
use crate::log::item::buf::BufType;
use crate::{Ctx, Fork, VerifyResult, agf, agfl, agi, attr, bytes, dir, symlink};

/// The btrees of an allocation group.
const TREES: [Tree; 6] = [Tree::Bno, Tree::Cnt, Tree::Ino, Tree::Fino, Tree::Rmap, Tree::Refcount];

/// Verifies `block`, which is about to be written to `ctx.at.daddr` and carries neither its new LSN
/// nor its CRC yet. Blocks without a magic pass: inode clusters, and superblocks, which are
/// verified where they are made.
///
/// # Errors
/// The first check that fails.
pub fn before_write(block: &[u8], ctx: &Ctx<'_>) -> VerifyResult {
    let Some(stamp) = Stamp::of(block, ctx.geo) else { return Ok(()) };
    let ctx = &ctx.crc_known();
    let place = ctx.at.daddr.and_then(|daddr| ctx.geo.daddr_to_agb(daddr));
    let Some((agno, agbno)) = place else {
        return ctx.require("block.place", false, "an address in the volume", block.len());
    };
    match stamp.buf_type {
        BufType::Agf => agf::Agf::verify(block, ctx, agno).map(drop),
        BufType::Agi => agi::Agi::verify(block, ctx, agno).map(drop),
        BufType::Agfl => agfl::Agfl::verify(block, ctx, agno).map(drop),
        BufType::Btree => {
            let magic = bytes::be32(block, 0).unwrap_or(0);
            match TREES.into_iter().find(|tree| tree.magic(ctx.geo) == magic) {
                Some(tree) => {
                    let ctx = ctx.at(ctx.at.agb(agbno));
                    Block::verify(block, &ctx, tree, agno)?.verify_order(&ctx)
                }
                None => BmbtBlock::verify(block, ctx, Fork::Data)?.verify_order(ctx),
            }
        }
        BufType::DirBlock | BufType::DirData => Data::verify(block, ctx, None).map(drop),
        BufType::DirFree => Free::verify(block, ctx).map(drop),
        BufType::DirLeaf1 | BufType::DirLeafn => {
            dir::leaf::Leaf::verify(block, ctx, None).map(drop)
        }
        BufType::AttrLeaf => {
            attr::leaf::Leaf::verify(block, ctx).and_then(|leaf| leaf.verify_space(ctx))
        }
        BufType::DaNode => Node::verify(block, ctx, Fork::Data)
            .or_else(|_| Node::verify(block, ctx, Fork::Attr))
            .map(drop),
        BufType::Symlink => {
            let offset = bytes::be32(block, 4).unwrap_or(0);
            let len = bytes::be32(block, 8).unwrap_or(0);
            symlink::verify(block, ctx, offset, ByteLen(len.into())).map(drop)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use xfskit_units::{Daddr, Sectors};

    use super::*;
    use crate::Location;
    use crate::testing::{broken, geo_v5, golden};

    #[test]
    fn a_block_is_written_to_its_own_address_inside_the_volume() {
        let geo = geo_v5();
        let block = golden(4096, include_str!("golden/symlink.txt"));
        let verified = |block: &[u8], daddr| {
            let at = Location::of("buffer").daddr(Daddr(daddr), Sectors(8));
            before_write(block, &Ctx::new(&geo, at)).map_err(|fault| fault.check.0)
        };
        assert_eq!(verified(&block, 120), Ok(()));
        assert_eq!(verified(&block, 128), Err("symlink.bno"));
        assert_eq!(verified(&block, 1 << 40), Err("block.place"));
        assert_eq!(verified(&broken(&block, 16, &[0], None), 120), Err("symlink.uuid"));
        assert_eq!(verified(&[0; 4096], 1 << 40), Ok(()), "no magic, no check");
    }
}
