//! Random operations, one thread: the volume does what the model does, whatever its features.

use xfskit_test_model::op::{self, Op, Taste};
use xfskit_test_model::run::{Pair, Shape};
use xfskit_test_model::shrink::shrink;

const MIXED: Taste = Taste { names: 60, content: 40_000, value: 3000, removals: 25 };
const CROWDED: Taste = Taste { names: 4000, content: 2000, value: 300, removals: 15 };

/// Runs `ops`; the first difference, and after how many operations.
fn differs(shape: Shape, ops: &[Op]) -> Option<String> {
    let run = || {
        let mut pair = Pair::new(shape);
        for (n, op) in ops.iter().enumerate() {
            pair.step(op).map_err(|what| format!("operation {n} {op:?}: {what}"))?;
        }
        pair.compare()?;
        pair.close()
    };
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    answer
        .unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(format!("panic: {}", text.unwrap_or_default()))
        })
        .err()
}

fn agree(shape: Shape, taste: Taste, seed: u64, count: usize) {
    let ops = op::draw(seed, count, taste);
    let Some(first) = differs(shape, &ops) else { return };
    let shrinks = std::env::var_os("XFSKIT_SHRINK").is_some();
    assert!(shrinks, "seed {seed}: {first}; XFSKIT_SHRINK=1 looks for the shortest sequence");
    let short = shrink(&ops, |ops| differs(shape, ops).is_some());
    panic!("seed {seed}: {first}\nshrunk: {short:#?}\n{:?}", differs(shape, &short));
}

const PLAIN: Shape = Shape {
    options: &[("-m", "rmapbt=0,reflink=0,finobt=0"), ("-i", "sparse=0,nrext64=0")],
    size: 64 << 20,
};
const FULL: Shape = Shape { options: &[], size: 64 << 20 };
const SMALL_BLOCKS: Shape = Shape { options: &[("-b", "size=1024")], size: 64 << 20 };
const PARENTS: Shape = Shape { options: &[("-n", "parent=1")], size: 64 << 20 };

#[test]
fn a_plain_volume_does_what_the_model_does() {
    (0..4).for_each(|seed| agree(PLAIN, MIXED, seed, 400));
}

#[test]
fn a_volume_with_everything_does_what_the_model_does() {
    (10..14).for_each(|seed| agree(FULL, MIXED, seed, 400));
}

#[test]
fn small_blocks_do_what_the_model_does() {
    (20..24).for_each(|seed| agree(SMALL_BLOCKS, MIXED, seed, 600));
    agree(SMALL_BLOCKS, CROWDED, 29, 3000);
}

#[test]
fn parent_pointers_do_what_the_model_does() {
    (30..33).for_each(|seed| agree(PARENTS, MIXED, seed, 400));
}

#[test]
fn crowded_directories_do_what_the_model_does() {
    agree(FULL, CROWDED, 40, 6000);
}
