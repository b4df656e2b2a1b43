use std::sync::atomic::AtomicU64;

use super::*;
use crate::{CountingDevice, MemDevice};

/// No multiple of a page.
const SIZE: u64 = 200 * PAGE + 77;
const MEMORY: ByteLen = ByteLen(1 << 20);

fn memory() -> Arc<dyn BlockDevice> {
    Arc::new(MemDevice::new(ByteLen(SIZE)))
}

fn content(device: &dyn BlockDevice) -> Vec<u8> {
    let mut all = vec![0; index(SIZE)];
    device.read_at(ByteOffset(0), &mut all).unwrap();
    all
}

/// Changes the device in all ways, in an order that `seed` gives.
fn change(device: &dyn BlockDevice, seed: u64) {
    for round in 0..200 {
        let at = (seed + round) * 7919 % (SIZE - 9000);
        let fill = u8::try_from((seed * 31 + round) % 251).unwrap();
        let buf = vec![fill; index(1 + at % 9000)];
        match round % 4 {
            0 => device.write_at(ByteOffset(at), &buf).unwrap(),
            1 => device.write_fua(ByteOffset(at), &buf).unwrap(),
            2 => device.write_zeroes(ByteOffset(at), ByteLen(buf.len() as u64)).unwrap(),
            _ => {
                let batch = [(ByteOffset(at), &buf[..5]), (ByteOffset(at / 2), &buf[..1])];
                let batch = if buf.len() < 5 { &batch[1..] } else { &batch[..] };
                assert!(device.write_batch(batch).into_iter().all(|result| result.is_ok()));
            }
        }
        device.discard(ByteOffset(at), ByteLen(8192)).unwrap();
    }
    device.write_at(ByteOffset(SIZE - 3), b"end").unwrap();
}

#[test]
fn a_snapshot_has_the_content_of_its_moment_whatever_is_written() {
    let group = SnapshotGroup::new(vec![memory()]);
    let (device, dir) = (group.device(0), std::env::temp_dir());
    change(&*device, 1);
    let first = content(&*device);
    let one = group.take(MEMORY, &dir);
    change(&*device, 2);
    let second = content(&*device);
    let other = group.take(MEMORY, &dir);
    change(&*device, 3);
    for (snapshot, expected) in [(&one, &first), (&other, &second)] {
        let view = snapshot.devices().remove(0);
        assert!(content(&*view) == *expected);
        let mut part = vec![0; 5000];
        let batch = &mut [IoRead { offset: ByteOffset(4000), buf: &mut part }];
        assert!(view.read_batch(batch).remove(0).is_ok());
        assert!(part == expected[4000..9000]);
        assert!(matches!(view.write_at(ByteOffset(0), b"x"), Err(Error::ReadOnly)));
        assert!(view.is_read_only());
    }
    assert!(content(&*device) != second);
}

#[test]
fn nothing_is_saved_when_the_snapshot_and_its_devices_are_gone() {
    let base = Arc::new(CountingDevice::new(memory()));
    let group = SnapshotGroup::new(vec![Arc::clone(&base) as Arc<dyn BlockDevice>]);
    let device = group.device(0);
    let snapshot = group.take(MEMORY, &std::env::temp_dir());
    let view = snapshot.devices().remove(0);
    drop(snapshot);
    device.write_at(ByteOffset(0), b"new").unwrap();
    let mut old = [9; 3];
    view.read_at(ByteOffset(0), &mut old).unwrap();
    assert_eq!(old, [0; 3], "its device keeps the snapshot");
    drop(view);
    let before = base.counts().reads;
    device.write_at(ByteOffset(5000), b"new").unwrap();
    assert_eq!(base.counts().reads, before);
}

#[test]
fn devices_of_a_group_are_seen_at_one_moment() {
    let group = SnapshotGroup::new(vec![memory(), memory()]);
    let (data, log) = (group.device(0), group.device(1));
    let stop = AtomicBool::new(false);
    let number = |device: &dyn BlockDevice| {
        let mut bytes = [0; 8];
        device.read_at(ByteOffset(4090), &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    };
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1_u64.. {
                // Across two pages, so that a write could be torn.
                log.write_at(ByteOffset(4090), &n.to_le_bytes()).unwrap();
                data.write_at(ByteOffset(4090), &n.to_le_bytes()).unwrap();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..200 {
            let snapshot = group.take(MEMORY, &std::env::temp_dir());
            let devices = snapshot.devices();
            let [data, log] = [0, 1].map(|n| number(&*devices[n]));
            assert!(data == log || data + 1 == log, "{data} after {log}");
            assert_eq!(number(&*devices[0]), data);
            assert!(data >= seen.swap(data, Ordering::Relaxed));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_exceeds_the_memory_goes_to_a_file() {
    let group = SnapshotGroup::new(vec![memory()]);
    let (device, dir) = (group.device(0), tempfile::tempdir().unwrap());
    change(&*device, 4);
    let before = content(&*device);
    let snapshot = group.take(ByteLen(3 * PAGE), dir.path());
    change(&*device, 5);
    assert!(snapshot.taken.devices[0].pages.resident() <= ByteLen(3 * PAGE));
    assert!(content(&*snapshot.devices()[0]) == before);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
}

#[test]
fn a_snapshot_without_room_breaks_and_writes_go_on() {
    let group = SnapshotGroup::new(vec![memory()]);
    let (device, nowhere) = (group.device(0), Path::new("/no/such/directory"));
    let snapshot = group.take(ByteLen(2 * PAGE), nowhere);
    let view = snapshot.devices().remove(0);
    for page in 0..4 {
        device.write_at(ByteOffset(page * PAGE), b"new").unwrap();
        let mut old = [9; 3];
        match view.read_at(ByteOffset(0), &mut old) {
            Ok(()) => assert!(page < 2 && old == [0; 3]),
            Err(Error::Io { source, .. }) => {
                assert!(page >= 2);
                assert_eq!(source.raw_os_error(), Some(BROKEN.raw_os_error()));
            }
            Err(error) => panic!("{error}"),
        }
    }
    let mut new = [0; 3];
    device.read_at(ByteOffset(3 * PAGE), &mut new).unwrap();
    assert_eq!(&new, b"new");
}
