//! Writes checkpoints for several cycles and reads them back after each.

use std::collections::VecDeque;
use std::sync::Arc;

use xfskit_block::{BlockDevice, Event, MemDevice, RecordingDevice};
use xfskit_format::log::item::Regions;
use xfskit_test_support::Random;
use xfskit_units::{ByteLen, ByteOffset, Daddr, Geometry, Version};

use super::*;
use crate::testing::{self, COMMIT, CONTINUE, END, NONE, START, WAS_CONT, Writer};
use crate::{Log, Transaction};

/// Makes a payload of up to `most` bytes in regions of all lengths.
fn payload_of(random: &mut Random, most: usize) -> Payload {
    let mut payload = Payload::new();
    let total = random.below(most) + 4;
    while payload.byte_len() < total {
        let left = total - payload.byte_len();
        let longest = if random.below(4) == 0 { left } else { left.min(200) };
        let region = vec![random.byte(); random.below(longest) + 1];
        payload.region(&[&region]);
    }
    payload
}

/// Makes a journal as mkfs does.
fn made(geo: &Geometry) -> Arc<dyn BlockDevice> {
    let mut maker = Writer::new(geo.clone());
    maker.unmount();
    Arc::new(maker.dev)
}

fn open<'d>(dev: &'d Arc<dyn BlockDevice>, geo: &'d Geometry) -> Log<'d> {
    Log::open(&**dev, Daddr(0), geo).unwrap()
}

fn writer(dev: &Arc<dyn BlockDevice>, geo: &Geometry, size: u32) -> LogWriter {
    LogWriter::new(&open(dev, geo), Arc::clone(dev), Arc::clone(dev), size).unwrap()
}

fn assert_holds(transaction: &Transaction, payload: &Payload, at: Committed) {
    assert_eq!((transaction.lsn, transaction.commit_lsn), (at.start, at.commit));
    let regions = transaction.regions();
    assert!(regions[1..].iter().copied().eq(payload.regions()));
}

/// Writes `rounds` checkpoints of up to `most` bytes, with the tail `behind` checkpoints back.
fn cycles(geo: Geometry, size: u32, rounds: usize, most: usize, behind: usize) {
    let dev = made(&geo);
    let mut writer = writer(&dev, &geo, size);
    let mut random = Random::of_test(7);
    let mut live: VecDeque<(Payload, Committed)> = VecDeque::new();
    for round in 0..rounds {
        let payload = payload_of(&mut random, most);
        let space = writer.space_of(&payload);
        while live.len() > behind || live.front().is_some_and(|(_, c)| writer.free(c.start) < space)
        {
            live.pop_front();
        }
        let tail = live.front().map_or(writer.next_lsn(), |(_, c)| c.start);
        let (start, before) = (writer.next_lsn(), writer.stats().bytes);
        let committed = writer.append(&payload, tail, FlushBefore::Nothing).unwrap();
        assert_eq!(committed.start, start);
        assert!(writer.stats().bytes - before <= space, "round {round}");
        live.push_back((payload, committed));

        let log = open(&dev, &geo);
        assert_eq!((log.head(), log.tail()), (writer.next_lsn(), tail), "round {round}");
        assert!(!log.is_clean() && log.torn().is_none(), "round {round}");
        let found: Vec<_> = log.transactions().map(Result::unwrap).collect();
        assert_eq!(found.len(), live.len(), "round {round}");
        for (transaction, (payload, committed)) in found.iter().zip(&live) {
            assert_holds(transaction, payload, *committed);
        }
    }
    assert!(writer.next_lsn().cycle() > 3, "several cycles");
    writer.unmount().unwrap();
    let log = open(&dev, &geo);
    assert!(log.is_clean());
    assert_eq!(log.head(), writer.next_lsn());
}

fn geo(logblocks: u32, logsunit: u32) -> Geometry {
    testing::geo(Version::V5, logblocks, logsunit)
}

#[test]
fn small_checkpoints_on_the_smallest_journal() {
    // 512 blocks of 1 KiB.
    let geo = Geometry { blocklog: 10, ..geo(512, 1) };
    cycles(geo, RECORD_SIZE, 3000, 3000, 20);
}

#[test]
fn checkpoints_of_many_records() {
    cycles(geo(1100, 1), RECORD_SIZE, 400, 600_000, 3);
}

#[test]
fn checkpoints_in_the_largest_records() {
    cycles(geo(2100, 1), SIZE_MAX, 300, 1_500_000, 3);
}

#[test]
fn records_in_stripe_units() {
    for (unit, size) in [(64 * 1024, 0), (96 * 1024, SIZE_MAX), (256 * 1024, 0), (4096, 16 * 1024)]
    {
        cycles(geo(2100, unit), size, 250, 900_000, 2);
    }
}

#[test]
fn journals_with_sectors_of_4_kib() {
    let geo = Geometry { logsectlog: 12, ..geo(1100, 1) };
    cycles(geo, RECORD_SIZE, 600, 100_000, 8);
}

#[test]
fn records_are_as_linux_reads_them() {
    let geo = geo(1024, 1);
    let dev = made(&geo);
    let mut writer = writer(&dev, &geo, 64 * 1024);
    let tail = writer.next_lsn();
    let payload = payload_of(&mut Random::new(1), 300_000);
    writer.append(&payload, tail, FlushBefore::Nothing).unwrap();
    let log = open(&dev, &geo);
    let records: Vec<_> = log.records().map(Result::unwrap).collect();
    assert!(records.len() > 2);
    let mut prev = 0;
    for record in &records {
        let header = &record.header;
        assert_eq!((header.header_blocks(), header.size.get()), (2, 65_536));
        assert_eq!((header.tail_lsn(), header.prev_block.get()), (tail, prev));
        prev = record.at.0;
        let ctx = log.ring().ctx(record.at);
        for op in record.ops(&ctx).map(std::result::Result::unwrap) {
            let empty = op.has(START) || op.has(COMMIT);
            assert_eq!(op.data.is_empty(), empty, "never a piece of nothing");
            assert_eq!(op.data.len() % 4, 0);
            assert!(
                [NONE, START, COMMIT, CONTINUE, WAS_CONT | CONTINUE, WAS_CONT | END]
                    .contains(&op.header.flags)
            );
        }
    }
}

#[test]
fn a_payload_that_does_not_fit_is_refused_and_nothing_is_written() {
    let geo = geo(512, 1);
    let base = made(&geo);
    let recorder = Arc::new(RecordingDevice::new(base));
    let dev: Arc<dyn BlockDevice> = recorder.clone();
    let mut writer = writer(&dev, &geo, RECORD_SIZE);
    let mut payload = Payload::new();
    (0..40).for_each(|_| payload.region(&[&vec![5; 40_000]]));
    let first = writer.append(&payload, writer.next_lsn(), FlushBefore::Nothing).unwrap();
    let events = recorder.event_count();
    let error = writer.append(&payload, first.start, FlushBefore::Data).unwrap_err();
    assert!(matches!(error, AppendError::Full { .. }), "{error}");
    assert_eq!(recorder.event_count(), events);
    writer.append(&payload, writer.next_lsn(), FlushBefore::Data).unwrap();
}

#[test]
fn a_checkpoint_takes_one_write_for_two_mebibytes_and_a_flush_if_there_is_data() {
    let geo = geo(4096, 1);
    let recorder = Arc::new(RecordingDevice::new(made(&geo)));
    let dev: Arc<dyn BlockDevice> = recorder.clone();
    let mut writer = writer(&dev, &geo, RECORD_SIZE);
    assert_eq!(recorder.event_count(), 0, "there was nothing ahead of the head");
    let tail = writer.next_lsn();
    let mut payload = Payload::new();
    payload.region(&[&[1; 1000]]);
    writer.append(&payload, tail, FlushBefore::Nothing).unwrap();
    assert!(matches!(recorder.events()[..], [Event::Write { fua: true, .. }]));
    writer.append(&payload, tail, FlushBefore::Data).unwrap();
    assert!(matches!(recorder.events()[1..], [Event::Flush, Event::Write { fua: true, .. }]));
    (0..79).for_each(|_| payload.region(&[&vec![2; 32_000]]));
    writer.append(&payload, tail, FlushBefore::Nothing).unwrap();
    let events = recorder.events();
    let lengths = events[3..].iter().map(|event| match event {
        Event::Write { data, fua: true, .. } => data.len(),
        other => panic!("{other:?}"),
    });
    let lengths: Vec<_> = lengths.collect();
    assert_eq!(lengths.len(), 2);
    assert_eq!(lengths[0], 2 << 20);
    let stats = writer.stats();
    assert_eq!((stats.checkpoints, stats.records, stats.flushes), (3, 81, 1));
    assert_eq!(stats.writes, 4);
}

/// Returns the device of a volume, and its content before a crash.
fn crashed(
    before: &dyn BlockDevice,
    size: ByteLen,
    survivors: &[(ByteOffset, Vec<u8>)],
) -> Arc<dyn BlockDevice> {
    let dev = MemDevice::new(size);
    let mut all = vec![0; usize::try_from(size.0).unwrap()];
    before.read_at(ByteOffset(0), &mut all).unwrap();
    for (offset, sector) in survivors {
        let at = usize::try_from(offset.0).unwrap();
        all[at..at + sector.len()].copy_from_slice(sector);
    }
    dev.write_at(ByteOffset(0), &all).unwrap();
    Arc::new(dev)
}

#[test]
fn after_any_crash_a_checkpoint_is_there_completely_or_not_at_all() {
    let geo = geo(1024, 1);
    let mut random = Random::of_test(3);
    let mut dev = made(&geo);
    let (mut kept, mut lost) = (0, 0);
    for round in 0..400 {
        // Two checkpoints that stay, and one during which the power fails.
        let size = dev.size();
        let mut live = Vec::new();
        let mut stays = writer(&dev, &geo, RECORD_SIZE);
        let tail = stays.next_lsn();
        for _ in 0..2 {
            let payload = payload_of(&mut random, 60_000);
            let at = stays.append(&payload, tail, FlushBefore::Data).unwrap();
            live.push((payload, at));
        }
        let recorder = Arc::new(RecordingDevice::new(Arc::clone(&dev)));
        let before = crashed(&*dev, size, &[]);
        stays.dev = recorder.clone();
        let payload = payload_of(&mut random, 700_000);
        let moved = random.below(2) == 0;
        let tail = if moved { stays.next_lsn() } else { tail };
        let at = stays.append(&payload, tail, FlushBefore::Data).unwrap();

        // The crash keeps all events up to some flush, and some sectors of the later writes, some
        // of them torn.
        let events = recorder.events();
        let cut = random.below(events.len() + 2);
        let returned = cut > events.len();
        let events = &events[..cut.min(events.len())];
        let durable = events.iter().rposition(|e| *e == Event::Flush).unwrap_or(0);
        let odds = random.pick(&[1, 2, 50]);
        let mut survivors = Vec::new();
        for (i, event) in events.iter().enumerate() {
            let Event::Write { offset, data, fua } = event else { continue };
            for (n, sector) in data.chunks(512).enumerate() {
                let sure = i < durable || (*fua && i + 1 < cut);
                let mut sector = sector.to_vec();
                if !sure && random.below(1 + odds) == 0 {
                    continue;
                }
                if !sure && random.below(100) == 0 {
                    sector.truncate(random.below(500) + 4);
                }
                survivors.push((ByteOffset(offset.0 + n as u64 * 512), sector));
            }
        }
        let after = crashed(&*before, size, &survivors);
        let log =
            Log::open(&*after, Daddr(0), &geo).unwrap_or_else(|e| panic!("round {round}: {e}"));
        let found: Result<Vec<_>> = log.transactions().collect();
        let mut found = found.unwrap_or_else(|e| panic!("round {round}: {e}"));
        if found.last().is_some_and(|last| last.lsn == at.start) {
            assert_holds(&found.pop().unwrap(), &payload, at);
            kept += 1;
        } else {
            assert!(!returned, "round {round}: a durable checkpoint is lost");
            lost += 1;
        }
        // The checkpoints before are there, unless the new tail, or what overwrote the old one, has
        // released them.
        let skipped = live.len().saturating_sub(found.len());
        assert!(moved || skipped == 0, "round {round}");
        for (transaction, (payload, committed)) in found.iter().zip(&live[skipped..]) {
            assert_holds(transaction, payload, *committed);
        }
        drop(log);
        dev = after;
    }
    assert!(kept > 20 && lost > 100, "kept {kept}, lost {lost}");
    assert!(open(&dev, &geo).head().cycle() > 3);
}

#[test]
fn blocks_of_an_interrupted_write_ahead_of_the_head_are_cleared() {
    let geo = geo(1024, 1);
    for mark_clean in [false, true] {
        let dev = made(&geo);
        let mut first = writer(&dev, &geo, RECORD_SIZE);
        let tail = first.next_lsn();
        first.append(&payload_of(&mut Random::new(4), 9000), tail, FlushBefore::Nothing).unwrap();
        let payload = payload_of(&mut Random::new(5), 200_000);
        let lost = first.append(&payload, tail, FlushBefore::Nothing).unwrap().start;
        // The others of its records arrived.
        dev.write_at(ByteOffset(u64::from(lost.block().0) * 512), &[0; 512]).unwrap();
        let log = open(&dev, &geo);
        assert_eq!((log.head(), log.is_clean()), (lost, false));
        if mark_clean {
            log.mark_clean().unwrap();
        } else {
            drop(log);
            assert_eq!(writer(&dev, &geo, RECORD_SIZE).next_lsn(), lost);
        }
        let log = open(&dev, &geo);
        assert_eq!(log.is_clean(), mark_clean);
        assert_eq!(log.head().block().0, lost.block().0 + if mark_clean { 2 } else { 0 });
        let ahead = log.ring().read_blocks(log.head().block(), 1000).unwrap();
        assert!(ahead.chunks(512).all(|block| record::cycle_of(block) == 0));
    }
}
