//! Transactions on a device in memory: undo, visibility, locks, the CIL.

use crate::sync::atomic::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xfskit_block::{BlockDevice, FaultDevice, FaultPlan, MemDevice};
use xfskit_format::inode::{CoreV3, Dinode};
use xfskit_format::{Ctx, Image, Location};
use xfskit_units::{AgBlock, AgNumber, ByteOffset, Daddr, ExtLen, Ino, Sectors};
use zerocopy::FromBytes;

use crate::push::SPLIT_PUSH_ITEMS;
use crate::testing::{
    SIZE, engine, engine_and_log, engine_of, engine_on, geo, map, read, recovered,
};
use crate::{
    BufMap, Engine, Freed, Handle, InodeLocation, LockPosition, NewCluster, Running, Trans,
    TransError,
};

fn committed(engine: &Engine, block: u64) -> Vec<u8> {
    let geo = geo();
    let ctx = Ctx::new(&geo, Location::of("test"));
    engine.cache().read(&map(block), &ctx, &|_, _| Ok(())).unwrap()[..4].to_vec()
}

#[test]
fn a_dropped_transaction_leaves_no_trace() {
    let engine = engine();
    {
        let mut tx = engine.begin().unwrap();
        let a = read(&mut tx, 3000, None).unwrap();
        tx.image(a).put(0, b"abcd");
        tx.image(a).put(2, b"xy");
        let b = tx.fresh(&map(3000)).unwrap();
        assert_eq!(a, b);
        tx.image(b).put(0, b"new!");
        let c = tx.fresh(&map(3001)).unwrap();
        tx.image(c).put(0, b"also");
        tx.delta.fdblocks -= 2;
        tx.note_freed(Freed { agno: AgNumber(0), agbno: AgBlock(9), len: ExtLen(1) });
    }
    assert_eq!(committed(&engine, 3000), [0; 4]);
    assert_eq!(committed(&engine, 3001), [0; 4]);
    assert_eq!(engine.counters().get().fdblocks, 1000);
    assert!(!engine.busy().has_extents(AgNumber(0)));
    engine.unmount().unwrap();
    let mut block = [0; 4096];
    engine.device().read_at(ByteOffset(3000 * 4096), &mut block).unwrap();
    assert_eq!(block, [0; 4096]);
}

#[test]
fn try_join_returns_a_block_that_is_in_use_and_not_locked() {
    let engine = engine();
    let at = (Daddr(3000 * 8), 4096);
    let mut tx = engine.begin().unwrap();
    let a = read(&mut tx, 3000, None).unwrap();
    let block = std::sync::Arc::downgrade(tx.item(a));
    tx.image(a).put(0, b"abcd");
    assert_eq!(tx.try_join(at, None), Some(a), "this transaction has it");
    tx.commit();
    {
        let mut tx = engine.begin().unwrap();
        assert_eq!(tx.try_join(at, None), None, "no reference is given");
        let a = tx.try_join(at, Some(&block)).unwrap();
        assert_eq!((&tx.bytes(a)[..4], tx.held_at(&map(3000))), (&b"abcd"[..], Some(a)));
        tx.image(a).put(0, b"undo");
        assert_eq!(read(&mut tx, 3000, None).unwrap(), a);
    }
    assert_eq!(committed(&engine, 3000), b"abcd");
    engine.cache().clear();
    let mut tx = engine.begin().unwrap();
    let a = tx.try_join(at, Some(&block)).expect("what is not in place is not forgotten");
    tx.invalidate(a);
    tx.commit();
    assert_eq!(engine.begin().unwrap().try_join(at, Some(&block)), None, "it was freed");
    engine.checkpoint().unwrap();
    engine.write_back().unwrap();
    engine.cache().clear();
    assert_eq!(engine.begin().unwrap().try_join(at, Some(&block)), None, "it is to be read first");
}

#[test]
fn a_committed_change_is_visible_and_is_written_in_place() {
    let engine = engine();
    let mut tx = engine.begin().unwrap();
    let a = read(&mut tx, 3000, None).unwrap();
    let before = tx.snapshot(a);
    tx.image(a).put(0, b"abcd");
    assert_eq!(before[..4], [0; 4]);
    tx.delta.ifree += 3;
    tx.commit();
    assert_eq!(committed(&engine, 3000), b"abcd");
    assert_eq!(engine.counters().get().ifree, 3);
    engine.checkpoint().unwrap();
    engine.write_back().unwrap();
    let mut block = [0; 4];
    engine.device().read_at(ByteOffset(3000 * 4096), &mut block).unwrap();
    assert_eq!(&block, b"abcd");
}

#[test]
fn join_if_returns_a_block_only_while_it_matches() {
    let engine = engine();
    let mut tx = engine.begin().unwrap();
    let block = read(&mut tx, 3000, None).unwrap();
    tx.image(block).put(0, b"mine");
    let remembered = tx.item(block).clone();
    let is_mine = |bytes: &[u8]| bytes.starts_with(b"mine");
    assert_eq!(tx.join_if(&remembered, None, is_mine).unwrap(), Some(block), "held already");
    assert_eq!(tx.join_if(&remembered, None, |_| false).unwrap(), None);
    tx.image(block).put(4, b"still held");
    // Another transaction holds it: it is not waited for.
    std::thread::scope(|scope| {
        let other =
            || engine.begin().unwrap().join_if(&remembered, None, is_mine).unwrap().is_some();
        assert!(!scope.spawn(other).join().unwrap());
    });
    tx.commit();

    let mut tx = engine.begin().unwrap();
    assert!(tx.join_if(&remembered, None, |_| false).unwrap().is_none());
    assert!(!tx.holds(&map(3000)), "a block that does not match is released at once");
    let block = tx.join_if(&remembered, None, is_mine).unwrap().unwrap();
    tx.invalidate(block);
    assert!(tx.join_if(&remembered, None, is_mine).unwrap().is_none(), "freed just now");
    tx.commit();
    let is_joined =
        || engine.begin().unwrap().join_if(&remembered, None, |_| true).unwrap().is_some();
    assert!(!is_joined(), "freed");
    engine.checkpoint().unwrap();
    assert!(!is_joined(), "not in memory any more");
}

#[test]
fn a_change_that_is_not_durable_is_not_written_in_place() {
    let engine = engine();
    let change = |text: &[u8; 4]| {
        let mut tx = engine.begin().unwrap();
        let a = read(&mut tx, 3000, None).unwrap();
        tx.image(a).put(0, text);
        tx.commit();
    };
    change(b"aaaa");
    engine.checkpoint().unwrap();
    change(b"bbbb");
    engine.write_back().unwrap();
    let mut block = [0; 4];
    engine.device().read_at(ByteOffset(3000 * 4096), &mut block).unwrap();
    assert_eq!(block, [0; 4], "pinned by the CIL");
    engine.checkpoint().unwrap();
    engine.write_back().unwrap();
    engine.device().read_at(ByteOffset(3000 * 4096), &mut block).unwrap();
    assert_eq!(&block, b"bbbb");
}

#[test]
fn a_change_that_the_tail_passes_is_in_place_or_logged_again() {
    let (engine, log_dev) = engine_and_log();
    let mut expected = vec![0; 4096];
    for n in 0..40u8 {
        let at = usize::from(n) * 1031 % 4000;
        let mut tx = engine.begin().unwrap();
        let a = read(&mut tx, 3000, None).unwrap();
        tx.image(a).put(at, &[n, n]);
        expected[at..at + 2].fill(n);
        tx.commit();
        engine.checkpoint().unwrap();
        assert!(recovered(&engine, &*log_dev, 3000) == expected, "after {n}");
        if n % 7 == 6 {
            engine.write_back().unwrap();
            assert!(recovered(&engine, &*log_dev, 3000) == expected, "after {n}, in place");
        }
    }
}

#[test]
fn locks_out_of_order_are_tried_and_return_busy() {
    let engine = engine();
    let mut first = engine.begin().unwrap();
    read(&mut first, 1, Some(LockPosition::Agf(AgNumber(0)))).unwrap();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let mut second = engine.begin().unwrap();
            read(&mut second, 2, Some(LockPosition::Agf(AgNumber(1)))).unwrap();
            match read(&mut second, 1, Some(LockPosition::Agf(AgNumber(0)))) {
                Err(TransError::Busy(busy)) => busy,
                other => panic!("{other:?}"),
            }
        });
        let busy = busy.join().unwrap();
        drop(first);
        busy.wait(&engine);
    });
}

/// Returns an engine whose transactions may be parked.
fn parking_engine() -> (Engine, Arc<dyn BlockDevice>) {
    engine_of(Arc::new(MemDevice::new(SIZE)), 1 << 16)
}

/// Puts `text` into a block, in a transaction that is parked then.
fn put_and_park(engine: &Engine, block: u64, text: &str) -> u64 {
    let mut tx = engine.resume().unwrap();
    let handle = read(&mut tx, block, None).unwrap();
    tx.image(handle).put(0, text.as_bytes());
    tx.delta.ifree += 1;
    tx.park()
}

fn is_parked(engine: &Engine) -> bool {
    engine.cache().item(&map(3000)).lock.is_locked()
}

#[test]
fn a_change_that_fails_undoes_itself_alone() {
    let (engine, _) = parking_engine();
    put_and_park(&engine, 3000, "aaaa");
    put_and_park(&engine, 3001, "bbbb");
    assert!(is_parked(&engine));
    {
        let mut tx = engine.resume().unwrap();
        let [a, c] = [3000, 3002].map(|block| read(&mut tx, block, None).unwrap());
        assert_eq!(tx.bytes(a)[..4], *b"aaaa", "as the last change left it");
        tx.image(a).put(2, b"xx");
        let b = tx.fresh(&map(3001)).unwrap();
        tx.image(b).put(0, b"new!");
        tx.image(c).put(0, b"also");
        tx.invalidate(c);
        tx.delta.ifree += 5;
        tx.note_freed(Freed { agno: AgNumber(0), agbno: AgBlock(9), len: ExtLen(1) });
    }
    assert!(!is_parked(&engine), "complete changes are committed");
    assert_eq!([3000, 3001].map(|block| committed(&engine, block)), [b"aaaa", b"bbbb"]);
    assert_eq!(committed(&engine, 3002), [0; 4]);
    assert_eq!(engine.counters().get().ifree, 2);
    assert!(!engine.busy().has_extents(AgNumber(0)));
    let counted = engine.stats().transactions;
    assert_eq!((counted.changes, counted.undone, counted.items), (2, 1, 2));
    assert_eq!(counted.committed, 1, "both changes were parked in one transaction");
}

#[test]
fn no_thread_waits_for_a_parked_transaction() {
    let (engine, log_dev) = parking_engine();
    let number = put_and_park(&engine, 3000, "aaaa");
    assert!(is_parked(&engine));
    assert_eq!(committed(&engine, 3000), b"aaaa", "to a reader in the same thread");
    assert!(!is_parked(&engine));

    put_and_park(&engine, 3000, "bbbb");
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(committed(&engine, 3000) == b"bbbb")).join().unwrap();
        put_and_park(&engine, 3000, "cccc");
        scope.spawn(|| put_and_park(&engine, 3000, "dddd")).join().unwrap();
    });
    assert!(is_parked(&engine), "in a thread that is gone");
    assert_eq!(put_and_park(&engine, 3000, "eeee"), number);
    engine.force(number).unwrap();
    assert_eq!(recovered(&engine, &*log_dev, 3000)[..4], *b"eeee");

    let later = put_and_park(&engine, 3000, "ffff");
    assert_eq!(later, number + 1);
    engine.force_item(&engine.cache().item(&map(3000))).unwrap();
    assert_eq!(recovered(&engine, &*log_dev, 3000)[..4], *b"ffff");
    put_and_park(&engine, 3000, "gggg");
    engine.unmount().unwrap();
    let mut block = [0; 4];
    engine.device().read_at(ByteOffset(3000 * 4096), &mut block).unwrap();
    assert_eq!(&block, b"gggg");
}

#[test]
fn a_change_that_does_more_than_edit_is_not_parked() {
    type Change = fn(&mut Trans<'_>, Handle);
    let changes: [Change; 5] = [
        |tx, block| tx.invalidate(block),
        |tx, _| tx.note_freed(Freed { agno: AgNumber(0), agbno: AgBlock(9), len: ExtLen(1) }),
        |tx, _| drop(tx.data_ticket()),
        |tx, _| tx.delta.fdblocks -= 1,
        |tx, _| assert_ne!(tx.fresh(&map(3001)).unwrap(), Handle(0)),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (engine, _) = parking_engine();
        put_and_park(&engine, 3000, "aaaa");
        let mut tx = engine.resume().unwrap();
        let block = read(&mut tx, 3000, None).unwrap();
        change(&mut tx, block);
        tx.park();
        assert!(!is_parked(&engine), "{number}");
    }
    let small = engine();
    put_and_park(&small, 3000, "aaaa");
    assert!(!is_parked(&small), "there is no space for it");
}

#[test]
fn an_item_of_a_complete_change_is_not_released() {
    let (engine, _) = parking_engine();
    let mut tx = engine.begin().unwrap();
    let header = read(&mut tx, 3000, None).unwrap();
    let block = read(&mut tx, 3001, None).unwrap();
    tx.image(block).put(0, b"x");
    tx.release(header);
    assert!(!tx.is_contended(&map(3000)), "the running change may release it");
    read(&mut tx, 3000, None).unwrap();
    tx.park();
    let mut tx = engine.resume().unwrap();
    let header = read(&mut tx, 3000, None).unwrap();
    tx.release(header);
    assert!(tx.is_contended(&map(3000)), "it protects what the first change has changed");
    drop(tx);
    assert!(!engine.begin().unwrap().is_contended(&map(3000)));
}

#[test]
fn freed_extents_are_busy_until_the_checkpoint() {
    let engine = engine();
    let mut tx = engine.begin().unwrap();
    let a = read(&mut tx, 3000, None).unwrap();
    tx.image(a).put(0, b"x");
    tx.note_freed(Freed { agno: AgNumber(0), agbno: AgBlock(9), len: ExtLen(1) });
    tx.commit();
    assert!(engine.busy().has_extents(AgNumber(0)));
    engine.checkpoint().unwrap();
    assert!(!engine.busy().has_extents(AgNumber(0)));
}

#[test]
fn a_checkpoint_waits_for_the_data_it_refers_to() {
    let engine = engine();
    let mut tx = engine.begin().unwrap();
    let a = read(&mut tx, 3000, None).unwrap();
    tx.image(a).put(0, b"x");
    let ticket = tx.data_ticket();
    tx.commit();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            engine.checkpoint().unwrap();
            assert!(done.load(Ordering::SeqCst), "the data came first");
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        done.store(true, Ordering::SeqCst);
        drop(ticket);
    });
}

#[test]
fn a_panic_in_a_transaction_or_before_its_data_is_written_shuts_the_volume_down() {
    let panics = |work: &dyn Fn(&Engine)| {
        let engine = engine();
        let died = catch_unwind(AssertUnwindSafe(|| work(&engine)));
        assert!(died.is_err());
        let Err(TransError::ShutDown(cause)) = engine.checkpoint() else { panic!("not shut down") };
        assert!(cause.to_string().contains("panic during"), "{cause}");
        assert_eq!(committed(&engine, 3000), [0; 4], "it is undone");
    };
    panics(&|engine| {
        let mut tx = engine.begin().unwrap();
        let block = read(&mut tx, 3000, None).unwrap();
        tx.image(block).put(0, b"half");
        panic!("of the test");
    });
    panics(&|engine| {
        let mut tx = engine.begin().unwrap();
        let _ticket = tx.data_ticket();
        tx.commit();
        panic!("of the test");
    });
}

#[test]
fn a_transaction_in_a_destructor_of_a_panic_is_like_any_other() {
    struct InDrop<'e>(&'e Engine);
    impl Drop for InDrop<'_> {
        fn drop(&mut self) {
            drop(self.0.begin().unwrap());
        }
    }
    let engine = engine();
    let died = catch_unwind(AssertUnwindSafe(|| {
        let _in_drop = InDrop(&engine);
        panic!("of the test");
    }));
    assert!(died.is_err());
    engine.checkpoint().unwrap();
}

#[test]
fn changes_of_many_threads_add_up() {
    let engine = engine();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..500u64 {
                    let mut tx = engine.begin().unwrap();
                    let at = read(&mut tx, 3000 + i % 7, None).unwrap();
                    let n = u32::from_be_bytes(tx.bytes(at)[..4].try_into().unwrap());
                    tx.image(at).put(0, &(n + 1).to_be_bytes());
                    if i % 3 == 0 {
                        drop(tx);
                    } else {
                        tx.commit();
                    }
                    if i % 100 == 99 {
                        engine.checkpoint().unwrap();
                    }
                }
            });
        }
    });
    let count = |block| u32::from_be_bytes(committed(&engine, block).try_into().unwrap());
    assert_eq!((3000..3007).map(count).sum::<u32>(), 4 * 333);
}

#[test]
fn damage_in_memory_does_not_reach_the_device() {
    let engine = engine();
    let mut tx = engine.begin().unwrap();
    let a = tx.fresh(&map(3000)).unwrap();
    // The magic says a directory block; nothing else in it does.
    tx.image(a).put(0, b"XDD3");
    tx.commit();
    engine.checkpoint().unwrap();
    assert!(matches!(engine.write_back(), Err(TransError::ShutDown(_))));
    assert!(engine.check_not_shut_down().is_err());
    let mut block = [0; 4];
    engine.device().read_at(ByteOffset(3000 * 4096), &mut block).unwrap();
    assert_eq!(block, [0; 4]);
}

#[test]
fn a_thread_writes_the_checkpoint_when_the_cil_is_half_full() {
    let engine = Running::new(engine());
    let mut tx = engine.begin().unwrap();
    tx.note_freed(Freed { agno: AgNumber(0), agbno: AgBlock(9), len: ExtLen(1) });
    tx.commit();
    for block in 1000..2500 {
        let mut tx = engine.begin().unwrap();
        let a = tx.fresh(&map(block)).unwrap();
        tx.image(a).put(0, b"text");
        tx.commit();
    }
    // No test code asked for a checkpoint, and the CIL had space for more.
    let end = Instant::now() + Duration::from_secs(60);
    while engine.busy().has_extents(AgNumber(0)) {
        assert!(Instant::now() < end, "no checkpoint was written");
        std::thread::sleep(Duration::from_millis(1));
    }
}

// ---- new inode clusters -------------------------------------------------------------------------

/// The cluster in the tests below: 4 blocks that belong to no structure.
fn cluster() -> BufMap {
    BufMap::single(Daddr(3000 * 8), Sectors(32))
}

const NEW: NewCluster = NewCluster { first: Ino(24_000), generation: 7 };

fn location(number: usize) -> InodeLocation {
    let cluster = cluster().as_single().unwrap();
    InodeLocation { cluster, offset: number * geo().inodesize() }
}

/// Allocates inode `number` of the cluster, and puts `text` behind its core.
fn alloc_inode(engine: &Engine, number: usize, text: [u8; 4]) {
    let (mut tx, geo) = (engine.begin().unwrap(), geo());
    let ino = Ino(NEW.first.0 + number as u64);
    let (inode, bytes) = tx.new_inode(ino, &location(number)).unwrap();
    assert!(bytes.is_none());
    let new = tx.unmaterialized_cluster(&location(number)).expect("a new cluster");
    let image = new.image(&geo, location(number).offset, geo.inodesize());
    tx.init_inode(inode, CoreV3::read_from_prefix(&image).unwrap().0, geo.inodesize());
    tx.edit(inode, 400..404).copy_from_slice(&text);
    tx.commit();
}

/// Returns the text behind the core of each inode of the cluster on the device; verifies each.
fn in_place(engine: &Engine) -> Vec<[u8; 4]> {
    let geo = geo();
    let mut bytes = vec![0; cluster().byte_len()];
    engine.device().read_at(ByteOffset(3000 * 4096), &mut bytes).unwrap();
    let texts = (NEW.first.0..).zip(bytes.chunks_exact(geo.inodesize())).map(|(ino, inode)| {
        let ctx = Ctx::new(&geo, Location::of("test").ino(Ino(ino)));
        Dinode::verify(inode, &ctx, Ino(ino)).unwrap();
        inode[400..404].try_into().unwrap()
    });
    texts.collect()
}

fn make_cluster(engine: &Engine) {
    drop({
        let mut tx = engine.begin().unwrap();
        tx.new_cluster(&cluster(), NEW).unwrap();
        assert!(tx.unmaterialized_cluster(&location(3)).is_some());
        tx
    });
    assert!(engine.cache().unmaterialized_cluster(&location(3)).is_none(), "it was undone");
    let mut tx = engine.begin().unwrap();
    tx.new_cluster(&cluster(), NEW).unwrap();
    tx.commit();
}

fn is_in_memory(engine: &Engine) -> bool {
    engine.cache().item(&cluster()).lock.read().bytes.get().is_some()
}

#[test]
fn a_new_cluster_is_written_with_its_free_inodes() {
    let engine = engine();
    make_cluster(&engine);
    alloc_inode(&engine, 3, *b"mine");
    assert!(!is_in_memory(&engine));
    engine.checkpoint().unwrap();
    engine.write_back().unwrap();
    let texts = in_place(&engine);
    let mine = |number| if number == 3 { *b"mine" } else { [0; 4] };
    assert_eq!(texts, (0..texts.len()).map(mine).collect::<Vec<_>>());
    assert!(
        engine.cache().unmaterialized_cluster(&location(4)).is_none(),
        "it is not new any more"
    );
}

#[test]
fn a_cluster_whose_inodes_are_all_written_is_neither_read_nor_kept() {
    let engine = engine();
    make_cluster(&engine);
    let count = cluster().byte_len() / geo().inodesize();
    let text = |number: usize| u32::try_from(number).unwrap().to_be_bytes();
    (0..count).for_each(|number| alloc_inode(&engine, number, text(number)));
    engine.checkpoint().unwrap();
    engine.write_back().unwrap();
    assert_eq!(in_place(&engine), (0..count).map(text).collect::<Vec<_>>());
    assert!(!is_in_memory(&engine));
    // One inode changes again: the others are read from where they were written.
    let mut tx = engine.begin().unwrap();
    let load = || -> Result<_, TransError> { panic!("it is in memory") };
    let inode = tx.inode(Ino(NEW.first.0 + 5), &location(5), load).unwrap();
    tx.edit(inode, 400..404).copy_from_slice(b"more");
    tx.commit();
    engine.checkpoint().unwrap();
    engine.write_back().unwrap();
    let more = |number| if number == 5 { *b"more" } else { text(number) };
    assert_eq!(in_place(&engine), (0..count).map(more).collect::<Vec<_>>());
}

/// Writes their own number into blocks from 3000 on, enough for two push threads. Returns the
/// blocks.
fn change_many(engine: &Engine) -> std::ops::Range<u64> {
    let many = 3000..3000 + 2 * SPLIT_PUSH_ITEMS as u64;
    for block in many.clone() {
        let mut tx = engine.begin().unwrap();
        let handle = read(&mut tx, block, None).unwrap();
        tx.image(handle).put(0, &block.to_be_bytes());
        tx.commit();
    }
    engine.checkpoint().unwrap();
    many
}

#[test]
fn two_threads_put_each_block_in_place_once() {
    let engine = engine();
    let many = change_many(&engine);
    engine.write_back().unwrap();
    for block in many {
        let mut bytes = [0; 8];
        engine.device().read_at(ByteOffset(block * 4096), &mut bytes).unwrap();
        assert_eq!(bytes, block.to_be_bytes());
    }
    let (done, _) = engine.write_back.stats();
    assert_eq!((done.items, done.bytes, done.flushes), (256, 256 * 4096, 1));
    assert_eq!(engine.ail.tail(), None);
}

#[test]
fn a_failed_write_of_one_push_thread_shuts_the_volume_down() {
    for failing in [1, 6, 16] {
        // Each block was read before.
        let nth = 2 * SPLIT_PUSH_ITEMS as u64 + failing;
        let plan = FaultPlan { fail_nth: Some(nth), ..FaultPlan::default() };
        let dev = Arc::new(FaultDevice::new(Arc::new(MemDevice::new(SIZE)), plan));
        let (engine, log_dev) = engine_on(dev);
        let many = change_many(&engine);
        assert!(matches!(engine.write_back(), Err(TransError::ShutDown(_))), "write {failing}");
        assert!(engine.ail.tail().is_some(), "nothing is texts to be in place");
        let last = many.end - 1;
        assert_eq!(recovered(&engine, &*log_dev, last)[..8], last.to_be_bytes());
    }
}

#[test]
fn a_new_cluster_that_was_read_whole_is_written_with_later_changes() {
    let engine = engine();
    make_cluster(&engine);
    alloc_inode(&engine, 0, *b"mine");
    let geo = geo();
    let ctx = Ctx::new(&geo, Location::of("test"));
    engine.cache().read(&cluster(), &ctx, &|_, _| Ok(())).unwrap();
    assert!(is_in_memory(&engine));
    engine.checkpoint().unwrap();
    engine.write_back().unwrap();
    let texts = in_place(&engine);
    assert_eq!((texts[0], texts[1]), (*b"mine", [0; 4]));
}
