//! cp, rsync and tar of a tree with everything in it: links, ACLs, attributes, holes, devices,
//! times. The source is on a volume that Linux has mounted.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, XattrFlags};

use crate::command;
use crate::stage::{Ran, Stage, Stop, installed};
use crate::tree;

/// Time for one command.
const BOUND: Duration = Duration::from_hours(1);

/// The trees that are copied beside the corner cases.
const TREES: [&str; 3] = ["/usr/share", "/usr/include", "/usr/lib/python3"];

/// The copying programs: a script, of the source `$1` and the target `$2`.
const COPIES: [(&str, &str); 4] = [
    ("cp", r#"cp -a "$1/." "$2""#),
    ("rsync", r#"rsync -aHAX "$1/" "$2/""#),
    ("rsync-sparse", r#"rsync -aHAXS --inplace "$1/" "$2/""#),
    (
        "tar",
        r#"tar -C "$1" --format=pax --xattrs --xattrs-include='*' --acls -S -cf - . |
           tar -C "$2" --xattrs --xattrs-include='*' --acls -S -xpf -"#,
    ),
];

/// Copies, compares and removes.
pub(super) fn run(stage: &Stage) -> Ran {
    installed("rsync")?;
    let linux = stage.linux(8)?;
    let source = linux.path().join("source");
    fs::create_dir(&source)?;
    for tree in TREES.iter().filter(|tree| Path::new(tree).is_dir()).take(take(stage.amount)) {
        let mut copy = Command::new("cp");
        let to = source.join(tree.trim_start_matches('/').replace('/', "-"));
        command::run(copy.arg("-a").arg(tree).arg(to), BOUND, &stage.log)?.success()?;
    }
    corner_cases(&source)?;
    let expected = tree::shown(&source)?;
    let mut volume = stage.volume(20)?;
    for (name, script) in COPIES {
        let target = volume.path().join(name);
        fs::create_dir(&target)?;
        let mut copy = Command::new("sh");
        copy.args(["-c", script, name]).arg(&source).arg(&target);
        volume.succeed(&mut copy, BOUND)?;
        let found = tree::shown(&target)?;
        tree::same_copy(found, expected.clone()).map_err(|why| format!("{name}: {why}"))?;
        let mut compare = installed("rsync")?;
        compare.args(["-aHAXnci", "--delete"]);
        compare.arg(format!("{}/", source.display())).arg(format!("{}/", target.display()));
        let differences = volume.succeed(&mut compare, BOUND)?;
        if !differences.trim().is_empty() {
            return Err(format!("{name}: other content: {differences}").into());
        }
        // One copy stays to the end; the others are removed in different ways.
        let removed = match name {
            "cp" => r#"rm -r "$1""#,
            "rsync" => r#"find "$1" -depth -delete"#,
            "rsync-sparse" => {
                r#"mkdir "$1.empty" && rsync -a --delete "$1.empty/" "$1/" &&
                rmdir "$1" "$1.empty""#
            }
            _ => continue,
        };
        let mut remove = Command::new("sh");
        remove.args(["-c", removed, name]).arg(&target);
        volume.succeed(&mut remove, BOUND)?;
        if target.exists() {
            return Err(format!("{name}: the copy is still there").into());
        }
    }
    linux.unmount()?;
    let entries = volume.end()?;
    let (source, names) = (expected.entries.len(), COPIES.map(|(name, _)| name));
    Ok(format!("{source} files by {}; {entries} at the end", names.join(", ")))
}

fn take(amount: u64) -> usize {
    usize::try_from(amount).unwrap_or(usize::MAX)
}

/// Makes files of every form that the programs copy.
fn corner_cases(source: &Path) -> Result<(), Stop> {
    let dir = source.join("corners");
    fs::create_dir(&dir)?;
    links(&dir)?;
    attributes(&dir)?;
    holes(&dir)?;
    special(&dir)?;
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe not UTF-8\n \\ \x01");
    fs::write(dir.join(name), "a name of bytes")?;
    fs::write(dir.join("n".repeat(255)), "a name of 255 bytes")?;
    // Times at the ends of what the volume holds, and before 1970.
    for (number, sec) in [-2_000_000_000, -1, 0, 2_147_483_648, 16_000_000_000].iter().enumerate() {
        let path = dir.join(format!("time-{number}"));
        fs::write(&path, "")?;
        let time = Timespec { tv_sec: *sec, tv_nsec: 123_456_789 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())?;
    }
    Ok(())
}

fn links(dir: &Path) -> Result<(), Stop> {
    fs::write(dir.join("linked"), "one file, many names")?;
    fs::create_dir(dir.join("names"))?;
    for number in 0..300 {
        fs::hard_link(dir.join("linked"), dir.join(format!("names/{number}")))?;
    }
    std::os::unix::fs::symlink("linked", dir.join("symlink"))?;
    std::os::unix::fs::symlink("x".repeat(1000), dir.join("long-symlink"))?;
    fs::hard_link(dir.join("symlink"), dir.join("linked-symlink"))?;
    Ok(())
}

fn attributes(dir: &Path) -> Result<(), Stop> {
    let path = dir.join("attributes");
    fs::write(&path, "with attributes")?;
    let set =
        |name: String, value: &[u8]| rustix::fs::setxattr(&path, name, value, XattrFlags::empty());
    for number in 0..40 {
        set(format!("user.number-{number}"), &vec![7; number * 30])?;
    }
    set("user.large".into(), &vec![9; 20_000])?;
    set("trusted.for-root".into(), b"yes")?;
    set("security.of-some-kind".into(), b"yes")?;
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    set("security.capability".into(), &capability)?;
    let lists = dir.join("acl");
    fs::create_dir(&lists)?;
    acl(&lists, &["-m", "u:1:rw,g:2:r,m::rwx"])?;
    acl(&lists, &["-d", "-m", "u:3:rwx,g:4:r-x"])?;
    fs::write(lists.join("inherits"), "")?;
    fs::create_dir(lists.join("inherits-too"))?;
    Ok(())
}

fn acl(path: &Path, arguments: &[&str]) -> Result<(), Stop> {
    let set = Command::new("setfacl").args(arguments).arg(path).status()?;
    if set.success() { Ok(()) } else { Err(format!("setfacl {arguments:?}: {set}").into()) }
}

fn holes(dir: &Path) -> Result<(), Stop> {
    let file = File::create_new(dir.join("sparse"))?;
    for gib in 0..3_u64 {
        file.write_all_at(&[3; 10_000], gib << 30)?;
    }
    file.set_len(4 << 30)?;
    File::create_new(dir.join("all-hole"))?.set_len(1 << 30)?;
    Ok(())
}

fn special(dir: &Path) -> Result<(), Stop> {
    use rustix::fs::FileType::{BlockDevice, CharacterDevice, Fifo};
    let mode = Mode::from_raw_mode(0o640);
    for (name, kind, device) in [
        ("fifo", Fifo, 0),
        ("block", BlockDevice, rustix::fs::makedev(7, 1000)),
        ("character", CharacterDevice, rustix::fs::makedev(300, 70_000)),
    ] {
        rustix::fs::mknodat(CWD, dir.join(name), kind, mode, device)?;
    }
    for (name, mode) in [("setuid", 0o4755), ("setgid", 0o2755), ("sticky", 0o1777), ("none", 0)] {
        let path = dir.join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        std::os::unix::fs::chown(&path, Some(1234), Some(70_000))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}
