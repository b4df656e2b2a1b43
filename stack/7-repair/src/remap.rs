//! Inodes whose maps can be read to their end, and are contradicted: by free space, by other
//! files, by the counters of the core, or by what a directory holds.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_check::{Finding, ForkMap};
use xfskit_format::Fork;
use xfskit_format::inode::{Dinode, FileType};
use xfskit_units::Ino;

use crate::attr_blocks;
use crate::damage::Damages;
use crate::error::{Error, Result};
use crate::ground;
use crate::inodes::{Counter, Wrong};
use crate::layer::Layer;
use crate::lost_forks;
use crate::maps::{self, Better};
use crate::plan::{Plan, Step, StepKind};
use crate::view::View;

/// Inodes of a kind that are looked at, at most. If more of them have blocks in free space, or
/// claim one another's, it is not one map that is wrong.
const INODES_MAX: usize = 64;

/// Returns the inodes whose maps are doubtful, other than those that the repair has made.
pub(crate) fn doubtful(
    view: View<'_>,
    plan: &Plan,
    damages: &Damages,
    counters: &[(Wrong, Finding)],
) -> Result<BTreeSet<Ino>> {
    let mut found = ground::claimants_of_free(view, INODES_MAX)?;
    let directories = damages.iter().filter(|(_, damage)| damage.directory);
    found.extend(directories.map(|(ino, _)| *ino).take(INODES_MAX));
    let miscounted = counters.iter().filter(|(wrong, _)| wrong.counter == Counter::Blocks);
    found.extend(miscounted.map(|(wrong, _)| wrong.ino).take(INODES_MAX));
    found.retain(|ino| !plan.laid_out.contains(ino));
    Ok(found)
}

/// The better maps of both forks.
type Betters = [Option<Better>; 2];

/// Gives doubtful inodes their maps back, where the evidence has one for them. `disputed`: inodes
/// that claim blocks of others. Of these one is damaged and the other is not, so that only a change
/// that fits one of them alone is made.
pub(crate) fn mend(
    layer: &mut Layer<'_, '_>,
    doubtful: &BTreeSet<Ino>,
    disputed: &BTreeSet<u64>,
) -> Result<()> {
    let mut better = BTreeMap::new();
    let disputed = Some(disputed).filter(|disputed| disputed.len() <= INODES_MAX);
    let disputed = disputed.into_iter().flatten().copied().map(Ino);
    let disputed = disputed.filter(|ino| !layer.plan.laid_out.contains(ino));
    for ino in doubtful.iter().copied().chain(disputed) {
        if let Some(maps) = better_maps(layer.view, ino)? {
            better.insert(ino, maps);
        }
    }
    let unclear = unclear(layer.view, &better)?;
    for (ino, maps) in better {
        if unclear.contains(&ino) {
            continue;
        }
        match write(layer, ino, maps) {
            Ok(Some(step)) => layer.plan.steps.push(step),
            Ok(None) | Err(Error::NoFit { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the better maps of an inode; `None` if there are none, or it is damaged otherwise.
fn better_maps(view: View<'_>, ino: Ino) -> Result<Option<Betters>> {
    let Some(bytes) = view.inode(ino)? else { return Ok(None) };
    let Ok(inode) = Dinode::verify(&bytes, &view.ctx(ino), ino) else { return Ok(None) };
    let mut found = [None, None];
    for (better, fork) in found.iter_mut().zip([Fork::Data, Fork::Attr]) {
        let map = view.map(&inode, ino, fork);
        if !map.whole {
            return Ok(None);
        }
        let other = match lost_map(view, &inode, (ino, fork), &map)? {
            None => maps::better(view, &inode, ino, fork)?,
            lost => lost,
        };
        *better = other.filter(|other| other.map != map.extents);
    }
    Ok(Some(found).filter(|found| found.iter().any(Option::is_some)))
}

/// Returns the map of a fork of which the inode has nothing any more, if all of it is in blocks
/// that nothing claims and that name the inode.
fn lost_map(
    view: View<'_>,
    inode: &Dinode<'_>,
    (ino, fork): (Ino, Fork),
    map: &ForkMap,
) -> Result<Option<Better>> {
    if !map.extents.is_empty() || view.unclaimed.is_none_or(|found| found.of(ino).is_empty()) {
        return Ok(None);
    }
    let (map, why) = if fork == Fork::Attr {
        let data = view.map(inode, ino, Fork::Data);
        let rest = inode.nblocks().0.checked_sub(data.blocks()).filter(|_| data.whole);
        let found = attr_blocks::assemble(view, inode, ino, rest)?;
        let Some(found) = found.filter(|found| found.is_complete) else { return Ok(None) };
        (found.map, found.why)
    } else if inode.file_type() == Some(FileType::Symlink) {
        let Some(map) = lost_forks::target_map(view, ino, inode.size().0) else { return Ok(None) };
        (map, lost_forks::TARGET.to_owned())
    } else {
        return Ok(None);
    };
    Ok(Some(Better { map, why, is_certain: false }))
}

/// Returns the inodes in disputes of which it is not clear that they are the damaged ones: all but
/// those with a certain change, alone in each of their disputes, if the others are sound.
fn unclear(view: View<'_>, better: &BTreeMap<Ino, Betters>) -> Result<BTreeSet<Ino>> {
    let is_certain = |owner: &u64| {
        let maps = better.get(&Ino(*owner));
        maps.is_some_and(|maps| maps.iter().flatten().all(|better| better.is_certain))
    };
    let disputes = view.survey.groups.iter().flat_map(|group| &group.disputes);
    let disputes: BTreeSet<BTreeSet<u64>> =
        disputes.map(|d| d.claims.iter().map(|claim| claim.owner).collect()).collect();
    let mut sound = BTreeMap::new();
    let mut denied = BTreeSet::new();
    for owners in disputes.iter().filter(|owners| owners.iter().any(is_certain)) {
        for owner in owners {
            if !sound.contains_key(owner) {
                sound.insert(*owner, *owner >> 63 != 0 || is_sound(view, Ino(*owner))?);
            }
        }
        let is_damaged = |owner: &&u64| sound.get(*owner) == Some(&false);
        let opponents = |owner: &u64| owners.iter().filter(is_damaged).any(|other| other != owner);
        denied.extend(owners.iter().copied().filter(opponents));
    }
    let mut unclear = BTreeSet::new();
    for owners in &disputes {
        let accepted = |owner: &&u64| is_certain(owner) && !denied.contains(*owner);
        let is_alone = owners.iter().filter(accepted).count() == 1;
        let doubted = owners.iter().filter(|owner| !is_alone || !accepted(owner));
        unclear.extend(doubted.copied().map(Ino));
    }
    Ok(unclear)
}

/// Returns true if nothing speaks against the maps of an inode but claims of others.
fn is_sound(view: View<'_>, ino: Ino) -> Result<bool> {
    let Some(bytes) = view.inode(ino)? else { return Ok(false) };
    let Ok(inode) = Dinode::verify(&bytes, &view.ctx(ino), ino) else { return Ok(false) };
    for fork in [Fork::Data, Fork::Attr] {
        if !maps::is_sound_but_for_claims(view, &inode, ino, fork)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lays the maps of an inode out again.
fn write(layer: &mut Layer<'_, '_>, ino: Ino, better: Betters) -> Result<Option<Step>> {
    let Some(mut bytes) = layer.view.inode(ino)? else { return Ok(None) };
    let copy = bytes.clone();
    let Some(inode) = Dinode::parse(&copy, layer.view.geo) else { return Ok(None) };
    let mut evidence = Vec::new();
    let mut maps = [Fork::Data, Fork::Attr].map(|fork| layer.view.map(&inode, ino, fork).extents);
    for (map, better) in maps.iter_mut().zip(better) {
        let Some(better) = better else { continue };
        evidence.push(better.why);
        *map = better.map;
    }
    layer.write_maps(ino, &mut bytes, maps)?;
    Ok(Some(Step {
        id: format!("map.{ino}"),
        kind: StepKind::Inode,
        what: format!("make the extent maps of inode {ino} again"),
        evidence,
        lost: Vec::new(),
        findings: Vec::new(),
        path: None,
    }))
}
