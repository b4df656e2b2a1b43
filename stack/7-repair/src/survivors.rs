//! The files that could be reached before a repair, compared with those after it.
//!
//! 1. Each file that the first survey found sound, and that has a name, is there after the repair
//!    with the same type, size and maps, or a step of the plan changes this inode. It is gone only
//!    if that step has a loss.
//! 2. Blocks of a file that were copied to another place have the same bytes there.
//!
//! Nothing is written where one of both does not hold.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_check::{Difference, FileDigests, Parts, Report, fork_map};
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{self, Dinode};
use xfskit_format::{Ctx, Fork};
use xfskit_units::{FileOff, Geometry, Ino};

use crate::error::Result;
use crate::plan::{Moved, Plan, Step, StepKind};
use crate::unaccounted::{Change, Unaccounted};

/// The files of a volume before a repair.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    /// As the very first survey found them, if that was not the last one.
    first: Option<FileDigests>,
    /// With all inode chunks, and with the blocks that the journal gave back.
    last: Option<FileDigests>,
    is_closed: bool,
}

impl Baseline {
    /// Returns true until the first survey is complete.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed
    }

    /// Takes the files of a survey.
    pub(crate) fn take(&mut self, digests: Option<FileDigests>) {
        let Some(digests) = digests.filter(|_| self.is_open()) else { return };
        let is_second = self.first.is_none();
        let before = self.last.replace(digests);
        // In a volume that is not connected, names of old inodes may lead to others.
        let before = before.filter(|before| is_second && before.is_connected());
        self.first = self.first.take().or(before);
    }

    /// Takes no more: what follows is surveyed after a change.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Passes each file that differs after the repair to `each`.
    fn differences(&self, after: &FileDigests, each: &mut dyn FnMut(Difference)) -> Result<()> {
        for before in [&self.first, &self.last].into_iter().flatten() {
            before.differences(after, each)?;
        }
        Ok(())
    }
}

/// What steps of the plan may change of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Planned {
    is_lost: bool,
    content: bool,
    attributes: bool,
    /// The attributes of a directory may be in other places of the inode.
    is_laid_out: bool,
}

impl Planned {
    fn add(&mut self, step: &Step) {
        match step.kind {
            // A counter: inode.77.nlink.
            StepKind::Inode if step.id.split('.').count() > 2 => {}
            StepKind::Inode | StepKind::Copy => {
                self.is_lost |= !step.lost.is_empty();
                (self.content, self.attributes) = (true, true);
            }
            StepKind::Directory | StepKind::Attributes | StepKind::Orphan => {
                self.attributes = true;
            }
            _ => {}
        }
    }

    /// Returns the change that no step has named.
    fn unnamed(self, difference: &Difference) -> Option<Change> {
        let attributes = self.attributes || (difference.is_dir && self.is_laid_out);
        match difference.parts {
            Parts::All => (!self.is_lost).then_some(Change::Gone),
            Parts::Content | Parts::ContentAndAttributes if !self.content => Some(Change::Content),
            Parts::Attributes | Parts::ContentAndAttributes if !attributes => {
                Some(Change::Attributes)
            }
            _ => None,
        }
    }
}

/// Returns the inodes that the plan changes, by number.
fn planned(plan: &Plan) -> BTreeMap<Ino, Planned> {
    let mut planned = BTreeMap::<Ino, Planned>::new();
    for step in &plan.steps {
        if let Some(ino) = step.inode() {
            planned.entry(ino).or_default().add(step);
        }
    }
    for ino in &plan.laid_out {
        planned.entry(*ino).or_default().is_laid_out = true;
    }
    planned
}

/// Returns what differs after the repair that the plan does not name. `overlay`: the volume after
/// it, above the one before.
pub(crate) fn unaccounted(
    baseline: &Baseline,
    after: &FileDigests,
    (before, now): (&Report, &Report),
    plan: &Plan,
    (overlay, geo): (&OverlayDevice, &Geometry),
) -> Result<Unaccounted> {
    let planned = planned(plan);
    let mut found = Unaccounted::default();
    // Both parts of the baseline may have a file.
    let mut seen = BTreeSet::new();
    baseline.differences(after, &mut |difference| {
        let planned = planned.get(&difference.ino).copied().unwrap_or_default();
        let change = planned.unnamed(&difference);
        if let Some(change) = change.filter(|_| seen.insert(difference.ino)) {
            found.add(difference.ino, change);
        }
    })?;
    for moved in &plan.moved {
        if differs(overlay, geo, moved)? && seen.insert(moved.ino) {
            found.add(moved.ino, Change::Bytes);
        }
    }
    // Also inodes without a name, which a repair puts back.
    let gone = before.inodes.saturating_sub(now.inodes + plan.cleared);
    found.files = found.files.max(gone);
    found.names = before.entries.saturating_sub(now.entries + plan.dropped);
    Ok(found)
}

/// Returns true if a block of a file that was copied has other bytes after the repair. One that a
/// later step has freed is left out.
fn differs(overlay: &OverlayDevice, geo: &Geometry, moved: &Moved) -> Result<bool> {
    let Some(at) = geo.ino_to_byte(moved.ino) else { return Ok(true) };
    let mut bytes = vec![0; geo.inodesize()];
    overlay.read_at(at, &mut bytes)?;
    let ctx = Ctx::new(geo, inode::location(geo, moved.ino));
    let Ok(inode) = Dinode::verify(&bytes, &ctx, moved.ino) else { return Ok(true) };
    if inode.is_free() {
        return Ok(false);
    }
    let map = fork_map(overlay, geo, &inode, moved.ino, Fork::Data).extents;
    let before = std::slice::from_ref(&moved.from);
    for fileoff in (moved.from.startoff.0..moved.from.end().0).map(FileOff) {
        let old = content(&**overlay.base(), geo, before, fileoff)?;
        if old != content(overlay, geo, &map, fileoff)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the content of a block of a file. A hole has zeroes, and one that was never written.
fn content(
    dev: &dyn BlockDevice,
    geo: &Geometry,
    map: &[Extent],
    fileoff: FileOff,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; geo.blocksize()];
    let behind = map.partition_point(|extent| extent.startoff <= fileoff);
    let extent = behind.checked_sub(1).and_then(|at| map.get(at));
    let block = extent.filter(|extent| !extent.unwritten).and_then(|e| e.block_at(fileoff));
    if let Some(at) = block.and_then(|block| geo.fsb_to_byte(block)) {
        dev.read_at(at, &mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: Ino = Ino(77);

    fn plan(steps: &[(&str, StepKind, &[&str])]) -> Plan {
        let step = |(id, kind, lost): &(&str, StepKind, &[&str])| {
            let step = Step::lossless(*id, *kind, "", "");
            Step { lost: lost.iter().map(|&lost| lost.to_owned()).collect(), ..step }
        };
        Plan { steps: steps.iter().map(step).collect(), ..Plan::default() }
    }

    /// Returns the changes of an inode that a plan does not name, by what differs.
    fn unnamed(plan: &Plan, is_dir: bool) -> [Option<Change>; 4] {
        let planned = planned(plan).get(&INO).copied().unwrap_or_default();
        [Parts::All, Parts::Content, Parts::Attributes, Parts::ContentAndAttributes]
            .map(|parts| planned.unnamed(&Difference { ino: INO, is_dir, parts }))
    }

    #[test]
    fn a_change_that_no_step_names_is_found() {
        let all = [Change::Gone, Change::Content, Change::Attributes, Change::Content].map(Some);
        let others: [(&str, StepKind, &[&str]); 5] = [
            ("group.77", StepKind::Group, &[]),
            ("inode.78", StepKind::Inode, &["inode 78"]),
            ("inode.77.nlink", StepKind::Inode, &[]),
            ("superblock.77", StepKind::SecondarySuperblock, &[]),
            ("lost+found", StepKind::Directory, &[]),
        ];
        assert_eq!(unnamed(&plan(&[]), false), all);
        for step in others {
            assert_eq!(unnamed(&plan(&[step]), false), all, "{}", step.0);
        }
    }

    #[test]
    fn a_step_allows_what_it_changes_and_a_loss_that_it_is_gone() {
        let gone = [Some(Change::Gone), None, None, None];
        let of_content = [Some(Change::Gone), Some(Change::Content), None, Some(Change::Content)];
        for (id, kind) in [
            ("inode.77", StepKind::Inode),
            ("claims.77", StepKind::Inode),
            ("copy.inode.77", StepKind::Copy),
        ] {
            assert_eq!(unnamed(&plan(&[(id, kind, &[])]), false), gone, "{id}");
            assert_eq!(unnamed(&plan(&[(id, kind, &["it"])]), false), [None; 4], "{id}");
        }
        for (id, kind) in [
            ("attributes.77", StepKind::Attributes),
            ("orphan.77", StepKind::Orphan),
            ("directory.77", StepKind::Directory),
        ] {
            // Such a loss is one of attributes or names.
            assert_eq!(unnamed(&plan(&[(id, kind, &["it"])]), false), of_content, "{id}");
        }
        let both = plan(&[
            ("attributes.77", StepKind::Attributes, &[]),
            ("inode.77", StepKind::Inode, &["it"]),
        ]);
        assert_eq!(unnamed(&both, false), [None; 4]);
    }

    #[test]
    fn attributes_of_a_directory_may_move_where_an_entry_is_added() {
        let plan = Plan { laid_out: [INO].into(), ..Plan::default() };
        assert_eq!(unnamed(&plan, true)[2], None);
        assert_eq!(unnamed(&plan, true)[0], Some(Change::Gone));
        assert_eq!(unnamed(&plan, false)[2], Some(Change::Attributes));
    }
}
