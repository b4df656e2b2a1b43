//! The smallest volume for a tree, with a requested amount of free space.

use xfskit_mkfs::{DeviceFacts, Options, Plan, Stamp, plan};
use xfskit_units::ByteLen;

use super::BuildError;
use super::blueprint::Blueprint;
use crate::source::{Kind, Tree};

const MIB: u64 = 1 << 20;
/// The smallest volume: two groups, because `xfs_repair` compares one with the other.
const SMALLEST: u64 = 32 * MIB;
/// Number of sizes that are tried.
const TRIES: usize = 40;

/// Free space that a volume should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// A fraction of the volume, in percent, at most 99.
    Percent(u8),
    /// A number of bytes.
    Bytes(u64),
}

impl Free {
    fn bytes(self, size: u64) -> u64 {
        match self {
            Self::Percent(percent) => size / 100 * u64::from(percent),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns the growth of a volume for this many more bytes, including their free space.
    fn grown(self, bytes: u64) -> u64 {
        match self {
            Self::Percent(percent) => bytes.saturating_mul(100) / u64::from(100 - percent.min(99)),
            Self::Bytes(_) => bytes,
        }
    }
}

/// Plans the smallest volume, in steps of a mebibyte or a thousandth, that has `tree` and `free` in
/// it. `facts` are those of a file; its size does not matter.
///
/// # Errors
/// [`BuildError::Mkfs`] if the options do not fit each other, and as [`Blueprint::new`].
pub fn fit(
    tree: &Tree,
    options: &Options,
    facts: &DeviceFacts,
    stamp: Stamp,
    free: Free,
) -> Result<Plan, BuildError> {
    let step = |size: u64| size.next_multiple_of((size / 1024).next_power_of_two().max(MIB));
    let mut size = step(free.grown(content(tree)?.saturating_add(free.bytes(0))).max(SMALLEST));
    let mut last = None;
    for _ in 0..TRIES {
        let sized = DeviceFacts { size: ByteLen(size), ..facts.clone() };
        let plan = match plan(options, &sized, stamp) {
            Ok(plan) => plan,
            // The size is too small for the options, but a larger one may do.
            Err(error) if size > 1 << 40 => return Err(error.into()),
            Err(error) => {
                last = Some(error.into());
                size = step(size + size / 4);
                continue;
            }
        };
        let missing = match Blueprint::new(tree, &plan) {
            Ok(blueprint) => free.bytes(size).saturating_sub(blueprint.free_bytes()),
            Err(BuildError::NoSpace { more }) => {
                last = Some(BuildError::NoSpace { more });
                more.max(MIB)
            }
            Err(error) => return Err(error),
        };
        if missing == 0 {
            return Ok(plan);
        }
        size = step(size + free.grown(missing).max(size / 256));
    }
    Err(last.unwrap_or(BuildError::NoSpace { more: 0 }))
}

/// Returns an estimate of the bytes of `tree`, rather too low.
fn content(tree: &Tree) -> Result<u64, BuildError> {
    let mut bytes = tree.len() as u64 * 512;
    for id in tree.ids() {
        if matches!(tree.node(id).kind, Kind::File { .. }) {
            bytes += tree.segments(id)?.iter().map(|segment| segment.len).sum::<u64>();
        }
    }
    Ok(bytes)
}
