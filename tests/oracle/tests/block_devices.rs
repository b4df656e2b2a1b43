//! `FileDevice` on real block devices of the kernel: loop devices.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use xfskit_block::{BlockDevice, Error, FileDevice, Holder, OpenMode};
use xfskit_test_support::image::Mount;
use xfskit_test_support::loops::Loop;
use xfskit_test_support::{Image, Need, Scratch, needs};
use xfskit_units::{ByteLen, ByteOffset};

const SIZE: u64 = 300 << 20;

/// Attaches a loop device with sectors of this size.
fn attach(file: &Path, sector: &str) -> Loop {
    Loop::attach(file, &["--sector-size", sector]).expect("a loop device")
}

fn run(program: &str, args: &[&Path]) {
    let status = Command::new(program).args(args).stdout(std::process::Stdio::null()).status();
    assert!(status.is_ok_and(|s| s.success()), "{program} {args:?}");
}

#[test]
fn a_block_device_reports_its_sizes_and_supports_zeroes_and_discard() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("block");
    let image = Image::sparse(&scratch, "disk.img", SIZE);
    let disk = attach(image.path(), "4096");
    let device = FileDevice::open(disk.path(), OpenMode::ReadWrite).expect("opens");
    assert!(device.is_block_device());
    assert_eq!(device.size(), ByteLen(SIZE));
    assert_eq!((device.logical_block_size(), device.physical_block_size()), (4096, 4096));
    // Unaligned, and across pages.
    device.write_at(ByteOffset(4000), &[7; 10_000]).expect("writes");
    device.flush().expect("flushes");
    device.write_zeroes(ByteOffset(5000), ByteLen(6000)).expect("zeroes");
    let mut bytes = vec![1; 20_000];
    device.read_at(ByteOffset(0), &mut bytes).expect("reads");
    for (i, byte) in bytes.iter().enumerate() {
        let written = (4000..5000).contains(&i) || (11_000..14_000).contains(&i);
        assert_eq!(*byte, if written { 7 } else { 0 }, "byte {i}");
    }
    device.discard(ByteOffset(0), device.size()).expect("discards");
    device.read_at(ByteOffset(0), &mut bytes).expect("reads");
    assert!(bytes.iter().all(|&b| b == 0), "a loop device reads zeroes where it was discarded");
    assert_eq!(
        device.next_data(ByteOffset(0)).expect("supported"),
        Some(ByteOffset(0)..ByteOffset(SIZE)),
        "a block device cannot tell holes: all is data"
    );
    assert!(matches!(FileDevice::open(disk.path(), OpenMode::ReadWrite), Err(Error::InUse { .. })));
}

#[test]
fn a_mounted_block_device_opens_only_for_reading() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("mounted");
    let image = Image::sparse(&scratch, "disk.img", SIZE);
    let disk = attach(image.path(), "512");
    run("mkfs.xfs", &[Path::new("-q"), disk.path()]);
    let mount = Mount::of(disk.path(), &scratch, "rw").expect("a mount");
    let writer = FileDevice::open(disk.path(), OpenMode::ReadWrite);
    let reader = FileDevice::open(disk.path(), OpenMode::ReadOnly);
    mount.unmount().expect("an unmount");
    assert!(matches!(writer, Err(Error::InUse { .. })), "{writer:?}");
    assert!(reader.is_ok());
    FileDevice::open(disk.path(), OpenMode::ReadWrite).expect("opens when unmounted");
}

#[test]
fn the_file_of_a_loop_device_opens_for_writing_only_after_detach() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("behind");
    let image = Image::sparse(&scratch, "disk.img", SIZE);
    run("mkfs.xfs", &[Path::new("-q"), image.path()]);
    let second_name = scratch.path().join("second");
    std::fs::hard_link(image.path(), &second_name).expect("a second name");
    let open = |path: &Path| FileDevice::open(path, OpenMode::ReadWrite);
    let attached = |opened: Result<FileDevice, Error>| {
        matches!(opened, Err(Error::InUse { by: Holder::Loop(_), .. }))
    };

    let mount = Mount::checked(&image, &scratch).expect("a mount");
    let writers = [open(image.path()), open(&second_name)].map(attached);
    let maker = attached(FileDevice::create(image.path(), ByteLen(0)));
    let reader = FileDevice::open(image.path(), OpenMode::ReadOnly);
    mount.unmount().expect("an unmount");
    assert_eq!((writers, maker), ([true, true], true));
    assert_eq!(reader.expect("opens").size(), ByteLen(SIZE), "nothing was cut off");
    opens_soon(image.path());

    let (first, second) = (attach(image.path(), "512"), attach(image.path(), "512"));
    assert!(attached(open(image.path())), "attached, though not mounted");
    assert!(attached(open(first.path())), "the second shows the same bytes");
    std::fs::remove_file(image.path()).expect("the first name goes");
    assert!(attached(open(&second_name)), "it is the file that counts, not its name");
    drop(second);
    opens_soon(first.path());
    let on_device = attach(first.path(), "512");
    assert!(attached(open(first.path())), "a device behind another");
    drop((on_device, first));
    opens_soon(&second_name);
}

/// Opens `path` for writing. The kernel detaches a loop device when its last opener closes it, and
/// another test's `mount` or `losetup` may be looking at it: a few seconds are waited for.
fn opens_soon(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = FileDevice::open(path, OpenMode::ReadWrite) {
        assert!(Instant::now() < deadline, "{}: {error}", path.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}
