//! Inode chunks: the records of inobt and finobt, and the ranks by which flat arrays are indexed.

use std::cmp::Ordering;

use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::inobt::{Chunk, INODES_PER_CHUNK, Rec};
use xfskit_format::rmap::owner;
use xfskit_format::{Ctx, agi};
use xfskit_units::{AgIno, AgNumber};

use crate::owners::UsedExtent;
use crate::volume::Volume;

/// The inode chunks of one group, in order.
#[derive(Default)]
pub(crate) struct ChunkMap {
    pub list: Vec<Chunk>,
    /// True if `list` has all chunks.
    pub complete: bool,
    /// Number of chunks of all groups before this one: chunk `i` here is chunk `base + i` of the
    /// volume.
    pub base: usize,
}

impl ChunkMap {
    pub(crate) fn new(list: Vec<Chunk>, complete: bool) -> Self {
        Self { list, complete, base: 0 }
    }

    /// Returns the chunk of `agino`, and its index in the list.
    pub(crate) fn find(&self, agino: AgIno) -> Option<(usize, &Chunk)> {
        let behind = self.list.partition_point(|chunk| chunk.startino <= agino);
        let place = behind.checked_sub(1)?;
        let chunk = self.list.get(place)?;
        (agino.since(chunk.startino)? < INODES_PER_CHUNK).then_some((place, chunk))
    }
}

impl ChunkMap {
    /// Returns the same as [`find`](Self::find). `near` is the index that was returned last: most
    /// look-ups are of the same chunk or the next one.
    pub(crate) fn find_near(&self, agino: AgIno, near: &mut usize) -> Option<(usize, &Chunk)> {
        let has = |chunk: &&Chunk| {
            agino.since(chunk.startino).is_some_and(|slot| slot < INODES_PER_CHUNK)
        };
        for place in [*near, near.saturating_add(1)] {
            if let Some(chunk) = self.list.get(place).filter(has) {
                *near = place;
                return Some((place, chunk));
            }
        }
        let found = self.find(agino)?;
        *near = found.0;
        Some(found)
    }
}

/// Adds the chunks of a leaf to `into` that are possible and do not overlap.
pub(crate) fn collect(
    vol: &Volume<'_>,
    agno: AgNumber,
    block: &Block<'_>,
    ctx: &Ctx<'_>,
    into: &mut Vec<Chunk>,
) {
    for (index, rec) in block.recs::<Rec>().iter().enumerate() {
        let chunk = rec.decode(&vol.geo);
        let ctx = ctx.entry(index);
        let behind_last = into
            .last()
            .is_none_or(|last| chunk.startino.since(last.startino) >= Some(INODES_PER_CHUNK));
        if check_start(vol, agno, block.tree, &ctx, &chunk) && behind_last {
            check_content(vol, block.tree, &ctx, &chunk);
            into.push(chunk);
        } else if !behind_last {
            let id = if block.tree == Tree::Ino { "inobt.overlap" } else { "finobt.overlap" };
            let wanted = "a chunk behind the one before it";
            vol.sink.error(ctx.require(id, false, wanted, chunk.startino));
        }
    }
}

/// Checks where a chunk starts.
fn check_start(vol: &Volume<'_>, agno: AgNumber, tree: Tree, ctx: &Ctx<'_>, chunk: &Chunk) -> bool {
    let geo = &vol.geo;
    let start = chunk.startino;
    let last = start.checked_add(INODES_PER_CHUNK - 1);
    let exists = geo.valid_agino(agno, start) && last.is_some_and(|l| geo.valid_agino(agno, l));
    let wanted = "64 inode numbers of the group";
    if !vol.sink.error(ctx.require(tree.ids().rec, exists, wanted, start)) {
        return false;
    }
    let whole = start.0.is_multiple_of(geo.inopblock().min(INODES_PER_CHUNK));
    let agbno = geo.agino_to_agb(start).0;
    let aligned = geo.inoalignmt == 0 || agbno.is_multiple_of(geo.inoalignmt);
    let id = if tree == Tree::Ino { "inobt.align" } else { "finobt.align" };
    let wanted = "a start aligned as the superblock says";
    vol.sink.error(ctx.require(id, whole && aligned, wanted, start)) || whole
}

/// Checks that the counts and the masks of a record agree.
fn check_content(vol: &Volume<'_>, tree: Tree, ctx: &Ctx<'_>, chunk: &Chunk) {
    let ids = match tree {
        Tree::Ino => ("inobt.count", "inobt.holemask", "inobt.freecount"),
        _ => ("finobt.count", "finobt.holemask", "finobt.freecount"),
    };
    let present = chunk.present();
    vol.sink.error(ctx.eq(ids.0, present.count_ones(), chunk.count));
    vol.sink.error(ctx.eq_hex(ids.1, !present, !present & chunk.free));
    let free = (present & chunk.free).count_ones();
    vol.sink.error(ctx.eq(ids.2, free, chunk.freecount));
}

/// Checks that the finobt has a copy of every inobt record with free inodes, and nothing else. The
/// inobt's masks decide which inodes are free: a wrong count was reported with its record.
pub(crate) fn compare_free(vol: &Volume<'_>, agno: AgNumber, all: &[Chunk], free: &[Chunk]) {
    let ctx = vol.ctx(agi::location(&vol.geo, agno));
    let counted = |chunk: &Chunk| {
        let mut chunk = *chunk;
        chunk.freecount = (chunk.present() & chunk.free).count_ones();
        chunk
    };
    let mut due = all.iter().map(counted).filter(|chunk| chunk.freecount > 0).peekable();
    let mut found = free.iter().peekable();
    loop {
        let order = match (due.peek(), found.peek()) {
            (None, None) => return,
            (Some(a), Some(b)) => a.startino.cmp(&b.startino),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        let result = match order {
            Ordering::Less => due.next().map(|chunk| {
                ctx.require("finobt.missing", false, "every chunk with free inodes", chunk.startino)
            }),
            Ordering::Greater => found.next().map(|chunk| {
                ctx.require("finobt.extra", false, "only chunks with free inodes", chunk.startino)
            }),
            Ordering::Equal => due.next().zip(found.next()).map(|(a, b)| {
                let describe = |c: &Chunk| {
                    format!("{} count {} free {} {:#x}", c.startino, c.count, c.freecount, c.free)
                };
                ctx.require("finobt.rec", a == *b, "a copy of the inobt's record", describe(b))
            }),
        };
        vol.sink.error(result.unwrap_or(Ok(())));
    }
}

/// Returns the chunk with the counts that its masks give.
pub(crate) fn counted(chunk: &Chunk) -> Chunk {
    let present = chunk.present();
    let free = chunk.free | !present;
    let (count, freecount) = (present.count_ones(), (present & free).count_ones());
    Chunk { count, freecount, free, ..*chunk }
}

/// Returns the blocks of the chunks, in runs.
pub(crate) fn claims(vol: &Volume<'_>, list: &[Chunk]) -> Vec<UsedExtent> {
    let geo = &vol.geo;
    let per_block = geo.inopblock().min(INODES_PER_CHUNK);
    let in_block = if per_block == INODES_PER_CHUNK { u64::MAX } else { (1 << per_block) - 1 };
    let mut claims: Vec<UsedExtent> = Vec::new();
    let mut behind = 0;
    for chunk in list {
        let present = chunk.present();
        for slot in (0..INODES_PER_CHUNK).step_by(per_block as usize) {
            let agbno = geo.agino_to_agb(AgIno(chunk.startino.0.saturating_add(slot))).0;
            // A block with more than 64 inodes has several records.
            if present & (in_block << slot) == 0 || agbno < behind {
                continue;
            }
            match claims.last_mut() {
                Some(last) if last.end() == agbno => last.len += 1,
                _ => claims.push(UsedExtent::special(agbno, 1, owner::INODES)),
            }
            behind = agbno.saturating_add(1);
        }
    }
    claims
}
