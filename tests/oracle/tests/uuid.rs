//! A change of the UUID: the kernel mounts the volume beside its copy, before and after a crash,
//! and both the kernel and xfskit can go on changing it. A change that is interrupted anywhere
//! leaves one of the two UUIDs.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use xfskit::raw::VolumeOptionsExt as _;
use xfskit::raw::block::{BlockDevice, FileDevice, OpenMode, RecordingDevice};
use xfskit::raw::core::OpenOptions;
use xfskit::raw::core::uuid::{NewUuid, set_uuid};
use xfskit::raw::units::Uuid;
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, needs, ours, verify};

const NEW: Uuid = Uuid::from_u128(0x5d1e_0a0c_3f5b_4d2a_9c1f_7e60_0d35_b2a1);
const OTHER: Uuid = Uuid::from_u128(5);

fn device(path: &Path) -> Arc<dyn BlockDevice> {
    Arc::new(FileDevice::open(path, OpenMode::ReadWrite).expect("open the image"))
}

fn options(image: &Image) -> OpenOptions {
    OpenOptions { log_dev: image.log().map(device), ..OpenOptions::default() }
}

fn change(image: &Image, uuid: NewUuid) -> Uuid {
    set_uuid(&device(image.path()), &options(image), uuid).expect("a new UUID").0
}

fn verified(image: &Image, when: &str) {
    for tools in Xfsprogs::all() {
        tools.repair_n(image, &[]).unwrap_or_else(|why| panic!("{when}: {why}"));
    }
    verify::volume(image, &Scratch::new("uuid-verified"))
        .unwrap_or_else(|why| panic!("{when}: {why}"));
}

/// Returns fields of the superblock as `xfs_db` prints them.
fn fields(image: &Image, names: &str) -> String {
    let tools = Xfsprogs::installed().expect("xfsprogs");
    tools.db(image, false, &["sb 3", &format!("p {names}")]).expect("xfs_db")
}

/// Fills a directory with the kernel.
fn work(root: &Path, name: &str) {
    let dir = root.join(name);
    fs::create_dir(&dir).expect("mkdir");
    for n in 0..300 {
        fs::write(dir.join(format!("file-{n}")), vec![7; n * 50]).expect("write");
    }
}

/// Fills a directory with xfskit.
fn ours_works(image: &Image, name: &str) {
    let options = xfskit::VolumeOptions::new().write(true);
    let log = image.log().map(device);
    let volume = options.open_device(device(image.path()), log).expect("open the volume");
    volume.create_dir_all(format!("/{name}")).expect("mkdir");
    for n in 0..300 {
        volume.write(format!("/{name}/file-{n}"), vec![7; n * 50]).expect("write");
    }
    volume.close().expect("close");
}

#[test]
fn the_kernel_and_xfskit_change_a_volume_after_a_change_of_its_uuid() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for (words, log) in [
        ("", 0),
        ("-l su=64k", 0),
        ("-s size=4096 -b size=4096", 0),
        ("-l logdev=beside", 64 << 20),
    ] {
        let scratch = Scratch::new("uuid");
        let mut image = Image::sparse(&scratch, "volume.img", 300 << 20);
        if log > 0 {
            image = image.with_external_log(log);
        }
        ours::mkfs(&image, &words.split_whitespace().collect::<Vec<_>>()).expect("mkfs");
        let mount = Mount::read_write(&image, &scratch).expect("mount");
        work(mount.path(), "before");
        mount.unmount().expect("unmount");

        let copy = image.copy("copy.img");
        assert_eq!(change(&image, NewUuid::Is(NEW)), NEW);
        verified(&image, "after the change");
        assert!(fields(&image, "uuid").contains(&NEW.to_string()));
        let mount = Mount::checked(&image, &scratch).expect("mount");
        let other = Mount::checked(&copy, &scratch).expect("both have a UUID of their own");
        other.unmount().expect("unmount");
        work(mount.path(), "kernel");
        mount.shutdown(true).expect("shutdown");
        mount.unmount().expect("unmount");

        // The journal is dirty here.
        assert_eq!(change(&image, NewUuid::Is(OTHER)), OTHER);
        verified(&image, "after a change on top of a dirty journal");
        ours_works(&image, "ours");
        verified(&image, "after our work");
        let mount = Mount::read_write(&image, &scratch).expect("mount");
        for name in ["before", "kernel", "ours"] {
            assert_eq!(fs::read_dir(mount.path().join(name)).expect("list").count(), 300);
        }
        fs::remove_dir_all(mount.path().join("before")).expect("remove");
        mount.unmount().expect("unmount");
        verified(&image, "after the kernel's work");

        change(&image, NewUuid::Original);
        verified(&image, "after the original came back");
        let names = "uuid meta_uuid features_incompat";
        assert_eq!(fields(&image, names), fields(&copy, names));
        Mount::recover(&image, &scratch).expect("mount");
    }
}

#[test]
fn an_interrupted_change_of_the_uuid_leaves_the_old_or_the_new_one() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("uuid-cut");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    ours::mkfs(&image, &[]).expect("mkfs");
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    work(mount.path(), "before");
    mount.unmount().expect("unmount");

    let whole = image.copy("whole.img");
    let recorder = Arc::new(RecordingDevice::new(device(whole.path())));
    let recorded: Arc<dyn BlockDevice> = recorder.clone();
    set_uuid(&recorded, &OpenOptions::default(), NewUuid::Is(NEW)).expect("a new UUID");
    let mut seen = Vec::new();
    for n in 0..=recorder.event_count() {
        let cut = image.copy("cut.img");
        recorder.replay(n, &*device(cut.path())).expect("replay");
        let when = format!("{n} of {} events", recorder.event_count());
        Mount::recover(&cut, &scratch).unwrap_or_else(|why| panic!("{when}: {why}"));
        let tools = Xfsprogs::installed().expect("xfsprogs");
        seen.push(tools.db(&cut, false, &["sb 0", "p uuid"]).expect("xfs_db"));
        // A second attempt completes the change, also without a mount between.
        let again = image.copy("again.img");
        recorder.replay(n, &*device(again.path())).expect("replay");
        change(&again, NewUuid::Is(NEW));
        verified(&again, &when);
    }
    seen.dedup();
    assert_eq!(seen.len(), 2, "{seen:?}");
}
