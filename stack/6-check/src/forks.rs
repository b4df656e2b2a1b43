//! The extent map of one fork: its records, in the inode or in the btree below it.
//!
//! 1. A block of the tree is entered once, so no shape of pointers makes a walk endless.
//! 2. A child is one level below its parent.

use std::collections::HashSet;

use xfskit_format::bmbt::{self, BmbtBlock, BmdrRoot, Extent, ExtentRules};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Corruption, Ctx, Fork, Location, VerifyResult, bytes};
use xfskit_units::{FileOff, FsBlock};

use crate::meta_trees;
use crate::volume::Volume;

/// An item of a fork's map.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mapped {
    /// Content.
    Extent(Extent),
    /// A block of the map's own btree.
    Btree(FsBlock),
}

/// Byte of the level in a block of the tree.
const LEVEL: usize = 4;

/// Buffers that are reused from fork to fork.
#[derive(Default)]
pub(crate) struct Scratch {
    buffers: Vec<Vec<u8>>,
    entered: HashSet<u64>,
}

/// Walks the map of `fork` of `inode`, which is at `at`, and passes each item to `each` in file
/// order. Returns false if a part could not be read.
pub(crate) fn walk(
    vol: &Volume<'_>,
    scratch: &mut Scratch,
    inode: &Dinode<'_>,
    at: Location,
    fork: Fork,
    each: &mut dyn FnMut(Mapped),
) -> bool {
    let Some(room) = inode.fork(fork) else { return true };
    let ctx = vol.ctx(at.fork(fork));
    let rules = Rules::of(inode, fork, &ctx);
    match inode.fork_format(fork) {
        Some(Format::Extents) => {
            let records = records(inode, fork, room);
            let written = written(records);
            // If the last records are blank, the counter is wrong, not each of them.
            if !vol.sink.error(ctx.eq(counter(fork), written, records.len())) {
                check_records(vol, &ctx, &records[..written], rules, &mut FileOff(0), each);
                return false;
            }
            check_records(vol, &ctx, records, rules, &mut FileOff(0), each)
        }
        Some(Format::Btree) => {
            let root = match BmdrRoot::verify(room, &ctx, fork) {
                Ok(root) => root,
                Err(corruption) => return vol.sink.error(Err(corruption)),
            };
            walk_tree(vol, scratch, &ctx, (fork, rules), &root, each)
        }
        Some(Format::MetaBtree) if fork == Fork::Data => {
            meta_trees::walk(vol, inode, &ctx, &mut |block| each(Mapped::Btree(block)))
        }
        _ => true,
    }
}

/// The extents that a fork may have.
#[derive(Clone, Copy)]
struct Rules {
    extents: ExtentRules,
    /// The file block behind the last space of a directory.
    dir_end: Option<u64>,
}

impl Rules {
    fn of(inode: &Dinode<'_>, fork: Fork, ctx: &Ctx<'_>) -> Self {
        let spaces = [ctx.geo.dir_leafblk(), ctx.geo.dir_freeblk()];
        let is_dir = fork == Fork::Data && inode.is_dir();
        // The third space is as large as the others.
        let dir_end = is_dir.then(|| spaces.iter().map(|space| u64::from(space.0)).sum());
        Self { extents: ExtentRules::of(inode, fork), dir_end }
    }

    fn verify(&self, extent: &Extent, ctx: &Ctx<'_>) -> VerifyResult {
        extent.verify(ctx, self.extents)?;
        extent.verify_end(ctx)?;
        let Some(end) = self.dir_end else { return Ok(()) };
        let last = end.saturating_sub(extent.blockcount.0);
        ctx.at_most("bmbt.rec.startoff", last, extent.startoff.0)
    }
}

/// Returns the id of the counter of a fork's extents.
pub(crate) fn counter(fork: Fork) -> &'static str {
    if fork == Fork::Data { "inode.nextents" } else { "inode.naextents" }
}

/// Returns the records in the inode, as many as it counts and has room for.
fn records<'b>(inode: &Dinode<'_>, fork: Fork, room: &'b [u8]) -> &'b [bmbt::Rec] {
    let count = usize::try_from(inode.fork_nextents(fork)).unwrap_or(usize::MAX);
    bmbt::records(room, count)
}

/// Returns the number of records up to the last one that is not blank.
fn written(records: &[bmbt::Rec]) -> usize {
    let last = records.iter().rposition(|rec| (rec.l0.get(), rec.l1.get()) != (0, 0));
    last.map_or(0, |last| last + 1)
}

/// Returns the corruption of an inode that counts more extents than it has. Its verifier, which
/// sees the counters only, finds too few blocks.
pub(crate) fn blank_extents(inode: &Dinode<'_>, ctx: &Ctx<'_>) -> Option<Box<Corruption>> {
    [Fork::Data, Fork::Attr].into_iter().find_map(|fork| {
        let room = inode.fork(fork).filter(|_| inode.fork_format(fork) == Some(Format::Extents))?;
        let records = records(inode, fork, room);
        ctx.eq(counter(fork), written(records), records.len()).err()
    })
}

/// Checks records one after the other. `end` is the end of the last one.
fn check_records(
    vol: &Volume<'_>,
    ctx: &Ctx<'_>,
    records: &[bmbt::Rec],
    rules: Rules,
    end: &mut FileOff,
    each: &mut dyn FnMut(Mapped),
) -> bool {
    let mut sound = true;
    for (index, rec) in records.iter().enumerate() {
        let extent = rec.decode();
        let verified = rules.verify(&extent, ctx);
        let result = verified.and_then(|()| extent.follows(ctx, *end)).map_err(|mut f| {
            f.at = f.at.index(index);
            f
        });
        if vol.sink.error(result) {
            *end = extent.end();
            each(Mapped::Extent(extent));
        } else {
            sound = false;
        }
    }
    sound
}

/// One walk through a fork's btree.
struct Walk<'w, 'v> {
    vol: &'w Volume<'v>,
    ctx: Ctx<'w>,
    fork: Fork,
    rules: Rules,
    scratch: &'w mut Scratch,
    /// For each level the block visited last, and its right sibling as it records it.
    neighbours: Vec<Option<(FsBlock, Option<FsBlock>)>>,
    end: FileOff,
    sound: bool,
    each: &'w mut dyn FnMut(Mapped),
}

fn walk_tree(
    vol: &Volume<'_>,
    scratch: &mut Scratch,
    ctx: &Ctx<'_>,
    (fork, rules): (Fork, Rules),
    root: &BmdrRoot<'_>,
    each: &mut dyn FnMut(Mapped),
) -> bool {
    let depth = usize::from(root.level);
    scratch.entered.clear();
    scratch.buffers.resize_with(scratch.buffers.len().max(depth), Vec::new);
    let neighbours = vec![None; depth];
    let (end, sound) = (FileOff(0), true);
    let mut walk = Walk { vol, ctx: *ctx, fork, rules, scratch, neighbours, end, sound, each };
    let alone = root.ptrs.len() == 1;
    for (key, ptr) in root.keys.iter().zip(root.ptrs) {
        walk.visit(FsBlock(ptr.get()), root.level - 1, key.get(), alone);
    }
    walk.check_right_ends();
    walk.sound
}

impl Walk<'_, '_> {
    fn location(&self, fsbno: FsBlock) -> Option<Location> {
        let (agno, agbno) = self.vol.geo.fsb_split(fsbno)?;
        let daddr = self.vol.geo.agb_to_daddr(agno, agbno);
        let at = Location::of("bmbt").ag(agno).agb(agbno);
        let at = at.daddr(daddr, self.vol.geo.block_sectors());
        Some(Location { ino: self.ctx.at.ino, fork: self.ctx.at.fork, ..at })
    }

    /// Checks the block `fsbno`, which must be on `level` and begin with `key`.
    fn visit(&mut self, fsbno: FsBlock, level: u16, key: u64, only_child: bool) {
        let vol = self.vol;
        let Some(at) = self.location(fsbno) else {
            self.sound = false;
            return;
        };
        let ctx = vol.ctx(at);
        let fresh = self.scratch.entered.insert(fsbno.0);
        if !vol.sink.error(ctx.require("bmbt.ptr", fresh, "a block entered only once", fsbno)) {
            self.sound = false;
            return;
        }
        (self.each)(Mapped::Btree(fsbno));
        let slot = usize::from(level);
        let mut buf = std::mem::take(&mut self.scratch.buffers[slot]);
        buf.resize(vol.geo.blocksize(), 0);
        let fork = self.fork;
        let verified = vol.verify(at, &mut buf, bmbt::CRC_OFFSET, |block| {
            let block = BmbtBlock::verify(block, &ctx, fork).map_err(|corruption| {
                // With a wrong level, records are taken for keys and pointers.
                let found = bytes::be16(block, LEVEL).unwrap_or(level);
                let inner = matches!(corruption.check.0, "bmbt.keys" | "bmbt.ptrs");
                let result = ctx.eq("bmbt.level", level, found).err().filter(|_| inner);
                result.unwrap_or(corruption)
            })?;
            ctx.eq("bmbt.level", level, block.level)?;
            self.check_block(&block, &ctx, fsbno, (key, only_child));
            Ok(())
        });
        self.scratch.buffers[slot] = buf;
        if verified.is_none() {
            self.sound = false;
            self.neighbours[slot] = None;
        }
    }

    fn check_block(
        &mut self,
        block: &BmbtBlock<'_>,
        ctx: &Ctx<'_>,
        fsbno: FsBlock,
        (key, only_child): (u64, bool),
    ) {
        let sink = &self.vol.sink;
        if !only_child {
            sink.error(ctx.at_least("bmbt.numrecs", bmbt::minrecs(&self.vol.geo), block.numrecs));
        }
        let first = match block.recs().first() {
            Some(rec) => rec.decode().startoff.0,
            None => block.keys().first().map_or(0, |key| key.get()),
        };
        sink.error(ctx.eq("bmbt.key", first, key));
        self.check_siblings(block, ctx, fsbno);
        if block.is_leaf() {
            self.sound &=
                check_records(self.vol, ctx, block.recs(), self.rules, &mut self.end, self.each);
            return;
        }
        for (key, ptr) in block.keys().iter().zip(block.ptrs()) {
            self.visit(FsBlock(ptr.get()), block.level - 1, key.get(), false);
        }
    }

    /// Checks the sibling pointers, which link the blocks of one level in both directions.
    fn check_siblings(&mut self, block: &BmbtBlock<'_>, ctx: &Ctx<'_>, fsbno: FsBlock) {
        let none = |b: Option<FsBlock>| b.map_or(u64::MAX, |b| b.0);
        let level = usize::from(block.level);
        // The left sibling of a block after an unreadable one is not known.
        if let Some((left, right)) = self.neighbours[level] {
            self.vol.sink.error(ctx.eq("bmbt.leftsib", left.0, none(block.leftsib)));
            self.vol.sink.error(ctx.eq("bmbt.rightsib", fsbno.0, none(right)));
        } else if self.sound {
            self.vol.sink.error(ctx.eq("bmbt.leftsib", u64::MAX, none(block.leftsib)));
        }
        self.neighbours[level] = Some((fsbno, block.rightsib));
    }

    fn check_right_ends(&self) {
        for (left, right) in self.neighbours.iter().flatten() {
            let right = right.map_or(u64::MAX, |b| b.0);
            if let Some(at) = self.location(*left) {
                self.vol.sink.error(self.vol.ctx(at).eq("bmbt.rightsib", u64::MAX, right));
            }
        }
    }
}
