//! Calls on names.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, makedev};

use super::{Calls, NAMES, Reply, errno, shown};

/// A major number of no device, so that opening one fails. Linux makes devices of 9 bits only.
const MAJOR: u32 = 300;

impl Calls<'_> {
    pub(super) fn create(&mut self, path: &Path) -> Reply<()> {
        let mut flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags.set(OFlags::EXCL, self.random.one_in(3));
        flags.set(OFlags::TRUNC, self.random.one_in(4));
        rustix::fs::open(path, flags, self.mode()).map(drop)
    }

    pub(super) fn rename(&mut self, from: &Path) -> String {
        let to = self.path();
        let flags = self.random.pick(&[
            RenameFlags::empty(),
            RenameFlags::empty(),
            RenameFlags::NOREPLACE,
            RenameFlags::EXCHANGE,
            RenameFlags::WHITEOUT,
            RenameFlags::WHITEOUT.union(RenameFlags::NOREPLACE),
            RenameFlags::WHITEOUT.union(RenameFlags::EXCHANGE),
        ]);
        let renamed = shown(rustix::fs::renameat_with(CWD, from, CWD, &to, flags));
        format!("to {} {flags:?}: {renamed}", self.below_root(&to))
    }

    pub(super) fn link(&mut self, from: &Path) -> String {
        let to = self.path();
        let follow = self.random.pick(&[AtFlags::empty(), AtFlags::SYMLINK_FOLLOW]);
        let linked = shown(rustix::fs::linkat(CWD, from, CWD, &to, follow));
        format!("to {} {follow:?}: {linked}", self.below_root(&to))
    }

    /// Makes a link to a name, or to a path of many: the longest that XFS has, and longer.
    pub(super) fn symlink(&mut self, path: &Path) -> Reply<usize> {
        let mut target = self.random.pick(&NAMES).to_owned();
        if self.random.one_in(4) {
            let len: usize = self.random.pick(&[60, 337, 1000, 1022, 1023, 1024, 1025, 4095]);
            "x/".repeat(len.div_ceil(2))[..len].clone_into(&mut target);
        }
        rustix::fs::symlink(&target, path).map(|()| target.len())
    }

    pub(super) fn mknod(&mut self, path: &Path) -> String {
        let kind = self.random.pick(&[
            FileType::Fifo,
            FileType::Socket,
            FileType::CharacterDevice,
            FileType::BlockDevice,
            FileType::RegularFile,
        ]);
        let is_device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
        let whiteout = self.random.one_in(4);
        // The format has 18 bits.
        let minor = self.random.below(1_u32 << 19);
        let device = if is_device && !whiteout { makedev(MAJOR, minor) } else { 0 };
        let mode = self.mode() & Mode::from_raw_mode(0o7777);
        let made = shown(rustix::fs::mknodat(CWD, path, kind, mode, device));
        format!("{kind:?} {device:x}: {made}")
    }
}

/// Returns the length of a link's target, and its first bytes.
pub(super) fn readlink(path: &Path) -> Reply<(usize, String)> {
    let target = rustix::fs::readlink(path, Vec::new())?.into_bytes();
    let first = &target[..target.len().min(20)];
    Ok((target.len(), String::from_utf8_lossy(first).into_owned()))
}

/// Returns the sorted names of a directory, with their types.
pub(super) fn list(path: &Path) -> Reply<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|e| errno(&e))? {
        let entry = entry.map_err(|e| errno(&e))?;
        let kind = entry.file_type().map_err(|e| errno(&e))?;
        names.push(format!("{} {kind:?}", entry.file_name().to_string_lossy()));
    }
    names.sort();
    Ok(names)
}
