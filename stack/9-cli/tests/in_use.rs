//! `repair`, `undo` and `undelete --in-place` on volumes that Linux has mounted, by each name that
//! such a volume has: nothing is written.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use xfskit_test_support::image::Mount;
use xfskit_test_support::loops::Loop;
use xfskit_test_support::need::{Need, needs};
use xfskit_test_support::{Image, Scratch, skip};

use super::common::{expect, shown};

/// First byte and length of the partition.
const PART: (u64, u64) = (1 << 20, 300 << 20);
const SECTOR: u64 = 512;

/// A partition of a loop device, removed at the end. Kernels without the parsers of partition
/// tables know such partitions, too.
struct Part<'l> {
    of: &'l Loop,
    path: PathBuf,
}

impl<'l> Part<'l> {
    /// Adds the partition; `None` if the machine cannot.
    fn add(of: &'l Loop) -> Option<Self> {
        let (start, len) = (PART.0 / SECTOR, PART.1 / SECTOR);
        let mut add = Command::new("addpart");
        add.arg(of.path()).args(["1", &start.to_string(), &len.to_string()]);
        let path = PathBuf::from(format!("{}p1", of.path().display()));
        let added = add.output().is_ok_and(|run| run.status.success()) && path.exists();
        added.then_some(Self { of, path })
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        let _ = Command::new("delpart").arg(self.of.path()).arg("1").status();
    }
}

/// Makes a disk with one partition in an MBR, and a volume in it.
fn partitioned(scratch: &Scratch) -> Image<'_> {
    let disk = Image::sparse(scratch, "disk.img", PART.0 + PART.1 + (1 << 20));
    let mut mbr = [0; 512];
    let (start, len) = (PART.0 / SECTOR, PART.1 / SECTOR);
    mbr[446 + 4] = 0x83;
    mbr[446 + 8..446 + 12].copy_from_slice(&u32::try_from(start).unwrap().to_le_bytes());
    mbr[446 + 12..446 + 16].copy_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    let file = fs::OpenOptions::new().write(true).open(disk.path()).unwrap();
    file.write_all_at(&mbr, 0).unwrap();
    expect(0, &["mkfs", "-q", &format!("{}#p1", shown(disk.path()))]);
    disk
}

/// Fails unless all that would write to `target` is refused because it is in use.
fn all_refuse(target: &str, undo: &Path) {
    let undo_file = shown(undo);
    for words in [
        &["repair", "--no-undo", target][..],
        &["repair", "--dry-run", target],
        &["undo", &undo_file, target],
        &["undelete", target, "--in-place"],
    ] {
        let refused = expect(2, words);
        let why = ["in use", "busy", "mounted", "loop"];
        let is_named = why.iter().any(|word| refused.stderr.contains(word));
        assert!(is_named, "{words:?}: {}", refused.stderr);
    }
}

#[test]
fn a_mounted_partition_is_refused_by_each_of_its_names() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("cli-in-use");
    let disk = partitioned(&scratch);
    let image = shown(disk.path());
    let undo = scratch.path().join("undo");
    fs::write(&undo, "none").unwrap();
    let whole = Loop::attach(disk.path(), &[]).expect("a loop device");
    let Some(added) = Part::add(&whole) else {
        return skip("addpart (util-linux), and a kernel with partitions of loop devices");
    };
    let part = added.path.clone();
    let names = [&image, &format!("{image}#p1"), &shown(whole.path()), &shown(&part)]
        .map(String::clone)
        .into_iter()
        .chain([format!("{}#p1", shown(whole.path()))]);
    let mounted = Mount::of(&part, &scratch, "rw").expect("a mount");
    names.clone().for_each(|name| all_refuse(&name, &undo));
    drop(mounted);
    expect(0, &["repair", "--no-undo", &shown(&part)]);

    // Another loop device shows the bytes of the partition.
    let offset = format!("--offset={}", PART.0);
    let second = Loop::attach(disk.path(), &[&offset, &format!("--sizelimit={}", PART.1)])
        .expect("attached");
    let mounted = Mount::of(second.path(), &scratch, "rw").expect("a mount");
    names.for_each(|name| all_refuse(&name, &undo));
    all_refuse(&shown(second.path()), &undo);
    drop((mounted, second));
    expect(0, &["repair", "--no-undo", &shown(&part)]);

    // One that is attached to the partition.
    let above = Loop::attach(&part, &[]).expect("a loop device");
    let mounted = Mount::of(above.path(), &scratch, "rw").expect("a mount");
    for name in [
        shown(whole.path()),
        format!("{}#p1", shown(whole.path())),
        shown(&part),
        shown(above.path()),
    ] {
        all_refuse(&name, &undo);
    }
    drop((mounted, above));
    expect(0, &["repair", "--no-undo", &shown(&part)]);
    drop(added);
    drop(whole);
    expect(0, &["repair", "--no-undo", &format!("{image}#p1")]);
}

#[test]
fn a_mounted_image_is_refused_and_a_device_needs_a_place_for_the_undo_file() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("cli-in-use-image");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    let undo = scratch.path().join("undo");
    fs::write(&undo, "none").unwrap();
    expect(0, &["mkfs", "-q", "--force", &shown(image.path())]);
    let mounted = Mount::of(image.path(), &scratch, "loop").expect("a mount");
    all_refuse(&shown(image.path()), &undo);
    drop(mounted);
    let device = Loop::attach(image.path(), &[]).expect("a loop device");
    // AGF, AGI and AGFL.
    let headers = |byte: u8| {
        let file = fs::OpenOptions::new().write(true).open(device.path()).unwrap();
        file.write_all_at(&[byte; 3 * 512], 512).unwrap();
        file.sync_all().unwrap();
    };
    headers(0xa5);
    let refused = expect(2, &["repair", &shown(device.path())]);
    assert!(refused.stderr.contains("no place for an undo file"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--undo-file"), "{}", refused.stderr);
    expect(1, &["check", "-q", &shown(device.path())]);
    let kept = shown(&scratch.path().join("kept"));
    expect(0, &["repair", "--undo-file", &kept, &shown(device.path())]);
    expect(0, &["check", "-q", &shown(device.path())]);
    expect(0, &["undo", &kept, &shown(device.path())]);
    expect(1, &["check", "-q", &shown(device.path())]);
}
