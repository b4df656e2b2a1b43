//! Dead entries of directories: those in use, and blocks of removed ones in free space.

use parking_lot::Mutex;
use xfskit_core::chunks::Entry;
use xfskit_core::{Error, Result, Volume};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::{Fork, bytes};
use xfskit_units::{Daddr, FileOff, Ino, Lsn, index};

use crate::journal::Step;
use crate::names::{Hint, Named, of_block, of_short_form};
use crate::twins::Twins;
use xfskit_core::Warnings;

/// Adds the names in dead entries of all directories, and passes all inodes in use to `twins`.
/// Returns false if `step` ended the walk.
pub(crate) fn in_use(
    volume: &Volume,
    (named, twins): (&mut Named<'_>, &mut Twins),
    warnings: &mut Warnings,
    step: &(dyn Fn(u64, u64) -> std::ops::ControlFlow<()> + Sync),
) -> bool {
    let counts = volume.counts();
    let total = counts.icount.saturating_sub(counts.ifree);
    let state = Mutex::new((named, twins, warnings, 0u64, false));
    let visit = |entries: &[Entry<'_>]| {
        let (named, twins, warnings, visited, stopped) = &mut *state.lock();
        for entry in entries {
            let Ok(inode) = &entry.inode else { continue };
            twins.take(volume, entry.ino, inode);
            if inode.is_dir()
                && let Err(error) = directory(volume, entry.ino, inode, named)
            {
                warnings.add(error);
            }
        }
        *visited = visited.saturating_add(entries.len() as u64);
        let next = step(*visited, total);
        *stopped = next.is_break();
        next
    };
    // Group by group, so that a damaged inobt hides no other.
    for agno in volume.geo().ags() {
        let walked = volume.bulkstat_groups([agno], 1, visit);
        let (_, _, warnings, _, stopped) = &mut *state.lock();
        if let Err(error) = walked {
            warnings.add(error);
        }
        if *stopped {
            return false;
        }
    }
    true
}

/// Adds the names in dead entries of one directory.
fn directory(volume: &Volume, ino: Ino, inode: &Dinode<'_>, named: &mut Named<'_>) -> Result<()> {
    let geo = volume.geo();
    if inode.format() == Some(Format::Local) {
        let unused = inode.data_fork().get(index(inode.size().0)..).unwrap_or(&[]);
        of_short_form(unused, geo, &mut |entry| {
            named.add(Hint::new(&entry, Some(ino), Lsn::NONE));
        });
        return Ok(());
    }
    let extents = volume.extents_of(inode, ino, Fork::Data)?;
    let per_block = u64::from(geo.dirblkfsbs()).max(1);
    let end = FileOff(geo.dir_leafblk().0.into());
    for extent in extents.as_slice().iter().filter(|extent| extent.startoff < end) {
        let first = extent.startoff.0.next_multiple_of(per_block);
        for start in (first..extent.end().0.min(end.0)).step_by(index(per_block)) {
            let mut block = vec![0; geo.dirblksize()];
            for (n, part) in (start..).zip(block.chunks_exact_mut(geo.blocksize())) {
                let mapped = extents.lookup(FileOff(n));
                let place = mapped.and_then(|extent| extent.block_at(FileOff(n)));
                let Some(place) = place.and_then(|block| geo.fsb_to_byte(block)) else { break };
                volume.device().read_at(place, part).map_err(Error::from)?;
            }
            of_block(&block, geo, false, &mut |entry| {
                named.add(Hint::new(&entry, Some(ino), Lsn::NONE));
            });
        }
    }
    Ok(())
}

/// Adds the names in directory blocks in free space. Returns false if `step` ended the walk.
pub(crate) fn removed(
    volume: &Volume,
    blocks: &[Daddr],
    named: &mut Named<'_>,
    warnings: &mut Warnings,
    step: &Step<'_>,
) -> bool {
    let geo = volume.geo();
    for (done, daddr) in (1u64..).zip(blocks) {
        let mut block = vec![0; geo.dirblksize()];
        let start = daddr.byte_offset();
        let left = index(geo.data_bytes().0.saturating_sub(start.0)).min(block.len());
        if let Err(error) = volume.device().read_at(start, &mut block[..left]) {
            warnings.add(Error::from(error));
        } else {
            let owner = bytes::be64(&block, 40).map(Ino);
            of_block(&block, geo, true, &mut |entry| {
                named.add(Hint::new(&entry, owner, Lsn::NONE));
            });
        }
        if step(done, blocks.len() as u64).is_break() {
            return false;
        }
    }
    true
}
