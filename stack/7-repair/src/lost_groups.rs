//! Content of files that is lost with a group.
//!
//! No checksum covers content. Where the headers of a group are gone, and each block of content in
//! it reads as zeroes, the content is gone as well: a file that has some there is a loss. A single
//! block with other bytes shows that only the headers are lost.

use std::collections::BTreeMap;

use xfskit_block::BlockDevice;
use xfskit_check::{Finding, GroupSurvey};
use xfskit_format::inode::Dinode;
use xfskit_format::rmap;
use xfskit_units::{AgNumber, ByteLen, Geometry, Ino, index};

use crate::error::Result;

/// Findings of a group whose headers are gone.
const HEADERS: [&str; 2] = ["agf.magicnum", "agi.magicnum"];
/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// Returns the files whose content in a group is lost with it.
pub(crate) fn losses(
    dev: &dyn BlockDevice,
    geo: &Geometry,
    group: &GroupSurvey,
    findings: &[Finding],
) -> Result<Vec<String>> {
    let is_found = |id: &&str| findings.iter().any(|finding| finding.corruption.check.0 == *id);
    if !HEADERS.iter().all(is_found) {
        return Ok(Vec::new());
    }
    let agno = group.agno;
    let mut blocks: BTreeMap<Ino, u64> = BTreeMap::new();
    for rec in group.owners.load()?.iter().filter(|rec| is_written_data(rec)) {
        let ino = Ino(rec.owner.get());
        if !blocks.contains_key(&ino) && !is_regular(dev, geo, ino)? {
            continue;
        }
        if !is_zero(dev, geo, agno, rec)? {
            return Ok(Vec::new());
        }
        *blocks.entry(ino).or_default() += u64::from(rec.len().0);
    }
    let lost = blocks.into_iter().map(|(ino, blocks)| {
        format!("content of inode {ino}: {blocks} blocks in group {agno}, which are zeroes now")
    });
    Ok(lost.collect())
}

fn is_written_data(rec: &rmap::Rec) -> bool {
    let others = rmap::OFF_ATTR_FORK | rmap::OFF_BMBT_BLOCK | rmap::OFF_UNWRITTEN;
    rec.inode().is_some() && rec.offset.get() & others == 0
}

fn is_regular(dev: &dyn BlockDevice, geo: &Geometry, ino: Ino) -> Result<bool> {
    let Some(at) = geo.ino_to_byte(ino) else { return Ok(false) };
    let mut bytes = vec![0; geo.inodesize()];
    dev.read_at(at, &mut bytes)?;
    Ok(Dinode::parse(&bytes, geo).is_some_and(|inode| inode.is_regular()))
}

/// Returns true if all bytes of an extent are zero.
fn is_zero(dev: &dyn BlockDevice, geo: &Geometry, agno: AgNumber, rec: &rmap::Rec) -> Result<bool> {
    let start = geo.agb_to_daddr(agno, rec.start()).byte_offset();
    let len = u64::from(rec.len().0) << geo.blocklog;
    let mut bytes = vec![0; index(len.min(PIECE))];
    for done in (0..len).step_by(index(PIECE)) {
        let part = &mut bytes[..index(PIECE.min(len - done))];
        dev.read_at(start.saturating_plus(ByteLen(done)), part)?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
