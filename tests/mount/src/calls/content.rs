//! Calls on content.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Advice, FallocateFlags, OFlags, SeekFrom};
use rustix::io::Errno;

use super::{Calls, REACH, Reply, errno, shown};
use crate::run::Id;

/// Alignment of direct I/O, and bytes of a page.
const PAGE: usize = 4096;
const PAGE_BYTES: u64 = PAGE as u64;
/// A size far beyond all content.
const FAR: u64 = 1 << 40;
/// Holes and ranges of data of one file that are looked at.
const RANGES_MAX: usize = 500;

/// Returns a number that depends on all bytes and their order.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7_u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

impl Calls<'_> {
    fn bytes(&mut self, len: u64) -> Vec<u8> {
        vec![self.random.byte(); usize::try_from(len).expect("small")]
    }

    pub(super) fn write(&mut self, path: &Path) -> Reply<usize> {
        let (offset, len) = self.range();
        let append = self.random.one_in(4);
        let bytes = self.bytes(len);
        let mut flags = OFlags::WRONLY;
        flags.set(OFlags::APPEND, append);
        flags.set(OFlags::DSYNC, self.random.one_in(16));
        flags.set(OFlags::TRUNC, self.random.one_in(32));
        let file = Self::open(path, flags)?;
        if append {
            rustix::io::write(&file, &bytes)
        } else {
            rustix::io::pwrite(&file, &bytes, offset)
        }
    }

    /// Reads or writes past the page cache.
    pub(super) fn direct(&mut self, path: &Path) -> Reply<(usize, u64)> {
        let (offset, len) = self.range();
        let (offset, len) = (offset / PAGE_BYTES * PAGE_BYTES, len.next_multiple_of(PAGE_BYTES));
        let (writes, byte) = (self.random.one_in(2), self.random.byte());
        let len = usize::try_from(len).expect("small");
        let mut buffer = vec![byte; len + PAGE];
        let start = buffer.as_ptr().align_offset(PAGE);
        let bytes = &mut buffer[start..start + len];
        if writes {
            let file = Self::open(path, OFlags::WRONLY | OFlags::DIRECT)?;
            return Ok((rustix::io::pwrite(&file, bytes, offset)?, 0));
        }
        let file = Self::open(path, OFlags::RDONLY | OFlags::DIRECT)?;
        let read = file.read_at(bytes, offset).map_err(|e| errno(&e))?;
        Ok((read, sum(&bytes[..read])))
    }

    pub(super) fn read(&mut self, path: &Path) -> Reply<(usize, u64)> {
        let (offset, len) = self.range();
        let file = Self::open(path, OFlags::RDONLY)?;
        let mut bytes = vec![0; usize::try_from(len).expect("small")];
        let read = file.read_at(&mut bytes, offset).map_err(|e| errno(&e))?;
        Ok((read, sum(&bytes[..read])))
    }

    /// Draws a new size, rarely a terabyte.
    pub(super) fn size(&mut self) -> u64 {
        let far = self.random.one_in(40);
        self.random.below(REACH) + if far { FAR } else { 0 }
    }

    pub(super) fn truncate(&mut self, path: &Path) -> Reply<()> {
        let size = self.size();
        let file = Self::open(path, OFlags::WRONLY)?;
        rustix::fs::ftruncate(&file, size)
    }

    pub(super) fn fallocate(&mut self, path: &Path) -> Reply<()> {
        let (offset, len) = self.range();
        let keep = FallocateFlags::KEEP_SIZE;
        let how = [
            FallocateFlags::empty(),
            keep,
            keep | FallocateFlags::PUNCH_HOLE,
            FallocateFlags::PUNCH_HOLE,
            FallocateFlags::ZERO_RANGE,
            keep | FallocateFlags::ZERO_RANGE,
        ];
        let how = self.random.pick(&how);
        let file = Self::open(path, OFlags::WRONLY)?;
        let id = Id::of(&file.metadata().map_err(|e| errno(&e))?);
        self.exempt.mtimes.insert(id);
        rustix::fs::fallocate(&file, how, offset, len)
    }

    /// Returns where data and holes are, after all is written and nothing is in the kernel's cache.
    pub(super) fn seek(&mut self, path: &Path) -> Reply<Vec<u64>> {
        let file = Self::open(path, OFlags::RDONLY)?;
        let metadata = file.metadata().map_err(|e| errno(&e))?;
        if !metadata.is_file() {
            return Err(Errno::INVAL);
        }
        rustix::fs::fsync(&file)?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        if self.exempt.holes.contains(&Id::of(&metadata)) {
            return Ok(vec![metadata.len()]);
        }
        ranges(&file)
    }

    /// Copies within one file, or from one to another.
    pub(super) fn copy(&mut self, from: &Path) -> String {
        let to = if self.random.one_in(3) { from.to_owned() } else { self.path() };
        let (mut from_at, len) = self.range();
        let (mut to_at, _) = self.range();
        if self.random.one_in(2) {
            // Whole blocks can be shared.
            from_at = from_at / PAGE_BYTES * PAGE_BYTES;
            to_at = to_at / PAGE_BYTES * PAGE_BYTES;
        }
        let mut copied = || -> Reply<usize> {
            let source = Self::open(from, OFlags::RDONLY)?;
            let target = Self::open(&to, OFlags::WRONLY)?;
            let id = Id::of(&target.metadata().map_err(|e| errno(&e))?);
            self.exempt.holes.insert(id);
            let len = usize::try_from(len).expect("small");
            let mut done = 0;
            // Linux may share whole blocks, and copy the rest when it is asked again.
            while done < len {
                let (at, to_at) = (Some(&mut from_at), Some(&mut to_at));
                match rustix::fs::copy_file_range(&source, at, &target, to_at, len - done)? {
                    0 => break,
                    copied => done += copied,
                }
            }
            Ok(done)
        };
        let copied = shown(copied());
        format!("to {}: {copied}", self.below_root(&to))
    }

    /// Writes through a shared mapping, within the file.
    pub(super) fn map(&mut self, path: &Path) -> String {
        let (offset, len) = self.range();
        let (byte, sync) = (self.random.byte(), self.random.one_in(2));
        let offset = offset / PAGE_BYTES * PAGE_BYTES;
        let mut size = || -> Reply<u64> {
            let metadata = Self::open(path, OFlags::RDWR)?.metadata().map_err(|e| errno(&e))?;
            self.exempt.holes.insert(Id::of(&metadata));
            if metadata.is_file() { Ok(metadata.len()) } else { Err(Errno::INVAL) }
        };
        let len = match size() {
            Ok(size) => size.saturating_sub(offset).min(len),
            Err(error) => return shown::<()>(Err(error)),
        };
        if len == 0 {
            return "behind the end".into();
        }
        // A process of its own: munmap(2) waits for the writes with the lock of the whole address
        // space, in which the threads that serve the mount are.
        let mut program = Command::new("xfs_io");
        program.args(["-c", &format!("mmap -rw {offset} {len}")]);
        program.args(["-c", &format!("mwrite -S {byte} {offset} {len}")]);
        program.args(sync.then_some(["-c", "msync -s"]).into_iter().flatten());
        let output = program.args(["-c", "munmap"]).arg(path).output().expect("xfs_io");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        format!("{len} bytes")
    }
}

/// Returns the offsets at which data and holes begin, in turns, data first.
fn ranges(file: &File) -> Reply<Vec<u64>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while found.len() < RANGES_MAX {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(found),
            Err(error) => return Err(error),
        };
        at = rustix::fs::seek(file, SeekFrom::Hole(data))?;
        // Neighbours of different states are one range.
        if found.last() == Some(&data) {
            found.pop();
        } else {
            found.push(data);
        }
        found.push(at);
    }
    Ok(found)
}
