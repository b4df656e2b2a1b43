//! `xfskit undelete --in-place`: what a user sees.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use xfskit_test_support::need::{Need, needs};
use xfskit_test_support::{Image, Mount, Scratch, Xfsprogs, verify};

use super::common::{Bench, expect, json, objects, shown, xfskit};
use super::mount::{Place, possible};

/// Returns bytes that tell their place.
fn bytes(len: u32) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251).to_le_bytes()[0]).collect()
}

/// Makes a volume with `/dir/one`, `/dir/two` and `/gone/deep/file`.
fn made(bench: &Bench, options: &[&str]) -> String {
    let image = shown(&bench.path("image"));
    expect(0, &[&["mkfs", "--size", "300M", &image], options].concat());
    expect(0, &["mkdir", "-p", &image, "/dir", "/gone/deep"]);
    for (path, len) in [("/dir/one", 70_000), ("/dir/two", 5), ("/gone/deep/file", 12_345)] {
        let file = shown(&bench.file("content", &bytes(len)));
        expect(0, &["put", &image, &file, path]);
        expect(0, &["chmod", &image, "4751", path]);
        expect(0, &["chown", &image, "7:8", path]);
    }
    image
}

/// Returns what `stat` says of a path, without what giving back changes.
fn stat(image: &str, path: &str) -> serde_json::Value {
    let mut stat = json(&["stat", "--json", image, path]).remove(0);
    let object = stat.as_object_mut().unwrap();
    object.retain(|key, _| !key.contains("ctime") && !key.contains("gen"));
    stat
}

fn content(image: &str, path: &str) -> Vec<u8> {
    expect(0, &["cat", image, path]).bytes
}

#[test]
fn a_removed_file_is_given_back_under_its_name_and_number() {
    let bench = Bench::new();
    let image = made(&bench, &[]);
    let before = stat(&image, "/dir/one");
    expect(0, &["rm", &image, "/dir/one"]);
    let planned = expect(0, &["undelete", &image, "one", "--in-place", "--dry-run"]);
    assert!(planned.stdout.contains("-> /dir/one"), "{}", planned.stdout);
    expect(1, &["stat", &image, "/dir/one"]);
    let given = &json(&["undelete", "--json", &image, "one", "--in-place"])[0];
    assert_eq!(given["restored"], "/dir/one", "{given}");
    assert_eq!(given["restored_inode"], before["ino"], "{given}");
    assert_eq!(stat(&image, "/dir/one"), before);
    assert!(content(&image, "/dir/one") == bytes(70_000));
    verify::file(&bench.path("image")).expect("a sound volume");
    // A second time there is nothing to give back.
    let again = expect(1, &["undelete", &image, "/dir/one", "--in-place"]);
    assert!(again.stdout.is_empty(), "{}", again.stdout);
}

#[test]
fn a_removed_tree_comes_back_with_its_directories() {
    let bench = Bench::new();
    for options in [&["-m", "rmapbt=1"][..], &["-n", "parent=1"], &["-b", "size=1k"]] {
        let image = made(&bench, options);
        let before = stat(&image, "/gone/deep/file");
        expect(0, &["rm", "-r", &image, "/gone"]);
        expect(0, &["undelete", &image, "/gone*", "--in-place"]);
        assert!(content(&image, "/gone/deep/file") == bytes(12_345), "{options:?}");
        assert_eq!(stat(&image, "/gone/deep/file")["mode"], before["mode"], "{options:?}");
        verify::file(&bench.path("image")).unwrap_or_else(|why| panic!("{options:?}: {why}"));
        fs::remove_file(bench.path("image")).unwrap();
    }
}

#[test]
fn a_removed_file_with_several_links_gets_all_of_its_names_back() {
    let bench = Bench::new();
    for options in [&["-m", "rmapbt=1"][..], &["-n", "parent=1"], &["-b", "size=1k"]] {
        let image = made(&bench, options);
        let paths = ["/dir/one", "/dir/other", "/gone/deep/third", "/fourth"];
        for path in &paths[1..] {
            expect(0, &["ln", &image, paths[0], path]);
        }
        let before = stat(&image, paths[0]);
        for path in paths {
            expect(0, &["rm", &image, path]);
        }
        // One of the names is taken, the others are free.
        expect(0, &["ln", &image, "/dir/two", paths[1]]);
        let run = expect(0, &["undelete", "--json", &image, "--in-place"]);
        let given = objects(&run).remove(0);
        let links = given["restored_links"].as_array().unwrap().iter().map(|link| &link["path"]);
        let mut told: Vec<&str> =
            links.chain([&given["restored"]]).map(|path| path.as_str().unwrap()).collect();
        told.sort_unstable();
        assert_eq!(told, ["/dir/one", "/fourth", "/gone/deep/third"], "{options:?}: {given}");
        for path in told {
            let after = stat(&image, path);
            assert_eq!(after["nlink"], 3, "{options:?}: {after}");
            assert_eq!((&after["ino"], &after["mtime"]), (&before["ino"], &before["mtime"]));
            assert!(content(&image, path) == bytes(70_000), "{options:?}: {path}");
        }
        verify::file(&bench.path("image")).unwrap_or_else(|why| panic!("{options:?}: {why}"));
        fs::remove_file(bench.path("image")).unwrap();
    }
}

#[test]
fn a_renamed_file_gets_its_last_name_back_and_no_other() {
    let bench = Bench::new();
    let image = made(&bench, &[]);
    expect(0, &["mv", &image, "/dir/one", "/gone/moved"]);
    expect(0, &["rm", &image, "/gone/moved"]);
    let given = &json(&["undelete", "--json", &image, "--in-place"])[0];
    assert_eq!(
        (&given["restored"], &given["restored_links"]),
        (&"/gone/moved".into(), &serde_json::Value::Null)
    );
    expect(1, &["stat", &image, "/dir/one"]);
}

#[test]
fn attributes_in_blocks_of_their_own_come_back() {
    let bench = Bench::new();
    for options in [&["-m", "rmapbt=1"][..], &["-n", "parent=1"], &["-b", "size=1k"]] {
        let image = made(&bench, options);
        let value = |n: usize| ["a", "b", "c"][n % 3].repeat(n * n * 20 + 1);
        for n in 0..40 {
            let name = format!("user.attribute{n}");
            expect(0, &["xattr", "set", &image, "/dir/one", &name, &value(n)]);
        }
        expect(0, &["rm", &image, "/dir/one"]);
        let plan = expect(0, &["undelete", &image, "one", "--in-place", "--dry-run"]);
        assert!(!plan.stderr.contains("attributes"), "{options:?}: {}", plan.stderr);
        expect(0, &["undelete", &image, "one", "--in-place"]);
        for n in 0..40 {
            let name = format!("user.attribute{n}");
            let got = expect(0, &["xattr", "get", &image, "/dir/one", &name]);
            assert!(got.stdout.contains(&value(n)), "{options:?}: {name}: {}", got.stdout);
        }
        assert!(content(&image, "/dir/one") == bytes(70_000), "{options:?}");
        verify::file(&bench.path("image")).unwrap_or_else(|why| panic!("{options:?}: {why}"));
        fs::remove_file(bench.path("image")).unwrap();
    }
}

#[test]
fn files_that_were_given_back_are_not_listed_again() {
    let bench = Bench::new();
    let image = made(&bench, &[]);
    // More inodes than chunks that stay: most of them are freed with their chunk.
    let tree = bench.path("tree");
    for dir in ["a", "b/c"] {
        fs::create_dir_all(tree.join(dir)).unwrap();
        for n in 0..150u32 {
            fs::write(tree.join(format!("{dir}/{n}")), bytes(n * 7)).unwrap();
        }
        fs::write(tree.join(dir).join("empty"), []).unwrap();
        std::os::unix::fs::symlink("target", tree.join(dir).join("link")).unwrap();
    }
    expect(0, &["put", &image, &shown(&tree), "/"]);
    expect(0, &["rm", "-r", &image, "/tree"]);
    let before = objects(&expect(0, &["undelete", "--json", &image])).len();
    assert!(before > 300, "{before}");
    let given = objects(&expect(0, &["undelete", "--json", &image, "--in-place"]));
    let moved = given.iter().filter(|file| file["inode"] != file["restored_inode"]).count();
    assert!(moved > 100, "only {moved} of {} got a new number", given.len());
    let again = expect(1, &["undelete", &image]);
    assert!(again.stdout.is_empty(), "{}", again.stdout);
    assert!(again.stderr.contains("were given back before"), "{}", again.stderr);
    // One that is removed again is found again.
    expect(0, &["rm", &image, "/tree/a/149"]);
    let found = objects(&expect(0, &["undelete", "--json", &image, "149"]));
    let good = found.iter().filter(|file| file["confidence"] == "good").count();
    assert_eq!(good, 1, "{found:?}");
    verify::file(&bench.path("image")).expect("a sound volume");
}

#[test]
fn a_file_without_its_old_place_goes_to_lost_found_under_a_name_that_tells() {
    let bench = Bench::new();
    let image = made(&bench, &[]);
    let numbers: Vec<_> = ["/dir/one", "/gone/deep/file"]
        .iter()
        .map(|path| stat(&image, path)["ino"].as_u64().unwrap())
        .collect();
    expect(0, &["rm", &image, "/dir/one"]);
    expect(0, &["rm", "-r", &image, "/gone"]);
    // The name is taken, without a block.
    expect(0, &["ln", "-s", &image, "target", "/dir/one"]);
    let files = ["one", "file"].map(|name| {
        let run = expect(0, &["undelete", "--json", &image, name, "--in-place"]);
        objects(&run)[0]["restored"].as_str().unwrap().to_owned()
    });
    let names = ["one", "file"].into_iter().zip(&numbers);
    let told: Vec<_> = names.map(|(name, ino)| format!("/lost+found/inode-{ino}-{name}")).collect();
    assert_eq!(files.to_vec(), told);
    assert!(content(&image, &told[0]) == bytes(70_000));
    assert!(content(&image, &told[1]) == bytes(12_345));
    verify::file(&bench.path("image")).expect("a sound volume");

    // Where something else is called lost+found, the root directory takes them.
    expect(0, &["rm", "-r", &image, "/lost+found"]);
    expect(0, &["ln", "-s", &image, "target", "/lost+found"]);
    let run = expect(0, &["undelete", "--json", &image, "inode*-one", "--in-place"]);
    let told = objects(&run)[0]["restored"].as_str().unwrap().to_owned();
    assert!(told.starts_with("/inode-") && content(&image, &told) == bytes(70_000), "{told}");
    // xfs_repair takes lost+found for damaged if it is no directory.
    expect(0, &["rm", &image, "/lost+found"]);
    verify::file(&bench.path("image")).expect("a sound volume");
}

#[test]
fn a_file_whose_blocks_are_taken_is_refused_and_named() {
    let bench = Bench::new();
    let image = made(&bench, &[]);
    expect(0, &["rm", &image, "/dir/one"]);
    // All space is taken: by halves, until not even a block is left.
    for shift in (12..29).rev() {
        let (path, len) = (format!("/filler{shift}"), (1u64 << shift).to_string());
        let filled = xfskit(&["fallocate", "-l", &len, &image, &path]);
        assert!([0, 1].contains(&filled.code), "{}", filled.stderr);
    }
    let one = &json(&["undelete", "--json", &image, "one"])[0];
    assert_eq!(one["confidence"], "partial", "{one}");
    let refused = expect(1, &["undelete", &image, "one", "--in-place"]);
    assert!(refused.stderr.contains("not good"), "{}", refused.stderr);
    expect(1, &["stat", &image, "/dir/one"]);
    verify::file(&bench.path("image")).expect("a sound volume");
}

#[test]
fn in_place_and_to_exclude_each_other() {
    let bench = Bench::new();
    let image = made(&bench, &[]);
    let to = shown(&bench.path("to"));
    expect(2, &["undelete", &image, "--in-place", "--to", &to]);
    expect(2, &["undelete", &image, "--dry-run"]);
    expect(2, &["undelete", &image, "--in-place", "--norecovery"]);
    expect(2, &["undelete", &image, "--rtdev", &image]);
    let overlay = shown(&bench.path("overlay"));
    expect(0, &["rm", &image, "/dir/one"]);
    expect(0, &["undelete", &image, "one", "--in-place", "--overlay", &overlay]);
    expect(1, &["stat", &image, "/dir/one"]);
    assert!(expect(0, &["cat", "--overlay", &overlay, &image, "/dir/one"]).bytes == bytes(70_000));
}

#[test]
fn what_linux_removed_from_a_volume_with_an_external_journal_is_given_back() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("cli-undelete-log");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20).with_external_log(64 << 20);
    let (target, log) = (shown(image.path()), shown(image.log().unwrap()));
    let option = format!("logdev={log}");
    Xfsprogs::installed().unwrap().mkfs(&image, &["-l", &option]).unwrap();
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    let path = mount.path().join("file");
    fs::write(&path, bytes(300_000)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&path).unwrap();
    mount.unmount().expect("unmount");
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    fs::remove_file(mount.path().join("file")).unwrap();
    mount.unmount().expect("unmount");
    let listed = expect(0, &["undelete", "--logdev", &log, &target]);
    assert!(listed.stdout.contains("good") && listed.stdout.contains("/file"), "{}", listed.stdout);
    expect(0, &["undelete", "--logdev", &log, &target, "--in-place"]);
    Xfsprogs::installed().unwrap().repair_n(&image, &[]).expect("clean");
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    let after = fs::metadata(mount.path().join("file")).unwrap();
    assert_eq!((after.mode(), after.ino()), (before.mode(), before.ino()));
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert!(fs::read(mount.path().join("file")).unwrap() == bytes(300_000));
    mount.unmount().expect("unmount");
}

#[test]
fn after_more_writing_by_linux_nothing_good_has_other_bytes() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let scratch = Scratch::new("cli-undelete-later");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    let target = shown(image.path());
    Xfsprogs::installed().unwrap().mkfs(&image, &[]).unwrap();
    let in_mount = |work: &dyn Fn(&Path)| {
        let mount = Mount::read_write(&image, &scratch).expect("mount");
        work(mount.path());
        mount.unmount().expect("unmount");
    };
    let name = |n: u32| format!("old{n}");
    in_mount(&|at| (0..40).for_each(|n| fs::write(at.join(name(n)), bytes(50_000 + n)).unwrap()));
    in_mount(&|at| (0..40).for_each(|n| fs::remove_file(at.join(name(n))).unwrap()));
    in_mount(&|at| {
        (0..4).for_each(|n| fs::write(at.join(format!("new{n}")), vec![9; 300_000]).unwrap());
    });
    let listed = objects(&expect(0, &["undelete", "--json", &target, "old*"]));
    let good = |file: &&serde_json::Value| file["confidence"] == "good";
    let (count, lost) = (listed.iter().filter(good).count(), "some blocks were taken");
    assert!(count > 0 && count < listed.len(), "{lost}: {count} of {}", listed.len());
    let given = xfskit(&["undelete", "--json", &target, "old*", "--in-place"]);
    assert_eq!(given.code, 1, "{}", given.stderr);
    assert!(given.stderr.is_empty() || given.stderr.contains("not good"), "{}", given.stderr);
    verify::volume(&image, &scratch).expect("a sound volume");
    in_mount(&|at| {
        let there = (0..40).filter(|n| at.join(name(*n)).exists()).inspect(|n| {
            assert!(fs::read(at.join(name(*n))).unwrap() == bytes(50_000 + n), "old{n}");
        });
        assert_eq!(there.count(), count, "all that were good, and no other");
        (0..4).for_each(|n| {
            assert!(fs::read(at.join(format!("new{n}"))).unwrap() == vec![9; 300_000]);
        });
    });
}

#[test]
fn a_mounted_volume_is_refused() {
    if !needs(&[Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("cli-undelete-mounted");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    let target = shown(image.path());
    expect(0, &["mkfs", "--force", &target]);
    let mount = Mount::read_write(&image, &scratch).expect("mount");
    expect(2, &["undelete", &target, "--in-place"]);
    mount.unmount().expect("unmount");
}

#[test]
fn rescued_files_are_not_written_to_a_mount_by_xfskit_of_the_volume() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-undelete-fuse");
    place.mount(&[]);
    let (image, dir) = (shown(&place.image), shown(&place.dir));
    let to = shown(&place.dir.join("rescued"));
    for target in [&image, &dir] {
        let refused = expect(2, &["undelete", target, "--to", &to]);
        assert!(refused.stderr.contains("another filesystem"), "{}", refused.stderr);
    }
    let refused = expect(2, &["undelete", &dir, "--in-place"]);
    assert!(refused.stderr.contains("Unmount it first"), "{}", refused.stderr);
    place.umount();
}
