//! Reading ahead: what will be read is announced to the device, so that it has many requests at
//! once, in the order of the disk.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use xfskit_block::BlockDevice;
use xfskit_format::bmbt::Extent;
use xfskit_units::{ByteLen, ByteOffset, Geometry};

/// Bytes of one directory that are announced at most: the rest is read in sequence.
const DIRECTORY_MAX: u64 = 1 << 20;
/// Bytes of all directories that are announced at most, so that they are still in memory when they
/// are read.
const DIRECTORIES_MAX: u64 = 256 << 20;

/// Announces directories while their inodes are read. The phase that reads them follows.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// Bytes announced so far.
    announced: AtomicU64,
}

impl ReadAhead {
    /// Announces the content of a directory with this map.
    pub(crate) fn directory(&self, dev: &dyn BlockDevice, geo: &Geometry, map: &[Extent]) {
        let mut left = DIRECTORY_MAX;
        for run in runs(geo, map) {
            let len = (run.end - run.start).min(left);
            left -= len;
            let before = self.announced.fetch_add(len, Ordering::Relaxed);
            if len == 0 || before.saturating_add(len) > DIRECTORIES_MAX {
                return;
            }
            dev.will_need(ByteOffset(run.start), ByteLen(len));
        }
    }
}

/// Returns the ranges of a map in bytes of the device, in file order. Neighbours are joined.
fn runs(geo: &Geometry, map: &[Extent]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for extent in map {
        let Some(start) = geo.fsb_to_byte(extent.startblock) else { continue };
        let len = extent.blockcount.0.saturating_mul(geo.blocksize() as u64);
        let end = start.0.saturating_add(len);
        match runs.last_mut() {
            Some(last) if last.end == start.0 => last.end = end,
            _ => runs.push(start.0..end),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use std::time::Duration;

    use xfskit_block::{LimitedDevice, MemDevice};
    use xfskit_units::{FilBlks, FileOff, FsBlock, example};

    use super::*;

    fn extent(startoff: u64, startblock: u64, blockcount: u64) -> Extent {
        let (startoff, startblock) = (FileOff(startoff), FsBlock(startblock));
        Extent { startoff, startblock, blockcount: FilBlks(blockcount), unwritten: false }
    }

    #[test]
    fn neighbours_are_announced_together() {
        let geo = example::geometry();
        let block = geo.blocksize() as u64;
        let map = [extent(0, 100, 1), extent(1, 101, 2), extent(9, 300, 1)];
        assert_eq!(runs(&geo, &map), [100 * block..103 * block, 300 * block..301 * block]);
    }

    #[test]
    fn directories_are_announced_up_to_a_bound() {
        let geo = example::geometry();
        let base = Arc::new(MemDevice::new(ByteLen(1 << 30)));
        let dev = LimitedDevice::new(base, u64::MAX, Duration::ZERO);
        let ahead = ReadAhead::default();
        ahead.directory(&dev, &geo, &[extent(0, 100, 3), extent(3, 200, 1)]);
        assert_eq!(dev.transferred(), ByteLen(4 << geo.blocklog));
        // A map that claims all blocks of a group, because it is damaged.
        let before = dev.transferred().0;
        ahead.directory(&dev, &geo, &[extent(0, 1 << 16, 65_536), extent(65_536, 0, 1)]);
        assert_eq!(dev.transferred().0, before + DIRECTORY_MAX);
        for n in 0..2 * DIRECTORIES_MAX / DIRECTORY_MAX {
            ahead.directory(&dev, &geo, &[extent(0, (1 << 17) + n * 256, 256)]);
        }
        let announced = DIRECTORIES_MAX - DIRECTORY_MAX..=DIRECTORIES_MAX;
        assert!(announced.contains(&dev.transferred().0), "{:?}", dev.transferred());
    }
}
