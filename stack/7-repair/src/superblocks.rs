//! The primary superblock, its copies, and the counters.

use xfskit_block::BlockDevice;
use xfskit_format::agf::{self, Agf};
use xfskit_format::agi::{self, Agi};
use xfskit_format::sb::{self, Superblock};
use xfskit_units::features::Incompat;
use xfskit_units::{AgNumber, ByteOffset, Daddr, Geometry};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::Result;

/// Returns `sb` with the counters that the groups on `dev` give, without the mark that a repair is
/// due, and without features of the journal, which is clean.
pub(crate) fn counted(
    dev: &dyn BlockDevice,
    geo: &Geometry,
    sb: &Superblock,
) -> Result<Superblock> {
    let (mut icount, mut ifree, mut fdblocks) = (0u64, 0u64, 0u64);
    let mut sector = vec![0; geo.sectsize()];
    for agno in geo.ags() {
        read(dev, agf::location(geo, agno).daddr, &mut sector)?;
        if let Ok((agf, _)) = Agf::ref_from_prefix(&sector) {
            let free = [agf.freeblks, agf.flcount, agf.btreeblks];
            fdblocks += free.iter().map(|blocks| u64::from(blocks.get())).sum::<u64>();
        }
        read(dev, agi::location(geo, agno).daddr, &mut sector)?;
        if let Ok((agi, _)) = Agi::ref_from_prefix(&sector) {
            icount += u64::from(agi.count.get());
            ifree += u64::from(agi.freecount.get());
        }
    }
    let mut sb = sb.clone();
    (sb.icount, sb.ifree, sb.fdblocks) = (icount.into(), ifree.into(), fdblocks.into());
    sb.features_log_incompat = 0.into();
    Ok(without_mark(&sb))
}

fn read(dev: &dyn BlockDevice, at: Option<Daddr>, sector: &mut [u8]) -> xfskit_block::Result<()> {
    at.map_or(Ok(()), |at| dev.read_at(at.byte_offset(), sector))
}

/// Returns `sb` marked so that Linux refuses the volume until it is repaired.
pub(crate) fn with_mark(sb: &Superblock) -> Superblock {
    let mut sb = sb.clone();
    sb.features_incompat = (sb.features_incompat.get() | Incompat::NEEDSREPAIR.bits()).into();
    sb
}

/// Returns true if `sector` is a superblock that is marked so.
pub(crate) fn is_marked(sector: &[u8]) -> bool {
    let sb = Superblock::parse(sector).filter(|sb| sb.magicnum.get() == sb::MAGIC);
    sb.is_some_and(is_due)
}

/// Returns true if `sb` says that a repair is due.
pub(crate) fn is_due(sb: &Superblock) -> bool {
    sb.features_incompat.get() & Incompat::NEEDSREPAIR.bits() != 0
}

/// Returns `sb` without that mark.
pub(crate) fn without_mark(sb: &Superblock) -> Superblock {
    let mut sb = sb.clone();
    sb.features_incompat = (sb.features_incompat.get() & !Incompat::NEEDSREPAIR.bits()).into();
    sb
}

/// Returns the sector of a superblock.
pub(crate) fn sector(geo: &Geometry, sb: &Superblock) -> Vec<u8> {
    let mut sector = vec![0; geo.sectsize()];
    let bytes = sb.as_bytes();
    let len = bytes.len().min(sector.len());
    sector[..len].copy_from_slice(&bytes[..len]);
    xfskit_crc::update(&mut sector, sb::CRC_OFFSET);
    sector
}

/// Writes the superblock of group `agno`.
pub(crate) fn write(
    dev: &dyn BlockDevice,
    geo: &Geometry,
    agno: AgNumber,
    sb: &Superblock,
) -> Result<()> {
    let at = sb::location(geo, agno).daddr.map_or(ByteOffset(0), Daddr::byte_offset);
    Ok(dev.write_at(at, &sector(geo, sb))?)
}

/// Returns true if the primary on `dev` is sound by itself.
pub(crate) fn is_primary_sound(dev: &dyn BlockDevice, geo: &Geometry) -> Result<bool> {
    let mut sector = vec![0; geo.sectsize()];
    dev.read_at(ByteOffset(0), &mut sector)?;
    Ok(Superblock::verify(&sector, AgNumber(0)).is_ok())
}
