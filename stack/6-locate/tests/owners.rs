//! Owners on sound volumes.

use std::ops::ControlFlow;

use xfskit_format::Fork;
use xfskit_format::agbtree::Tree;
use xfskit_locate::{AgRange, Options, Owner, owners};
use xfskit_units::{AgNumber, FileOff};

use crate::common::{all, at, device, open, verify_tiling};

const IMAGES: [&str; 8] =
    ["v5", "v5-1k", "v5-plain", "v5-rt", "v5-metadir", "v5-dirty", "v4", "v4-old"];

#[test]
fn every_block_has_one_owner_or_is_shared() {
    for name in IMAGES {
        let volume = open(&device(name));
        let found = all(&volume, true);
        assert!(found.complete && found.warnings.is_empty(), "{name}: {:?}", found.warnings);
        verify_tiling(&volume, &found);
        let mut owned = found.owned.iter().flatten();
        let leaked = owned.find(|run| matches!(run.owner, Owner::Leaked | Owner::Unknown));
        assert_eq!(leaked, None, "{name}");
    }
}

#[test]
fn the_rmapbt_and_the_scan_give_the_same_owners() {
    let mut with_rmapbt = 0;
    for name in IMAGES {
        let volume = open(&device(name));
        with_rmapbt += usize::from(volume.geo().features.rmapbt());
        let (by_rmapbt, by_scan) = (all(&volume, false), all(&volume, true));
        assert!(by_rmapbt.warnings.is_empty(), "{name}");
        assert_eq!(by_rmapbt.owned, by_scan.owned, "{name}");
    }
    assert!(with_rmapbt > 0);
}

#[test]
fn a_block_has_the_owner_of_the_range_around_it() {
    for name in ["v5", "v4"] {
        let volume = open(&device(name));
        let found = all(&volume, false);
        for run in found.owned[0].iter().step_by(7) {
            let middle = run.start.0 + run.len.0 / 2;
            let owned = at(&volume, run.agno, middle);
            assert!(owned.iter().all(|owned| owned.start.0 == middle && owned.len.0 == 1));
            let ino = run.owner.ino();
            assert!(owned.iter().any(|owned| owned.owner.ino() == ino), "{run:?}: {owned:?}");
            if let Owner::Extent { startoff, .. } = run.owner {
                let ahead = FileOff(startoff.0 + u64::from(run.len.0 / 2));
                let is_there = |owner: &Owner| matches!(owner, Owner::Extent { startoff, .. } if *startoff == ahead);
                assert!(owned.iter().any(|owned| is_there(&owned.owner)), "{run:?}: {owned:?}");
            }
        }
    }
}

#[test]
fn structures_of_a_group_are_named() {
    let volume = open(&device("v5"));
    let agf = volume.agf(AgNumber(0)).unwrap();
    let agi = volume.agi(AgNumber(0)).unwrap();
    let owner = |agbno: u32| at(&volume, AgNumber(0), agbno)[0].owner;
    assert_eq!(owner(0), Owner::Headers);
    assert_eq!(owner(agf.bnoroot.get()), Owner::Tree(Tree::Bno));
    assert_eq!(owner(agf.cntroot.get()), Owner::Tree(Tree::Cnt));
    assert_eq!(owner(agi.root.get()), Owner::Tree(Tree::Ino));
    assert_eq!(owner(agi.free_root.get()), Owner::Tree(Tree::Fino));
    let root = volume.geo().ino_split(volume.geo().rootino).unwrap();
    let owned = at(&volume, root.0, volume.geo().agino_to_agb(root.1).0);
    let first = volume.geo().agino_to_ino(root.0, volume.geo().agb_to_agino(owned[0].start));
    assert_eq!(owned[0].owner, Owner::Inodes(first));
}

#[test]
fn extents_are_those_of_the_inodes_map() {
    let volume = open(&device("v5"));
    let found = all(&volume, false);
    let mut compared = 0;
    for run in found.owned.iter().flatten() {
        let Owner::Extent { ino, fork, startoff, unwritten } = run.owner else { continue };
        let map = volume.extents(&volume.iget(ino).unwrap(), fork).unwrap();
        let extent = map.lookup(startoff).unwrap();
        let start = volume.geo().agb_to_fsb(run.agno, run.start);
        assert_eq!(extent.block_at(startoff), Some(start));
        assert_eq!(extent.unwritten, unwritten);
        compared += usize::from(fork == Fork::Data);
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn a_scan_ends_when_the_caller_wants_it() {
    let volume = open(&device("v5"));
    let range = AgRange { agno: AgNumber(0), blocks: 0..10 };
    let options =
        Options { scan: true, progress: &|_, _| ControlFlow::Break(()), ..Options::default() };
    assert!(!owners(&volume, &[range], &options).complete);
}

#[test]
fn blocks_behind_the_end_of_a_group_are_left_out() {
    let volume = open(&device("v5"));
    let agno = AgNumber(0);
    let end = volume.geo().ag_length(agno);
    let range = |agno, blocks| AgRange { agno, blocks };
    let ranges = [range(agno, end - 1..u32::MAX), range(AgNumber(9999), 0..4), range(agno, 5..5)];
    let found = owners(&volume, &ranges, &Options::default());
    let lens: Vec<u32> =
        found.owned.iter().map(|owned| owned.iter().map(|run| run.len.0).sum()).collect();
    assert_eq!(lens, [1, 0, 0]);
}
