//! The extent map of a damaged fork: the extents that can be read, and the ranges whose extents are
//! lost.
//!
//! A block that cannot be read, or fails its checks, costs the range that its parent gives it. A
//! damaged record costs the range between its intact neighbours. A block is accepted only for its
//! own first key, and keys ascend within the bounds of their parent, so that no block is read
//! twice.

use std::ops::Range;

use xfskit_format::bmbt::{self, BmdrRoot, ExtentRules, Rec};
use xfskit_format::inode::Format;
use xfskit_format::{Ctx, Fork, VerifyResult, inode};
use xfskit_units::{FileOff, Ino};

use super::{Child, ExtentList, READ_AHEAD, WHOLE};
use crate::error::Error;
use crate::inode::Inode;
use crate::volume::Volume;

/// A range of a fork whose extents cannot be read.
#[derive(Debug)]
pub struct LostBlocks {
    /// The range in blocks of the fork, perhaps with holes. Empty where only a count or a link
    /// between blocks is wrong.
    pub blocks: Range<FileOff>,
    /// The damage.
    pub error: Error,
}

/// A child of a node, and the blocks of the fork that it maps.
type Span = (Child, Range<FileOff>);

/// The extents found so far, and the ranges without any.
struct Found {
    rules: ExtentRules,
    /// The inode's count of extents.
    most: u64,
    list: ExtentList,
    lost: Vec<LostBlocks>,
}

impl Volume {
    /// Returns the extents of one fork of `inode` that can be read, in order and verified, and the
    /// ranges whose extents are lost. An intact map has none.
    pub fn salvage_extents(&self, inode: &Inode, fork: Fork) -> (ExtentList, Vec<LostBlocks>) {
        let error = match self.extents(inode, fork) {
            Ok(extents) => return (extents, Vec::new()),
            Err(error) => error,
        };
        let core = inode.core();
        let ctx = self.ctx(inode::location(self.geo(), inode.ino()).fork(fork));
        let (rules, most) = (ExtentRules::of(&core, fork), core.fork_nextents(fork));
        let mut found = Found { rules, most, list: ExtentList::default(), lost: Vec::new() };
        let inline = core.fork(fork).unwrap_or(&[]);
        match core.fork_format(fork) {
            Some(Format::Extents) => {
                let count = usize::try_from(most).unwrap_or(usize::MAX);
                found.add(&ctx, &WHOLE, bmbt::records(inline, count));
            }
            Some(Format::Btree) => match BmdrRoot::verify(inline, &ctx, fork) {
                Ok(root) => self.salvage_tree(&root, (inode.ino(), fork), &mut found),
                Err(fault) => found.lose(WHOLE, fault.into()),
            },
            _ => {}
        }
        if found.lost.is_empty() {
            found.lose(FileOff::ZERO..FileOff::ZERO, error);
        }
        (found.list, found.lost)
    }

    /// Reads the tree below `root`, level by level.
    fn salvage_tree(&self, root: &BmdrRoot<'_>, (ino, fork): (Ino, Fork), found: &mut Found) {
        let mut children = spans(Child::list(root.keys, root.ptrs), &WHOLE);
        for level in (0..root.level).rev() {
            let mut below = Vec::new();
            for group in children.chunks(READ_AHEAD) {
                let ranges: Vec<_> =
                    group.iter().filter_map(|(child, _)| self.range_of(child)).collect();
                self.cache().read_ahead(&ranges);
                for (child, span) in group {
                    let at = self.child_location(child, ino, fork);
                    let read = self.read_child(child, level, (at, fork), &mut |block| {
                        let ctx = self.ctx(at);
                        let inside = spans(Child::list(block.keys(), block.ptrs()), span);
                        let whole = inside.len() == block.keys().len();
                        ctx.require("bmbt.keys", whole, "keys in order", "others")?;
                        below.extend(inside);
                        found.add(&ctx, span, block.recs());
                        Ok(())
                    });
                    if let Err(error) = read {
                        found.lose(span.clone(), error);
                    }
                }
            }
            children = below;
        }
    }
}

/// Returns the children with the range of each, all within `bounds`. Leaves out those that are out
/// of order.
fn spans(children: impl Iterator<Item = Child>, bounds: &Range<FileOff>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for child in children {
        let start = spans.last().map_or(bounds.start, |(last, _)| last.key);
        let ascends = spans.is_empty() || child.key > start;
        if child.key < start || !ascends || child.key >= bounds.end {
            continue;
        }
        if let Some((_, before)) = spans.last_mut() {
            before.end = child.key;
        }
        spans.push((child, child.key..bounds.end));
    }
    spans
}

impl Found {
    /// Adds the intact ones of `recs`, which map `span`.
    fn add(&mut self, ctx: &Ctx<'_>, span: &Range<FileOff>, recs: &[Rec]) {
        let mut at = span.start;
        let mut damaged: Option<Error> = None;
        for (index, extent) in recs.iter().map(Rec::decode).enumerate() {
            let verify = || -> VerifyResult {
                let ctx = ctx.entry(index);
                extent.verify(&ctx, self.rules)?;
                extent.follows(&ctx, at)?;
                ctx.at_most("bmbt.rec.order", span.end, extent.end())?;
                ctx.at_most("inode.nextents.count", self.most, self.list.len() as u64 + 1)
            };
            if let Err(fault) = verify() {
                damaged.get_or_insert(fault.into());
                continue;
            }
            if let Some(error) = damaged.take() {
                self.lose(at..extent.startoff, error);
            }
            at = extent.end();
            self.list.extents.push(extent);
        }
        if let Some(error) = damaged {
            self.lose(at..span.end, error);
        }
    }

    fn lose(&mut self, blocks: Range<FileOff>, error: Error) {
        self.lost.push(LostBlocks { blocks, error });
    }
}
