//! The fuzz targets: decoders, whole images, journals, archives, disks and arrays, and batches of
//! changes to damaged volumes. docs/fuzzing.md describes how they run and what they found.
//!
//! Each target is a plain function over bytes, shared by libFuzzer (`tests/fuzz`, `make fuzz`) and
//! the replay of the kept corpus in `make test` (`tests/corpus.rs`). A target must not panic, hang
//! or allocate without bound, whatever the bytes.
//!
//! The first byte of a decoder's input selects the volume (version 4 or 5, block size), and whether
//! the CRC is recomputed before decoding: otherwise only the CRC check would be tested.
//!
//! | module | contents |
//! | --- | --- |
//! | [`decoders`] | every family of structures of `1-format` |
//! | [`image`] | opens, walks and checks a damaged image |
//! | [`journal`] | replays a damaged journal |
//! | [`batch`] | changes a damaged volume |
//! | [`archive`] | copies tar archives into volumes |
//! | [`arrays`] | md superblocks, and sets of members |
//! | [`disk`] | partition tables and LVM |
//! | [`change`] | changes of a few bytes, as inputs list them |
//! | [`kept`] | the corpus in the repository |

pub mod archive;
pub mod arrays;
pub mod batch;
pub mod change;
pub mod decoders;
pub mod disk;
pub mod image;
pub mod journal;
pub mod kept;
pub mod volumes;

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_test_support::Random;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target, and of its folder in the corpus.
    pub name: &'static str,
    /// Runs one input.
    pub run: fn(&[u8]),
    /// Returns the seeds.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Weight: its share of a long run, relative to the sum over all targets.
    pub weight: u32,
    /// Length of its longest input, in bytes.
    pub max_len: u32,
}

macro_rules! decoders {
    ($($name:ident $weight:literal $max_len:literal),*) => {
        [$(Target {
            name: stringify!($name),
            run: decoders::$name,
            seeds: || decoders::seeds(stringify!($name)),
            weight: $weight,
            max_len: $max_len,
        }),*]
    };
}

/// The decoders of `1-format`.
pub const DECODERS: [Target; 8] = decoders![
    superblock 3 513, ag_headers 3 513, agbtree 3 4097, inode 3 513, bmbt 3 4097, dir 3 4097,
    attr 3 4097, log 3 8193
];

/// All other targets.
pub const SYSTEMS: [Target; 7] = [
    whole("image", image::open_walk_check, image::seeds, 8, 113),
    whole("journal", journal::replay, journal::seeds, 24, 97),
    whole("batch", batch::run, batch::seeds, 32, 236),
    whole("archive", archive::read, archive::seeds, 10, 8193),
    whole("md_superblock", arrays::superblocks, arrays::superblock_seeds, 3, 4097),
    whole("md_set", arrays::assembly, arrays::assembly_seeds, 8, 114),
    whole("disk", disk::parts, disk::seeds, 4, 8193),
];

const fn whole(
    name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
    weight: u32,
    max_len: u32,
) -> Target {
    Target { name, run, seeds, weight, max_len }
}

/// Returns every target.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    DECODERS.iter().chain(&SYSTEMS)
}

/// Returns the damaged volume of an input of the target `name`, before anything runs on it; `None`
/// if the input or the target has none.
pub fn damaged(name: &str, data: &[u8]) -> Option<Arc<dyn BlockDevice>> {
    match name {
        "image" => image::damaged(data),
        "journal" => journal::damaged(data),
        "batch" => batch::damaged(data),
        _ => None,
    }
}

/// Returns `seed` with a few bytes changed: flipped bits, boundary values, copied ranges.
pub fn mutate(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    if bytes.is_empty() {
        return bytes;
    }
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => {
                let end = (at + 1 + random.below(8)).min(bytes.len());
                bytes[at..end].fill(random.pick(&[0, 0xff]));
            }
            3 => {
                let from = random.below(bytes.len());
                let len = (1 + random.below(16)).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
            4 => bytes[at] = bytes[at].wrapping_add(1),
            _ => bytes[at] = random.byte(),
        }
    }
    if random.below(16) == 0 {
        bytes.truncate(random.below(bytes.len()));
    }
    bytes
}
