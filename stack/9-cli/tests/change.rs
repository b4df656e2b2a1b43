//! The commands that change a volume: each succeeds and refuses, and the volume is checked
//! afterwards.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use crate::common::{self, Bench, begin, ended, expect, feed, interrupt, json, shown};
use serde_json::Value;
use xfskit_test_support::{Image, Mount, Scratch, verify};

/// A volume that is checked at the end.
struct Made {
    bench: Bench,
    path: PathBuf,
    image: String,
}

impl Made {
    fn new() -> Self {
        let bench = Bench::new();
        let path = bench.path("v.img");
        let image = shown(&path);
        expect(0, &["mkfs", "-q", "--size", "300M", &image]);
        Self { bench, path, image }
    }

    /// Runs the arguments in `line`, with the image in place of `@`, and `more` after them.
    fn run_with(&self, code: i32, line: &str, more: &[&str]) -> common::Run {
        let words =
            line.split_whitespace().map(|word| if word == "@" { &self.image } else { word });
        let args: Vec<&str> = words.chain(more.iter().copied()).collect();
        expect(code, &args)
    }

    fn run(&self, code: i32, line: &str) -> common::Run {
        self.run_with(code, line, &[])
    }

    fn stat(&self, path: &str) -> Value {
        json(&["stat", "--json", &self.image, path]).remove(0)
    }

    fn ls(&self, path: &str) -> String {
        expect(0, &["ls", &self.image, path]).stdout.replace('\n', " ").trim_end().to_owned()
    }

    fn cat(&self, path: &str) -> String {
        expect(0, &["cat", &self.image, path]).stdout
    }
}

impl Drop for Made {
    /// Fails unless `check` and `xfs_repair -n` find nothing, and the kernel shows the same tree.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let run = expect(0, &["check", "-q", &self.image]);
        assert_eq!(run.stdout, "");
        verify::file(&self.path).unwrap();
    }
}

fn mode_of(stat: &Value) -> u64 {
    u64::from_str_radix(stat["mode"].as_str().unwrap(), 8).unwrap() & 0o7777
}

#[test]
fn mkdir_makes_directories_and_missing_parents() {
    let v = Made::new();
    v.run(0, "mkdir -m 1777 --owner 7:8 @ /tmp");
    v.run(0, "mkdir -p @ /a/b/c /a/b");
    assert_eq!(
        (v.ls("/").as_str(), v.ls("/a").as_str(), v.ls("/a/b").as_str()),
        ("a tmp", "b", "c")
    );
    let tmp = v.stat("/tmp");
    assert_eq!((mode_of(&tmp), &tmp["uid"], &tmp["gid"]), (0o1777, &7.into(), &8.into()));
    // A directory that cannot be made does not stop the others.
    let run = v.run(1, "mkdir @ /tmp /none/x relative /last");
    assert_eq!(run.stderr.lines().count(), 3, "{}", run.stderr);
    assert_eq!(v.ls("/"), "a last tmp");
    // A file in the way.
    v.run(0, "touch @ /file");
    for path in ["/file/x", "/file/x/y"] {
        let run = v.run_with(1, "mkdir -p @", &[path]);
        assert!(run.stderr.contains("not a directory"), "{}", run.stderr);
    }
    v.run(2, "mkdir -m rwx @ /y");
    v.run(1, &format!("mkdir @ /{}", "n".repeat(256)));
}

#[test]
fn stats_count_the_work() {
    let made = Made::new();
    let text = made.run(0, "mkdir --stats @ /a /b").stdout;
    assert!(text.contains("transactions  3 changes in "), "{text}");
    let stats = &json(&["mkdir", "--stats", "--json", &made.image, "/c"])[0]["stats"];
    // The directory, and the counters of the superblock.
    assert_eq!(stats["transactions"]["changes"], 2);
    assert!((1..=2).contains(&stats["transactions"]["committed"].as_u64().unwrap()), "{stats}");
    assert_eq!(stats["log"]["checkpoints"], 1);
    let locks = stats["locks"].as_array().unwrap();
    let agi = locks.iter().find(|lock| lock["name"] == "agi").unwrap();
    assert!(agi["taken"].as_u64().unwrap() > 0 && agi["waits"] == 0);
}

#[test]
fn rm_removes_files_and_trees() {
    let v = Made::new();
    v.run(0, "mkdir -p @ /a/b/c /a/d /e");
    v.run(0, "touch @ /a/f /a/b/g /h");
    assert!(v.run(1, "rm @ /a").stderr.contains("is a directory"));
    v.run(1, "rm @ /none");
    v.run(0, "rm -f @ /none /h");
    v.run(0, "rm -r @ /a");
    assert_eq!(v.ls("/"), "e");
    v.run(1, "rm -r @ /");
}

#[test]
fn mv_renames_replaces_exchanges_and_moves_into_directories() {
    let v = Made::new();
    v.run(0, "mkdir -p @ /d /e/sub");
    v.run(0, "touch @ /a /b /c");
    let (a, b) = (v.stat("/a")["ino"].clone(), v.stat("/b")["ino"].clone());
    v.run(0, "mv --exchange @ /a /b");
    assert_eq!((&v.stat("/a")["ino"], &v.stat("/b")["ino"]), (&b, &a));
    v.run(1, "mv --no-replace @ /a /b");
    v.run(0, "mv @ /a /b");
    assert_eq!(v.stat("/b")["ino"], b);
    v.run(0, "mv @ /b /c /e /d");
    assert_eq!((v.ls("/").as_str(), v.ls("/d").as_str()), ("d", "b c e"));
    assert!(v.run(1, "mv @ /d /d/e/sub").stderr.contains("below itself"));
    v.run(1, "mv @ /d/b /d/c /nowhere");
    v.run(1, "mv @ /none /x");
    v.run(2, "mv @ /d");
}

#[test]
fn default_acls_are_inherited_by_new_files_and_not_by_copies() {
    let v = Made::new();
    v.run(0, "mkdir -m 0775 @ /d");
    // user::rwx, user:1:rwx, group::r-x, mask::rwx, other::---
    let default = "0sAgAAAAEABwD/////AgAHAAEAAAAEAAUA/////xAABwD/////IAAAAP////8=";
    v.run(0, &format!("xattr set @ /d system.posix_acl_default {default}"));
    let file = shown(&v.bench.file("file", b"content"));
    v.run(0, "mkdir @ /d/dir");
    v.run(0, "mkdir -m 0705 @ /d/less");
    v.run(0, "touch @ /d/touched");
    v.run(0, "mknod @ /d/pipe p");
    v.run(0, "fallocate -l 4k @ /d/blocks");
    feed(0, &["put", &v.image, "-", "/d/stream"], b"stream");
    // Overwritten, it keeps its ACL and attributes, and loses its capabilities.
    v.run(0, "xattr set @ /d/stream user.kept 1");
    v.run(0, "xattr set @ /d/stream security.capability 0sAQAAAgAgAAAAAAAAAAAAAAAAAAA=");
    feed(0, &["put", &v.image, "-", "/d/stream"], b"anew");
    assert_eq!(v.run(0, "xattr get @ /d/stream user.kept").stdout, "1");
    v.run(1, "xattr get @ /d/stream security.capability");
    v.run(0, &format!("put @ {file} /d/put"));
    v.run(0, "cp @ /d/put /d/copy");
    let acl = |path: &str| v.run(0, &format!("xattr list @ {path}")).stdout;
    for (name, mode) in [
        ("dir", 0o770),
        ("less", 0o700),
        ("touched", 0o660),
        ("pipe", 0o660),
        ("blocks", 0o660),
        ("stream", 0o660),
    ] {
        let path = format!("/d/{name}");
        let (found, acls) = (mode_of(&v.stat(&path)), acl(&path));
        assert_eq!(found, mode, "{path}");
        assert!(acls.contains("posix_acl_access"), "{path}: {acls}");
        assert_eq!(acls.contains("posix_acl_default"), mode & 0o100 != 0, "{path}: {acls}");
    }
    for path in ["/d/put", "/d/copy"] {
        assert_eq!((mode_of(&v.stat(path)), acl(path).as_str()), (0o644, ""), "{path}");
    }
}

#[test]
fn ln_and_mknod_make_links_and_devices() {
    let v = Made::new();
    v.run(0, "touch @ /file");
    v.run(0, "ln @ /file /second");
    assert_eq!(v.stat("/second")["nlink"], 2);
    v.run(0, "ln -s --owner 5:6 @ ../far/away /link");
    let link = v.stat("/link");
    assert_eq!((&link["target"], &link["uid"]), (&"../far/away".into(), &5.into()));
    v.run(0, "mknod -m 0660 @ /null c 1 3");
    v.run(0, "mknod @ /sda b 8 0");
    v.run(0, "mknod @ /pipe p");
    let null = v.stat("/null");
    assert_eq!((null["rdev"].clone(), mode_of(&null)), (serde_json::json!([1, 3]), 0o660));
    v.run(1, "ln @ /file /null");
    v.run(1, "ln @ / /root");
    v.run(2, "mknod @ /x c");
    v.run(2, "mknod @ /x p 1 2");
    v.run(1, "mknod @ /x c 99999 0");
    assert_eq!(v.ls("/"), "file link null pipe sda second");
}

#[test]
fn chmod_chown_and_touch_set_metadata() {
    let v = Made::new();
    v.run(0, "mkdir @ /d");
    v.run(0, "touch -d 2001-02-03T04:05:06.000000007Z @ /d/f");
    let f = v.stat("/d/f");
    assert_eq!((&f["mtime"]["sec"], &f["mtime"]["nsec"]), (&981_173_106.into(), &7.into()));
    v.run(0, "touch -c @ /none");
    v.run(0, "touch -a -d @1 @ /d/f");
    assert_eq!(
        (&v.stat("/d/f")["atime"]["sec"], &v.stat("/d/f")["mtime"]["sec"]),
        (&1.into(), &981_173_106.into())
    );
    v.run(0, "chmod @ 4755 /d/f");
    v.run(0, "chmod -R @ u+w,go-rx /d");
    assert_eq!((mode_of(&v.stat("/d")), mode_of(&v.stat("/d/f"))), (0o700, 0o4700));
    v.run(0, "chown -R @ 12:34 /d");
    let f = v.stat("/d/f");
    assert_eq!((mode_of(&f), &f["uid"], &f["gid"]), (0o700, &12.into(), &34.into()));
    v.run(0, "chown @ :5 /d/f");
    assert_eq!((&v.stat("/d/f")["uid"], &v.stat("/d/f")["gid"]), (&12.into(), &5.into()));
    v.run(1, "chmod @ 0644 /none");
    v.run(2, "chmod @ u+q /d");
    v.run(1, "chown @ 1 /none");
    v.run(2, "chown @ jane /d");
    v.run(2, "touch -d soon @ /d");
    v.run(1, "touch @ /no/where");
}

#[test]
fn xattr_sets_and_removes() {
    let v = Made::new();
    v.run(0, "touch @ /f");
    v.run_with(0, "xattr set @ /f user.note", &["two words"]);
    v.run(0, "xattr set --create @ /f trusted.bytes 0x00ff");
    v.run_with(0, "xattr set @ /f user.big", &[&"x".repeat(5000)]);
    assert_eq!(expect(0, &["xattr", "get", &v.image, "/f", "user.note"]).stdout, "two words");
    assert_eq!(expect(0, &["xattr", "get", &v.image, "/f", "trusted.bytes"]).bytes, [0, 255]);
    v.run(1, "xattr set --create @ /f user.note again");
    v.run(1, "xattr set --replace @ /f user.other x");
    v.run(1, "xattr set @ /f nonsense x");
    v.run(2, "xattr set @ /f user.x 0xz");
    v.run(0, "xattr rm @ /f user.note user.big");
    assert!(v.run(1, "xattr rm @ /f user.note").stderr.contains("no attribute user.note"));
    assert_eq!(expect(0, &["xattr", "list", &v.image, "/f"]).stdout, "trusted.bytes=0sAP8=\n");
}

#[test]
fn put_copies_files_trees_and_streams() {
    let v = Made::new();
    let dir = v.bench.path("tree");
    fs::create_dir_all(dir.join("sub/empty")).unwrap();
    fs::write(dir.join("hello"), "hello\n").unwrap();
    fs::set_permissions(dir.join("hello"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(dir.join("hello"), dir.join("sub/again")).unwrap();
    symlink("../hello", dir.join("sub/link")).unwrap();
    let sparse = fs::File::create(dir.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 10 << 20).unwrap();
    sparse.set_len(20 << 20).unwrap();
    let tree = shown(&dir);

    v.run(0, "mkdir @ /srv");
    v.run(0, &format!("put @ {tree} /srv"));
    v.run(0, &format!("put @ {tree} /copy"));
    v.run(0, &format!("put @ {tree}/. /"));
    for at in ["/srv/tree", "/copy", ""] {
        assert_eq!(v.cat(&format!("{at}/hello")), "hello\n");
        let hello = v.stat(&format!("{at}/hello"));
        assert_eq!((mode_of(&hello), &hello["nlink"]), (0o640, &2.into()));
        let mtime = fs::metadata(dir.join("hello")).unwrap().mtime();
        assert_eq!(hello["mtime"]["sec"], mtime);
        assert_eq!(v.stat(&format!("{at}/sub/link"))["target"], "../hello");
        let sparse = v.stat(&format!("{at}/sparse"));
        assert_eq!(sparse["size"], 20 << 20);
        assert!(sparse["blocks"].as_u64().unwrap() < 64, "{sparse}");
        assert_eq!(v.ls(&format!("{at}/sub")), "again empty link");
    }
    // A second copy replaces the first, also under another name.
    v.run(0, &format!("put --owner 3:4 @ {tree}/hello {tree}/sparse /srv"));
    v.run(0, &format!("put --owner 3:4 @ {tree}/hello /srv/sparse"));
    assert_eq!(
        (v.cat("/srv/sparse").as_str(), &v.stat("/srv/sparse")["uid"]),
        ("hello\n", &3.into())
    );
    assert_eq!(v.ls("/srv"), "hello sparse tree");

    v.run(1, &format!("put @ {tree}/hello {tree}/sparse /srv/none"));
    v.run(1, &format!("put @ {tree} /hello/x"));
    v.run(2, "put @ /no/such/file /srv");
    // A directory does not replace a file, nor a file a directory.
    v.run(1, &format!("put @ {tree} /srv/hello"));
    fs::create_dir_all(v.bench.path("clash/sub")).unwrap();
    fs::rename(dir.join("hello"), v.bench.path("sub")).unwrap();
    assert!(
        v.run(1, &format!("put @ {} /copy", shown(&v.bench.path("sub"))))
            .stderr
            .contains("is there")
    );
}

#[test]
fn put_reads_standard_input_and_archives() {
    let v = Made::new();
    let put = |code, args: &[&str], input: &[u8]| feed(code, &[&["put"], args].concat(), input);
    let big = vec![7; 3_000_001];
    put(0, &[&v.image, "-", "/built"], b"today\n");
    v.run(0, "chmod @ 0600 /built");
    put(0, &[&v.image, "-", "/built"], &big);
    assert_eq!(expect(0, &["cat", &v.image, "/built"]).bytes, big);
    assert_eq!(mode_of(&v.stat("/built")), 0o600);
    put(1, &[&v.image, "-", "/"], b"x");
    v.run(0, "mkdir -p @ /etc/d");
    let args = ["put", &v.image, "-", "/etc/d"];
    let child = begin(&args);
    assert!(ended(1, child, &args).contains("/etc/d: a directory is there"));

    let tar = v.bench.path("a.tar");
    let dir = v.bench.path("d");
    fs::create_dir_all(dir.join("in")).unwrap();
    fs::write(dir.join("in/file"), "from tar").unwrap();
    let made = Command::new("tar").arg("-cf").arg(&tar).arg("-C").arg(&dir).arg("in").status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: tar is not installed");
        return;
    }
    v.run(0, "mkdir @ /opt");
    v.run(0, &format!("put --tar @ {} /opt", shown(&tar)));
    put(0, &["--tar", &v.image, "-", "/new"], &fs::read(&tar).unwrap());
    assert_eq!(
        (v.cat("/opt/in/file"), v.cat("/new/in/file")),
        ("from tar".into(), "from tar".into())
    );
    v.run(2, &format!("put --tar @ {} /opt", shown(&dir.join("in/file"))));
}

#[test]
fn ctrl_c_leaves_a_volume_consistent_and_closed() {
    let v = Made::new();
    v.run(0, "mkdir @ /before");
    for args in [&["put", &v.image, "-", "/file"][..], &["shell", &v.image]] {
        let mut child = begin(args);
        let mut input = child.stdin.take().unwrap();
        // More than the pipe holds, so the command has read when this is written.
        let lines = b"touch /touched\n".repeat(8000);
        input.write_all(&lines).unwrap();
        interrupt(&child);
        assert!(ended(130, child, args).contains("stopped"));
        drop(input);
        let info = json(&["info", "--json", &v.image]).remove(0);
        assert_eq!(info["journal"]["clean"], true);
    }
    let names = v.ls("/");
    assert!(names == "before" || names == "before touched", "{names}");
}

#[test]
fn volumes_that_cannot_be_written_are_refused_untouched() {
    let bench = Bench::new();
    let v4 = bench.kept("v4");
    let before = fs::read(&v4).unwrap();
    let run = expect(2, &["mkdir", &shown(&v4), "/x"]);
    assert!(run.stderr.contains("version 4"), "{}", run.stderr);
    assert!(fs::read(&v4).unwrap() == before);
    expect(2, &["mkdir", &shown(&bench.path("none.img")), "/x"]);
    let junk = bench.file("junk.img", &vec![1; 1 << 20]);
    expect(2, &["rm", &shown(&junk), "/x"]);
}

#[test]
fn truncate_and_fallocate_change_ranges() {
    let v = Made::new();
    v.run(0, "truncate -s 1M @ /f");
    assert_eq!((&v.stat("/f")["size"], &v.stat("/f")["blocks"]), (&(1 << 20).into(), &0.into()));
    v.run(0, "fallocate -o 4k -l 64k @ /f");
    assert_eq!(v.stat("/f")["blocks"], 128);
    v.run(0, "fallocate --punch-hole -o 8k -l 8k @ /f");
    assert_eq!(v.stat("/f")["blocks"], 112);
    v.run(0, "fallocate --keep-size -o 1M -l 4k @ /f");
    v.run(0, "fallocate --zero-range -l 4k @ /f");
    v.run(0, "fallocate --insert-range -l 4k @ /f");
    assert_eq!(v.stat("/f")["size"], (1 << 20) + 4096);
    v.run(0, "fallocate --collapse-range -l 8k @ /f");
    assert_eq!(v.stat("/f")["size"], (1 << 20) - 4096);
    v.run(1, "fallocate --collapse-range -o 1 -l 4k @ /f");
    v.run(1, "fallocate -l 0 @ /f");
    v.run(1, "fallocate -l 400M @ /f");
    v.run(2, "fallocate --punch-hole --zero-range -l 4k @ /f");
    v.run(1, "truncate -s 0 @ /none/f");
    v.run(0, "truncate -s 0 @ /f");
    assert_eq!(v.stat("/f")["blocks"], 0);
    // Missing files are made, unless that fails or is not requested.
    v.run(0, "truncate -c -s 0 @ /g");
    v.run(1, "fallocate --punch-hole -l 4k @ /g");
    v.run(1, "fallocate -l 400M @ /g");
    assert_eq!(v.ls("/"), "f");
    v.run(0, "fallocate --owner 7:8 -l 64k @ /g");
    v.run(0, "truncate --owner 7:8 -s 7E @ /h /i");
    assert_eq!((&v.stat("/g")["blocks"], &v.stat("/g")["uid"]), (&128.into(), &7.into()));
    assert_eq!((v.ls("/").as_str(), &v.stat("/h")["gid"]), ("f g h i", &8.into()));
}

#[test]
fn blocks_behind_the_end_of_a_file_are_kept_and_freed_as_on_linux() {
    if !xfskit_test_support::needs(&[xfskit_test_support::Need::Mount]) {
        return;
    }
    let v = Made::new();
    v.run(0, "truncate -s 103424 @ /f");
    let scratch = Scratch::new("behind-the-end");
    fs::copy(&v.path, scratch.path().join("linux.img")).unwrap();
    let linux = Image::existing(&scratch, "linux.img");
    let mount = Mount::read_write(&linux, &scratch).unwrap();
    for act in [
        "-o 0 -l 103424",
        "--keep-size -o 1048576 -l 1048576",
        "--insert-range -o 4096 -l 8192",
        "--punch-hole -o 8192 -l 4096",
        "--punch-hole -o 1572864 -l 65536",
        "--collapse-range -o 4096 -l 4096",
        "--keep-size -o 65536 -l 1048576",
        "--zero-range --keep-size -o 90000 -l 300000",
        "--insert-range -o 20480 -l 4096",
        "--collapse-range -o 0 -l 16384",
    ] {
        v.run(0, &format!("fallocate {act} @ /f"));
        let theirs = mount.path().join("f");
        let acted = Command::new("fallocate").args(act.split(' ')).arg(&theirs).status();
        assert!(acted.unwrap().success(), "{act}");
        let (ours, theirs) = (v.stat("/f"), fs::metadata(&theirs).unwrap());
        let found = (ours["size"].as_u64().unwrap(), ours["blocks"].as_u64().unwrap());
        assert_eq!(found, (theirs.len(), theirs.blocks()), "{act}");
    }
    mount.unmount().unwrap();
}

#[test]
fn cp_copies_and_shares() {
    let v = Made::new();
    let big = v.bench.file("big", &vec![9; 1 << 20]);
    v.run(0, "mkdir -p -m 0700 @ /d/sub");
    v.run(0, &format!("put @ {} /d/big", shown(&big)));
    v.run(0, "ln @ /d/big /d/sub/again");
    v.run(0, "xattr set @ /d/big user.k v");
    v.run(0, "cp -r @ /d /e");
    v.run(0, "cp -r @ /d/sub /d/again");
    v.run(0, "cp --reflink @ /d/big /shared");
    for copy in ["/e/big", "/e/sub/again", "/d/again/again", "/shared"] {
        assert_eq!(expect(0, &["cat", &v.image, copy]).bytes, vec![9; 1 << 20]);
        assert_eq!(expect(0, &["xattr", "get", &v.image, copy, "user.k"]).stdout, "v");
    }
    assert_eq!((&v.stat("/e/big")["nlink"], mode_of(&v.stat("/e/sub"))), (&2.into(), 0o700));
    let at = |path: &str| {
        json(&["stat", "--json", "--extents", &v.image, path])[0]["extents"][0]["startblock"]
            .clone()
    };
    assert_eq!(at("/shared"), at("/d/big"));
    assert_ne!(at("/e/big"), at("/d/big"));
    v.run(1, "cp @ /d /f");
    v.run(1, "cp @ /none /f");
    v.run(1, "cp @ /shared /shared");
}

#[test]
fn cp_of_a_directory_below_itself_changes_nothing() {
    let v = Made::new();
    v.run(0, "mkdir -p @ /d/sub/deep");
    v.run(0, "ln -s @ /d/sub /way");
    for to in ["/d", "/d/new", "/d/sub", "/d/sub/deep/new", "/way/new"] {
        assert!(v.run(1, &format!("cp -r @ /d {to}")).stderr.contains("below itself"), "{to}");
    }
    v.run(1, "cp -r @ / /d/all");
    v.run(1, "cp -r @ / /all");
    assert_eq!([v.ls("/"), v.ls("/d"), v.ls("/d/sub")], ["d way", "sub", "deep"]);
    assert_eq!(v.ls("/d/sub/deep"), "");
}

#[test]
fn label_is_written_to_all_superblocks() {
    let v = Made::new();
    v.run(0, "label @ data");
    assert_eq!(v.run(0, "label @").stdout, "data\n");
    for agno in ["0", "1", "3"] {
        let sb = expect(0, &["inspect", &v.image, "sb", agno]).stdout;
        assert!(sb.contains("data"), "{sb}");
    }
    v.run(1, "label @ thirteenbytes");
    v.run_with(0, "label @", &[""]);
    assert_eq!(v.run(0, "label @").stdout, "\n");
    assert_eq!(json(&["label", "--json", &v.image])[0]["label"], "");
}

#[test]
fn uuid_is_shown_set_and_restored() {
    let v = Made::new();
    let shown = |line: &str| v.run(0, line).stdout.trim().to_owned();
    let original = shown("uuid @");
    let before = fs::read(&v.path).unwrap();
    assert_eq!(shown("uuid @"), original);
    assert!(fs::read(&v.path).unwrap() == before, "looking changes nothing");
    let new = shown("uuid @ generate");
    assert_ne!(new, original);
    v.run(0, "mkdir @ /d");
    let both = json(&["uuid", "--json", &v.image]).remove(0);
    assert_eq!((&both["uuid"], &both["meta_uuid"]), (&new.into(), &original.clone().into()));
    let wanted = "8f1c2c6e-54c5-4a0c-a1b5-1ea8b2ba6fd9";
    assert_eq!(shown(&format!("uuid @ {wanted}")), wanted);
    assert!(v.run(0, "uuid @ nil").stderr.contains("nouuid"));
    assert_eq!(shown("uuid @ restore"), original);
    assert_eq!(v.run(0, "uuid -q @ restore").stdout, "");
    assert!(!v.run(0, "info @").stdout.contains("meta_uuid"));
    v.run(2, "uuid @ nonsense");
    v.run(0, "check @");
}

#[test]
fn a_path_is_printed_once_in_a_message() {
    let v = Made::new();
    v.run(0, "mkdir @ /d");
    for line in ["rm @ /d", "rm @ /none", "chmod @ 644 /none", "cp @ /d /e"] {
        let run = v.run(1, line);
        let path = if line.contains("none") { "/none" } else { "/d" };
        assert_eq!(run.stderr.matches(path).count(), 1, "{line}: {}", run.stderr);
    }
    v.run(0, "touch @ /f");
    assert!(v.run(1, "mv @ /d /f").stderr.contains("/f: not a directory"));
    assert!(v.run(1, "mv @ /f /none/f").stderr.contains("/none: no such file or directory"));
    assert!(v.run(1, "mkdir @ /d").stderr.contains("/d: file exists"));
    assert!(v.run(1, "truncate @ /d -s 5").stderr.contains("/d: is a directory"));
    assert!(v.run(1, "mkdir @ here/there").stderr.contains("\"here/there\" is not absolute"));
    let fault = v.run(1, "rm --json @ /d").stdout;
    assert!(fault.contains(r#""path":"/d","message":"is a directory""#), "{fault}");
}

#[test]
fn shell_runs_many_commands_in_one_open() {
    let v = Made::new();
    let script = |text: &str| shown(&v.bench.file("script", text.as_bytes()));
    let lines = "# a comment\nmkdir -p /a/b\n\ntouch '/a/two words' /a/x\nsync\nls /a\n\
                 xattr set /a/x user.k v\nxattr get /a/x user.k\nmv /a/x /a/y\nstat /a/y\nquit\nnonsense\n";
    let run = v.run(0, &format!("shell --file {} @", script(lines)));
    assert!(run.stdout.starts_with("b\ntwo words\nx\nv"), "{}", run.stdout);
    assert_eq!(v.ls("/a"), "b two words y");
    let lines = "rm /none\nmkdir /after\nmkfs\nlabel 'open\nuuid nil\n";
    let run = v.run(1, &format!("shell --file {} @", script(lines)));
    assert!(run.stderr.contains("/none") && run.stderr.contains("mkfs"), "{}", run.stderr);
    let run = v.run(0, &format!("shell --file {} @", script("help ls\n")));
    assert!(run.stdout.contains("--full-time"), "{}", run.stdout);
    let lines =
        "df --json\nfallocate -l 10M /a/big\ndf --json\nlabel new\nlabel\nuuid\nrm /a/big\n";
    let run = v.run(0, &format!("shell --file {} @", script(lines)));
    let lines: Vec<&str> = run.stdout.lines().collect();
    let free = |line: &str| serde_json::from_str::<Value>(line).unwrap()["free"].as_u64().unwrap();
    assert_eq!(free(lines[0]), free(lines[1]) + (10 << 20), "df counts what was done before it");
    assert_eq!((lines[2], lines.len()), ("new", 4));
    v.run(1, &format!("shell --strict --file {} @", script("rm /none\nmkdir /never\n")));
    assert_eq!(v.ls("/"), "a after");
    v.run(2, "shell --file /no/such/file @");
}
