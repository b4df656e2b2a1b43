//! `xfskit md` commands on the array below a mount, while programs use the mount.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use xfskit_test_support::image::Scratch;
use xfskit_test_support::verify;

use super::common::{begin, expect, json, shown};
use super::mount::{is_mounted, possible, until};

/// Files that are written and read again.
const FILES: usize = 20;

/// An array of five members and a spare, with a volume that is mounted.
struct Place {
    members: Vec<PathBuf>,
    dir: PathBuf,
    scratch: Scratch,
}

impl Place {
    fn new(purpose: &str, member_size: &str) -> Self {
        let scratch = Scratch::new(purpose);
        let members = (0..5).map(|n| scratch.path().join(format!("m{n}"))).collect();
        let dir = scratch.path().join("mnt");
        fs::create_dir(&dir).unwrap();
        let place = Self { members, dir, scratch };
        let members: Vec<String> = place.members.iter().map(|path| shown(path)).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let (active, spare) = members.split_at(4);
        let options = ["md", "create", "-q", "--level", "6", "--chunk", "64K", "--member-size"];
        expect(0, &[&options[..], &[member_size, "--assume-clean"], active].concat());
        let four = format!("md:{}", active.join(","));
        expect(0, &["md", "add", "--member-size", member_size, &four, spare[0]]);
        expect(0, &["mkfs", &place.target()]);
        let log = shown(&place.log());
        expect(0, &["mount", "--log", &log, &place.target(), &shown(&place.dir)]);
        place
    }

    fn log(&self) -> PathBuf {
        self.scratch.path().join("mount.log")
    }

    fn target(&self) -> String {
        let members: Vec<String> = self.members.iter().map(|path| shown(path)).collect();
        format!("md:{}", members.join(","))
    }

    fn member(&self, n: usize) -> String {
        shown(&self.members[n])
    }

    /// Returns the state of a member, as the process of the mount has it.
    fn state(&self, n: usize) -> String {
        let detail = &json(&["md", "detail", "--json", &shown(&self.dir)])[0];
        let members = detail["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["name"] == *self.member(n));
        member.map_or("absent".into(), |member| member["state"].as_str().unwrap().to_owned())
    }

    /// Runs `work` while files of the mount are written and read back.
    fn while_used(&self, work: impl FnOnce()) {
        /// Stops the thread, after a panic too.
        struct Stop<'s>(&'s AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let user = scope.spawn(|| {
                let mut n = 0;
                while n < FILES || !stop.load(Ordering::Relaxed) {
                    write_and_read(&self.dir.join(format!("used-{}", n % FILES)), n);
                    n += 1;
                }
            });
            let stop = Stop(&stop);
            work();
            drop(stop);
            user.join().unwrap();
        });
    }

    /// Unmounts, and verifies the volume on the array without these members.
    fn end(&self, without: [usize; 2]) {
        expect(0, &["umount", &shown(&self.dir)]);
        assert!(!is_mounted(&self.dir));
        let names = (0..5).filter(|n| !without.contains(n)).map(|n| self.member(n));
        let target = format!("md:{}", names.collect::<Vec<_>>().join(","));
        let image = self.scratch.path().join("volume.img");
        fs::write(&image, expect(0, &["md", "dump", &target]).bytes).unwrap();
        verify::file(&image).expect("a sound volume");
        for n in 0..FILES {
            let content = expect(0, &["cat", &shown(&image), &format!("/used-{n}")]).bytes;
            assert!(content.iter().all(|byte| *byte == content[0]), "{n}");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A test that failed leaves its mount.
        let _ = rustix::mount::unmount(&self.dir, rustix::mount::UnmountFlags::DETACH);
    }
}

fn write_and_read(path: &Path, n: usize) {
    let content = vec![u8::try_from(n % 251).unwrap(); 10_000 + n * 7919 % 300_000];
    fs::write(path, &content).unwrap();
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    assert!(fs::read(path).unwrap() == content, "{}", path.display());
}

/// Asks mdadm, where it is installed, whether a member is active.
fn is_active(member: &str) -> bool {
    let Ok(examined) = Command::new("mdadm").args(["--examine", member]).output() else {
        eprintln!("skipped: what mdadm says of {member} (there is no mdadm)");
        return true;
    };
    String::from_utf8_lossy(&examined.stdout).contains("Device Role : Active device")
}

#[test]
fn a_member_is_replaced_while_files_are_written() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-array-replace", "128M");
    let (dir, old) = (shown(&place.dir), place.member(1));
    place.while_used(|| {
        let said = expect(0, &["md", "replace", &dir, &old]).stderr;
        assert!(said.contains(&format!("replaces {old}")), "{said}");
    });
    assert_eq!(place.state(4), "in sync");
    // Stale, if the array was clean and dirty again since.
    let replaced = place.state(1);
    assert!(replaced.contains("failed") || replaced.starts_with("stale"), "{replaced}");
    let refused = expect(1, &["md", "replace", &dir, &place.member(0)]);
    assert!(refused.stderr.contains("no spare"), "{}", refused.stderr);
    place.while_used(|| drop(expect(0, &["md", "scrub", &dir])));
    // The spare has what it replaced: two others are not needed.
    place.end([1, 2]);
    assert!(is_active(&place.member(4)));
}

#[test]
fn a_member_is_taken_out_of_use_and_the_spare_is_filled() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-array-fail", "128M");
    let dir = shown(&place.dir);
    place.while_used(|| {
        let said = expect(0, &["md", "fail", &dir, &place.member(2)]).stderr;
        assert!(said.contains("is out of use"), "{said}");
        until("the spare is filled", || place.state(4) == "in sync");
        expect(0, &["md", "rebuild", &dir]);
    });
    let log = fs::read_to_string(place.log()).unwrap();
    let failed = format!("a member of the array failed; member: {}; role: 2", place.member(2));
    let taken = log.find("a spare takes the place of the member; role: 2");
    assert!(log.find(&failed).is_some_and(|at| taken.is_some_and(|taken| at < taken)), "{log}");
    // A third member that fails is more than the level allows.
    expect(0, &["md", "fail", &dir, &place.member(0)]);
    expect(0, &["md", "fail", &dir, &place.member(1)]);
    let refused = expect(1, &["md", "fail", &dir, &place.member(3)]);
    assert!(refused.stderr.contains("cannot work without"), "{}", refused.stderr);
    let incomplete = expect(1, &["md", "rebuild", &dir]);
    assert!(incomplete.stderr.contains("no member"), "{}", incomplete.stderr);
    place.while_used(|| {});
    place.end([0, 1]);
}

#[test]
fn wrong_data_of_a_member_are_found_and_corrected() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-array-scrub", "128M");
    let dir = shown(&place.dir);
    place.while_used(|| {});
    // Behind the superblock and the log of its data: content that the kernel of md would not see.
    let member = fs::File::options().write(true).open(&place.members[0]).unwrap();
    member.write_all_at(&[0x55; 4096], 100 << 20).unwrap();
    let found = expect(1, &["md", "scrub", &dir]);
    assert!(found.stdout.contains("role 0) is wrong"), "{}", found.stdout);
    let repaired = &json(&["md", "scrub", "--json", "--repair", &dir]);
    let total = repaired.last().unwrap();
    assert!(total["pages"] == 1 && total["repaired"] == 1, "{total}");
    let clean = expect(0, &["md", "scrub", &dir]);
    assert!(clean.stdout.contains("mismatch_cnt 0"), "{}", clean.stdout);
    place.end([2, 3]);
}

#[test]
fn an_action_ends_with_its_command_and_with_the_mount() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-array-end", "256M");
    let dir = shown(&place.dir);
    place.while_used(|| {});
    let mut slow = begin(&["md", "scrub", "--rate", "1M", &dir]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    slow.kill().unwrap();
    slow.wait().unwrap();
    // One action at a time: this one waits for the other, which has seen that its command is gone.
    expect(0, &["md", "scrub", &dir]);
    let mut slow = begin(&["md", "scrub", "--rate", "1M", &dir]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    place.end([0, 1]);
    assert!(!slow.wait().unwrap().success());
}

#[test]
fn devices_are_added_and_removed_while_files_are_written() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-array-add", "128M");
    let dir = shown(&place.dir);
    place.while_used(|| {
        // The spare goes, and comes back when a member is missing.
        let said = expect(0, &["md", "remove", &dir, &place.member(4)]).stderr;
        assert!(said.contains("was removed"), "{said}");
        assert_eq!(place.state(4), "absent");
        expect(0, &["md", "fail", &dir, &place.member(1)]);
        assert!(expect(1, &["md", "rebuild", &dir]).stderr.contains("no member"));
        let said = expect(0, &["md", "add", &dir, &place.member(4)]).stderr;
        assert!(said.contains("is a spare now") && said.contains("takes role 1"), "{said}");
        assert_eq!(place.state(4), "in sync");
        // The member that failed becomes a spare, and replaces another.
        expect(0, &["md", "remove", &dir, &place.member(1)]);
        assert_eq!(place.state(1), "absent");
        let occupied = expect(1, &["md", "remove", &dir, &place.member(0)]);
        assert!(occupied.stderr.contains("is in use"), "{}", occupied.stderr);
        let said = expect(0, &["md", "add", &dir, &place.member(1)]).stderr;
        assert!(said.contains("is a spare now"), "{said}");
        assert_eq!(place.state(1), "spare");
        expect(0, &["md", "replace", &dir, &place.member(0)]);
        assert_eq!(place.state(1), "in sync");
    });
    let clean = expect(0, &["md", "scrub", &dir]);
    assert!(clean.stdout.contains("mismatch_cnt 0"), "{}", clean.stdout);
    place.end([0, 2]);
    assert!(is_active(&place.member(1)) && is_active(&place.member(4)));
}

#[test]
fn a_device_that_is_added_is_named_from_where_the_command_runs() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-array-add-relative", "128M");
    let dir = shown(&place.dir);
    let add = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xfskit"));
        command.current_dir(place.scratch.path()).args(["md", "add"]).args(more);
        let out = command.arg(&dir).arg("new.img").output().expect("it runs");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, said) = add(&[]);
    assert!(code == Some(2) && said.contains("--member-size"), "{said}");
    let (code, said) = add(&["--member-size", "128M"]);
    let new = place.scratch.path().join("new.img");
    assert!(code == Some(0) && said.contains(&format!("{} is a spare", shown(&new))), "{said}");
    let (code, said) = add(&[]);
    assert!(code == Some(1) && said.contains("is a member already: spare"), "{said}");
    place.while_used(|| {
        drop(expect(0, &["md", "replace", "--with", &shown(&new), &dir, &place.member(2)]));
    });
    expect(0, &["umount", &dir]);
    assert!(is_active(&shown(&new)));
}
