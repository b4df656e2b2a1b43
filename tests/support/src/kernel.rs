//! The manifest of a mounted tree, as the operating system shows it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use crate::fsxattr;
use crate::manifest::{Digest, Entry, Extra, Manifest, Time, show};

/// Walks the tree below `root`. The caller mounts read-only with `noatime`, so that reading changes
/// nothing.
pub fn manifest(root: &Path) -> Manifest {
    let mut found = Manifest::default();
    let fd = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
        .unwrap_or_else(|error| panic!("{}: {error}", root.display()));
    let entry = entry_at(fd.as_fd(), b".", b"/");
    found.entries.insert(b"/".to_vec(), entry);
    walk(fd.as_fd(), b"", &mut found, &mut HashMap::new());
    found
}

/// Walks one directory. `linked` caches the entries of inodes with several names: one inode may
/// have tens of thousands of names, and as many attributes (parent pointers) to read each time.
fn walk(dir: BorrowedFd, path: &[u8], found: &mut Manifest, linked: &mut HashMap<u64, Entry>) {
    let listing = rustix::fs::Dir::read_from(dir).expect("opendir");
    for listed in listing {
        let listed = listed.unwrap_or_else(|error| panic!("readdir {}: {error}", show(path)));
        let name = listed.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let below = [path, b"/", name].concat();
        let entry = match linked.get(&listed.ino()) {
            Some(known) => known.clone(),
            None => entry_at(dir, name, &below),
        };
        assert_eq!(listed.ino(), entry.ino, "d_ino of {}", show(&below));
        let kind = FileType::from_raw_mode(entry.mode);
        let listed_kind = listed.file_type();
        assert!(listed_kind == kind || listed_kind == FileType::Unknown, "{}", show(&below));
        let is_directory = kind == FileType::Directory;
        if entry.nlink > 1 && !is_directory {
            linked.entry(entry.ino).or_insert_with(|| entry.clone());
        }
        let twin = found.entries.insert(below.clone(), entry);
        assert!(twin.is_none(), "{} is listed twice", show(&below));
        if is_directory {
            let fd = open_at(dir, name, OFlags::RDONLY | OFlags::DIRECTORY);
            walk(fd.as_fd(), &below, found, linked);
        }
    }
}

fn open_at(dir: BorrowedFd, name: &[u8], flags: OFlags) -> OwnedFd {
    rustix::fs::openat(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .unwrap_or_else(|error| panic!("open {}: {error}", show(name)))
}

fn entry_at(dir: BorrowedFd, name: &[u8], path: &[u8]) -> Entry {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, wanted)
        .unwrap_or_else(|error| panic!("statx {}: {error}", show(path)));
    let time = |t: rustix::fs::StatxTimestamp| -> Time { (t.tv_sec, t.tv_nsec) };
    let mut entry = Entry {
        ino: stat.stx_ino,
        mode: u32::from(stat.stx_mode),
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        nlink: stat.stx_nlink,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        rdev: (stat.stx_rdev_major, stat.stx_rdev_minor),
        atime: time(stat.stx_atime),
        mtime: time(stat.stx_mtime),
        ctime: time(stat.stx_ctime),
        btime: time(stat.stx_btime),
        xattrs: xattrs_at(dir, name, path),
        ..Entry::default()
    };
    match FileType::from_raw_mode(entry.mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new()).expect("readlink");
            entry.target = Some(target.into_bytes());
        }
        FileType::RegularFile => {
            let file = File::from(open_at(dir, name, OFlags::RDONLY));
            entry.extra = extra(&file);
            entry.data = data_map(&file, entry.size);
            entry.digest = digest(&file, &entry.data);
        }
        FileType::Directory => {
            let file = File::from(open_at(dir, name, OFlags::RDONLY | OFlags::DIRECTORY));
            // For a short-form directory the ioctl does not count extents.
            entry.extra = extra(&file).map(|extra| Extra { nextents: 0, ..extra });
        }
        _ => {}
    }
    entry
}

fn extra(file: &File) -> Option<Extra> {
    let found = fsxattr::get(file.as_fd()).ok()?;
    Some(Extra {
        xflags: found.xflags,
        extsize: found.extsize,
        nextents: found.nextents,
        projid: found.projid,
        cowextsize: found.cowextsize,
    })
}

/// Reads the attributes of an entry. There is no `lgetxattrat`, so the directory's descriptor under
/// `/proc` is part of the path.
fn xattrs_at(dir: BorrowedFd, name: &[u8], path: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let file = [format!("/proc/self/fd/{}/", dir.as_raw_fd()).as_bytes(), name].concat();
    let mut buffer = vec![0; 64 << 10];
    let length = match rustix::fs::llistxattr(file.as_slice(), &mut buffer) {
        Ok(length) => length,
        // XFS can hold more than 64 KiB of names, but listxattr(2) cannot return them.
        Err(Errno::TOOBIG) => panic!("{}: too many attributes to list", show(path)),
        Err(error) => panic!("listxattr {}: {error}", show(path)),
    };
    // To root, Linux lists an access list twice: also in its stored form. xfskit lists it once.
    let stored: [&[u8]; 2] = [b"trusted.SGI_ACL_FILE", b"trusted.SGI_ACL_DEFAULT"];
    let names = buffer[..length]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty() && !stored.contains(name));
    names
        .map(|name| {
            let mut value = vec![0; 64 << 10];
            let length = rustix::fs::lgetxattr(file.as_slice(), name, &mut value)
                .unwrap_or_else(|error| panic!("{}: {}: {error}", show(path), show(name)));
            value.truncate(length);
            (name.to_vec(), value)
        })
        .collect()
}

/// Returns the ranges that hold data, by `SEEK_DATA` and `SEEK_HOLE`, with neighbours merged. Must
/// run before the file is read: cached pages over unwritten extents count as data.
fn data_map(file: &File, size: u64) -> Vec<(u64, u64)> {
    let mut map: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => panic!("SEEK_DATA: {error}"),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).expect("SEEK_HOLE");
        match map.last_mut() {
            Some(last) if last.0 + last.1 == start => last.1 += end - start,
            _ => map.push((start, end - start)),
        }
        at = end;
    }
    map
}

fn digest(file: &File, data: &[(u64, u64)]) -> u64 {
    let mut digest = Digest::default();
    let mut buffer = vec![0; 1 << 20];
    for &(start, length) in data {
        let mut at = start;
        let end = start + length;
        while at < end {
            let wanted = usize::try_from(end - at).map_or(buffer.len(), |n| n.min(buffer.len()));
            file.read_exact_at(&mut buffer[..wanted], at).expect("read");
            digest.update(&buffer[..wanted]);
            at += wanted as u64;
        }
    }
    digest.finish()
}
