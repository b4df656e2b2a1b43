//! Names of entries that were removed, for inodes that lost the other one.

use xfskit_format::Fork;
use xfskit_test_support::kept;
use xfskit_units::Ino;
use xfskit_vfs::NewNode;

use crate::common::{Block, damage};
use crate::unclaimed::{Volume, repaired};

/// Makes a directory of 40 files, of which one has the name `now` and had those of `before`.
/// Returns the volume, the directory, and the file.
fn renamed(before: &[&str], now: &str) -> (Volume, Ino, Ino) {
    let (mut dir, mut ino) = (Ino(0), Ino(0));
    let volume = Volume::changed(&kept::unpack("v5-plain"), |fs| {
        let root = fs.root().unwrap().ino();
        dir = fs.make(root, b"dir", &NewNode::directory(0o755)).unwrap();
        ino = fs.make(dir, now.as_bytes(), &NewNode::file(0o644)).unwrap();
        for name in before {
            fs.link(ino, dir, name.as_bytes()).unwrap();
            fs.make(dir, format!("behind-{name}").as_bytes(), &NewNode::file(0o644)).unwrap();
        }
        for n in 0..40 {
            fs.make(dir, format!("file-{n}").as_bytes(), &NewNode::file(0o644)).unwrap();
        }
        for name in before {
            fs.unlink(dir, name.as_bytes()).unwrap();
        }
    });
    (volume, dir, ino)
}

/// Overwrites the entry of the file with zeroes, in the data block of its directory and in the hash
/// table there.
fn without_entry(volume: &Volume, name: &str) -> Vec<u8> {
    let block = volume.blocks("/dir", Fork::Data)[0];
    let bytes = &volume.image.bytes[block.offset..block.offset + block.len];
    let at = bytes.windows(name.len()).position(|part| part == name.as_bytes()).unwrap();
    let len = (name.len() + 12).next_multiple_of(8);
    volume.damaged(|dev| {
        damage(dev, Block { crc: Some(4), ..block }, |bytes| bytes[at - 9..at - 9 + len].fill(0));
    })
}

#[test]
fn an_inode_without_a_name_gets_the_one_that_was_removed() {
    let (volume, dir, ino) = renamed(&["older"], "newer");
    let (plan, after) = repaired("one name", &without_entry(&volume, "newer"));
    assert_eq!(plan.losses().count(), 0, "{plan:#?}");
    let step = plan.step(&format!("orphan.{ino}")).unwrap();
    assert_eq!(step.what, format!("put inode {ino} back as \"older\" of directory {dir}"));
    assert!(step.evidence.contains(&format!("dead entry in directory {dir} block 0")), "{step}");
    assert_eq!(after.entries[&b"/dir/older"[..]].ino, ino.0);
    assert_eq!(after.entries.len(), volume.tree.entries.len());
}

#[test]
fn an_inode_with_two_removed_names_gets_neither() {
    let (volume, _, ino) = renamed(&["older", "oldest"], "newer");
    let (plan, after) = repaired("two names", &without_entry(&volume, "newer"));
    let step = plan.step(&format!("orphan.{ino}")).unwrap();
    assert!(step.what.starts_with(&format!("name inode {ino} lost+found/file.{ino}.")), "{step}");
    assert!(!after.entries.contains_key(&b"/dir/older"[..]));
}

#[test]
fn a_removed_name_of_an_inode_that_is_free_stays_removed() {
    let mut gone = Ino(0);
    let volume = Volume::changed(&kept::unpack("v5-plain"), |fs| {
        let root = fs.root().unwrap().ino();
        let dir = fs.make(root, b"dir", &NewNode::directory(0o755)).unwrap();
        for n in 0..40 {
            fs.make(dir, format!("file-{n}").as_bytes(), &NewNode::file(0o644)).unwrap();
        }
        gone = fs.lookup(&fs.inode(dir).unwrap(), b"file-7").unwrap().unwrap();
        fs.unlink(dir, b"file-7").unwrap();
    });
    let (plan, after) = repaired("removed", &without_entry(&volume, "file-9"));
    assert!(plan.step(&format!("orphan.{gone}")).is_none(), "{plan:#?}");
    assert!(!after.entries.contains_key(&b"/dir/file-7"[..]));
    assert!(plan.steps.iter().any(|step| step.what.contains("lost+found/file.")), "{plan:#?}");
}
