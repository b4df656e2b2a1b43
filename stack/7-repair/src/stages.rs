//! The parts of the changes that are written together.

use std::borrow::Cow;
use std::ops::Range;

use xfskit_check::Survey;
use xfskit_format::rmap::{self, owner};
use xfskit_units::{AgBlock, AgNumber, ByteOffset, Daddr, Geometry};

use crate::error::Result;

/// A part of the changes that is written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Blocks of files.
    Blocks,
    Inodes,
    /// Everything else.
    Groups,
}

impl Stage {
    /// All stages, in the order in which they are written.
    pub(crate) const ALL: [Self; 3] = [Self::Blocks, Self::Inodes, Self::Groups];
}

/// Cuts ascending changed ranges where the stage changes. `survey`: what the files use after the
/// repair.
pub(crate) fn of(
    geo: &Geometry,
    survey: &Survey,
    changed: &[Range<ByteOffset>],
) -> Result<Vec<(Stage, Range<ByteOffset>)>> {
    let mut parts: Vec<(Stage, Range<ByteOffset>)> = Vec::new();
    let mut of_group = OfGroup { survey, loaded: None };
    let block = geo.blocksize() as u64;
    for range in changed {
        let (mut start, first) = (range.start, parts.len());
        while start < range.end {
            let next = (start.0 / block).saturating_add(1).saturating_mul(block);
            let end = range.end.min(ByteOffset(next));
            let stage = match geo.daddr_to_agb(Daddr(start.0 / 512)) {
                Some((agno, agbno)) => stage(of_group.owners(agno)?, agbno),
                None => Stage::Groups,
            };
            match parts[first..].last_mut() {
                Some((last, part)) if *last == stage => part.end = end,
                _ => parts.push((stage, start..end)),
            }
            start = end;
        }
    }
    Ok(parts)
}

/// The owners of one group at a time.
struct OfGroup<'s> {
    survey: &'s Survey,
    loaded: Option<(AgNumber, Cow<'s, [rmap::Rec]>)>,
}

impl OfGroup<'_> {
    /// Returns the owners of group `agno`; none if the survey has no such group.
    fn owners(&mut self, agno: AgNumber) -> Result<&[rmap::Rec]> {
        if self.loaded.as_ref().is_none_or(|(loaded, _)| *loaded != agno) {
            let group = self.survey.groups.iter().find(|group| group.agno == agno);
            let owners = group.map_or(Ok(Cow::default()), |group| group.owners.load())?;
            self.loaded = Some((agno, owners));
        }
        Ok(self.loaded.as_ref().map_or(&[][..], |(_, owners)| owners))
    }
}

/// Returns the stage in which a block of a group with these owners is written.
fn stage(owners: &[rmap::Rec], agbno: AgBlock) -> Stage {
    let behind = owners.partition_point(|rec| rec.start() <= agbno);
    let covers = |rec: &&rmap::Rec| agbno.0 - rec.start().0 < rec.len().0;
    match owners[..behind].last().filter(covers).map(|rec| rec.owner.get()) {
        Some(owner::INODES) => Stage::Inodes,
        Some(owner) if owner.cast_signed() >= 0 => Stage::Blocks,
        _ => Stage::Groups,
    }
}
