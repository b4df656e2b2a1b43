//! Allocation and freeing on volumes that mkfs.xfs made: compared with a bitmap, until full and
//! back, in many threads. All checkers run on the resulting volume.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use support::transact;
use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::{Error, OpenOptions, Volume};
use xfskit_format::agf::Agf;
use xfskit_format::{Ctx, agfl};
use xfskit_space::agtree::AgTree;
use xfskit_space::btree::Cursor;
use xfskit_space::kinds::{ByBlock, BySize};
use xfskit_space::{AllocRequest, Deferred, Owner, Result, SpaceTx};
use xfskit_test_support::{Image, Need, Random, Scratch, Xfsprogs, needs, verify};
use xfskit_units::{AgBlock, AgNumber, ExtLen, FsBlock};

/// Whose the test's extents are: something that the reverse mappings do not tie to a file.
const MINE: Owner = Owner::Inodes;

fn open(path: &Path) -> Volume {
    let dev = Arc::new(FileDevice::open(path, OpenMode::ReadWrite).unwrap());
    Volume::open(dev, &OpenOptions { write: true, ..OpenOptions::default() }).unwrap()
}

/// A volume made with these options, `None` with a note where this machine cannot.
fn made<'s>(scratch: &'s Scratch, mib: u64, options: &[&str]) -> Option<Image<'s>> {
    if !needs(&[Need::Xfsprogs]) {
        return None;
    }
    let image = Image::sparse(scratch, "volume", mib << 20);
    Xfsprogs::installed()?.mkfs(&image, options).unwrap();
    Some(image)
}

fn assert_clean(image: &Image) {
    for tools in Xfsprogs::all() {
        tools.repair_n(image, &[]).unwrap();
    }
    verify::volume(image, &Scratch::new("space-clean")).unwrap();
}

/// All that is free in a group: by the bnobt, which the cntbt must repeat, and on the free list.
struct Free {
    extents: BTreeMap<u32, u32>,
    list: Vec<u32>,
    agf: Agf,
}

fn free_of(tx: &mut SpaceTx<'_>, agno: AgNumber) -> Result<Free> {
    let mut bno = Cursor::new(AgTree::<ByBlock>::new(tx, agno)?);
    let mut extents = BTreeMap::new();
    let mut next = bno.first(tx)?;
    let mut end = 0;
    while let Some(rec) = next {
        let start = rec.startblock.get();
        assert!(start > end, "group {agno}: free extents touch at {start}");
        end = start + rec.blockcount.get();
        extents.insert(start, rec.blockcount.get());
        next = bno.next(tx)?;
    }
    bno.close(tx);
    let mut cnt = Cursor::new(AgTree::<BySize>::new(tx, agno)?);
    let (mut count, mut longest) = (0, 0);
    let mut next = cnt.first(tx)?;
    while let Some(rec) = next {
        assert_eq!(extents.get(&rec.startblock.get()), Some(&rec.blockcount.get()));
        (count, longest) = (count + 1, rec.blockcount.get());
        next = cnt.next(tx)?;
    }
    cnt.close(tx);
    assert_eq!(count, extents.len(), "the cntbt has as many extents");
    let (agf, list) = (tx.agf(agno)?, tx.agfl(agno)?);
    let geo = tx.space().geo();
    let ctx = |at| Ctx::new(geo, at).crc_known();
    let at = xfskit_format::agf::location(geo, agno);
    let agf = Agf::verify(tx.bytes(agf), &ctx(at), agno)?.clone();
    let list = agfl::Agfl::verify(tx.bytes(list), &ctx(agfl::location(geo, agno)), agno)?;
    let list = list.active(&agf).map(|agbno| agbno.0).collect();
    assert_eq!(agf.freeblks.get(), extents.values().sum::<u32>());
    assert_eq!(agf.longest.get(), longest);
    Ok(Free { extents, list, agf })
}

/// Extents that the test has, by first block.
type Mine = BTreeMap<FsBlock, u32>;

/// Every block is mine, free, on a free list, or part of a tree, and none is two of these; the sum
/// is `due`.
fn check_all(volume: &Volume, mine: &Mine, due: Option<u64>) -> (u64, bool) {
    let geo = volume.geo();
    let (mut sum, mut wraps, mut fdblocks) = (0, false, 0);
    for agno in geo.ags() {
        let free = transact(volume, |tx| free_of(tx, agno)).unwrap();
        let mut taken = vec![false; geo.agblocks as usize];
        let mut take = |start: u32, len: u32| {
            for block in start..start + len {
                let was = std::mem::replace(&mut taken[block as usize], true);
                assert!(!was, "block {block} of group {agno} twice");
            }
        };
        free.extents.iter().for_each(|(&start, &len)| take(start, len));
        free.list.iter().for_each(|&block| take(block, 1));
        let range =
            geo.agb_to_fsb(agno, AgBlock(0))..geo.agb_to_fsb(AgNumber(agno.0 + 1), AgBlock(0));
        for (&start, &len) in mine.range(range) {
            take(geo.fsb_split(start).unwrap().1.0, len);
            sum += u64::from(len);
        }
        let agf = &free.agf;
        let here = agf.freeblks.get() + agf.flcount.get() + agf.btreeblks.get();
        (sum, fdblocks) = (sum + u64::from(here), fdblocks + i64::from(here));
        wraps |= agf.flfirst.get() > agf.fllast.get() && agf.flcount.get() > 0;
    }
    assert_eq!(volume.engine().unwrap().counters().get().fdblocks, fdblocks);
    if let Some(due) = due {
        assert_eq!(sum, due, "no block is lost");
    }
    (sum, wraps)
}

fn free_all(volume: &Volume, mine: &mut Mine) {
    while !mine.is_empty() {
        let some: Vec<_> = mine.iter().step_by(3).take(50).map(|(&s, &l)| (s, l)).collect();
        transact(volume, |tx| {
            for &(start, len) in &some {
                tx.defer(Deferred::Free { start, len: ExtLen(len), owner: MINE });
            }
            Ok(())
        })
        .unwrap();
        for (start, _) in some {
            mine.remove(&start);
        }
    }
}

/// Random requests until nothing is left, half of it freed again in random order, several times.
///
/// Returns true if a free list went around its end.
fn stress_case(name: &str, options: &[&str], sizes: u32) -> bool {
    let scratch = Scratch::new(name);
    let Some(image) = made(&scratch, 64, options) else { return true };
    let volume = open(image.path());
    let mut mine = Mine::new();
    let mut random = Random::of_test(7);
    let (due, _) = check_all(&volume, &mine, None);
    let mut wrapped = false;
    for round in 0..4 {
        loop {
            let size = 1 + random.below(sizes);
            let near = FsBlock(u64::from(random.below(volume.geo().agblocks * 4)));
            let request = match random.below(4) {
                0 => AllocRequest::between(1, size, near, MINE),
                1 => AllocRequest::exactly(size, near, MINE).align(1 + random.below(8)),
                _ => AllocRequest::exactly(size, near, MINE),
            };
            match transact(&volume, |tx| tx.alloc_extent(&request)) {
                Ok((start, len)) => {
                    assert!(len.0 >= request.minlen && len.0 <= request.maxlen);
                    let agbno = volume.geo().fsb_split(start).unwrap().1.0;
                    assert_eq!(agbno % request.align, 0);
                    assert!(volume.geo().valid_fsb_extent(start, len.0.into()));
                    assert_eq!(mine.insert(start, len.0), None);
                }
                Err(Error::NoSpace(_)) if request.minlen == 1 => break,
                Err(Error::NoSpace(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        check_all(&volume, &mine, Some(due));
        let some: Vec<_> = mine.keys().copied().filter(|_| random.below(2) == 0).collect();
        for start in some {
            let len = ExtLen(mine.remove(&start).unwrap());
            transact(&volume, |tx| tx.free_extent(start, len, MINE)).unwrap();
            if random.below(500) == 0 {
                wrapped |= check_all(&volume, &mine, Some(due)).1;
            }
        }
        wrapped |= check_all(&volume, &mine, Some(due)).1;
        if round % 2 == 1 {
            free_all(&volume, &mut mine);
        }
    }
    free_all(&volume, &mut mine);
    check_all(&volume, &mine, Some(due));
    volume.close().unwrap();
    assert_clean(&image);
    wrapped
}

#[test]
fn small_extents_until_full_and_back() {
    let options = ["-b", "size=1024", "-m", "rmapbt=0", "-d", "agcount=4"];
    assert!(stress_case("space-small", &options, 4), "no free list went around its end");
}

#[test]
fn longer_extents_until_full_and_back() {
    stress_case("space-long", &["-m", "rmapbt=0,reflink=0"], 100);
}

#[test]
fn with_reverse_mappings_until_full_and_back() {
    let options = ["-b", "size=1024", "-m", "rmapbt=1", "-d", "agcount=4"];
    assert!(stress_case("space-rmap", &options, 4), "no free list went around its end");
}

#[test]
fn freed_blocks_are_not_given_out_before_the_next_checkpoint() {
    let scratch = Scratch::new("space-busy");
    let Some(image) = made(&scratch, 64, &["-m", "rmapbt=0"]) else { return };
    let volume = open(image.path());
    let near = volume.geo().agb_to_fsb(AgNumber(1), AgBlock(100));
    let request = AllocRequest::exactly(50, near, MINE).in_this_group();
    let take = |tx: &mut SpaceTx<'_>| tx.alloc_extent(&request);
    let (start, len) = transact(&volume, take).unwrap();
    assert_eq!((start, len), (near, ExtLen(50)));
    transact(&volume, |tx| tx.free_extent(start, len, MINE)).unwrap();
    let (other, len) = transact(&volume, take).unwrap();
    assert!(other.0 >= start.0 + 50 || other.0 + 50 <= start.0, "{other} overlaps {start}");
    transact(&volume, |tx| tx.free_extent(other, len, MINE)).unwrap();
    volume.engine().unwrap().checkpoint().unwrap();
    assert_eq!(transact(&volume, take).unwrap().0, near);
    transact(&volume, |tx| {
        tx.free_extent(near, ExtLen(50), MINE)?;
        let (again, _) = tx.alloc_extent(&request)?;
        assert_ne!(again, near, "not in the same transaction either");
        tx.free_extent(again, ExtLen(50), MINE)
    })
    .unwrap();
    volume.close().unwrap();
    assert_clean(&image);
}

#[test]
fn what_is_free_is_not_freed_again() {
    let scratch = Scratch::new("space-twice");
    let Some(image) = made(&scratch, 64, &["-m", "rmapbt=0"]) else { return };
    let volume = open(image.path());
    let near = volume.geo().agb_to_fsb(AgNumber(1), AgBlock(100));
    let request = AllocRequest::exactly(10, near, MINE);
    let (start, len) = transact(&volume, |tx| tx.alloc_extent(&request)).unwrap();
    let before = volume.engine().unwrap().counters().get();
    for (start, len) in [(start, ExtLen(11)), (FsBlock(start.0 - 1), len), (FsBlock(1 << 40), len)]
    {
        transact(&volume, |tx| tx.free_extent(start, len, MINE)).unwrap_err();
    }
    assert_eq!(volume.engine().unwrap().counters().get(), before);
    transact(&volume, |tx| tx.free_extent(start, len, MINE)).unwrap();
    volume.close().unwrap();
    assert_clean(&image);
}

#[test]
fn a_request_that_cannot_be_met_changes_nothing() {
    let scratch = Scratch::new("space-none");
    let Some(image) = made(&scratch, 64, &["-m", "rmapbt=0"]) else { return };
    let volume = open(image.path());
    let before = volume.engine().unwrap().counters().get();
    let request = AllocRequest::exactly(1 << 14, FsBlock(0), MINE);
    let answer = transact(&volume, |tx| tx.alloc_extent(&request));
    assert!(matches!(answer, Err(Error::NoSpace("blocks"))), "{answer:?}");
    let answer = transact(&volume, |tx| {
        for _ in 0..1000 {
            tx.alloc_extent(&AllocRequest::exactly(100, FsBlock(0), MINE))?;
        }
        Ok(())
    });
    assert!(matches!(answer, Err(Error::NoSpace("blocks"))), "{answer:?}");
    assert_eq!(volume.engine().unwrap().counters().get(), before);
    check_all(&volume, &Mine::new(), None);
    volume.close().unwrap();
    assert_clean(&image);
}

#[test]
fn trees_of_the_group_may_take_what_is_held_back() {
    let scratch = Scratch::new("space-reserve");
    let Some(image) = made(&scratch, 300, &["-m", "rmapbt=0"]) else { return };
    let volume = open(image.path());
    let near = volume.geo().agb_to_fsb(AgNumber(1), AgBlock(100));
    let request = AllocRequest::between(1, 1 << 20, near, MINE).in_this_group();
    let mut mine = Mine::new();
    let take = |request: &AllocRequest, mine: &mut Mine| loop {
        match transact(&volume, |tx| tx.alloc_extent(request)) {
            Ok((start, len)) => mine.insert(start, len.0),
            Err(_) => {
                return transact(&volume, |tx| free_of(tx, AgNumber(1)))
                    .unwrap()
                    .agf
                    .freeblks
                    .get();
            }
        };
    };
    // 19200 blocks: 116 for the refcountbt and 21 for the finobt, of which each has one, and 8 for
    // the AGFL, which has 4.
    assert_eq!(take(&request, &mut mine), 115 + 20 + 4);
    assert_eq!(take(&AllocRequest { reserve: true, ..request }, &mut mine), 0);
    free_all(&volume, &mut mine);
    volume.close().unwrap();
    assert_clean(&image);
}

#[test]
fn eight_threads_never_get_the_same_block() {
    for rmapbt in ["rmapbt=0", "rmapbt=1"] {
        threads(&["-m", rmapbt, "-d", "agcount=8"]);
    }
}

fn threads(options: &[&str]) {
    let scratch = Scratch::new("space-threads");
    let Some(image) = made(&scratch, 300, options) else { return };
    let volume = open(image.path());
    let (due, _) = check_all(&volume, &Mine::new(), None);
    let total = AtomicU64::new(0);
    let work = |seed: u64| {
        let mut random = Random::new(seed);
        let mut mine = Vec::new();
        for _ in 0..1000 {
            let size = 1 + random.below(10);
            let near = FsBlock(u64::from(random.below(volume.geo().agblocks * 8)));
            let gone = (random.below(3) == 0).then(|| mine.pop()).flatten();
            let got = transact(&volume, |tx| {
                if let Some((start, len)) = gone {
                    tx.defer(Deferred::Free { start, len, owner: MINE });
                }
                // Two groups in one transaction, in any order.
                let one = tx.alloc_extent(&AllocRequest::exactly(size, near, MINE))?;
                let two = tx.alloc_extent(&AllocRequest::exactly(1, FsBlock(near.0 / 2), MINE))?;
                Ok([one, two])
            });
            mine.extend(got.unwrap());
            total.fetch_add(1, Ordering::Relaxed);
        }
        mine
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=8)
            .map(|seed| {
                scope.spawn({
                    let work = &work;
                    move || work(seed)
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut mine = Mine::new();
    for (start, len) in all {
        assert_eq!(mine.insert(start, len.0), None);
    }
    check_all(&volume, &mine, Some(due));
    free_all(&volume, &mut mine);
    check_all(&volume, &mine, Some(due));
    volume.close().unwrap();
    assert_clean(&image);
}

#[test]
fn trees_that_disagree_are_found_out() {
    let faults: [(&str, &[&str]); 4] = [
        ("cntbt.rec", &["agf 1", "addr cntroot", "write -d recs[1].blockcount 5"]),
        ("bnobt.rec", &["agf 1", "addr bnoroot", "write -d recs[1].startblock 60000"]),
        ("cntbt.level", &["agf 1", "addr cntroot", "write -d level 1"]),
        ("agf.flcount", &["agf 1", "write -d flcount 2"]),
    ];
    for (id, commands) in faults {
        let scratch = Scratch::new("space-damage");
        let Some(image) = made(&scratch, 300, &["-m", "rmapbt=0"]) else { return };
        Xfsprogs::installed().unwrap().db(&image, true, commands).unwrap();
        let volume = open(image.path());
        let near = volume.geo().agb_to_fsb(AgNumber(1), AgBlock(100));
        let before = volume.engine().unwrap().counters().get();
        let request = AllocRequest::exactly(1, near, MINE);
        let error = transact(&volume, |tx| tx.alloc_extent(&request)).unwrap_err();
        assert_eq!(error.corruption().map(|fault| fault.check.0), Some(id), "{error}");
        assert_eq!(volume.engine().unwrap().counters().get(), before);
    }
}

#[test]
fn an_extent_that_is_named_is_taken_where_it_is_and_nothing_else_takes_it() {
    let scratch = Scratch::new("space-exact");
    let Some(image) = made(&scratch, 300, &[]) else { return };
    let volume = open(image.path());
    let agno = AgNumber(1);
    let free = transact(&volume, |tx| free_of(tx, agno)).unwrap();
    let (&first, &count) = free.extents.iter().max_by_key(|(_, len)| **len).unwrap();
    let block = |agbno| volume.geo().agb_to_fsb(agno, AgBlock(agbno));
    let (start, len) = (block(first + count / 2), ExtLen(10));
    let take = |start| transact(&volume, |tx| tx.alloc_exactly(start, len, MINE));
    let mut mine = Vec::new();
    {
        // Two that touch, and one beyond the volume, which does not matter.
        let kept = [(start, len), (FsBlock(start.0 + 10), len), (FsBlock(u64::MAX), len)];
        let _kept = volume.space().keep_free(kept);
        let request = AllocRequest::exactly(5, FsBlock(start.0 + 8), MINE).in_this_group();
        let (near, got) = transact(&volume, |tx| tx.alloc_extent(&request)).unwrap();
        let beside = near.0 + 5 <= start.0 || near.0 >= start.0 + 20;
        assert!(beside && got == ExtLen(5), "{near:?} is not kept, which {start:?} is");
        mine.push((near, got));
        take(start).unwrap();
        mine.push((start, len));
    }
    for taken in [start, FsBlock(start.0 + 9), FsBlock(start.0 - 9)] {
        assert!(matches!(take(taken), Err(Error::Limit(_))), "{taken:?}");
    }
    assert!(matches!(take(block(0)), Err(Error::Limit(_))), "headers are not free");
    let request = AllocRequest::exactly(10, FsBlock(start.0 + 10), MINE).in_this_group();
    let (again, got) = transact(&volume, |tx| tx.alloc_extent(&request)).unwrap();
    assert_eq!(again.0, start.0 + 10, "nothing is kept any more");
    mine.push((again, got));
    for (start, len) in mine {
        transact(&volume, |tx| {
            tx.defer(Deferred::Free { start, len, owner: MINE });
            Ok(())
        })
        .unwrap();
    }
    // Blocks that were freed too recently can be taken after a checkpoint.
    take(start).unwrap();
    transact(&volume, |tx| {
        tx.defer(Deferred::Free { start, len, owner: MINE });
        Ok(())
    })
    .unwrap();
    volume.close().unwrap();
    assert_clean(&image);
}
