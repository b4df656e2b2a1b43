//! Free extents: the records of bnobt and cntbt, which must hold the same.

use std::cmp::Ordering;

use xfskit_format::agbtree::Block;
use xfskit_format::{Ctx, agf, alloc};
use xfskit_units::AgNumber;

use crate::extent::{Extent, valid_extent};
use crate::volume::Volume;

/// Adds the possible extents of a leaf to `into`.
pub(crate) fn collect(
    vol: &Volume<'_>,
    agno: AgNumber,
    block: &Block<'_>,
    ctx: &Ctx<'_>,
    into: &mut Vec<Extent>,
) {
    for (index, rec) in block.recs::<alloc::Rec>().iter().enumerate() {
        let (start, len) = (rec.startblock.get(), rec.blockcount.get());
        let valid = valid_extent(vol, agno, start, len);
        let found = || format!("{len} blocks from {start}");
        let id = block.tree.ids().rec;
        if valid {
            into.push(Extent { start, len });
        } else {
            let wanted = "an extent of the group after its headers";
            vol.sink.error(ctx.entry(index).require(id, false, wanted, found()));
        }
    }
}

/// Checks that extents neither overlap nor touch. `extents` is in the order of the bnobt.
pub(crate) fn check_order(vol: &Volume<'_>, agno: AgNumber, extents: &[Extent]) {
    for pair in extents.windows(2) {
        let [before, after] = pair else { continue };
        let end = u64::from(before.start) + u64::from(before.len);
        let id = match end.cmp(&after.start.into()) {
            Ordering::Less => continue,
            Ordering::Equal => "bnobt.adjacent",
            Ordering::Greater => "bnobt.overlap",
        };
        let ctx = vol.ctx(agf::location(&vol.geo, agno));
        let found = format!("{} blocks from {} before {}", before.len, before.start, after.start);
        vol.sink.error(ctx.require(id, false, "used blocks between free extents", found));
    }
}

/// Checks that both lists, sorted by block, have the same extents.
pub(crate) fn compare(vol: &Volume<'_>, agno: AgNumber, by_block: &[Extent], by_size: &[Extent]) {
    let (mut bno, mut cnt) = (by_block.iter().peekable(), by_size.iter().peekable());
    loop {
        let only_in = match (bno.peek(), cnt.peek()) {
            (None, None) => return,
            (Some(a), Some(b)) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        let (id, extent) = match only_in {
            Ordering::Equal => {
                bno.next();
                cnt.next();
                continue;
            }
            Ordering::Less => ("cntbt.missing", bno.next()),
            Ordering::Greater => ("cntbt.extra", cnt.next()),
        };
        let Some(extent) = extent else { return };
        let ctx = vol.ctx(agf::location(&vol.geo, agno));
        let found = format!("{} blocks from {}", extent.len, extent.start);
        vol.sink.error(ctx.require(id, false, "the same free extents in both btrees", found));
    }
}
