//! Extended attributes: short form, leaf, node, remote values, every namespace, ACLs.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{Mode, XattrFlags, lremovexattr, lsetxattr};

use super::{Shape, bytes, fresh};

/// Builds every form.
pub fn all(root: &Path, shape: &Shape) -> io::Result<()> {
    namespaces(&fresh(root, "namespaces")?)?;
    values(&fresh(root, "values")?)?;
    counts(&fresh(root, "counts")?)?;
    removed(&fresh(root, "removed")?)?;
    access_lists(&fresh(root, "access-lists")?, shape)
}

fn set(path: &Path, name: impl AsRef<[u8]>, value: &[u8]) -> io::Result<()> {
    Ok(lsetxattr(path, name.as_ref(), value, XattrFlags::empty())?)
}

fn file(dir: &Path, name: &str) -> io::Result<std::path::PathBuf> {
    let path = dir.join(name);
    fs::write(&path, name)?;
    Ok(path)
}

fn namespaces(dir: &Path) -> io::Result<()> {
    let capable = file(dir, "capable")?;
    set(&capable, "security.capability", &capability())?;
    let all = file(dir, "all")?;
    for namespace in ["user", "trusted", "security"] {
        set(&all, format!("{namespace}.same-name"), namespace.as_bytes())?;
        set(&all, format!("{namespace}.{namespace}"), b"")?;
    }
    let names = file(dir, "names")?;
    for length in [1, 2, 50, 100, 249, 250] {
        set(&names, format!("user.{}", "n".repeat(length)), &bytes(length as u64, 10))?;
    }
    set(&names, b"user.any \xff\x01\n=byte", b"\x00\x01\x02")?;
    // Files other than regular ones carry attributes, too.
    let directory = fresh(dir, "directory")?;
    set(&directory, "user.on-a-directory", b"yes")?;
    let link = dir.join("link");
    symlink("nowhere", &link)?;
    set(&link, "trusted.on-a-link", b"yes")?;
    let long_link = dir.join("long-link");
    symlink("x".repeat(1000), &long_link)?;
    set(&long_link, "trusted.on-a-link", &bytes(1, 2000))?;
    let fifo = dir.join("fifo");
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)?;
    set(&fifo, "trusted.on-a-fifo", b"yes")
}

/// Returns a `struct vfs_cap_data` of revision 2 with `cap_net_raw` permitted and effective.
fn capability() -> Vec<u8> {
    [0x0200_0001_u32, 1 << 13, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Makes values of every length at which the form changes: inline, in a leaf, remote, over several
/// extents.
fn values(dir: &Path) -> io::Result<()> {
    let lengths = [0, 1, 10, 40, 100, 200, 255, 256, 300, 768, 1000, 2000, 3000, 3072, 3073, 4040];
    for length in lengths.into_iter().chain([4041, 5000, 10_000, 16_384, 32_768, 65_535, 65_536]) {
        let path = file(dir, &format!("{length}"))?;
        set(&path, "user.value", &bytes(length as u64, length))?;
        set(&path, "user.small", b"beside")?;
    }
    Ok(())
}

fn counts(dir: &Path) -> io::Result<()> {
    for count in [2, 5, 10, 30, 60, 100, 150, 300, 1000, 2000] {
        let path = file(dir, &format!("{count}"))?;
        for number in 0..count {
            let length = if number % 50 == 49 { 6000 } else { number % 90 };
            set(&path, format!("user.name-{number}"), &bytes(number as u64, length))?;
        }
    }
    // Attributes with equal hashes: the names differ where the hash does not.
    let path = file(dir, "equal-hashes")?;
    for number in 0..8_u8 {
        let mut name = *b"user.AAAAAAAA";
        for bit in (0..3).filter(|bit| number >> bit & 1 == 1) {
            name[5 + bit] ^= 1;
            name[6 + bit] ^= 0x80;
        }
        set(&path, name, &[number])?;
    }
    Ok(())
}

/// Makes attribute forks that were larger before.
fn removed(dir: &Path) -> io::Result<()> {
    for (name, keeps) in [("some", 7), ("one", 500), ("none", 1000)] {
        let path = file(dir, name)?;
        for number in 1..500 {
            set(&path, format!("user.name-{number}"), &bytes(number, 60))?;
        }
        for number in (1..500).filter(|number| number % keeps != 0) {
            lremovexattr(&path, format!("user.name-{number}"))?;
        }
    }
    let replaced = file(dir, "replaced")?;
    for length in [10, 5000, 100, 60_000, 20] {
        set(&replaced, "user.value", &bytes(length, usize::try_from(length).expect("small")))?;
    }
    Ok(())
}

/// Returns a list of `posix_acl_xattr_entry`: tag, permissions, id.
fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

fn access_lists(dir: &Path, shape: &Shape) -> io::Result<()> {
    const NOBODY: u32 = u32::MAX;
    let (user_obj, user, group_obj, group, mask, other) = (1, 2, 4, 8, 0x10, 0x20);
    let small = [(user_obj, 6, NOBODY), (user, 4, 1000), (group_obj, 4, NOBODY), (mask, 4, NOBODY)]
        .into_iter()
        .chain([(other, 0, NOBODY)])
        .collect::<Vec<_>>();
    let mut large = vec![(user_obj, 7, NOBODY)];
    large.extend((0..400).map(|id| (user, 5, 1000 + id)));
    large.push((group_obj, 5, NOBODY));
    large.extend((0..300).map(|id| (group, 1, 70_000 + id)));
    large.extend([(mask, 7, NOBODY), (other, 0, NOBODY)]);
    let lists = [("small", &small), ("large", &large)];
    for (name, entries) in lists.into_iter().filter(|(name, _)| *name == "small" || !shape.fuse) {
        let path = file(dir, name)?;
        set(&path, "system.posix_acl_access", &access_list(entries))?;
        let path = fresh(dir, &format!("{name}-directory"))?;
        set(&path, "system.posix_acl_access", &access_list(entries))?;
        set(&path, "system.posix_acl_default", &access_list(entries))?;
        fs::write(path.join("heir"), "")?;
        fresh(&path, "heiress")?;
    }
    Ok(())
}
