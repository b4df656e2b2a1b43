//! The btrees of realtime groups, which hang below an inode: their blocks, which are on the data
//! device. What their records say of the realtime device is not checked.
//!
//! 1. A block is entered once, so no shape of pointers makes a walk endless.
//! 2. A child is one level below its parent.

use std::collections::HashSet;

use xfskit_format::bmbt::{self, CRC_OFFSET};
use xfskit_format::inode::Dinode;
use xfskit_format::metabt::Kind;
use xfskit_format::{Ctx, Fork, Location};
use xfskit_units::FsBlock;

use crate::volume::Volume;

/// A walk through one tree.
struct Walk<'w, 'v> {
    vol: &'w Volume<'v>,
    /// Of the fork.
    at: Location,
    kind: Kind,
    entered: HashSet<u64>,
    /// For each level the block visited last, and its right sibling as it records it.
    neighbours: Vec<Option<(FsBlock, Option<FsBlock>)>>,
    /// Every block so far was read: left neighbours are known.
    sound: bool,
    each: &'w mut dyn FnMut(FsBlock),
}

/// Walks the tree in the data fork of `inode`, and passes each of its blocks to `each`. Returns
/// false if a part could not be read.
pub(crate) fn walk(
    vol: &Volume<'_>,
    inode: &Dinode<'_>,
    ctx: &Ctx<'_>,
    each: &mut dyn FnMut(FsBlock),
) -> bool {
    let room = inode.fork(Fork::Data).unwrap_or(&[]);
    let kind = Kind::of(inode.metatype(), ctx);
    let root = kind.and_then(|kind| Ok((kind, kind.root(room, ctx)?)));
    let (kind, root) = match root {
        Ok(root) => root,
        Err(corruption) => return vol.sink.error(Err(corruption)),
    };
    let Some(below) = root.level.checked_sub(1) else { return true };
    let neighbours = vec![None; root.level.into()];
    let (entered, sound) = (HashSet::new(), true);
    let mut walk = Walk { vol, at: ctx.at, kind, entered, neighbours, sound, each };
    for ptr in root.ptrs {
        walk.visit(FsBlock(ptr.get()), below);
    }
    walk.check_right_ends();
    walk.sound
}

impl Walk<'_, '_> {
    fn ctx(&self, fsbno: FsBlock) -> Ctx<'_> {
        let at = bmbt::location(&self.vol.geo, fsbno);
        self.vol.ctx(Location { ino: self.at.ino, fork: self.at.fork, ..at })
    }

    /// Checks the block `fsbno`, which must be on `level`, and all below it.
    fn visit(&mut self, fsbno: FsBlock, level: u16) {
        let vol = self.vol;
        let is_new = self.entered.insert(fsbno.0);
        let ctx = self.ctx(fsbno);
        if !vol.sink.error(ctx.require("bmbt.ptr", is_new, "a block entered only once", fsbno)) {
            self.sound = false;
            return;
        }
        let at = ctx.at;
        (self.each)(fsbno);
        let (kind, mut buf) = (self.kind, vec![0; vol.geo.blocksize()]);
        let verified = vol.verify(at, &mut buf, CRC_OFFSET, |block| {
            let ctx = vol.ctx(at);
            let node = kind.block(block, &ctx)?;
            ctx.eq("bmbt.level", level, node.level)?;
            let ptrs: Vec<u64> = node.ptrs.iter().map(|ptr| ptr.get()).collect();
            Ok((ptrs, node.leftsib, node.rightsib))
        });
        let Some((ptrs, left, right)) = verified else {
            self.neighbours[usize::from(level)] = None;
            self.sound = false;
            return;
        };
        self.check_siblings(fsbno, level, (left, right));
        for ptr in ptrs {
            self.visit(FsBlock(ptr), level - 1);
        }
    }

    /// Checks the sibling pointers, which link the blocks of one level in both directions.
    fn check_siblings(
        &mut self,
        fsbno: FsBlock,
        level: u16,
        (left, right): (Option<FsBlock>, Option<FsBlock>),
    ) {
        let none = |block: Option<FsBlock>| block.map_or(u64::MAX, |block| block.0);
        let before = self.neighbours[usize::from(level)].replace((fsbno, right));
        let (ctx, sink) = (self.ctx(fsbno), &self.vol.sink);
        if before.is_some() || self.sound {
            let expected = none(before.map(|(block, _)| block));
            sink.error(ctx.eq("bmbt.leftsib", expected, none(left)));
        }
        if let Some((_, linked)) = before {
            sink.error(ctx.eq("bmbt.rightsib", fsbno.0, none(linked)));
        }
    }

    fn check_right_ends(&self) {
        for (last, right) in self.neighbours.iter().flatten() {
            let right = right.map_or(u64::MAX, |block| block.0);
            self.vol.sink.error(self.ctx(*last).eq("bmbt.rightsib", u64::MAX, right));
        }
    }
}
