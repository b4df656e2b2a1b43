//! The short fuzzing run of `make test`: every kept input, and reproducible mutations of it.
//!
//! `XFSKIT_FUZZ_ROUNDS=100000 cargo test -p xfskit-test-fuzzing --release` runs longer;
//! `XFSKIT_FUZZ_SEED` starts elsewhere. A failure prints the target and the input in hexadecimal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use xfskit_test_fuzzing::{Rng, TARGETS, Target, decoders, image, mutate};

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

fn kept(name: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(name);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a readable input")).collect()
}

/// Every kept input, and `rounds` mutations spread over them.
fn fuzz(name: &str, rounds: u64) {
    let target = TARGETS.iter().find(|t| t.name == name).expect("a target");
    let mut seeds = kept(name);
    seeds.extend(decoders::seeds(name));
    assert!(!seeds.is_empty(), "{name}: no input to start from");
    let mut rng = Rng(setting("XFSKIT_FUZZ_SEED", 1));
    for seed in &seeds {
        run(target, seed);
    }
    for _ in 0..setting("XFSKIT_FUZZ_ROUNDS", rounds) {
        let seed = &seeds[rng.below(seeds.len())];
        run(target, &mutate(seed, &mut rng));
    }
}

macro_rules! targets {
    ($($test:ident: $name:literal, $rounds:expr;)*) => {
        $(#[test]
        fn $test() {
            fuzz($name, $rounds);
        })*

        #[test]
        fn every_target_has_a_test() {
            let tested = [$($name),*];
            assert!(TARGETS.iter().all(|t| t.name == "image" || tested.contains(&t.name)));
        }
    };
}

targets! {
    superblocks_never_panic: "superblock", 20_000;
    ag_headers_never_panic: "ag_headers", 20_000;
    ag_btrees_never_panic: "agbtree", 10_000;
    inodes_never_panic: "inode", 40_000;
    extent_btrees_never_panic: "bmbt", 10_000;
    directories_never_panic: "dir", 10_000;
    attributes_never_panic: "attr", 10_000;
    logs_never_panic: "log", 10_000;
}

#[test]
fn damaged_images_are_walked_and_checked_without_a_panic() {
    let target = TARGETS.iter().find(|t| t.name == "image").expect("a target");
    for choice in 0..image::IMAGES.len() {
        run(target, &[u8::try_from(choice).expect("few images")]);
    }
    for input in kept("image") {
        run(target, &input);
    }
    let mut rng = Rng(setting("XFSKIT_FUZZ_SEED", 1));
    for round in 0..setting("XFSKIT_FUZZ_ROUNDS", 120) {
        let mut input = vec![round.to_le_bytes()[0]];
        for _ in 0..=rng.below(3) {
            // Most of a block's meaning lies at its start.
            let near = if rng.below(2) == 0 { 0x7f } else { 0x0fff };
            let change = rng.bits().to_le_bytes();
            let at = u16::from_be_bytes([change[2], change[3]]) & near;
            input.extend([change[0], change[1]]);
            input.extend(at.to_be_bytes());
            input.extend([change[4] & 0x0f, change[5], change[6]]);
        }
        run(target, &input);
    }
}

#[test]
fn kept_images_unpack() {
    for name in ["v5", "v5-1k", "v5-plain", "v5-dirty", "v4", "v4-old", "v4-dirty"] {
        assert_eq!(image::unpack(name).len(), 64 << 20, "{name}");
    }
}
