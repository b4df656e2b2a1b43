//! Owners by the rmapbt, which has a record for every block that is in use.

use std::ops::Range;

use xfskit_core::Volume;
use xfskit_format::Fork;
use xfskit_format::agbtree::{Block, Tree};
use xfskit_format::bytes::be32;
use xfskit_format::rmap::{self, Rec, owner};
use xfskit_space::Result;
use xfskit_units::{AgBlock, AgNumber, FileOff};

use crate::owner::{Owned, Owner};
use crate::{group, is_agf_tree, single};

/// Returns the owners of `blocks` of group `agno`: those of the rmapbt, and free space.
///
/// # Errors
/// A block of a btree on the way is damaged.
pub(crate) fn owners(volume: &Volume, agno: AgNumber, blocks: &Range<u32>) -> Result<Vec<Owned>> {
    let mut found = Vec::new();
    volume.space().walk_tree(agno, Tree::Rmap, blocks, &mut |_, block| {
        for rec in block?.recs::<Rec>() {
            let run = rec.start().0..rec.start().0.saturating_add(rec.len().0);
            found.extend(Owned::new(agno, run, owner_of(rec)).clip(blocks.clone()));
        }
        Ok(())
    })?;
    volume.space().walk_tree(agno, Tree::Bno, blocks, &mut |_, block| {
        group::free(agno, &block?, &mut |owned| found.extend(owned.clip(blocks.clone())));
        Ok(())
    })?;
    let mut named = Vec::with_capacity(found.len());
    let mut free_list = None;
    for owned in found {
        match owned.owner {
            Owner::AgMetadata | Owner::InodeTree => {
                let list = match &free_list {
                    Some(list) => list,
                    None => free_list.insert(group::free_list(volume, agno)?),
                };
                for agbno in owned.start.0..owned.end() {
                    let owner = name(volume, agno, AgBlock(agbno), owned.owner, list);
                    named.push(Owned::new(agno, single(AgBlock(agbno)), owner));
                }
            }
            Owner::Inodes(_) => {
                let geo = volume.geo();
                let first = geo.agino_to_ino(agno, geo.agb_to_agino(owned.start));
                let blocks = owned.start.0..owned.end();
                named.push(Owned::inodes(agno, blocks, first, geo.inopblock()));
            }
            _ => named.push(owned),
        }
    }
    Ok(named)
}

/// Returns the owner that a record gives.
fn owner_of(rec: &Rec) -> Owner {
    let Some(ino) = rec.inode() else {
        return match rec.owner.get() {
            owner::FS => Owner::Headers,
            owner::LOG => Owner::Log,
            owner::AG => Owner::AgMetadata,
            owner::INOBT => Owner::InodeTree,
            owner::INODES => Owner::Inodes(xfskit_units::Ino(0)),
            owner::REFC => Owner::Tree(Tree::Refcount),
            owner::COW => Owner::Staging,
            other => Owner::Undefined(other),
        };
    };
    let offset = rec.offset.get();
    let fork = if offset & rmap::OFF_ATTR_FORK == 0 { Fork::Data } else { Fork::Attr };
    if offset & rmap::OFF_BMBT_BLOCK != 0 {
        return Owner::ForkTree { ino, fork };
    }
    let unwritten = offset & rmap::OFF_UNWRITTEN != 0;
    Owner::Extent { ino, fork, startoff: FileOff(offset & rmap::OFF_MASK), unwritten }
}

/// Returns the structure that block `agbno` is in, of those that share the owner `owner` in the
/// rmapbt. The block's magic shows it; a block on the free list may still have an old one.
fn name(
    volume: &Volume,
    agno: AgNumber,
    agbno: AgBlock,
    owner: Owner,
    free_list: &[AgBlock],
) -> Owner {
    let geo = volume.geo();
    if owner == Owner::AgMetadata && free_list.contains(&agbno) {
        return Owner::FreeList;
    }
    let mut block = vec![0; geo.blocksize()];
    let start = geo.agb_to_daddr(agno, agbno).byte_offset();
    if volume.device().read_at(start, &mut block).is_err() {
        return owner;
    }
    let magic = be32(&block, 0).unwrap_or(0);
    let of_agf = owner == Owner::AgMetadata;
    let trees = Tree::ALL.into_iter().filter(|&tree| is_agf_tree(tree) == of_agf);
    let tree = trees.filter(|tree| tree.exists(geo)).find(|tree| tree.magic(geo) == magic);
    let is_sound = |tree: &Tree| {
        let ctx = volume.ctx(tree.location(geo, agno, agbno));
        Block::verify(&block, &ctx, *tree, agno).is_ok()
    };
    tree.filter(is_sound).map_or(owner, Owner::Tree)
}
