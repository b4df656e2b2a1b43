//! The refcountbt: each record by itself, and all records against the blocks that files share.

use xfskit_format::agbtree::Block;
use xfskit_format::{Ctx, Location, refcount};
use xfskit_units::{AgBlock, AgNumber};

use crate::extent::{Extent, valid_extent};
use crate::merge::merge;
use crate::volume::Volume;

/// Blocks that `refcount` extents of files map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    pub start: u32,
    pub len: u32,
    pub refcount: u32,
}

impl Shared {
    /// Returns the record.
    pub(crate) fn record(&self) -> refcount::Rec {
        refcount::Rec {
            startblock: self.start.into(),
            blockcount: self.len.into(),
            refcount: self.refcount.into(),
        }
    }
}

/// The records of a tree.
pub(crate) struct Found {
    pub shared: Vec<Shared>,
    /// Staging extents of copy-on-write.
    pub staging: Vec<Extent>,
    /// False if a record is impossible.
    pub sound: bool,
    last: Option<(u64, u64, u32)>,
}

impl Default for Found {
    fn default() -> Self {
        Self { shared: Vec::new(), staging: Vec::new(), sound: true, last: None }
    }
}

/// Adds the records of a leaf to `into`.
pub(crate) fn collect(
    vol: &Volume<'_>,
    agno: AgNumber,
    block: &Block<'_>,
    ctx: &Ctx<'_>,
    into: &mut Found,
) {
    for (index, rec) in block.recs::<refcount::Rec>().iter().enumerate() {
        let ctx = ctx.entry(index);
        let (start, len, count) = (rec.start().0, rec.blockcount.get(), rec.refcount.get());
        let wanted = "an extent of the group after its headers";
        let valid = valid_extent(vol, agno, start, len);
        let found = format!("{len} blocks from {start}");
        let mut sound = vol.sink.error(ctx.require("refcountbt.rec", valid, wanted, found));
        if rec.is_cow() {
            sound &= vol.sink.error(ctx.eq("refcountbt.cow", 1, count));
        } else {
            sound &= vol.sink.error(ctx.at_least("refcountbt.refcount", 2, count));
        }
        check_neighbours(vol, &ctx, rec, into);
        into.sound &= sound;
        if !valid {
            continue;
        }
        if rec.is_cow() {
            into.staging.push(Extent { start, len });
            if vol.log_clean {
                let found = format!("{len} blocks from {start}");
                let id = "refcountbt.cow-leftover";
                vol.sink.error(ctx.require(id, false, "no staging on a clean volume", found));
            }
        } else {
            into.shared.push(Shared { start, len, refcount: count });
        }
    }
}

/// Checks that records do not overlap, and that neighbours that could be one record are one.
fn check_neighbours(vol: &Volume<'_>, ctx: &Ctx<'_>, rec: &refcount::Rec, into: &mut Found) {
    let (start, count) = (u64::from(rec.startblock.get()), rec.refcount.get());
    let end = start + u64::from(rec.blockcount.get());
    if let Some((last_start, last_end, last_count)) = into.last {
        let apart = last_end <= start;
        let wanted = "a start behind the record before";
        vol.sink.error(ctx.require("refcountbt.overlap", apart, wanted, start));
        let same = last_end == start && last_count == count;
        let domains = (last_start ^ start) & u64::from(refcount::COW_FLAG) != 0;
        let longest = end.saturating_sub(last_start) > u64::from(u32::MAX);
        let wanted = "one record for neighbours with one count";
        let merged = !same || domains || longest;
        vol.sink.error(ctx.require("refcountbt.adjacent", merged, wanted, start));
    }
    into.last = Some((start, end, count));
}

/// Checks that the tree has exactly the shared extents. Unless `forks_known`, records for which
/// fewer files were found are not checked.
pub(crate) fn compare(
    vol: &Volume<'_>,
    agno: AgNumber,
    shares: &[Shared],
    records: &[Shared],
    forks_known: bool,
) {
    let at = |start| {
        let daddr = vol.geo.agb_to_daddr(agno, AgBlock(start));
        let at = Location::of("refcountbt").ag(agno).agb(AgBlock(start));
        vol.ctx(at.daddr(daddr, vol.geo.block_sectors()))
    };
    let describe = |s: &Shared| format!("{} blocks, {} times", s.len, s.refcount);
    let pair = |due: Option<&Shared>, found: Option<&Shared>| {
        if due == found || (!forks_known && due.map(|d| d.refcount) < found.map(|f| f.refcount)) {
            return;
        }
        let (start, id) = match (due, found) {
            (Some(due), Some(_)) => (due.start, "refcountbt.count"),
            (Some(due), None) => (due.start, "refcountbt.missing"),
            (None, Some(found)) => (found.start, "refcountbt.extra"),
            (None, None) => return,
        };
        let expected = due.map_or_else(|| "nothing shared".to_owned(), describe);
        let found = found.map_or_else(|| "nothing".to_owned(), describe);
        let expected = xfskit_format::Expected::Described(expected.into());
        vol.sink.error(Err(at(start).corruption(id, expected, found)));
    };
    merge(shares, records, |s| s.start, |s| s.start, pair);
}
