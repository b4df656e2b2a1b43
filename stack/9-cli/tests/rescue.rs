//! `xfskit undelete` and `xfskit repair --salvage`: what a user sees.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use xfskit_test_support::need::{Need, needs};
use xfskit_test_support::{Image, Mount, Scratch, Xfsprogs};

use super::common::{Bench, damage, damage_inode, expect, inode_at, json, objects, shown};

/// A volume with two files in a directory, of which the first was removed.
fn with_a_removed_file(bench: &Bench, content: &[u8]) -> String {
    let image = shown(&bench.path("image"));
    expect(0, &["mkfs", "--size", "300M", &image]);
    expect(0, &["mkdir", &image, "/dir"]);
    let file = shown(&bench.file("content", content));
    expect(0, &["put", &image, &file, "/dir/one"]);
    expect(0, &["put", &image, &file, "/dir/two"]);
    expect(0, &["rm", &image, "/dir/one"]);
    image
}

#[test]
fn a_removed_file_is_listed_and_copied_out() {
    let bench = Bench::new();
    let content: Vec<u8> = (0..70_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let image = with_a_removed_file(&bench, &content);
    let listed = expect(0, &["undelete", &image]).stdout;
    assert!(listed.contains("good") && listed.contains("/dir/one"), "{listed}");
    let line = &json(&["undelete", "--json", &image, "one"])[0];
    assert_eq!((&line["confidence"], &line["size"]), (&"good".into(), &70_000.into()));
    let none = expect(1, &["undelete", &image, "*.jpg"]);
    assert!(none.stdout.is_empty() && none.stderr.contains("found: 1;"), "{}", none.stderr);
    for path in ["/dir/*", "dir/o*", "*/one"] {
        assert!(expect(0, &["undelete", &image, path]).stdout.contains("/dir/one"), "{path}");
    }
    let to = bench.path("to");
    expect(0, &["undelete", &image, "--to", &shown(&to)]);
    assert!(fs::read(to.join("dir/one")).unwrap() == content);
    // A second time nothing is replaced.
    fs::write(to.join("dir/one"), "mine").unwrap();
    expect(0, &["undelete", &image, "--to", &shown(&to)]);
    assert_eq!(fs::read(to.join("dir/one")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(to.join("dir")).unwrap().count(), 2);

    let file = shown(&bench.path("content"));
    let wrong = expect(2, &["undelete", &image, "--to", &file]);
    assert!(wrong.stderr.contains("not a directory"), "{}", wrong.stderr);
    let wrong = expect(2, &["undelete", &image, "["]);
    assert!(wrong.stderr.contains("glob"), "{}", wrong.stderr);
    let wrong = expect(2, &["undelete", &shown(&bench.kept("v4"))]);
    assert!(wrong.stderr.contains('4'), "{}", wrong.stderr);
}

#[test]
fn a_damaged_volume_is_copied_out_with_a_report() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    let image = shown(&path);
    let archive = expect(0, &["repair", "--salvage", "-", &image]);
    assert!(archive.bytes.len() > 10_240 && archive.bytes.len().is_multiple_of(512));
    let (ino, offset) = inode_at(&path, "/leaf");
    damage(&path, offset, &[0xa5; 256]);
    let part = shown(&bench.path("part"));
    let report = expect(1, &["repair", "--salvage", &part, &image]);
    assert!(report.stdout.contains("/leaf"), "{}", report.stdout);
    let other = shown(&bench.path("other"));
    let report = &objects(&expect(1, &["repair", "--json", "--salvage", &other, &image]))[0];
    assert_eq!(report["damages"][0]["inode"], ino, "{report}");
    expect(1, &["repair", "--salvage", "-", &image]);

    let taken = expect(2, &["repair", "--salvage", &part, &image]);
    assert!(taken.stderr.contains("not an empty directory"), "{}", taken.stderr);
    let both = expect(2, &["repair", "--json", "--salvage", "-", &image]);
    assert!(both.stdout.contains("cannot share") || both.stderr.contains("cannot share"));
    expect(2, &["repair", "-n", "--salvage", &part, &image]);
}

#[test]
fn rescued_files_are_not_written_to_the_volume_that_they_are_searched_on() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("cli-rescue");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    let target = shown(image.path());
    expect(0, &["mkfs", "--force", &target]);
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    let on_it = shown(&mount.path().join("new/dir"));
    for words in [
        vec!["undelete", &*target, "--to", &*on_it],
        vec!["repair", "--salvage", &*on_it, &*target],
    ] {
        let refused = expect(2, &words);
        assert!(refused.stderr.contains("another filesystem"), "{}", refused.stderr);
    }
    assert!(!mount.path().join("new").exists());
    mount.unmount().expect("unmount");
}

/// Files of the directory: their inodes need an inode btree of more than one block.
const FILES: u64 = 10_000;
/// Bytes of a block of the volume.
const BLOCK: u64 = 1024;
/// Where the keys and the pointers of a node begin.
const KEYS: u64 = 56;
const POINTERS: u64 = KEYS + 4 * ((BLOCK - KEYS) / 8);

fn number(image: &Path, at: u64) -> u64 {
    let mut word = [0; 4];
    File::open(image).unwrap().read_exact_at(&mut word, at).unwrap();
    u32::from_be_bytes(word).into()
}

/// Makes a volume of many files in one directory, of which no name can be read. Returns the place
/// of the root of its inode btree, a node of level 1.
fn with_unnamed_files(bench: &Bench, scratch: &Scratch) -> u64 {
    let tree = bench.path("tree");
    fs::create_dir_all(tree.join("dir")).unwrap();
    (0..FILES).for_each(|n| fs::write(tree.join(format!("dir/{n}")), []).unwrap());
    let path = scratch.path().join("image");
    let image = shown(&path);
    let from = shown(&tree);
    expect(
        0,
        &["mkfs", "--size", "300M", "-b", "size=1k", "-d", "agcount=1", &image, "--from", &from],
    );
    damage_inode(&path, "/dir");
    // The AGI is the third sector.
    assert_eq!(number(&path, 1024 + 24), 2, "levels of the inode btree");
    number(&path, 1024 + 20) * BLOCK
}

/// Returns the files that a salvage of `image` finds, and its report.
fn salvaged(bench: &Bench, image: &str, to: &str) -> (u64, String) {
    let to = bench.path(to);
    let report = expect(1, &["repair", "--salvage", &shown(&to), image]).stdout;
    let found = fs::read_dir(to.join("lost+found")).map_or(0, Iterator::count);
    (found as u64, report)
}

#[test]
fn salvage_goes_on_beside_a_damaged_block_of_an_inode_btree() {
    let (bench, scratch) = (Bench::new(), Scratch::new("cli-salvage-inobt"));
    let root = with_unnamed_files(&bench, &scratch);
    let path = scratch.path().join("image");
    let leaves = number(&path, root + 4) & 0xffff;
    assert!(leaves >= 3, "{leaves} leaves");
    let leaf = number(&path, root + POINTERS + 4) * BLOCK;
    let in_leaf = (number(&path, leaf + 4) & 0xffff) * 64;
    damage(&path, leaf, b"XX");
    let (found, report) = salvaged(&bench, &shown(&path), "leaf");
    assert!(report.contains("group 0"), "{report}");
    assert!(found + in_leaf >= FILES && found < FILES, "{found} found, {in_leaf} lost");
    damage(&path, leaf, b"IA");
    // A pointer of the root is lost: the leaves below it are siblings of the first.
    if !needs(&[Need::Xfsprogs]) {
        return;
    }
    let root = root / BLOCK;
    let lose = [format!("fsblock {root}"), "type inobt".into(), "write -d ptrs[2] 0".into()];
    let lose: Vec<&str> = lose.iter().map(String::as_str).collect();
    let image = Image::existing(&scratch, "image");
    Xfsprogs::installed().unwrap().db(&image, true, &lose).unwrap();
    let (found, report) = salvaged(&bench, &shown(&path), "siblings");
    assert!(report.contains("group 0"), "{report}");
    assert_eq!(found, FILES, "{report}");
}

#[test]
fn two_copies_do_not_go_into_one_directory_at_once() {
    let bench = Bench::new();
    let (image, to) = (shown(&bench.kept("v5-metadir-tree")), bench.path("to"));
    std::fs::create_dir(&to).unwrap();
    for args in
        [&["repair", "--salvage", &shown(&to), &image][..], &["get", &image, "/", &shown(&to)]]
    {
        // As the other copy holds it.
        let mut command = std::process::Command::new("flock");
        command.arg("-x").arg(&to).arg(env!("CARGO_BIN_EXE_xfskit")).args(args);
        let run = command.output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(2), "{said}");
        assert!(said.contains("is under way") && said.contains("another directory"), "{said}");
        assert!(std::fs::read_dir(&to).unwrap().next().is_none(), "written");
    }
    expect(0, &["repair", "--salvage", &shown(&to), &image]);
}

#[test]
fn a_salvage_that_cannot_be_written_says_what_to_do() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let to = shown(&bench.path("no/such/dir"));
    let said = expect(2, &["repair", "--salvage", &to, &image]).stderr;
    assert!(said.contains("Make the directory that is to hold it first."), "{said}");
    let script = format!(
        "'{}' repair --salvage - '{image}' | true; exit ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_xfskit")
    );
    let run = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(said.contains("closed the pipe"), "{said}");
}
