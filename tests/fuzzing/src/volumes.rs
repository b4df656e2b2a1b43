//! The volumes of decoder inputs: those of the kept images.

use std::sync::OnceLock;

use xfskit_format::sb::Superblock;
use xfskit_test_support::kept;
use xfskit_units::{AgNumber, Geometry};

/// Kept images whose blocks seed the decoders, in the order in which an input selects them.
pub const NAMES: [&str; 4] = ["v5", "v5-1k", "v4", "v5-dirty"];

fn geometries() -> &'static [Geometry] {
    static GEOMETRIES: OnceLock<Vec<Geometry>> = OnceLock::new();
    GEOMETRIES.get_or_init(|| {
        let geometry = |name: &&str| {
            let bytes = kept::unpack(name);
            Superblock::verify(&bytes[..512], AgNumber(0)).expect("a good image").geometry()
        };
        NAMES.iter().map(geometry).collect()
    })
}

/// Returns the volume that `choice` selects, and whether CRCs are to be recomputed.
pub fn pick(choice: u8) -> (Geometry, bool) {
    let geo = &geometries()[usize::from(choice) % NAMES.len()];
    (geo.clone(), choice & 0x80 == 0)
}
