//! Claims that do not hold, cut out of the maps of their inodes.

use std::collections::BTreeMap;
use std::ops::Range;

use xfskit_check::Finding;
use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{self, Dinode, FileType, InodeFlags2, InodeMut};
use xfskit_units::{FileOff, Ino};

use crate::attributes;
use crate::changes::merged;
use crate::claims::{self, Loser};
use crate::damage::{Damage, Damages};
use crate::directories;
use crate::error::{Error, Result};
use crate::forks::{Content, Forks};
use crate::layer::Layer;
use crate::maps;
use crate::plan::{Moved, Step, StepKind};
use crate::view::block_of;

/// The losers of both forks of an inode.
#[derive(Default)]
struct Cut {
    data: Option<Loser>,
    attr: Option<Loser>,
}

/// Decides which claims hold, and cuts the others. `sharing`: inodes without the flag that share
/// blocks. Returns the findings that nothing was done about.
pub(crate) fn decide(
    layer: &mut Layer<'_, '_>,
    mut claimed: Vec<Finding>,
    sharing: Damages,
) -> Result<Vec<Finding>> {
    let mut cuts = BTreeMap::<Ino, Cut>::new();
    for ((ino, fork), loser) in claims::losers(layer.view)? {
        let cut = cuts.entry(ino).or_default();
        match fork {
            Fork::Attr => cut.attr = Some(loser),
            Fork::Data => cut.data = Some(loser),
        }
    }
    let before = layer.plan.steps.len();
    for (ino, cut) in &cuts {
        match cut_inode(layer, *ino, cut) {
            // The findings are of all disputes together.
            Ok(Some(step)) => layer.plan.steps.push(step),
            Ok(None) | Err(Error::NoFit { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let mut left = Vec::new();
    if let Some(step) = layer.plan.steps.get_mut(before) {
        step.findings.append(&mut claimed);
    }
    left.append(&mut claimed);
    let disputed = claims::disputants(layer.view);
    for (ino, damage) in sharing {
        if disputed.contains(&ino.0) || !set_flag(layer, ino)? {
            left.extend(damage.findings);
        } else {
            let step = flag_step(ino);
            layer.plan.steps.push(step.for_findings(damage.findings));
        }
    }
    Ok(left)
}

/// Sets the flag reflink. Returns false if it is no regular file.
fn set_flag(layer: &mut Layer<'_, '_>, ino: Ino) -> Result<bool> {
    let Some(mut bytes) = layer.view.inode(ino)? else { return Ok(false) };
    let regular = Dinode::parse(&bytes, layer.view.geo).is_some_and(|inode| inode.is_regular());
    let Some(inode) = InodeMut::new(&mut bytes).filter(|_| regular) else { return Ok(false) };
    inode.core.flags2 = (inode.core.flags2.get() | InodeFlags2::REFLINK.bits()).into();
    inode::stamp(&mut bytes);
    layer.writer.put(layer.view.geo.ino_to_byte(ino), &bytes)?;
    Ok(true)
}

fn flag_step(ino: Ino) -> Step {
    let what = format!("set the flag reflink of inode {ino}");
    let evidence = "the rmapbt or the refcountbt has its blocks as shared";
    Step::lossless(format!("inode.{ino}"), StepKind::Inode, what, evidence)
}

/// Cuts what an inode loses out of its maps. Returns `None` if its maps are damaged, so that it was
/// not changed.
fn cut_inode(layer: &mut Layer<'_, '_>, ino: Ino, cut: &Cut) -> Result<Option<Step>> {
    let Some(mut bytes) = layer.view.inode(ino)? else { return Ok(None) };
    let copy = bytes.clone();
    let Some(inode) = Dinode::parse(&copy, layer.view.geo) else { return Ok(None) };
    let [data, attr] = [Fork::Data, Fork::Attr].map(|fork| layer.view.map(&inode, ino, fork));
    if !data.whole || !attr.whole {
        return Ok(None);
    }
    let mut step = cut_step(ino, cut);
    let of = |fork| (&inode, ino, fork);
    let data = remade(layer, of(Fork::Data), data.extents, cut.data.as_ref(), &mut step)?;
    let attr = remade(layer, of(Fork::Attr), attr.extents, cut.attr.as_ref(), &mut step)?;
    let is_empty = cut.data.is_some() && data.is_empty();
    match inode.file_type() {
        Some(FileType::Directory) if is_empty => {
            // The entries that name it tell its parent, in the next layer.
            let attr = match attributes::content(layer.view, &bytes, ino) {
                Content::Mapped(_) => Content::Mapped(attr),
                content => content,
            };
            let forks = Forks { data: Content::Local(Vec::new()), attr, forkoff: None };
            layer.writer.write(ino, &mut bytes, &forks)?;
            let root = layer.view.geo.rootino;
            directories::make(&mut layer.writer, layer.view, (ino, &mut bytes), root, &[])?;
        }
        Some(FileType::Symlink) if is_empty => {
            layer.clear(ino, Damage::default(), &[])?;
            return Ok(layer.plan.steps.pop());
        }
        _ => layer.write_maps(ino, &mut bytes, [data, attr])?,
    }
    Ok(Some(step))
}

fn cut_step(ino: Ino, cut: &Cut) -> Step {
    let losers = [&cut.data, &cut.attr].into_iter().flatten();
    let mut evidence: Vec<String> =
        losers.flat_map(|loser| &loser.evidence).map(|reason| (*reason).to_owned()).collect();
    evidence.dedup();
    Step {
        id: format!("claims.{ino}"),
        kind: StepKind::Inode,
        what: format!("take blocks that are others' out of the map of inode {ino}"),
        evidence,
        lost: Vec::new(),
        findings: Vec::new(),
        path: None,
    }
}

/// Returns the map of a fork without what it loses: as the rmapbts have it, if they agree with the
/// rest; or the only one that nothing speaks against; else with holes, or copies of blocks whose
/// owner is not known.
fn remade(
    layer: &mut Layer<'_, '_>,
    (inode, ino, fork): (&Dinode<'_>, Ino, Fork),
    map: Vec<Extent>,
    loser: Option<&Loser>,
    step: &mut Step,
) -> Result<Vec<Extent>> {
    let Some(loser) = loser.filter(|loser| !loser.ranges.is_empty()) else { return Ok(map) };
    let ranges = merged(loser.ranges.clone());
    let kept = without(&map, &ranges);
    let agrees = |recorded: &Vec<Extent>| {
        let same = |kept: &Extent| block_of(recorded, kept.startoff) == Some(kept.startblock);
        *recorded != map && kept.iter().all(same)
    };
    if let Some(recorded) = layer.view.recorded_map(ino, fork).filter(agrees) {
        step.evidence.push(format!("{} extents in the rmapbt", recorded.len()));
        return Ok(recorded);
    }
    let blocks: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let what = match fork {
        Fork::Attr => "attributes",
        Fork::Data => "content",
    };
    let equal = merged(loser.equal.clone());
    let better = maps::better(layer.view, inode, ino, fork)?;
    if let Some(better) = better.filter(|better| equal.is_empty() && better.map != map) {
        step.evidence.push(better.why);
        if loser.evidence.contains(claims::BY_STANDING) {
            let text = format!("{blocks} blocks of {what} of inode {ino} may be another file's");
            step.lost.push(text);
        }
        return Ok(better.map);
    }
    if !equal.is_empty() && equal == ranges {
        let text = format!("{blocks} blocks of {what} of inode {ino} may be another file's");
        step.lost.push(text);
        return copied(layer, ino, &map, kept, &equal);
    }
    let first = ranges.first().map_or(0, |range| range.start);
    step.lost.push(format!("{blocks} blocks of {what} of inode {ino}, from file block {first} on"));
    Ok(kept)
}

/// Returns `kept` with copies of the blocks that `map` has in `ranges`.
fn copied(
    layer: &mut Layer<'_, '_>,
    ino: Ino,
    map: &[Extent],
    mut kept: Vec<Extent>,
    ranges: &[Range<u64>],
) -> Result<Vec<Extent>> {
    let near = layer.writer.near(ino);
    for from in within(map, ranges) {
        let parts = [(from.startoff.0, from.blockcount.0)];
        let mut copy = layer.writer.room.map(near, &parts)?;
        for extent in &mut copy {
            extent.unwritten = from.unwritten;
        }
        for fileoff in (from.startoff.0..from.end().0).filter(|_| !from.unwritten) {
            let block = layer.view.read_mapped(map, fileoff, layer.view.geo.blocksize())?;
            if let Some(block) = block {
                layer.writer.put_mapped(&copy, fileoff, &block)?;
            }
        }
        kept.extend(copy);
        layer.plan.moved.push(Moved { ino, from });
    }
    kept.sort_unstable_by_key(|extent| extent.startoff);
    Ok(kept)
}

/// Returns the parts of a map within ranges of the file, which ascend.
fn within(map: &[Extent], ranges: &[Range<u64>]) -> Vec<Extent> {
    let mut parts = Vec::new();
    for extent in map {
        let (start, end) = (extent.startoff.0, extent.end().0);
        let first = ranges.partition_point(|range| range.end <= start);
        for range in ranges[first..].iter().take_while(|range| range.start < end) {
            push(&mut parts, extent, start.max(range.start)..end.min(range.end));
        }
    }
    parts
}

/// Returns a map without ranges of the file, which ascend.
fn without(map: &[Extent], ranges: &[Range<u64>]) -> Vec<Extent> {
    let mut left = Vec::new();
    for extent in map {
        let (mut at, end) = (extent.startoff.0, extent.end().0);
        let first = ranges.partition_point(|range| range.end <= at);
        for range in ranges[first..].iter().take_while(|range| range.start < end) {
            push(&mut left, extent, at..range.start);
            at = at.max(range.end);
        }
        push(&mut left, extent, at..end);
    }
    left
}

fn push(map: &mut Vec<Extent>, extent: &Extent, range: Range<u64>) {
    if range.start < range.end {
        map.push(extent.clip(FileOff(range.start), FileOff(range.end)));
    }
}

#[cfg(test)]
mod tests {
    use xfskit_bulk::bmbt::append;

    use super::*;

    #[test]
    fn ranges_are_cut_out_of_a_map() {
        let mut map = Vec::new();
        append(&mut map, FileOff(0), xfskit_units::FsBlock(100), 10);
        append(&mut map, FileOff(20), xfskit_units::FsBlock(300), 5);
        let ranges = merged(vec![8..9, 2..4, 9..21, 24..99]);
        assert_eq!(ranges, [2..4, 8..21, 24..99]);
        let left = without(&map, &ranges);
        let left: Vec<_> =
            left.iter().map(|e| (e.startoff.0, e.startblock.0, e.blockcount.0)).collect();
        assert_eq!(left, [(0, 100, 2), (4, 104, 4), (21, 301, 3)]);
        let cut: Vec<_> = within(&map, &ranges)
            .iter()
            .map(|e| (e.startoff.0, e.startblock.0, e.blockcount.0))
            .collect();
        assert_eq!(cut, [(2, 102, 2), (8, 108, 2), (20, 300, 1), (24, 304, 1)]);
    }
}
