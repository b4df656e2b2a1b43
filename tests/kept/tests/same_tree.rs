//! `tests/images/make.sh` fills every image with the same tree. The library must show that tree
//! whatever the version, the block size, the features, and the state of the journal.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use xfskit::VolumeOptions;
use xfskit::raw::block::{BlockDevice, MemDevice, OverlayDevice};
use xfskit::raw::units::{ByteLen, ByteOffset};
use xfskit::raw::{VolumeExt as _, VolumeOptionsExt as _, stat};
use xfskit_test_support::kept::{device, unpack};

/// One line for each path of the recipe: type, permissions, owner, links, size or device, target or
/// content, attributes.
type Tree = BTreeMap<String, String>;

fn tree(volume: &xfskit::Volume) -> Tree {
    let mut tree = Tree::new();
    for step in volume.walk_dir("/").expect("the root") {
        let path = step.expect("a sound volume").into_path();
        let path = path.to_str().expect("the recipe's names are ASCII").to_owned();
        tree.insert(path.clone(), describe(volume, &path));
    }
    tree
}

fn describe(volume: &xfskit::Volume, path: &str) -> String {
    let metadata = volume.symlink_metadata(path).expect(path);
    let stat = stat(&metadata);
    let kind = format!("{:?}", stat.file_type);
    let is_dir = kind == "Directory";
    // The size of a directory depends on its form and the volume's block size.
    let size = if is_dir { 0 } else { stat.size };
    let what = match kind.as_str() {
        "Symlink" => format!("{:x?}", volume.read_link(path).expect(path).as_os_str().as_bytes()),
        "Regular" => format!("{:x}", sum(&volume.read(path).expect(path))),
        _ => format!("{:?}", stat.rdev),
    };
    let mut attributes: Vec<String> = volume
        .list_xattrs_nofollow(path)
        .expect(path)
        .map(|xattr| xattr.expect(path))
        .filter(|xattr| !xattr.name().as_bytes().starts_with(b"system."))
        .map(|xattr| format!("{}={:x}", xattr.name().display(), sum(xattr.value())))
        .collect();
    attributes.sort();
    let (mode, uid, gid, links) = (stat.mode, stat.uid, stat.gid, stat.nlink);
    format!("{kind} {mode:o} {uid}:{gid} {links} {size} {what} {}", attributes.join(","))
}

/// FNV-1a, sufficient to tell contents apart.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn open(name: &str) -> xfskit::Volume {
    VolumeOptions::new().open_device(device(name), None).expect(name)
}

/// Verifies the parts of the recipe that take one line each, as the script has them.
fn assert_recipe(name: &str, tree: &Tree) {
    let has = |path: &str, part: &str| {
        let line = tree.get(path).unwrap_or_else(|| panic!("{name}: {path} is missing"));
        assert!(line.contains(part), "{name}: {path} is {line}, expected {part}");
    };
    has("/char", "CharDevice 20644 0:0 1 0 Some((5, 300))");
    has("/block-device", "BlockDevice 60644 0:0 1 0 Some((8, 1))");
    has("/fifo", "Fifo 10644 0:0 1");
    has("/symlink", &format!("{:x?}", b"short"));
    has("/symlink-remote", &format!("{:x?}", "x".repeat(900).as_bytes()));
    has("/block", "Directory 40755 1000:100 2");
    has("/attr-sf", &format!("user.k={:x}", sum(b"v")));
    has("/attr-sf", "Regular 104755 ");
    has("/attr-sf", &format!("trusted.t={:x}", sum(b"w")));
    has("/attr-remote", &format!("user.big={:x}", sum("r".repeat(10_000).as_bytes())));
    has(
        "/attr-node",
        &format!("user.name300={:x}", sum(format!("value-300-{}", "w".repeat(40)).as_bytes())),
    );
    has("/sf/a", " 201 ");
    has("/unwritten", &format!(" 262144 {:x}", sum(&vec![0; 262_144])));
    if !name.ends_with("dirty") {
        has("/sf/a", &format!(" 201 6 {:x}", sum(b"hello\n")));
        // Data that was still in the page cache at the shutdown is not on the volume.
        let mut hole = vec![0; 1 << 20];
        hole.extend(b"end\n");
        has("/hole", &format!(" 1048580 {:x}", sum(&hole)));
    }
    let count = |below: &str| tree.keys().filter(|path| path.starts_with(below)).count();
    assert_eq!(count("/block/"), 40, "{name}");
    assert_eq!(count("/leaf/"), 200, "{name}: 300 links, 100 to 199 removed");
    assert_eq!(count("/node/"), 1400, "{name}: 1500 links, 700 to 799 removed");
}

#[test]
fn every_kept_image_shows_the_tree_of_the_recipe() {
    let reference = tree(&open("v5"));
    for name in ["v5-1k", "v5-plain", "v4", "v4-old"] {
        let mut tree = tree(&open(name));
        let mut expected = reference.clone();
        if name != "v5-1k" {
            // Without reflink the clone is empty or was not made.
            tree.remove("/clone");
            expected.remove("/clone");
        }
        without_acl_mode(&mut tree);
        without_acl_mode(&mut expected);
        for (path, line) in &expected {
            assert_eq!(tree.get(path), Some(line), "{name}: {path}");
        }
        assert_eq!(tree.len(), expected.len(), "{name}");
    }
}

/// Removes ACLs, which show in the group permissions: the guest that filled version 4 had no tool
/// for them.
fn without_acl_mode(tree: &mut Tree) {
    for line in tree.values_mut() {
        *line = line.replace("Regular 100664 ", "Regular 100644 ");
    }
}

#[test]
fn every_line_of_the_recipe_holds() {
    for name in ["v5", "v5-1k", "v5-plain", "v4", "v4-old", "v5-dirty", "v4-dirty"] {
        assert_recipe(name, &tree(&open(name)));
    }
}

#[test]
fn a_dirty_journal_is_replayed_without_a_write() {
    for name in ["v5-dirty", "v4-dirty"] {
        let device = Arc::new(OverlayDevice::new(device(name)));
        let options = VolumeOptions::new();
        let volume = options.open_device(Arc::<OverlayDevice>::clone(&device), None).expect(name);
        assert!(volume.fs().volume().replay().is_some_and(|replay| !replay.clean), "{name}");
        assert_eq!(tree(&volume).len(), tree(&volume).len(), "{name}");
        assert!(device.changed_ranges().is_empty(), "{name}: the device was written to");

        let options = options.recovery(false);
        let bare = options.open_device(device, None).expect(name);
        let missing = bare.walk_dir("/").expect("the root").count();
        assert!(
            missing < tree(&volume).len(),
            "{name}: without recovery the tree is not there yet"
        );
    }
}

#[test]
fn the_remaining_part_of_a_truncated_image_is_readable() {
    let bytes = unpack("v5");
    let cut = MemDevice::new(ByteLen(40 << 20));
    cut.write_at(ByteOffset(0), &bytes[..40 << 20]).expect("memory");
    let volume = VolumeOptions::new().open_device(Arc::new(cut), None).expect("opened");
    let faults = volume.fs().volume().faults();
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].check.0, "sb.device-size");
    let (mut there, mut lost) = (0, 0);
    for step in volume.walk_dir("/").expect("the root lies in the first group") {
        if step.is_ok() {
            there += 1;
        } else {
            lost += 1;
        }
    }
    assert!(there > 50 && lost > 0, "{there} files are there, {lost} are lost");
    assert_eq!(volume.read("/sf/a").expect("it lies in the first group"), b"hello\n");
}
