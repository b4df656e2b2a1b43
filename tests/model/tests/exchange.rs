//! Exchange-range on files with hundreds of extents, some of them shared: whole files and ranges
//! end up as in the model.

use xfskit_test_model::drawn::DrawnOp;
use xfskit_test_model::operation::{Fallocate, TwoFileOp};
use xfskit_test_model::ours::Difference;
use xfskit_test_model::run::{Pair, VolumeSpec};
use xfskit_test_model::shrink;
use xfskit_test_support::{Random, long, seeds};

/// Approximate size of a file, in bytes.
const LEN: u32 = 400_000;
const BLOCK: u32 = 1024;
/// Number of files in each run.
const FILES: u32 = 4;

fn any_block(random: &mut Random) -> u32 {
    random.below(LEN / BLOCK) * BLOCK
}

/// Writes content in one extent, punches holes of one block, and writes to some of the holes again.
fn comb(random: &mut Random, node: u32, ops: &mut Vec<DrawnOp>) {
    let fill = 1 + random.below(250);
    ops.push(DrawnOp::Write { node, offset: 0, len: LEN / 2 + random.below(LEN / 2), fill });
    for _ in 0..60 + random.below(60) {
        let offset = any_block(random);
        ops.push(match random.below(4) {
            0 => DrawnOp::Write {
                node,
                offset: offset + random.below(BLOCK),
                len: 10,
                fill: fill ^ 1,
            },
            _ => DrawnOp::Fallocate {
                node,
                how: Fallocate::Punch,
                offset,
                len: BLOCK,
                aligned: true,
            },
        });
    }
}

fn draw(seed: u64) -> Vec<DrawnOp> {
    let mut random = Random::new(seed);
    let mut ops: Vec<DrawnOp> = (0..FILES).map(|name| DrawnOp::MakeFile { dir: 0, name }).collect();
    (0..FILES).for_each(|node| comb(&mut random, node, &mut ops));
    for _ in 0..25 {
        let (node, other) = (random.below(FILES), random.below(FILES));
        let how = match random.below(6) {
            0 => TwoFileOp::Share,
            1..4 => TwoFileOp::ExchangeRange,
            _ => TwoFileOp::Exchange,
        };
        let (offset, source) = (any_block(&mut random) / 2, any_block(&mut random) / 2);
        let len = any_block(&mut random) / 2 + BLOCK;
        ops.push(DrawnOp::TwoFile { node, other, how, offset, source, len, aligned: true });
        match random.below(8) {
            0 => comb(&mut random, node, &mut ops),
            1 => ops.push(DrawnOp::Sync),
            2 => ops.push(DrawnOp::Reopen),
            _ => {}
        }
    }
    ops
}

fn agree(spec: VolumeSpec, seed: u64) {
    let run = |ops: &[DrawnOp]| -> Result<(), Difference> {
        let mut pair = Pair::new(spec);
        for (n, op) in ops.iter().enumerate() {
            pair.step(op).map_err(|what| format!("operation {n} {op:?}: {what}"))?;
        }
        pair.compare()?;
        pair.close()
    };
    shrink::agree(seed, &draw(seed), run);
}

#[test]
fn exchange_of_files_with_many_extents_matches_the_model() {
    let spec =
        VolumeSpec::of(&[("-b", "size=1024"), ("-i", "exchange=1"), ("-n", "parent=1")], 64 << 20);
    seeds(7000..7000 + if long() { 60 } else { 3 }).for_each(|seed| agree(spec, seed));
}

#[test]
fn exchange_without_reverse_mappings_matches_the_model() {
    let options = &[("-b", "size=1024"), ("-i", "exchange=1"), ("-m", "rmapbt=0")];
    let spec = VolumeSpec::of(options, 64 << 20);
    seeds(8000..8000 + if long() { 60 } else { 2 }).for_each(|seed| agree(spec, seed));
}
