//! Dirty volumes kept in the repository; these tests need no kernel.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_core::superblock::read_superblock;
use xfskit_core::{Error, OnReplay, OpenOptions, ReplayOptions, Volume};
use xfskit_format::log::RecordHeader;
use xfskit_format::log::item::kind;
use xfskit_format::log::op::{self, OpFlags};
use xfskit_format::log::record::{self, BLOCK};
use xfskit_recovery::{open_log, replay};
use xfskit_test_recovery::{complaints, replay_in_place};
use xfskit_test_support::{Image, Need, Random, Scratch, Xfsprogs, kept, needs, seeds, verify};
use xfskit_units::ByteOffset;
use zerocopy::FromBytes;

const KEPT: [&str; 2] = ["v5-dirty", "v4-dirty"];

#[test]
fn xfs_repair_finds_nothing_in_replayed_volumes_of_either_version() {
    if !needs(&[Need::Xfsprogs]) {
        return;
    }
    for name in KEPT {
        let scratch = Scratch::new(name);
        let bytes = kept::unpack(name);
        let image = Image::sparse(&scratch, "image", bytes.len() as u64);
        std::fs::write(image.path(), bytes).expect("scratch space");
        let replay = replay_in_place(&image).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(!replay.clean && replay.unfinished.is_empty(), "{name}");
        assert!(replay.items.inodes > 0 && replay.items.buffers > 0, "{name}");
        // Version 6.1 knows volumes of version 4.
        let tools = Xfsprogs::installed().expect("xfsprogs");
        assert_eq!(complaints(&tools, &image), "", "{name}");
        if name.starts_with("v5") {
            verify::volume(&image, &scratch).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    }
}

#[test]
fn a_replay_tells_its_progress_and_spills_what_memory_shall_not_hold() {
    let content = |volume: &Volume| {
        let mut bytes = vec![0; usize::try_from(volume.device().size().0).unwrap()];
        volume.device().read_at(ByteOffset(0), &mut bytes).expect("memory");
        bytes
    };
    let scratch = Scratch::new("spilled");
    for name in KEPT {
        let plain = Volume::open(kept::device(name), &OpenOptions::default()).expect(name);
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let on_progress = OnReplay(Arc::new(move |done, total| {
            sink.lock().expect("no panic").push((done, total));
        }));
        let spill_dir = Some(scratch.path().to_path_buf());
        let replay = ReplayOptions { on_progress: Some(on_progress), spill_dir };
        let options = OpenOptions { cache_bytes: 256 << 10, replay, ..OpenOptions::default() };
        let spilled = Volume::open(kept::device(name), &options).expect(name);
        assert!(content(&spilled) == content(&plain), "{name}");
        let told = told.lock().expect("no panic");
        let total = told[0].1;
        assert!(told.is_sorted() && told.iter().all(|step| step.1 == total), "{name}: {told:?}");
        assert!(total > 0 && told.last().is_some_and(|last| last.0 <= total), "{name}: {told:?}");
    }
}

#[test]
fn a_second_replay_changes_nothing() {
    for name in KEPT {
        let dev = OverlayDevice::new(kept::device(name));
        let sb = read_superblock(&dev).expect("superblock");
        replay(&dev, None, &sb).expect("first replay");
        let content = |dev: &OverlayDevice| {
            let ranges = dev.changed_ranges();
            let read = |range: &std::ops::Range<ByteOffset>| {
                let mut bytes = vec![0; usize::try_from(range.end.0 - range.start.0).unwrap()];
                dev.read_at(range.start, &mut bytes).expect("memory");
                bytes
            };
            let bytes: Vec<_> = ranges.iter().map(read).collect();
            (ranges, bytes)
        };
        let first = content(&dev);
        replay(&dev, None, &sb).expect("second replay");
        assert!(content(&dev) == first, "{name}");
    }
}

/// Appends a record with one transaction of one item to the journal.
fn append(dev: &dyn BlockDevice, item: &[u8]) {
    let geo = read_superblock(dev).expect("superblock").geometry();
    let log = open_log(dev, None, &geo).expect("log");
    let op = |flags: OpFlags, data: &[u8]| {
        let mut bytes = 0x7777u32.to_be_bytes().to_vec();
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend([op::CLIENT_TRANSACTION, flags.bits(), 0, 0]);
        bytes.extend(data);
        bytes
    };
    let header = [op::TRANS_MAGIC, op::TRANS_CHECKPOINT, 0x7777, 1].map(u32::to_le_bytes).concat();
    let region = OpFlags::empty();
    let payload =
        [op(OpFlags::START, &[]), op(region, &header), op(region, item), op(OpFlags::COMMIT, &[])]
            .concat();
    let last = log.ring().read_blocks(log.last_record().unwrap(), 1).expect("memory");
    let mut record = last[..BLOCK].to_vec();
    let head = RecordHeader::mut_from_bytes(&mut record).unwrap();
    assert_eq!(head.header_blocks(), 1);
    head.lsn = log.head().0.into();
    head.cycle = log.head().cycle().into();
    head.tail_lsn = log.tail().0.into();
    head.len = u32::try_from(payload.len().next_multiple_of(BLOCK)).unwrap().into();
    head.num_logops = 4.into();
    record.extend(payload);
    record.resize(record.len().next_multiple_of(BLOCK), 0);
    record::pack(&mut record, 1, log.head().cycle());
    record::sum(&mut record, 1);
    log.ring().write(log.head().block(), &record).expect("memory");
}

/// Returns an intent of one extent, or a done item of none.
fn intent(kind: u16, id: u64, words: &[u32]) -> Vec<u8> {
    let nextents = u32::from(!words.is_empty());
    let mut bytes = [kind.to_le_bytes(), [1, 0]].concat();
    bytes.extend(nextents.to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

#[test]
fn replay_reports_open_intents_and_no_finished_ones() {
    let dev = OverlayDevice::new(kept::device("v5-dirty"));
    append(&dev, &intent(kind::EFI, 1, &[500, 0, 3, 0]));
    append(&dev, &intent(kind::RUI, 1, &[131, 0, 500, 0, 7, 0, 3, 3]));
    append(&dev, &intent(kind::EFD, 1, &[500, 0, 3, 0]));
    append(&dev, &intent(kind::CUI, 2, &[500, 0, 3, 2]));
    let sb = read_superblock(&dev).expect("superblock");
    let replay = replay(&dev, None, &sb).expect("replayed");
    let named: Vec<_> =
        replay.unfinished.iter().map(|intent| (intent.family.intent_name(), intent.id)).collect();
    assert_eq!(named, [("RUI", 1), ("CUI", 2)]);

    append(&dev, &[0x34, 0x12, 1, 0]);
    let refused: Error =
        xfskit_recovery::replay(&dev, None, &sb).expect_err("an unknown item").into();
    assert_eq!(refused.corruption().expect("a fault").check.0, "log.item.type");
}

fn open_to_write(dev: &Arc<OverlayDevice>) -> Result<Volume, Error> {
    Volume::open(dev.clone(), &OpenOptions { write: true, ..OpenOptions::default() })
}

/// Returns the error with which the volume does not open.
fn refused(opened: Result<Volume, Error>) -> Error {
    let Err(error) = opened else { panic!("it opens") };
    error
}

#[test]
fn unsupported_intents_are_refused_before_the_first_write() {
    for (kind, words) in [
        (kind::EFI_RT, &[500, 0, 3, 0][..]),
        (kind::BUI, &[131, 0, 500, 0, 7, 0, 3, 1 << 29 | 1]),
        (kind::BUI, &[131, 0, 500, 0, 7, 0, 3, 1 << 31 | 1]),
    ] {
        let base = OverlayDevice::new(kept::device("v5-dirty"));
        append(&base, &intent(kind, 1, words));
        let dev = Arc::new(OverlayDevice::new(Arc::new(base)));
        let error = refused(open_to_write(&dev));
        assert!(matches!(error, Error::Unsupported(_)), "{kind:#x}: {error}");
        assert_eq!(dev.changed_ranges(), [], "{kind:#x}");
        // A read-only open shows the rest of the volume.
        let reader = Volume::open(dev, &OpenOptions::default()).expect("opened");
        assert_eq!(reader.replay().expect("a journal").unfinished.len(), 1);
    }
}

#[test]
fn invalid_intents_are_an_error_and_stay_in_the_journal() {
    for (kind, words, check) in [
        (kind::EFI, &[0xffff_ff00, 7, 3, 0][..], "log.intent.extent"),
        (kind::EFI, &[500, 0, 0, 0], "log.intent.extent"),
        (kind::RUI, &[131, 0, 500, 0, 7, 0, 3, 9], "log.rui.flags"),
        (kind::RUI, &[7, 1 << 31, 500, 0, 7, 0, 3, 1], "log.intent.ino"),
        (kind::CUI, &[500, 0, 3, 5], "log.cui.flags"),
        (kind::BUI, &[131, 0, 500, 0, 7, 0, 3, 3], "log.bui.flags"),
        (kind::BUI, &[131, 0, 500, 0, 0xffff, 0, 3, 2], "log.bui.mapped"),
        (kind::BUI, &[191, 0, 500, 0, 7, 0, 3, 1], "log.intent.ino"),
    ] {
        let base = OverlayDevice::new(kept::device("v5-dirty"));
        append(&base, &intent(kind, 1, words));
        let dev = Arc::new(base);
        for _ in 0..2 {
            let error = refused(open_to_write(&dev));
            let fault = error.corruption().unwrap_or_else(|| panic!("{check}: {error}"));
            assert_eq!(fault.check.0, check);
        }
    }
}

/// Applies `change` to the header of the record that `which` selects, with a valid checksum if
/// requested.
fn change_header(
    dev: &dyn BlockDevice,
    which: impl Fn(usize) -> usize,
    change: impl Fn(&mut RecordHeader),
) -> u64 {
    let geo = read_superblock(dev).expect("superblock").geometry();
    let log = open_log(dev, None, &geo).expect("log");
    let records: Vec<_> = log.records().map(|record| record.expect("a good record")).collect();
    let chosen = &records[which(records.len())];
    let mut block = log.ring().read_blocks(chosen.at, 1).expect("memory");
    change(RecordHeader::mut_from_bytes(&mut block).unwrap());
    log.ring().write(chosen.at, &block).expect("memory");
    geo.log_daddr().unwrap().0 + u64::from(chosen.at.0)
}

#[test]
fn a_damaged_record_before_the_head_is_reported_and_nothing_is_written() {
    let middle = |count: usize| count / 2;
    for (name, change) in [
        ("a wrong checksum", (|header| header.crc[0] ^= 1) as fn(&mut RecordHeader)),
        // Only mkfs writes records without a checksum, and those are not replayed.
        ("no checksum", |header| header.crc = [0; 4]),
        ("another volume's", |header| header.fs_uuid[3] ^= 1),
        ("another machine's", |header| header.fmt = 2.into()),
    ] {
        // A journal with more records than may be in flight at once.
        let base = OverlayDevice::new(kept::device("intents-exchange"));
        let daddr = change_header(&base, middle, change);
        let dev = Arc::new(OverlayDevice::new(Arc::new(base)));
        for error in [
            refused(open_to_write(&dev)),
            refused(Volume::open(dev.clone(), &OpenOptions::default())),
        ] {
            let fault = error.corruption().unwrap_or_else(|| panic!("{name}: {error}"));
            assert!(fault.check.0.starts_with("log.record."), "{name}: {fault}");
            assert_eq!(fault.at.daddr.map(|at| at.0), Some(daddr), "{name}: {fault}");
        }
        assert_eq!(dev.changed_ranges(), [], "{name}");
    }
}

#[test]
fn a_torn_last_record_ends_the_journal_before_it() {
    let base = OverlayDevice::new(kept::device("v5-dirty"));
    change_header(&base, |count| count - 1, |header| header.crc[0] ^= 1);
    let dev = Arc::new(base);
    let volume = open_to_write(&dev).expect("opened");
    assert!(volume.replay().expect("a journal").torn.is_some());
    volume.close().expect("closed");
    let volume = open_to_write(&dev).expect("opened again");
    assert!(volume.replay().expect("a journal").clean);
}

/// Changes a few bytes of one record's payload or header, with a valid checksum.
fn damage(dev: &dyn BlockDevice, random: &mut Random) {
    let geo = read_superblock(dev).expect("superblock").geometry();
    let log = open_log(dev, None, &geo).expect("log");
    let records: Vec<_> = log.records().map(|record| record.expect("a good record")).collect();
    let chosen = &records[random.below(records.len())];
    let headers = chosen.header.header_blocks();
    let mut bytes =
        log.ring().read_blocks(chosen.at, u32::try_from(chosen.header.blocks()).unwrap()).unwrap();
    let (head, payload) = bytes.split_at_mut(headers * BLOCK);
    record::unpack(head, payload);
    let len = chosen.header.len.get() as usize;
    for _ in 0..=random.below(4) {
        let at = random.below(len);
        match random.below(4) {
            0 => payload[at] ^= 1 << random.below(8),
            1 => payload[at] = random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => payload[at..(at + 8).min(len)].fill(0xff),
            _ => {
                let from = random.below(len);
                let n = (1 + random.below(64)).min(len - at.max(from));
                payload.copy_within(from..from + n, at);
            }
        }
    }
    if random.below(8) == 0 {
        // Changes the header, except its checksum and magic.
        let at = 4 + random.below(24);
        head[at] ^= 1 << random.below(8);
    }
    record::pack(&mut bytes, headers, chosen.header.cycle.get());
    record::sum(&mut bytes[..headers * BLOCK + len], headers);
    log.ring().write(chosen.at, &bytes).unwrap();
}

#[test]
fn a_damaged_journal_is_replayed_or_refused_without_a_panic() {
    let (mut replayed, mut refused) = (0, 0);
    for name in KEPT {
        let base = kept::device(name);
        for seed in seeds(0..400) {
            let dev = OverlayDevice::new(base.clone());
            let mut random = Random::new(seed);
            damage(&dev, &mut random);
            let start = Instant::now();
            let sb = read_superblock(&dev).expect("the superblock is not in the log");
            match replay(&dev, None, &sb) {
                Ok(_) => replayed += 1,
                Err(_) => refused += 1,
            }
            let took = start.elapsed();
            assert!(took < Duration::from_secs(10), "{name}, seed {seed}: {took:?}");
        }
    }
    eprintln!("{replayed} replayed, {refused} refused");
    assert!(replayed > 0 && refused > 0);
}
