//! Compares our dumps with those of `xfs_db`, line by line, on images that the kernel filled.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};
use xfskit_inspect::{Structure, inspect};
use xfskit_test_support::kept::unpack;

/// A kept image, unpacked into a file that is removed when the test ends.
struct Image(PathBuf);

impl Image {
    fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let unique = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let file = format!("xfskit-inspect-{}-{}-{name}.img", unique.0, unique.1);
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, unpack(name)).expect("a temporary file");
        Self(path)
    }

    fn volume(&self) -> Volume {
        let dev = FileDevice::open(&self.0, OpenMode::ReadOnly).expect("the image");
        Volume::open(Arc::new(dev), &OpenOptions::default()).expect("a volume")
    }

    fn xfs_db(&self, commands: &[&str]) -> String {
        let mut db = Command::new("xfs_db");
        db.env("TZ", "UTC").arg("-r");
        for command in commands.iter().chain(&["print"]) {
            db.args(["-c", command]);
        }
        let out = db.arg(&self.0).output().expect("xfs_db runs");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn have_xfs_db() -> bool {
    let found = Command::new("xfs_db").arg("-V").output().is_ok();
    if !found {
        eprintln!("skipped: xfs_db is not installed");
        assert!(std::env::var_os("XFSKIT_REQUIRE_ORACLE").is_none(), "xfs_db is required");
    }
    found
}

/// Leaves out lines of `xfs_db` that do not fit the structure: in unused space of a directory block
/// it prints a type byte that does not exist.
fn comparable(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let in_unused_space = |i: usize| {
        lines[i].contains(".filetype = ") && i >= 1 && lines[i - 1].contains(".length = 0x")
    };
    (0..lines.len())
        .filter(|&i| !in_unused_space(i))
        .map(|i| lines[i].trim_end().to_owned())
        .collect()
}

fn same(image: &Image, volume: &Volume, what: &str, theirs: &[&str]) {
    let ours = inspect(volume, what.parse::<Structure>().expect(what)).expect(what);
    let (ours, theirs) = (comparable(&ours.to_string()), comparable(&image.xfs_db(theirs)));
    assert!(!theirs.is_empty(), "{what}: xfs_db printed nothing");
    for (i, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(a, b, "{what}, line {i}: ours is left, xfs_db's right");
    }
    assert_eq!(ours.len(), theirs.len(), "{what}: number of lines");
}

fn each_structure(name: &str, inodes: &[u64]) {
    if !have_xfs_db() {
        return;
    }
    let image = Image::new(name);
    let volume = image.volume();
    let geo = volume.geo().clone();
    for ag in 0..geo.agcount {
        for header in ["sb", "agf", "agi", "agfl"] {
            same(&image, &volume, &format!("{header} {ag}"), &[&format!("{header} {ag}")]);
        }
        let (agf, agi) = (format!("agf {ag}"), format!("agi {ag}"));
        let mut trees = vec![("bnobt", &agf, "bnoroot"), ("cntbt", &agf, "cntroot")];
        trees.push(("inobt", &agi, "root"));
        if geo.features.finobt() {
            trees.push(("finobt", &agi, "free_root"));
        }
        if geo.features.rmapbt() {
            trees.push(("rmapbt", &agf, "rmaproot"));
        }
        if geo.features.reflink() {
            trees.push(("refcountbt", &agf, "refcntroot"));
        }
        for (tree, header, field) in trees {
            let follow = format!("addr {field}");
            same(&image, &volume, &format!("{tree} {ag}"), &[header, &follow]);
        }
    }
    for ino in inodes {
        same(&image, &volume, &format!("inode {ino}"), &[&format!("inode {ino}")]);
    }
}

/// Returns every inode in use on the volume.
fn inodes(name: &str) -> Vec<u64> {
    let image = Image::new(name);
    let volume = image.volume();
    let mut found = Vec::new();
    for agno in volume.geo().ags() {
        volume
            .for_each_chunk(agno, |chunk| {
                for bit in (0..64u32).filter(|bit| chunk.used() >> bit & 1 != 0) {
                    let agino = chunk.startino.checked_add(bit).expect("an inode of the group");
                    found.push(volume.geo().agino_to_ino(agno, agino).0);
                }
                Ok(())
            })
            .expect("the inode btree");
    }
    found
}

#[test]
fn headers_trees_and_inodes_print_as_in_xfs_db() {
    for name in ["v5", "v5-1k", "v5-plain", "v4"] {
        each_structure(name, &inodes(name));
    }
}

/// Compares every block of every directory and attribute fork.
#[test]
fn directory_and_attribute_blocks_print_as_in_xfs_db() {
    if !have_xfs_db() {
        return;
    }
    for name in ["v5", "v4"] {
        let image = Image::new(name);
        let volume = image.volume();
        for ino in inodes(name) {
            for (what, theirs) in [("dir", "dblock"), ("attr", "ablock")] {
                let inode = volume.iget(xfskit_units::Ino(ino)).expect("an inode");
                let is_dir = inode.core().is_dir();
                if what == "dir" && !is_dir {
                    continue;
                }
                let dump = inspect(&volume, format!("{what} {ino}").parse().unwrap()).unwrap();
                let text = dump.to_string();
                let head = format!("{theirs} ");
                let mut blocks = text.split_inclusive('\n').peekable();
                while let Some(line) = blocks.next() {
                    let Some(block) = line.trim_end().strip_prefix(&head) else { continue };
                    let mut ours = String::new();
                    while let Some(next) = blocks.next_if(|line| !line.starts_with(&head)) {
                        ours.push_str(next);
                    }
                    let commands = [format!("inode {ino}"), format!("{theirs} {block}")];
                    let expected = image.xfs_db(&[&commands[0], &commands[1]]);
                    let (mut ours, mut expected) = (comparable(&ours), comparable(&expected));
                    if !volume.geo().v5() {
                        // xfs_db does not show the type byte of version 4's data blocks.
                        ours.retain(|line| !line.contains("].filetype = "));
                        expected.retain(|line| !line.contains("].filetype = "));
                    }
                    if ours.first().is_some_and(|line| line.starts_with("0000: ")) {
                        assert!(
                            !volume.geo().v5(),
                            "{name}, {what} {ino}, block {block}: no magic"
                        );
                        continue; // A remote value of version 4: raw bytes.
                    }
                    for (a, b) in ours.iter().zip(&expected) {
                        assert_eq!(a, b, "{name}, {what} {ino}, block {block}");
                    }
                    assert_eq!(ours.len(), expected.len(), "{name}, {what} {ino}, block {block}");
                }
            }
        }
    }
}
