//! A group's btrees, free list and headers, made again from what the files use.

use xfskit_block::BlockDevice;
use xfskit_check::GroupSurvey;
use xfskit_format::agbtree::Tree;
use xfskit_format::agi::{NULLAGINO, UNLINKED_BUCKETS};
use xfskit_format::rmap;
use xfskit_mkfs::group::Group;
use xfskit_mkfs::group_btrees::place_btrees;
use xfskit_mkfs::group_space::GroupSpace;
use xfskit_mkfs::layout::Extent;
use xfskit_units::{AgBlock, AgNumber, ByteOffset, ExtLen, Geometry};

use crate::error::{Error, Result};

/// Plans the group of `survey`, whose blocks have these `owners`: which blocks its btrees and its
/// free list take of those that no file uses. `unlinked`: the heads of its lists of unlinked
/// inodes, if there are any.
pub(crate) fn plan(
    geo: &Geometry,
    survey: &GroupSurvey,
    owners: &[rmap::Rec],
    unlinked: Option<&[u32; UNLINKED_BUCKETS]>,
) -> Result<Group> {
    let agno = survey.agno;
    let free = unused(geo, agno, owners);
    let trees = Tree::ALL.into_iter().filter(|tree| tree.exists(geo));
    let group = Group {
        agno,
        trees: trees.map(|tree| (tree, Vec::new())).collect(),
        agfl: Vec::new(),
        free: Vec::new(),
        chunks: survey.chunks.clone(),
        newino: None,
        owners: owners.to_vec(),
        shared: survey.shared.clone(),
        unlinked: unlinked.copied().unwrap_or([NULLAGINO; UNLINKED_BUCKETS]),
    };
    let group = place_btrees(geo, group, GroupSpace::of(agno, free));
    let missing = |(tree, places): &(Tree, Vec<AgBlock>)| {
        let has = u32::try_from(places.len()).unwrap_or(u32::MAX);
        group.shape(geo, *tree).blocks().saturating_sub(has)
    };
    match group.trees.iter().map(missing).sum() {
        0 => Ok(group),
        missing => Err(Error::NoRoom { agno: agno.0, missing }),
    }
}

/// Returns the blocks of group `agno` that none of its `owners` uses, by block.
pub(crate) fn unused(geo: &Geometry, agno: AgNumber, owners: &[rmap::Rec]) -> Vec<Extent> {
    let length = geo.ag_length(agno);
    let (mut free, mut at) = (Vec::new(), 0);
    let used = owners.iter().map(|rec| (rec.start().0, rec.len().0));
    for (start, len) in used.chain([(length, 0)]) {
        let start = start.min(length);
        if at < start {
            free.push(Extent { start: AgBlock(at), len: ExtLen(start - at) });
        }
        at = at.max(start.saturating_add(len));
    }
    free
}

/// Writes a group, beside what its files own. Its first sector, the superblock, stays as it is.
///
/// # Errors
/// [`Error::OverwritesFile`] if a block of a file would be overwritten.
pub(crate) fn write(
    dev: &dyn BlockDevice,
    geo: &Geometry,
    group: &Group,
    owners: &[rmap::Rec],
) -> Result<()> {
    let agno = group.agno;
    let mut superblock = vec![0; geo.sectsize()];
    dev.read_at(at(geo, agno, AgBlock(0)), &mut superblock)?;
    for (agbno, block) in group.blocks_below(geo, &superblock) {
        if agbno > geo.ag_header_last() && is_of_file(owners, agbno) {
            return Err(Error::OverwritesFile { agno: agno.0, agbno: agbno.0 });
        }
        dev.write_at(at(geo, agno, agbno), &block)?;
    }
    Ok(())
}

/// Returns true if a file uses a block.
fn is_of_file(owners: &[rmap::Rec], agbno: AgBlock) -> bool {
    let behind = owners.partition_point(|rec| rec.start() <= agbno);
    let before = owners[..behind].iter().rev();
    // Extents that files share overlap, so that a long one may begin before others.
    before.take(OVERLAPS_MAX).any(|rec| agbno.0 - rec.start().0 < rec.len().0)
}

/// Extents that are looked at before a block.
const OVERLAPS_MAX: usize = 64;

fn at(geo: &Geometry, agno: AgNumber, agbno: AgBlock) -> ByteOffset {
    geo.agb_to_daddr(agno, agbno).byte_offset()
}

#[cfg(test)]
mod tests {
    use xfskit_format::rmap::owner;

    use super::*;

    #[test]
    fn what_no_file_uses_is_free() {
        let geo = xfskit_units::example::geometry();
        let length = geo.ag_length(AgNumber(0));
        let used = |start: u32, len: u32| rmap::Rec {
            startblock: start.into(),
            blockcount: len.into(),
            owner: owner::INODES.into(),
            offset: 0.into(),
        };
        // The second and the third overlap: a block that two files share.
        let owners = [used(0, 4), used(10, 5), used(12, 1), used(15, 5)];
        let free = unused(&geo, AgNumber(0), &owners);
        let free: Vec<_> = free.iter().map(|e| (e.start.0, e.end())).collect();
        assert_eq!(free, [(4, 10), (20, length)]);
    }
}
