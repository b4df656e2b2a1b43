//! Every example is run.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::common::unpacked;
use xfskit::Volume;
use xfskit_test_arrays::{Fixture, content};

/// Builds the examples, once, and returns their directory.
fn examples() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().unwrap().parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        // With the features of the whole workspace, so that what is built serves all its tests.
        cargo.args([
            "build",
            "--quiet",
            "--offline",
            "--workspace",
            "--examples",
            "--manifest-path",
        ]);
        cargo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "the examples do not build");
        profile.join("examples")
    })
}

fn run<A: AsRef<std::ffi::OsStr>>(name: &str, args: &[A], dir: &Path) -> Output {
    Command::new(examples().join(name)).args(args).current_dir(dir).output().unwrap()
}

/// The output of an example that succeeds.
fn output<A: AsRef<std::ffi::OsStr>>(name: &str, args: &[A], dir: &Path) -> String {
    let output = run(name, args, dir);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn read_file_prints_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let image = unpacked("v5", dir.path());
    assert_eq!(output("read_file", &[image.as_os_str(), "/sf/a".as_ref()], dir.path()), "hello\n");
}

#[test]
fn walk_and_hash_prints_a_line_for_each_file() {
    let dir = tempfile::tempdir().unwrap();
    let image = unpacked("v5", dir.path());
    let lines = output("walk_and_hash", &[image.as_os_str(), "/leaf".as_ref()], dir.path());
    assert_eq!(lines.lines().count(), 200);
    assert!(lines.lines().all(|line| line[16..].starts_with(" /leaf/")), "{lines}");
}

#[test]
fn build_from_tar_makes_a_volume_with_the_files_of_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let kept = Volume::open(unpacked("v5", dir.path())).unwrap();
    let (archive, image) = (dir.path().join("leaf.tar"), dir.path().join("new.img"));
    let file = std::fs::File::create(&archive).unwrap();
    xfskit::Extract::new(&kept, "/leaf").to_tar(file).unwrap();
    output("build_from_tar", &[archive.as_os_str(), image.as_os_str()], dir.path());
    let volume = Volume::open(&image).unwrap();
    assert_eq!(volume.walk_dir("/").unwrap().map(Result::unwrap).count(), 201);
    xfskit_test_support::verify::file(&image).unwrap();
}

#[test]
fn change_in_place_writes_from_all_of_its_threads() {
    let dir = tempfile::tempdir().unwrap();
    let image = unpacked("v5", dir.path());
    output("change_in_place", &[&image], dir.path());
    let volume = Volume::open(&image).unwrap();
    let log = volume.read_to_string("/var/log/threads").unwrap();
    assert_eq!(log.lines().count(), 8, "{log}");
    assert_eq!(volume.read_dir("/var/log").unwrap().count(), 9);
    xfskit_test_support::verify::file(&image).unwrap();
}

#[test]
fn recover_in_memory_leaves_the_image_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let image = unpacked("v5-dirty", dir.path());
    let before = std::fs::read(&image).unwrap();
    let said = output("recover_in_memory", &[&image], dir.path());
    let counts: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(counts.len() == 2 && counts[0] < counts[1], "{said}");
    assert!(std::fs::read(&image).unwrap() == before);
}

#[test]
fn degraded_array_lists_the_files_with_two_members_missing() {
    let dir = tempfile::tempdir().unwrap();
    let array = Fixture::open("raid6-xfs-clean");
    let mut members = Vec::new();
    for (n, device) in array.devices().into_iter().enumerate() {
        members.push(format!("m{n}.img"));
        std::fs::write(dir.path().join(&members[n]), content(&*device)).unwrap();
    }
    let whole = output("degraded_array", &members, dir.path());
    members.retain(|member| member != "m1.img" && member != "m4.img");
    members.extend(["missing".to_owned(), "missing".to_owned()]);
    assert_eq!(output("degraded_array", &members, dir.path()), whole);
    assert!(whole.lines().count() > 3, "{whole}");
}

/// Names of files in `dir`, with their place.
fn paths(dir: &Path, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| dir.join(name)).collect()
}

/// Asks mdadm about a member.
fn examined(member: &Path) -> String {
    let output = Command::new("mdadm").arg("--examine").arg(member).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn create_array_makes_one_whose_members_agree() {
    let dir = tempfile::tempdir().unwrap();
    let members = paths(dir.path(), &["a.img", "b.img", "c.img", "d.img"]);
    let said = output("create_array", &members, dir.path());
    assert!(said.ends_with(" 0 pages differ\n"), "{said}");
    for member in &members {
        let said = examined(member);
        assert!(said.contains("raid6") && said.contains("State : clean"), "{said}");
        assert!(said.contains("Array State : AAAA"), "{said}");
    }
    let target = said.split(": ").next().unwrap();
    let device = xfskit::target::Device::open(target).unwrap();
    let whole = dir.path().join("whole.img");
    let mut bytes = vec![0; usize::try_from(device.size()).unwrap()];
    device.read_exact_at(&mut bytes, 0).unwrap();
    std::fs::write(&whole, bytes).unwrap();
    xfskit_test_support::verify::file(&whole).unwrap();
}

#[test]
fn replace_member_completes_an_array() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a.img", "b.img", "c.img"].map(|name| dir.path().join(name));
    let create = xfskit::md::Create::new(xfskit::md::Level::Raid5)
        .devices(xfskit::md::NewDevices::new().create(64 << 20));
    let target = create.create([&a, Path::new("missing"), &c]).unwrap().target;
    let said = output("replace_member", &[target.as_ref(), b.as_os_str()], dir.path());
    assert_eq!(said, "missing: [], unreadable sectors: 0\n");
    for member in [&a, &b, &c] {
        let said = examined(member);
        assert!(said.contains("State : clean") && said.contains("State : AAA"), "{said}");
    }
}

#[test]
fn check_prints_findings_and_fails_where_there_are_some() {
    let dir = tempfile::tempdir().unwrap();
    let image = unpacked("v5", dir.path());
    let said = output("check", &[&image], dir.path());
    assert!(said.ends_with(" 0 errors\n"), "{said}");
    // The magic of the first AGF.
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    file.write_all_at(b"nope", 512).unwrap();
    let checked = run("check", &[&image], dir.path());
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(!checked.status.success() && said.contains("[agf."), "{said}");
}
