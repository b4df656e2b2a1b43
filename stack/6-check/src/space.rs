//! Phase 5: every block of a group has exactly one use, and the btrees that record uses agree.
//!
//! All extents in use are sorted by block. One sweep then finds blocks claimed twice, blocks that
//! are both free and used, and blocks that are neither. The rmapbt must have the same list, and the
//! refcountbt must have its overlaps.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use xfskit_format::agbtree::Tree;
use xfskit_format::reserve::{self, TreeBlocks};
use xfskit_format::rmap::owner;
use xfskit_format::{Ctx, Location, agf};
use xfskit_units::{AgBlock, AgNumber};

use crate::btree::walk;
use crate::chunks;
use crate::disputes::{self, Recorded};
use crate::extent::Extent;
use crate::groups::Group;
use crate::ownerless;
use crate::owners::UsedExtent;
use crate::refcounts::{self, Shared};
use crate::rmaps;
use crate::spill::Owners;
use crate::survey::{Dispute, GroupSurvey, Run, Surveyor};
use crate::volume::Volume;

/// Counts of one group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Free blocks, with those of the AGFL.
    pub free: u64,
    /// Blocks that more than one file maps.
    pub shared: u64,
    /// The group's part of the superblock's free blocks; `None` if unknown.
    pub fdblocks: Option<u64>,
    /// Number of extents in use.
    pub extents: u64,
}

/// Checks the space of group `agno`. If `forks_known` is false, some inode's blocks are not known,
/// and blocks without an owner are not reported.
pub(crate) fn check(vol: &Volume<'_>, agno: AgNumber, group: &Group, forks_known: bool) -> Totals {
    let mut entered = HashSet::new();
    let rmapbt = xref_rmapbt(vol, agno, group, &mut entered);
    let refcountbt = xref_refcountbt(vol, agno, group, &mut entered);
    let fdblocks = check_agf_counters(vol, agno, group, rmapbt.as_ref());

    let (mut used, forks_known) = match group.take_claims(vol) {
        (used, true) => (used, forks_known),
        (used, false) => (used, false),
    };
    used.sort_unstable_by_key(UsedExtent::key);
    let trees_known = rmapbt.as_ref().is_none_or(|t| t.sound)
        && refcountbt.as_ref().is_none_or(Option::is_some)
        && group.alloc_tree_blocks.is_some()
        && group.finobt_known;
    let all_known =
        forks_known && trees_known && group.chunks.complete && group.agfl_blocks.is_some();
    if let Some(mismatches) = vol.mismatches {
        mismatches.note(&vol.geo, agno, &used, all_known);
    }
    let overlaps = check_sharing(vol, agno, &used);
    if group.free_known {
        check_used_or_free(vol, agno, &used, &group.free, all_known);
    }
    let records = rmapbt.as_ref().map(|t| (&t.records[..], t.sound));
    let rmapbt = rmapbt.as_ref().filter(|t| t.sound).map(|t| &t.records[..]);
    if let Some(records) = rmapbt {
        rmaps::compare(vol, agno, &used, records, all_known);
    }
    let shares = if overlaps { shared_extents(&used) } else { Vec::new() };
    if let Some(surveyor) = vol.surveyor {
        let recorded = Recorded {
            rmaps: records,
            refcounts: refcountbt.as_ref().and_then(Option::as_deref),
            can_share: vol.geo.features.reflink(),
        };
        let disputes = if overlaps { disputes::of(&used, &recorded) } else { Vec::new() };
        let known = trees_known && group.chunks.complete && group.agfl_blocks.is_some();
        let counted = recorded.refcounts.unwrap_or(&[]);
        let ownerless = (known && group.free_agreed).then(|| {
            ownerless::of(vol.geo.ag_length(agno), &used, &group.free, (&shares, counted))
        });
        let found = surveyed(vol, agno, group, (&used, &shares, disputes), rmapbt);
        surveyor.add(GroupSurvey { ownerless, ..found });
    }
    if let Some(Some(records)) = &refcountbt {
        refcounts::compare(vol, agno, &shares, records, forks_known);
    }
    Totals {
        free: group.free.iter().map(|e| u64::from(e.len)).sum::<u64>()
            + u64::from(group.agfl_blocks.unwrap_or(0)),
        shared: shares.iter().map(|s| u64::from(s.len)).sum(),
        fdblocks,
        extents: used.len() as u64,
    }
}

/// Returns what is in use of a group. `used` is sorted as the rmapbt is.
fn surveyed(
    vol: &Volume<'_>,
    agno: AgNumber,
    group: &Group,
    (used, shares, disputes): (&[UsedExtent], &[Shared], Vec<Dispute>),
    rmapbt: Option<&[UsedExtent]>,
) -> GroupSurvey {
    let is_own = |used: &&UsedExtent| disputes::MADE_AGAIN.contains(&used.owner);
    let (made_again, kept) = (used.iter().filter(is_own), used.iter().filter(|u| !is_own(u)));
    let mut owners = Vec::with_capacity(used.len());
    owners.extend(kept.map(UsedExtent::record));
    GroupSurvey {
        agno,
        owners: Owners::new(owners, vol.surveyor.and_then(Surveyor::spill)),
        shared: shares.iter().map(Shared::record).collect(),
        disputes,
        chunks: group.chunks.list.iter().map(chunks::counted).collect(),
        chunks_complete: group.chunks.complete,
        recorded_inodes: rmapbt.map(|records| {
            let inodes = records.iter().filter(|record| record.owner == owner::INODES);
            inodes.map(|record| Run { start: record.start, len: record.len }).collect()
        }),
        ownerless: None,
        made_again: made_again.map(|used| Run { start: used.start, len: used.len }).collect(),
        recorded_files: rmapbt.zip(vol.owners).map(|(records, owners)| {
            let wanted = records.iter().filter(|record| owners.contains(&record.owner));
            wanted.map(UsedExtent::record).collect()
        }),
        recorded_free: group.free_known.then(|| {
            group.free.iter().map(|free| Run { start: free.start, len: free.len }).collect()
        }),
        unlinked: group.agi.as_ref().map(|agi| agi.unlinked.map(zerocopy::U32::get)),
    }
}

/// The result of walking the rmapbt.
struct RmapTree {
    blocks: Option<u32>,
    /// The records that can be read.
    records: Vec<UsedExtent>,
    /// These are all.
    sound: bool,
}

fn xref_rmapbt(
    vol: &Volume<'_>,
    agno: AgNumber,
    group: &Group,
    entered: &mut HashSet<u32>,
) -> Option<RmapTree> {
    if !Tree::Rmap.exists(&vol.geo) {
        return None;
    }
    let unknown = RmapTree { blocks: None, records: Vec::new(), sound: false };
    let Some(agf) = &group.agf else { return Some(unknown) };
    let mut records = Vec::new();
    let mut sound = true;
    let root = (agf.rmaproot.get(), agf.rmaplevel.get());
    let tree = walk(vol, agno, Tree::Rmap, root, entered, &mut |block, ctx| {
        sound &= rmaps::collect(vol, agno, block, ctx, &mut records);
    });
    group.claim(tree.blocks.iter().map(|&agbno| UsedExtent::special(agbno, 1, owner::AG)));
    let blocks = tree.complete.then(|| tree.count());
    Some(RmapTree { blocks, records, sound: tree.complete && sound })
}

/// Walks the refcountbt and checks it. Returns `Some(None)` if some records are not known, and
/// `None` if the volume has no such tree.
#[allow(clippy::option_option)] // three different things are said
fn xref_refcountbt(
    vol: &Volume<'_>,
    agno: AgNumber,
    group: &Group,
    entered: &mut HashSet<u32>,
) -> Option<Option<Vec<Shared>>> {
    if !Tree::Refcount.exists(&vol.geo) {
        return None;
    }
    let Some(agf) = &group.agf else { return Some(None) };
    let mut found = refcounts::Found::default();
    let root = (agf.refcntroot.get(), agf.refcntlevel.get());
    let tree = walk(vol, agno, Tree::Refcount, root, entered, &mut |block, ctx| {
        refcounts::collect(vol, agno, block, ctx, &mut found);
    });
    group.claim(tree.blocks.iter().map(|&agbno| UsedExtent::special(agbno, 1, owner::REFC)));
    group.claim(found.staging.iter().map(|e| UsedExtent::special(e.start, e.len, owner::COW)));
    if tree.complete {
        let ctx = vol.ctx(agf::location(&vol.geo, agno));
        vol.sink.error(ctx.eq("agf.refcntblocks", tree.count(), agf.refcntblocks.get()));
    }
    Some((tree.complete && found.sound).then_some(found.shared))
}

/// Checks the AGF's counters of btree blocks. Returns the group's part of `sb.fdblocks`.
fn check_agf_counters(
    vol: &Volume<'_>,
    agno: AgNumber,
    group: &Group,
    rmapbt: Option<&RmapTree>,
) -> Option<u64> {
    let agf = group.agf.as_ref()?;
    let ctx = vol.ctx(agf::location(&vol.geo, agno));
    let mut btreeblks = group.alloc_tree_blocks?.saturating_sub(2);
    if let Some(tree) = rmapbt {
        let blocks = tree.blocks?;
        vol.sink.error(ctx.eq("agf.rmapblocks", blocks, agf.rmapblocks.get()));
        btreeblks = btreeblks.saturating_add(blocks.saturating_sub(1));
    }
    if vol.geo.features.lazysbcount() {
        vol.sink.error(ctx.eq("agf.btreeblks", btreeblks, agf.btreeblks.get()));
    }
    let free: u64 = group.free.iter().map(|e| u64::from(e.len)).sum();
    let agfl = group.agfl_blocks?;
    if group.free_known {
        check_reserve(vol, agno, group, free + u64::from(agfl));
    }
    group.free_known.then(|| free + u64::from(agfl) + u64::from(btreeblks))
}

/// Warns of a group with fewer free blocks than its own trees may need. Linux warns of it at every
/// mount.
fn check_reserve(vol: &Volume<'_>, agno: AgNumber, group: &Group, free: u64) {
    let (Some(agf), Some(agi)) = (&group.agf, &group.agi) else { return };
    let growth = reserve::growth(&vol.geo, agno, &TreeBlocks::of(&vol.geo, agf, agi));
    let found = format!("{free} free blocks, where Linux holds back {growth}");
    let wanted = "room for the group's trees to grow; free some space";
    let ctx = vol.ctx(agf::location(&vol.geo, agno));
    vol.sink.warning(ctx.require("agf.reserve", free >= growth, wanted, found));
}

/// Returns the context of a block of group `agno`.
fn block_ctx<'v>(vol: &'v Volume<'_>, agno: AgNumber, agbno: u32) -> Ctx<'v> {
    let daddr = vol.geo.agb_to_daddr(agno, AgBlock(agbno));
    let at = Location::of("block").ag(agno).agb(AgBlock(agbno));
    vol.ctx(at.daddr(daddr, vol.geo.block_sectors()))
}

/// Checks that only contents of regular files share blocks, and only if their inodes have the flag.
/// Returns true if some files do.
fn check_sharing(vol: &Volume<'_>, agno: AgNumber, used: &[UsedExtent]) -> bool {
    let mut overlaps = false;
    let mut flagless = HashSet::new();
    let mut furthest: Option<&UsedExtent> = None;
    for next in used {
        if let Some(before) = furthest.filter(|before| next.start < before.end()) {
            overlaps = true;
            if before.is_content() && next.is_content() && vol.geo.features.reflink() {
                flagless.extend(
                    [before, next].iter().filter(|u| !u.has_reflink_flag()).map(|u| u.owner),
                );
            } else {
                let shared = before.end().min(next.end()).saturating_sub(next.start);
                let (a, b) = (before.owner_name(), next.owner_name());
                let found = match shared {
                    1 => format!("it is used by {a}, and by {b}"),
                    _ => format!("{shared} blocks from here are used by {a}, and by {b}"),
                };
                let ctx = block_ctx(vol, agno, next.start);
                vol.sink.error(ctx.fail("block.claimed-twice", "one owner", found));
            }
        }
        if furthest.is_none_or(|before| before.end() < next.end()) {
            furthest = Some(next);
        }
    }
    for ino in flagless {
        let at = xfskit_format::inode::location(&vol.geo, xfskit_units::Ino(ino));
        let found = "it shares blocks, and its flag reflink is not set";
        vol.sink.error(vol.ctx(at).fail("inode.reflink", "the flag reflink", found));
    }
    overlaps
}

/// Checks that each block is either used or free. Both lists are sorted by block.
fn check_used_or_free(
    vol: &Volume<'_>,
    agno: AgNumber,
    used: &[UsedExtent],
    free: &[Extent],
    all_known: bool,
) {
    let (mut used, mut free) = (used.iter().peekable(), free.iter().peekable());
    let (mut used_end, mut free_end) = (0u32, 0u32);
    loop {
        let used_first = match (used.peek(), free.peek()) {
            (None, None) => break,
            (Some(u), Some(f)) => u.start <= f.start,
            (Some(_), None) => true,
            (None, Some(_)) => false,
        };
        let covered = used_end.max(free_end);
        let user = if used_first { used.next() } else { None };
        let (start, end) = if let Some(user) = user {
            (user.start, user.end())
        } else {
            let Some(extent) = free.next() else { break };
            (extent.start, extent.start.saturating_add(extent.len))
        };
        if all_known && start > covered {
            report_leak(vol, agno, covered, start);
        }
        let other_end = if used_first { free_end } else { used_end };
        if start < other_end {
            let owner = user.map_or_else(|| "an unknown owner".to_owned(), UsedExtent::owner_name);
            let blocks = other_end.min(end).saturating_sub(start);
            let found = match blocks {
                1 => format!("it is used by {owner}, and listed as free"),
                _ => format!("{blocks} blocks from here are used by {owner}, and listed as free"),
            };
            let ctx = block_ctx(vol, agno, start);
            vol.sink.error(ctx.fail("block.free-but-used", "a block in use or free", found));
        }
        if used_first {
            used_end = used_end.max(end);
        } else {
            free_end = free_end.max(end);
        }
    }
    let (covered, length) = (used_end.max(free_end), vol.geo.ag_length(agno));
    if all_known && covered < length {
        report_leak(vol, agno, covered, length);
    }
}

fn report_leak(vol: &Volume<'_>, agno: AgNumber, start: u32, end: u32) {
    let found = match end.saturating_sub(start) {
        1 => "it is neither in use nor free".to_owned(),
        blocks => format!("{blocks} blocks from here are neither in use nor free"),
    };
    let ctx = block_ctx(vol, agno, start);
    vol.sink.error(ctx.fail("block.leaked", "a block in use or free", found));
}

/// Returns the blocks that several extents of files map, and how many. `used` is sorted by block.
fn shared_extents(used: &[UsedExtent]) -> Vec<Shared> {
    let mut shares: Vec<Shared> = Vec::new();
    let mut emit = |start: u32, end: u32, refcount: usize| {
        if refcount < 2 || start >= end {
            return;
        }
        let refcount = u32::try_from(refcount).unwrap_or(u32::MAX);
        match shares.last_mut() {
            Some(last) if last.refcount == refcount && last.start + last.len == start => {
                last.len += end - start;
            }
            _ => shares.push(Shared { start, len: end - start, refcount }),
        }
    };
    let mut ends = BinaryHeap::new();
    let mut at = 0;
    for extent in used.iter().filter(|u| u.is_content()) {
        while let Some(&Reverse(end)) = ends.peek()
            && end <= extent.start
        {
            emit(at, end, ends.len());
            ends.pop();
            at = end.max(at);
        }
        emit(at, extent.start, ends.len());
        at = extent.start;
        ends.push(Reverse(extent.end()));
    }
    while let Some(&Reverse(end)) = ends.peek() {
        emit(at, end, ends.len());
        ends.pop();
        at = end.max(at);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owners::OFF_REGULAR;

    fn content(start: u32, len: u32, owner: u64) -> UsedExtent {
        UsedExtent { start, len, owner, offset: OFF_REGULAR }
    }

    #[test]
    fn sharing_is_counted_per_block() {
        let used = [content(10, 10, 1), content(12, 3, 2), content(14, 10, 3), content(30, 5, 4)];
        let shared = |start, len, refcount| Shared { start, len, refcount };
        assert_eq!(shared_extents(&used), [shared(12, 2, 2), shared(14, 1, 3), shared(15, 5, 2)]);
    }
}
