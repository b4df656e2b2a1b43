//! Files in hundreds of pieces, some of them shared, that change places, whole and by range: as the model has it.

use xfskit_test_model::deed::{Between, Reshape};
use xfskit_test_model::op::{Op, Rng};
use xfskit_test_model::ours::Difference;
use xfskit_test_model::run::{Pair, Shape};
use xfskit_test_model::shrink;
use xfskit_test_oracle::long;

/// Bytes of a file, more or less.
const LEN: u32 = 400_000;
const BLOCK: u32 = 1024;
/// Files of each run.
const FILES: u32 = 4;

fn any_block(rng: &mut Rng) -> u32 {
    rng.below(LEN / BLOCK) * BLOCK
}

/// Content in one piece, then holes of one block, and blocks that have content again.
fn comb(rng: &mut Rng, node: u32, ops: &mut Vec<Op>) {
    let fill = u8::try_from(1 + rng.below(250)).unwrap_or(1);
    ops.push(Op::Write { node, offset: 0, len: LEN / 2 + rng.below(LEN / 2), fill });
    for _ in 0..60 + rng.below(60) {
        let offset = any_block(rng);
        ops.push(match rng.below(4) {
            0 => Op::Write { node, offset: offset + rng.below(BLOCK), len: 10, fill: fill ^ 1 },
            _ => Op::Reshape { node, how: Reshape::Punch, offset, len: BLOCK, aligned: true },
        });
    }
}

fn draw(seed: u64) -> Vec<Op> {
    let mut rng = Rng(seed);
    let mut ops: Vec<Op> = (0..FILES).map(|name| Op::MakeFile { dir: 0, name }).collect();
    (0..FILES).for_each(|node| comb(&mut rng, node, &mut ops));
    for _ in 0..25 {
        let (node, other) = (rng.below(FILES), rng.below(FILES));
        let how = match rng.below(6) {
            0 => Between::Share,
            1..4 => Between::ExchangeRange,
            _ => Between::Exchange,
        };
        let (offset, source) = (any_block(&mut rng) / 2, any_block(&mut rng) / 2);
        let len = any_block(&mut rng) / 2 + BLOCK;
        ops.push(Op::Between { node, other, how, offset, source, len, aligned: true });
        match rng.below(8) {
            0 => comb(&mut rng, node, &mut ops),
            1 => ops.push(Op::Sync),
            2 => ops.push(Op::Reopen),
            _ => {}
        }
    }
    ops
}

fn agree(shape: Shape, seed: u64) {
    let run = |ops: &[Op]| -> Result<(), Difference> {
        let mut pair = Pair::new(shape);
        for (n, op) in ops.iter().enumerate() {
            pair.step(op).map_err(|what| format!("operation {n} {op:?}: {what}"))?;
        }
        pair.compare()?;
        pair.close()
    };
    shrink::agree(seed, &draw(seed), run);
}

#[test]
fn files_in_many_pieces_change_places_as_the_model_has_it() {
    let shape =
        Shape::of(&[("-b", "size=1024"), ("-i", "exchange=1"), ("-n", "parent=1")], 64 << 20);
    (0..if long() { 60 } else { 3 }).for_each(|seed| agree(shape, 7000 + seed));
}

#[test]
fn and_without_reverse_mappings() {
    let options = &[("-b", "size=1024"), ("-i", "exchange=1"), ("-m", "rmapbt=0")];
    let shape = Shape::of(options, 64 << 20);
    (0..if long() { 60 } else { 2 }).for_each(|seed| agree(shape, 8000 + seed));
}
