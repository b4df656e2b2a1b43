//! `xfskit mount` by ordinary users, and mounts that are not in use.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use xfskit_test_support::skip;

use super::common::{Run, expect, json, shown, unless_busy, xfskit};
use super::mount::{Place, is_mounted, possible, until};
use super::mount_helper;

/// User and group `nobody` of Debian.
const NOBODY: u32 = 65534;

/// A volume, a mount point and a copy of the program, all of `nobody`.
struct Own {
    place: Place,
    program: PathBuf,
}

impl Own {
    fn new(purpose: &str) -> Self {
        let place = Place::new(purpose);
        let program = place.scratch.path().join("xfskit");
        // The folder of the build may be closed to others.
        fs::copy(env!("CARGO_BIN_EXE_xfskit"), &program).unwrap();
        for path in [place.scratch.path(), &place.image, &place.dir] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Self { place, program }
    }

    /// Returns a command that runs as `nobody`.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.uid(NOBODY).gid(NOBODY).current_dir(self.place.scratch.path());
        command
    }

    fn xfskit(&self, args: &[&str]) -> Run {
        let xfskit = || run(self.command(&self.program).args(args));
        if args[0] == "umount" { unless_busy(xfskit) } else { xfskit() }
    }

    /// Runs a line of shell as `nobody`, which succeeds.
    fn shell(&self, line: &str) -> String {
        let run = run(self.command(Path::new("sh")).args(["-e", "-c", line]));
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
        run.stdout
    }
}

fn run(command: &mut Command) -> Run {
    let output = loop {
        match command.output() {
            // Another test's child has the copy of the program open for a moment after its fork.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            output => break output.unwrap(),
        }
    };
    Run::of(output)
}

/// Returns whether an ordinary user can mount here.
fn possible_for_users() -> bool {
    if !possible() {
        return false;
    }
    let is_open = fs::metadata("/dev/fuse").is_ok_and(|dev| dev.permissions().mode() & 6 == 6);
    let there = is_open && Command::new("fusermount3").arg("-V").output().is_ok();
    if !there {
        skip::skip("fusermount3, and /dev/fuse for all users");
    }
    there
}

#[test]
fn a_user_mounts_a_volume_whose_files_are_of_root() {
    if !possible_for_users() {
        return;
    }
    let own = Own::new("cli-mount-user");
    let (image, dir) = (shown(&own.place.image), shown(&own.place.dir));
    expect(0, &["mkdir", "--owner", "5:5", &image, "/five"]);
    // Without a map the root directory is another user's.
    let mounted = own.xfskit(&["mount", &image, &dir]);
    assert_eq!(mounted.code, 0, "{}", mounted.stderr);
    own.shell("stat -c %u:%g mnt | grep -x 0:0; ! touch mnt/file 2>/dev/null");
    assert_eq!(own.xfskit(&["umount", &dir]).code, 0);
    let mounted = own.xfskit(&["mount", "--idmap", "user", &image, &dir]);
    assert_eq!(mounted.code, 0, "{}", mounted.stderr);
    own.shell("stat -c %u:%g mnt | grep -x 65534:65534");
    own.shell("stat -c %u:%g mnt/five | grep -x 5:5");
    own.shell("mkdir mnt/dir; echo text > mnt/dir/file; ln -s file mnt/dir/link; mkfifo mnt/fifo");
    own.shell("chmod 600 mnt/dir/file; stat -c %u:%g mnt/dir/file | grep -x 65534:65534");
    own.shell("find mnt -user 65534 | grep -c . | grep -x 5; rm mnt/fifo");
    let stats = own.xfskit(&["stats", &dir]);
    assert!(stats.stdout.contains("create"), "{}", stats.stderr);
    let ended = own.xfskit(&["umount", &dir]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!is_mounted(&own.place.dir));
    own.place.verify();
    for path in ["/", "/dir", "/dir/file", "/dir/link"] {
        let stat = &json(&["stat", "--json", &image, path])[0];
        assert_eq!((&stat["uid"], &stat["gid"]), (&0.into(), &0.into()), "{path}");
    }
    assert_eq!(xfskit(&["cat", &image, "/dir/file"]).stdout, "text\n");
}

#[test]
fn a_name_with_commas_and_blanks_is_mounted_by_a_user() {
    if !possible_for_users() {
        return;
    }
    let own = Own::new("cli-mount-comma");
    let image = own.place.scratch.path().join("a, b\\c.img");
    fs::rename(&own.place.image, &image).unwrap();
    let dir = shown(&own.place.dir);
    let mounted = own.xfskit(&["mount", &shown(&image), &dir]);
    assert_eq!(mounted.code, 0, "{}", mounted.stderr);
    let source = run(Command::new("findmnt").args(["-n", "-o", "SOURCE", &dir])).stdout;
    assert_eq!(source.trim(), shown(&image));
    assert_eq!(own.xfskit(&["umount", &dir]).code, 0);
}

#[test]
fn a_user_mounts_synchronously() {
    if !possible_for_users() {
        return;
    }
    let own = Own::new("cli-mount-user-sync");
    let (image, dir) = (shown(&own.place.image), shown(&own.place.dir));
    let mounted = own.xfskit(&["mount", "--idmap", "user", "-o", "sync", &image, &dir]);
    assert_eq!(mounted.code, 0, "{}", mounted.stderr);
    own.shell("echo text > mnt/file");
    let requests = json(&["stats", "--json", &dir])[0]["requests"].clone();
    let made = requests.as_array().unwrap().iter().any(|made| made["kind"] == "fsync");
    assert!(made, "the kernel does not wait for a write: {requests}");
    assert_eq!(own.xfskit(&["umount", &dir]).code, 0);
    own.place.verify();
}

#[test]
fn a_user_mounts_a_line_of_fstab() {
    if !possible_for_users() {
        return;
    }
    let own = Own::new("cli-mount-user-fstab");
    let (image, dir) = (shown(&own.place.image), shown(&own.place.dir));
    let fstab = format!("{image} {dir} fuse.xfskit noauto,user,idmap=user 0 0\n");
    mount_helper::run(
        &own.place,
        &fstab,
        r#"
        ln -sf "$(dirname "$dir")/xfskit" /sbin/mount.fuse.xfskit
        ln -sf "$(dirname "$dir")/xfskit" /sbin/umount.fuse.xfskit
        nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        nobody mount "$dir"
        nobody dd if=/dev/urandom of="$dir/file" bs=1M count=60 status=none
        sum=$(nobody sha256sum "$dir/file")
        nobody umount "$dir"
        # The volume is closed when umount(8) returns.
        "$xfskit" label "$image" closed
        test "$(nobody "$(dirname "$dir")/xfskit" cat "$image" /file | sha256sum)" = "${sum%% *}  -"
        "#,
    );
    own.place.verify();
}

#[test]
fn a_user_without_rights_is_told_before_anything_is_detached() {
    if !possible_for_users() {
        return;
    }
    let own = Own::new("cli-mount-refused");
    let (image, dir) = (shown(&own.place.image), shown(&own.place.dir));
    chown(&own.place.dir, Some(0), Some(0)).unwrap();
    let refused = own.xfskit(&["mount", &image, &dir]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("a mount point of their own"), "{}", refused.stderr);
    chown(&own.place.dir, Some(NOBODY), Some(NOBODY)).unwrap();
    for (hide, says) in [
        ("true", "fusermount3 is missing"),
        // The volume may be in /dev/shm.
        (
            "mkdir kept; mount --bind /dev/shm kept; mount -t tmpfs none /dev; mkdir /dev/shm; \
             mount --move kept /dev/shm; rmdir kept",
            "/dev/fuse is missing",
        ),
    ] {
        let program = shown(&own.program);
        let script = format!(
            "set -e; setpriv=$(command -v setpriv); {hide}; PATH=/none exec \"$setpriv\" --reuid 65534 \
             --regid 65534 --clear-groups {program} mount {image} {dir}"
        );
        let unshared = ["--mount", "--propagation", "private", "sh", "-c", &script];
        let mut command = Command::new("unshare");
        let missing = run(command.args(unshared).current_dir(own.place.scratch.path()));
        assert_eq!(missing.code, 2, "{}", missing.stderr);
        assert!(missing.stderr.contains(says), "{}", missing.stderr);
    }
    chown(&own.place.image, Some(0), Some(0)).unwrap();
    fs::set_permissions(&own.place.image, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = own.xfskit(&["mount", &image, &dir]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("Permission denied"), "{}", refused.stderr);
    // A volume that can be read is mounted read-only.
    let mounted = own.xfskit(&["mount", "-o", "ro", "--idmap", "user", &image, &dir]);
    assert_eq!(mounted.code, 0, "{}", mounted.stderr);
    own.shell("ls mnt; ! touch mnt/file 2>/dev/null");
    assert_eq!(own.xfskit(&["umount", &dir]).code, 0);
}

#[test]
fn a_map_that_is_not_valid_exits_2_before_anything_is_mounted() {
    let place = Place::new("cli-mount-map");
    let (image, dir) = (shown(&place.image), shown(&place.dir));
    for (map, says) in [
        ("b:0:1", "TYPE:VOLUME:SHOWN:COUNT"),
        ("u:0:1000:10 u:5:3000:1", "u:0:1000:10 and u:5:3000:1"),
        ("g:0:1000:4294967295", "none above 4294967294"),
    ] {
        let run = xfskit(&["mount", "--idmap", map, &image, &dir]);
        assert_eq!(run.code, 2, "{map}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{map}: {}", run.stderr);
        assert!(!is_mounted(&place.dir));
    }
}

/// Waits until nothing is mounted, and returns how long that took.
fn until_gone(dir: &Path) -> Duration {
    let start = Instant::now();
    until("unmounted", || !is_mounted(dir));
    start.elapsed()
}

#[test]
fn a_mount_that_is_not_used_is_unmounted_and_one_in_use_is_not() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-mount-idle");
    let image = shown(&place.image);
    place.mount(&["--idle-timeout", "1"]);
    // Written, and not closed: the kernel holds the content.
    let file = fs::File::create(place.dir.join("file")).unwrap();
    std::io::Write::write_all(&mut &file, &vec![7; 3 << 20]).unwrap();
    std::thread::sleep(Duration::from_secs(4));
    assert!(is_mounted(&place.dir), "a file is open");
    drop(file);
    // What the kernel replies from its caches is use as well.
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(fs::metadata(place.dir.join("file")).unwrap().size(), 3 << 20);
    }
    let mut child = Command::new("sleep").arg("3").current_dir(&place.dir).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(is_mounted(&place.dir), "a process has its working directory there");
    child.wait().unwrap();
    until_gone(&place.dir);
    // The process closes the volume behind the mount.
    until("closed", || xfskit(&["label", &image, "idle"]).code == 0);
    assert_eq!(xfskit(&["cat", &image, "/file"]).bytes, vec![7; 3 << 20]);
    place.verify();
}

#[test]
fn a_mount_of_a_user_that_is_not_used_is_unmounted() {
    if !possible_for_users() {
        return;
    }
    let own = Own::new("cli-mount-idle-user");
    let (image, dir) = (shown(&own.place.image), shown(&own.place.dir));
    let mounted = own.xfskit(&["mount", "-o", "idle-timeout=1,idmap=user", &image, &dir]);
    assert_eq!(mounted.code, 0, "{}", mounted.stderr);
    let mut child = own.command(Path::new("sh"));
    child.args(["-c", "echo text > mnt/file; exec 9< mnt/file; sleep 4"]);
    let mut child = child.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(3500));
    assert!(is_mounted(&own.place.dir), "a file is open");
    assert!(child.wait().unwrap().success());
    until_gone(&own.place.dir);
    until("closed", || xfskit(&["label", &image, "idle"]).code == 0);
    assert_eq!(xfskit(&["cat", &image, "/file"]).stdout, "text\n");
    own.place.verify();
}
