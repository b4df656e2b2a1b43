//! Two md arrays that are mounted at once: a RAID 6 with a member that fails under the mount, and a
//! RAID 5 without one of its members. Trees are copied between them.
//!
//! The member that fails lies in a filesystem in memory that is too small for it: its writes fail
//! when that is full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::command::{self, Running};
use crate::served::xfskit;
use crate::stage::{Ran, Stage, Stop};
use crate::tree;
use crate::volume::{MAKERS, Volume};

/// Time for one command.
const BOUND: Duration = Duration::from_mins(30);
/// Size of a member.
const MEMBER: &str = "1G";
/// Space of the member that fails.
const SPACE: &std::ffi::CStr = c"size=120m";
/// The tree that is copied.
const TREE: &str = "/usr/share";

/// A filesystem in memory.
struct Small(PathBuf);

impl Small {
    fn new(dir: PathBuf) -> Result<Self, Stop> {
        fs::create_dir(&dir)?;
        mount("tmpfs", &dir, "tmpfs", MountFlags::empty(), SPACE)?;
        Ok(Self(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Runs the rounds, each with new arrays.
pub(super) fn run(stage: &Stage) -> Ran {
    let mut entries = 0;
    for number in 0..stage.amount {
        entries = round(stage, number).map_err(|why| match why {
            Stop::Failed(why) => Stop::Failed(format!("round {number}: {why}")),
            skipped @ Stop::Skipped(_) => skipped,
        })?;
    }
    Ok(format!(
        "{} rounds: a member failed and was rebuilt, a member was missing; {entries} files on each",
        stage.amount
    ))
}

fn xfskit_md(stage: &Stage, args: &[&str]) -> Result<String, Stop> {
    let mut command = Command::new(xfskit());
    Ok(command::run(command.arg("md").args(args), BOUND, &stage.log)?.success()?)
}

fn target(members: &[&PathBuf]) -> String {
    let names: Vec<_> = members.iter().map(|path| path.display().to_string()).collect();
    format!("md:{}", names.join(","))
}

/// Makes an array of `members`, and a volume on it.
fn make(stage: &Stage, level: &str, members: &[PathBuf]) -> Result<(), Stop> {
    let names: Vec<String> = members.iter().map(|path| path.display().to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let options = ["create", "-q", "--level", level, "--chunk", "64K", "--member-size", MEMBER];
    xfskit_md(stage, &[&options[..], &["--assume-clean"], &names].concat())?;
    let all: Vec<&PathBuf> = members.iter().collect();
    Volume::make(&stage.log, &target(&all), MAKERS[0])?;
    Ok(())
}

fn round(stage: &Stage, number: u64) -> Result<usize, Stop> {
    let file = |name: &str| stage.file(&format!("{name}-{number}"));
    let small = Small::new(file("small"))?;
    let mut six: Vec<PathBuf> = (0..5).map(|n| file(&format!("six{n}"))).collect();
    six[3] = small.0.join("member");
    let five: Vec<PathBuf> = (0..4).map(|n| file(&format!("five{n}"))).collect();
    make(stage, "6", &six)?;
    make(stage, "5", &five)?;
    let (six_target, five_target) =
        (target(&six.iter().collect::<Vec<_>>()), target(&[&five[0], &five[2], &five[3]]));
    let mounted = |name: &str, target: &str| {
        Volume::mounted(&stage.scratch, &stage.log, &format!("{name}-{number}"), target)
    };
    let mut first = mounted("raid6", &six_target)?;
    let mut second = mounted("raid5", &five_target)?;
    copy_between(&mut first, &mut second)?;
    let six_tree = first.tree()?;
    let five_entries = second.end()?;
    // The member's failure is no failure of the mount.
    first.unmount()?;
    let detail = xfskit_md(stage, &["detail", &six_target])?;
    if !detail.contains("removed") && !detail.contains("faulty") && !detail.contains("missing") {
        return Err(format!("the member did not fail:\n{detail}").into());
    }
    drop(first);
    rebuild(stage, number, &mut six)?;
    drop(small);
    // Without two others, what was rebuilt is read.
    let rest = target(&[&six[2], &six[3], &six[4]]);
    let again = mounted("again", &rest)?;
    let entries = again.tree()?;
    let found = entries.entries.len();
    tree::same(six_tree, entries, tree::Compare::All)?;
    again.end()?;
    if found < 100 || five_entries < 100 {
        return Err(format!("{found} and {five_entries} files: too few to mean anything").into());
    }
    remove(&six, &five, stage)?;
    Ok(found)
}

/// Copies a tree to both, and from each to the other, at the same time.
fn copy_between(first: &mut Volume<'_>, second: &mut Volume<'_>) -> Result<(), Stop> {
    let copy = |from: &Path, to: &Path| {
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(from).arg(to);
        copy
    };
    let (one, other) = (first.path(), second.path());
    let into = Running::start(&mut copy(Path::new(TREE), &one.join("tree")))?;
    second.succeed(&mut copy(Path::new("/usr/include"), &other.join("include")), BOUND)?;
    first.wait(into, BOUND)?.success()?;
    let across = Running::start(&mut copy(&one.join("tree"), &other.join("tree")))?;
    first.succeed(&mut copy(&other.join("include"), &one.join("include")), BOUND)?;
    second.wait(across, BOUND)?.success()?;
    for name in ["tree", "include"] {
        let mut compare = Command::new("diff");
        compare.args(["-r", "--no-dereference"]).arg(one.join(name)).arg(other.join(name));
        first.succeed(&mut compare, BOUND)?;
    }
    Ok(())
}

/// Adds a new member in the place of the one that failed.
fn rebuild(stage: &Stage, number: u64, six: &mut [PathBuf]) -> Result<(), Stop> {
    let spare = stage.file(&format!("spare-{number}"));
    fs::File::create_new(&spare)?.set_len(1 << 30)?;
    let rest = target(&[&six[0], &six[1], &six[2], &six[4]]);
    xfskit_md(stage, &["add", "-q", &rest, &spare.display().to_string()])?;
    six[3] = spare;
    let scrub = xfskit_md(stage, &["scrub", &target(&six.iter().collect::<Vec<_>>())])?;
    stage.log.line(&scrub);
    Ok(())
}

fn remove(six: &[PathBuf], five: &[PathBuf], stage: &Stage) -> Result<(), Stop> {
    for path in six.iter().chain(five) {
        fs::remove_file(path)?;
    }
    for entry in fs::read_dir(stage.scratch.path())?.flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "img") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
