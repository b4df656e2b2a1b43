//! Copy-on-write in a file. Writes go to the file, the devices below are never touched, and a later
//! open of the file finds the changes.
//!
//! ```text
//! header          the devices that the overlay belongs to ([`header`])
//! per device    a bitmap of the pages of 4 KiB that the file holds (whole pages)
//!               the pages, each at its offset on the device
//! ```
//!
//! The file is sparse: it takes the space of the changed pages only. The bitmap reaches the disk at
//! a flush, after the pages that it announces. Writes that were not flushed are lost with the
//! process, as from any disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::{BlockDevice, Error, Result, check_range};
use crate::file::{FileDevice, OpenMode};
use crate::{forward, plain};

mod header;

pub use header::Fingerprint;
use header::{Header, PAGE, compare};

/// A writable view of a device whose changes live in a file.
#[derive(Debug)]
pub struct CowDevice {
    base: Arc<dyn BlockDevice>,
    file: Arc<dyn BlockDevice>,
    bits_at: u64,
    pages_at: u64,
    mode: OpenMode,
    /// Bitmap of the pages that the file holds. Readers share it; a writer of a page holds it
    /// exclusively.
    bits: RwLock<Vec<u8>>,
    /// Bytes of the bitmap that are not on the disk yet. Leaf lock.
    dirty: Mutex<BTreeSet<usize>>,
}

/// Opens views of `devices` whose changes live in the file at `path`. An existing file is
/// continued. Otherwise the file is created, if `mode` is to write. `now` identifies the devices as
/// they are; a new file records it.
///
/// # Errors
/// If the file cannot be opened, or holds the changes of other devices.
pub fn open(
    path: &Path,
    devices: &[Arc<dyn BlockDevice>],
    now: &[Fingerprint],
    mode: OpenMode,
) -> Result<Vec<CowDevice>> {
    let sizes: Vec<u64> = devices.iter().map(|device| device.size().0).collect();
    let pages = |start: u64| {
        sizes.iter().fold(start, |at, size| at + bits_len(*size) + size.next_multiple_of(PAGE))
    };
    let (file, header): (Arc<dyn BlockDevice>, Header) = if path.exists()
        || mode == OpenMode::ReadOnly
    {
        let file = FileDevice::open(path, mode)?;
        let header = Header::read(&file)?;
        if !header.fits(&sizes) || file.size().0 != pages(header.len()) {
            return Err(Error::Overlay("the overlay holds the changes of other devices".into()));
        }
        compare(header.recorded(), now)?;
        (Arc::new(file), header)
    } else {
        let header = Header::new(sizes.clone(), now)?;
        let file = FileDevice::create(path, ByteLen(pages(header.len())))?;
        header.write(&file)?;
        (Arc::new(file), header)
    };
    let mut at = header.len();
    let view = |base: &Arc<dyn BlockDevice>| {
        let (bits_at, pages_at) = (at, at + bits_len(base.size().0));
        at = pages_at + base.size().0.next_multiple_of(PAGE);
        let mut bits = vec![0; index(base.size().0.div_ceil(PAGE).div_ceil(8))];
        file.read_at(ByteOffset(bits_at), &mut bits)?;
        let (base, file) = (Arc::clone(base), Arc::clone(&file));
        let (bits, dirty) = (bits.into(), Mutex::default());
        Ok(CowDevice { base, file, bits_at, pages_at, mode, bits, dirty })
    };
    devices.iter().map(view).collect()
}

/// Returns warnings for a caller that is about to continue the overlay at `path`: devices that have
/// changed since it was made, or an overlay that does not record its devices. Empty if there is no
/// such file yet.
///
/// # Errors
/// Those of [`open`].
pub fn warnings(path: &Path, now: &[Fingerprint]) -> Result<Vec<String>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let header = Header::read(&FileDevice::open(path, OpenMode::ReadOnly)?)?;
    if header.recorded().is_empty() {
        let name = path.display();
        return Ok(vec![format!(
            "{name} does not record which devices it belongs to (an older overlay)"
        )]);
    }
    compare(header.recorded(), now)
}

/// Returns the size of a device's bitmap in bytes, rounded up to whole pages.
fn bits_len(size: u64) -> u64 {
    size.div_ceil(PAGE).div_ceil(8).next_multiple_of(PAGE)
}

fn has(bits: &[u8], page: u64) -> bool {
    bits.get(index(page / 8)).is_some_and(|byte| byte >> (page % 8) & 1 == 1)
}

impl CowDevice {
    /// Fills `buf` by `read`, which reads the device below from `offset`, and lays the written
    /// pages over it.
    fn read_over(
        &self,
        offset: ByteOffset,
        buf: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let bits = self.bits.read();
        read(buf)?;
        Self::each_page(offset.0, buf.len() as u64, |page, from, to| {
            if !has(&bits, page) {
                return Ok(());
            }
            let part = &mut buf[index(from - offset.0)..index(to - offset.0)];
            self.file.read_at(ByteOffset(self.pages_at + from), part)
        })
    }

    /// Calls `work` with each page that the range touches, and the part that it touches (from, to),
    /// in bytes.
    fn each_page(
        offset: u64,
        len: u64,
        mut work: impl FnMut(u64, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let stop = (at / PAGE * PAGE + PAGE).min(end);
            work(at / PAGE, at, stop)?;
            at = stop;
        }
        Ok(())
    }
}

impl BlockDevice for CowDevice {
    forward!(this => this.base; size, logical_block_size, physical_block_size, topology, will_need);
    // Writes go to the file, so the device below neither zeroes, nor discards, nor heals; its holes
    // may have been written.
    plain!(lend, read_batch, write_batch, write_fua, discard, write_zeroes, skip_hole, heal);
    fn is_read_only(&self) -> bool {
        self.mode == OpenMode::ReadOnly
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        check_range("read", self.size(), offset, buf.len())?;
        self.read_over(offset, buf, |buf| self.base.read_at(offset, buf))
    }
    /// Returns the number of sources of the device below. The written data is laid over each of
    /// them.
    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        self.base.alternatives(offset, len)
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        check_range("read", self.size(), offset, buf.len())?;
        self.read_over(offset, buf, |buf| self.base.read_alternative(offset, buf, k))
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        check_range("write", self.size(), offset, buf.len())?;
        let mut bits = self.bits.write();
        Self::each_page(offset.0, buf.len() as u64, |page, from, to| {
            let part = &buf[index(from - offset.0)..index(to - offset.0)];
            if has(&bits, page) {
                return self.file.write_at(ByteOffset(self.pages_at + from), part);
            }
            let start = page * PAGE;
            let mut whole = vec![0; index(PAGE.min(self.size().0 - start))];
            self.base.read_at(ByteOffset(start), &mut whole)?;
            whole[index(from - start)..index(to - start)].copy_from_slice(part);
            self.file.write_at(ByteOffset(self.pages_at + start), &whole)?;
            bits[index(page / 8)] |= 1 << (page % 8);
            self.dirty.lock().insert(index(page / 8));
            Ok(())
        })
    }
    fn flush(&self) -> Result<()> {
        self.file.flush()?;
        let bits = self.bits.read();
        let dirty = std::mem::take(&mut *self.dirty.lock());
        if dirty.is_empty() {
            return Ok(());
        }
        for at in &dirty {
            let place = ByteOffset(self.bits_at + *at as u64);
            if let Err(error) = self.file.write_at(place, &bits[*at..=*at]) {
                self.dirty.lock().extend(dirty);
                return Err(error);
            }
        }
        self.file.flush()
    }
}

impl Drop for CowDevice {
    /// Keeps unflushed writes when the view is dropped.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests;
