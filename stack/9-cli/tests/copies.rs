//! Incomplete copies are reported, for all commands that copy.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::common::{Bench, expect, objects, shown, xfskit};

/// Makes a member of a tar archive, of type `kind`.
fn member(kind: u8, name: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let size = format!("{:011o}", content.len());
    for (at, text) in [(100, "0000644"), (108, "0000000"), (116, "0000000"), (124, &size[..])] {
        bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    bytes[136..147].copy_from_slice(b"00000000007");
    bytes[156] = kind;
    bytes[257..265].copy_from_slice(b"ustar\x0000");
    bytes[148..156].fill(b' ');
    let sum: u32 = bytes.iter().map(|&b| u32::from(b)).sum();
    bytes[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn archive(bench: &Bench, members: &[(u8, &str, &[u8])]) -> String {
    let mut bytes: Vec<u8> = members.iter().flat_map(|m| member(m.0, m.1, m.2)).collect();
    bytes.resize(bytes.len() + 1024, 0);
    shown(&bench.file("a.tar", &bytes))
}

#[test]
fn metadata_that_a_copy_cannot_restore_is_counted_and_exits_with_1() {
    let bench = Bench::new();
    let image = shown(&bench.path("v.img"));
    // Linux takes no such attribute for a pipe, whatever the filesystem.
    let tar = archive(&bench, &[(b'x', "pax", b"25 SCHILY.xattr.user.x=y\n"), (b'6', "pipe", b"")]);
    expect(0, &["mkfs", "-q", "--size", "300M", "--from", &tar, &image]);
    let run = expect(1, &["get", "--json", &image, "/", &shown(&bench.path("out"))]);
    let skipped = &objects(&run)[0]["skipped"][0];
    assert_eq!((skipped["count"].as_u64(), skipped["usual"].as_bool()), (Some(1), Some(false)));
    assert!(run.stderr.contains("not copied: user. attributes"), "{}", run.stderr);
    // The reason of exit code 1 is no note.
    let run = expect(1, &["get", "-q", &image, "/", &shown(&bench.path("quiet"))]);
    assert!(run.stderr.contains("not copied: user. attributes"), "{}", run.stderr);
    let name = shown(&bench.path("out.tar"));
    let run = expect(0, &["get", "--json", "--tar", &image, "/", &name]);
    assert_eq!(objects(&run)[0]["files"].as_u64(), Some(2));
}

#[test]
fn files_that_are_shorter_than_they_say_are_copied_as_far_as_they_go_and_named() {
    // A file of sysfs has a page by its size, and a line by its content.
    let source = "/sys/devices/system/cpu";
    let Ok(online) = fs::read(format!("{source}/online")) else {
        eprintln!("skipped: no sysfs here");
        return;
    };
    let bench = Bench::new();
    let (image, empty) = (shown(&bench.path("v.img")), shown(&bench.path("w.img")));
    let run = expect(1, &["mkfs", "--json", "--size", "300M", "--from", source, &image]);
    assert_eq!(objects(&run)[0]["fault"]["path"].as_str().unwrap().find(source), Some(0));
    assert!(run.stdout.contains("changed while it was read"), "{}", run.stdout);
    let skipped = objects(&run).last().unwrap()["skipped"].clone();
    assert!(skipped[0]["what"].as_str().unwrap().starts_with("content"), "{skipped}");
    expect(0, &["mkfs", "-q", "--size", "300M", &empty]);
    expect(1, &["put", &empty, &format!("{source}/."), "/"]);
    for image in [&image, &empty] {
        assert_eq!(expect(0, &["cat", image, "/online"]).stdout.as_bytes(), online);
        expect(0, &["check", image]);
    }
    let run = expect(2, &["put", "--strict", &empty, &format!("{source}/online"), "/strict"]);
    assert!(run.stderr.contains("online: changed while it was read"), "{}", run.stderr);
}

#[test]
fn sources_are_named_with_one_slash_between_the_parts_of_a_path() {
    let bench = Bench::new();
    let image = shown(&bench.path("v.img"));
    expect(0, &["mkfs", "-q", "--size", "300M", &image]);
    let run = expect(2, &["put", &image, "/no-such-file", "/"]);
    assert!(run.stderr.contains(": /no-such-file: "), "{}", run.stderr);
    let source = "/sys/devices/system/cpu";
    if !Path::new(source).join("online").exists() {
        return eprintln!("skipped: no sysfs here");
    }
    for source in [source, &format!("{source}/")] {
        let run = expect(2, &["put", "--strict", &image, &format!("{source}/online"), "/"]);
        assert!(run.stderr.contains(": /sys/devices/system/cpu/online: "), "{}", run.stderr);
        let run = expect(1, &["put", "--json", &image, source, "/tree"]);
        assert!(!run.stdout.contains("cpu//"), "{}", run.stdout);
    }
}

#[test]
fn whiteouts_copied_as_files_and_foreign_attributes_are_reported_once() {
    let bench = Bench::new();
    let (image, other) = (shown(&bench.path("v.img")), shown(&bench.path("w.img")));
    let members = [
        (b'x', "pax", &b"31 SCHILY.xattr.system.nfs4=ab\n"[..]),
        (b'0', "a/.wh.b", b""),
        (b'0', "a/.wh.c", b""),
    ];
    let tar = archive(&bench, &members);
    let run = expect(0, &["mkfs", "--size", "300M", "--from", &tar, &image]);
    assert_eq!(run.stderr.matches("--whiteouts").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("(2 of them)"), "{}", run.stderr);
    assert!(run.stderr.contains("no namespace for them), 1 time"), "{}", run.stderr);
    let run = expect(0, &["put", "--tar", &image, &tar, "/x"]);
    assert!(run.stderr.contains("(2 of them)"), "{}", run.stderr);
    let run = expect(0, &["mkfs", "--whiteouts", "--size", "300M", "--from", &tar, &other]);
    assert!(!run.stderr.contains("--whiteouts"), "{}", run.stderr);
}

#[test]
fn whiteouts_in_a_directory_are_told_and_obeyed_as_those_in_an_archive() {
    let bench = Bench::new();
    let (lower, upper) = (bench.path("lower"), bench.path("upper"));
    for (layer, names) in
        [(&lower, ["a/b", "a/c", "d/e"]), (&upper, ["a/.wh.b", "d/.wh..wh..opq", "d/f"])]
    {
        for name in names {
            std::fs::create_dir_all(layer.join(name).parent().unwrap()).unwrap();
            std::fs::write(layer.join(name), "").unwrap();
        }
    }
    let (lower, upper) = (shown(&lower), shown(&upper));
    let (image, other) = (shown(&bench.path("v.img")), shown(&bench.path("w.img")));
    let make = ["mkfs", "--size", "300M", "--from", &lower, "--from", &upper];
    let run = expect(0, &[&make[..], &[&image]].concat());
    assert!(run.stderr.contains("(2 of them)"), "{}", run.stderr);
    let run = expect(0, &["put", &image, &upper, "/x"]);
    assert!(run.stderr.contains("(2 of them)"), "{}", run.stderr);
    let run = expect(0, &[&make[..], &["--whiteouts", &other]].concat());
    assert!(!run.stderr.contains("--whiteouts"), "{}", run.stderr);
    let found = expect(0, &["find", &other, "/", "--type", "f"]).stdout;
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(found, ["/a/c", "/d/f"]);
    expect(0, &["put", "--whiteouts", &image, &format!("{upper}/a/.wh.b"), "/given"]);
    expect(0, &["stat", &image, "/given"]);
}

/// Runs `xfskit` and reads only the first bytes of its output.
fn cut_short(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xfskit"));
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_root_directory_and_files_that_are_too_small_are_refused_by_name() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    for args in [&["rm", "-r", &image, "/"][..], &["rm", &image, "//"], &["mv", &image, "/", "/x"]]
    {
        let run = expect(1, args);
        assert!(run.stderr.contains("the root directory has no name"), "{}", run.stderr);
    }
    let small = shown(&bench.file("small", b"four"));
    let run = expect(2, &["mkfs", "-f", &small]);
    assert!(run.stderr.contains("4 bytes are too few"), "{}", run.stderr);
}

/// Runs `xfskit` by a shell that redirects its standard output.
fn redirected(args: &[&str], redirection: &str) -> (Option<i32>, String) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")]);
    let output = command.arg(env!("CARGO_BIN_EXE_xfskit")).args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_answer_that_cannot_be_written_is_not_a_success() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let printing: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["get", &image, "/sf", "-"],
        &["ls", &image],
        &["ls", "--json", &image],
        &["cat", &image, "/sf/a"],
        &["info", &image],
        &["check", &image],
        &["check", "--json", &image],
        &["df", &image],
        &["stats", &image],
        &["inspect", &image, "sb"],
        &["log", &image],
        &["bulkstat", &image],
        &["find", &image, "/"],
        &["tree", &image],
        &["stat", &image, "/"],
        &["du", &image],
        &["targets", &image],
        &["label", &image],
        &["uuid", &image],
        &["recover", "-n", &image],
        &["completions", "bash"],
        &["xattr", "list", &image, "/attr-sf"],
    ];
    for redirection in [">&-", "1</dev/null", ">/dev/full"] {
        for args in printing {
            let (code, said) = redirected(args, redirection);
            assert_eq!(code, Some(2), "{args:?} {redirection}: {said}");
        }
        let dir = format!("/made{}", redirection.len());
        let silent = ["mkdir", &image, &dir];
        let (code, said) = redirected(&silent, redirection);
        assert_eq!(code, Some(0), "{redirection}: there was nothing to print: {said}");
        let (code, said) = redirected(&["ls", "--json", "--no-such-option"], redirection);
        assert_eq!(code, Some(2), "{redirection}: {said}");
        assert!(said.contains("--no-such-option"), "{redirection}: {said}");
    }
}

#[test]
fn help_in_the_shell_that_cannot_be_written_is_not_a_success() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    for line in ["help", "help ls", "ls --help", "xattr set --help"] {
        let script = shown(&bench.file("script", format!("{line}\n").as_bytes()));
        let (code, said) = redirected(&["shell", &image], &format!("<'{script}'"));
        assert_eq!(code, Some(0), "{line}: {said}");
        for redirection in [">&-", "1</dev/null", ">/dev/full"] {
            let redirection = format!("<'{script}' {redirection}");
            let (code, said) = redirected(&["shell", &image], &redirection);
            assert!(code.is_some_and(|code| code > 0), "{line} {redirection}: {said}");
            assert!(said.contains("standard output"), "{line} {redirection}: {said}");
        }
    }
}

#[test]
fn output_into_a_closed_pipe_is_not_a_success() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let (code, said) = cut_short(&["get", &image, "/", "-"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the archive is incomplete"), "{said}");
    // The exit code of a program that SIGPIPE ends.
    let (code, said) = cut_short(&["find", "--json", &image, "/"]);
    assert_eq!((code, &*said), (Some(141), ""));
}

#[test]
fn get_does_not_follow_existing_links() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let (out, aside) = (bench.path("out"), bench.path("aside"));
    fs::create_dir(&aside).unwrap();
    std::os::unix::fs::symlink(&aside, &out).unwrap();
    // A link is neither filled nor replaced by a file; a link to an empty directory is that
    // directory.
    expect(2, &["get", &image, "/sf/a", &shown(&out)]);
    std::os::unix::fs::symlink("/dev/null", aside.join("in-the-way")).unwrap();
    for args in [&["get", &image, "/sf"][..], &["get", "--tar", &image, "/sf"]] {
        let run = xfskit(&[args, &[&*shown(&out)]].concat());
        assert_eq!(run.code, 2, "{}", run.stderr);
    }
    assert_eq!(fs::read_dir(&aside).unwrap().count(), 1);
}

/// Seconds of the race below: `XFSKIT_RACE_SECONDS`, or 4.
fn race_time() -> Duration {
    let seconds = std::env::var("XFSKIT_RACE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(4))
}

/// Exchanges each directory in `dest`, as soon as it is there, with a symbolic link to `outside`,
/// and back. Returns the number of exchanges.
fn swap_directories(dest: &Path, outside: &Path, stop: &AtomicBool) -> u64 {
    let link = dest.with_extension("link");
    std::os::unix::fs::symlink(outside, &link).unwrap();
    let mut swaps = 0;
    while !stop.load(Ordering::Relaxed) {
        for dir in ["dir0", "dir1", "dir2", "dir0/below", "dir1/below"] {
            let path = dest.join(dir);
            for _ in 0..2 {
                let flags = RenameFlags::EXCHANGE;
                swaps += u64::from(renameat_with(CWD, &link, CWD, &path, flags).is_ok());
            }
        }
    }
    swaps
}

#[test]
fn get_writes_nothing_through_a_link_put_in_place_of_a_directory_while_it_runs() {
    let bench = Bench::new();
    for n in 0..120 {
        let below = ["dir0", "dir1", "dir2", "dir0/below", "dir1/below"][n % 5];
        let dir = bench.path("tree").join(below);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("file{n}")), vec![b'x'; 3000]).unwrap();
        fs::hard_link(dir.join(format!("file{n}")), dir.join(format!("link{n}"))).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.join(format!("symlink{n}"))).unwrap();
    }
    let image = shown(&bench.path("v.img"));
    expect(0, &["mkfs", "-q", "--from", &shown(&bench.path("tree")), &image]);
    let outside = bench.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file0"), b"untouched").unwrap();
    let outside_now = || {
        let meta = fs::metadata(&outside).unwrap();
        let names: Vec<_> =
            fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let file = fs::metadata(outside.join("file0")).unwrap();
        (
            names,
            meta.mode(),
            meta.mtime_nsec(),
            file.nlink(),
            fs::read(outside.join("file0")).unwrap(),
        )
    };
    let before = outside_now();
    let (end, mut turns, mut failed, mut swaps) = (Instant::now() + race_time(), 0, 0, 0);
    while Instant::now() < end {
        let dest = bench.path(&format!("dest{turns}"));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| swap_directories(&dest, &outside, &stop));
            let run = xfskit(&["get", "-q", &image, "/", &shown(&dest)]);
            stop.store(true, Ordering::Relaxed);
            swaps += swapping.join().unwrap();
            assert!(matches!(run.code, 0 | 1), "{}: {}", run.code, run.stderr);
            failed += u64::from(run.code == 1);
        });
        assert_eq!(outside_now(), before, "after {turns} turns and {swaps} exchanges");
        turns += 1;
        let _ = fs::remove_file(dest.with_extension("link"));
        let _ = fs::remove_dir_all(dest.with_extension("link"));
        fs::remove_dir_all(&dest).unwrap();
    }
    eprintln!("{turns} copies, {failed} of them named an error, {swaps} exchanges");
    assert!(turns > 0 && swaps > 0);
}
