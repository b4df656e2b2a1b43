//! Random operations, one thread: the volume does what the model does, whatever its features.

use xfskit_mkfs::minlog::min_log_blocks;
use xfskit_test_model::op::{self, Op, Taste};
use xfskit_test_model::ours::Difference;
use xfskit_test_model::run::{Pair, Shape, make, open};
use xfskit_test_model::shrink;

const MIXED: Taste = Taste { names: 60, content: 40_000, value: 3000, removals: 25 };
const CROWDED: Taste = Taste { names: 4000, content: 2000, value: 300, removals: 15 };

fn run(shape: Shape, ops: &[Op]) -> Result<(), Difference> {
    let mut pair = Pair::new(shape);
    for (n, op) in ops.iter().enumerate() {
        pair.step(op).map_err(|what| format!("operation {n} {op:?}: {what}"))?;
    }
    pair.compare()?;
    pair.close()
}

fn agree(shape: Shape, taste: Taste, seed: u64, count: usize) {
    shrink::agree(seed, &op::draw(seed, count, taste), |ops| run(shape, ops));
}

const PLAIN: Shape =
    Shape::of(&[("-m", "rmapbt=0,reflink=0,finobt=0"), ("-i", "sparse=0,nrext64=0")], 64 << 20);
const FULL: Shape = Shape::of(&[], 64 << 20);
const EVERYTHING: Shape = Shape::of(&[("-n", "parent=1"), ("-i", "exchange=1")], 64 << 20);
const SMALL_BLOCKS: Shape = Shape::of(&[("-b", "size=1024"), ("-i", "exchange=1")], 64 << 20);
const LARGE_DIRECTORY_BLOCKS: Shape =
    Shape::of(&[("-b", "size=1024"), ("-n", "size=65536"), ("-m", "rmapbt=0")], 64 << 20);

#[test]
fn the_journals_here_are_the_smallest_that_linux_accepts() {
    // So whatever these tests do fits, transaction by transaction, into the smallest journal there is.
    for shape in [PLAIN, FULL, EVERYTHING, SMALL_BLOCKS, LARGE_DIRECTORY_BLOCKS] {
        let fs = open(make(shape));
        let geo = fs.volume().geo();
        assert_eq!(u64::from(geo.logblocks), min_log_blocks(geo), "{shape:?}");
    }
}

/// Some seeds, many more in the long run.
fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    first..first + if xfskit_test_oracle::long() { 20 * count } else { count }
}

#[test]
fn a_plain_volume_does_what_the_model_does() {
    seeds(0, 3).for_each(|seed| agree(PLAIN, MIXED, seed, 500));
}

#[test]
fn a_default_volume_does_what_the_model_does() {
    seeds(1000, 3).for_each(|seed| agree(FULL, MIXED, seed, 500));
}

#[test]
fn a_volume_with_everything_does_what_the_model_does() {
    seeds(2000, 4).for_each(|seed| agree(EVERYTHING, MIXED, seed, 500));
}

#[test]
fn small_blocks_do_what_the_model_does() {
    seeds(3000, 3).for_each(|seed| agree(SMALL_BLOCKS, MIXED, seed, 600));
    agree(SMALL_BLOCKS, CROWDED, 3999, 3000);
}

#[test]
fn large_directory_blocks_do_what_the_model_does() {
    seeds(4000, 2).for_each(|seed| agree(LARGE_DIRECTORY_BLOCKS, MIXED, seed, 400));
}

#[test]
fn a_volume_with_extent_size_hints_does_what_the_model_does() {
    seeds(6000, 3).for_each(|seed| agree(FULL.hinted(8), MIXED, seed, 500));
    seeds(6100, 3).for_each(|seed| agree(SMALL_BLOCKS.hinted(7), MIXED, seed, 600));
}

#[test]
fn crowded_directories_do_what_the_model_does() {
    agree(FULL, CROWDED, 5000, 6000);
}
