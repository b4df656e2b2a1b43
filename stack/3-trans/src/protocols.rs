//! The engine's protocols, with their steps taken in thousands of orders: `make protocols`.
//!
//! Each test runs a few threads whose locks, waits and atomics belong to a scheduler. The scheduler
//! runs them again and again, and chooses the next thread after each step: at random, and with few
//! preemptions, which reaches other orders. A deadlock fails the test. The seeds are fixed; a
//! failure prints the order that led to it.

use std::sync::Arc;

use shuttle::Runner;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use xfskit_block::{BlockDevice, MemDevice};
use xfskit_format::Image;
use xfskit_units::{AgBlock, AgNumber, ByteLen, ByteOffset, ExtLen, FsBlock};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, thread};
use crate::testing::{SIZE, engine_and_log, engine_of, map, read, recovered, recovered_on};
use crate::{Engine, Freed, Running};

/// Orders of each kind.
const ORDERS: usize = 1000;
/// Most preemptions of a thread that the scheduler prefers.
const CHANGES: usize = 4;
/// Inodes that there is memory for: enough for transactions to be parked.
const INODES: usize = 1 << 16;
/// A block that belongs to no structure.
const BLOCK: u64 = 3000;

/// Runs `protocol` in many orders.
fn explore(protocol: impl Fn() + Send + Sync + 'static) {
    let protocol = Arc::new(protocol);
    let random = Arc::clone(&protocol);
    let config = || {
        let mut config = shuttle::Config::new();
        config.stack_size = 1 << 20;
        config
    };
    Runner::new(RandomScheduler::new_from_seed(7, ORDERS), config()).run(move || random());
    Runner::new(PctScheduler::new_from_seed(7, CHANGES, ORDERS), config()).run(move || protocol());
}

/// A device with a cache that a crash empties: what was not flushed is lost.
#[derive(Debug)]
struct Caching {
    now: MemDevice,
    durable: MemDevice,
    unflushed: Mutex<Vec<(ByteOffset, Vec<u8>)>>,
}

impl BlockDevice for Caching {
    xfskit_block::plain!();
    fn size(&self) -> ByteLen {
        self.now.size()
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> xfskit_block::Result<()> {
        self.now.read_at(offset, buf)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> xfskit_block::Result<()> {
        // A device takes time, and other threads run meanwhile.
        thread::yield_now();
        self.unflushed.lock().push((offset, buf.into()));
        self.now.write_at(offset, buf)
    }
    fn flush(&self) -> xfskit_block::Result<()> {
        let mut unflushed = self.unflushed.lock();
        unflushed.drain(..).try_for_each(|(offset, bytes)| self.durable.write_at(offset, &bytes))
    }
}

/// An engine, its device, and the device of its journal.
#[derive(Clone)]
struct Volume {
    engine: Arc<Engine>,
    dev: Arc<Caching>,
    log_dev: Arc<dyn BlockDevice>,
}

impl Volume {
    fn new() -> Self {
        let [now, durable] = [SIZE; 2].map(MemDevice::new);
        let dev = Arc::new(Caching { now, durable, unflushed: Mutex::default() });
        let (engine, log_dev) = engine_of(dev.clone(), INODES);
        Self { engine: Arc::new(engine), dev, log_dev }
    }

    /// Puts `value` into each of `blocks`, in one transaction. Returns the checkpoint that contains
    /// it.
    fn change(&self, blocks: &[u64], value: u8) -> u64 {
        let mut tx = self.engine.begin().unwrap();
        for &block in blocks {
            let handle = read(&mut tx, block, None).unwrap();
            // At another offset each time: the changes of a block add up.
            tx.image(handle).put(usize::from(value) * 256, &[value]);
            tx.image(handle).put(0, &[value]);
        }
        tx.commit()
    }

    /// Adds `value` to each of `blocks` in a transaction, and parks it.
    fn change_and_park(&self, blocks: &[u64], value: u8) {
        let mut tx = self.engine.resume().unwrap();
        for &block in blocks {
            let handle = read(&mut tx, block, None).unwrap();
            let so_far = tx.bytes(handle)[0];
            tx.image(handle).put(0, &[so_far + value]);
        }
        tx.park();
    }

    /// Returns what a crash now would leave of a block.
    fn after_crash(&self, block: u64) -> Vec<u8> {
        recovered_on(&self.dev.durable, &*self.log_dev, block)
    }

    /// Returns the first byte of a block on the device.
    fn in_place(&self, block: u64) -> u8 {
        let mut byte = [0];
        self.engine.device().read_at(ByteOffset(block * 4096), &mut byte).unwrap();
        byte[0]
    }

    fn spawn(&self, work: impl FnOnce(&Self) + Send + 'static) -> thread::JoinHandle<()> {
        let volume = self.clone();
        thread::spawn(move || work(&volume))
    }
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn force_returns_with_the_change_durable_whichever_thread_leads() {
    explore(|| {
        let volume = Volume::new();
        let one = |n: u8| {
            volume.spawn(move |volume| {
                for value in [1, 2] {
                    let number = volume.change(&[BLOCK + u64::from(n)], value);
                    volume.engine.force(number).unwrap();
                    assert_eq!(volume.after_crash(BLOCK + u64::from(n))[0], value);
                }
            })
        };
        join((0..3).map(one).collect());
    });
}

#[test]
fn no_thread_waits_for_a_parked_transaction() {
    explore(|| {
        let volume = Volume::new();
        let writer = |blocks: [u64; 2]| {
            volume.spawn(move |volume| {
                (0..3).for_each(|_| volume.change_and_park(&blocks, 1));
            })
        };
        let checkpoints = volume.spawn(|volume| {
            for _ in 0..2 {
                volume.engine.checkpoint().unwrap();
                let [one, both, other] =
                    [BLOCK, BLOCK + 1, BLOCK + 2].map(|block| volume.after_crash(block)[0]);
                assert_eq!(one + other, both, "a change in part");
                volume.engine.write_back().unwrap();
            }
        });
        let reader = volume.spawn(|volume| {
            let mut tx = volume.engine.begin().unwrap();
            let [one, both, other] = [BLOCK, BLOCK + 1, BLOCK + 2].map(|block| {
                let handle = read(&mut tx, block, None).unwrap();
                tx.bytes(handle)[0]
            });
            assert_eq!(one + other, both, "a change in part");
        });
        let writers = [writer([BLOCK, BLOCK + 1]), writer([BLOCK + 1, BLOCK + 2])];
        join(writers.into_iter().chain([checkpoints, reader]).collect());
        volume.engine.unmount().unwrap();
        assert_eq!([BLOCK, BLOCK + 1, BLOCK + 2].map(|block| volume.in_place(block)), [3, 6, 3]);
    });
}

#[test]
fn a_crash_sees_transactions_whole_and_nothing_in_place_that_is_not_durable() {
    explore(|| {
        let volume = Volume::new();
        let writer = volume.spawn(|volume| {
            for value in 1..=4 {
                volume.change(&[BLOCK, BLOCK + 1], value);
            }
        });
        let checkpoints = volume.spawn(|volume| {
            let mut before = 0;
            for _ in 0..4 {
                volume.engine.checkpoint().unwrap();
                let [one, other] = [BLOCK, BLOCK + 1].map(|block| volume.after_crash(block));
                assert!(one == other, "{} and {}", one[0], other[0]);
                assert!(before <= one[0], "{} after {before}", one[0]);
                before = one[0];
                for value in 1..=before {
                    assert_eq!(one[usize::from(value) * 256], value, "the tail went too far");
                }
            }
        });
        let write_back = volume.spawn(|volume| {
            for _ in 0..3 {
                volume.engine.write_back().unwrap();
                let in_place = volume.in_place(BLOCK);
                let durable = volume.after_crash(BLOCK)[0];
                assert!(in_place <= durable, "{in_place} in place, {durable} durable");
            }
        });
        join(vec![writer, checkpoints, write_back]);
        volume.engine.unmount().unwrap();
        assert_eq!([BLOCK, BLOCK + 1].map(|block| volume.in_place(block)), [4, 4]);
    });
}

#[test]
fn a_change_during_the_push_of_its_block_is_not_lost() {
    explore(|| {
        let volume = Volume::new();
        let writer = volume.spawn(|volume| {
            for value in 1..=5 {
                volume.change(&[BLOCK], value);
                volume.engine.checkpoint().unwrap();
                let found = volume.after_crash(BLOCK);
                for before in 1..=value {
                    assert_eq!(found[usize::from(before) * 256], before, "after {value}");
                }
            }
        });
        let write_back = volume.spawn(|volume| {
            for _ in 0..4 {
                volume.engine.write_back().unwrap();
            }
        });
        join(vec![writer, write_back]);
    });
}

#[test]
fn a_freed_block_is_not_written_over_its_next_content() {
    explore(|| {
        let volume = Volume::new();
        let writer = volume.spawn(|volume| {
            volume.change(&[BLOCK], 1);
            volume.engine.checkpoint().unwrap();
            let mut tx = volume.engine.begin().unwrap();
            let handle = read(&mut tx, BLOCK, None).unwrap();
            tx.invalidate(handle);
            let freed = tx.commit();
            volume.engine.force(freed).unwrap();
            // The content of a file.
            volume.dev.now.write_at(ByteOffset(BLOCK * 4096), &[9; 4096]).unwrap();
        });
        let write_back = volume.spawn(|volume| {
            volume.engine.write_back().unwrap();
            volume.engine.write_back().unwrap();
        });
        join(vec![writer, write_back]);
        volume.engine.unmount().unwrap();
        assert_eq!(volume.in_place(BLOCK), 9);
    });
}

#[test]
fn pins_and_items_add_up_when_blocks_change_during_a_push() {
    explore(|| {
        let volume = Volume::new();
        let writers = (0..2).map(|n| {
            volume.spawn(move |volume| {
                for value in 1..=3 {
                    volume.change(&[BLOCK, BLOCK + 1 + n], value);
                    if value == 2 {
                        volume.engine.checkpoint().unwrap();
                    }
                }
            })
        });
        let mut threads: Vec<_> = writers.collect();
        threads.push(volume.spawn(|volume| {
            volume.engine.write_back().unwrap();
            volume.engine.write_back().unwrap();
        }));
        join(threads);
        volume.engine.unmount().unwrap();
        assert_eq!(volume.engine.ail.tail(), None, "nothing is left to be written");
        for block in BLOCK..BLOCK + 3 {
            let item = volume.engine.cache().item(&map(block));
            assert_eq!(item.pins.load(Ordering::Relaxed), 0, "{block}");
            assert_eq!(volume.in_place(block), 3, "{block}");
        }
    });
}

#[test]
fn a_change_is_durable_only_after_the_data_it_refers_to() {
    explore(|| {
        let volume = Volume::new();
        let written = Arc::new(AtomicBool::new(false));
        let writer = {
            let written = Arc::clone(&written);
            volume.spawn(move |volume| {
                let mut tx = volume.engine.begin().unwrap();
                let handle = read(&mut tx, BLOCK, None).unwrap();
                tx.image(handle).put(0, &[1]);
                let ticket = tx.data_ticket();
                tx.commit();
                written.store(true, Ordering::SeqCst);
                drop(ticket);
            })
        };
        let checkpoints = volume.spawn(move |volume| {
            for _ in 0..2 {
                volume.engine.checkpoint().unwrap();
                let durable = volume.after_crash(BLOCK)[0] == 1;
                assert!(!durable || written.load(Ordering::SeqCst), "the data came too late");
            }
        });
        join(vec![writer, checkpoints]);
    });
}

#[test]
fn freed_and_remapped_extents_are_recorded_until_the_checkpoint_is_durable() {
    explore(|| {
        let volume = Volume::new();
        let writer = volume.spawn(|volume| {
            let mut tx = volume.engine.begin().unwrap();
            let handle = read(&mut tx, BLOCK, None).unwrap();
            tx.image(handle).put(0, &[1]);
            tx.note_freed(Freed { agno: AgNumber(0), agbno: AgBlock(9), len: ExtLen(1) });
            tx.note_remapped(FsBlock(20));
            tx.commit();
        });
        let checkpoints = volume.spawn(|volume| {
            volume.engine.checkpoint().unwrap();
            volume.engine.checkpoint().unwrap();
        });
        let observer = volume.spawn(|volume| {
            for _ in 0..3 {
                let mut tx = volume.engine.begin().unwrap();
                let handle = read(&mut tx, BLOCK, None).unwrap();
                let changed = tx.bytes(handle)[0] == 1;
                let busy = volume.engine.busy().has_extents(AgNumber(0));
                let remapped = volume.engine.remapped_in(FsBlock(20)).is_some();
                if changed && !(busy && remapped) {
                    assert_eq!(volume.after_crash(BLOCK)[0], 1, "busy {busy}, remapped {remapped}");
                }
                drop(tx);
                thread::yield_now();
            }
        });
        join(vec![writer, checkpoints, observer]);
    });
}

#[test]
fn the_journal_thread_receives_every_signal_and_the_last() {
    explore(|| {
        let (engine, log_dev) = engine_and_log();
        let engine = Arc::new(Running::new(engine));
        let change = |engine: &Running, from: u64| {
            for block in from..from + 4 {
                let mut tx = engine.begin().unwrap();
                let handle = read(&mut tx, block, None).unwrap();
                tx.image(handle).put(0, &[1]);
                tx.commit();
                engine.signal().notify();
            }
        };
        let other = Arc::clone(&engine);
        let thread = thread::spawn(move || change(&other, BLOCK + 10));
        change(&engine, BLOCK);
        engine.checkpoint().unwrap();
        assert_eq!(recovered(&engine, &*log_dev, BLOCK + 3)[0], 1);
        thread.join().unwrap();
        // The last owner stops the thread, which must receive that wherever it is.
        drop(engine);
    });
}

/// Changes all bytes of twelve blocks from `from` on, one after another: two threads that do so
/// find the CIL full. Stops if the volume is shut down.
fn fill_cil(engine: &Running, from: u64) {
    for block in from..from + 12 {
        let Ok(mut tx) = engine.begin() else { return };
        let handle = read(&mut tx, block, None).unwrap();
        tx.image(handle).put(0, &[1u8; 4096]);
        tx.commit();
    }
}

#[test]
fn a_thread_that_finds_the_cil_full_continues_after_the_take_over() {
    explore(|| {
        let (engine, log_dev) = engine_and_log();
        let engine = Arc::new(Running::new(engine));
        let other = Arc::clone(&engine);
        let thread = thread::spawn(move || fill_cil(&other, BLOCK + 12));
        fill_cil(&engine, BLOCK);
        thread.join().unwrap();
        engine.checkpoint().unwrap();
        assert_eq!(recovered(&engine, &*log_dev, BLOCK + 23), [1; 4096]);
    });
}

#[test]
fn a_thread_that_finds_the_cil_full_returns_when_the_volume_is_shut_down() {
    explore(|| {
        let engine = Arc::new(Running::new(engine_and_log().0));
        let other = Arc::clone(&engine);
        let thread = thread::spawn(move || fill_cil(&other, BLOCK + 12));
        let last = Arc::clone(&engine);
        let shuts = thread::spawn(move || drop(last.shut_down("by a test")));
        fill_cil(&engine, BLOCK);
        thread.join().unwrap();
        shuts.join().unwrap();
        assert!(engine.begin().is_err());
    });
}
