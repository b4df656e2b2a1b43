//! An image file or a block device of this machine.
//!
//! I/O is positioned and goes through the page cache, except for large aligned writes, which bypass
//! it (Linux keeps the two coherent). A batch of reads is sorted, and neighbours become one
//! `preadv`. Then, instead of a pool of threads:
//!
//! 1. every run of neighbours is read with `RWF_NOWAIT`, which copies what the page cache holds and
//!    never waits: a batch of hot data is finished here, without a thread or a queue;
//! 2. missing ranges are announced (`POSIX_FADV_WILLNEED`), so that the kernel has all of them in
//!    flight at once;
//! 3. then they are read, waiting.
//!
//! `docs/design/reading-in-batches.md` compares this with threads and io_uring. A batch of writes
//! is sorted and its neighbours joined as well.
//!
//! A device opened for writing is locked against other writers that lock it (`lock.rs`). Devices
//! that the kernel may write to are refused. A block device is opened exclusively. A file or device
//! attached to a loop device is not opened at all, because its volume may be mounted.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom as StdSeekFrom};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Advice, FallocateFlags, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use xfskit_units::{ByteLen, ByteOffset};

use crate::device::{BlockDevice, Error, Holder, IoRead, Result, check_range, check_span};
use crate::direct::{self, Direct};
use crate::lock::{self, NotLocked};
use crate::plain;
use crate::topology::Topology;
use crate::{holders, ioctl, loops};

/// Most buffers that one `preadv` takes (`IOV_MAX`).
const IOV_MAX: usize = 1024;
/// Longest range announced at once, in bytes. The kernel truncates one announcement to the device's
/// read-ahead size.
const ANNOUNCE: u64 = 128 * 1024;

/// The access that a device is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading only; no lock is taken.
    ReadOnly,
    /// Reading and writing; other writers are locked out.
    ReadWrite,
}

/// An image file or a block device.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    size: ByteLen,
    logical: u32,
    physical: u32,
    topology: Topology,
    is_block_device: bool,
    mode: OpenMode,
    /// The same file, open for writes that bypass the page cache. Set by the first such write, if
    /// the filesystem supports them.
    direct: OnceLock<Option<Direct>>,
}

impl FileDevice {
    /// Opens an existing image file or block device. For writing it is locked; a program that holds
    /// a shared lock is waited for, five seconds at most.
    ///
    /// # Errors
    /// [`Error::InUse`] if another writer or the kernel holds it, [`Error::Open`] for everything
    /// else.
    pub fn open(path: impl AsRef<Path>, mode: OpenMode) -> Result<Self> {
        let path = path.as_ref();
        let fail = |source| Error::Open { path: path.into(), source };
        let meta = std::fs::metadata(path).map_err(fail)?;
        let kind = meta.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(fail(io::Error::other("neither a file nor a block device")));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(mode == OpenMode::ReadWrite);
        if mode == OpenMode::ReadWrite && kind.is_block_device() {
            options.custom_flags(OFlags::EXCL.bits().cast_signed()); // not while mounted
        }
        let file = options.open(path).map_err(|source| match Errno::from_io_error(&source) {
            Some(Errno::BUSY) => Error::InUse { path: path.into(), by: holders::of(&meta) },
            _ => fail(source),
        })?;
        Self::from_open(file, path, mode)
    }

    /// Creates an image file of `size` bytes that takes no space yet. An existing file of that name
    /// loses its content.
    ///
    /// # Errors
    /// [`Error::InUse`] if another writer or the kernel holds the file, [`Error::Open`] for
    /// everything else, for example if the filesystem cannot hold a file of that size.
    pub fn create(path: impl AsRef<Path>, size: ByteLen) -> Result<Self> {
        let path = path.as_ref();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false) // not before the lock is ours
            .open(path)
            .map_err(|source| Error::Open { path: path.into(), source })?;
        let mut device = Self::from_open(file, path, OpenMode::ReadWrite)?;
        device.resize(ByteLen(0)).and_then(|()| device.resize(size)).map_err(|e| match e {
            Error::Io { source, .. } => Error::Open { path: path.into(), source },
            other => other,
        })?;
        Ok(device)
    }

    fn from_open(mut file: File, path: &Path, mode: OpenMode) -> Result<Self> {
        let fail = |source| Error::Open { path: path.into(), source };
        let meta = file.metadata().map_err(fail)?;
        if mode == OpenMode::ReadWrite {
            lock::exclusive(&file, lock::PATIENCE).map_err(|not| match not {
                NotLocked::Held(by) => Error::InUse { path: path.into(), by },
                NotLocked::Failed(source) => fail(source),
            })?;
            if let Some(device) = loops::attached_to(&meta) {
                return Err(Error::InUse { path: path.into(), by: Holder::Loop(device) });
            }
        }
        let is_block_device = meta.file_type().is_block_device();
        if is_block_device
            && mode == OpenMode::ReadWrite
            && ioctl::is_read_only(&file).map_err(fail)?
        {
            let why = "the device is read-only";
            return Err(fail(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why)));
        }
        let size = ByteLen(file.seek(StdSeekFrom::End(0)).map_err(fail)?);
        let (logical, physical) = if is_block_device {
            let logical = rustix::fs::ioctl_blksszget(&file).map_err(|e| fail(e.into()))?;
            let physical = rustix::fs::ioctl_blkpbszget(&file).map_err(|e| fail(e.into()))?;
            (logical.max(512), physical.max(logical))
        } else {
            (512, 512)
        };
        // A disk without stripes reports units of its own block, and no width.
        let topology =
            Some(()).filter(|()| is_block_device).and_then(|()| ioctl::topology(&file).ok());
        let is_stripe = |t: &Topology| t.is_striped() && t.stripe_unit.0 > u64::from(physical);
        let topology = topology.filter(is_stripe).unwrap_or_default();
        let direct = OnceLock::new();
        Ok(Self { file, size, logical, physical, topology, is_block_device, mode, direct })
    }

    /// Resizes the image file to `size` bytes; new bytes read as zeroes.
    ///
    /// # Errors
    /// [`Error::Io`] if the filesystem refuses, and for a block device.
    pub fn resize(&mut self, size: ByteLen) -> Result<()> {
        self.check_writable()?;
        self.file.set_len(size.0).map_err(|e| io_error("resize", ByteOffset(0), size, e))?;
        self.size = size;
        Ok(())
    }

    /// Returns true for a block device, false for an image file.
    pub fn is_block_device(&self) -> bool {
        self.is_block_device
    }

    /// Returns the next range at or after `offset` that may hold something other than zeroes;
    /// `None` if only a hole follows. If the file cannot report holes, everything is data.
    ///
    /// # Errors
    /// [`Error::Io`] if the filesystem fails.
    pub fn next_data(&self, offset: ByteOffset) -> Result<Option<Range<ByteOffset>>> {
        if offset.0 >= self.size.0 {
            return Ok(None);
        }
        let end_of_device = ByteOffset(self.size.0);
        let fail = |e: Errno| io_error("seek", offset, ByteLen(0), e.into());
        let start = match rustix::fs::seek(&self.file, SeekFrom::Data(offset.0)) {
            Ok(start) => ByteOffset(start),
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL) => return Ok(Some(offset..end_of_device)),
            Err(e) => return Err(fail(e)),
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start.0)).map_err(fail)?;
        Ok(Some(start..ByteOffset(end).min(end_of_device)))
    }

    /// Returns all ranges that may hold something other than zeroes, in order.
    ///
    /// # Errors
    /// [`Error::Io`] if the filesystem fails.
    pub fn allocated_ranges(&self) -> Result<Vec<Range<ByteOffset>>> {
        let mut ranges = Vec::new();
        let mut at = ByteOffset(0);
        while let Some(range) = self.next_data(at)? {
            if range.end <= at {
                break; // the file changes under us
            }
            at = range.end;
            ranges.push(range);
        }
        Ok(ranges)
    }

    fn check_writable(&self) -> Result<()> {
        if self.mode == OpenMode::ReadOnly { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Returns the file for direct writes if `len` reaches `least`, both in bytes; `None` if the
    /// filesystem has no direct I/O.
    fn direct(&self, len: usize, least: usize) -> Option<&Direct> {
        let file = (len >= least).then(|| self.direct.get_or_init(|| Direct::open(&self.file)))?;
        file.as_ref()
    }

    /// Calls `fallocate` on a range. Returns false if the file or device lacks the ability.
    fn fallocate(
        &self,
        op: &'static str,
        flags: FallocateFlags,
        offset: ByteOffset,
        len: ByteLen,
    ) -> Result<bool> {
        match rustix::fs::fallocate(&self.file, flags | FallocateFlags::KEEP_SIZE, offset.0, len.0)
        {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::NODEV) => Ok(false),
            Err(e) => Err(io_error(op, offset, len, e.into())),
        }
    }

    /// Reads a run of neighbours with one `preadv2`. Returns true if all of it was read.
    fn read_run(&self, run: &mut [(usize, &mut IoRead<'_>)], flags: ReadWriteFlags) -> bool {
        let Some(start) = run.first().map(|(_, io)| io.offset.0) else { return true };
        let want: usize = run.iter().map(|(_, io)| io.buf.len()).sum();
        let mut slices: Vec<_> = run.iter_mut().map(|(_, io)| IoSliceMut::new(io.buf)).collect();
        rustix::io::preadv2(&self.file, &mut slices, start, flags).is_ok_and(|got| got == want)
    }

    /// Writes a run of neighbours, in parts: past the page cache what is long and aligned, else
    /// through it. Returns how many pieces each part has, and whether all of it was written.
    fn write_run(&self, run: &[(ByteOffset, &[u8])]) -> Vec<(usize, bool)> {
        let want: usize = run.iter().map(|(_, bytes)| bytes.len()).sum();
        let device = self.direct(want, direct::BATCH_MIN);
        let direct = match device {
            Some(_) => direct::stretches(run, direct::BATCH_MIN),
            None => vec![false; run.len()],
        };
        let mut rest = run;
        let parts = direct.chunk_by(|one, next| one == next);
        parts
            .map(|part| {
                let (now, later) = rest.split_at(part.len());
                rest = later;
                let device = device.filter(|_| part.first() == Some(&true));
                (now.len(), self.write_part(now, device))
            })
            .collect()
    }

    /// Writes neighbours by one request, to `direct` if it is given and takes them. Returns true if
    /// all of it was written.
    fn write_part(&self, part: &[(ByteOffset, &[u8])], direct: Option<&Direct>) -> bool {
        let Some(&(start, _)) = part.first() else { return true };
        let want: usize = part.iter().map(|(_, bytes)| bytes.len()).sum();
        let slices: Vec<_> = part.iter().map(|(_, bytes)| IoSlice::new(bytes)).collect();
        direct.is_some_and(|direct| direct.write_pages(start, &slices) == want)
            || rustix::io::pwritev(&self.file, &slices, start.0).is_ok_and(|n| n == want)
    }
}

fn io_error(op: &'static str, offset: ByteOffset, len: ByteLen, source: io::Error) -> Error {
    Error::Io { op, offset, len, source }
}

/// Returns true if `next` begins where `io` ends.
fn adjacent(io: &IoRead<'_>, next: &IoRead<'_>) -> bool {
    io.offset.0.checked_add(io.buf.len() as u64) == Some(next.offset.0)
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        if self.mode == OpenMode::ReadWrite {
            lock::unlock(&self.file);
        }
    }
}

impl BlockDevice for FileDevice {
    plain!(lend, alternatives, read_alternative, heal);
    fn size(&self) -> ByteLen {
        self.size
    }

    fn skip_hole(&self, offset: ByteOffset) -> ByteOffset {
        match self.next_data(offset) {
            Ok(Some(data)) => data.start.max(offset),
            Ok(None) => ByteOffset(self.size.0.max(offset.0)),
            Err(_) => offset,
        }
    }

    fn logical_block_size(&self) -> u32 {
        self.logical
    }

    fn physical_block_size(&self) -> u32 {
        self.physical
    }

    fn topology(&self) -> Topology {
        self.topology
    }

    fn is_read_only(&self) -> bool {
        self.mode == OpenMode::ReadOnly
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        check_range("read", self.size, offset, buf.len())?;
        let len = ByteLen(buf.len() as u64);
        self.file.read_exact_at(buf, offset.0).map_err(|e| io_error("read", offset, len, e))
    }

    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        let mut results: Vec<Result<()>> = batch
            .iter()
            .map(|io| check_range("read", self.size, io.offset, io.buf.len()))
            .collect();
        let mut sorted: Vec<_> =
            batch.iter_mut().enumerate().filter(|(i, _)| results[*i].is_ok()).collect();
        sorted.sort_by_key(|(_, io)| io.offset);
        let mut runs: Vec<_> = sorted
            .chunk_by_mut(|(_, io), (_, next)| adjacent(io, next))
            .flat_map(|run| run.chunks_mut(IOV_MAX))
            .collect();
        if runs.len() > 1 {
            runs.retain_mut(|run| !self.read_run(run, ReadWriteFlags::NOWAIT));
            for run in &runs {
                let len: usize = run.iter().map(|(_, io)| io.buf.len()).sum();
                self.will_need(run[0].1.offset, ByteLen(len as u64));
            }
        }
        for run in runs {
            if !self.read_run(run, ReadWriteFlags::empty()) {
                // A part failed or was short: single requests find out which.
                for (i, io) in run {
                    results[*i] = self.read_at(io.offset, io.buf);
                }
            }
        }
        results
    }

    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_range("write", self.size, offset, buf.len())?;
        let len = ByteLen(buf.len() as u64);
        let direct = self.direct(buf.len(), direct::MIN);
        let done = direct.map_or(0, |direct| direct.write_pages(offset, &[IoSlice::new(buf)]));
        self.file
            .write_all_at(&buf[done..], offset.0 + done as u64)
            .map_err(|e| io_error("write", offset, len, e))
    }

    /// Makes this write durable without waiting for other writes to the file.
    fn write_fua(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_range("write", self.size, offset, buf.len())?;
        let direct = self.direct(buf.len(), direct::MIN);
        if direct.is_some_and(|direct| direct.write_fua(offset, buf)) {
            return Ok(());
        }
        let slices = [IoSlice::new(buf)];
        let flags = ReadWriteFlags::DSYNC;
        match rustix::io::pwritev2(&self.file, &slices, offset.0, flags) {
            Ok(wrote) if wrote == buf.len() => Ok(()),
            // For single pieces, or if the flag is unknown.
            _ => {
                self.write_at(offset, buf)?;
                self.flush()
            }
        }
    }

    fn write_batch(&self, batch: &[(ByteOffset, &[u8])]) -> Vec<Result<()>> {
        let mut results: Vec<Result<()>> = batch
            .iter()
            .map(|(offset, buf)| {
                self.check_writable()?;
                check_range("write", self.size, *offset, buf.len())
            })
            .collect();
        let mut sorted: Vec<usize> = (0..batch.len()).filter(|&i| results[i].is_ok()).collect();
        sorted.sort_by_key(|&i| batch[i].0);
        let ends_at = |i: usize| batch[i].0.checked_add(batch[i].1.len() as u64);
        let runs = sorted
            .chunk_by(|&i, &next| ends_at(i) == Some(batch[next].0))
            .flat_map(|run| run.chunks(IOV_MAX));
        for run in runs {
            let pieces: Vec<_> = run.iter().map(|&i| batch[i]).collect();
            let mut done = 0;
            for (part, wrote) in self.write_run(&pieces) {
                if !wrote {
                    // A part failed or was short: single requests find out which.
                    for &i in &run[done..done + part] {
                        results[i] = self.write_at(batch[i].0, batch[i].1);
                    }
                }
                done += part;
            }
        }
        results
    }

    fn flush(&self) -> Result<()> {
        if self.mode == OpenMode::ReadOnly {
            return Ok(());
        }
        self.file.sync_data().map_err(|e| io_error("flush", ByteOffset(0), self.size, e))
    }

    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.check_writable()?;
        check_span("discard", self.size, offset, len)?;
        if len.0 == 0 {
            return Ok(());
        }
        if self.is_block_device {
            return match ioctl::discard(&self.file, offset.0, len.0) {
                Err(e)
                    if e.kind() != io::ErrorKind::Unsupported
                        && e.kind() != io::ErrorKind::InvalidInput =>
                {
                    Err(io_error("discard", offset, len, e))
                }
                _ => Ok(()), // a device without the ability ignores the hint
            };
        }
        self.fallocate("discard", FallocateFlags::PUNCH_HOLE, offset, len).map(|_| ())
    }

    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.check_writable()?;
        check_span("write", self.size, offset, len)?;
        if len.0 == 0 {
            return Ok(());
        }
        for flags in [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE] {
            if self.fallocate("write zeroes", flags, offset, len)? {
                return Ok(());
            }
        }
        let zeroes = vec![0u8; xfskit_units::index(len.0.min(1 << 20))];
        let mut done = 0;
        while done < len.0 {
            let n = (len.0 - done).min(zeroes.len() as u64);
            self.write_at(ByteOffset(offset.0 + done), &zeroes[..xfskit_units::index(n)])?;
            done += n;
        }
        Ok(())
    }

    fn will_need(&self, offset: ByteOffset, len: ByteLen) {
        let end = offset.0.saturating_add(len.0).min(self.size.0);
        let mut at = offset.0;
        while let Some(n) = NonZeroU64::new(end.saturating_sub(at).min(ANNOUNCE)) {
            if rustix::fs::fadvise(&self.file, at, Some(n), Advice::WillNeed).is_err() {
                return;
            }
            at += n.get();
        }
    }
}

#[cfg(test)]
mod tests;
