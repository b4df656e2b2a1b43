//! Copy-on-write in a file: what is written goes there, the devices below are never touched, and who opens
//! the file again finds his changes.
//!
//! ```text
//! page 0        magic, how many devices, the size of each
//! per device    a bit for each page of 4 KiB: does the file have it? (whole pages)
//!               the pages, each where it stands on the device
//! ```
//!
//! The file is sparse: it takes the room of what was changed. Bits reach the disk at a flush, behind the pages
//! that they announce; what was not flushed is lost with the process, as from any disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::{BlockDevice, Error, Result, check_range};
use crate::file::{FileDevice, OpenMode};
use crate::forward::forward;

const PAGE: u64 = 4096;
const MAGIC: &[u8; 16] = b"xfskit overlay 1";
/// Devices that one file may hold the changes of: what the first page has room for.
const DEVICES_MAX: usize = 500;

/// A writable view of a device whose changes live in a file.
#[derive(Debug)]
pub struct CowDevice {
    base: Arc<dyn BlockDevice>,
    file: Arc<dyn BlockDevice>,
    bits_at: u64,
    pages_at: u64,
    mode: OpenMode,
    /// Which pages the file has. Readers share it; it is held alone while a page is written.
    bits: RwLock<Vec<u8>>,
    /// Bytes of the bits that are not on the disk yet. Leaf lock.
    dirty: Mutex<BTreeSet<usize>>,
}

/// Views of `devices` whose changes live in the file at `path`: made anew where it does not exist and `mode` is
/// to write, else gone on with.
///
/// # Errors
/// Where the file cannot be opened, or holds the changes of other devices.
pub fn open(
    path: &Path,
    devices: &[Arc<dyn BlockDevice>],
    mode: OpenMode,
) -> Result<Vec<CowDevice>> {
    let sizes: Vec<u64> = devices.iter().map(|device| device.size().0).collect();
    let mut head = MAGIC.to_vec();
    for number in std::iter::once(sizes.len() as u64).chain(sizes.iter().copied()) {
        head.extend_from_slice(&number.to_le_bytes());
    }
    if sizes.len() > DEVICES_MAX {
        return Err(refused("an overlay holds the changes of 500 devices at most"));
    }
    head.resize(index(PAGE), 0);
    let end =
        sizes.iter().fold(PAGE, |at, size| at + bits_len(*size) + size.next_multiple_of(PAGE));
    let file: Arc<dyn BlockDevice> = if path.exists() || mode == OpenMode::ReadOnly {
        let file = FileDevice::open(path, mode)?;
        let mut found = vec![0; head.len()];
        if file.size().0 != end || file.read_at(ByteOffset(0), &mut found).is_err() || found != head
        {
            return Err(refused("the overlay holds the changes of other devices"));
        }
        Arc::new(file)
    } else {
        let file = FileDevice::create(path, ByteLen(end))?;
        file.write_fua(ByteOffset(0), &head)?;
        Arc::new(file)
    };
    let mut at = PAGE;
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

/// Bytes of the bits of a device, in whole pages.
fn bits_len(size: u64) -> u64 {
    size.div_ceil(PAGE).div_ceil(8).next_multiple_of(PAGE)
}

fn refused(why: &str) -> Error {
    let source = std::io::Error::other(why.to_owned());
    Error::Io { op: "open", offset: ByteOffset(0), len: ByteLen(0), source }
}

fn has(bits: &[u8], page: u64) -> bool {
    bits.get(index(page / 8)).is_some_and(|byte| byte >> (page % 8) & 1 == 1)
}

impl CowDevice {
    fn dirty(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with each page that the range touches, and the part of it: from, to, in bytes.
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
    forward!(this => this.base; size, logical_block_size, physical_block_size, will_need);
    fn is_read_only(&self) -> bool {
        self.mode == OpenMode::ReadOnly
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        check_range("read", self.size(), offset, buf.len())?;
        let bits = self.bits.read().unwrap_or_else(PoisonError::into_inner);
        self.base.read_at(offset, buf)?;
        Self::each_page(offset.0, buf.len() as u64, |page, from, to| {
            if !has(&bits, page) {
                return Ok(());
            }
            let part = &mut buf[index(from - offset.0)..index(to - offset.0)];
            self.file.read_at(ByteOffset(self.pages_at + from), part)
        })
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        check_range("write", self.size(), offset, buf.len())?;
        let mut bits = self.bits.write().unwrap_or_else(PoisonError::into_inner);
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
            self.dirty().insert(index(page / 8));
            Ok(())
        })
    }
    fn flush(&self) -> Result<()> {
        self.file.flush()?;
        let bits = self.bits.read().unwrap_or_else(PoisonError::into_inner);
        let dirty = std::mem::take(&mut *self.dirty());
        if dirty.is_empty() {
            return Ok(());
        }
        for at in &dirty {
            let place = ByteOffset(self.bits_at + *at as u64);
            if let Err(error) = self.file.write_at(place, &bits[*at..=*at]) {
                self.dirty().extend(dirty);
                return Err(error);
            }
        }
        self.file.flush()
    }
}

impl Drop for CowDevice {
    /// What was written is kept although nobody flushed it.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;

    #[test]
    fn changes_are_found_again_and_the_devices_stay_as_they_are() {
        let folder = std::env::temp_dir().join(format!("xfskit-cow-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("changes");
        let base = |fill: u8| {
            let device = MemDevice::new(ByteLen(50_000));
            device.write_at(ByteOffset(0), &vec![fill; 50_000]).unwrap();
            Arc::new(device) as Arc<dyn BlockDevice>
        };
        let devices = [base(1), base(2)];
        let mut expected = vec![2; 50_000];
        let all = |device: &dyn BlockDevice| {
            let mut all = vec![0; 50_000];
            device.read_at(ByteOffset(0), &mut all).unwrap();
            all
        };
        for (round, (at, len)) in
            [(4000usize, 9000usize), (49_990, 10), (4096, 4096)].into_iter().enumerate()
        {
            let views = open(&path, &devices, OpenMode::ReadWrite).unwrap();
            assert!(all(&views[1]) == expected && all(&views[0]) == vec![1; 50_000]);
            expected[at..at + len].fill(u8::try_from(round).unwrap() + 7);
            views[1].write_at(ByteOffset(at as u64), &expected[at..at + len]).unwrap();
            assert!(all(&views[1]) == expected);
            views[1].flush().unwrap();
        }
        assert!(all(&devices[1]) == vec![2; 50_000]);
        let views = open(&path, &devices, OpenMode::ReadOnly).unwrap();
        assert!(views[1].is_read_only() && all(&views[1]) == expected);
        assert!(matches!(views[1].write_at(ByteOffset(0), &[0]), Err(Error::ReadOnly)));
        assert!(open(&path, &devices[..1], OpenMode::ReadWrite).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
