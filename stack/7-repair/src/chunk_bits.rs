//! Records of inode chunks that a repair replaces.

use xfskit_check::KnownChunks;
use xfskit_format::inobt::INODES_PER_CHUNK;
use xfskit_units::Ino;

use crate::view::View;

/// Marks inode `ino` as in use or as free in the records of its group, all of which become those of
/// the next survey.
pub(crate) fn set(view: View<'_>, known: &mut KnownChunks, ino: Ino, used: bool) {
    let Some((agno, agino)) = view.geo.ino_split(ino) else { return };
    let Some(group) = view.survey.groups.iter().find(|group| group.agno == agno) else { return };
    let chunks = known.entry(agno).or_insert_with(|| group.chunks.clone());
    let behind = chunks.partition_point(|chunk| chunk.startino <= agino);
    let Some(chunk) = behind.checked_sub(1).and_then(|at| chunks.get_mut(at)) else { return };
    let Some(bit) = agino.since(chunk.startino).filter(|bit| *bit < INODES_PER_CHUNK) else {
        return;
    };
    if used {
        chunk.free &= !(1 << bit);
    } else {
        chunk.free |= 1 << bit;
    }
    chunk.freecount = (chunk.present() & chunk.free).count_ones();
}
