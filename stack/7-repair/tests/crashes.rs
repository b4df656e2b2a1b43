//! A crash at every write of a commit: the same repair finishes it, and it can be taken back.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice, RecordingDevice};
use xfskit_repair::{AcceptLoss, Repair, UndoFile, undo};
use xfskit_test_support::image::Scratch;
use xfskit_test_support::{kept, verify};
use xfskit_units::features::Incompat;
use xfskit_units::{AgNumber, ByteOffset};

use crate::common::{Image, check_all};

/// Returns the bytes of an image whose free-space and inode btrees of two groups are lost.
fn damaged(image: &Image) -> Vec<u8> {
    let mut bytes = image.bytes.clone();
    for agno in 0..image.geo.agcount.min(2) {
        for sector in 1..=3 {
            let header = image.header(agno, sector);
            bytes[header.offset..header.offset + header.len].fill(0xa5);
        }
    }
    for magic in [b"AB3B", b"AB3C", b"IAB3", b"FIB3"] {
        let block = image.magic(magic, 0);
        bytes[block.offset..block.offset + block.len].fill(0);
    }
    bytes
}

fn content(dev: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(dev.size().0).unwrap()];
    dev.read_at(ByteOffset(0), &mut bytes).unwrap();
    bytes
}

/// Returns true if the primary superblock says that a repair is due.
fn is_marked(dev: &dyn BlockDevice) -> bool {
    let mut sector = vec![0; 512];
    dev.read_at(ByteOffset(0), &mut sector).unwrap();
    let sb = xfskit_format::sb::Superblock::verify(&sector, AgNumber(0)).unwrap();
    sb.features_incompat.get() & Incompat::NEEDSREPAIR.bits() != 0
}

#[test]
fn a_crash_at_any_write_is_finished_by_the_same_repair() {
    let image = Image::kept("v5");
    crash_at_each_write(&damaged(&image), false);
    crash_at_each_write(&with_damaged_directories(&image), false);
    let dirty = Image::kept("v5-dirty");
    // A copy of the superblock, which no journal has.
    let mut bytes = dirty.bytes.clone();
    let copy = dirty.header(1, 0);
    bytes[copy.offset..copy.offset + copy.len].fill(0xa5);
    crash_at_each_write(&bytes, true);
}

/// Returns the bytes of an image with damaged directories and attributes, and btrees beside them
/// that are made again too.
fn with_damaged_directories(image: &Image) -> Vec<u8> {
    let mut bytes = image.bytes.clone();
    for magic in [b"XDB3", b"XDD3", b"XDF3", b"AB3B"] {
        let block = image.magic(magic, 0);
        bytes[block.offset..block.offset + 8].fill(0);
    }
    bytes
}

/// Returns a repair that discards what it must of a journal.
fn repair() -> Repair<'static> {
    Repair::new().accept_loss(AcceptLoss::ALL).zero_log(true)
}

pub(crate) fn crash_at_each_write(bytes: &[u8], is_dirty: bool) {
    let scratch = Scratch::new("repair-crashes");
    let base: Arc<dyn BlockDevice> = Arc::new(kept::memory(bytes));
    let recording = RecordingDevice::new(Arc::clone(&base));
    let prepared = repair().prepare(Arc::new(kept::memory(bytes)) as _).unwrap();
    assert!(prepared.is_clean(), "{:?}", prepared.left());
    let path = scratch.path().join("undo");
    let mut file = UndoFile::create(&path, prepared.uuid(), recording.size()).unwrap();
    prepared.commit(&recording, Some(&mut file)).unwrap();
    let whole = content(&recording);
    let events = recording.event_count();
    assert!(events > 5, "{events} events");
    for n in 0..=events {
        let dev: Arc<MemDevice> = Arc::new(kept::memory(bytes));
        recording.replay(n, &*dev).unwrap();
        let is_whole = content(&*dev) == whole;
        assert!(content(&*dev) == bytes || is_marked(&*dev) || is_whole || is_dirty, "{n}");
        // It is taken back, wherever it was interrupted.
        let taken_back = kept::memory(&content(&*dev));
        undo(&path, &taken_back).unwrap();
        assert!(content(&taken_back) == bytes, "{n}: taken back");
        // Or finished.
        let again = repair().prepare(Arc::clone(&dev) as _).unwrap();
        assert!(again.is_clean(), "{n}: {:?}", again.left());
        again.commit(&*dev, None).unwrap();
        let (report, findings) = check_all(&*dev);
        assert!(report.clean() && !is_marked(&*dev), "{n}: {findings:?}");
        if n % 20 == 0 {
            verify::device(&*dev).unwrap_or_else(|why| panic!("{n}: {why}"));
        }
    }
}

#[test]
fn a_repair_is_not_taken_back_over_later_changes_or_on_another_volume() {
    let image = Image::kept("v5");
    let scratch = Scratch::new("repair-undo");
    let dev: Arc<MemDevice> = Arc::new(kept::memory(&damaged(&image)));
    let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
    let path = scratch.path().join("undo");
    let mut file = UndoFile::create(&path, prepared.uuid(), dev.size()).unwrap();
    assert!(UndoFile::create(&path, prepared.uuid(), dev.size()).is_err(), "not overwritten");
    prepared.commit(&*dev, Some(&mut file)).unwrap();
    let repaired = content(&*dev);
    let refused = |dev: &dyn BlockDevice, path, why: &str| {
        let before = content(dev);
        let error = undo(path, dev).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(content(dev) == before, "written");
    };
    let header = image.header(0, 1);
    let changed = kept::memory(&repaired);
    changed.write_at(ByteOffset(header.offset as u64 + 40), &[1; 4]).unwrap();
    refused(&changed, &path, "was changed since");
    let mut other = image.bytes.clone();
    other[32..48].fill(7);
    refused(&kept::memory(&other), &path, "it belongs to volume");
    // A damaged undo file.
    let bytes = std::fs::read(&path).unwrap();
    for (at, why) in [(0, "no undo file"), (20, "checksum"), (bytes.len() / 2, "checksum")] {
        let mut wrong = bytes.clone();
        wrong[at] ^= 1;
        std::fs::write(&path, &wrong).unwrap();
        refused(&*dev, &path, why);
    }
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    refused(&*dev, &path, "ends early");
}
