//! `xfskit repair` and `xfskit undo`.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use xfskit_test_support::{Need, needs, verify};

use crate::common::{
    Bench, begin, damage, expect, inode_at, interrupt, json, objects, shown, xfskit,
};

/// Overwrites AGF, AGI and AGFL of the first group.
fn lose_headers(image: &Path) {
    damage(image, 512, &[0x5a; 3 * 512]);
}

fn undo_file(image: &Path) -> PathBuf {
    PathBuf::from(format!("{}.undo", image.display()))
}

#[test]
fn a_volume_is_repaired_after_its_plan_and_the_repair_taken_back() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    let (image, tree) = (shown(&path), expect(0, &["ls", "-lR", &shown(&path), "/"]).bytes);
    lose_headers(&path);
    let damaged = fs::read(&path).unwrap();
    assert!(expect(1, &["check", &image]).stdout.contains("agf.magicnum"));

    let plan = expect(1, &["repair", "-n", &image]).stdout;
    assert!(plan.contains("group.0: make the btrees") && plan.contains("lost: nothing"), "{plan}");
    assert!(plan.contains("nothing was written"), "{plan}");
    let step = expect(0, &["repair", "--explain", "group.0", &image]).stdout;
    assert!(step.contains("[agf.magicnum]") && step.contains("[agi.magicnum]"), "{step}");
    let unknown = expect(2, &["repair", "--explain", "group.7", &image]).stderr;
    assert!(unknown.contains("group.0"), "{unknown}");
    assert!(fs::read(&path).unwrap() == damaged && !undo_file(&path).exists());

    let done = expect(0, &["repair", &image]).stdout;
    assert!(done.contains("repaired") && done.contains("xfskit undo"), "{done}");
    expect(0, &["check", &image]);
    verify::file(&path).expect("a sound volume");
    assert!(expect(0, &["ls", "-lR", &image, "/"]).bytes == tree);
    let again = expect(0, &["repair", &image]).stdout;
    assert!(again.contains("clean, nothing to repair"), "{again}");

    let undo = shown(&undo_file(&path));
    let undone = &json(&["undo", "--json", &undo, &image])[0];
    assert!(undone["bytes"].as_u64().unwrap() > 4096, "{undone}");
    assert!(fs::read(&path).unwrap() == damaged, "as before");

    // A second repair has an undo file of its own, or none.
    expect(0, &["repair", "-q", &image]);
    assert!(PathBuf::from(format!("{undo}.1")).exists());
    expect(0, &["undo", &format!("{undo}.1"), &image]);
    expect(0, &["repair", "--no-undo", &image]);
    assert!(!PathBuf::from(format!("{undo}.2")).exists());
    expect(0, &["check", &image]);
    // Linux writes to it, and the old undo file would destroy that.
    expect(0, &["mkdir", &image, "/later"]);
    let refused = expect(2, &["undo", &undo, &image]);
    assert!(refused.stderr.contains("changed since"), "{}", refused.stderr);
    assert!(expect(0, &["ls", &image, "/"]).stdout.contains("later"));
}

#[test]
fn losses_are_written_only_where_they_are_accepted() {
    let bench = Bench::new();
    // A journal without records has no copy of the root directory.
    let (tree, path) = (bench.path("tree"), bench.path("built.img"));
    let image = shown(&path);
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/file"), "content").unwrap();
    expect(0, &["mkfs", "-q", "--size", "64M", "--from", &shown(&tree), &image]);
    let (_, offset) = inode_at(&path, "/");
    damage(&path, offset, &[0xa5; 256]);
    let damaged = fs::read(&path).unwrap();
    let run = expect(1, &["repair", &image]);
    assert!(run.stdout.contains("make an empty root directory"), "{}", run.stdout);
    assert!(run.stdout.contains("1 losses, which are not accepted"), "{}", run.stdout);
    assert!(fs::read(&path).unwrap() == damaged && !undo_file(&path).exists());
    let report = objects(&expect(1, &["repair", "--json", &image])).pop().unwrap();
    assert!(report["clean"] == true && report["losses"] == 1, "{report}");
    assert_eq!(report["written_bytes"], 0, "{report}");
    expect(0, &["repair", "--accept-loss", "1", &image]);
    verify::file(&path).expect("a sound volume");
    assert!(!expect(0, &["ls", &image, "/lost+found"]).stdout.is_empty());
    expect(0, &["undo", &shown(&undo_file(&path)), &image]);
    assert!(fs::read(&path).unwrap() == damaged);
}

#[test]
fn a_lost_file_is_named_by_its_path_and_given_up_only_where_that_is_accepted() {
    let bench = Bench::new();
    let (tree, path) = (bench.path("tree"), bench.path("built.img"));
    let image = shown(&path);
    fs::create_dir_all(tree.join("sub/deeper")).unwrap();
    fs::write(tree.join("sub/deeper/file"), "content").unwrap();
    fs::write(tree.join("sub/deeper/other"), "other").unwrap();
    expect(0, &["mkfs", "-q", "--size", "64M", "--from", &shown(&tree), &image]);
    let (ino, offset) = inode_at(&path, "/sub/deeper/file");
    damage(&path, offset, &[0xa5; 512]);
    let damaged = fs::read(&path).unwrap();
    let id = format!("inode.{ino}");

    let plan = expect(1, &["repair", &image]).stdout;
    assert!(plan.contains(&format!("{id}: free inode {ino}")), "{plan}");
    assert!(plan.contains("\n  path: /sub/deeper/file\n"), "{plan}");
    let lost = format!("lost: inode {ino} (/sub/deeper/file) (\"file\" of directory ");
    assert!(plan.contains(&lost) && plan.contains(" (/sub/deeper))\n"), "{plan}");
    assert!(plan.contains("1 losses, which are not accepted"), "{plan}");
    assert!(fs::read(&path).unwrap() == damaged && !undo_file(&path).exists());
    let step = expect(0, &["repair", "--explain", &id, &image]).stdout;
    assert!(step.contains("path: /sub/deeper/file"), "{step}");
    let report = objects(&expect(1, &["repair", "-n", "--json", &image])).pop().unwrap();
    let steps = report["plan"]["steps"].as_array().unwrap();
    let of_file = steps.iter().find(|step| step["id"] == *id).unwrap();
    assert_eq!(of_file["path"], "/sub/deeper/file", "{report}");
    let of_dir = steps.iter().find(|step| step["kind"] == "directory").unwrap();
    assert_eq!(of_dir["path"], "/sub/deeper", "{report}");
    assert_eq!(report["unaccounted"]["files"], 0, "{report}");

    expect(0, &["repair", "--accept-loss", "1", &image]);
    verify::file(&path).expect("a sound volume");
    assert_eq!(expect(0, &["ls", &image, "/sub/deeper"]).stdout, "other\n");
    expect(0, &["undo", &shown(&undo_file(&path)), &image]);
    assert!(fs::read(&path).unwrap() == damaged);
}

#[test]
fn a_volume_that_is_not_repaired_yet_has_a_plan_of_which_nothing_is_made() {
    let bench = Bench::new();
    for (name, why) in [
        ("v4", "version 4 of the format"),
        ("v5-metadir", "metadata directories (metadir)"),
        ("v5-rt", "a realtime device"),
    ] {
        let path = bench.kept(name);
        let image = shown(&path);
        let clean = expect(0, &["repair", "-n", &image]).stdout;
        assert!(clean.contains("clean, nothing to repair"), "{clean}");
        let (ino, offset) = inode_at(&path, "/");
        // The AGF. The inode btrees are found by the AGI.
        damage(&path, 512, &[0x5a; 512]);
        // The size, which no checksum of version 4 covers.
        damage(&path, offset + 56, &[0x7f; 8]);
        let damaged = fs::read(&path).unwrap();
        let plan = expect(1, &["repair", "--dry-run", &image]).stdout;
        assert!(plan.contains("group.0: make the btrees"), "{plan}");
        assert!(plan.contains(&format!("inode.{ino}: repair inode {ino}")), "{plan}");
        assert!(plan.contains("\n  path: /\n"), "{plan}");
        let told = format!("not written yet for a volume with {why}");
        assert!(plan.contains(&told) && plan.contains("nothing was written"), "{plan}");
        let step = expect(0, &["repair", "--explain", "group.0", &image]).stdout;
        assert!(step.contains("[agf.magicnum]") && step.contains("not known"), "{step}");
        let report = objects(&expect(1, &["repair", "-n", "--json", &image])).pop().unwrap();
        assert_eq!(report["unsupported"], why, "{report}");
        assert!(report["plan"]["steps"].as_array().unwrap().is_empty(), "{report}");
        assert!(report["plan"]["unwritten"].as_array().unwrap().len() >= 2, "{report}");
        let run = expect(2, &["repair", "--accept-loss", "all", &image]);
        assert!(run.stderr.contains(why) && run.stdout.is_empty(), "{}", run.stderr);
        assert!(fs::read(&path).unwrap() == damaged && !undo_file(&path).exists());
    }
}

#[test]
fn a_volume_with_an_external_journal_has_a_plan() {
    let bench = Bench::new();
    let (path, log) = (bench.path("data.img"), bench.file("log.img", &[]));
    fs::File::options().write(true).open(&log).unwrap().set_len(64 << 20).unwrap();
    let image = shown(&path);
    let logdev = format!("logdev={}", shown(&log));
    expect(0, &["mkfs", "-q", "-l", &logdev, "--size", "300M", &image]);
    expect(0, &["repair", "-n", &image]);
    lose_headers(&path);
    let plan = expect(1, &["repair", "-n", &image]).stdout;
    assert!(plan.contains("group.0: ") && plan.contains("an external log"), "{plan}");
    assert!(expect(2, &["repair", &image]).stderr.contains("an external log"));
}

#[test]
fn what_cannot_be_repaired_is_refused_by_name() {
    let bench = Bench::new();
    for (name, why) in [("v4", "version 4"), ("v5-metadir", "metadir"), ("v5-rt", "realtime")] {
        let image = shown(&bench.kept(name));
        let run = expect(2, &["repair", &image]);
        assert!(run.stderr.contains(why) && run.stderr.contains("xfs_repair"), "{}", run.stderr);
    }
    let missing = expect(2, &["repair", &shown(&bench.path("missing"))]);
    assert!(missing.stderr.contains("No such file"), "{}", missing.stderr);
    let junk = shown(&bench.file("junk", &[7; 4096]));
    let run = expect(2, &["repair", &junk]);
    assert!(run.stderr.contains("not an XFS volume"), "{}", run.stderr);
    let image = shown(&bench.kept("v5"));
    let run = expect(2, &["undo", &junk, &image]);
    assert!(run.stderr.contains("no undo file"), "{}", run.stderr);
    let taken = shown(&bench.path("taken"));
    fs::write(&taken, "mine").unwrap();
    lose_headers(Path::new(&image));
    let run = expect(2, &["repair", "--undo-file", &taken, &image]);
    assert!(run.stderr.contains("taken") && run.stderr.contains("--no-undo"), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&taken).unwrap(), "mine");
    assert_eq!(expect(1, &["check", "-q", &image]).code, 1, "still damaged");
}

#[test]
fn a_dirty_journal_is_replayed_first() {
    let bench = Bench::new();
    let path = bench.kept("v5-dirty");
    let image = shown(&path);
    let plan = expect(1, &["repair", "-n", &image]).stdout;
    assert!(plan.contains("journal: replay the journal"), "{plan}");
    expect(0, &["repair", &image]);
    verify::file(&path).expect("a sound volume");
}

/// Returns the paths below a directory, with the content of files and the targets of links.
fn copied(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut due = vec![at.to_owned()];
    while let Some(dir) = due.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let (path, kind) = entry.map(|e| (e.path(), e.file_type().unwrap())).unwrap();
            let content = if kind.is_file() {
                fs::read(&path).unwrap()
            } else if kind.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                Vec::new()
            };
            found.insert(path.strip_prefix(at).unwrap().to_owned(), content);
            due.extend(kind.is_dir().then_some(path));
        }
    }
    found
}

/// Linux filled both volumes with the same tree: of version 4 there is no repair, but a copy.
#[test]
fn what_is_not_repaired_is_copied_out_whole() {
    let bench = Bench::new();
    let salvaged = |image: &Path, name: &str| {
        let to = bench.path(name);
        // Not each destination has room for all attributes, which is exit code 1.
        let run = xfskit(&["repair", "--salvage", &shown(&to), &shown(image)]);
        assert!(run.code < 2 && run.stdout.contains("copied"), "{}", run.stderr);
        (copied(&to), run.stdout)
    };
    let (mut v5, _) = salvaged(&bench.kept("v5-plain"), "of-v5");
    // Version 4 has no reflink: there is no copy that shares blocks.
    v5.remove(Path::new("clone"));
    let path = bench.kept("v4");
    let (v4, _) = salvaged(&path, "of-v4");
    assert!(v5.len() > 1000, "{}", v5.len());
    let same = |v4: &BTreeMap<PathBuf, Vec<u8>>| {
        assert_eq!(v4.keys().collect::<Vec<_>>(), v5.keys().collect::<Vec<_>>());
        assert!(v4.iter().all(|(path, content)| v5[path] == *content));
    };
    same(&v4);
    // The headers of the first group, and the primary superblock.
    lose_headers(&path);
    damage(&path, 0, &[0; 512]);
    let (v4, report) = salvaged(&path, "of-damaged");
    assert!(report.contains("superblock"), "{report}");
    same(&v4);
}

/// A volume with quota is repaired, and its quota inode is no loss; those with realtime devices or
/// metadata directories are read, whatever is lost of their groups.
#[test]
fn volumes_with_quota_and_other_features_have_a_plan_and_a_copy() {
    let bench = Bench::new();
    for (name, is_repaired) in [("v5-tall", true), ("v5-rt", false), ("v5-metadir", false)] {
        let path = bench.kept(name);
        let image = shown(&path);
        let before = bench.path(&format!("{name}-before"));
        expect(0, &["repair", "--salvage", &shown(&before), &image]);
        lose_headers(&path);
        let plan = expect(1, &["repair", "--dry-run", &image]).stdout;
        assert!(plan.contains("group.0: "), "{plan}");
        let after = bench.path(&format!("{name}-after"));
        let run = expect(1, &["repair", "--salvage", &shown(&after), &image]);
        assert!(run.stdout.contains("group 0"), "{}", run.stdout);
        assert!(copied(&before) == copied(&after), "{name}");
        if is_repaired {
            assert!(copied(&before).len() > 4000);
            expect(0, &["repair", &image]);
            verify::file(&path).expect("a sound volume");
        } else {
            expect(2, &["repair", &image]);
        }
    }
}

/// Runs `xfskit` where no file may be longer than so many KiB.
fn limited(kib: u32, args: &[&str]) -> (Option<i32>, String) {
    let script = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_xfskit")]).args(args);
    let run = command.output().unwrap();
    (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
}

#[test]
fn an_undo_file_without_room_is_removed_and_nothing_is_written() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    lose_headers(&path);
    let damaged = fs::read(&path).unwrap();
    let other = bench.path("elsewhere");
    for args in
        [&["repair", &shown(&path)][..], &["repair", "--undo-file", &shown(&other), &shown(&path)]]
    {
        let (code, said) = limited(4, args);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("the undo file ") && said.contains("File too large"), "{said}");
        assert!(said.contains("Nothing was written. --undo-file names another place"), "{said}");
        assert!(fs::read(&path).unwrap() == damaged, "written");
        assert!(!undo_file(&path).exists() && !other.exists(), "{said}");
    }
}

#[test]
fn an_undo_file_that_cannot_be_made_is_told_before_the_survey() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    let taken = bench.file("taken", b"content");
    for (file, why) in [
        (shown(&taken), "it exists already"),
        (shown(&bench.path("no/such/dir")), "there is no such directory"),
        (format!("{}/undo", shown(&taken)), "there is no such directory"),
    ] {
        // The volume is sound: the survey would find nothing to write.
        let run = expect(2, &["repair", "--undo-file", &file, &shown(&path)]);
        assert!(run.stderr.contains(why) && run.stderr.contains("Nothing was"), "{}", run.stderr);
    }
    assert_eq!(fs::read(&taken).unwrap(), b"content");
    let dir = shown(bench.path("dir").parent().unwrap());
    for target in [&dir[..], "/dev/null"] {
        let run = expect(2, &["repair", target]);
        assert!(run.stderr.contains("neither a file nor a block device"), "{}", run.stderr);
    }
}

#[test]
fn undo_says_which_file_and_which_target_it_needs() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    let image = shown(&path);
    lose_headers(&path);
    expect(0, &["repair", "-q", &image]);
    let repaired = fs::read(&path).unwrap();
    let undo = shown(&undo_file(&path));
    let short = bench.file("short", &repaired[..1 << 20]);
    let empty = bench.file("empty", b"");
    let cut = bench.file("cut", &fs::read(&undo).unwrap()[..3000]);
    let dir = shown(bench.path("dir").parent().unwrap());
    for (file, target, why) in [
        (&shown(&empty), &image, "it is no undo file"),
        (&image, &image, "it is no undo file"),
        (&shown(&cut), &image, "the repair had not begun to write"),
        (&dir, &image, "Is a directory"),
        (&shown(&bench.path("nothing")), &image, "No such file or directory"),
        (&undo, &shown(&short), "and this one has 1048576"),
        (&undo, &shown(&empty), "and this one has 0"),
    ] {
        let said = expect(2, &["undo", file, target]).stderr;
        assert!(said.contains(why) && said.contains("Nothing was written. Name the"), "{said}");
    }
    assert!(fs::read(&path).unwrap() == repaired, "written");
    expect(0, &["undo", &undo, &image]);
}

#[test]
fn a_plan_needs_no_permission_to_write() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let bench = Bench::new();
    let path = bench.kept("v5");
    lose_headers(&path);
    let before = fs::read(&path).unwrap();
    let dir = path.parent().unwrap();
    let program = dir.join("xfskit");
    fs::copy(env!("CARGO_BIN_EXE_xfskit"), &program).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let run = |args: &[&str]| loop {
        let mut command = Command::new(&program);
        match command.args(args).arg(&path).uid(65534).gid(65534).output() {
            // Another test's child has the copy of the program open for a moment after its fork.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                sleep(Duration::from_millis(5));
            }
            output => break output.unwrap(),
        }
    };
    let plan = run(&["repair", "--dry-run"]);
    let said = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert_eq!(plan.status.code(), Some(1), "{}", String::from_utf8_lossy(&plan.stderr));
    assert!(said.contains("group.0: make the btrees"), "{said}");
    assert_eq!(run(&["repair", "--explain", "group.0"]).status.code(), Some(0));
    let repair = run(&["repair"]);
    assert_eq!(repair.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&repair.stderr).contains("Permission denied"));
    assert!(fs::read(&path).unwrap() == before && !undo_file(&path).exists());
}

#[test]
fn a_repair_that_is_stopped_leaves_nothing_behind() {
    let bench = Bench::new();
    let path = bench.kept("v5");
    lose_headers(&path);
    let damaged = fs::read(&path).unwrap();
    let args = ["repair", &shown(&path)];
    // The signal comes while the survey waits for its temporary files, or before.
    let child = begin(&args);
    interrupt(&child);
    let run = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    match run.status.code() {
        Some(130) => {
            assert!(said.contains("stopped; nothing was written"), "{said}");
            assert!(fs::read(&path).unwrap() == damaged && !undo_file(&path).exists());
        }
        // It came before the program handles signals: nothing had begun.
        None => assert!(fs::read(&path).unwrap() == damaged && !undo_file(&path).exists()),
        // It came too late to stop the repair.
        code => assert_eq!(code, Some(0), "{said}"),
    }
}
