//! Real trees: this machine's `/usr` on a volume, as xfskit shows it. `make test` takes a part,
//! `XFSKIT_LONG=1` all of it, over 100,000 files.

use std::path::Path;
use std::process::Command;

use xfskit_test_support::tools::run;
use xfskit_test_support::trees::{self, directories, fresh};
use xfskit_test_support::{
    Image, Mount, Need, Scratch, Xfsprogs, kernel, long, matrix, needs, ours,
};

/// Checks that xfskit and Linux show the same tree, and that no tool reports a finding.
fn verify_volume(image: &Image, scratch: &Scratch, at_least: usize) {
    let mount = Mount::read_only(image, scratch).expect("mount");
    let linux = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    assert!(linux.entries.len() >= at_least, "{} entries", linux.entries.len());
    let differences = ours::differences(image, &linux);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let lookups = ours::lookups(image, &linux);
    assert!(lookups.is_empty(), "{}", lookups.join("\n"));
    let report = ours::check(image);
    assert!(report.errors.is_empty(), "check of a clean volume: {report:#?}");
}

#[test]
fn the_tree_of_this_machine_is_read_as_written() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let (parts, at_least): (&[&str], usize) = if long() {
        (&["/usr", "/etc"], 50_000)
    } else {
        (&["/usr/share/doc", "/usr/bin", "/etc"], 1000)
    };
    let scratch = if long() { Scratch::on_disk("usr") } else { Scratch::new("usr") };
    let image = Image::sparse(&scratch, "usr.img", 40 << 30);
    Xfsprogs::installed().expect("needed").mkfs(&image, &[]).expect("mkfs");
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    for part in parts.iter().filter(|part| Path::new(part).is_dir()) {
        run(Command::new("cp").args(["-ax", "--sparse=auto", part]).arg(mount.path()))
            .expect("cp -a");
    }
    mount.unmount().expect("unmount");
    verify_volume(&image, &scratch, at_least);
}

#[test]
fn many_inodes_and_many_shared_extents_are_read_as_written() {
    if !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    for name in ["block-1k", "parent"] {
        let case = matrix::named(name);
        let scratch = Scratch::new("tall");
        let Some(image) = case.make(&scratch) else { continue };
        let Some(mount) = case.mount(&image, &scratch, "") else { continue };
        trees::tall_groups(mount.path(), &case.shape).expect("the kernel makes tall trees");
        mount.unmount().expect("unmount");
        verify_volume(&image, &scratch, 5000);
    }
}

/// xfs_repair 6.1 reports a hash that continues in the next leaf as corruption; Linux and xfskit do
/// not.
#[test]
fn more_names_of_one_hash_than_a_leaf_holds_are_read_as_written() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for name in ["default", "block-1k"] {
        let case = matrix::named(name);
        let scratch = Scratch::new("hashes");
        let Some(image) = case.make(&scratch) else { continue };
        let Some(mount) = case.mount(&image, &scratch, "") else { continue };
        for count in [600, 1200, 4000] {
            let dir = fresh(mount.path(), &count.to_string()).expect("mkdir");
            directories::links_of_one_hash(&dir, count).expect("links");
        }
        mount.unmount().expect("unmount");
        verify_volume(&image, &scratch, 5000);
    }
}

/// Where no space is left for a whole chunk of inodes, Linux allocates sparse chunks.
#[test]
fn sparse_inode_chunks_are_read_as_written() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for options in ["", "-b size=1024", "-i size=1024"] {
        let scratch = Scratch::new("sparse");
        let image = Image::sparse(&scratch, "sparse.img", 400 << 20);
        let words: Vec<&str> = options.split_whitespace().collect();
        let tools = Xfsprogs::installed().expect("needed");
        tools.mkfs(&image, &words).expect("mkfs");
        let mount = Mount::read_write(&image, &scratch).expect("mount");
        trees::inodes::sparse_chunks(mount.path()).expect("a full volume");
        mount.unmount().expect("unmount");
        let holes = (0..4).any(|agno| {
            let group = format!("agi {agno}");
            let text = tools.db(&image, false, &[&group, "addr root", "p recs"]).expect("xfs_db");
            text.lines().any(|line| {
                // 1:[startino,holemask,count,freecount,free]
                line.split(',').nth(1).is_some_and(|mask| mask.starts_with("0x") || mask != "0")
                    && line.contains(":[")
            })
        });
        assert!(holes, "`{options}`: no sparse chunk was made");
        verify_volume(&image, &scratch, 500);
    }
}
