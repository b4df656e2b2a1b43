use std::collections::BTreeSet;

use xfskit_format::Fork;
use xfskit_format::rmap::{OFF_UNWRITTEN, Rec};
use xfskit_test_support::{Random, seeds};
use xfskit_units::{AgBlock, ExtLen, FileOff, Ino};

use super::plan;
use crate::btree::RecordOps;
use crate::edits::testing::PlainTree;
use crate::edits::{Edit, Run};
use crate::extent::Owner;
use crate::kinds::Mappings;

fn data(ino: u64, fileoff: u64, unwritten: bool) -> Owner {
    if unwritten {
        Owner::Unwritten(Ino(ino), FileOff(fileoff))
    } else {
        Owner::Fork(Ino(ino), Fork::Data, FileOff(fileoff))
    }
}

fn rec(owner: Owner, start: u32, len: u32) -> Rec {
    plan::rec(AgBlock(start), ExtLen(len), owner.raw().unwrap())
}

/// The block-by-block truth: (block, owner, offset) of every mapping.
#[derive(Default)]
struct Model(BTreeSet<(u32, u64, u64)>);

fn blocks(whole: &Rec) -> impl Iterator<Item = (u32, u64, u64)> {
    let (owner, start) = (whole.owner.get(), whole.startblock.get());
    let positioned = whole.high_key().offset.get() != whole.low_key().offset.get();
    let offset = whole.offset.get();
    (0..whole.blockcount.get())
        .map(move |i| (start + i, owner, offset + if positioned { u64::from(i) } else { 0 }))
}

impl Model {
    /// Returns the records that the tree must hold: one block after the other, merged where the
    /// line continues.
    fn records(&self) -> Vec<Rec> {
        let mut runs: Vec<Rec> = Vec::new();
        for &(block, owner, offset) in &self.0 {
            let one = Rec {
                startblock: block.into(),
                blockcount: 1.into(),
                owner: owner.into(),
                offset: offset.into(),
            };
            match runs.iter_mut().find(|run| run.joins(&one)) {
                Some(run) => run.take_in(&one),
                None => runs.push(one),
            }
        }
        runs.sort_by_key(Mappings::rec_pos);
        runs
    }
}

impl PlainTree<Mappings> {
    fn touching(&self, rec: &Rec) -> [Option<Rec>; 2] {
        let find = |wanted: &dyn Fn(&Rec) -> bool| self.0.iter().copied().find(|r| wanted(r));
        [find(&|left| left.joins(rec)), find(&|right| rec.joins(right))]
    }

    fn covering(&self, rec: &Rec) -> Rec {
        *self.0.iter().find(|whole| plan::covers(whole, rec)).unwrap()
    }

    fn map(&mut self, new: Rec) {
        let [left, right] = self.touching(&new);
        self.apply(&plan::map(new, left, right));
    }

    fn unmap(&mut self, gone: Rec) {
        self.apply(&plan::unmap(gone, self.covering(&gone)).unwrap());
    }

    fn convert(&mut self, part: Rec) {
        let [left, right] = self.touching(&plan::flipped(part));
        self.apply(&plan::convert(part, self.covering(&part), left, right).unwrap());
    }
}

#[test]
fn a_mapping_between_its_neighbours_makes_one_record_of_three() {
    let [left, new, right] =
        [(0, 10, 4), (4, 14, 2), (6, 16, 1)].map(|(off, b, len)| rec(data(7, off, false), b, len));
    let whole = rec(data(7, 0, false), 10, 7);
    let edits = plan::map(new, Some(left), Some(right));
    assert_eq!(edits, [Edit::Update(left, whole), Edit::Delete(right)]);
    assert_eq!(
        plan::map(new, Some(left), None),
        [Edit::Update(left, rec(data(7, 0, false), 10, 6))]
    );
    let tail = rec(data(7, 4, false), 14, 3);
    assert_eq!(plan::map(new, None, Some(right)), [Edit::Delete(right), Edit::Insert(tail)]);
}

#[test]
fn what_is_not_one_line_stays_apart() {
    let left = rec(data(7, 0, false), 10, 4);
    for other in [
        data(8, 4, false),
        data(7, 5, false),
        data(7, 4, true),
        Owner::Fork(Ino(7), Fork::Attr, FileOff(4)),
        Owner::Bmbt(Ino(7), Fork::Data),
        Owner::Inodes,
    ] {
        let new = rec(other, 14, 1);
        assert_eq!(plan::map(new, Some(left), None), [Edit::Insert(new)], "{other:?}");
    }
    for same in [Owner::Bmbt(Ino(7), Fork::Attr), Owner::Ag, Owner::Cow] {
        let (left, new) = (rec(same, 10, 4), rec(same, 14, 1));
        assert_eq!(plan::map(new, Some(left), None), [Edit::Update(left, rec(same, 10, 5))]);
    }
}

#[test]
fn the_middle_of_a_record_goes_and_two_are_left() {
    let whole = rec(data(7, 100, false), 10, 10);
    let (head, tail) = (rec(data(7, 100, false), 10, 3), rec(data(7, 105, false), 15, 5));
    let edits = plan::unmap(rec(data(7, 103, false), 13, 2), whole).unwrap();
    assert_eq!(edits, [Edit::Update(whole, head), Edit::Insert(tail)]);
    assert_eq!(plan::unmap(whole, whole).unwrap(), [Edit::Delete(whole)]);
    for stranger in [data(7, 104, false), data(8, 103, false), Owner::Bmbt(Ino(7), Fork::Data)] {
        assert_eq!(plan::unmap(rec(stranger, 13, 2), whole), None);
    }
    assert_eq!(plan::unmap(rec(data(7, 108, false), 18, 3), whole), None);
}

#[test]
fn a_written_end_of_an_unwritten_extent_joins_what_follows() {
    let (whole, right) = (rec(data(7, 0, true), 10, 4), rec(data(7, 4, false), 14, 2));
    let part = rec(data(7, 2, true), 12, 2);
    let edits = plan::convert(part, whole, None, Some(right)).unwrap();
    let (head, tail) = (rec(data(7, 0, true), 10, 2), rec(data(7, 2, false), 12, 4));
    assert_eq!(edits, [Edit::Update(whole, head), Edit::Delete(right), Edit::Insert(tail)]);
    // A state alone is no part of the key: nothing goes, nothing comes.
    let edits = plan::convert(whole, whole, None, None).unwrap();
    assert_eq!(edits, [Edit::Update(whole, plan::flipped(whole))]);
}

/// Mapping, unmapping and converting pieces of shared and unshared extents, against single blocks.
#[test]
fn random_changes_match_a_model_of_single_blocks() {
    let owners = [Owner::Ag, Owner::Inodes, Owner::Bmbt(Ino(3), Fork::Data)];
    for seed in seeds(1..40) {
        let mut random = Random::new(seed);
        let (mut tree, mut model) = (PlainTree(Vec::new()), Model::default());
        for _ in 0..300 {
            let (start, len) = (random.below(60), 1 + random.below(6));
            let owner = match random.below(4) {
                0 => random.pick(&owners),
                // Two files, each on two lines.
                line => {
                    data(100 + u64::from(line % 2), u64::from(start + 64 * (line / 2)), line == 3)
                }
            };
            let wanted = rec(owner, start, len);
            let all = |flip: u64| blocks(&wanted).map(move |(b, o, off)| (b, o, off ^ flip));
            let shareable = matches!(owner, Owner::Fork(..) | Owner::Unwritten(..));
            let twin = if shareable { OFF_UNWRITTEN } else { 0 };
            if all(0).all(|at| model.0.contains(&at)) {
                if shareable && random.below(2) == 0 {
                    tree.convert(wanted);
                    model.0.extend(all(OFF_UNWRITTEN));
                } else {
                    tree.unmap(wanted);
                }
                all(0).for_each(|at| assert!(model.0.remove(&at)));
            } else if all(0).chain(all(twin)).all(|at| !model.0.contains(&at)) {
                tree.map(wanted);
                model.0.extend(all(0));
            }
            assert_eq!(tree.0, model.records(), "seed {seed}");
        }
        assert!(!tree.0.is_empty());
    }
}
