//! Kept images that the kernel filled, and damage of them.

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_core::{OpenOptions, Volume};
use xfskit_locate::{AgRange, Found, Options, Owned, Owner, owners};
use xfskit_test_support::kept;
use xfskit_units::{AgNumber, ByteOffset};

/// Returns the kept image `name`, which can be damaged.
pub(crate) fn device(name: &str) -> Arc<dyn BlockDevice> {
    kept::device(name)
}

pub(crate) fn open(dev: &Arc<dyn BlockDevice>) -> Volume {
    Volume::open(Arc::clone(dev), &OpenOptions::default()).unwrap()
}

/// Returns the owners of all blocks, by group.
pub(crate) fn all(volume: &Volume, scan: bool) -> Found {
    let geo = volume.geo();
    let ranges: Vec<AgRange> =
        geo.ags().map(|agno| AgRange { agno, blocks: 0..geo.ag_length(agno) }).collect();
    owners(volume, &ranges, &Options { threads: 2, scan, ..Options::default() })
}

/// Returns the owners of one block.
pub(crate) fn at(volume: &Volume, agno: AgNumber, agbno: u32) -> Vec<Owned> {
    let range = AgRange { agno, blocks: agbno..agbno + 1 };
    owners(volume, &[range], &Options::default()).owned.remove(0)
}

/// Fails unless every block has an owner, of which there is one except for shared content.
pub(crate) fn verify_tiling(volume: &Volume, found: &Found) {
    for (agno, owned) in volume.geo().ags().zip(&found.owned) {
        let mut covered = 0;
        for run in owned {
            assert!(run.agno == agno && run.start.0 <= covered, "a gap before {run:?}");
            let is_extent = matches!(run.owner, Owner::Extent { .. });
            assert!(run.start.0 == covered || is_extent, "{run:?} has blocks of another owner");
            covered = covered.max(run.end());
        }
        assert_eq!(covered, volume.geo().ag_length(agno), "{agno:?}");
    }
}

/// Inverts a byte.
pub(crate) fn damage(dev: &Arc<dyn BlockDevice>, offset: ByteOffset) {
    let mut byte = [0];
    dev.read_at(offset, &mut byte).unwrap();
    dev.write_at(offset, &[!byte[0]]).unwrap();
}
