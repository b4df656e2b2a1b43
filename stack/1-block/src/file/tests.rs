use super::*;
use crate::AlignedBuf;

fn image(size: u64) -> (tempfile::TempDir, FileDevice) {
    let dir = tempfile::tempdir().unwrap();
    let device = FileDevice::create(dir.path().join("image"), ByteLen(size)).unwrap();
    (dir, device)
}

#[test]
fn a_created_image_is_sparse_and_reads_back_what_was_written() {
    let (_dir, device) = image(1 << 40);
    assert_eq!(device.size(), ByteLen(1 << 40));
    assert_eq!(device.next_data(ByteOffset(0)).unwrap(), None);
    device.write_at(ByteOffset(1 << 30), b"here").unwrap();
    device.flush().unwrap();
    let mut buf = [0; 6];
    device.read_at(ByteOffset((1 << 30) - 1), &mut buf).unwrap();
    assert_eq!(&buf, b"\0here\0");
    let ranges = device.allocated_ranges().unwrap();
    assert_eq!(ranges.len(), 1);
    assert!(ranges[0].contains(&ByteOffset(1 << 30)));
}

/// Past the page cache and through it: each reads what the other wrote.
#[test]
fn a_large_batch_goes_past_the_page_cache_and_is_read_from_there() {
    let (_dir, device) = image(8 << 20);
    device.write_at(ByteOffset(0), &vec![1; 8 << 20]).unwrap();
    let pieces: Vec<AlignedBuf> = (2..6).map(|byte| vec![byte; 1 << 20][..].into()).collect();
    let at = |n: usize| ByteOffset((1 << 20) + ((n as u64) << 20));
    let batch: Vec<_> = pieces.iter().enumerate().map(|(n, piece)| (at(n), &piece[..])).collect();
    let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    if let Some(direct) = device.direct(4 << 20, direct::BATCH_MIN) {
        assert_eq!(direct.write_pages(at(0), &slices), 4 << 20);
    }
    assert!(device.write_batch(&batch).into_iter().all(|result| result.is_ok()));
    device.write_at(ByteOffset((3 << 20) - 1), b"between").unwrap();
    let mut found = vec![0; 8 << 20];
    device.read_at(ByteOffset(0), &mut found).unwrap();
    let mut expected: Vec<u8> =
        [1, 2, 3, 4, 5, 1, 1, 1].iter().flat_map(|&byte| vec![byte; 1 << 20]).collect();
    expected[(3 << 20) - 1..][..7].copy_from_slice(b"between");
    assert!(found == expected);
}

#[test]
fn each_read_of_a_batch_gets_its_own_result() {
    let (_dir, device) = image(1 << 20);
    let content: Vec<u8> = (0..1u32 << 18).flat_map(u32::to_le_bytes).collect();
    device.write_at(ByteOffset(0), &content).unwrap();
    // Out of order, neighbours, overlapping, empty, beyond the end.
    let places = [4096u64, 0, 512, 1024, 1000, 700_000, (1 << 20) - 10, 2 << 20, 5000];
    let lens = [100usize, 512, 512, 4, 100, 65_536, 20, 1, 0];
    let mut bufs: Vec<Vec<u8>> = lens.iter().map(|&n| vec![0xee; n]).collect();
    let mut batch: Vec<IoRead<'_>> = bufs
        .iter_mut()
        .zip(places)
        .map(|(buf, at)| IoRead { offset: ByteOffset(at), buf })
        .collect();
    let results = device.read_batch(&mut batch);
    for (i, result) in results.iter().enumerate() {
        assert_eq!(result.is_err(), i == 6 || i == 7, "read {i}: {result:?}");
        if result.is_ok() {
            let at = usize::try_from(places[i]).unwrap();
            assert_eq!(bufs[i], content[at..at + lens[i]], "read {i}");
        }
    }
}

#[test]
fn a_batch_of_more_neighbours_than_one_system_call_takes_is_read_whole() {
    let (_dir, device) = image(1 << 20);
    device.write_at(ByteOffset(0), &vec![7; 1 << 20]).unwrap();
    let mut bufs = vec![[0u8; 256]; 4096];
    let mut batch: Vec<IoRead<'_>> = bufs
        .iter_mut()
        .zip((0u64..).step_by(256))
        .map(|(buf, at)| IoRead { offset: ByteOffset(at), buf })
        .collect();
    assert!(device.read_batch(&mut batch).iter().all(Result::is_ok));
    assert!(bufs.iter().flatten().all(|&b| b == 7));
}

#[test]
fn a_batch_of_writes_arrives_whole_whatever_its_order() {
    let (_dir, device) = image(1 << 20);
    let bufs: Vec<[u8; 256]> = (0..4096u32).map(|i| [i.to_le_bytes()[0]; 256]).collect();
    let mut batch: Vec<(ByteOffset, &[u8])> = bufs
        .iter()
        .zip((0u64..).step_by(256))
        .map(|(buf, at)| (ByteOffset(at), &buf[..]))
        .collect();
    batch.reverse();
    batch.insert(7, (ByteOffset(1 << 20), b"beyond"));
    let results = device.write_batch(&batch);
    assert!(results.iter().enumerate().all(|(i, a)| a.is_err() == (i == 7)));
    let mut all = vec![0; 1 << 20];
    device.read_at(ByteOffset(0), &mut all).unwrap();
    assert!(all.chunks(256).zip(&bufs).all(|(got, buf)| got == buf));
}

#[test]
fn direct_and_cached_writes_are_coherent() {
    let (_dir, device) = image(1 << 20);
    device.write_at(ByteOffset(0), &vec![1; 100_000]).unwrap();
    let mut large = AlignedBuf::new(256 << 10);
    large.fill(2);
    // Over pages that await write-back, and with alignments that no device takes directly.
    device.write_at(ByteOffset(64 << 10), &large).unwrap();
    device.write_at(ByteOffset((512 << 10) + 100), &large).unwrap();
    device.write_at(ByteOffset(70_000), &[3; 10]).unwrap();
    device.flush().unwrap();
    let mut wanted = vec![0; 1 << 20];
    wanted[..65_536].fill(1);
    wanted[65_536..][..262_144].fill(2);
    wanted[524_388..][..262_144].fill(2);
    wanted[70_000..70_010].fill(3);
    let mut all = vec![0; 1 << 20];
    device.read_at(ByteOffset(0), &mut all).unwrap();
    assert!(all == wanted);
}

#[test]
fn zeroes_and_discards_free_the_space_of_an_image() {
    let (_dir, device) = image(1 << 20);
    device.write_at(ByteOffset(0), &vec![0xff; 1 << 20]).unwrap();
    device.write_zeroes(ByteOffset(100), ByteLen(300_000)).unwrap();
    let mut all = vec![0; 1 << 20];
    device.read_at(ByteOffset(0), &mut all).unwrap();
    assert!(all[..100].iter().chain(&all[300_100..]).all(|&b| b == 0xff));
    assert!(all[100..300_100].iter().all(|&b| b == 0));
    device.discard(ByteOffset(0), ByteLen(1 << 20)).unwrap();
    assert!(device.allocated_ranges().unwrap().is_empty());
    assert!(device.write_zeroes(ByteOffset(1), ByteLen(1 << 20)).is_err());
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let (dir, device) = image(4096);
    let path = dir.path().join("image");
    assert!(matches!(FileDevice::open(&path, OpenMode::ReadWrite), Err(Error::InUse { .. })));
    assert!(matches!(FileDevice::create(&path, ByteLen(1)), Err(Error::InUse { .. })));
    let reader = FileDevice::open(&path, OpenMode::ReadOnly).unwrap();
    assert_eq!(reader.size(), ByteLen(4096), "the refused create changed nothing");
    drop(device);
    FileDevice::open(&path, OpenMode::ReadWrite).unwrap();
}

#[test]
fn a_reader_cannot_write() {
    let (dir, _device) = image(4096);
    let reader = FileDevice::open(dir.path().join("image"), OpenMode::ReadOnly).unwrap();
    assert!(reader.is_read_only());
    assert!(matches!(reader.write_at(ByteOffset(0), b"x"), Err(Error::ReadOnly)));
    assert!(matches!(reader.write_zeroes(ByteOffset(0), ByteLen(1)), Err(Error::ReadOnly)));
    assert!(matches!(reader.discard(ByteOffset(0), ByteLen(1)), Err(Error::ReadOnly)));
}

#[test]
fn opening_something_else_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("none"), "/dev/null".into()] {
        assert!(matches!(FileDevice::open(&path, OpenMode::ReadOnly), Err(Error::Open { .. })));
    }
}

#[test]
fn a_closed_device_is_unlocked_although_a_forked_process_has_it_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let device = FileDevice::create(&path, ByteLen(4096)).unwrap();
    let of_the_child = device.file.try_clone().unwrap();
    assert!(matches!(
        FileDevice::open(&path, OpenMode::ReadWrite),
        Err(Error::InUse { by: Holder::Writer, .. })
    ));
    drop(device);
    FileDevice::open(&path, OpenMode::ReadWrite).unwrap();
    drop(of_the_child);
}

#[test]
fn a_truncated_image_fails_the_read() {
    let (dir, device) = image(1 << 20);
    let other = OpenOptions::new().write(true).open(dir.path().join("image")).unwrap();
    other.set_len(1000).unwrap();
    let mut buf = [0; 4096];
    assert!(matches!(device.read_at(ByteOffset(0), &mut buf), Err(Error::Io { .. })));
}
