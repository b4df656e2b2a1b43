//! Trees of each kind under random changes, compared with a map in memory and verified as a whole
//! after each round.

use crate::support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;

use support::transact;
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::agbtree::Block;
use xfskit_format::btree_edit::{Shape, init_short};
use xfskit_format::{Ctx, alloc, inobt, refcount, rmap};
use xfskit_space::agtree::AgKind;
use xfskit_space::btree::{BlockRef, BtreeOps, Cursor, Flaw, RecordOps, Root, Seek};
use xfskit_space::kinds::{ByBlock, BySize, Chunks, Mappings, Refcounts};
use xfskit_space::{Error, Result, SpaceTx};
use xfskit_test_support::Random;
use xfskit_test_support::kept::device;
use xfskit_trans::{BufMap, Handle};
use xfskit_units::{AgBlock, AgNumber, ExtLen};
use zerocopy::IntoBytes;

const AGNO: AgNumber = AgNumber(1);

/// A tree whose root and free blocks are known to the test alone.
#[derive(Debug)]
struct Lone<K> {
    root: Cell<(BlockRef, u16)>,
    pool: RefCell<Vec<u32>>,
    kind: PhantomData<K>,
}

fn map(tx: &SpaceTx<'_>, agbno: u32) -> BufMap {
    let geo = tx.space().geo();
    BufMap::single(geo.agb_to_daddr(AGNO, AgBlock(agbno)), geo.block_sectors())
}

impl<K: AgKind> Lone<K> {
    fn new(volume: &Volume) -> Self {
        let pool = (8000..15000).rev().collect();
        let home = Self { root: Cell::new((0, 1)), pool: RefCell::new(pool), kind: PhantomData };
        transact(volume, |tx| {
            home.root.set(((&home).alloc(tx, 0, 0)?.0, 1));
            Ok(())
        })
        .unwrap();
        home
    }
}

impl<K: AgKind> BtreeOps for &Lone<K> {
    type RecordOps = K;

    fn shape(&self, tx: &SpaceTx<'_>, level: u16) -> Shape {
        Shape::short(K::TREE, tx.space().geo(), level)
    }
    fn root(&self, _: &mut SpaceTx<'_>) -> Result<Root> {
        let (block, levels) = self.root.get();
        Ok(Root::Block(block, levels))
    }
    fn set_root(&self, _: &mut SpaceTx<'_>, block: BlockRef, levels: u16) -> Result<()> {
        self.root.set((block, levels));
        Ok(())
    }
    fn read(&self, tx: &mut SpaceTx<'_>, block: BlockRef) -> Result<Handle> {
        let agbno = AgBlock(u32::try_from(block).unwrap());
        let at = K::TREE.location(tx.space().geo(), AGNO, agbno);
        tx.read_buf(at, &|bytes: &[u8], ctx: &Ctx<'_>| {
            Block::verify(bytes, ctx, K::TREE, AGNO)?.verify_order(ctx)
        })
    }
    fn alloc(&self, tx: &mut SpaceTx<'_>, _: BlockRef, level: u16) -> Result<(BlockRef, Handle)> {
        let agbno = self.pool.borrow_mut().pop().ok_or(Error::NoSpace("blocks"))?;
        let map = map(tx, agbno);
        let handle = tx.fresh(&map)?;
        let geo = tx.space().geo();
        init_short(&mut tx.image(handle), geo, K::TREE, level, AGNO, map.first().0);
        Ok((agbno.into(), handle))
    }
    fn free(&self, tx: &mut SpaceTx<'_>, block: BlockRef, handle: Handle) -> Result<()> {
        tx.invalidate(handle);
        self.pool.borrow_mut().push(u32::try_from(block).unwrap());
        Ok(())
    }
    fn flaw(&self, _: &SpaceTx<'_>, block: Option<BlockRef>, flaw: Flaw) -> Error {
        Error::Unsupported(format!("{flaw:?} in {block:?}"))
    }
}

/// What a walk over the whole tree sees.
struct Checker<'t, 'v, K: AgKind> {
    tx: &'t mut SpaceTx<'v>,
    home: &'t Lone<K>,
    /// The rightmost block so far, of each level.
    last: BTreeMap<u16, u64>,
    recs: Vec<K::Rec>,
    blocks: usize,
}

impl<K: AgKind> Checker<'_, '_, K> {
    /// Checks everything below a block. Returns its key, and the largest end below it.
    fn below(&mut self, block: u64, level: u16, root: bool) -> Option<K::Key> {
        let handle = self.home.read(self.tx, block).unwrap();
        let bytes = self.tx.snapshot(handle);
        self.tx.release(handle);
        let shape = self.home.shape(self.tx, level);
        let count = shape.count(&bytes);
        self.blocks += 1;
        assert_eq!(shape.level(&bytes), level);
        if root {
            assert!(level == 0 || count > 1, "a root node has two children");
        } else {
            assert!(count >= shape.min(), "{count} of at least {}", shape.min());
        }
        let left = self.last.insert(level, block);
        assert_eq!(shape.left(&bytes), left, "left sibling");
        if let Some(left) = left {
            let handle = self.home.read(self.tx, left).unwrap();
            assert_eq!(shape.right(self.tx.bytes(handle)), Some(block), "right sibling");
            self.tx.release(handle);
        }
        let mut keys = Vec::new();
        if level == 0 {
            let recs = shape.entries::<K::Rec>(&bytes);
            self.recs.extend(recs);
            keys.extend(recs.iter().map(K::key));
        } else {
            for (index, key) in shape.entries::<K::Key>(&bytes).iter().enumerate() {
                let child = shape.ptr(&bytes, index).unwrap();
                let below = self.below(child, level - 1, false).unwrap();
                assert_eq!(below, *key, "key {index} of block {block}");
                keys.push(below);
            }
        }
        let first = *keys.first()?;
        Some(keys[1..].iter().fold(first, |span, key| K::span(span, key)))
    }
}

fn check_all<K: AgKind>(
    tx: &mut SpaceTx<'_>,
    home: &Lone<K>,
    model: &BTreeMap<K::Pos, K::Rec>,
) -> u16 {
    let (root, levels) = home.root.get();
    let mut checker = Checker { tx, home, last: BTreeMap::new(), recs: vec![], blocks: 0 };
    checker.below(root, levels - 1, true);
    let last = std::mem::take(&mut checker.last);
    for (level, block) in last {
        let handle = home.read(checker.tx, block).unwrap();
        let shape = home.shape(checker.tx, level);
        assert_eq!(shape.right(checker.tx.bytes(handle)), None, "nothing right of the last");
        checker.tx.release(handle);
    }
    let found: Vec<&[u8]> = checker.recs.iter().map(IntoBytes::as_bytes).collect();
    let due: Vec<&[u8]> = model.values().map(IntoBytes::as_bytes).collect();
    assert!(found == due, "{} records, {} due", found.len(), due.len());
    assert_eq!(checker.blocks + home.pool.borrow().len(), 7000, "no block is lost");
    levels
}

fn volume() -> Volume {
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    Volume::open(device("v5-1k"), &options).unwrap()
}

/// One change: a record that exists is found, and updated or deleted; one that does not is
/// inserted.
fn step<K: AgKind>(
    tx: &mut SpaceTx<'_>,
    cursor: &mut Cursor<&Lone<K>>,
    model: &mut BTreeMap<K::Pos, K::Rec>,
    rec: K::Rec,
    update: Option<K::Rec>,
    delete: bool,
) -> Result<()> {
    let pos = K::rec_pos(&rec);
    let found = cursor.seek(tx, pos, Seek::Eq)?;
    assert_eq!(found.is_some(), model.contains_key(&pos));
    let before = cursor.seek(tx, pos, Seek::Le)?.map(|rec| K::rec_pos(&rec));
    assert_eq!(before, model.range(..=pos).next_back().map(|(pos, _)| *pos));
    let behind = cursor.seek(tx, pos, Seek::Ge)?.map(|rec| K::rec_pos(&rec));
    assert_eq!(behind, model.range(pos..).next().map(|(pos, _)| *pos));
    match (found, update) {
        (None, _) if !delete => {
            cursor.insert(tx, &rec)?;
            model.insert(pos, rec);
            assert_eq!(cursor.get(tx).map(|rec| K::rec_pos(&rec)), Some(pos));
        }
        (Some(_), Some(update)) if !delete => {
            cursor.update(tx, &update)?;
            model.insert(pos, update);
        }
        _ if delete => {
            // Whatever lies behind the place.
            if let Some(pos) = behind {
                cursor.delete(tx)?;
                model.remove(&pos);
            }
        }
        _ => {}
    }
    Ok(())
}

fn stress_case<K: AgKind>(
    seed: u64,
    many: usize,
    make: impl Fn(&mut Random) -> K::Rec,
    levels: u16,
) {
    let volume = volume();
    let home = Lone::<K>::new(&volume);
    let mut model = BTreeMap::new();
    let mut random = Random::of_test(seed);
    let mut highest = 0;
    // Grows, stays, shrinks to nothing.
    for (phase, deletes) in [(0, 10), (1, 50), (2, 90), (3, 30), (4, 100)] {
        for round in 0..many / 40 {
            let steps: Vec<_> = (0..40)
                .map(|_| (make(&mut random), random.below(100) < deletes, random.below(2) == 0))
                .collect();
            let last = round + 1 == many / 40;
            transact(&volume, |tx| {
                let mut cursor = Cursor::new(&home);
                for &(rec, delete, update) in &steps {
                    let update = update.then_some(rec);
                    step(tx, &mut cursor, &mut model, rec, update, delete)?;
                }
                cursor.close(tx);
                if round % 10 == 0 || last {
                    highest = highest.max(check_all(tx, &home, &model));
                }
                Ok(())
            })
            .unwrap();
        }
        if phase == 0 {
            assert!(highest >= levels, "{highest} levels, {levels} wanted");
        }
    }
    while !model.is_empty() {
        transact(&volume, |tx| {
            let mut cursor = Cursor::new(&home);
            for _ in 0..200 {
                let first = cursor.first(tx)?;
                assert_eq!(first.map(|rec| K::rec_pos(&rec)), model.keys().next().copied());
                if first.is_some() {
                    cursor.delete(tx)?;
                    model.pop_first();
                }
            }
            cursor.close(tx);
            check_all(tx, &home, &model);
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(home.root.get().1, 1);
}

fn extent(random: &mut Random) -> alloc::Rec {
    let (start, len) = (random.below(1 << 16) * 100, 1 + random.below(100));
    alloc::Rec::new(AgBlock(u32::try_from(start).unwrap()), ExtLen(u32::try_from(len).unwrap()))
}

#[test]
fn bnobt() {
    stress_case::<ByBlock>(1, 12_000, extent, 3);
}

#[test]
fn cntbt() {
    stress_case::<BySize>(2, 12_000, extent, 3);
}

#[test]
fn inobt() {
    stress_case::<Chunks<true>>(3, 8000, chunk, 3);
}

fn chunk(random: &mut Random) -> inobt::Rec {
    inobt::Rec {
        startino: u32::try_from(random.below(1 << 20) * 64).unwrap().into(),
        holemask: 0.into(),
        count: 64,
        freecount: 1,
        free: 1.into(),
    }
}

#[test]
fn refcountbt() {
    stress_case::<Refcounts>(4, 12_000, shared, 3);
}

fn shared(random: &mut Random) -> refcount::Rec {
    refcount::Rec {
        startblock: u32::try_from(random.below(1_u64 << 32)).unwrap().into(),
        blockcount: 1.into(),
        refcount: u32::try_from(random.below(9)).unwrap().into(),
    }
}

fn mapping(random: &mut Random) -> rmap::Rec {
    let word = |n: u64| u32::try_from(n).unwrap().into();
    rmap::Rec {
        startblock: word(random.below(1 << 14)),
        // Now and then a long one, whose end is a key far up.
        blockcount: word(if random.below(20) == 0 { 1 + random.below(3000) } else { 1 }),
        owner: (128 + random.below(4)).into(),
        offset: random.below(1 << 10).into(),
    }
}

#[test]
fn rmapbt() {
    stress_case::<Mappings>(5, 6000, mapping, 3);
}

#[test]
fn overlapping_records_are_found_like_by_looking_at_all() {
    let volume = volume();
    let home = Lone::<Mappings>::new(&volume);
    let mut random = Random::of_test(6);
    let mut model = BTreeMap::new();
    for _ in 0..40 {
        let some: Vec<_> = (0..50).map(|_| mapping(&mut random)).collect();
        transact(&volume, |tx| {
            let mut cursor = Cursor::new(&home);
            for rec in &some {
                if model.insert(Mappings::rec_pos(rec), *rec).is_none() {
                    cursor.insert(tx, rec)?;
                } else {
                    cursor.seek(tx, Mappings::rec_pos(rec), Seek::Eq)?;
                    cursor.update(tx, rec)?;
                }
            }
            cursor.close(tx);
            Ok(())
        })
        .unwrap();
    }
    for _ in 0..200 {
        let from = u32::try_from(random.below(1 << 14)).unwrap();
        let to = from + u32::try_from(random.below(20)).unwrap();
        let touches = |rec: &&rmap::Rec| {
            let start = rec.startblock.get();
            start <= to && start + rec.blockcount.get() > from
        };
        let due: Vec<_> = model.values().filter(touches).copied().collect();
        let (low, high) = ((from, 0, 0), (to, u64::MAX, u64::MAX));
        transact(&volume, |tx| {
            let found = Cursor::new(&home).overlapping(tx, low, high, 1 << 20)?;
            assert_eq!(found, due);
            let some = Cursor::new(&home).overlapping(tx, low, high, 2)?;
            assert_eq!(some, due[..due.len().min(2)]);
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn records_in_ascending_order_leave_blocks_nearly_full() {
    let volume = volume();
    let home = Lone::<ByBlock>::new(&volume);
    for round in 0..200u32 {
        transact(&volume, |tx| {
            let mut cursor = Cursor::new(&home);
            for n in 0..100 {
                cursor.insert(tx, &alloc::Rec::new(AgBlock(round * 100 + n), ExtLen(1)))?;
            }
            cursor.close(tx);
            Ok(())
        })
        .unwrap();
    }
    let blocks = 7000 - home.pool.borrow().len();
    assert!(blocks < 20_000 / 121 * 112 / 100, "{blocks} blocks for 20000 records of 121 each");
}

#[test]
fn a_change_that_fails_halfway_leaves_no_trace() {
    fn all(tx: &mut SpaceTx<'_>, home: &Lone<ByBlock>) -> Result<Vec<(u32, u32)>> {
        let mut cursor = Cursor::new(home);
        let mut found = Vec::new();
        let mut next = cursor.first(tx)?;
        while let Some(rec) = next {
            found.push((rec.startblock.get(), rec.blockcount.get()));
            next = cursor.next(tx)?;
        }
        cursor.close(tx);
        Ok(found)
    }
    let volume = volume();
    let home = Lone::<ByBlock>::new(&volume);
    let mut random = Random::of_test(7);
    for round in 0..30 {
        let root = home.root.get();
        let pool = home.pool.borrow().clone();
        let before = transact(&volume, |tx| all(tx, &home)).unwrap();
        let some: Vec<_> = (0..300).map(|_| extent(&mut random)).collect();
        let fails = round % 2 == 0;
        let answer = transact(&volume, |tx| {
            let mut cursor = Cursor::new(&home);
            for rec in &some {
                if cursor.seek(tx, rec.startblock.get(), Seek::Eq)?.is_none() {
                    cursor.insert(tx, rec)?;
                }
            }
            cursor.close(tx);
            if fails { Err(Error::NoSpace("patience")) } else { Ok(()) }
        });
        assert_eq!(answer.is_err(), fails);
        if fails {
            home.root.set(root);
            *home.pool.borrow_mut() = pool;
            assert_eq!(transact(&volume, |tx| all(tx, &home)).unwrap(), before);
        }
    }
}

/// A way through a tree.
type Way<K> = fn(&mut SpaceTx<'_>, &mut Cursor<&Lone<K>>, &[<K as RecordOps>::Rec]) -> Result<()>;

/// What ends when the blocks below the root are not where its keys say, however one comes there.
fn leads_astray<K: AgKind>(make: impl Fn(&mut Random) -> K::Rec) {
    let volume = volume();
    let home = Lone::<K>::new(&volume);
    let mut random = Random::of_test(8);
    let mut made: Vec<K::Rec> = Vec::new();
    while home.root.get().1 < 3 {
        transact(&volume, |tx| {
            let mut cursor = Cursor::new(&home);
            for _ in 0..40 {
                let rec = make(&mut random);
                if cursor.seek(tx, K::rec_pos(&rec), Seek::Eq)?.is_none() {
                    cursor.insert(tx, &rec)?;
                    made.push(rec);
                }
            }
            cursor.close(tx);
            Ok(())
        })
        .unwrap();
    }
    made.sort_unstable_by_key(K::rec_pos);
    let ways: [(&str, Way<K>); 6] = [
        ("seek", |tx, cursor, made| cursor.seek(tx, K::rec_pos(&made[0]), Seek::Ge).map(drop)),
        ("walk forth", |tx, cursor, _| {
            let mut next = cursor.first(tx)?;
            while next.is_some() {
                next = cursor.next(tx)?;
            }
            Ok(())
        }),
        ("walk back", |tx, cursor, _| {
            let mut next = cursor.last(tx)?;
            while next.is_some() {
                next = cursor.prev(tx)?;
            }
            Ok(())
        }),
        ("insert", |tx, cursor, made| cursor.insert(tx, &made[1])),
        ("delete", |tx, cursor, made| {
            cursor.seek(tx, K::rec_pos(&made[2]), Seek::Eq)?;
            cursor.delete(tx)
        }),
        ("overlapping", |tx, cursor, made| {
            let last = K::rec_pos(&made[made.len() - 1]);
            cursor.overlapping(tx, K::rec_pos(&made[0]), last, usize::MAX).map(drop)
        }),
    ];
    for (name, way) in ways {
        let answer: xfskit_core::Result<()> = transact(&volume, |tx| {
            let (root, levels) = home.root.get();
            let handle = (&home).read(tx, root)?;
            let shape = (&home).shape(tx, levels - 1);
            let [first, second] = [0, 1].map(|index| shape.ptr(tx.bytes(handle), index).unwrap());
            shape.set_ptr(&mut tx.image(handle), 0, second);
            shape.set_ptr(&mut tx.image(handle), 1, first);
            way(tx, &mut Cursor::new(&home), &made)?;
            Err(Error::NoSpace("nothing was noticed"))
        });
        let said = answer.unwrap_err().to_string();
        assert!(said.contains("Key in"), "{:?}: {name}: {said}", K::TREE);
    }
}

#[test]
fn blocks_outside_of_their_keys_are_damage_on_every_way() {
    leads_astray::<ByBlock>(extent);
    leads_astray::<BySize>(extent);
    leads_astray::<Chunks<false>>(chunk);
    leads_astray::<Chunks<true>>(chunk);
    leads_astray::<Mappings>(mapping);
    leads_astray::<Refcounts>(shared);
}
