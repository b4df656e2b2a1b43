//! Random operations of one thread: the volume behaves like the model, whatever its features.

use xfskit_mkfs::minlog::min_log_blocks;
use xfskit_test_model::drawn::{self, DrawnOp, OpMix};
use xfskit_test_model::ours::Difference;
use xfskit_test_model::run::{Pair, VolumeSpec, make, open};
use xfskit_test_model::shrink;
use xfskit_test_support::{long, seeds};

const MIXED: OpMix = OpMix { names: 60, content: 40_000, value: 3000, removals: 25 };
const CROWDED: OpMix = OpMix { names: 4000, content: 2000, value: 300, removals: 15 };

fn run(spec: VolumeSpec, ops: &[DrawnOp]) -> Result<(), Difference> {
    let mut pair = Pair::new(spec);
    for (n, op) in ops.iter().enumerate() {
        pair.step(op).map_err(|what| format!("operation {n} {op:?}: {what}"))?;
    }
    pair.compare()?;
    pair.close()
}

fn agree(spec: VolumeSpec, mix: OpMix, seed: u64, count: usize) {
    shrink::agree(seed, &drawn::draw(seed, count, mix), |ops| run(spec, ops));
}

const PLAIN: VolumeSpec = VolumeSpec::of(
    &[("-m", "rmapbt=0,reflink=0,finobt=0"), ("-i", "sparse=0,nrext64=0")],
    64 << 20,
);
const FULL: VolumeSpec = VolumeSpec::of(&[], 64 << 20);
const EVERYTHING: VolumeSpec =
    VolumeSpec::of(&[("-n", "parent=1"), ("-i", "exchange=1")], 64 << 20);
const SMALL_BLOCKS: VolumeSpec =
    VolumeSpec::of(&[("-b", "size=1024"), ("-i", "exchange=1")], 64 << 20);
const LARGE_DIRECTORY_BLOCKS: VolumeSpec =
    VolumeSpec::of(&[("-b", "size=1024"), ("-n", "size=65536"), ("-m", "rmapbt=0")], 64 << 20);

#[test]
fn these_volumes_have_the_smallest_journals_that_linux_accepts() {
    // Each transaction of these tests therefore fits into the smallest journal.
    for spec in [PLAIN, FULL, EVERYTHING, SMALL_BLOCKS, LARGE_DIRECTORY_BLOCKS] {
        let fs = open(make(spec));
        let geo = fs.volume().geo();
        assert_eq!(u64::from(geo.logblocks), min_log_blocks(geo), "{spec:?}");
    }
}

/// Returns the seeds to run: a few, or many more in the long run.
fn seeds_from(first: u64, count: u64) -> impl Iterator<Item = u64> {
    seeds(first..first + if long() { 20 * count } else { count })
}

#[test]
fn a_plain_volume_matches_the_model() {
    seeds_from(0, 3).for_each(|seed| agree(PLAIN, MIXED, seed, 500));
}

#[test]
fn a_default_volume_matches_the_model() {
    seeds_from(1000, 3).for_each(|seed| agree(FULL, MIXED, seed, 500));
}

#[test]
fn a_volume_with_all_features_matches_the_model() {
    seeds_from(2000, 4).for_each(|seed| agree(EVERYTHING, MIXED, seed, 500));
}

#[test]
fn a_volume_of_small_blocks_matches_the_model() {
    seeds_from(3000, 3).for_each(|seed| agree(SMALL_BLOCKS, MIXED, seed, 600));
    agree(SMALL_BLOCKS, CROWDED, 3999, 3000);
}

#[test]
fn a_volume_of_large_directory_blocks_matches_the_model() {
    seeds_from(4000, 2).for_each(|seed| agree(LARGE_DIRECTORY_BLOCKS, MIXED, seed, 400));
}

#[test]
fn a_volume_with_extent_size_hints_matches_the_model() {
    seeds_from(6000, 3).for_each(|seed| agree(FULL.hinted(8), MIXED, seed, 500));
    seeds_from(6100, 3).for_each(|seed| agree(SMALL_BLOCKS.hinted(7), MIXED, seed, 600));
}

#[test]
fn large_directories_match_the_model() {
    agree(FULL, CROWDED, 5000, 6000);
}
