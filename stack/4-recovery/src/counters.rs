//! The superblock's counters.
//!
//! With lazy counters the journal does not contain the numbers of free inodes and blocks. After a
//! replay they are summed up from the group headers. If a header is corrupt the counters stay as
//! they are, and a check reports it.

use xfskit_format::agf::{self, Agf};
use xfskit_format::agi::{self, Agi};
use xfskit_format::log::Stamp;
use xfskit_format::sb::Superblock;
use xfskit_format::{Ctx, Location};
use xfskit_units::{AgNumber, Daddr};
use zerocopy::FromBytes;

use crate::error::Result;
use crate::pass::Pass;

/// Sums of all groups.
#[derive(Debug, Default)]
struct Sums {
    icount: u64,
    ifree: u64,
    fdblocks: u64,
    unlinked_lists: u64,
}

/// Writes the counters that the group headers add up to. Returns the number of unlinked lists that
/// are not empty.
pub(crate) fn rebuild(pass: &mut Pass<'_>) -> Result<u64> {
    let mut sums = Sums::default();
    for agno in pass.geo.ags() {
        if !add_group(pass, agno, &mut sums)? {
            return Ok(sums.unlinked_lists);
        }
    }
    if pass.geo.features.lazysbcount() {
        write(pass, &sums)?;
    }
    Ok(sums.unlinked_lists)
}

/// Adds the counters of group `agno`; returns `false` if one of its headers is corrupt.
fn add_group(pass: &Pass<'_>, agno: AgNumber, sums: &mut Sums) -> Result<bool> {
    let geo = &pass.geo;
    let read = |at: Location| pass.queue.read(at.daddr.unwrap_or_default(), at.sectors);
    let (at_agf, at_agi) = (agf::location(geo, agno), agi::location(geo, agno));
    let (agf, agi) = (read(at_agf)?, read(at_agi)?);
    let (Ok(agf), Ok(agi)) = (
        Agf::verify(&agf, &Ctx::new(geo, at_agf), agno),
        Agi::verify(&agi, &Ctx::new(geo, at_agi), agno),
    ) else {
        return Ok(false);
    };
    sums.icount += u64::from(agi.count.get());
    sums.ifree += u64::from(agi.freecount.get());
    let free = [agf.freeblks, agf.flcount, agf.btreeblks];
    sums.fdblocks += free.iter().map(|n| u64::from(n.get())).sum::<u64>();
    let lists = agi.unlinked.iter().filter(|head| head.get() != u32::MAX);
    sums.unlinked_lists += lists.count() as u64;
    Ok(true)
}

/// Stores the sums in the primary superblock, whose LSN stays.
fn write(pass: &mut Pass<'_>, sums: &Sums) -> Result<()> {
    let sectors = pass.geo.sect_sectors();
    let mut sector = pass.queue.read(Daddr(0), sectors)?;
    let stamp = Stamp::of(&sector, &pass.geo);
    let lsn = stamp.map(|stamp| stamp.lsn(&sector));
    if let Ok((sb, _)) = Superblock::mut_from_prefix(&mut sector) {
        sb.icount = sums.icount.into();
        sb.ifree = sums.ifree.into();
        sb.fdblocks = sums.fdblocks.into();
    }
    if let (Some(stamp), Some(lsn)) = (stamp, lsn) {
        stamp.write(&mut sector, lsn);
    }
    pass.queue.change(Daddr(0), &sector, 0..sector.len());
    pass.flush()
}
