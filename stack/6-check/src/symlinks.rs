//! The target of one symbolic link.

use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Ctx, Fork, Location, symlink};
use xfskit_units::{ByteLen, Sectors};

use crate::volume::Volume;

/// Checks the target of `inode`; `map` is the map of its data fork.
pub(crate) fn check(vol: &Volume<'_>, inode: &Dinode<'_>, at: Location, map: &[Extent]) {
    let ctx = vol.ctx(at.fork(Fork::Data));
    if inode.format() == Some(Format::Local) {
        let size = usize::try_from(inode.size().0).unwrap_or(usize::MAX);
        if let Some(target) = inode.data_fork().get(..size) {
            check_bytes(vol, &ctx, target);
        }
        return;
    }
    let (size, mut offset) = (inode.size().0.min(symlink::MAX_LEN.into()), 0u64);
    for extent in map {
        // A target takes one or two blocks, so a longer extent holds no more of it.
        let blocks = extent.blockcount.0.min(4);
        let len = usize::try_from(blocks << vol.geo.blocklog).unwrap_or(0);
        let Some(daddr) = vol.geo.fsb_to_daddr(extent.startblock) else { return };
        let sectors = Sectors(len as u64 / 512);
        let at = Location::of("symlink").ino(at.ino.unwrap_or_default()).daddr(daddr, sectors);
        let ctx = vol.ctx(at);
        let mut buf = vec![0; len];
        let from = u32::try_from(offset).unwrap_or(u32::MAX);
        let due = ByteLen(size.saturating_sub(offset));
        let part = vol.verify(at, &mut buf, symlink::CRC_OFFSET, |bytes| {
            let part = symlink::verify(bytes, &ctx, from, due)?;
            check_bytes(vol, &ctx, part);
            Ok(part.len() as u64)
        });
        let Some(part) = part else { return };
        offset += part;
    }
    vol.sink.error(ctx.eq("symlink.length", size, offset));
}

fn check_bytes(vol: &Volume<'_>, ctx: &Ctx<'_>, target: &[u8]) {
    let sound = !target.contains(&0);
    vol.sink.error(ctx.require("symlink.target", sound, "a target without NUL", "one with NUL"));
}
