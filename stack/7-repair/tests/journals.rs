//! Damaged journals: replayed up to the damage, and cleared only where that was asked for.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::log::record::{self, RecordHeader};
use xfskit_log::Log;
use xfskit_repair::{AcceptLoss, Error, Prepared, Repair, StepKind, UndoFile, undo};
use xfskit_test_support::image::Scratch;
use xfskit_test_support::{kept, verify};
use xfskit_units::ByteOffset;
use xfskit_vfs::{Clock, Fs, NewNode};

use crate::common::{Image, check_all};

/// Bytes of a block of the journal.
const BLOCK: usize = 512;
/// Records that may be in flight: damage among the newest is a torn write, and no damage.
const IN_FLIGHT: usize = 8;

/// A dirty journal, and where its records are.
struct Dirty {
    image: Image,
    /// First byte of the journal, and its length.
    start: usize,
    len: usize,
    /// First byte and length of each record from tail to head.
    records: Vec<(usize, usize)>,
    cycle: u32,
}

/// Files that a volume with many records has. Each was durable before the next was made.
const FILES: usize = 40;

/// Returns the content of such a file.
fn file(n: usize) -> Vec<u8> {
    format!("file {n} ").into_bytes().repeat(n + 1)
}

impl Dirty {
    fn kept(name: &str) -> Self {
        Self::of(Image::kept(name))
    }

    /// Returns a volume on which power failed after many files were made.
    fn with_files() -> Self {
        let mut image = Image::kept("v5");
        let dev = Arc::new(kept::memory(&image.bytes));
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let volume = Volume::open(Arc::clone(&dev) as _, &options).unwrap();
        let fs = Fs::new(volume, Clock::system());
        let root = fs.root().unwrap().ino();
        for n in 0..FILES {
            let ino = fs.make(root, format!("new-{n}").as_bytes(), &NewNode::file(0o644)).unwrap();
            fs.write(ino, 0, &file(n)).unwrap();
            fs.sync().unwrap();
        }
        image.bytes = content(&*dev);
        Self::of(image)
    }

    fn of(image: Image) -> Self {
        let dev = kept::memory(&image.bytes);
        let start = usize::try_from(image.geo.log_daddr().unwrap().byte_offset().0).unwrap();
        let log = Log::open(&dev, image.geo.log_daddr().unwrap(), &image.geo).unwrap();
        assert!(!log.is_clean());
        let place = |record: xfskit_log::Record| {
            (start + record.at.0 as usize * BLOCK, record.blocks() as usize * BLOCK)
        };
        let records = log.records().map(|record| place(record.unwrap())).collect();
        let (len, cycle) = (image.geo.log_bbs() as usize * BLOCK, log.head().cycle());
        Self { image, start, len, records, cycle }
    }

    /// Returns the image with its journal changed.
    fn with(&self, change: impl FnOnce(&mut [u8], &[(usize, usize)])) -> Vec<u8> {
        let mut bytes = self.image.bytes.clone();
        change(&mut bytes, &self.records);
        bytes
    }

    fn with_record(&self, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        assert!(self.records.len() > IN_FLIGHT + 1, "{} records", self.records.len());
        let (at, len) = self.records[(self.records.len() - IN_FLIGHT) / 2];
        self.with(|bytes, _| change(&mut bytes[at..at + len]))
    }

    fn with_log(&self, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        self.with(|bytes, _| change(&mut bytes[self.start..self.start + self.len]))
    }

    /// Returns damaged images, and whether something of the journal before the damage is replayed.
    fn damaged(&self) -> Vec<(&'static str, bool, Vec<u8>)> {
        let flipped = |record: &mut [u8]| record[BLOCK + 100] ^= 0x10;
        let cycles = |log: &mut [u8]| {
            for (block, noise) in log.chunks_exact_mut(BLOCK).zip(noise()) {
                block[..4].copy_from_slice(&noise.to_be_bytes());
            }
        };
        let garbage = |log: &mut [u8]| {
            log.chunks_exact_mut(4).zip(noise()).for_each(|(word, noise)| {
                word.copy_from_slice(&noise.to_be_bytes());
            });
        };
        vec![
            ("a flipped bit", true, self.with_record(flipped)),
            ("a lost header", true, self.with_record(|record| record[..BLOCK].fill(0xa5))),
            ("garbage", false, self.with_log(garbage)),
            ("cycles of garbage", false, self.with_log(cycles)),
            ("zeroes", false, self.with_log(|log| log.fill(0))),
        ]
    }
}

/// Returns numbers by chance, the same in each run.
fn noise() -> impl Iterator<Item = u32> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(2017), next).map(|state| u32::try_from(state >> 33).unwrap())
}

fn content(dev: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(dev.size().0).unwrap()];
    dev.read_at(ByteOffset(0), &mut bytes).unwrap();
    bytes
}

/// Returns how many of the files are there, from the first on, with their content.
fn whole_files(dev: &Arc<MemDevice>) -> usize {
    let volume = Volume::open(Arc::clone(dev) as _, &OpenOptions::default()).unwrap();
    let fs = Fs::new(volume, Clock::system());
    let root = fs.root().unwrap();
    let is_whole = |n: &usize| {
        let inode = fs.lookup_inode(&root, format!("new-{n}").as_bytes()).unwrap();
        let mut found = vec![0; file(*n).len() + 1];
        let len = inode.map(|inode| fs.read(inode.ino(), 0, &mut found).unwrap());
        len.is_some_and(|len| found[..len] == file(*n))
    };
    (0..FILES).take_while(is_whole).count()
}

fn prepare(dev: &Arc<MemDevice>, zero_log: bool) -> Prepared {
    let repair = Repair::new().accept_loss(AcceptLoss::ALL).zero_log(zero_log);
    repair.prepare(Arc::clone(dev) as _).unwrap()
}

#[test]
fn a_damaged_journal_is_cleared_only_where_that_was_asked_for() {
    let dirty = Dirty::with_files();
    let scratch = Scratch::new("repair-journals");
    for (n, (what, is_replayed, bytes)) in dirty.damaged().into_iter().enumerate() {
        let dev = Arc::new(kept::memory(&bytes));
        let refused = prepare(&dev, false);
        assert!(refused.needs_zero_log(), "{what}: {:#?}", refused.plan());
        assert!(matches!(refused.commit(&*dev, None), Err(Error::ZeroLog)), "{what}");
        assert!(content(&*dev) == bytes, "{what}: written");

        let prepared = prepare(&dev, true);
        assert!(prepared.is_clean(), "{what}: {:#?}\n{:#?}", prepared.left(), prepared.plan());
        let lost = prepared.plan().journal.clone().expect(what);
        println!("{what}: {lost:?}\n{}", prepared.plan().step("journal").unwrap());
        assert_eq!(lost.replayed_transactions > 0, is_replayed, "{what}: {lost:?}");
        assert_eq!(lost.lost_transactions > 0, is_replayed, "{what}: {lost:?}");
        let step = prepared.plan().step("journal").unwrap();
        assert_eq!((step.kind, step.lost.len()), (StepKind::Journal, 1), "{step}");

        let path = scratch.path().join(format!("{n}.undo"));
        let mut file = UndoFile::create(&path, prepared.uuid(), dev.size()).unwrap();
        prepared.commit(&*dev, Some(&mut file)).unwrap();
        let (report, findings) = check_all(&*dev);
        assert!(report.clean(), "{what}: {findings:?}");
        let geo = &dirty.image.geo;
        let log = Log::open(&*dev, geo.log_daddr().unwrap(), geo).unwrap();
        assert!(log.is_clean() && log.head().cycle() > dirty.cycle, "{what}: {}", log.head());
        verify::device(&*dev).unwrap_or_else(|why| panic!("{what}: {why}"));
        if is_replayed {
            let durable = usize::try_from(lost.replayed_transactions / 2).unwrap();
            assert!(durable > 5 && whole_files(&dev) >= durable, "{what}: {lost:?}");
        }
        undo(&path, &*dev).unwrap();
        assert!(content(&*dev) == bytes, "{what}: taken back");
    }
}

/// Fields of a record that are damaged while its checksum is right: check, byte, the new bytes. The
/// cycles are ahead of that of the volume's LSNs, and behind them.
const FIELDS: [(&str, usize, &[u8]); 3] = [
    ("log.record.fs_uuid", 304, &[0xa5; 16]),
    ("log.record.cycle", 4, &[0x6c, 0xec, 0x64, 0xd4]),
    ("log.record.cycle", 4, &[0xff; 4]),
];

/// Damages a field of the record that begins at `at`.
fn with_field(bytes: &mut [u8], at: usize, (_, byte, new): (&str, usize, &[u8])) {
    let header = RecordHeader::parse(&bytes[at..at + BLOCK]).unwrap();
    let (headers, blocks, len) = (header.header_blocks(), header.blocks(), header.len.get());
    assert!(blocks >= headers);
    bytes[at + byte..][..new.len()].copy_from_slice(new);
    record::sum(&mut bytes[at..at + headers * BLOCK + len as usize], headers);
}

/// Linux refuses such a volume, and all that its journal holds is in place.
#[test]
fn a_damaged_mark_of_a_clean_journal_is_found_and_nothing_is_lost_with_it() {
    let image = Image::kept("v5");
    let start = image.geo.log_daddr().unwrap();
    let at = {
        let dev = kept::memory(&image.bytes);
        let log = Log::open(&dev, start, &image.geo).unwrap();
        assert!(log.is_clean());
        usize::try_from(start.byte_offset().0).unwrap()
            + log.last_record().unwrap().0 as usize * BLOCK
    };
    for field in FIELDS {
        let mut bytes = image.bytes.clone();
        with_field(&mut bytes, at, field);
        let dev = Arc::new(kept::memory(&bytes));
        assert!(verify::device(&*dev).is_err(), "{field:?}: Linux");
        let (report, findings) = check_all(&*dev);
        let found = findings.iter().any(|finding| finding.corruption.check.0 == field.0);
        assert!(found && !report.clean(), "{field:?}: {findings:#?}");

        let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
        assert!(prepared.is_clean() && !prepared.needs_zero_log(), "{:#?}", prepared.plan());
        assert_eq!(prepared.plan().losses().count(), 0, "{:#?}", prepared.plan());
        let step = prepared.plan().step("journal").unwrap();
        assert!(step.evidence[0].contains("marks it clean is damaged"), "{step}");
        prepared.commit(&*dev, None).unwrap();
        let (_, findings) = check_all(&*dev);
        assert!(findings.is_empty(), "{field:?}: {findings:#?}");
        verify::device(&*dev).unwrap_or_else(|why| panic!("{field:?}: {why}"));
    }
}

/// A torn write would have a wrong checksum, and be cut off without a word.
#[test]
fn changes_in_a_damaged_record_at_the_head_are_named_as_lost() {
    let dirty = Dirty::with_files();
    for field in FIELDS {
        let (at, _) = *dirty.records.last().unwrap();
        let dev = Arc::new(kept::memory(&dirty.with(|bytes, _| with_field(bytes, at, field))));
        let (_, findings) = check_all(&*dev);
        let found = findings.iter().any(|finding| finding.corruption.check.0 == field.0);
        assert!(found, "{field:?}: {findings:#?}");
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let copy = Arc::new(kept::memory(&content(&*dev)));
        assert!(Volume::open(copy as _, &options).is_err(), "{field:?}");
        assert!(prepare(&dev, false).needs_zero_log(), "{field:?}");
        let prepared = prepare(&dev, true);
        let lost = prepared.plan().journal.clone().unwrap();
        assert!(prepared.is_clean() && lost.replayed_transactions > 0, "{lost:?}");
        prepared.commit(&*dev, None).unwrap();
        verify::device(&*dev).unwrap_or_else(|why| panic!("{field:?}: {why}"));
    }
}

#[test]
fn an_intact_journal_is_replayed_all_the_same() {
    let image = Image::kept("v5-dirty");
    let replayed = |zero_log| {
        let dev = Arc::new(kept::memory(&image.bytes));
        let prepared = prepare(&dev, zero_log);
        assert!(prepared.plan().journal.is_none() && !prepared.needs_zero_log());
        prepared.commit(&*dev, None).unwrap();
        let step = prepared.plan().step("journal").unwrap();
        (content(&*dev), step.evidence.len())
    };
    let (without, with) = (replayed(false), replayed(true));
    assert_eq!((without.1, with.1), (1, 2), "--zero-log is said to be without effect");
    let (report, findings) = check_all(&kept::memory(&with.0));
    assert!(report.clean(), "{findings:?}");
}

#[test]
fn intents_before_the_damage_leave_a_clean_volume() {
    for name in ["intents-1k", "intents-exchange", "intents-parent"] {
        let dirty = Dirty::kept(name);
        // The intents are in the newest records: with a record before them lost, so are they; with
        // the head lost, all is.
        let (at, _) = dirty.records[dirty.records.len() / 2];
        let record = dirty.with(|bytes, _| bytes[at + BLOCK + 60] ^= 1);
        for bytes in [record, dirty.with_log(|log| log[..BLOCK].fill(0xa5))] {
            let dev = Arc::new(kept::memory(&bytes));
            let prepared = prepare(&dev, true);
            assert!(prepared.is_clean(), "{name}: {:#?}\n{:#?}", prepared.left(), prepared.plan());
            prepared.commit(&*dev, None).unwrap();
            verify::device(&*dev).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    }
}

#[test]
fn a_crash_while_a_journal_is_cleared_is_finished_by_the_same_repair() {
    for (_, _, bytes) in Dirty::with_files().damaged().into_iter().step_by(3) {
        crate::crashes::crash_at_each_write(&bytes, true);
    }
}
