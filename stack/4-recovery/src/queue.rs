//! The queue of changed sectors that recovery writes to the disk.
//!
//! Changes are kept by 512-byte sector. A block may change its use within one group of transactions
//! (an inode cluster freed, a btree block made in its place), and still has one content then.
//! Memory stays within a few times the size of the journal's contents. The queue also records which
//! *buffers* changed, because CRC and LSN are stamped when the group is written.

use std::collections::BTreeMap;
use std::ops::Range;

use xfskit_block::BlockDevice;
use xfskit_format::log::Stamp;
use xfskit_format::log::item::buf::BufType;
use xfskit_trans::heal::read_alternative;
use xfskit_units::{Daddr, Geometry, Lsn, Sectors};

use crate::error::Result;

/// The unit of changes, in bytes.
pub(crate) const SECTOR: usize = 512;
/// Longest write, in sectors: 1 MiB.
const WRITE_MAX: usize = 2048;

/// The changes of one group of transactions.
#[derive(Debug)]
pub(crate) struct Queue<'d> {
    dev: &'d dyn BlockDevice,
    sectors: BTreeMap<u64, Box<[u8; SECTOR]>>,
    buffers: BTreeMap<(Daddr, Sectors), BufType>,
}

impl<'d> Queue<'d> {
    pub(crate) fn new(dev: &'d dyn BlockDevice) -> Self {
        Self { dev, sectors: BTreeMap::new(), buffers: BTreeMap::new() }
    }

    /// Returns the buffer as it will be: the disk's contents with the changes so far.
    pub(crate) fn read(&self, daddr: Daddr, sectors: Sectors) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(sectors.byte_len().0).unwrap_or(0)];
        let changed = || self.sectors.range(daddr.0..daddr.0.saturating_add(sectors.0));
        if changed().count() as u64 != sectors.0 {
            self.dev.read_at(daddr.byte_offset(), &mut bytes)?;
        }
        for (sector, content) in changed() {
            let start = usize::try_from((sector - daddr.0) * SECTOR as u64).unwrap_or(usize::MAX);
            if let Some(part) = bytes.get_mut(start..start.saturating_add(SECTOR)) {
                part.copy_from_slice(&**content);
            }
        }
        Ok(bytes)
    }

    /// Reads a buffer like [`read`](Self::read), with a check of the CRC on disk. If the CRC is
    /// wrong, an alternative copy from the device is used, if there is one. Otherwise the part that
    /// the journal does not replace would get a valid CRC. All of the buffer then counts as
    /// changed.
    pub(crate) fn read_whole(
        &mut self,
        daddr: Daddr,
        sectors: Sectors,
        geo: &Geometry,
    ) -> Result<Vec<u8>> {
        let mut bytes = self.read(daddr, sectors)?;
        let is_whole = |bytes: &[u8]| Stamp::of(bytes, geo).map(|stamp| stamp.is_whole(bytes));
        let kept = daddr.0..daddr.0.saturating_add(sectors.0);
        if is_whole(&bytes) != Some(false) || self.sectors.range(kept).next().is_some() {
            return Ok(bytes);
        }
        let mut other = vec![0; bytes.len()];
        let whole = |bytes: &[u8]| is_whole(bytes) == Some(true);
        if read_alternative(self.dev, daddr.byte_offset(), &mut other, whole) {
            bytes = other;
            self.change(daddr, &bytes, 0..bytes.len());
        }
        Ok(bytes)
    }

    /// Records the bytes `changed` of `buffer`, which begins at `daddr`.
    pub(crate) fn change(&mut self, daddr: Daddr, buffer: &[u8], changed: Range<usize>) {
        let first = changed.start / SECTOR;
        let last = changed.end.div_ceil(SECTOR);
        let sectors = buffer.chunks_exact(SECTOR).enumerate().take(last).skip(first);
        for (i, bytes) in sectors {
            let mut sector = Box::new([0; SECTOR]);
            sector.copy_from_slice(bytes);
            self.sectors.insert(daddr.0.saturating_add(i as u64), sector);
        }
    }

    /// Records that the buffer needs a stamp when it is written, if it is still of this type then.
    pub(crate) fn stamp_later(&mut self, daddr: Daddr, sectors: Sectors, buf_type: BufType) {
        self.buffers.insert((daddr, sectors), buf_type);
    }

    /// Stamps every changed buffer with `lsn` and its CRC, and writes everything.
    pub(crate) fn flush(&mut self, lsn: Lsn, geo: &Geometry) -> Result<()> {
        for ((daddr, sectors), buf_type) in std::mem::take(&mut self.buffers) {
            let mut bytes = self.read(daddr, sectors)?;
            let stamp = Stamp::of(&bytes, geo).filter(|stamp| stamp.buf_type == buf_type);
            if let Some(stamp) = stamp {
                stamp.write(&mut bytes, lsn);
                self.change(daddr, &bytes, 0..SECTOR);
            }
        }
        self.write()
    }

    /// Writes every changed sector, in order, adjacent ones together.
    pub(crate) fn write(&mut self) -> Result<()> {
        let mut run: Vec<u8> = Vec::new();
        let mut start = 0u64;
        for (sector, bytes) in std::mem::take(&mut self.sectors) {
            let next = start + (run.len() / SECTOR) as u64;
            if sector != next || run.len() >= WRITE_MAX * SECTOR {
                self.write_run(start, &run)?;
                run.clear();
                start = sector;
            }
            run.extend_from_slice(&*bytes);
        }
        self.write_run(start, &run)
    }

    fn write_run(&self, start: u64, run: &[u8]) -> Result<()> {
        if !run.is_empty() {
            self.dev.write_at(Daddr(start).byte_offset(), run)?;
        }
        Ok(())
    }
}
