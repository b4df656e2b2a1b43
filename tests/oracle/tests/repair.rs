//! Damaged files of volumes that the kernel has filled: Linux sees the same tree after the repair,
//! but what the plan has as lost.

use std::fs;

use xfskit::{AcceptLoss, PreparedRepair, Repair};
use xfskit_test_support::manifest::Manifest;
use xfskit_test_support::{Image, Need, Scratch, matrix, needs, ours, tools, verify};

const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;

volumes! {
    default_is_repaired: "default",
    block_1k_is_repaired: "block-1k",
    bare_is_repaired: "bare",
    dir_block_16k_is_repaired: "dir-block-16k",
    nrext64_is_repaired: "nrext64",
    parent_is_repaired: "parent",
}

/// Bytes of a directory before its hash table.
const DIRECTORY_DATA: u64 = 32 << 30;
/// Every so many inodes of a kind are damaged.
const EVERY: usize = 3;

/// Damages a volume in two ways, repairs it, and compares the trees.
fn verify_volume(name: &str) {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("repair-files");
    let case = matrix::named(name);
    let Some(image) = case.filled(&scratch) else { return };
    let tree = verify::shown(&image, &scratch).expect("the tree");
    let tools = case.repair_tools().into_iter().next().expect("xfsprogs");
    let whole = fs::read(image.path()).expect("the image");

    tools.db(&image, true, &words(&without_loss(&tree, &image))).expect("damage");
    let repaired = repair(&image, AcceptLoss::NONE);
    assert!(repaired.plan().steps.len() > 5, "{name}: {:#?}", repaired.plan().steps);
    drop(repaired);
    let after = verify::shown(&image, &scratch).expect("the tree");
    let same = |manifest: &Manifest| {
        let mut manifest = manifest.clone().without_blocks();
        // A directory that is made again is packed.
        let directories = manifest.entries.values_mut().filter(|e| e.mode & S_IFMT == S_IFDIR);
        directories.for_each(|entry| entry.size = 0);
        manifest
    };
    same(&tree).assert_same(&same(&after), name);
    verify_written(&image, &scratch, &case);

    fs::write(image.path(), &whole).expect("the image");
    // The journal has much of what is damaged now.
    let mut zero_log = tools.command("xfs_repair");
    tools::run(zero_log.arg("-L").arg(image.path())).expect("a zeroed journal");
    let lost = with_loss(&tree);
    tools.db(&image, true, &words(&lost.commands)).expect("damage");
    let refused = prepare(&image, AcceptLoss::NONE);
    assert!(refused.is_clean() && refused.loses_too_much(), "{name}: {:?}", refused.left());
    let damaged = fs::read(image.path()).expect("the image");
    assert!(refused.commit(None).is_err());
    drop(refused);
    assert!(fs::read(image.path()).expect("the image") == damaged, "{name}: written");
    drop(repair(&image, AcceptLoss::ALL));
    let after = verify::shown(&image, &scratch).expect("the tree");
    for (path, entry) in &tree.entries {
        if lost.inodes.contains(&entry.ino) || entry.mode & S_IFMT == S_IFDIR {
            continue;
        }
        let found = after.entries.get(path).expect("a file that the damage did not touch");
        assert_eq!((found.ino, found.digest), (entry.ino, entry.digest), "{name}");
    }
    verify_written(&image, &scratch, &case);
}

fn prepare(image: &Image, accepted: AcceptLoss) -> PreparedRepair {
    Repair::new().accept_loss(accepted).prepare(image.path()).expect("a plan")
}

fn repair(image: &Image, accepted: AcceptLoss) -> PreparedRepair {
    let prepared = prepare(image, accepted);
    assert!(prepared.is_clean(), "{:#?}\n{:#?}", prepared.left(), prepared.plan());
    assert!(!prepared.loses_too_much(), "{:#?}", prepared.plan().losses().collect::<Vec<_>>());
    prepared.commit(None).expect("written");
    prepared
}

/// Verifies a repaired volume, and again after Linux has written to it.
fn verify_written(image: &Image, scratch: &Scratch, case: &matrix::Case) {
    verify::volume(image, scratch).expect("sound");
    let Some(mount) = case.mount(image, scratch, "") else { return };
    for n in 0..200 {
        fs::write(mount.path().join(format!("after-{n}")), vec![7; n * 100]).expect("written");
    }
    for n in (0..200).step_by(2) {
        fs::remove_file(mount.path().join(format!("after-{n}"))).expect("removed");
    }
    mount.unmount().expect("unmount");
    verify::volume(image, scratch).expect("sound after changes");
}

/// Returns the first of every few inodes that `is` chooses, once each.
fn inodes(tree: &Manifest, is: impl Fn(u32, u64) -> bool) -> Vec<u64> {
    let chosen = tree.entries.values().filter(|entry| is(entry.mode & S_IFMT, entry.size));
    let mut inodes: Vec<u64> = chosen.map(|entry| entry.ino).collect();
    inodes.sort_unstable();
    inodes.dedup();
    inodes.into_iter().step_by(EVERY).collect()
}

fn words(commands: &[String]) -> Vec<&str> {
    commands.iter().map(String::as_str).collect()
}

/// Returns commands of xfs_db that damage what the rest of the volume tells.
fn without_loss(tree: &Manifest, image: &Image) -> Vec<String> {
    let geo = ours::open(image).geo().clone();
    let dir_block = geo.dirblksize() as u64;
    let hashes = DIRECTORY_DATA / geo.blocksize() as u64;
    let mut commands = Vec::new();
    // The hash tables of directories: leaf, or root of a tree.
    for ino in inodes(tree, |kind, size| kind == S_IFDIR && size > dir_block) {
        commands.push(format!("inode {ino}"));
        commands.push(format!("dblock {hashes}"));
        commands.push("blocktrash -z -o 0 -3 -x 4096 -y 4096 -s 5".into());
    }
    for (field, kind) in
        [("core.format", S_IFREG), ("core.onlink", S_IFREG), ("core.flags", S_IFLNK)]
    {
        for ino in inodes(tree, |found, _| found == kind) {
            commands.push(format!("inode {ino}"));
            commands.push(format!("fuzz -d {field} ones"));
        }
    }
    for ino in inodes(tree, |kind, size| kind == S_IFDIR && size < 100) {
        commands.push(format!("inode {ino}"));
        commands.push("fuzz -d core.version ones".into());
        commands.push("fuzz -d core.nblocks ones".into());
    }
    commands
}

/// Damage with losses.
struct Lost {
    commands: Vec<String>,
    inodes: Vec<u64>,
}

fn with_loss(tree: &Manifest) -> Lost {
    let (mut commands, mut lost) = (Vec::new(), Vec::new());
    for ino in inodes(tree, |kind, _| kind == S_IFREG) {
        commands.push(format!("inode {ino}"));
        // Nothing of the inode is left.
        commands.push("blocktrash -z -o 0 -3 -x 2048 -y 2048 -s 7".into());
        lost.push(ino);
    }
    Lost { commands, inodes: lost }
}
