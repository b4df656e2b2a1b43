//! Programs see the same in a mount by xfskit as in one by Linux.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, XattrFlags};
use xfskit_test_mount::calls::Calls;
use xfskit_test_mount::pair::{possible, same};
use xfskit_test_support::{fsxattr, random, skip};

/// Calls of one run.
const CALLS: usize = 6000;

#[test]
fn random_system_calls_return_what_they_return_on_linux() {
    if !possible() {
        return;
    }
    let runs = if skip::long() { 50 } else { 3 };
    for seed in random::seeds(0..runs) {
        same(&[], |root| Calls::new(root, seed).make(seed, CALLS));
    }
}

/// Returns where data and holes begin, from `step` to `step` bytes.
fn map(file: &File, step: u64) -> Vec<String> {
    let size = file.metadata().expect("metadata").len();
    let ask = |offset: u64| {
        let data = rustix::fs::seek(file, SeekFrom::Data(offset));
        let hole = rustix::fs::seek(file, SeekFrom::Hole(offset));
        format!("from {offset}: data {data:?}, hole {hole:?}")
    };
    (0..=size / step).map(|n| ask(n * step)).collect()
}

#[test]
fn holes_and_data_are_found_as_on_linux() {
    if !possible() {
        return;
    }
    same(&[], |root| {
        let file = File::create_new(root.join("sparse")).expect("a file");
        for start in [0, 65_536, 300_000] {
            file.write_all_at(&[1; 9000], start).expect("written");
        }
        file.set_len(1 << 20).expect("longer");
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, punch, 68_000, 30_000).expect("a hole");
        file.sync_all().expect("synced");
        let file = File::open(root.join("sparse")).expect("a file");
        map(&file, 4096)
    });
}

#[test]
fn default_acls_and_umask_make_the_modes_that_linux_makes() {
    if !possible() {
        return;
    }
    let acl = an_acl();
    same(&[], |root| {
        let mut seen = Vec::new();
        for (name, has_acl, mode) in
            [("acl", true, 0o2775), ("plain", false, 0o2775), ("no", false, 0o755)]
        {
            let dir = root.join(name);
            fs::create_dir(&dir).expect("a directory");
            std::os::unix::fs::chown(&dir, Some(0), Some(77)).expect("chown");
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).expect("chmod");
            if has_acl {
                rustix::fs::setxattr(&dir, "system.posix_acl_default", &acl, XattrFlags::empty())
                    .expect("an ACL");
            }
            for mode in [0o777, 0o666, 0o640, 0o400, 0] {
                let mode = Mode::from_raw_mode(mode);
                let (file, below) =
                    (dir.join(format!("f{mode:?}")), dir.join(format!("d{mode:?}")));
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
                drop(rustix::fs::open(&file, flags, mode).expect("a file"));
                rustix::fs::mkdir(&below, mode).expect("a directory");
                for path in [file, below] {
                    let stat = rustix::fs::stat(&path).expect("metadata");
                    let mut value = [0; 200];
                    let access = rustix::fs::getxattr(&path, "system.posix_acl_access", &mut value);
                    seen.push(format!("{:o} {} {access:?} {value:?}", stat.st_mode, stat.st_gid));
                }
            }
        }
        seen
    });
}

/// Returns an ACL: the user rwx, user 5 r-x, the group r-x, a mask rwx, others ---.
fn an_acl() -> Vec<u8> {
    let mut acl = vec![2, 0, 0, 0];
    for (tag, perm, id) in [
        (1_u16, 7_u16, u32::MAX),
        (2, 5, 5),
        (4, 5, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        acl.extend(tag.to_le_bytes());
        acl.extend(perm.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

#[test]
fn root_sees_and_copies_acls_as_they_are_stored() {
    const ACL: &str = "system.posix_acl_access";
    const STORED: &str = "trusted.SGI_ACL_FILE";
    if !possible() {
        return;
    }
    same(&[], |root| {
        let (first, second) = (root.join("first"), root.join("second"));
        fs::write(&first, "").expect("a file");
        fs::write(&second, "").expect("a file");
        rustix::fs::setxattr(&first, ACL, &an_acl(), XattrFlags::empty()).expect("an ACL");
        let get = |path: &Path, name: &str| {
            let mut value = [0; 200];
            let len = rustix::fs::getxattr(path, name, &mut value);
            format!(
                "{:o} {len:?} {value:?}",
                fs::metadata(path).expect("metadata").permissions().mode()
            )
        };
        let mut names = [0; 200];
        let len = rustix::fs::listxattr(&first, &mut names[..]).expect("names");
        let mut names: Vec<String> =
            names[..len].split(|&byte| byte == 0).map(|name| format!("{name:?}")).collect();
        names.sort_unstable();
        let mut seen = names;
        seen.extend([get(&first, STORED), get(&second, ACL)]);
        let mut stored = [0; 200];
        let len = rustix::fs::getxattr(&first, STORED, &mut stored).expect("a stored ACL");
        let set = rustix::fs::setxattr(&second, STORED, &stored[..len], XattrFlags::empty());
        seen.extend([format!("{set:?}"), get(&second, ACL)]);
        let removed = rustix::fs::removexattr(&second, STORED);
        seen.extend([format!("{removed:?}"), get(&second, ACL), get(&second, STORED)]);
        seen
    });
}

/// Formats the result of a call, without what an error says in words.
fn said<T>(what: &str, result: std::io::Result<T>) -> String {
    match result {
        Ok(_) => format!("{what}: done"),
        Err(error) => format!("{what}: {:?}", error.raw_os_error()),
    }
}

/// Sets the flags of a file (`FS_XFLAG_…`).
fn protect(path: &Path, xflags: u32) {
    let file = File::open(path).expect("open");
    let mut flags = fsxattr::get(file.as_fd()).expect("flags");
    flags.xflags = xflags;
    fsxattr::set(file.as_fd(), flags).expect("set");
}

#[test]
fn immutable_and_append_only_files_are_protected_as_on_linux() {
    if !possible() {
        return;
    }
    same(&[], |root| {
        let mut seen = Vec::new();
        for (name, xflags) in [("fixed", fsxattr::IMMUTABLE), ("grows", fsxattr::APPEND)] {
            let (file, dir) = (root.join(name), root.join(format!("{name}-dir")));
            fs::write(&file, "text").expect("a file");
            fs::write(root.join("fresh"), "text").expect("a file");
            fs::create_dir(&dir).expect("a directory");
            fs::write(dir.join("inside"), "text").expect("a file");
            protect(&file, xflags);
            protect(&dir, xflags);
            let write = || fs::OpenOptions::new().write(true).open(&file);
            let append = || fs::OpenOptions::new().append(true).open(&file);
            let mode = fs::Permissions::from_mode(0o600);
            let other = root.join(format!("{name}-other"));
            let flags = XattrFlags::empty();
            seen.extend([
                said("write", write()),
                said("append", append()),
                said("empty", File::create(&file)),
                said("chmod", fs::set_permissions(&file, mode)),
                said("chown", std::os::unix::fs::chown(&file, Some(4), None)),
                said("link", fs::hard_link(&file, &other)),
                said("rename", fs::rename(&file, &other)),
                said("unlink", fs::remove_file(&file)),
                said(
                    "xattr",
                    rustix::fs::setxattr(&file, "user.a", b"v", flags).map_err(Into::into),
                ),
                said("create inside", File::create_new(dir.join("new"))),
                said("mkdir inside", fs::create_dir(dir.join("sub"))),
                said("unlink inside", fs::remove_file(dir.join("inside"))),
                said("write inside", fs::write(dir.join("inside"), "more")),
                said("rename inside", fs::rename(dir.join("inside"), dir.join("moved"))),
                said("make outside", fs::write(root.join(format!("{name}-out")), "text")),
                said("move in", fs::rename(root.join(format!("{name}-out")), dir.join("in"))),
                said("replace", fs::rename(root.join("fresh"), dir.join("inside"))),
                said("rmdir", fs::remove_dir(&dir)),
            ]);
            protect(&file, 0);
            protect(&dir, 0);
            seen.push(said("unlink then", fs::remove_file(&file)));
        }
        seen
    });
}

#[test]
fn files_without_a_name_get_one_as_on_linux() {
    if !possible() {
        return;
    }
    same(&[], |root| {
        let dir = root.join("d");
        fs::create_dir(&dir).expect("a directory");
        std::os::unix::fs::chown(&dir, None, Some(7)).expect("a group");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o2775)).expect("setgid");
        let open = |flags| {
            let flags = OFlags::TMPFILE | OFlags::RDWR | flags;
            rustix::fs::open(&dir, flags, Mode::from_raw_mode(0o666)).map(File::from)
        };
        let file = open(OFlags::empty()).expect("a file without a name");
        file.write_all_at(b"content", 5000).expect("written");
        let names = || fs::read_dir(&dir).expect("a listing").count();
        let mut lines = vec![seen(&file), format!("{} names", names())];
        let link = |file: &File, name: &str| {
            let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
            let (here, follow) = (rustix::fs::CWD, rustix::fs::AtFlags::SYMLINK_FOLLOW);
            rustix::fs::linkat(here, &from, here, dir.join(name), follow)
        };
        lines.push(format!("linked: {:?}", link(&file, "named")));
        lines.push(format!("twice: {:?}", link(&file, "also")));
        lines.push(seen(&file));
        lines.push(format!("{:?}", fs::read(dir.join("named")).expect("content").len()));
        let exclusive = open(OFlags::EXCL).expect("one that stays without");
        lines.push(format!("exclusive: {:?}", link(&exclusive, "never")));
        exclusive.write_all_at(&vec![1; 100_000], 0).expect("written");
        drop(exclusive);
        lines.push(format!("{} names", names()));
        lines
    });
}

/// Returns what fstat(2) says of a file.
fn seen(file: &File) -> String {
    let of = rustix::fs::fstat(file).expect("metadata");
    format!(
        "mode {:o}, {} links, group {}, {} bytes",
        of.st_mode, of.st_nlink, of.st_gid, of.st_size
    )
}

#[test]
fn times_of_birth_are_seen_as_on_linux() {
    use rustix::fs::{StatxFlags, statx};
    if !possible() {
        return;
    }
    same(&[], |root| {
        let path = root.join("file");
        let ask = || {
            let flags = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
            let nothing = rustix::fs::AtFlags::empty();
            let of = statx(rustix::fs::CWD, &path, nothing, flags).expect("metadata");
            let known = of.stx_mask & StatxFlags::BTIME.bits();
            let now = std::time::SystemTime::now();
            let since = now.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
            let age = since.abs_diff(u64::try_from(of.stx_btime.tv_sec).expect("after 1970"));
            format!("birth {known:x}, new {}, {} bytes", age < 100, of.stx_size)
        };
        fs::write(&path, "content").expect("a file");
        let first = ask();
        fs::write(&path, "more content").expect("written");
        vec![first, ask()]
    });
}

/// Overlays rename so: the old name stays, as the sign that a name below is gone.
#[test]
fn a_rename_leaves_a_whiteout_as_on_linux() {
    use rustix::fs::RenameFlags;
    if !possible() {
        return;
    }
    let (acl, leave) = (an_acl(), RenameFlags::WHITEOUT);
    same(&[], |root| {
        let (plain, shared) = (root.join("plain"), root.join("shared"));
        for dir in [&plain, &shared] {
            fs::create_dir(dir).expect("a directory");
        }
        std::os::unix::fs::chown(&shared, Some(3), Some(77)).expect("chown");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o2775)).expect("setgid");
        let default = "system.posix_acl_default";
        rustix::fs::setxattr(&shared, default, &acl, XattrFlags::empty()).expect("an ACL");
        let mut seen = Vec::new();
        for dir in [&plain, &shared] {
            for (name, to, flags) in [
                ("file", "moved", leave),
                ("over", "moved", leave),
                ("kept", "moved", leave | RenameFlags::NOREPLACE),
                ("new", "free", leave | RenameFlags::NOREPLACE),
                ("swapped", "moved", leave | RenameFlags::EXCHANGE),
            ] {
                fs::write(dir.join(name), name).expect("a file");
                let (from, to) = (dir.join(name), root.join(to));
                let here = rustix::fs::CWD;
                let renamed = rustix::fs::renameat_with(here, &from, here, &to, flags);
                seen.push(format!("{name}: {renamed:?}, {}", node(&from)));
            }
            // A directory leaves one too, and a name that moves within its directory.
            fs::create_dir(dir.join("below")).expect("a directory");
            let here = rustix::fs::CWD;
            let (from, to) = (dir.join("below"), dir.join("there"));
            let renamed = rustix::fs::renameat_with(here, &from, here, &to, leave);
            seen.push(format!("{renamed:?}, {}, {}", node(&from), node(dir)));
            // The whiteout is a file as any other.
            fs::write(dir.join("text"), "text").expect("a file");
            seen.push(said("over it", fs::rename(dir.join("text"), &from)));
        }
        seen
    });
}

/// Returns what stat(2) says of a name, and the names of its attributes.
fn node(path: &Path) -> String {
    let Ok(of) = rustix::fs::lstat(path) else { return "none".into() };
    let mut names = [0; 200];
    let len = rustix::fs::llistxattr(path, &mut names[..]).expect("names");
    format!(
        "mode {:o}, {} links, owner {} {}, device {}, {:?}",
        of.st_mode,
        of.st_nlink,
        of.st_uid,
        of.st_gid,
        of.st_rdev,
        names[..len].escape_ascii().to_string()
    )
}
