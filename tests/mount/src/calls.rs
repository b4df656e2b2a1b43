//! Random system calls on a few names, and what each returned.

use std::fmt::Debug;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;
use xfskit_test_support::Random;

/// Bytes of a file at most.
const REACH: u64 = 600_000;
/// Names of an entry.
const NAMES: [&str; 7] = ["a", "b", "c", "dd", "a-name-of-some-length", "x", "y"];
/// Names of attributes.
const XATTRS: [&str; 4] = ["user.a", "user.b", "trusted.t", "security.s"];

/// The calls, drawn from a seed, below one directory.
pub struct Calls<'p> {
    root: &'p Path,
    random: Random,
}

type Reply<T> = Result<T, Errno>;

/// Formats what a program sees of a result.
fn shown<T: Debug>(result: Reply<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(errno) => format!("{errno:?}"),
    }
}

impl<'p> Calls<'p> {
    /// Returns the calls of `seed` below `root`.
    pub fn new(root: &'p Path, seed: u64) -> Self {
        Self { root, random: Random::new(seed) }
    }

    /// Makes `count` calls, and returns each with its result.
    pub fn make(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.one()).collect()
    }

    /// Draws a path of one to three names.
    fn path(&mut self) -> PathBuf {
        let depth = 1 + self.random.below(3_usize);
        let names: Vec<&str> = (0..depth).map(|_| self.random.pick(&NAMES)).collect();
        names.iter().fold(self.root.to_path_buf(), |path, name| path.join(name))
    }

    fn range(&mut self) -> (u64, u64) {
        let shift = self.random.below(18_u32);
        (self.random.below(REACH), 1 + self.random.below(1_u64 << shift))
    }

    fn one(&mut self) -> String {
        let path = self.path();
        let at = path.strip_prefix(self.root).expect("below").display().to_string();
        let (call, result) = match self.random.below(19_u32) {
            0 => ("mkdir", shown(rustix::fs::mkdir(&path, self.mode()))),
            1 | 2 => ("create", shown(self.create(&path))),
            3 | 4 => ("write", shown(self.write(&path))),
            5 => ("read", shown(self.read(&path))),
            6 => ("unlink", shown(rustix::fs::unlink(&path))),
            7 => ("rmdir", shown(rustix::fs::rmdir(&path))),
            8 => ("rename", shown(self.rename(&path))),
            9 => ("link", shown(self.link(&path))),
            10 => ("symlink", shown(rustix::fs::symlink(self.random.pick(&NAMES), &path))),
            11 => ("truncate", shown(self.truncate(&path))),
            12 => ("fallocate", shown(self.fallocate(&path))),
            13 => ("chmod", shown(rustix::fs::chmod(&path, self.mode()))),
            14 => ("chown", shown(self.chown(&path))),
            15 => ("setxattr", shown(self.set_xattr(&path))),
            16 => ("xattrs", shown(xattrs(&path))),
            17 => ("list", shown(list(&path))),
            _ => ("stat", shown(stat(&path))),
        };
        format!("{call} {at}: {result}")
    }

    fn mode(&mut self) -> Mode {
        Mode::from_raw_mode(0o700 | self.random.below(0o100_u32))
    }

    fn create(&mut self, path: &Path) -> Reply<()> {
        let mut flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        flags.set(OFlags::EXCL, self.random.one_in(3));
        flags.set(OFlags::TRUNC, self.random.one_in(4));
        rustix::fs::open(path, flags, self.mode()).map(drop)
    }

    fn write(&mut self, path: &Path) -> Reply<usize> {
        let (offset, len) = self.range();
        let append = self.random.one_in(4);
        let byte = self.random.below(256_u32).to_le_bytes()[0];
        let bytes = vec![byte; usize::try_from(len).expect("small")];
        let mut flags = OFlags::WRONLY | OFlags::CLOEXEC;
        flags.set(OFlags::APPEND, append);
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        if append {
            rustix::io::write(&file, &bytes)
        } else {
            rustix::io::pwrite(&file, &bytes, offset)
        }
    }

    fn read(&mut self, path: &Path) -> Reply<(usize, u64)> {
        let (offset, len) = self.range();
        let file = open_file(path, OFlags::RDONLY)?;
        let mut bytes = vec![0; usize::try_from(len).expect("small")];
        let read = file.read_at(&mut bytes, offset).map_err(|e| errno(&e))?;
        let sum = bytes[..read].iter().fold(7_u64, |sum, &b| sum.wrapping_mul(31) + u64::from(b));
        Ok((read, sum))
    }

    fn rename(&mut self, from: &Path) -> Reply<()> {
        let to = self.path();
        let flags = [RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
        let flags = self.random.pick(&flags);
        rustix::fs::renameat_with(CWD, from, CWD, &to, flags)
    }

    fn link(&mut self, from: &Path) -> Reply<()> {
        rustix::fs::linkat(CWD, from, CWD, self.path(), AtFlags::empty())
    }

    fn truncate(&mut self, path: &Path) -> Reply<()> {
        let (size, _) = self.range();
        let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::ftruncate(&file, size)
    }

    fn fallocate(&mut self, path: &Path) -> Reply<()> {
        let (offset, len) = self.range();
        let keep = FallocateFlags::KEEP_SIZE;
        let how = [
            FallocateFlags::empty(),
            keep,
            keep | FallocateFlags::PUNCH_HOLE,
            FallocateFlags::ZERO_RANGE,
            keep | FallocateFlags::ZERO_RANGE,
        ];
        let how = self.random.pick(&how);
        let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::fallocate(&file, how, offset, len)
    }

    fn chown(&mut self, path: &Path) -> Reply<()> {
        let (uid, gid) = (self.random.below(5_u32), self.random.below(5_u32));
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn set_xattr(&mut self, path: &Path) -> Reply<()> {
        let name = self.random.pick(&XATTRS);
        if self.random.one_in(3) {
            return rustix::fs::lremovexattr(path, name);
        }
        let value = vec![b'v'; self.random.below(300_usize)];
        let flags = [XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE];
        rustix::fs::lsetxattr(path, name, &value, self.random.pick(&flags))
    }
}

/// Returns the sorted names of extended attributes, and the length of the first one's value.
fn xattrs(path: &Path) -> Reply<(Vec<String>, usize)> {
    let mut names = vec![0_u8; 4096];
    let len = rustix::fs::llistxattr(path, &mut names)?;
    let mut names: Vec<String> = names[..len]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    names.sort();
    let mut value = vec![0_u8; 4096];
    let got = match names.first() {
        Some(name) => rustix::fs::lgetxattr(path, name.as_str(), &mut value)?,
        None => 0,
    };
    Ok((names, got))
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn open_file(path: &Path, flags: OFlags) -> Reply<std::fs::File> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map(Into::into)
}

/// Returns the sorted names of a directory.
fn list(path: &Path) -> Reply<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|e| errno(&e))? {
        let entry = entry.map_err(|e| errno(&e))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Returns what stat(2) shows and what does not depend on the clock.
fn stat(path: &Path) -> Reply<(u32, u64, u32, u32, Option<u64>)> {
    let metadata = std::fs::symlink_metadata(path).map_err(|e| errno(&e))?;
    let size = metadata.is_file().then_some(metadata.len());
    Ok((metadata.mode(), metadata.nlink(), metadata.uid(), metadata.gid(), size))
}
