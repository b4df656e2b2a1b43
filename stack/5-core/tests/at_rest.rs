//! A volume that is written in place as a whole, goes on, and gives its free blocks back.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::timestamp::Timestamp;
use xfskit_test_support::{Image, Mount, Need, Random, Scratch, Xfsprogs, needs, ours};
use xfskit_units::{ByteLen, ByteOffset, Geometry, Ino};

const NOW: Timestamp = Timestamp { sec: 1_800_000_000, nsec: 5 };
const SIZE: u64 = 300 << 20;

fn open(image: &Image<'_>) -> Volume {
    let dev = FileDevice::open(image.path(), OpenMode::ReadWrite).unwrap();
    Volume::open(Arc::new(dev), &OpenOptions { write: true, ..OpenOptions::default() }).unwrap()
}

/// A volume with an empty file.
fn made(scratch: &Scratch) -> (Image<'_>, Ino) {
    let image = Image::sparse(scratch, "volume.img", SIZE);
    Xfsprogs::installed().unwrap().mkfs(&image, &[]).unwrap();
    let mount = Mount::read_write(&image, scratch).unwrap();
    let file = std::fs::File::create(mount.path().join("f0")).unwrap();
    let ino = Ino(file.metadata().unwrap().ino());
    drop(file);
    mount.unmount().unwrap();
    (image, ino)
}

/// Returns whether the journal of a copy of the image is clean. Such a copy is sound as it lies.
fn is_clean(scratch: &Scratch, image: &Image<'_>, geo: &Geometry) -> bool {
    let copy = Image::sparse(scratch, "copy.img", SIZE);
    std::fs::copy(image.path(), copy.path()).unwrap();
    let device = FileDevice::open(copy.path(), OpenMode::ReadOnly).unwrap();
    let is_clean = xfskit_recovery::open_log(&device, None, geo).unwrap().is_clean();
    let report = ours::check(&copy);
    assert!(!is_clean || report.is_clean(), "{report:#?}");
    is_clean
}

#[test]
fn a_volume_at_rest_is_whole_on_its_device_and_goes_on_with_the_journal() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("core-at-rest");
    let (image, ino) = made(&scratch);
    let mut random = Random::of_test(1);
    let mut model = vec![0; 4 << 20];
    for round in 0..4_u8 {
        let volume = open(&image);
        let content = volume.open_content(ino).unwrap();
        for step in 0..30_u8 {
            let start = random.below(3 << 20);
            let bytes =
                vec![round * 40 + step; 1 + usize::try_from(random.below(100_000)).unwrap()];
            content.write(&volume, ByteOffset(start), &bytes, NOW).unwrap();
            let at = usize::try_from(start).unwrap();
            model[at..at + bytes.len()].copy_from_slice(&bytes);
            if step % 10 == 3 {
                volume.quiesce(step > 20).unwrap();
                assert_eq!(is_clean(&scratch, &image, volume.geo()), step <= 20);
            }
        }
        volume.sync().unwrap();
        // A crash.
        drop(content);
        drop(volume);
        let volume = open(&image);
        let content = volume.open_content(ino).unwrap();
        let mut found = vec![0; model.len()];
        let len = content.read(&volume, ByteOffset(0), &mut found).unwrap();
        assert!(found[..len] == model[..len], "round {round}");
        drop(content);
        volume.close().unwrap();
    }
    for tools in Xfsprogs::all() {
        tools.repair_n(&image, &[]).unwrap();
    }
}

#[test]
fn trimming_gives_back_what_is_free_and_nothing_else() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("core-trim");
    let (image, ino) = made(&scratch);
    let allocated = || std::fs::metadata(image.path()).unwrap().blocks() * 512;
    let volume = open(&image);
    let content = volume.open_content(ino).unwrap();
    content.write(&volume, ByteOffset(0), &vec![7; 40 << 20], NOW).unwrap();
    volume.sync().unwrap();
    let full = allocated();
    content.punch(&volume, ByteOffset(1 << 20)..ByteOffset(40 << 20), NOW).unwrap();
    let whole = ByteOffset(0)..ByteOffset(SIZE);
    let trimmed = volume.trim(whole.clone(), ByteLen(0)).unwrap();
    let free = ByteLen(volume.counts().fdblocks << volume.geo().blocklog);
    assert!(trimmed <= free && trimmed.0 > free.0 - (8 << 20), "{trimmed} of {free}");
    assert!(full - allocated() >= 38 << 20, "{full} bytes before, {} now", allocated());
    // Runs that are too short, and another range, are left alone.
    assert_eq!(volume.trim(whole, ByteLen(SIZE)).unwrap(), ByteLen(0));
    let few = ByteOffset(SIZE - (1 << 20))..ByteOffset(SIZE);
    assert!(volume.trim(few, ByteLen(0)).unwrap() <= ByteLen(1 << 20));
    let mut found = vec![0; 2 << 20];
    content.read(&volume, ByteOffset(0), &mut found).unwrap();
    assert!(found[..1 << 20].iter().all(|&byte| byte == 7));
    assert!(found[1 << 20..].iter().all(|&byte| byte == 0));
    drop(content);
    volume.close().unwrap();
    for tools in Xfsprogs::all() {
        tools.repair_n(&image, &[]).unwrap();
    }
}
