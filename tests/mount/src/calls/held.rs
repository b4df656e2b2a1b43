//! Calls on files that stay open, whatever happens to their names, and on files without a name.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, OFlags};

use super::content::sum;
use super::{Calls, HELD, Reply, errno, shown};

/// What fstat(2) shows: mode, links, owners, size.
type Shown = (u32, u64, u32, u32, u64);

impl Calls<'_> {
    /// Opens a file in place of one that is open.
    pub(super) fn hold(&mut self, path: &Path) -> Reply<()> {
        let (slot, append) = (self.random.below(HELD), self.random.one_in(4));
        let flags = if append { OFlags::RDWR | OFlags::APPEND } else { OFlags::RDWR };
        self.held[slot] = None;
        self.held[slot] = Some(Self::open(path, flags)?);
        Ok(())
    }

    /// Makes a call on a file that is open.
    pub(super) fn held(&mut self) -> String {
        let (slot, what) = (self.random.below(HELD), self.random.below(6_u32));
        let ((offset, len), byte, mode) = (self.range(), self.random.byte(), self.mode());
        let Some(file) = &self.held[slot] else { return "not open".into() };
        let len = usize::try_from(len).expect("small");
        match what {
            0 => format!("write {}", shown(rustix::io::pwrite(file, &vec![byte; len], offset))),
            1 => format!("write {}", shown(rustix::io::write(file, &vec![byte; len]))),
            2 => format!("read {}", shown(read(file, offset, len))),
            3 => format!("truncate {}", shown(rustix::fs::ftruncate(file, offset))),
            4 => format!("chmod {}", shown(rustix::fs::fchmod(file, mode))),
            _ => format!("stat {}", shown(stat(file))),
        }
    }

    /// Makes a file without a name in a directory, and gives it one.
    pub(super) fn tmpfile(&mut self, dir: &Path) -> Reply<(Shown, String)> {
        let mut flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        flags.set(OFlags::EXCL, self.random.one_in(8));
        let (mode, to, (offset, len)) = (self.mode(), self.path(), self.range());
        let byte = self.random.byte();
        let file = File::from(rustix::fs::open(dir, flags, mode)?);
        let bytes = vec![byte; usize::try_from(len).expect("small")];
        rustix::io::pwrite(&file, &bytes, offset)?;
        let from = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
        let linked = rustix::fs::linkat(CWD, &from, CWD, &to, AtFlags::SYMLINK_FOLLOW);
        Ok((stat(&file)?, format!("to {}: {}", self.below_root(&to), shown(linked))))
    }
}

fn read(file: &File, offset: u64, len: usize) -> Reply<(usize, u64)> {
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, offset).map_err(|e| errno(&e))?;
    Ok((read, sum(&bytes[..read])))
}

fn stat(file: &File) -> Reply<Shown> {
    let of = file.metadata().map_err(|e| errno(&e))?;
    let size = if of.is_file() { of.len() } else { 0 };
    Ok((of.mode(), of.nlink(), of.uid(), of.gid(), size))
}
