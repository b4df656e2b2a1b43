use std::collections::BTreeMap;

use xfskit_block::BlockDevice;
use xfskit_format::log::item::intent::{FreeExtent, Work};
use xfskit_format::log::item::{Family, Intent, Item, split};
use xfskit_format::{Ctx, Image, Location};
use xfskit_log::Log;
use xfskit_units::{Daddr, Lsn, Sectors};

use crate::testing::{engine_and_log, geo};
use crate::{BufMap, Engine};

/// Returns work that identifies an intent.
fn work(number: u64) -> Work {
    Work::Free(vec![FreeExtent { start: number.into(), len: 1.into(), pad: 0.into() }])
}

fn number(intent: &Intent) -> u64 {
    let Work::Free(extents) = &intent.work else { panic!("{intent:?}") };
    extents[0].start.get()
}

/// Logs the done item of `done` and an intent for `new` in one transaction.
fn roll(engine: &Engine, done: Option<&Intent>, new: Option<u64>) -> Option<Intent> {
    let mut tx = engine.begin().unwrap();
    if let Some(intent) = done {
        tx.log_done(intent.done());
    }
    let intent = new.map(|number| tx.log_intent(Family::ExtentFree, work(number)));
    tx.commit();
    intent
}

/// Returns what recovery would find: the number of intent and done items, and the open intents.
fn found(log_dev: &dyn BlockDevice) -> (usize, Vec<u64>, Lsn) {
    let geo = geo();
    let log = Log::open(log_dev, Daddr(0), &geo).unwrap();
    let ctx = Ctx::new(&geo, Location::of("test"));
    let (mut items, mut open) = (0, BTreeMap::new());
    for transaction in log.transactions().map(Result::unwrap) {
        let regions = transaction.regions();
        for item in split(&regions[1..], &ctx) {
            match Item::decode(item.unwrap(), &ctx).unwrap() {
                Item::Intent(intent) => assert!(open.insert(intent.id, intent).is_none()),
                Item::Done(done) => drop(open.remove(&done.id)),
                _ => continue,
            }
            items += 1;
        }
    }
    (items, open.values().map(number).collect(), log.tail())
}

/// Writes a checkpoint of 64 KiB.
fn fill(engine: &Engine) {
    let mut tx = engine.begin().unwrap();
    for block in 3000..3016 {
        let handle = tx.fresh(&BufMap::single(Daddr(block * 8), Sectors(8))).unwrap();
        tx.image(handle).put(0, b"full");
    }
    tx.commit();
    engine.checkpoint().unwrap();
}

#[test]
fn an_intent_done_in_the_same_checkpoint_leaves_no_trace() {
    let (engine, log_dev) = engine_and_log();
    let first = roll(&engine, None, Some(1));
    let second = roll(&engine, first.as_ref(), Some(2));
    let third = roll(&engine, second.as_ref(), Some(3));
    engine.checkpoint().unwrap();
    assert_eq!((found(&*log_dev).0, found(&*log_dev).1), (1, vec![3]));
    roll(&engine, third.as_ref(), None);
    fill(&engine);
    assert_eq!(found(&*log_dev).1, []);
}

#[test]
fn the_tail_stays_at_the_newest_intent_only() {
    let (engine, log_dev) = engine_and_log();
    let mut intent = roll(&engine, None, Some(0));
    fill(&engine);
    for n in 1..300 {
        intent = roll(&engine, intent.as_ref(), Some(n));
        fill(&engine);
        engine.write_back().unwrap();
        assert_eq!(found(&*log_dev).1, [n], "at {n}");
    }
    let before = found(&*log_dev).2;
    roll(&engine, intent.as_ref(), None);
    fill(&engine);
    engine.write_back().unwrap();
    fill(&engine);
    assert!(found(&*log_dev).1.is_empty() && found(&*log_dev).2 > before);
}

/// Writes the 64 MiB of the journal three times over.
#[test]
fn an_old_intent_is_relogged_and_does_not_hold_the_tail() {
    let (engine, log_dev) = engine_and_log();
    let intents = [1, 2].map(|n| roll(&engine, None, Some(n)));
    for n in 0..3000 {
        fill(&engine);
        engine.write_back().unwrap();
        if n % 100 == 0 {
            let mut open = found(&*log_dev).1;
            open.sort_unstable();
            assert_eq!(open, [1, 2], "at {n}");
        }
    }
    for intent in &intents {
        roll(&engine, intent.as_ref(), None);
    }
    fill(&engine);
    assert_eq!(found(&*log_dev).1, []);
}
