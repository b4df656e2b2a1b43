//! The unlinked lists: inodes without a name that were open when the journal stopped.
//!
//! Each group has 64 lists. Inode n is on list n mod 64, which leads from inode to inode. On a
//! clean volume all lists are empty, which phase 2 checks. Otherwise each must lead from inode to
//! inode to its end.

use std::collections::HashSet;

use xfskit_format::agi::{NULLAGINO, UNLINKED_BUCKETS};
use xfskit_format::inode::Dinode;
use xfskit_format::{Ctx, agi, inode};
use xfskit_units::{AgIno, AgNumber};

use crate::inodes::Context;
use crate::table::{Kind, rank_in};

/// Checks the lists of all groups.
pub(crate) fn check(shared: &Context<'_, '_>) {
    if shared.vol.log_clean {
        return;
    }
    for (agno, group) in shared.vol.geo.ags().zip(shared.groups) {
        let Some(agi) = &group.agi else { continue };
        let mut met = HashSet::new();
        for (bucket, head) in agi.unlinked.iter().enumerate() {
            let ctx = shared.vol.ctx(agi::location(&shared.vol.geo, agno)).entry(bucket);
            follow(shared, agno, (bucket, head.get()), &mut met, &ctx);
        }
    }
}

/// Follows one list. An inode is visited once, so a list is no longer than the group has inodes.
fn follow(
    shared: &Context<'_, '_>,
    agno: AgNumber,
    (bucket, head): (usize, u32),
    met: &mut HashSet<u32>,
    head_ctx: &Ctx<'_>,
) {
    let vol = shared.vol;
    let mut block = vec![0; vol.geo.blocksize()];
    let (mut next, mut ctx, mut id) = (head, *head_ctx, "agi.unlinked");
    while next != NULLAGINO {
        let agino = AgIno(next);
        let rank = rank_in(shared.groups, agno, agino);
        let used = rank.is_some_and(|rank| shared.table.kind(rank) != Kind::Free);
        let unnamed = rank.is_some_and(|rank| shared.table.nlink(rank) == 0);
        let listed = next as usize % UNLINKED_BUCKETS == bucket;
        let sound = used && unnamed && listed && met.insert(next);
        let wanted = "an inode of this list, in use, without links, and only once";
        if !vol.sink.error(ctx.require(id, sound, wanted, next)) {
            return;
        }
        let at = inode::location(&vol.geo, vol.geo.agino_to_ino(agno, agino));
        (ctx, id) = (vol.ctx(at), "inode.next_unlinked");
        if !vol.read(at, &mut block) {
            return;
        }
        let bytes = block.get(vol.geo.agino_block_offset(agino)..).unwrap_or(&[]);
        let Some(inode) = Dinode::parse(bytes, &vol.geo) else { return };
        next = inode.core.next_unlinked.get();
    }
}
