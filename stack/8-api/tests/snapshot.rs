//! Snapshots of a volume that is changed meanwhile, in this process and through a stream.

use std::os::unix::net::UnixStream;
use std::path::Path;

use xfskit::{Check, ErrorKind, Mkfs, Snapshot, Volume, VolumeOptions};

/// A new volume, open for writing.
fn volume(dir: &Path, options: VolumeOptions) -> Volume {
    let image = dir.join("a.img");
    Mkfs::new().size(300 << 20).create(&image).unwrap().close().unwrap();
    options.write(true).open(&image).unwrap()
}

/// Opens the volume in a snapshot.
fn open(snapshot: &Snapshot) -> Volume {
    snapshot.options(VolumeOptions::new()).open_on(&snapshot.data()).unwrap()
}

#[test]
fn a_snapshot_has_all_changes_so_far_and_no_later_ones() {
    let dir = tempfile::tempdir().unwrap();
    let volume = volume(dir.path(), VolumeOptions::new().snapshots(true));
    volume.write("/file", vec![1; 1_000_000]).unwrap();
    let snapshot = volume.snapshot().unwrap();
    volume.write("/file", vec![2; 2_000_000]).unwrap();
    for n in 0..500 {
        volume.write(format!("/new-{n}"), vec![3; 3000]).unwrap();
    }
    volume.sync().unwrap();
    let local = open(&snapshot);
    assert_eq!(local.read("/file").unwrap(), vec![1; 1_000_000]);
    assert_eq!(local.metadata("/new-0").unwrap_err().kind(), ErrorKind::NotFound);
    drop(local);
    // Through a stream, while the volume is changed.
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| snapshot.serve(&ours));
        let remote = Snapshot::connect(theirs).unwrap();
        assert_eq!(remote.data().size(), snapshot.data().size());
        assert!(remote.log().is_none());
        for n in 0..500 {
            volume.remove_file(format!("/new-{n}")).unwrap();
        }
        let copy = open(&remote);
        assert_eq!(copy.read("/file").unwrap(), vec![1; 1_000_000]);
        drop(copy);
        // The changes are in the journal, and in place only with the next write-back.
        let checked = Check::new().run_device_with(&remote.data(), |finding| {
            assert!(finding.to_string().contains("[log.dirty]"), "{finding}");
        });
        checked.unwrap();
        // Beyond the end: an error of this range, and no end of the stream.
        let size = remote.data().size();
        assert!(remote.data().read_exact_at(&mut [0; 10], size - 5).is_err());
        assert!(remote.data().read_exact_at(&mut [0; 10], size - 10).is_ok());
        assert!(remote.is_whole());
        drop(remote);
        served.join().unwrap().unwrap();
    });
    drop(snapshot);
    assert_eq!(volume.read("/file").unwrap(), vec![2; 2_000_000]);
    volume.close().unwrap();
}

#[test]
fn a_lost_snapshot_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let volume = volume(dir.path(), VolumeOptions::new().snapshots(true));
    let snapshot = volume.snapshot().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| snapshot.serve(&ours));
        let remote = Snapshot::connect(theirs).unwrap();
        ours.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(remote.data().read_exact_at(&mut [0; 10], 0).is_err());
        assert!(!remote.is_whole());
        let _ = served.join().unwrap();
    });
    volume.close().unwrap();
}

#[test]
fn a_volume_that_is_not_opened_for_snapshots_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let volume = volume(dir.path(), VolumeOptions::new());
    assert_eq!(volume.snapshot().unwrap_err().kind(), ErrorKind::Unsupported);
    volume.close().unwrap();
    let still = Volume::open(dir.path().join("a.img")).unwrap();
    let snapshot = still.snapshot().unwrap();
    assert_eq!(snapshot.data().size(), 300 << 20);
}
