//! Journals whose head, tail and transactions are known.

use xfskit_block::BlockDevice;
use xfskit_units::{ByteOffset, LogBlock, Lsn, Version};

use crate::testing::{
    COMMIT, CONTINUE, END, NONE, START, TestOp, WAS_CONT, Writer, geo, trans_header,
};
use crate::{Error, Log};

/// `logsunit` that stands for a version 1 journal.
const V1: u32 = u32::MAX;

fn check_id(error: &Error) -> &'static str {
    match error {
        Error::Corrupt(corruption) => corruption.check.0,
        Error::Device(error) => panic!("{error}"),
    }
}

fn tids(log: &Log<'_>) -> Vec<u32> {
    log.transactions().map(|transaction| transaction.unwrap().tid).collect()
}

#[test]
fn a_ring_never_written_is_clean() {
    let writer = Writer::new(geo(Version::V5, 1024, 1));
    let log = writer.open().unwrap();
    assert!(log.is_clean());
    assert_eq!((log.head(), log.last_record()), (Lsn::new(1, LogBlock(0)), None));
    assert_eq!(log.records().count(), 0);
}

/// Appends and unmounts for many cycles, and compares the reader after each.
fn cycles(logsunit: u32, size: u32, records: u32) {
    let version = if logsunit == V1 { Version::V4 } else { Version::V5 };
    let mut writer = Writer::new(geo(version, 1100, logsunit));
    writer.size = writer.size.max(size);
    writer.unmount();
    let mut tail = None;
    let mut since_tail = Vec::new();
    for n in 0..records {
        // Lengths of all kinds, up to a full record.
        let len = (n.wrapping_mul(2_654_435_761) >> 8) as usize % (size as usize - 4700);
        let lsn = writer.transaction(tail, n, len.next_multiple_of(4));
        tail = tail.or(Some(lsn));
        since_tail.push(n);
        let log = writer.open().unwrap_or_else(|why| panic!("record {n}: {why}"));
        assert_eq!(log.head(), writer.head, "record {n}");
        assert_eq!(Some(log.tail()), tail, "record {n}");
        assert_eq!(log.last_record(), Some(lsn.block()));
        assert!(!log.is_clean() && log.torn().is_none());
        assert_eq!(tids(&log), since_tail, "record {n}");
        if since_tail.len() == 9 {
            writer.unmount();
            let log = writer.open().unwrap();
            assert!(log.is_clean(), "record {n}");
            assert_eq!((log.head(), log.tail()), (writer.head, writer.head));
            (tail, since_tail) = (None, Vec::new());
        }
    }
    assert!(writer.head.cycle() > 3, "several cycles");
}

#[test]
fn head_and_tail_are_found_in_every_cycle() {
    cycles(1, 32 * 1024, 1200);
}

#[test]
fn head_and_tail_are_found_with_large_records() {
    cycles(1, 256 * 1024, 200);
}

#[test]
fn head_and_tail_are_found_with_a_stripe_unit() {
    cycles(64 * 1024, 64 * 1024, 400);
}

#[test]
fn head_and_tail_are_found_in_a_version_1_journal() {
    cycles(V1, 32 * 1024, 1200);
}

#[test]
fn a_torn_record_is_cut_off_with_all_records_after_it() {
    let mut writer = Writer::new(geo(Version::V5, 1024, 1));
    writer.unmount();
    let first = writer.transaction(None, 1, 5000);
    let lsns: Vec<Lsn> = (2..8).map(|tid| writer.transaction(Some(first), tid, 5000)).collect();
    writer.damage(LogBlock(lsns[3].block().0 + 2), 100);
    let log = writer.open().unwrap();
    assert_eq!((log.head(), log.tail()), (lsns[3], first));
    assert_eq!(log.torn().unwrap().corruption.check.0, "log.record.crc");
    assert_eq!(tids(&log), [1, 2, 3, 4]);
}

/// Tears the sector of a header at every word. Its first half is new, too.
#[test]
fn a_torn_header_is_cut_off_wherever_the_tear_is() {
    // Bytes after 328 are never read.
    for keep in (4..328).step_by(4) {
        let mut writer = Writer::new(geo(Version::V5, 1024, 1));
        writer.unmount();
        let first = writer.transaction(None, 1, 5000);
        writer.transaction(Some(first), 2, 5000);
        let third = writer.transaction(Some(first), 3, 5000);
        let fourth = writer.transaction(Some(first), 4, 5000);
        // The old content: a header of another record, or data.
        let mut before = [0x11; 512];
        if keep < 16 {
            writer.dev.read_at(ByteOffset(u64::from(first.block().0) * 512), &mut before).unwrap();
        }
        for torn in [third, fourth] {
            let place = ByteOffset(u64::from(torn.block().0) * 512 + keep as u64);
            writer.dev.write_at(place, &before[keep..]).unwrap();
        }
        let log = writer.open().unwrap();
        assert_eq!((log.head(), log.tail()), (third, first), "{keep}");
        assert_eq!(log.torn().unwrap().at, third.block());
        assert_eq!(tids(&log), [1, 2]);
    }
}

/// Too little arrived to recognize the header.
#[test]
fn parts_of_a_record_without_its_header_do_not_cut_off_earlier_records() {
    for (keep, lost) in [(1, 3), (2, 5), (3, 5), (2, 9)] {
        let mut writer = Writer::new(geo(Version::V5, 1024, 1));
        writer.unmount();
        let first = writer.transaction(None, 1, 5000);
        writer.transaction(Some(first), 2, 5000);
        let third = writer.transaction(Some(first), 3, 5000);
        let at = |sector: u32| ByteOffset((u64::from(third.block().0) + u64::from(sector)) * 512);
        let header = ByteOffset(at(0).0 + keep as u64);
        writer.dev.write_at(header, &[0; 512][keep..]).unwrap();
        writer.dev.write_at(at(lost), &[0; 512]).unwrap();
        let log = writer.open().unwrap();
        assert_eq!((log.head(), log.tail()), (third, first), "{keep} {lost}");
        assert_eq!(log.torn().unwrap().at, third.block());
        assert_eq!(tids(&log), [1, 2]);
    }
}

#[test]
fn the_only_record_torn_leaves_a_clean_journal() {
    let mut writer = Writer::new(geo(Version::V5, 1024, 1));
    writer.unmount();
    let only = writer.transaction(None, 1, 5000);
    writer.damage(LogBlock(only.block().0 + 1), 300);
    let log = writer.open().unwrap();
    assert!(log.is_clean());
    assert_eq!(log.head(), only);
}

#[test]
fn damage_further_back_is_an_error_and_no_later_record_is_returned() {
    let mut writer = Writer::new(geo(Version::V5, 1024, 1));
    writer.unmount();
    let first = writer.transaction(None, 1, 5000);
    let second = writer.transaction(Some(first), 2, 5000);
    for tid in 3..20 {
        writer.transaction(Some(first), tid, 5000);
    }
    writer.damage(LogBlock(second.block().0 + 2), 100);
    let log = writer.open().unwrap();
    let mut transactions = log.transactions();
    assert_eq!(transactions.next().unwrap().unwrap().tid, 1);
    assert_eq!(check_id(&transactions.next().unwrap().unwrap_err()), "log.record.crc");
    assert!(transactions.next().is_none());
}

#[test]
fn a_lost_header_among_the_newest_records_ends_the_journal_there() {
    let mut writer = Writer::new(geo(Version::V5, 1024, 1));
    writer.unmount();
    let first = writer.transaction(None, 1, 5000);
    let second = writer.transaction(Some(first), 2, 5000);
    writer.transaction(Some(first), 3, 5000);
    writer.damage(second.block(), 2);
    let log = writer.open().unwrap();
    assert_eq!((log.head().block(), tids(&log)), (second.block(), vec![1]));
}

#[test]
fn a_missing_record_ends_the_journal_although_later_ones_arrived() {
    let mut writer = Writer::new(geo(Version::V5, 1024, 1));
    writer.unmount();
    // A whole cycle first, so that the hole shows the blocks of the previous one.
    let mut tail = writer.transaction(None, 1, 20_000);
    while writer.head.cycle() < 2 || writer.head.block().0 < 5000 {
        tail = writer.transaction(Some(tail), 1, 20_000);
    }
    let hole = writer.head.block();
    let blocks = crate::Ring::new(&writer.dev, xfskit_units::Daddr(0), &writer.geo).unwrap();
    let old = blocks.read_blocks(hole, 41).unwrap();
    writer.transaction(Some(tail), 2, 20_000);
    writer.transaction(Some(tail), 3, 20_000);
    let ring = crate::Ring::new(&writer.dev, xfskit_units::Daddr(0), &writer.geo).unwrap();
    ring.write(hole, &old).unwrap();
    let log = writer.open().unwrap();
    assert_eq!(log.head().block(), hole);
    assert_eq!(tids(&log), [1, 1]);
}

#[test]
fn sealing_makes_a_journal_clean_wherever_its_head_is() {
    for logsunit in [1, 32 * 1024, V1] {
        let version = if logsunit == V1 { Version::V4 } else { Version::V5 };
        let mut writer = Writer::new(geo(version, 1030, logsunit));
        writer.unmount();
        for tid in 0..600 {
            let tail = writer.transaction(None, tid, 12_000);
            let log = writer.open().unwrap();
            assert_eq!(log.tail(), tail);
            log.mark_clean().unwrap();
            let log = writer.open().unwrap();
            assert!(log.is_clean());
            assert_eq!(log.last_record(), Some(writer.head.block()));
        }
    }
}

#[test]
fn a_region_split_between_records_is_assembled() {
    let mut writer = Writer::new(geo(Version::V5, 1024, 1));
    writer.unmount();
    let header = trans_header(7);
    let (cut, other) = (header.split_at(4), trans_header(8));
    let first = writer.append(None, &[(7, START, &[]), (7, CONTINUE, cut.0), (8, START, &[])]);
    let tail = Some(first);
    writer.append(tail, &[(8, NONE, &other), (7, WAS_CONT | END, cut.1), (7, CONTINUE, b"ab__")]);
    writer.append(tail, &[(7, WAS_CONT | CONTINUE, b"cd__"), (8, COMMIT, &[])]);
    let last = writer.append(tail, &[(7, WAS_CONT | END, b"ef__"), (7, COMMIT, &[])]);
    let log = writer.open().unwrap();
    let transactions: Vec<_> = log.transactions().map(Result::unwrap).collect();
    assert_eq!(transactions.iter().map(|t| t.tid).collect::<Vec<_>>(), [8, 7]);
    assert_eq!(transactions[1].regions(), [&header[..], b"ab__cd__ef__"]);
    assert_eq!((transactions[1].lsn, transactions[1].commit_lsn), (first, last));
}

#[test]
fn fragments_and_uncommitted_transactions_are_ignored() {
    let mut writer = Writer::new(geo(Version::V5, 1024, 1));
    writer.unmount();
    let header = trans_header(2);
    let first = writer.append(
        None,
        &[(1, NONE, b"from"), (1, WAS_CONT, b"fore"), (1, COMMIT, &[]), (2, START, &[])],
    );
    writer.append(Some(first), &[(2, NONE, &header)]);
    let log = writer.open().unwrap();
    assert_eq!(tids(&log), [0u32; 0]);
}

#[test]
fn inconsistent_operations_are_refused() {
    type Ops<'a> = &'a [TestOp<'a>];
    let cases: [(&str, Ops<'_>); 2] = [
        ("log.op.flags", &[(1, START, &[]), (1, START, &[])]),
        ("log.op.flags", &[(1, START, &[]), (1, WAS_CONT, b"more")]),
    ];
    for (check, ops) in cases {
        let mut writer = Writer::new(geo(Version::V5, 1024, 1));
        writer.unmount();
        writer.append(None, ops);
        let log = writer.open().unwrap();
        let error = log.transactions().next().unwrap().unwrap_err();
        assert_eq!(check_id(&error), check);
    }
}

#[test]
fn too_many_open_transactions_are_refused() {
    let mut writer = Writer::new(geo(Version::V5, 1024, 1));
    writer.unmount();
    let first = writer.head;
    for record in 0..3 {
        let ops: Vec<_> = (0..2000u32).map(|n| (record * 2000 + n, START, &[][..])).collect();
        writer.append(Some(first), &ops);
    }
    let log = writer.open().unwrap();
    let error = log.transactions().next().unwrap().unwrap_err();
    assert_eq!(check_id(&error), "log.trans.open");
}

#[test]
fn a_tail_outside_the_cycle_is_refused() {
    for tail in [Lsn::new(1, LogBlock(500)), Lsn::new(3, LogBlock(0)), Lsn::new(0, LogBlock(0))] {
        let mut writer = Writer::new(geo(Version::V5, 1024, 1));
        writer.unmount();
        writer.transaction(Some(tail), 1, 100);
        assert_eq!(check_id(&writer.open().unwrap_err()), "log.record.tail_lsn");
    }
}

#[test]
fn history_goes_back_before_the_tail_and_skips_what_is_damaged() {
    let mut writer = Writer::new(geo(Version::V5, 1100, 1));
    let mut places = Vec::new();
    for n in 0..400 {
        places.push(writer.transaction(None, n, 20_000));
        if n % 7 == 0 {
            writer.unmount();
        }
    }
    let history = |writer: &Writer| -> Vec<u32> {
        let log = writer.open().unwrap();
        log.history().map(|transaction| transaction.unwrap().tid).collect()
    };
    let all = history(&writer);
    let first = *all.first().unwrap();
    assert!(all.len() > 50 && first > 0, "the ring came around: {}", all.len());
    assert_eq!(all, (first..400).collect::<Vec<_>>());
    let damaged = first + 20;
    writer.damage(places[damaged as usize].block(), 600);
    let rest: Vec<u32> = all.into_iter().filter(|tid| *tid != damaged).collect();
    assert_eq!(history(&writer), rest);
}
