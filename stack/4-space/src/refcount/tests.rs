use std::collections::BTreeMap;
use std::ops::Range;

use xfskit_format::refcount::{COW_FLAG, Rec};
use xfskit_test_support::{Random, seeds};
use xfskit_units::{AgBlock, ExtLen};

use super::plan;
use crate::edits::Edit;
use crate::edits::testing::PlainTree;
use crate::kinds::Refcounts;

fn rec(start: u32, len: u32, refcount: u32) -> Rec {
    Rec { startblock: start.into(), blockcount: len.into(), refcount: refcount.into() }
}

#[test]
fn sharing_splits_at_the_edges_and_joins_what_became_equal() {
    let (two, three) = (rec(10, 10, 2), rec(20, 5, 3));
    let edits = plan::increase(&[two, three], 15..20);
    let expected =
        [Edit::Update(two, rec(10, 5, 2)), Edit::Delete(three), Edit::Insert(rec(15, 10, 3))];
    assert_eq!(edits, expected);
    // Blocks without a record are one file's: shared, they are two's.
    assert_eq!(plan::increase(&[], 4..6), [Edit::Insert(rec(4, 2, 2))]);
    let left = rec(2, 2, 2);
    assert_eq!(plan::increase(&[left], 4..6), [Edit::Update(left, rec(2, 4, 2))]);
}

#[test]
fn blocks_without_a_mapping_are_freed() {
    let two = rec(10, 10, 2);
    let (edits, free) = plan::decrease(&[two], 5..25);
    assert_eq!(edits, [Edit::Delete(two)]);
    assert_eq!(free, [(AgBlock(5), ExtLen(5)), (AgBlock(20), ExtLen(5))]);
}

#[test]
fn a_count_at_its_highest_stays_there() {
    let most = rec(10, 10, u32::MAX);
    assert_eq!(plan::increase(&[most], 10..20), []);
    assert_eq!(plan::decrease(&[most], 12..20), (vec![], vec![]));
}

#[test]
fn staging_extents_neither_overlap_nor_vanish_twice() {
    let at =
        |range: Range<u32>| plan::staged(AgBlock(range.start), ExtLen(range.end - range.start));
    let staged_rec = |start: u32, len| rec(COW_FLAG + start, len, 1);
    let staged = staged_rec(10, 4);
    assert_eq!(plan::stage(&[], at(10..14)), Some(vec![Edit::Insert(staged)]));
    assert_eq!(plan::stage(&[staged], at(13..15)), None);
    assert_eq!(plan::unstage(&[staged], at(13..15)), None);
    let edits = plan::unstage(&[staged], at(10..12)).unwrap();
    assert_eq!(edits, [Edit::Delete(staged), Edit::Insert(staged_rec(12, 2))]);
    let more = plan::stage(&[staged], at(14..16)).unwrap();
    assert_eq!(more, [Edit::Update(staged, staged_rec(10, 6))]);
}

/// Random increases and decreases against the count of each block.
#[test]
fn random_changes_match_a_model_of_single_blocks() {
    for seed in seeds(1..40) {
        let mut random = Random::new(seed);
        let mut tree: PlainTree<Refcounts> = PlainTree(Vec::new());
        // Every block is in use once to begin with.
        let mut counts: BTreeMap<u32, u32> = (0..80).map(|block| (block, 1)).collect();
        for _ in 0..400 {
            let start = random.below(70);
            let range = start..start + 1 + random.below(10);
            let touching: Vec<Rec> = tree
                .0
                .iter()
                .filter(|rec: &&Rec| {
                    plan::end(rec) >= range.start && rec.startblock.get() <= range.end
                })
                .copied()
                .collect();
            if random.below(2) == 0 {
                range.clone().for_each(|block| *counts.entry(block).or_default() += 1);
                // Blocks that were freed are in use again, once.
                let fresh: Vec<u32> = range.clone().filter(|block| counts[block] == 1).collect();
                if !fresh.is_empty() {
                    range.for_each(|block| *counts.get_mut(&block).unwrap() -= 1);
                    for block in &fresh {
                        counts.insert(*block, 1);
                    }
                    continue;
                }
                tree.apply(&plan::increase(&touching, range));
            } else if range.clone().all(|block| counts[&block] > 0) {
                let (edits, free) = plan::decrease(&touching, range.clone());
                tree.apply(&edits);
                let due: Vec<u32> = range.clone().filter(|block| counts[block] == 1).collect();
                let freed: Vec<u32> = free.iter().flat_map(|(b, len)| b.0..b.0 + len.0).collect();
                assert_eq!(freed, due);
                range.for_each(|block| *counts.get_mut(&block).unwrap() -= 1);
            }
            let mut due: Vec<Rec> = Vec::new();
            for (&block, &count) in counts.iter().filter(|&(_, &count)| count >= 2) {
                match due.last_mut() {
                    Some(last) if plan::end(last) == block && last.refcount == count => {
                        last.blockcount += 1;
                    }
                    _ => due.push(rec(block, 1, count)),
                }
            }
            assert_eq!(tree.0, due, "seed {seed}");
        }
    }
}
