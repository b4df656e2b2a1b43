//! The rmapbt: each record by itself, and all records against the extents in use.

use xfskit_format::agbtree::Block;
use xfskit_format::{Ctx, Location, rmap};
use xfskit_units::{AgBlock, AgNumber};

use crate::merge::merge;
use crate::owners::UsedExtent;
use crate::volume::Volume;

/// Bits of `offset` that are always 0.
const OFF_RESERVED: u64 = 0x7f << 54;

/// Adds the records of a leaf to `into`. Returns false if one is impossible.
pub(crate) fn collect(
    vol: &Volume<'_>,
    agno: AgNumber,
    block: &Block<'_>,
    ctx: &Ctx<'_>,
    into: &mut Vec<UsedExtent>,
) -> bool {
    let mut sound = true;
    for (index, rec) in block.recs::<rmap::Rec>().iter().enumerate() {
        let used = UsedExtent {
            start: rec.startblock.get(),
            len: rec.blockcount.get(),
            owner: rec.owner.get(),
            offset: rec.offset.get(),
        };
        if let Some(wanted) = expected_instead(vol, agno, &used) {
            let ctx = ctx.entry(index);
            let found = format!("{} blocks from {} of {}", used.len, used.start, used.owner_name());
            sound &= vol.sink.error(ctx.require("rmapbt.rec", false, wanted, found));
        } else {
            into.push(used);
        }
    }
    sound
}

/// Returns the expected value if a record is impossible.
fn expected_instead(vol: &Volume<'_>, agno: AgNumber, used: &UsedExtent) -> Option<&'static str> {
    let end = u64::from(used.start) + u64::from(used.len);
    if used.len == 0 || end > vol.geo.ag_length(agno).into() {
        return Some("an extent of the group");
    }
    let headers = used.owner == rmap::owner::FS;
    if headers != (used.start <= vol.geo.ag_header_last().0) {
        return Some("AG headers, and nothing else, at the group's start");
    }
    if used.owner >> 63 != 0 {
        let known = (rmap::owner::COW..=rmap::owner::FS).contains(&used.owner);
        return (!known || used.offset != 0).then_some("a known owner, without a file position");
    }
    let flag = |bit| used.offset & bit != 0;
    if used.offset & OFF_RESERVED != 0 {
        return Some("reserved bits that are 0");
    }
    if flag(rmap::OFF_BMBT_BLOCK) && used.offset & rmap::OFF_MASK != 0 {
        return Some("no file position of a btree block");
    }
    let plain = !flag(rmap::OFF_BMBT_BLOCK) && !flag(rmap::OFF_ATTR_FORK);
    (flag(rmap::OFF_UNWRITTEN) && !plain).then_some("unwritten content only")
}

/// Checks that the tree has exactly the extents in use. `used` and `records` are sorted as the tree
/// is. Unless `all_known`, records without an observed owner are not checked.
pub(crate) fn compare(
    vol: &Volume<'_>,
    agno: AgNumber,
    used: &[UsedExtent],
    records: &[UsedExtent],
    all_known: bool,
) {
    let at = |start| {
        let daddr = vol.geo.agb_to_daddr(agno, AgBlock(start));
        let at = Location::of("rmapbt").ag(agno).agb(AgBlock(start));
        vol.ctx(at.daddr(daddr, vol.geo.block_sectors()))
    };
    let describe = |u: &UsedExtent| {
        let state = if u.is_unwritten() { ", unwritten" } else { "" };
        format!("{} blocks of {}{state}", u.len, u.owner_name())
    };
    merge(
        merged(used),
        records,
        UsedExtent::key,
        |rec| rec.key(),
        |due, found| match (due, found) {
            (Some(due), Some(found)) => {
                let more = !all_known && due.len < found.len;
                if !more && (due.len, due.is_unwritten()) != (found.len, found.is_unwritten()) {
                    let expected = xfskit_format::Expected::Described(describe(&due).into());
                    vol.sink.error(Err(at(due.start).corruption(
                        "rmapbt.extent",
                        expected,
                        describe(found),
                    )));
                }
            }
            (Some(due), None) => {
                let expected = xfskit_format::Expected::Described(describe(&due).into());
                let missing = xfskit_format::Value::Missing;
                vol.sink.error(Err(at(due.start).corruption("rmapbt.missing", expected, missing)));
            }
            (None, Some(found)) if all_known => {
                let ctx = at(found.start);
                let wanted = "records of extents in use only";
                vol.sink.error(ctx.require("rmapbt.extra", false, wanted, describe(found)));
            }
            _ => {}
        },
    );
}

/// Merges the extents in use into the largest pieces.
fn merged(used: &[UsedExtent]) -> impl Iterator<Item = UsedExtent> {
    let mut rest = used.iter().peekable();
    std::iter::from_fn(move || {
        let mut whole = *rest.next()?;
        while let Some(next) = rest.next_if(|next| whole.takes_in(next)) {
            whole.len = whole.len.saturating_add(next.len);
        }
        Some(whole)
    })
}
