//! How a volume ends, and what that means for those who still have it.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{kept, made, reopened};
use xfskit::raw::block::{
    BlockDevice, CountingDevice, Error as DeviceError, IoRead, MemDevice, Result as DeviceResult,
};
use xfskit::raw::units::{ByteLen, ByteOffset};
use xfskit::raw::{VolumeExt as _, VolumeOptionsExt as _};
use xfskit::{Bulkstat, ErrorKind, Extract, OpenOptions, VolumeOptions};

#[test]
fn after_close_clones_files_and_iterators_say_that_it_is_closed() {
    let (device, volume) = made();
    volume.create_dir("/d").unwrap();
    volume.write("/d/f", "content").unwrap();
    let clone = volume.clone();
    let written = volume.create("/written").unwrap();
    (&written).write_all(b"not synced").unwrap();
    let read = volume.open_file("/d/f").unwrap();
    let mut walk = volume.walk_dir("/").unwrap();
    let mut names = volume.read_dir("/d").unwrap();
    let removed = volume.create("/removed").unwrap();
    removed.write_at(&[1; 10_000], 0).unwrap();
    volume.remove_file("/removed").unwrap();
    volume.close().unwrap();
    let kinds = [
        clone.read("/d/f").unwrap_err().kind(),
        clone.write("/d/g", "x").unwrap_err().kind(),
        clone.sync().unwrap_err().kind(),
        clone.statfs().unwrap_err().kind(),
        written.write_at(b"x", 0).unwrap_err().kind(),
        written.sync_all().unwrap_err().kind(),
        read.metadata().unwrap_err().kind(),
        walk.next().unwrap().unwrap_err().kind(),
        names.next().unwrap().unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Closed; 9]);
    let error = (&read).read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.get_ref().unwrap().to_string(), "the volume is closed");
    assert_eq!(clone.clone().close().unwrap_err().kind(), ErrorKind::Closed);
    // Clean, though all of them are still there.
    let again = reopened(&device);
    assert_eq!(again.read("/written").unwrap(), b"not synced");
    again.close().unwrap();
    drop((clone, written, read, walk, names, removed));
    let again = reopened(&device);
    assert!(again.fs().volume().replay().unwrap().clean);
    assert_eq!(again.walk_dir("/").unwrap().count(), 4);
}

#[test]
fn a_close_waits_for_the_changes_of_other_threads_and_keeps_every_one_that_succeeded() {
    let (device, volume) = made();
    let begun = AtomicUsize::new(0);
    let written = std::thread::scope(|scope| {
        let workers = [0, 1, 2].map(|worker| {
            let (volume, begun) = (volume.clone(), &begun);
            scope.spawn(move || {
                let file = volume.create(format!("/{worker}")).unwrap();
                for n in 0_u32.. {
                    match file.write_at(&n.to_le_bytes(), 4 * u64::from(n)) {
                        Ok(_) if n == 0 => {
                            begun.fetch_add(1, Ordering::Release);
                        }
                        Ok(_) => {}
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                            return n;
                        }
                    }
                }
                unreachable!("the volume is closed before")
            })
        });
        while begun.load(Ordering::Acquire) < 3 {
            std::thread::yield_now();
        }
        volume.close().unwrap();
        workers.map(|worker| worker.join().unwrap())
    });
    let volume = reopened(&device);
    for (worker, count) in written.into_iter().enumerate() {
        let content = volume.read(format!("/{worker}")).unwrap();
        let expected: Vec<u8> = (0..count).flat_map(u32::to_le_bytes).collect();
        assert!(content == expected, "file {worker}, {count} writes");
    }
}

#[test]
fn dropping_a_file_writes_nothing_and_loses_nothing() {
    let memory: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(300 << 20)));
    xfskit::raw::make(Arc::clone(&memory), &xfskit::raw::mkfs::Options::default())
        .unwrap()
        .close()
        .unwrap();
    let counting = Arc::new(CountingDevice::new(Arc::clone(&memory)));
    let device: Arc<dyn BlockDevice> = Arc::clone(&counting) as _;
    let volume = VolumeOptions::new().write(true).open_device(device, None).unwrap();
    volume.sync().unwrap();
    let before = counting.counts().written_bytes.0;
    for n in 0..10 {
        let file = volume.create(format!("/{n}")).unwrap();
        file.write_at(&vec![7; 1 << 20], 0).unwrap();
        // Neither does a reader that is dropped last.
        let reader = volume.open_file(format!("/{n}")).unwrap();
        drop(file);
        assert_eq!(reader.metadata().unwrap().len(), 1 << 20);
    }
    assert!(counting.counts().written_bytes.0 - before < 1 << 20, "content was written");
    assert_eq!(volume.read("/3").unwrap(), vec![7; 1 << 20]);
    drop(volume);
    assert_eq!(reopened(&memory).read("/9").unwrap(), vec![7; 1 << 20]);
}

#[test]
fn the_last_reference_closes_the_volume_whatever_it_is() {
    let (device, volume) = made();
    let file = volume.open_with("/f", OpenOptions::new().write(true).create(true)).unwrap();
    drop(volume);
    file.write_at(b"content", 0).unwrap();
    drop(file);
    let volume = reopened(&device);
    assert!(volume.fs().volume().replay().unwrap().clean);
    assert_eq!(volume.read("/f").unwrap(), b"content");
}

#[test]
fn a_sync_of_a_volume_that_is_open_for_reading_has_nothing_to_write() {
    let (_dir, volume) = kept();
    volume.sync().unwrap();
    volume.open_file(first_file(&volume)).unwrap().sync_all().unwrap();
    assert!(volume.close().unwrap().is_clean());
}

/// The path of a regular file.
fn first_file(volume: &xfskit::Volume) -> std::path::PathBuf {
    let mut files = volume.walk_dir("/").unwrap().filter_map(Result::ok);
    files.find(|file| file.file_type().is_file()).unwrap().into_path()
}

#[test]
fn a_close_within_an_operation_of_the_same_volume_is_refused_and_does_not_wait_for_itself() {
    let (device, volume) = made();
    for n in 0..10 {
        volume.write(format!("/{n}"), "content").unwrap();
    }
    let refused = AtomicUsize::new(0);
    let close = || {
        assert_eq!(volume.clone().close().unwrap_err().kind(), ErrorKind::ResourceBusy);
        volume.clone().abandon();
        refused.fetch_add(1, Ordering::Relaxed);
    };
    Bulkstat::new(&volume)
        .run(|_| {
            close();
            ControlFlow::Continue(())
        })
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    // From the threads of the copy too.
    let out = dir.path().join("out");
    Extract::new(&volume, "/").progress(|_| close()).to_dir(&out).unwrap();
    assert!(refused.into_inner() > 10);
    assert!(volume.close().unwrap().is_clean());
    assert_eq!(reopened(&device).read("/9").unwrap(), b"content");
}

/// A device that cannot read the blocks of extent btrees.
#[derive(Debug)]
struct NoBmbt(Arc<dyn BlockDevice>);

impl NoBmbt {
    fn refuse(offset: ByteOffset, buf: &[u8]) -> DeviceResult<()> {
        if !buf.chunks(4096).any(|block| block.starts_with(b"BMA3")) {
            return Ok(());
        }
        let (source, len) = (std::io::Error::other("unreadable"), ByteLen(buf.len() as u64));
        Err(DeviceError::Io { op: "read", offset, len, source })
    }
}

impl BlockDevice for NoBmbt {
    xfskit::raw::block::plain!(lend, heal);
    xfskit::raw::block::forward!(this => *this.0; size, logical_block_size, physical_block_size,
        topology, will_need, skip_hole, alternatives, read_alternative, is_read_only, write_at,
        write_batch, write_fua, discard, write_zeroes, flush);

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> DeviceResult<()> {
        self.0.read_at(offset, buf)?;
        Self::refuse(offset, buf)
    }

    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<DeviceResult<()>> {
        let read = self.0.read_batch(batch);
        let refuse = |(read, to): (DeviceResult<()>, &IoRead<'_>)| {
            read.and_then(|()| Self::refuse(to.offset, to.buf))
        };
        read.into_iter().zip(batch.iter()).map(refuse).collect()
    }
}

#[test]
fn a_close_says_which_deleted_files_keep_the_journal_dirty() {
    let (device, volume) = made();
    let file = volume.create("/scattered").unwrap();
    for n in 0..200 {
        file.write_at(&[7; 4096], n * 8192).unwrap();
    }
    drop(file);
    volume.close().unwrap();
    let failing: Arc<dyn BlockDevice> = Arc::new(NoBmbt(Arc::clone(&device)));
    let volume = VolumeOptions::new().write(true).open_device(failing, None).unwrap();
    let ino = volume.metadata("/scattered").unwrap().ino();
    volume.remove_file("/scattered").unwrap();
    volume.write("/other", "content").unwrap();
    let closed = volume.close().unwrap();
    assert!(!closed.is_clean());
    let left: Vec<_> = closed.orphans_left.iter().map(|orphan| orphan.ino.unwrap().0).collect();
    assert_eq!(left, [ino]);
    // The next opening, on a device that can read, gives its space back.
    let volume = VolumeOptions::new().write(true).open_device(Arc::clone(&device), None).unwrap();
    assert!(!volume.replay().unwrap().clean);
    assert_eq!(volume.read("/other").unwrap(), b"content");
    assert!(volume.close().unwrap().is_clean());
    drop(reopened(&device));
}
