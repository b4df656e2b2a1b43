//! Directories: short form, block, leaf, node, several free-index blocks, holes, equal hashes.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{Shape, fresh};

/// Builds every form.
pub fn all(root: &Path, shape: &Shape) -> io::Result<()> {
    names(&fresh(root, "names")?)?;
    sizes(&fresh(root, "sizes")?, shape)?;
    shrunk(&fresh(root, "shrunk")?)?;
    equal_hashes(&fresh(root, "equal-hashes")?)?;
    nested(&fresh(root, "nested")?)?;
    moved(&fresh(root, "moved")?)?;
    if shape.tall {
        free_indexes(&fresh(root, "free-indexes")?, shape)?;
    }
    Ok(())
}

/// Makes names of every length, with every byte that a name may hold.
fn names(dir: &Path) -> io::Result<()> {
    let lengths = fresh(dir, "lengths")?;
    for length in 1..=255 {
        fs::write(lengths.join("n".repeat(length)), b"")?;
    }
    let any = fresh(dir, "bytes")?;
    for byte in (1..=255u8).filter(|&byte| byte != b'/' && byte != b'.') {
        fs::write(any.join(OsStr::from_bytes(&[byte])), [byte])?;
        fs::write(any.join(OsStr::from_bytes(&[b'x', byte, b'y'])), [byte])?;
    }
    let odd = fresh(dir, "odd")?;
    for name in ["...", "..a", ".a", " ", "  ", "-rf", "a\nb", "\\", "*", "ünïcödé", "日本"] {
        fs::write(odd.join(name), name)?;
    }
    Ok(())
}

/// Makes directories of many sizes, mostly of hard links, which are cheap. Some hold files,
/// directories, fifos and symbolic links, so that every entry type occurs in every form.
fn sizes(dir: &Path, shape: &Shape) -> io::Result<()> {
    let target = dir.join("target");
    fs::write(&target, "linked from everywhere")?;
    let mut counts = vec![0, 1, 2, 3, 6, 10, 20, 40, 70, 100, 150, 200, 300, 500, 1000, 2500];
    if shape.tall {
        counts.extend([6000, 20_000]);
    }
    for count in counts {
        let of_links = fresh(dir, &format!("links{count}"))?;
        for number in 0..count {
            fs::hard_link(&target, of_links.join(format!("f{number}")))?;
        }
        if count > 1000 {
            continue;
        }
        let of_long_names = fresh(dir, &format!("long{count}"))?;
        for number in 0..count {
            fs::hard_link(&target, of_long_names.join(long_name(number)))?;
        }
        if count > 300 {
            continue;
        }
        let of_all_types = fresh(dir, &format!("types{count}"))?;
        for number in 0..count {
            every_type(&of_all_types, number)?;
        }
    }
    Ok(())
}

fn every_type(dir: &Path, number: usize) -> io::Result<()> {
    let path = dir.join(format!("entry-{number}"));
    match number % 4 {
        0 => fs::write(path, number.to_string()),
        1 => fs::create_dir(path),
        2 => std::os::unix::fs::symlink(format!("to-{number}"), path),
        _ => {
            let mode = Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)?;
            Ok(())
        }
    }
}

/// Returns a name of 250 bytes.
fn long_name(number: usize) -> String {
    format!("{number:0>12}{}", "x".repeat(238))
}

/// Returns whether the numbered name stays.
type Keeps = fn(usize) -> bool;

/// Makes directories that were larger before: stale entries, holes among the blocks, and
/// conversions back to smaller forms.
fn shrunk(dir: &Path) -> io::Result<()> {
    let target = dir.join("target");
    fs::write(&target, "")?;
    let keep: [(&str, Keeps); 6] = [
        ("every-second", |number| number % 2 == 0),
        ("no-middle", |number| !(300..2700).contains(&number)),
        ("no-start", |number| number > 2000),
        ("no-end", |number| number < 900),
        ("three", |number| number % 1000 == 7),
        ("none", |_| false),
    ];
    for (name, keeps) in keep {
        let full = fresh(dir, name)?;
        for number in 0..3000 {
            fs::hard_link(&target, full.join(format!("a-name-of-some-length-{number}")))?;
        }
        for number in (0..3000).filter(|&number| !keeps(number)) {
            fs::remove_file(full.join(format!("a-name-of-some-length-{number}")))?;
        }
    }
    Ok(())
}

/// Makes many names with equal hashes. In XFS's name hash the lowest bit of a byte overlaps the
/// highest of the next one, so flipping both keeps the hash.
fn equal_hashes(dir: &Path) -> io::Result<()> {
    // 1200 names would be valid, too, but xfs_repair 6.1 reports a hash that continues in the next
    // leaf as corruption ("expected > … saw …").
    for count in [3, 30, 100] {
        links_of_one_hash(&fresh(dir, &count.to_string())?, count)?;
    }
    Ok(())
}

/// Makes a directory of `count` hard links, at most 4096, whose names have one hash.
pub fn links_of_one_hash(dir: &Path, count: usize) -> io::Result<()> {
    let target = dir.join("target");
    fs::write(&target, "")?;
    for number in 0..count {
        fs::hard_link(&target, dir.join(OsStr::from_bytes(&name_of_one_hash(number))))?;
    }
    Ok(())
}

/// Returns name `number` (below 4096) of one hash: sixteen bytes. Every four bytes have three
/// positions to flip.
pub fn name_of_one_hash(number: usize) -> [u8; 16] {
    let mut name = [b'A'; 16];
    for bit in (0..12).filter(|bit| number >> bit & 1 == 1) {
        let first = bit / 3 * 4 + bit % 3;
        name[first] ^= 1;
        name[first + 1] ^= 0x80;
    }
    name
}

/// Makes a chain of directories, deeper than `PATH_MAX` allows a path to be.
fn nested(dir: &Path) -> io::Result<()> {
    let mut at = rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    for level in 0..40 {
        let name = format!("{level:0>3}{}", "d".repeat(180));
        rustix::fs::mkdirat(&at, &name, Mode::from_raw_mode(0o755))?;
        at = rustix::fs::openat(&at, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    }
    Ok(())
}

/// Makes directories that were moved to another parent, and hard links across directories.
fn moved(dir: &Path) -> io::Result<()> {
    let homes: Vec<PathBuf> =
        (0..5).map(|number| fresh(dir, &format!("home{number}"))).collect::<io::Result<_>>()?;
    let child = fresh(&homes[0], "child")?;
    fs::write(child.join("file"), "one inode, many names")?;
    for (number, home) in homes.iter().enumerate() {
        fs::hard_link(child.join("file"), home.join(format!("link-{number}")))?;
    }
    fs::rename(child, homes[4].join("renamed child"))
}

/// Makes so many data blocks that the free index needs a second block.
fn free_indexes(dir: &Path, shape: &Shape) -> io::Result<()> {
    let target = dir.join("target");
    fs::write(&target, "")?;
    let blocks_per_index = (shape.dir_block - 64) / 2;
    let entries_per_block = (shape.dir_block - 64) / 272;
    let count = blocks_per_index * entries_per_block + 200;
    let count = usize::try_from(count).expect("a small number");
    if count > 40_000 && !crate::long() {
        return Ok(());
    }
    let full = fresh(dir, "full")?;
    for number in 0..count {
        fs::hard_link(&target, full.join(long_name(number)))?;
    }
    let holes = fresh(dir, "holes")?;
    for number in 0..count {
        fs::hard_link(&target, holes.join(long_name(number)))?;
    }
    for number in (100..count - 100).filter(|number| number % 97 != 0) {
        fs::remove_file(holes.join(long_name(number)))?;
    }
    Ok(())
}
