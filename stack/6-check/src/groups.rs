//! Phase 2: each allocation group by itself: its headers, its free list, its free-space and inode
//! btrees. Their records are kept for the later phases, which compare them with what is in use.

use std::collections::HashSet;

use parking_lot::Mutex;
use xfskit_format::agbtree::Tree;
use xfskit_format::agf::{self, Agf};
use xfskit_format::agfl::{self, Agfl};
use xfskit_format::agi::{self, Agi, NULLAGINO};
use xfskit_format::rmap::owner;
use xfskit_format::{Ctx, Expected, Location, VerifyResult};
use xfskit_units::{AgIno, AgNumber, FsBlock};
use zerocopy::FromBytes;

use crate::btree::{Walked, walk};
use crate::chunks::{self, ChunkMap};
use crate::extent::Extent;
use crate::freespace;
use crate::owners::UsedExtent;
use crate::spill::{self, Place, Spill};
use crate::volume::Volume;

/// State of one allocation group.
#[derive(Default)]
pub(crate) struct Group {
    /// The AGF, if it is usable.
    pub agf: Option<Box<Agf>>,
    /// The AGI, if it is usable.
    pub agi: Option<Box<Agi>>,
    /// Free extents of the bnobt, in order.
    pub free: Vec<Extent>,
    /// True if `free` has all free extents.
    pub free_known: bool,
    /// True if both free-space btrees have the same.
    pub free_agreed: bool,
    /// Number of blocks of the AGFL; `None` if the list is damaged.
    pub agfl_blocks: Option<u32>,
    /// Number of blocks of bnobt and cntbt; `None` if one could not be walked.
    pub alloc_tree_blocks: Option<u32>,
    /// True if the finobt could be walked, or the volume has none.
    pub finobt_known: bool,
    /// The inode chunks.
    pub chunks: ChunkMap,
    /// Extents found in use so far.
    used: Mutex<Claims>,
}

/// Extents found in use.
#[derive(Default)]
struct Claims {
    kept: Vec<UsedExtent>,
    /// Where the others are stored.
    spilled: Vec<Place>,
}

impl Group {
    /// Returns the number of recorded extents in memory.
    pub(crate) fn kept_claims(&self) -> usize {
        self.used.lock().kept.len()
    }

    /// Records extents as in use.
    pub(crate) fn claim(&self, used: impl IntoIterator<Item = UsedExtent>) {
        self.used.lock().kept.extend(used);
    }

    /// Records extents of files as in use. They are stored, where memory has a bound.
    pub(crate) fn claim_files(
        &self,
        used: impl IntoIterator<Item = UsedExtent>,
        to: Option<&Spill>,
    ) {
        let mut claims = self.used.lock();
        let Claims { kept, spilled } = &mut *claims;
        kept.extend(used);
        if let Some(spill) = to.filter(|_| kept.len() >= spill::RECORDS) {
            let records: Vec<_> = kept.iter().map(UsedExtent::stored).collect();
            if let Ok(place) = spill.store(&records) {
                kept.clear();
                spilled.push(place);
            }
        }
    }

    /// Takes all extents in use. The second value is false if some of them cannot be read again,
    /// which is reported.
    pub(crate) fn take_claims(&self, vol: &Volume<'_>) -> (Vec<UsedExtent>, bool) {
        let Claims { mut kept, spilled } = std::mem::take(&mut *self.used.lock());
        let Some(spill) = vol.spill else { return (kept, true) };
        kept.reserve_exact(spilled.iter().map(spill::records_in).sum());
        let mut all = true;
        for place in spilled {
            match spill.load(&place) {
                Ok(records) => kept.extend(records.iter().map(UsedExtent::of_stored)),
                Err(error) => {
                    let ctx = vol.ctx(Location::of("temporary file"));
                    let wanted = Expected::Described("readable bytes".into());
                    all &= vol.fatal(Err(ctx.corruption("device.read", wanted, error.to_string())));
                }
            }
        }
        (kept, all)
    }
}

/// Checks group `agno`.
pub(crate) fn check(vol: &Volume<'_>, agno: AgNumber) -> Group {
    let mut group = Group::default();
    let mut entered = HashSet::new();
    claim_fixed(vol, agno, &group);
    if let Some((agf, list_sound)) = check_agf(vol, agno) {
        let blocks = check_agfl(vol, agno, &agf, list_sound, &group);
        group.agfl_blocks = blocks.filter(|_| list_sound);
        check_free_space(vol, agno, &agf, &mut group, &mut entered);
        group.agf = Some(agf);
    }
    if let Some(chunks) = vol.known_chunks.and_then(|known| known.get(&agno)) {
        group.claim(chunks::claims(vol, chunks));
        group.chunks = ChunkMap::new(chunks.clone(), true);
        return group;
    }
    group.agi = check_agi(vol, agno);
    if let Some(agi) = group.agi.take() {
        check_inode_trees(vol, agno, &agi, &mut group, &mut entered);
        group.agi = Some(agi);
    }
    group
}

/// Records the blocks at fixed locations of a group, and the journal.
fn claim_fixed(vol: &Volume<'_>, agno: AgNumber, group: &Group) {
    let headers = vol.geo.ag_header_last().0.saturating_add(1);
    group.claim([UsedExtent::special(0, headers, owner::FS)]);
    let log = vol.geo.logstart.and_then(|start: FsBlock| vol.geo.fsb_split(start));
    if let Some((log_agno, agbno)) = log
        && log_agno == agno
    {
        group.claim([UsedExtent::special(agbno.0, vol.geo.logblocks, owner::LOG)]);
    }
}

/// Checks the AGF, and whether its length of the free list is right.
fn check_agf(vol: &Volume<'_>, agno: AgNumber) -> Option<(Box<Agf>, bool)> {
    let ctx = vol.ctx(agf::location(&vol.geo, agno));
    let mut sector = vec![0; vol.geo.sectsize()];
    let agf = vol.verify(ctx.at, &mut sector, agf::CRC_OFFSET, |bytes| {
        verify_agf(bytes, &ctx, agno).map(Box::new)
    })?;
    if vol.geo.v5() {
        let stray = agf.spare64.iter().filter(|word| word.get() != 0).count();
        vol.sink.warning(ctx.eq("agf.spare64", 0, stray));
    }
    let (slots, window) = (agfl::slots(&vol.geo), free_list_window(vol, &agf));
    let empty = agf.flcount.get() == 0 && (window == 0 || window == slots);
    let due = if empty { 0 } else { window };
    let found = agf.flcount.get();
    let wanted =
        || format!("{due}, for flfirst is {} and fllast {}", agf.flfirst.get(), agf.fllast.get());
    let result = if found == due {
        Ok(())
    } else {
        Err(ctx.corruption("agf.flcount", Expected::Described(wanted().into()), found))
    };
    let sound = vol.sink.error(result);
    Some((agf, sound))
}

/// Verifies the AGF. Whether `longest` fits `freeblks` is checked against the free extents, which
/// show which of the two is wrong.
fn verify_agf(bytes: &[u8], ctx: &Ctx<'_>, agno: AgNumber) -> VerifyResult<Agf> {
    let corruption = match Agf::verify(bytes, ctx, agno) {
        Ok(agf) => return Ok(agf.clone()),
        Err(corruption) => corruption,
    };
    let Some((found, _)) =
        Agf::read_from_prefix(bytes).ok().filter(|_| corruption.check.0 == "agf.longest")
    else {
        return Err(corruption);
    };
    let mut other = bytes.to_vec();
    if let Ok((agf, _)) = Agf::mut_from_prefix(&mut other) {
        agf.longest.set(0);
    }
    Agf::verify(&other, &ctx.crc_known(), agno)?;
    Ok(found)
}

/// Returns the number of AGFL slots from `flfirst` to `fllast`.
fn free_list_window(vol: &Volume<'_>, agf: &Agf) -> u32 {
    let (first, last, slots) = (agf.flfirst.get(), agf.fllast.get(), agfl::slots(&vol.geo));
    let past = last.saturating_add(1);
    if past >= first { past - first } else { slots.saturating_sub(first).saturating_add(past) }
}

/// Checks the blocks of the free list. Returns `None` if one is impossible. Where the list's length
/// is not `sound`, slots that only `flcount` counts are not part of it.
fn check_agfl(
    vol: &Volume<'_>,
    agno: AgNumber,
    agf: &Agf,
    sound: bool,
    group: &Group,
) -> Option<u32> {
    let slots = if sound { usize::MAX } else { free_list_window(vol, agf) as usize };
    let ctx = vol.ctx(agfl::location(&vol.geo, agno));
    let mut sector = vec![0; vol.geo.sectsize()];
    let mut claims = Vec::new();
    let sound = vol.verify(ctx.at, &mut sector, agfl::CRC_OFFSET, |bytes| {
        let mut sound = true;
        for (index, agbno) in Agfl::verify(bytes, &ctx, agno)?.active(agf).take(slots).enumerate() {
            if vol.sink.error(ctx.entry(index).agbno("agfl.bno", agno, agbno.0)) {
                claims.push(UsedExtent::special(agbno.0, 1, owner::AG));
            } else {
                sound = false;
            }
        }
        Ok(sound)
    });
    let blocks = u32::try_from(claims.len()).ok();
    group.claim(claims);
    blocks.filter(|_| sound == Some(true))
}

fn check_free_space(
    vol: &Volume<'_>,
    agno: AgNumber,
    agf: &Agf,
    group: &mut Group,
    entered: &mut HashSet<u32>,
) {
    let mut by_block = Vec::new();
    let bno = walk(vol, agno, Tree::Bno, (agf.bnoroot.get(), agf.bnolevel.get()), entered, &mut {
        |block, ctx| freespace::collect(vol, agno, block, ctx, &mut by_block)
    });
    let mut by_size = Vec::new();
    let cnt = walk(vol, agno, Tree::Cnt, (agf.cntroot.get(), agf.cntlevel.get()), entered, &mut {
        |block, ctx| freespace::collect(vol, agno, block, ctx, &mut by_size)
    });
    for tree in [&bno, &cnt] {
        group.claim(tree.blocks.iter().map(|&agbno| UsedExtent::special(agbno, 1, owner::AG)));
    }
    freespace::check_order(vol, agno, &by_block);
    by_size.sort_unstable();
    if bno.complete && cnt.complete {
        freespace::compare(vol, agno, &by_block, &by_size);
        group.free_agreed = by_block == by_size;
        group.alloc_tree_blocks = Some(bno.count().saturating_add(cnt.count()));
    }
    // If one tree cannot be read, the other alone shows what is free.
    group.free_known = bno.complete || cnt.complete;
    group.free = if bno.complete || !cnt.complete { by_block } else { by_size };
    if group.free_known {
        let ctx = vol.ctx(agf::location(&vol.geo, agno));
        let freeblks = group.free.iter().map(|extent| u64::from(extent.len)).sum::<u64>();
        vol.sink.error(ctx.eq("agf.freeblks", freeblks, agf.freeblks.get().into()));
        let longest = group.free.iter().map(|extent| extent.len).max().unwrap_or(0);
        vol.sink.error(ctx.eq("agf.longest", longest, agf.longest.get()));
    } else {
        let ctx = vol.ctx(agf::location(&vol.geo, agno));
        vol.sink.error(ctx.at_most("agf.longest", agf.freeblks.get(), agf.longest.get()));
    }
}

fn check_agi(vol: &Volume<'_>, agno: AgNumber) -> Option<Box<Agi>> {
    let ctx = vol.ctx(agi::location(&vol.geo, agno));
    let mut sector = vec![0; vol.geo.sectsize()];
    vol.verify(ctx.at, &mut sector, agi::CRC_OFFSET, |bytes| {
        Agi::verify(bytes, &ctx, agno).cloned().map(Box::new)
    })
}

fn check_inode_trees(
    vol: &Volume<'_>,
    agno: AgNumber,
    agi: &Agi,
    group: &mut Group,
    entered: &mut HashSet<u32>,
) {
    let geo = &vol.geo;
    let mut list = Vec::new();
    let ino = walk(vol, agno, Tree::Ino, (agi.root.get(), agi.level.get()), entered, &mut {
        |block, ctx| chunks::collect(vol, agno, block, ctx, &mut list)
    });
    claim_inode_tree(group, &ino);
    let ctx = vol.ctx(agi::location(geo, agno));
    if ino.complete {
        check_inode_counts(vol, agno, agi, &list);
        if geo.features.inobtcount() {
            vol.sink.error(ctx.eq("agi.ino_blocks", ino.count(), agi.ino_blocks.get()));
        }
    }
    group.finobt_known = !geo.features.finobt();
    if geo.features.finobt() {
        let mut free = Vec::new();
        let root = (agi.free_root.get(), agi.free_level.get());
        let fino = walk(vol, agno, Tree::Fino, root, entered, &mut {
            |block, ctx| chunks::collect(vol, agno, block, ctx, &mut free)
        });
        claim_inode_tree(group, &fino);
        group.finobt_known = fino.complete;
        if fino.complete && geo.features.inobtcount() {
            vol.sink.error(ctx.eq("agi.fino_blocks", fino.count(), agi.fino_blocks.get()));
        }
        if fino.complete && ino.complete {
            chunks::compare_free(vol, agno, &list, &free);
        }
    }
    group.claim(chunks::claims(vol, &list));
    group.chunks = ChunkMap::new(list, ino.complete);
}

fn claim_inode_tree(group: &Group, tree: &Walked) {
    group.claim(tree.blocks.iter().map(|&agbno| UsedExtent::special(agbno, 1, owner::INOBT)));
}

/// Checks the AGI's counters and hints against the inode btree.
fn check_inode_counts(
    vol: &Volume<'_>,
    agno: AgNumber,
    agi: &Agi,
    list: &[xfskit_format::inobt::Chunk],
) {
    let ctx = vol.ctx(agi::location(&vol.geo, agno));
    let present: u64 = list.iter().map(|chunk| u64::from(chunk.present().count_ones())).sum();
    let used: u64 = list.iter().map(|chunk| u64::from(chunk.used().count_ones())).sum();
    vol.sink.error(ctx.eq("agi.count", present, agi.count.get().into()));
    vol.sink.error(ctx.eq("agi.freecount", present - used, agi.freecount.get().into()));
    // Linux does not clear the hint when it frees the chunk.
    for (id, hint) in [("agi.newino", agi.newino.get()), ("agi.dirino", agi.dirino.get())] {
        let whole = hint.is_multiple_of(vol.geo.inopblock());
        let sound = hint == NULLAGINO || (whole && vol.geo.valid_agino(agno, AgIno(hint)));
        vol.sink.warning(ctx.require(id, sound, "the first inode of a block, or none", hint));
    }
    if vol.log_clean {
        for (bucket, head) in agi.unlinked.iter().enumerate() {
            let head = head.get();
            let empty = head == NULLAGINO;
            let ctx = ctx.entry(bucket);
            vol.sink.error(ctx.require("agi.unlinked", empty, "an empty list", head));
        }
    }
}
