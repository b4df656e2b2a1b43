//! The short fuzzing run of `make test`: every seed and kept input, and reproducible mutations of
//! them.
//!
//! `XFSKIT_FUZZ_ROUNDS=100000 cargo test -p xfskit-test-fuzzing --release` runs longer;
//! `XFSKIT_SEED` sets another seed. A failure prints the target and the input in hexadecimal.

use std::panic::{AssertUnwindSafe, catch_unwind};

use xfskit_test_fuzzing::{Target, kept, mutate, targets};
use xfskit_test_support::Random;
use xfskit_test_support::kept::unpack;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

fn run(target: &Target, input: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    assert!(outcome.is_ok(), "target {} panics on {}", target.name, hex(input));
}

/// Runs the kept inputs, `seeds` seeds, and `rounds` mutations spread over both.
fn fuzz(name: &str, seeds: usize, rounds: u64) {
    let target = targets().find(|t| t.name == name).expect("a target");
    let mut inputs = (target.seeds)();
    assert!(!inputs.is_empty(), "{name}: no seeds");
    for seed in inputs.iter().step_by(inputs.len().div_ceil(seeds)) {
        run(target, seed);
    }
    let kept = kept::inputs(name);
    for input in &kept {
        run(target, input);
    }
    inputs.extend(kept);
    let mut random = Random::of_test(1);
    for _ in 0..setting("XFSKIT_FUZZ_ROUNDS", rounds) {
        let seed = &inputs[random.below(inputs.len())];
        run(target, &mutate(seed, &mut random));
    }
}

macro_rules! targets {
    ($($test:ident: $name:literal, $seeds:expr, $rounds:expr;)*) => {
        $(#[test]
        fn $test() {
            fuzz($name, $seeds, $rounds);
        })*

        #[test]
        fn every_target_has_a_test() {
            let tested = [$($name),*];
            assert!(targets().all(|target| tested.contains(&target.name)));
        }
    };
}

targets! {
    superblocks_never_panic: "superblock", 1000, 20_000;
    ag_headers_never_panic: "ag_headers", 1000, 20_000;
    ag_btrees_never_panic: "agbtree", 1000, 10_000;
    inodes_never_panic: "inode", 1000, 40_000;
    extent_btrees_never_panic: "bmbt", 1000, 10_000;
    directories_never_panic: "dir", 1000, 10_000;
    attributes_never_panic: "attr", 1000, 10_000;
    logs_never_panic: "log", 1000, 10_000;
    damaged_images_are_walked_and_checked_without_a_panic: "image", 60, 60;
    damaged_journals_are_replayed_or_refused: "journal", 60, 60;
    damaged_volumes_are_changed_or_refused_and_clean_ones_stay_clean: "batch", 60, 60;
    archives_are_read_or_refused_and_what_is_built_is_clean: "archive", 60, 60;
    array_superblocks_never_panic: "md_superblock", 1000, 10_000;
    damaged_sets_are_assembled_or_refused: "md_set", 60, 100;
    damaged_disks_are_read_or_refused: "disk", 400, 1000;
}

#[test]
fn kept_images_unpack() {
    for name in ["v5", "v5-1k", "v5-plain", "v5-dirty", "v4", "v4-old", "v4-dirty"] {
        assert_eq!(unpack(name).len(), 64 << 20, "{name}");
    }
}
