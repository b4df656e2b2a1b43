//! Volumes that are nearly full all the time: an operation that fails changes nothing and leaks
//! nothing.

use std::cell::Cell;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_core::Error as Core;
use xfskit_test_model::drawn::{self, DrawnOp, OpMix};
use xfskit_test_model::ours::{Difference, same};
use xfskit_test_model::run::{self, Pair, VolumeSpec};
use xfskit_test_model::shrink;
use xfskit_test_support::{long, seeds};
use xfskit_units::Ino;
use xfskit_vfs::{Error, Fs, NewNode};

const MIX: OpMix = OpMix { names: 200, content: 200_000, value: 8000, removals: 25 };

/// Removes everything below `dir`.
fn clear(fs: &Fs, dir: Ino) {
    for entry in fs.read_dir(&fs.inode(dir).unwrap()).entries {
        let is_dir = fs.inode(entry.ino).unwrap().core().is_dir();
        if is_dir {
            clear(fs, entry.ino);
            fs.rmdir(dir, &entry.name).unwrap();
        } else {
            fs.unlink(dir, &entry.name).unwrap();
        }
    }
}

fn run_full(spec: VolumeSpec, leave: u64, seed: u64, count: usize) {
    let ops = drawn::draw(seed, count, MIX);
    let refused = Cell::new(0);
    shrink::agree(seed, &ops, |ops| run(spec, leave, ops).map(|count| refused.set(count)));
    let refused = refused.get();
    assert!(refused > count / 200, "seed {seed}: only {refused} failed");
}

/// Runs `ops` while the volume has `leave` free blocks, plus the blocks that operations free.
/// Returns how many operations failed for lack of space.
fn run(spec: VolumeSpec, leave: u64, ops: &[DrawnOp]) -> Result<usize, Difference> {
    let dev = run::make(spec);
    let fs = Arc::new(run::open(Arc::clone(&dev) as Arc<dyn BlockDevice>));
    fs.sync().unwrap();
    let root = fs.volume().geo().rootino;
    let free = fs.volume().engine().unwrap().counters().get();
    run::fill(&fs, leave);
    let own_dir = fs.make(root, b"home", &NewNode::directory(0o755)).unwrap();
    let mut pair = Pair::below(Arc::clone(&dev), Arc::clone(&fs), own_dir);
    for (n, op) in ops.iter().enumerate().filter(|(_, op)| !matches!(op, DrawnOp::Reopen)) {
        let refused = pair.refused();
        pair.step(op).map_err(|what| format!("{n} {op:?}: {what}"))?;
        if pair.refused() > refused {
            pair.compare().map_err(|what| format!("{n} {op:?} failed: {what}"))?;
        }
    }
    pair.compare().map_err(|what| format!("at the end: {what}"))?;
    let refused = pair.refused();
    drop(pair);
    fs.sync().unwrap();
    clear(&fs, own_dir);
    fs.rmdir(root, b"home").unwrap();
    fs.unlink(root, b"ballast").unwrap();
    fs.sync().unwrap();
    let after = fs.volume().engine().unwrap().counters().get();
    same("free space", &after, &free)?;
    Arc::into_inner(fs).expect("the only owner").close().unwrap();
    run::verify_all(&dev)?;
    Ok(refused)
}

/// Returns the seeds to run: a few, or many more in the long run.
fn seeds_from(first: u64) -> impl Iterator<Item = u64> {
    seeds(first..first + if long() { 40 } else { 3 })
}

#[test]
fn a_full_default_volume_leaks_no_space() {
    let spec = VolumeSpec::of(&[], 64 << 20);
    seeds_from(1).for_each(|seed| run_full(spec, 60, seed, 1200));
}

#[test]
fn a_full_volume_of_small_blocks_with_all_features_leaks_no_space() {
    let options = &[("-b", "size=1024"), ("-n", "parent=1"), ("-i", "exchange=1")];
    let spec = VolumeSpec::of(options, 64 << 20);
    seeds_from(100).for_each(|seed| run_full(spec, 200, seed, 1200));
}

#[test]
fn a_full_plain_volume_leaks_no_space() {
    let spec = VolumeSpec::of(
        &[("-m", "rmapbt=0,reflink=0,finobt=0"), ("-i", "sparse=0,nrext64=0")],
        64 << 20,
    );
    seeds_from(200).for_each(|seed| run_full(spec, 60, seed, 1200));
}

#[test]
fn a_full_volume_with_extent_size_hints_leaks_no_space() {
    let options = &[("-b", "size=1024"), ("-n", "parent=1"), ("-i", "exchange=1")];
    seeds_from(300)
        .for_each(|seed| run_full(VolumeSpec::of(options, 64 << 20).hinted(8), 200, seed, 1200));
}

/// Delayed allocation has its blocks reserved, so directory growth cannot take them before
/// writeback.
#[test]
fn directory_growth_does_not_take_blocks_reserved_for_delayed_allocation() {
    for options in [&[("-b", "size=1024")][..], &[("-m", "rmapbt=0,reflink=0")]] {
        let dev = run::make(VolumeSpec::of(options, 64 << 20));
        let fs = run::open(Arc::clone(&dev) as Arc<dyn BlockDevice>);
        let (root, blocksize) = (fs.volume().geo().rootino, fs.volume().geo().blocksize() as u64);
        let dir = fs.make(root, b"many", &NewNode::directory(0o755)).unwrap();
        let file = fs.make(root, b"content", &NewNode::file(0o644)).unwrap();
        run::fill(&fs, 1000);
        let handle = fs.open(file).unwrap();
        // Single blocks with holes between them, until no block can be reserved any more.
        let mut written = 0;
        while written < 600 {
            match handle.write(written * 3 * blocksize, b"content") {
                Ok(()) => written += 1,
                Err(Error::Core(Core::NoSpace(_))) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(written > 100, "{written} pieces");
        let mut made = 0;
        loop {
            let name = format!("{made}-{}", "x".repeat(200));
            match fs.make(dir, name.as_bytes(), &NewNode::directory(0o755)) {
                Ok(_) => made += 1,
                Err(Error::Core(Core::NoSpace(_))) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(made > 100, "{made} directories");
        handle.fsync().unwrap();
        let mut found = [0; 7];
        for n in 0..written {
            assert_eq!(handle.read(n * 3 * blocksize, &mut found).unwrap(), 7);
            assert_eq!(&found, b"content", "piece {n}");
        }
        handle.close().unwrap();
        fs.close().unwrap();
        run::verify_all(&dev).unwrap();
    }
}
