//! What the groups of a volume use themselves: headers, free list, btrees, inodes, the journal.

use std::ops::Range;

use xfskit_core::Volume;
use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::agfl::{self, Agfl};
use xfskit_format::inobt::{self, INODES_PER_CHUNK};
use xfskit_format::{alloc, refcount};
use xfskit_space::Result;
use xfskit_units::{AgBlock, AgIno, AgNumber, Geometry};

use crate::owner::{Owned, Owner};
use crate::single;
use crate::wanted::Wanted;
use xfskit_core::Warnings;

/// Adds the wanted blocks of group `agno` that no file owns to `found`. Returns false if some of
/// them are not known.
pub(crate) fn collect(
    volume: &Volume,
    agno: AgNumber,
    wanted: &Wanted,
    found: &mut Vec<Owned>,
    warnings: &mut Warnings,
) -> bool {
    let geo = volume.geo();
    let mut known = true;
    let mut add = |owned: Owned| wanted.add(&owned, found);
    add(headers(geo, agno));
    log(geo, agno).into_iter().for_each(&mut add);
    match free_list(volume, agno) {
        Ok(blocks) => {
            for agbno in blocks {
                add(Owned::new(agno, single(agbno), Owner::FreeList));
            }
        }
        Err(error) => {
            known = false;
            warnings.add(error);
        }
    }
    for tree in Tree::ALL.into_iter().filter(|tree| tree.exists(geo)) {
        let walked = volume.space().walk_tree(agno, tree, &(0..u32::MAX), &mut |agbno, block| {
            match block {
                Ok(block) => {
                    add(Owned::new(agno, single(agbno), Owner::Tree(tree)));
                    records(geo, agno, &block, &mut add);
                }
                Err(error) => {
                    known = false;
                    warnings.add(error);
                }
            }
            Ok(())
        });
        if let Err(error) = walked {
            known = false;
            // The header was reported with the free list, or with the tree before.
            if tree == Tree::Ino {
                warnings.add(error);
            }
        }
    }
    known
}

/// Returns the blocks of the headers of group `agno`.
fn headers(geo: &Geometry, agno: AgNumber) -> Owned {
    let end = geo.ag_header_last().0.saturating_add(1);
    Owned::new(agno, 0..end, Owner::Headers)
}

/// Returns the blocks of the journal in group `agno`.
fn log(geo: &Geometry, agno: AgNumber) -> Option<Owned> {
    let (group, start) = geo.fsb_split(geo.logstart?)?;
    let blocks = start.0..start.0.saturating_add(geo.logblocks);
    (group == agno).then(|| Owned::new(agno, blocks, Owner::Log))
}

/// Returns the blocks of the free list of group `agno`.
pub(crate) fn free_list(volume: &Volume, agno: AgNumber) -> Result<Vec<AgBlock>> {
    let space = volume.space();
    let agf = space.agf(agno)?;
    let at = agfl::location(space.geo(), agno);
    let buf = space.read_buf(at, &|bytes, ctx| Agfl::verify(bytes, ctx, agno).map(drop))?;
    let agfl = Agfl::verify(&buf, &space.ctx(at).crc_known(), agno)?;
    let exists = |block: &AgBlock| space.geo().valid_agbno(agno, *block);
    Ok(agfl.active(&agf).filter(exists).collect())
}

/// Passes what the records of a leaf own to `add`: free space, staging blocks, inodes.
fn records(geo: &Geometry, agno: AgNumber, block: &Block<'_>, add: &mut dyn FnMut(Owned)) {
    match block.tree {
        Tree::Bno => free(agno, block, add),
        Tree::Refcount => {
            for rec in block.recs::<refcount::Rec>().iter().filter(|rec| rec.is_cow()) {
                let blocks = run(rec.start().0, rec.len().0);
                add(Owned::new(agno, blocks, Owner::Staging));
            }
        }
        Tree::Ino => {
            for rec in block.recs::<inobt::Rec>() {
                inodes(geo, agno, rec, add);
            }
        }
        Tree::Cnt | Tree::Fino | Tree::Rmap => {}
    }
}

/// Passes the free extents of a leaf of the bnobt to `add`.
pub(crate) fn free(agno: AgNumber, block: &Block<'_>, add: &mut dyn FnMut(Owned)) {
    for rec in block.recs::<alloc::Rec>() {
        let blocks = run(rec.startblock.get(), rec.blockcount.get());
        add(Owned::new(agno, blocks, Owner::Free));
    }
}

fn run(start: u32, len: u32) -> Range<u32> {
    start..start.saturating_add(len)
}

/// Passes the blocks of a chunk of inodes to `add`. A block of 128 inodes or more has several
/// records, and the first one passes it.
fn inodes(geo: &Geometry, agno: AgNumber, rec: &inobt::Rec, add: &mut dyn FnMut(Owned)) {
    let chunk = rec.decode(geo);
    let present = chunk.present();
    let per_block = geo.inopblock().min(INODES_PER_CHUNK);
    let in_block = u64::MAX >> (INODES_PER_CHUNK - per_block);
    for slot in (0..INODES_PER_CHUNK).step_by(per_block as usize) {
        let agino = AgIno(chunk.startino.0.saturating_add(slot));
        let agbno = geo.agino_to_agb(agino);
        if present & (in_block << slot) != 0 && geo.agb_to_agino(agbno) == agino {
            let first = geo.agino_to_ino(agno, agino);
            add(Owned::inodes(agno, single(agbno), first, geo.inopblock()));
        }
    }
}
