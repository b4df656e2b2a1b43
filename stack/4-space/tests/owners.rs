//! Owners and reference counts in the trees of real volumes, compared with a model of every single
//! block. All checkers run on the volume after everything was freed.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use support::transact;
use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::Fork;
use xfskit_format::rmap::OFF_UNWRITTEN;
use xfskit_space::agtree::{AgKind, AgTree};
use xfskit_space::btree::Cursor;
use xfskit_space::kinds::{Mappings, Refcounts};
use xfskit_space::{AllocRequest, Deferred, Owner, SpaceTx};
use xfskit_test_support::{Image, Need, Random, Scratch, Xfsprogs, needs, verify};
use xfskit_units::{AgBlock, AgNumber, ExtLen, FileOff, FsBlock, Ino};

fn open(path: &Path) -> Volume {
    let dev = Arc::new(FileDevice::open(path, OpenMode::ReadWrite).unwrap());
    Volume::open(dev, &OpenOptions { write: true, ..OpenOptions::default() }).unwrap()
}

/// A volume with small blocks, so that trees grow high: `None` with a note where this machine
/// cannot.
fn made<'s>(scratch: &'s Scratch, options: &[&str]) -> Option<Image<'s>> {
    if !needs(&[Need::Xfsprogs]) {
        return None;
    }
    let image = Image::sparse(scratch, "volume", 320 << 20);
    let options = [&["-b", "size=1024", "-d", "agcount=2"], options].concat();
    Xfsprogs::installed()?.mkfs(&image, &options).unwrap();
    Some(image)
}

fn assert_clean(image: &Image) {
    for tools in Xfsprogs::all() {
        tools.repair_n(image, &[]).unwrap();
    }
    verify::volume(image, &Scratch::new("owners-clean")).unwrap();
}

const SHARING: &[&str] = &["-m", "rmapbt=1,reflink=1"];
/// The file that has every block of the arena from the beginning.
const FIRST: Ino = Ino(1000);
/// Blocks that the files of these tests map.
const ARENA: u32 = 2500;
const AGNO: AgNumber = AgNumber(1);

/// All records of a tree.
fn walk<K: AgKind>(volume: &Volume) -> Vec<K::Rec> {
    transact(volume, |tx| {
        let mut tree = Cursor::new(AgTree::<K>::new(tx, AGNO)?);
        let mut found = Vec::new();
        let mut next = tree.first(tx)?;
        while let Some(rec) = next {
            found.push(rec);
            next = tree.next(tx)?;
        }
        tree.close(tx);
        Ok(found)
    })
    .unwrap()
}

/// Some blocks of a file: where they lie, and where they are in the file.
#[derive(Clone, Copy, Debug)]
struct Piece {
    ino: Ino,
    block: u32,
    fileoff: u64,
    len: u32,
    unwritten: bool,
}

impl Piece {
    fn owner(&self) -> Owner {
        if self.unwritten {
            Owner::Unwritten(self.ino, FileOff(self.fileoff))
        } else {
            Owner::Fork(self.ino, Fork::Data, FileOff(self.fileoff))
        }
    }

    /// (block, owner, position and state) of each.
    fn blocks(&self) -> impl Iterator<Item = (u32, u64, u64)> + use<> {
        let (owner, at) = self.owner().raw().unwrap();
        let block = self.block;
        (0..self.len).map(move |n| (block + n, owner, at + u64::from(n)))
    }
}

/// The state of each block of the arena.
#[derive(Clone, Default)]
struct Model {
    mapped: BTreeSet<(u32, u64, u64)>,
    counts: BTreeMap<u32, u32>,
}

impl Model {
    fn add(&mut self, piece: &Piece) {
        for (block, owner, at) in piece.blocks() {
            assert!(self.mapped.insert((block, owner, at)));
            *self.counts.entry(block).or_default() += 1;
        }
    }

    fn remove(&mut self, piece: &Piece) {
        for (block, owner, at) in piece.blocks() {
            assert!(self.mapped.remove(&(block, owner, at)));
            *self.counts.get_mut(&block).unwrap() -= 1;
        }
    }

    fn convert(&mut self, piece: &Piece) {
        for (block, owner, at) in piece.blocks() {
            assert!(self.mapped.remove(&(block, owner, at)));
            assert!(self.mapped.insert((block, owner, at ^ OFF_UNWRITTEN)));
        }
    }

    /// Records as they must be: (start, owner, offset, length).
    fn mappings(&self) -> Vec<(u32, u64, u64, u32)> {
        let mut runs: BTreeMap<(u64, u64), (u32, u64, u64, u32)> = BTreeMap::new();
        let mut done = Vec::new();
        for &(block, owner, at) in &self.mapped {
            // Blocks of one line and state, one after the other.
            let line = (owner, at.wrapping_sub(block.into()));
            match runs.get_mut(&line) {
                Some(run) if run.0 + run.3 == block => run.3 += 1,
                _ => done.extend(runs.insert(line, (block, owner, at, 1))),
            }
        }
        done.extend(runs.into_values());
        done.sort_by_key(|&(start, owner, at, _)| (start, owner, at & !OFF_UNWRITTEN));
        done
    }

    /// Records as they must be: (start, length, count).
    fn shared(&self) -> Vec<(u32, u32, u32)> {
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for (&block, &count) in self.counts.iter().filter(|&(_, &count)| count >= 2) {
            match runs.last_mut() {
                Some(run) if run.0 + run.1 == block && run.2 == count => run.1 += 1,
                _ => runs.push((block, 1, count)),
            }
        }
        runs
    }

    fn agrees(&self, volume: &Volume) {
        let found: Vec<_> = walk::<Mappings>(volume)
            .iter()
            .filter(|rec| rec.inode().is_some())
            .map(|r| (r.startblock.get(), r.owner.get(), r.offset.get(), r.blockcount.get()))
            .collect();
        same(&found, &self.mappings());
        let found: Vec<_> = walk::<Refcounts>(volume)
            .iter()
            .map(|rec| (rec.startblock.get(), rec.blockcount.get(), rec.refcount.get()))
            .collect();
        same(&found, &self.shared());
    }
}

/// The two are equal; where not, only the first difference is shown.
fn same<T: PartialEq + std::fmt::Debug>(found: &[T], due: &[T]) {
    for (at, (found, due)) in found.iter().zip(due).enumerate() {
        assert_eq!(found, due, "record {at}");
    }
    assert_eq!(found.len(), due.len());
}

/// One block after the other, as many as are wanted, for `owner`.
fn arena(volume: &Volume, len: u32, owner: Owner) -> FsBlock {
    let near = volume.geo().agb_to_fsb(AGNO, AgBlock(5000));
    let request = AllocRequest::exactly(len, near, owner).in_this_group();
    transact(volume, |tx| tx.alloc_extent(&request)).unwrap().0
}

fn apply(tx: &mut SpaceTx<'_>, change: Change, piece: &Piece) {
    let start = tx.space().geo().agb_to_fsb(AGNO, AgBlock(piece.block));
    let (len, owner) = (ExtLen(piece.len), piece.owner());
    match change {
        Change::Map => {
            // Counts before they are mapped, or behind: the order of a group's work is not the
            // caller's.
            tx.defer(Deferred::RefcountIncrease { start, len });
            tx.defer(Deferred::RmapMap { start, len, owner });
        }
        Change::Unmap => {
            tx.defer(Deferred::RefcountDecrease { start, len });
            tx.defer(Deferred::RmapUnmap { start, len, owner });
        }
        Change::Convert => tx.defer(Deferred::RmapConvert { start, len, owner }),
    }
}

/// In a transaction of its own.
fn unmap(volume: &Volume, piece: &Piece) {
    let change = |tx: &mut SpaceTx<'_>| {
        apply(tx, Change::Unmap, piece);
        Ok(())
    };
    transact(volume, change).unwrap();
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Map,
    Unmap,
    Convert,
}

/// A random change that is possible.
fn choose(model: &Model, random: &mut Random, base: u32, grows: bool) -> Option<(Change, Piece)> {
    let ino = Ino(1001 + random.below(40));
    let len = 1 + random.below(8);
    let block = base + random.below(ARENA - len);
    // Files lie on two lines each, so that their pieces touch, and some do not join.
    let line = if random.below(3) == 0 { 77 } else { 0 };
    let mut piece =
        Piece { ino, block, fileoff: u64::from(block - base) + line, len, unwritten: false };
    let state = |piece: &Piece| piece.blocks().all(|at| model.mapped.contains(&at));
    for unwritten in [false, true] {
        piece.unwritten = unwritten;
        if state(&piece) {
            let change = if random.below(2) == 0 { Change::Convert } else { Change::Unmap };
            return Some((change, piece));
        }
    }
    let clash = |(block, owner, at)| {
        let other = at ^ OFF_UNWRITTEN;
        model.mapped.contains(&(block, owner, at)) || model.mapped.contains(&(block, owner, other))
    };
    piece.unwritten = random.below(4) == 0;
    (grows && !piece.blocks().any(clash)).then_some((Change::Map, piece))
}

#[test]
fn shared_extents_match_a_model_of_single_blocks() {
    let scratch = Scratch::new("owners-shared");
    let Some(image) = made(&scratch, SHARING) else { return };
    let volume = open(image.path());
    let start = arena(&volume, ARENA, Owner::Fork(FIRST, Fork::Data, FileOff(0)));
    let base = volume.geo().fsb_split(start).unwrap().1.0;
    let whole = Piece { ino: FIRST, block: base, fileoff: 0, len: ARENA, unwritten: false };
    let mut model = Model::default();
    model.add(&whole);
    let mut random = Random::of_test(1);
    for round in 0..600 {
        // One transaction with several changes, decided before: it may run more than once.
        let mut changes = Vec::new();
        for _ in 0..20 {
            let Some((change, piece)) = choose(&model, &mut random, base, round < 450) else {
                continue;
            };
            match change {
                Change::Map => model.add(&piece),
                Change::Unmap => model.remove(&piece),
                Change::Convert => model.convert(&piece),
            }
            changes.push((change, piece));
        }
        transact(&volume, |tx| {
            for (change, piece) in &changes {
                apply(tx, *change, piece);
            }
            Ok(())
        })
        .unwrap();
        if round % 50 == 0 {
            model.agrees(&volume);
        }
        // In the middle the first file goes: from then on blocks become free piece by piece.
        if round == 450 {
            let levels = transact(&volume, |tx| {
                let agf = tx.agf(AGNO)?;
                Ok(xfskit_format::bytes::be32(tx.bytes(agf), RMAP_LEVEL).unwrap())
            });
            assert!(levels.unwrap() >= 3, "a tree of several levels");
            unmap(&volume, &whole);
            model.remove(&whole);
            model.agrees(&volume);
        }
    }
    // The remaining mappings are removed record by record.
    for (block, owner, at, len) in model.mappings() {
        let (ino, unwritten) = (Ino(owner), at & OFF_UNWRITTEN != 0);
        let piece = Piece { ino, block, fileoff: at & !OFF_UNWRITTEN, len, unwritten };
        unmap(&volume, &piece);
        model.remove(&piece);
    }
    model.agrees(&volume);
    volume.close().unwrap();
    assert_clean(&image);
}

const RMAP_LEVEL: usize = std::mem::offset_of!(xfskit_format::agf::Agf, rmaplevel);

#[test]
fn a_transaction_that_fails_leaves_owners_and_counts_as_they_were() {
    let scratch = Scratch::new("owners-undo");
    let Some(image) = made(&scratch, SHARING) else { return };
    let volume = open(image.path());
    let start = arena(&volume, ARENA, Owner::Fork(FIRST, Fork::Data, FileOff(0)));
    let base = volume.geo().fsb_split(start).unwrap().1.0;
    let before = (walk::<Mappings>(&volume), walk::<Refcounts>(&volume));
    let failed = transact(&volume, |tx| {
        for n in 0..200 {
            let (ino, block) = (Ino(1001 + u64::from(n % 7)), base + 10 * n);
            let piece = Piece { ino, block, fileoff: 5, len: 7, unwritten: false };
            apply(tx, Change::Map, &piece);
        }
        // No file maps this extent.
        let stranger = Piece { ino: Ino(2000), block: base, fileoff: 0, len: 1, unwritten: false };
        apply(tx, Change::Unmap, &stranger);
        Ok(())
    });
    let fault = failed.unwrap_err();
    assert_eq!(fault.corruption().unwrap().check.0, "rmapbt.missing");
    assert_eq!((walk::<Mappings>(&volume), walk::<Refcounts>(&volume)), before);
}

#[test]
fn shared_parts_are_found() {
    let scratch = Scratch::new("owners-find");
    let Some(image) = made(&scratch, SHARING) else { return };
    let volume = open(image.path());
    let start = arena(&volume, 100, Owner::Unmapped);
    let at = |n: u64| FsBlock(start.0 + n);
    let share = |n: u64, len: u32| {
        let work = Deferred::RefcountIncrease { start: at(n), len: ExtLen(len) };
        transact(&volume, |tx| {
            tx.defer(work);
            Ok(())
        })
        .unwrap();
    };
    let find = |n: u64, len: u32| {
        let found = transact(&volume, |tx| tx.find_shared(at(n), ExtLen(len))).unwrap();
        found.map(|(first, len)| (first.0 - start.0, len.0))
    };
    assert_eq!(find(0, 100), None);
    share(20, 10);
    share(25, 10);
    assert_eq!(find(0, 100), Some((20, 15)));
    assert_eq!(find(22, 4), Some((22, 4)));
    assert_eq!(find(0, 20), None);
    assert_eq!(find(35, 65), None);
    // Every other block: more records than one transaction should touch.
    (40..100).step_by(2).for_each(|n| share(n, 1));
    let reach = |n: u64, len: u32| transact(&volume, |tx| tx.refcount_reach(at(n), ExtLen(len)));
    assert_eq!(reach(0, 100).unwrap(), ExtLen(100));
}

#[test]
fn staging_extents_left_by_a_crash_are_freed_at_the_next_open() {
    let scratch = Scratch::new("owners-staging");
    let Some(image) = made(&scratch, SHARING) else { return };
    let volume = open(image.path());
    let start = arena(&volume, 300, Owner::Cow);
    let stage = |from: u64, len: u32| {
        let (start, len) = (FsBlock(start.0 + from), ExtLen(len));
        transact(&volume, |tx| {
            tx.defer(Deferred::CowAlloc { start, len });
            Ok(())
        })
    };
    stage(0, 100).unwrap();
    stage(100, 50).unwrap();
    stage(200, 100).unwrap();
    let staged = walk::<Refcounts>(&volume);
    let lens: Vec<_> = staged.iter().map(|rec| (rec.is_cow(), rec.blockcount.get())).collect();
    assert_eq!(lens, [(true, 150), (true, 100)], "neighbours are one");
    // Staging twice is a fault, and so is ending what was never staged.
    let fault = stage(140, 20).unwrap_err();
    assert_eq!(fault.corruption().unwrap().check.0, "refcountbt.staging");
    let never = Deferred::CowFree { start: FsBlock(start.0 + 150), len: ExtLen(10) };
    transact(&volume, |tx| {
        tx.defer(never);
        Ok(())
    })
    .unwrap_err();
    // The rest was allocated and not staged: that would leak.
    let (rest, len) = (FsBlock(start.0 + 150), ExtLen(50));
    transact(&volume, |tx| tx.free_extent(rest, len, Owner::Cow)).unwrap();
    volume.engine().unwrap().checkpoint().unwrap();
    drop(volume); // Without close: a crash.
    open(image.path()).close().unwrap();
    assert_clean(&image);
}

#[test]
fn without_reverse_mappings_and_sharing_there_is_nothing_to_do() {
    let scratch = Scratch::new("owners-plain");
    let Some(image) = made(&scratch, &["-m", "rmapbt=0,reflink=0"]) else { return };
    let volume = open(image.path());
    let start = arena(&volume, 10, Owner::Fork(FIRST, Fork::Data, FileOff(0)));
    let (len, owner) = (ExtLen(10), Owner::Fork(FIRST, Fork::Data, FileOff(0)));
    let both = |first, second| {
        transact(&volume, |tx| {
            tx.defer(first);
            tx.defer(second);
            Ok(())
        })
    };
    let convert = Deferred::RmapConvert { start, len, owner };
    both(convert, Deferred::RefcountIncrease { start, len }).unwrap_err();
    assert_eq!(transact(&volume, |tx| tx.find_shared(start, len)).unwrap(), None);
    // The only one that maps it lets go: it is free.
    both(Deferred::RmapUnmap { start, len, owner }, Deferred::RefcountDecrease { start, len })
        .unwrap();
    volume.close().unwrap();
    assert_clean(&image);
}
