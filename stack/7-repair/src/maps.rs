//! Extent maps that several structures contradict: which map has the most for it.
//!
//! A map is measured by what speaks against it: records that cannot be, or are out of order;
//! blocks that are free or another owner's; a sum of blocks or a number of records that is not that
//! of the core; blocks of a directory that are not what they should be at their place; blocks that
//! nothing would use. Maps with less against them than the one on disk are looked for: that of the
//! rmapbt, the records that damaged blocks of the btree hide, and these records with one field of
//! one of them changed. If exactly one is best, it is taken.

use std::collections::BTreeSet;

use xfskit_check::ForkMap;
use xfskit_format::bmbt::{Extent, MAX_BLOCKCOUNT};
use xfskit_format::inode::Dinode;
use xfskit_format::log::Stamp;
use xfskit_format::{Fork, Layout, bytes};
use xfskit_units::{FilBlks, FileOff, FsBlock, Ino};

use crate::error::Result;
use crate::ground::Ground;
use crate::headers;
use crate::raw_map::{self, RawLeaf, RawMap, is_possible};
use crate::view::{View, daddr};

/// Records that may be the damaged one, at most: a map with more of them is garbage.
const SUSPECTS_MAX: usize = 32;
/// Blocks of a directory whose content is compared with their place, at most.
const CONTENT_MAX: u64 = 1 << 14;
/// Records that are looked at for all changes of a map together, at most.
const WORK_MAX: usize = 1 << 26;
/// Bits of the fields of a record.
const STARTOFF_BITS: u32 = 54;
const STARTBLOCK_BITS: u32 = 52;

/// A map that is better than the one on disk.
#[derive(Clone, Debug)]
pub(crate) struct Better {
    pub map: Vec<Extent>,
    /// The evidence for it, in words.
    pub why: String,
    /// One bit of one record is changed, or a number that the core contradicts: it is this map that
    /// was damaged, not that of a file which claims the same blocks.
    pub is_certain: bool,
}

/// What speaks against a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Against {
    /// Records that cannot be or are out of order, blocks of others, a wrong sum.
    wrong: u64,
    /// Blocks of a directory that do not belong where they are, a number of records or a size of a
    /// directory that is not that of the core.
    odd: u64,
    /// Blocks that nothing would use. They may be those of another damaged map.
    left: u64,
}

impl Against {
    fn total(self) -> u64 {
        self.wrong.saturating_add(self.odd).saturating_add(self.left)
    }
}

/// Returns the map for a fork of inode `ino`, whose core is sound, against which least speaks;
/// `None` if there is more than one, or too much speaks against all of them.
#[expect(clippy::redundant_closure_for_method_calls, reason = "a method has fixed lifetimes")]
pub(crate) fn better(
    view: View<'_>,
    inode: &Dinode<'_>,
    ino: Ino,
    fork: Fork,
) -> Result<Option<Better>> {
    let found = judged(view, inode, (ino, fork), false, |judge, raw| judge.better(raw))?;
    Ok(found.flatten())
}

/// Returns true if nothing speaks against the map of a fork but claims of others.
pub(crate) fn is_sound_but_for_claims(
    view: View<'_>,
    inode: &Dinode<'_>,
    ino: Ino,
    fork: Fork,
) -> Result<bool> {
    let sound = judged(view, inode, (ino, fork), true, |judge, raw| {
        let against = judge.against(&raw.records())?;
        Ok(against.wrong == 0 && against.odd == 0)
    })?;
    Ok(sound.unwrap_or(false))
}

/// Calls `ask` with the map of a fork, and what is known of the blocks that it may have; returns
/// `None` if the btrees of a group cannot be read. `with_disputed`: also blocks that others claim.
fn judged<T>(
    view: View<'_>,
    inode: &Dinode<'_>,
    (ino, fork): (Ino, Fork),
    with_disputed: bool,
    ask: impl FnOnce(&Judge<'_, '_>, &RawMap) -> Result<T>,
) -> Result<Option<T>> {
    let Some(ground) = Ground::of(view, ino, fork, with_disputed)? else { return Ok(None) };
    let raw = raw_map::read(view, inode, ino, fork)?;
    let judge = Judge::new((view, inode, ino, fork), ground, &raw);
    ask(&judge, &raw).map(Some)
}

/// Returns the longest ascending row of records that can be read of a fork's map, however damaged.
pub(crate) fn readable(
    view: View<'_>,
    inode: &Dinode<'_>,
    ino: Ino,
    fork: Fork,
) -> Result<Vec<Extent>> {
    let raw = raw_map::read(view, inode, ino, fork)?;
    let end = end_of(view, inode, fork);
    let records = raw.records();
    let possible = records.iter().filter(|extent| {
        is_possible(view.geo, extent) && extent.end().0 <= end && !is_stateless(inode, extent)
    });
    Ok(longest_row(&possible.copied().collect::<Vec<_>>()))
}

/// Returns the most of `records` that ascend and do not overlap.
fn longest_row(records: &[Extent]) -> Vec<Extent> {
    // For each length of a row the record that ends it, and the one before that: the row that ends
    // first.
    let mut rows: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(records.len());
    for (at, record) in records.iter().enumerate() {
        let len = rows.partition_point(|last| records[*last].end() <= record.startoff);
        before.push(len.checked_sub(1).map(|shorter| rows[shorter]));
        match rows.get_mut(len) {
            Some(last) if records[*last].end() > record.end() => *last = at,
            Some(_) => {}
            None => rows.push(at),
        }
    }
    let mut row = Vec::with_capacity(rows.len());
    let mut next = rows.last().copied();
    while let Some(at) = next {
        row.push(records[at]);
        next = before[at];
    }
    row.reverse();
    row
}

/// Returns the file block behind the last one that a fork may map.
fn end_of(view: View<'_>, inode: &Dinode<'_>, fork: Fork) -> u64 {
    if fork == Fork::Data && inode.is_dir() {
        let spaces = [view.geo.dir_leafblk(), view.geo.dir_freeblk()];
        return spaces.iter().map(|space| u64::from(space.0)).sum();
    }
    1u64.checked_shl(63u32.saturating_sub(view.geo.blocklog.into())).unwrap_or(u64::MAX)
}

/// Returns true if an extent is unwritten, where only content of regular files may be.
fn is_stateless(inode: &Dinode<'_>, extent: &Extent) -> bool {
    extent.unwritten && !inode.is_regular()
}

/// What maps of one fork are measured by.
struct Judge<'j, 'd> {
    view: View<'j>,
    inode: &'j Dinode<'d>,
    ino: Ino,
    fork: Fork,
    ground: Ground<'j>,
    /// The blocks of the map's btree.
    btree: &'j [FsBlock],
    /// Blocks that the fork maps, as the core has it; `None` if the other fork is damaged.
    blocks: Option<u64>,
}

impl<'j, 'd> Judge<'j, 'd> {
    fn new(
        (view, inode, ino, fork): (View<'j>, &'j Dinode<'d>, Ino, Fork),
        ground: Ground<'j>,
        raw: &'j RawMap,
    ) -> Self {
        let other = if fork == Fork::Data { Fork::Attr } else { Fork::Data };
        let other: ForkMap = view.map(inode, ino, other);
        let rest = inode.nblocks().0.checked_sub(raw.btree.len() as u64);
        let blocks = rest.and_then(|rest| rest.checked_sub(other.blocks()));
        let blocks = blocks.filter(|_| other.whole);
        Self { view, inode, ino, fork, ground, btree: &raw.btree, blocks }
    }

    fn better(&self, raw: &RawMap) -> Result<Option<Better>> {
        let records = raw.records();
        let now = self.against(&records)?;
        if let Some(map) = self.recorded(now)? {
            let why = format!("{} extents in the rmapbt", map.len());
            return Ok(Some(Better { map, why, is_certain: false }));
        }
        let changes = if now.total() > 0 { self.changes(raw, &records)? } else { Vec::new() };
        if let Some(best) = self.best(&changes, now, (raw, &records))? {
            return Ok(Some(best));
        }
        let why = format!("{} records, in blocks that name the inode", records.len());
        let is_sound = now.wrong == 0 && now.odd == 0;
        Ok(is_sound.then_some(Better { map: records, why, is_certain: false }))
    }

    /// Returns the map of the rmapbt, if it can be and less speaks against it.
    fn recorded(&self, now: Against) -> Result<Option<Vec<Extent>>> {
        let recorded = self.view.recorded_map(self.ino, self.fork);
        let Some(map) = recorded.filter(|map| !map.is_empty()) else { return Ok(None) };
        let against = self.against(&map)?;
        let is_better = now.wrong > 0 || against.total() < now.total();
        Ok(Some(map).filter(|_| against.wrong == 0 && is_better))
    }

    /// Returns the map with the one change that leaves least against it; `None` if there is none,
    /// or more than one.
    fn best(
        &self,
        changes: &[Change],
        now: Against,
        (raw, records): (&RawMap, &[Extent]),
    ) -> Result<Option<Better>> {
        let mut least = now.total();
        let mut best: Option<Better> = None;
        let mut is_only = true;
        if changes.len().saturating_mul(records.len()) > WORK_MAX {
            return Ok(None);
        }
        for change in changes {
            let map = change.applied(raw, records);
            if self.wrong(&map) > 0 {
                continue;
            }
            let total = self.against(&map)?.total();
            if total < least {
                let (why, is_certain) = (change.why(records), change.is_certain(records));
                best = Some(Better { map, why, is_certain });
                (least, is_only) = (total, true);
            } else if total == least && best.as_ref().is_some_and(|best| best.map != map) {
                is_only = false;
            }
        }
        Ok(best.filter(|_| is_only))
    }

    fn against(&self, map: &[Extent]) -> Result<Against> {
        let wrong = self.wrong(map);
        let miscounted = self.inode.fork_nextents(self.fork) != map.len() as u64;
        let odd = self.misplaced(map)? + u64::from(miscounted) + u64::from(self.is_cut_off(map));
        Ok(Against { wrong, odd, left: self.ground.left(map, self.btree) })
    }

    /// Returns how much of a map cannot be.
    fn wrong(&self, map: &[Extent]) -> u64 {
        let foreign = map.iter().map(|extent| self.ground.foreign(extent));
        let wrong = foreign.fold(0, u64::saturating_add);
        let impossible = (0..map.len()).filter(|at| self.is_impossible(map, *at)).count();
        let sum = map.iter().map(|extent| extent.blockcount.0).fold(0, u64::saturating_add);
        let miscounted = self.blocks.is_some_and(|blocks| blocks != sum);
        let twice = self.overlapping(map).len();
        wrong.saturating_add((impossible + twice) as u64).saturating_add(miscounted.into())
    }

    /// Returns true if a record cannot be, or begins before the end of the one before it.
    fn is_impossible(&self, map: &[Extent], at: usize) -> bool {
        let Some(extent) = map.get(at) else { return false };
        let before = at.checked_sub(1).and_then(|before| map.get(before));
        !is_possible(self.view.geo, extent)
            || is_stateless(self.inode, extent)
            || extent.end().0 > end_of(self.view, self.inode, self.fork)
            || before.is_some_and(|before| before.end() > extent.startoff)
    }

    /// Returns the numbers of the records with blocks that another one has as well: only files that
    /// share blocks may have them twice.
    fn overlapping(&self, map: &[Extent]) -> Vec<usize> {
        if self.inode.is_reflink() {
            return Vec::new();
        }
        let mut places: Vec<usize> = (0..map.len()).collect();
        places.sort_unstable_by_key(|at| map[*at].startblock);
        let reaches = |pair: &&[usize]| {
            let first = &map[pair[0]];
            first.startblock.saturating_add(first.blockcount.0) > map[pair[1]].startblock
        };
        places.windows(2).filter(reaches).flatten().copied().collect()
    }

    // ---- directories ---------------------------------------------------------------------------

    /// Returns true if the size of a directory is not where its last data block ends.
    fn is_cut_off(&self, map: &[Extent]) -> bool {
        let geo = self.view.geo;
        let leaf = u64::from(geo.dir_leafblk().0);
        let data = map.iter().filter(|extent| extent.startoff.0 < leaf);
        let end = data.map(|extent| extent.end().0.min(leaf)).max().unwrap_or(0);
        let end = end.next_multiple_of(u64::from(geo.dirblkfsbs()).max(1)) << geo.blocklog;
        self.fork == Fork::Data && self.inode.is_dir() && self.inode.size().0 != end
    }

    /// Returns how many blocks of a directory are not what belongs at their place.
    fn misplaced(&self, map: &[Extent]) -> Result<u64> {
        let mut count = 0;
        for fileoff in self.directory_blocks(map) {
            count += u64::from(!self.belongs(map, fileoff)?);
        }
        Ok(count)
    }

    /// Returns the file blocks with which the blocks of a directory begin.
    fn directory_blocks(&self, map: &[Extent]) -> BTreeSet<u64> {
        let sum = map.iter().map(|extent| extent.blockcount.0).fold(0, u64::saturating_add);
        if self.fork == Fork::Attr || !self.inode.is_dir() || sum > CONTENT_MAX {
            return BTreeSet::new();
        }
        let step = u64::from(self.view.geo.dirblkfsbs()).max(1);
        let blocks = map.iter().flat_map(|extent| extent.startoff.0..extent.end().0);
        blocks.map(|fileoff| fileoff / step * step).collect()
    }

    /// Returns true if the block of a directory that begins at `fileoff` is whole, names the
    /// directory and its own place, and has the magic of its space.
    fn belongs(&self, map: &[Extent], fileoff: u64) -> Result<bool> {
        let geo = self.view.geo;
        let Some(at) = daddr(geo, map, fileoff) else { return Ok(false) };
        let Some(block) = self.view.read_mapped(map, fileoff, geo.dirblksize())? else {
            return Ok(false);
        };
        let magic = bytes::be32(&block, 0).unwrap_or(0);
        let (leaf, free) = (geo.dir_leafblk().0.into(), geo.dir_freeblk().0.into());
        let layout = &Layout::V5;
        let data = [layout.dir_block_magic, layout.dir_data_magic];
        let fits = if fileoff < leaf {
            data.contains(&magic)
        } else if fileoff < free {
            !data.contains(&magic) && magic != layout.dir_free_magic
        } else {
            magic == layout.dir_free_magic
        };
        let is_whole = Stamp::of(&block, geo).is_some_and(|stamp| stamp.is_whole(&block));
        Ok(fits && is_whole && headers::owner(geo, &block, at) == Some(self.ino.0))
    }

    // ---- one change ----------------------------------------------------------------------------

    /// Returns the changes that could explain what is wrong.
    fn changes(&self, raw: &RawMap, records: &[Extent]) -> Result<Vec<Change>> {
        let mut found = self.recounted(raw, records);
        let suspects = self.suspects(records)?;
        if suspects.len() > SUSPECTS_MAX {
            return Ok(found);
        }
        for at in suspects {
            let Some(old) = records.get(at) else { continue };
            let mut news = self.moved_in_file(old, &self.gap(records, at), raw.key_of(at));
            news.extend(self.moved_on_device(old));
            if is_stateless(self.inode, old) {
                let why = "it is not content of a regular file";
                news.push((Extent { unwritten: false, ..*old }, why));
            }
            found.extend(news.into_iter().map(|(new, why)| Change::Record { at, new, why }));
        }
        found.extend(self.resized(records));
        Ok(found)
    }

    /// Returns the other numbers of records in one leaf with which all are as many as the core
    /// counts.
    fn recounted(&self, raw: &RawMap, records: &[Extent]) -> Vec<Change> {
        let counted = usize::try_from(self.inode.fork_nextents(self.fork)).unwrap_or(usize::MAX);
        if counted == records.len() || raw.btree.is_empty() {
            return Vec::new();
        }
        let recounted = |(leaf, raw): (usize, &RawLeaf)| {
            let others = records.len().checked_sub(raw.count)?;
            let count = counted.checked_sub(others).filter(|count| *count <= raw.slots.len())?;
            Some(Change::Count { leaf, count })
        };
        raw.leaves.iter().enumerate().filter_map(recounted).collect()
    }

    /// Returns the numbers of the records that may be the damaged one.
    fn suspects(&self, records: &[Extent]) -> Result<BTreeSet<usize>> {
        let mut found: BTreeSet<usize> = self.overlapping(records).into_iter().collect();
        for (at, extent) in records.iter().enumerate() {
            if self.is_impossible(records, at) {
                found.extend([at, at.saturating_sub(1)]);
            }
            if self.ground.foreign(extent) > 0 {
                found.insert(at);
            }
        }
        if self.is_cut_off(records) {
            let leaf = u64::from(self.view.geo.dir_leafblk().0);
            let behind = records.partition_point(|extent| extent.startoff.0 < leaf);
            found.extend(behind.saturating_sub(1)..records.len().min(behind + 1));
        }
        let step = u64::from(self.view.geo.dirblkfsbs()).max(1);
        for fileoff in self.directory_blocks(records) {
            if self.belongs(records, fileoff)? {
                continue;
            }
            let touches =
                |extent: &Extent| extent.startoff.0 < fileoff + step && fileoff < extent.end().0;
            found.extend((0..records.len()).filter(|at| touches(&records[*at])));
            if found.len() > SUSPECTS_MAX {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the file blocks between the neighbours of a record.
    fn gap(&self, records: &[Extent], at: usize) -> std::ops::Range<u64> {
        let before = at.checked_sub(1).and_then(|before| records.get(before));
        let start = before.map_or(0, |before| before.end().0);
        let end = records.get(at + 1).map(|next| next.startoff.0).or(self.file_end());
        start..end.unwrap_or_else(|| end_of(self.view, self.inode, self.fork))
    }

    /// Returns the file block behind the last one of a regular file, by its size.
    fn file_end(&self) -> Option<u64> {
        let is_content = self.fork == Fork::Data && self.inode.is_regular();
        let end = self.inode.size().0.div_ceil(self.view.geo.blocksize() as u64);
        is_content.then_some(end)
    }

    fn moved_in_file(
        &self,
        old: &Extent,
        gap: &std::ops::Range<u64>,
        key: Option<u64>,
    ) -> Vec<(Extent, &'static str)> {
        let at = |startoff: u64| Extent { startoff: FileOff(startoff), ..*old };
        let fits = |extent: &Extent| gap.start <= extent.startoff.0 && extent.end().0 <= gap.end;
        let mut found = Vec::new();
        found.extend(key.map(|key| (at(key), "its parent has another key")));
        let exact = gap.end.saturating_sub(gap.start) == old.blockcount.0;
        if exact || (self.inode.is_dir() && self.fork == Fork::Data) {
            found.push((at(gap.start), "its neighbours leave this place in the file"));
        }
        if self.file_end() == Some(gap.end) {
            let start = gap.end.saturating_sub(old.blockcount.0);
            found.push((at(start), "the file ends there"));
        }
        let flipped = flips(old.startoff.0, STARTOFF_BITS);
        found.extend(flipped.map(|startoff| (at(startoff), ONE_BIT)));
        found.retain(|(extent, _)| extent != old && fits(extent));
        found
    }

    fn moved_on_device(&self, old: &Extent) -> Vec<(Extent, &'static str)> {
        let at = |startblock: FsBlock| Extent { startblock, ..*old };
        let fitting = self.ground.fitting(old).into_iter();
        let mut found: Vec<_> =
            fitting.map(|start| (at(start), "as many blocks lack an owner, there alone")).collect();
        let flipped = flips(old.startblock.0, STARTBLOCK_BITS);
        found.extend(flipped.map(|startblock| (at(FsBlock(startblock)), ONE_BIT)));
        found.retain(|(extent, _)| extent != old && self.ground.foreign(extent) == 0);
        found
    }

    /// Returns the other lengths of an extent with which all are as many blocks as the core counts.
    fn resized(&self, records: &[Extent]) -> Vec<Change> {
        let sum = records.iter().map(|extent| extent.blockcount.0).fold(0, u64::saturating_add);
        let Some(blocks) = self.blocks.filter(|blocks| *blocks != sum) else { return Vec::new() };
        let mut found = Vec::new();
        for (at, old) in records.iter().enumerate() {
            let rest = sum.saturating_sub(old.blockcount.0);
            let len = blocks.checked_sub(rest).filter(|len| (1..=MAX_BLOCKCOUNT).contains(len));
            let new = len.map(|len| Extent { blockcount: FilBlks(len), ..*old });
            let next = records.get(at + 1).map_or(u64::MAX, |next| next.startoff.0);
            let fits = |new: &Extent| new.end().0 <= next && self.ground.foreign(new) == 0;
            let why = "the inode counts as many blocks";
            found.extend(new.filter(fits).map(|new| Change::Record { at, new, why }));
        }
        found
    }
}

const ONE_BIT: &str = "one bit differs";

/// Returns a number with each of its lower `bits` bits flipped.
fn flips(number: u64, bits: u32) -> impl Iterator<Item = u64> {
    (0..bits).map(move |bit| number ^ (1 << bit))
}

/// One change of a map.
#[derive(Clone, Debug)]
enum Change {
    /// Another record.
    Record { at: usize, new: Extent, why: &'static str },
    /// Another number of records of a leaf.
    Count { leaf: usize, count: usize },
}

impl Change {
    fn applied(&self, raw: &RawMap, records: &[Extent]) -> Vec<Extent> {
        match self {
            Self::Record { at, new, .. } => {
                let mut map = records.to_vec();
                map.iter_mut().skip(*at).take(1).for_each(|record| *record = *new);
                map
            }
            Self::Count { leaf, count } => raw.with_count(*leaf, *count).records(),
        }
    }

    fn why(&self, records: &[Extent]) -> String {
        let shown = |extent: &Extent| {
            let Extent { startoff, startblock, blockcount, .. } = extent;
            format!("{} blocks at file block {startoff} in block {startblock}", blockcount.0)
        };
        match self {
            Self::Record { at, new, why } => {
                let old = records.get(*at).map_or_else(String::new, shown);
                format!("its record {at} is {}, not {old}: {why}", shown(new))
            }
            Self::Count { leaf, count } => {
                format!("{count} records are in leaf {leaf}: the inode counts as many")
            }
        }
    }

    /// Returns true if one bit is changed, or what the core counts.
    fn is_certain(&self, records: &[Extent]) -> bool {
        let Self::Record { at, new, .. } = self else { return true };
        records.get(*at).is_some_and(|old| {
            let bits = |a: u64, b: u64| (a ^ b).count_ones();
            let moved =
                bits(new.startoff.0, old.startoff.0) + bits(new.startblock.0, old.startblock.0);
            moved <= 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(startoff: u64, blocks: u64) -> Extent {
        let (startoff, blockcount) = (FileOff(startoff), FilBlks(blocks));
        Extent { startoff, startblock: FsBlock(100 + startoff.0), blockcount, unwritten: false }
    }

    #[test]
    fn one_record_out_of_order_costs_no_others() {
        let row = |starts: &[u64]| {
            let records: Vec<_> = starts.iter().map(|start| extent(*start, 5)).collect();
            let row = longest_row(&records);
            row.iter().map(|extent| extent.startoff.0).collect::<Vec<_>>()
        };
        assert_eq!(row(&[]), []);
        assert_eq!(row(&[900, 10, 20, 30]), [10, 20, 30]);
        assert_eq!(row(&[0, 10, 2, 30, 33, 40]), [0, 10, 30, 40]);
    }

    #[test]
    fn a_change_of_one_bit_is_told_from_another() {
        let records = [extent(0, 8), extent(16, 8)];
        let new = |startoff| Extent { startoff: FileOff(startoff), ..records[1] };
        let change = |startoff| Change::Record { at: 1, new: new(startoff), why: ONE_BIT };
        assert!(change(24).is_certain(&records) && !change(31).is_certain(&records));
        assert_eq!(change(24).applied(&RawMap::default(), &records), [records[0], new(24)]);
    }
}
