//! Checkers for directories and attribute trees in memory: every verifier, and the references
//! between blocks. Both code that changes trees and code that builds them whole are tested by them.

pub mod attr;
pub mod dir;

use xfskit_units::features::Incompat;
use xfskit_units::{Features, Geometry, example};

/// Returns a volume with parent pointers and blocks of `1 << blocklog` bytes.
pub fn geo(blocklog: u8) -> Geometry {
    let example = example::geometry();
    let features = Features { incompat: Incompat::from_bits_retain(0xeb), ..example.features };
    Geometry { features, blocklog, inopblog: blocklog - 9, ..example }
}
