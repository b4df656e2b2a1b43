//! Members without superblocks are recognized by the XFS volume on them.

#![allow(missing_docs)]

use std::cell::Cell;
use std::ops::ControlFlow;

use xfskit_block::BlockDevice;
use xfskit_md::guess::evidence::{Address, FoundBlock, FoundBlocks};
use xfskit_md::guess::{Evidence, Guess, Guesses, guess};
use xfskit_md::superblock;
use xfskit_md::{Layout, Raid6Layout};
use xfskit_test_arrays::Fixture;
use xfskit_units::{ArraySector, ByteLen, ByteOffset, Daddr, Sectors};

/// Returns the members in role order, with their superblocks erased.
fn wiped(name: &str) -> Vec<Option<std::sync::Arc<dyn BlockDevice>>> {
    let fixture = Fixture::open(name);
    let members: Vec<_> = fixture
        .named()
        .into_iter()
        .map(|(name, device)| xfskit_md::Member { name, device })
        .collect();
    let assembly = xfskit_md::assemble(members).unwrap();
    let device = |role: &Option<usize>| role.map(|i| assembly.members[i].device.clone());
    let roles: Vec<_> = assembly.roles.iter().map(device).collect();
    for device in roles.iter().flatten() {
        device.write_zeroes(ByteOffset(0), ByteLen(4096 * 4)).unwrap();
        assert!(superblock::read(device).unwrap().is_none());
    }
    roles
}

/// Returns the guesses for the roles in this order.
fn guessed(roles: &[Option<std::sync::Arc<dyn BlockDevice>>], order: &[usize]) -> Vec<Guess> {
    let members: Vec<_> = order.iter().map(|role| roles[*role].clone()).collect();
    let Some(evidence) = Evidence::of_whole(&members, 1 << 30) else { return Vec::new() };
    match guess(&members, &evidence, &|_, _| ControlFlow::Continue(())) {
        ControlFlow::Continue(Guesses { best, .. }) => best,
        ControlFlow::Break(()) => unreachable!("the search is not stopped"),
    }
}

#[test]
fn a_search_ends_at_once_where_it_is_stopped() {
    let members = wiped("raid6-xfs-clean");
    let evidence = Evidence::of_whole(&members, 1 << 30).unwrap();
    let steps = Cell::new(0);
    let stopped_at = |stop: u64| {
        steps.set(0);
        guess(&members, &evidence, &|_, _| {
            steps.set(steps.get() + 1);
            if steps.get() > stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    };
    assert!(stopped_at(u64::MAX).is_continue());
    let all = steps.get();
    assert!(all > 1000, "{all} times asked");
    for stop in [0, 1, all / 4, all / 2, all - 1] {
        assert!(stopped_at(stop).is_break() && steps.get() <= stop + 2, "stopped at {stop}");
    }
}

#[test]
fn order_layout_chunk_and_offset_are_found_without_superblocks() {
    let roles = wiped("raid6-xfs-clean");
    for order in [[0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]] {
        let guesses = guessed(&roles, &order);
        let guess = &guesses[0];
        assert_eq!(guess.manual.layout, Layout::Raid6(Raid6Layout::LeftSymmetric), "{guesses:#?}");
        assert_eq!(guess.manual.chunk, Sectors(1024));
        assert_eq!(guess.manual.offset, Sectors(4096));
        assert!(guess.certain, "{guesses:#?}");
        let found: Vec<_> = guess.order.iter().map(|member| member.map(|i| order[i])).collect();
        assert_eq!(found, (0..6).map(Some).collect::<Vec<_>>());
        let is_worse = |other: &Guess| other.contradictions() > guess.contradictions() + 3;
        assert!(guesses[1..].iter().all(is_worse), "{guesses:#?}");
    }
}

#[test]
fn a_guess_has_as_many_roles_as_members_were_given() {
    let roles = wiped("raid6-xfs-clean");
    let guesses = guessed(&roles, &[3, 0, 5, 1, 4]);
    assert!(guesses.iter().all(|guess| guess.order.len() == 5 && !guess.certain), "{guesses:#?}");
}

#[test]
fn a_missing_member_keeps_its_role() {
    let mut roles = wiped("raid6-xfs-clean");
    roles[2] = None;
    let order = [5, 4, 3, 2, 1, 0];
    let guesses = guessed(&roles, &order);
    let guess = &guesses[0];
    assert_eq!(guess.manual.layout, Layout::Raid6(Raid6Layout::LeftSymmetric), "{guesses:#?}");
    assert_eq!((guess.manual.chunk, guess.manual.offset), (Sectors(1024), Sectors(4096)));
    let found: Vec<_> = guess.order.iter().map(|member| member.map(|i| order[i])).collect();
    assert_eq!(found, [Some(0), Some(1), None, Some(3), Some(4), Some(5)], "{guesses:#?}");
}

#[test]
fn too_little_evidence_makes_guesses_uncertain() {
    // Half of the groups' headers were on the two missing members.
    let guesses = guessed(&wiped("raid6-xfs-degraded2"), &[5, 4, 3, 2, 1, 0]);
    let hit = |guess: &Guess| {
        guess.manual.layout == Layout::Raid6(Raid6Layout::LeftSymmetric)
            && (guess.manual.chunk, guess.manual.offset) == (Sectors(1024), Sectors(4096))
    };
    assert!(guesses.iter().any(hit), "the right one is among them");
    assert!(guesses.len() > 1 || guesses.iter().all(|guess| !guess.certain), "{guesses:#?}");
}

#[test]
fn members_without_a_volume_give_no_guess() {
    assert!(guessed(&wiped("raid6-left-symmetric"), &[0, 1, 2, 3, 4]).is_empty());
    assert!(Evidence::of_whole(&[None, None], 1 << 20).is_none());
}

#[test]
fn an_inode_that_is_the_sum_of_three_is_no_evidence() {
    let block = |member, at| FoundBlock {
        address: Address::Volume(ArraySector(64)),
        member,
        at: Daddr(at),
    };
    let mut found = FoundBlocks::default();
    found.push(block(0, 2112), b"an inode");
    found.push(block(1, 2112), b"an inode");
    assert_eq!(found.into_kept().len(), 2, "copies agree");
    let mut found = FoundBlocks::default();
    found.push(block(0, 2112), b"an inode");
    found.push(block(1, 4000), b"a sum");
    assert!(found.into_kept().is_empty());
}

#[test]
fn a_sample_of_blocks_is_bounded_and_keeps_copies_together() {
    let mut found = FoundBlocks::default();
    for (member, at) in (0..30_000u64).flat_map(|at| [(0, at), (1, at)]) {
        let address = Address::Volume(ArraySector(at));
        found.push(FoundBlock { address, member, at: Daddr(at) }, &at.to_le_bytes());
    }
    let kept = found.into_kept();
    assert!((2048..=8192).contains(&kept.len()), "{}", kept.len());
    assert!(kept.chunks(2).all(|two| two[0].address == two[1].address));
}
