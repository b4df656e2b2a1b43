//! Snapshots of devices that go on being written.
//!
//! A [`SnapshotDevice`] passes everything through. While there is a [`Snapshot`], each write first
//! saves the content that it overwrites. The snapshot reads the device, and lays what was saved
//! over it. The devices of one volume (its data, and an external journal) form a [`SnapshotGroup`],
//! so that a snapshot shows all of them at one moment: as a power failure would leave them whose
//! disks lose nothing.
//!
//! 1. A snapshot begins while no write is under way: each write is in it wholly or not at all.
//! 2. A page is saved before it is overwritten, and a reader looks for saved pages after it has
//!    read the device: it never returns newer content.
//! 3. A snapshot never makes a write fail. Content that cannot be saved breaks the snapshot: its
//!    reads fail from then on.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::{BlockDevice, Error, IoRead, Result};
use crate::pages::Pages;
use crate::spill::Spill;
use crate::{forward, plain};

/// Size of a page in bytes, the unit in which content is saved.
const PAGE: u64 = 4096;
/// Pages that are saved at once, at most.
const PAGES_AT_ONCE: u64 = 256;
/// The error of a broken snapshot.
pub const BROKEN: Errno = Errno::STALE;

/// Devices of which snapshots are taken together.
#[derive(Debug)]
pub struct SnapshotGroup {
    devices: Vec<Arc<dyn BlockDevice>>,
    /// The snapshots that there are. Held shared by each write, and exclusively while a snapshot
    /// begins or ends.
    active: RwLock<Vec<Arc<Taken>>>,
}

/// A device of a [`SnapshotGroup`].
#[derive(Debug)]
pub struct SnapshotDevice {
    group: Arc<SnapshotGroup>,
    number: usize,
    base: Arc<dyn BlockDevice>,
}

/// The devices of a group as they were when the snapshot was taken. It ends with its last reference
/// and the last of its devices.
#[derive(Debug)]
pub struct Snapshot {
    group: Arc<SnapshotGroup>,
    taken: Arc<Taken>,
}

/// The saved content of one snapshot, for each device.
#[derive(Debug)]
struct Taken {
    devices: Vec<Saved>,
}

/// The saved content of one device.
#[derive(Debug)]
struct Saved {
    pages: Pages,
    memory: ByteLen,
    /// For what exceeds `memory`.
    spill: Spill,
    /// Held while pages are saved: each is saved once. The device below is read meanwhile.
    saving: Mutex<()>,
    broken: AtomicBool,
}

impl SnapshotGroup {
    /// Makes a group of devices.
    pub fn new(devices: Vec<Arc<dyn BlockDevice>>) -> Arc<Self> {
        Arc::new(Self { devices, active: RwLock::default() })
    }

    /// Returns device `number` of the group, to be written through: writes past it are not in the
    /// snapshots' order.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn device(self: &Arc<Self>, number: usize) -> Arc<SnapshotDevice> {
        let base = Arc::clone(&self.devices[number]);
        Arc::new(SnapshotDevice { group: Arc::clone(self), number, base })
    }

    /// Takes a snapshot of all devices as they are now. For each device, about `memory` bytes of
    /// overwritten content stay in memory; more goes to a file without a name in `dir`.
    pub fn take(self: &Arc<Self>, memory: ByteLen, dir: &Path) -> Arc<Snapshot> {
        let saved = || Saved {
            pages: Pages::new(PAGE),
            memory,
            spill: Spill::opened(PAGE, dir.to_owned()),
            saving: Mutex::default(),
            broken: AtomicBool::new(false),
        };
        let taken = Arc::new(Taken { devices: self.devices.iter().map(|_| saved()).collect() });
        self.active.write().push(Arc::clone(&taken));
        Arc::new(Snapshot { group: Arc::clone(self), taken })
    }
}

impl Saved {
    /// Saves the content of `base` that a write of `len` bytes at `offset` replaces.
    fn save(&self, base: &dyn BlockDevice, offset: ByteOffset, len: ByteLen) {
        let end = offset.0.saturating_add(len.0).min(base.size().0).div_ceil(PAGE);
        let (_saving, mut next) = (self.saving.lock(), offset.0 / PAGE);
        while !self.broken.load(Ordering::Acquire) {
            let Some(run) = self.missing(next..end) else { return };
            next = run.end;
            if !self.save_run(base, run) {
                self.broken.store(true, Ordering::Release);
                self.pages.drop_within(0..u64::MAX);
            }
        }
    }

    /// Returns the first pages of `pages` that are not saved.
    fn missing(&self, pages: Range<u64>) -> Option<Range<u64>> {
        let is_saved = |page: u64| {
            self.pages.touches(ByteOffset(page * PAGE), ByteLen(1)) || self.spill.holds(page)
        };
        let start = pages.clone().find(|&page| !is_saved(page))?;
        let end = pages.end.min(start + PAGES_AT_ONCE);
        let end = (start + 1..end).find(|&page| is_saved(page)).unwrap_or(end);
        Some(start..end)
    }

    /// Saves the pages of `run`. Returns false if they cannot be read, or there is no room.
    fn save_run(&self, base: &dyn BlockDevice, run: Range<u64>) -> bool {
        let (start, page_len) = (ByteOffset(run.start * PAGE), index(PAGE));
        let mut bytes = vec![0; index((run.end - run.start) * PAGE)];
        let inside = bytes.len().min(index(base.size().0 - start.0));
        base.read_at(start, &mut bytes[..inside]).is_ok()
            && run.zip(bytes.chunks(page_len)).all(|(page, bytes)| self.keep(page, bytes))
    }

    fn keep(&self, page: u64, bytes: &[u8]) -> bool {
        if self.pages.resident() < self.memory {
            return self.pages.write(ByteOffset(page * PAGE), bytes, |_, _| Ok(())).is_ok();
        }
        matches!(self.spill.write(page, 0, bytes, |_| Ok(())), Ok(true))
    }

    /// Lays what was saved over `buf`, which was read from `offset` of the device.
    fn read_over(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        if self.broken.load(Ordering::Acquire) {
            let len = ByteLen(buf.len() as u64);
            return Err(Error::Io { op: "read", offset, len, source: io::Error::from(BROKEN) });
        }
        self.pages.read_over(offset, buf);
        self.spill.read_over(offset, buf)
    }
}

impl SnapshotDevice {
    /// Saves what the writes of `ranges` replace, and calls `write`.
    fn change<T>(
        &self,
        ranges: impl Iterator<Item = (ByteOffset, ByteLen)> + Clone,
        write: impl FnOnce(&dyn BlockDevice) -> T,
    ) -> T {
        let active = self.group.active.read();
        for taken in &*active {
            let saved = &taken.devices[self.number];
            ranges.clone().for_each(|(offset, len)| saved.save(&*self.base, offset, len));
        }
        write(&*self.base)
    }
}

/// Returns the range of one write.
fn one(offset: ByteOffset, len: usize) -> std::iter::Once<(ByteOffset, ByteLen)> {
    std::iter::once((offset, ByteLen(len as u64)))
}

impl BlockDevice for SnapshotDevice {
    // A healed block is the same content, on another member.
    forward!(this => this.base; size, logical_block_size, physical_block_size, topology,
        is_read_only, read_at, read_batch, lend, flush, will_need, skip_hole, alternatives,
        read_alternative, heal);

    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.change(one(offset, buf.len()), |base| base.write_at(offset, buf))
    }

    fn write_batch(&self, batch: &[(ByteOffset, &[u8])]) -> Vec<Result<()>> {
        let ranges = batch.iter().map(|(offset, buf)| (*offset, ByteLen(buf.len() as u64)));
        self.change(ranges, |base| base.write_batch(batch))
    }

    fn write_fua(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.change(one(offset, buf.len()), |base| base.write_fua(offset, buf))
    }

    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        self.change(std::iter::once((offset, len)), |base| base.write_zeroes(offset, len))
    }

    /// Does nothing while there is a snapshot, which may still need the content.
    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        let active = self.group.active.read();
        if active.is_empty() { self.base.discard(offset, len) } else { Ok(()) }
    }
}

impl Snapshot {
    /// Returns the devices of the group, to be read as they were.
    pub fn devices(self: &Arc<Self>) -> Vec<Arc<dyn BlockDevice>> {
        let view = |number| -> Arc<dyn BlockDevice> {
            let base = Arc::clone(&self.group.devices[number]);
            Arc::new(View { base, number, snapshot: Arc::clone(self) })
        };
        (0..self.group.devices.len()).map(view).collect()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.group.active.write().retain(|taken| !Arc::ptr_eq(taken, &self.taken));
    }
}

/// A device as it was.
#[derive(Debug)]
struct View {
    base: Arc<dyn BlockDevice>,
    number: usize,
    snapshot: Arc<Snapshot>,
}

impl View {
    fn read_over(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.snapshot.taken.devices[self.number].read_over(offset, buf)
    }
}

impl BlockDevice for View {
    forward!(this => this.base; size, logical_block_size, physical_block_size, topology, will_need,
        alternatives);
    // Holes of the device may have been content then.
    plain!(lend, write_batch, write_fua, discard, write_zeroes, skip_hole, heal);

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.base.read_at(offset, buf)?;
        self.read_over(offset, buf)
    }

    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        let results = self.base.read_batch(batch);
        let over = |(io, result): (&mut IoRead<'_>, Result<()>)| {
            result.and_then(|()| self.read_over(io.offset, io.buf))
        };
        batch.iter_mut().zip(results).map(over).collect()
    }

    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        self.base.read_alternative(offset, buf, k)?;
        self.read_over(offset, buf)
    }

    fn write_at(&self, _: ByteOffset, _: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
