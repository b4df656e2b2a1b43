//! A file copied to a device.
//!
//! The superblock is written last: until then the target is no volume, so what an interrupted
//! restore leaves is not mistaken for one.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use xfskit_block::BlockDevice;
use xfskit_format::sb;
use xfskit_units::{ByteLen, ByteOffset, Daddr};

use crate::error::{Error, Result};
use crate::format::{Part, SECTOR};
use crate::reader::Reader;

/// Bytes that are gathered before they are written.
const GATHERED: usize = 4 << 20;

/// Options of a restore.
pub struct Restore<'a> {
    /// Keeps what an incomplete file has, in place of failing.
    pub partial: bool,
    /// Receives the number of bytes read.
    pub progress: &'a dyn Fn(u64),
    /// Set to stop the restore.
    pub cancelled: &'a AtomicBool,
}

static NEVER: AtomicBool = AtomicBool::new(false);

impl Default for Restore<'_> {
    fn default() -> Self {
        Self { partial: false, progress: &|_| {}, cancelled: &NEVER }
    }
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Bytes read from the file.
    pub file_bytes: u64,
    /// Bytes of metadata written.
    pub metadata_bytes: u64,
    /// Bytes of the volume.
    pub volume_bytes: u64,
    /// True if the file was incomplete.
    pub incomplete: bool,
}

/// The devices to restore to.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'d> {
    /// For the volume.
    pub data: &'d dyn BlockDevice,
    /// For an external journal.
    pub log: Option<&'d dyn BlockDevice>,
    /// For the realtime device.
    pub realtime: Option<&'d dyn BlockDevice>,
}

/// Returns the bytes that the volume in a file takes; `None` if its superblock is damaged.
pub fn volume_bytes<R: Read>(reader: &Reader<R>) -> Option<u64> {
    let superblock = reader.superblock();
    if superblock.magicnum.get() != sb::MAGIC {
        return None;
    }
    superblock.dblocks.get().checked_mul(1 << superblock.blocklog).filter(|bytes| *bytes > 0)
}

impl Restore<'_> {
    /// Copies a file to `targets`.
    ///
    /// # Errors
    /// [`Error::TooSmall`] and refusals before anything is written; then those of the file and of
    /// the devices.
    pub fn run<R: Read>(&self, mut reader: Reader<R>, targets: Targets<'_>) -> Result<Restored> {
        let needed = volume_bytes(&reader);
        let size = targets.data.size().0;
        if let Some(needed) = needed.filter(|needed| *needed > size) {
            return Err(Error::TooSmall { size, needed });
        }
        let content = reader.content().unwrap_or_default();
        if content.external_log && targets.log.is_none() {
            return Err(Error::ExternalLogTarget);
        }
        if content.realtime && targets.realtime.is_none() {
            return Err(Error::RealtimeTarget);
        }
        let mut superblock = [0; SECTOR];
        targets.data.write_at(ByteOffset(0), &superblock)?;
        let mut data = Gather::new(targets.data);
        let mut log = targets.log.map(Gather::new);
        let mut realtime = targets.realtime.map(Gather::new);
        let mut restored = Restored { volume_bytes: needed.unwrap_or(size), ..Restored::default() };
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let piece = match reader.next_piece() {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(Error::Truncated { .. }) if self.partial => {
                    restored.incomplete = true;
                    break;
                }
                Err(error) => return Err(error),
            };
            let (mut daddr, mut bytes) = (piece.daddr, piece.bytes);
            restored.metadata_bytes += bytes.len() as u64;
            let gather = match piece.part {
                Part::Data => {
                    if let (Daddr(0), Some((first, rest))) = (daddr, bytes.split_first_chunk()) {
                        superblock = *first;
                        (daddr, bytes) = (Daddr(1), rest);
                    }
                    Some(&mut data)
                }
                Part::Log => log.as_mut(),
                Part::Realtime => realtime.as_mut(),
            };
            let Some(gather) = gather else {
                let what = "it has blocks of a device that its flags do not name".to_owned();
                return Err(Error::DamagedFile { offset: reader.bytes_read(), what });
            };
            gather.put(daddr, bytes)?;
            restored.file_bytes = reader.bytes_read();
            (self.progress)(restored.file_bytes);
        }
        data.drain()?;
        for gather in log.iter_mut().chain(&mut realtime) {
            gather.drain()?;
            gather.device.flush()?;
        }
        targets.data.flush()?;
        targets.data.write_at(ByteOffset(0), &superblock)?;
        targets.data.flush()?;
        Ok(restored)
    }
}

/// Gathers writes, so that many are given to the device at once.
struct Gather<'d> {
    device: &'d dyn BlockDevice,
    bytes: Vec<u8>,
    /// Address in bytes, start in `bytes`, length.
    writes: Vec<(u64, usize, usize)>,
}

impl<'d> Gather<'d> {
    fn new(device: &'d dyn BlockDevice) -> Self {
        Self { device, bytes: Vec::with_capacity(GATHERED + GATHERED / 4), writes: Vec::new() }
    }

    fn put(&mut self, daddr: Daddr, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let len = ByteLen(bytes.len() as u64);
        let Some(offset) = daddr.0.checked_mul(SECTOR as u64) else {
            let what = format!("it has a block at sector {daddr}, which no device has");
            return Err(Error::DamagedFile { offset: 0, what });
        };
        xfskit_block::device::check_span("write", self.device.size(), ByteOffset(offset), len)
            .map_err(|_| Error::DamagedFile {
                offset: 0,
                what: format!("it has a block at sector {daddr}, which is not in the volume"),
            })?;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        match self.writes.last_mut() {
            Some((at, _, have)) if *at + *have as u64 == offset => *have += bytes.len(),
            _ => self.writes.push((offset, start, bytes.len())),
        }
        if self.bytes.len() >= GATHERED { self.drain() } else { Ok(()) }
    }

    /// Writes what is gathered. Of two writes to one place the later one counts.
    fn drain(&mut self) -> Result<()> {
        let mut sorted = self.writes.clone();
        sorted.sort_by_key(|(offset, ..)| *offset);
        let overlap = sorted.windows(2).any(|pair| pair[0].0 + pair[0].2 as u64 > pair[1].0);
        let slice = |&(offset, start, len): &(u64, usize, usize)| {
            (ByteOffset(offset), &self.bytes[start..start + len])
        };
        if overlap {
            for (offset, bytes) in self.writes.iter().map(slice) {
                self.device.write_at(offset, bytes)?;
            }
        } else {
            let batch: Vec<_> = sorted.iter().map(slice).collect();
            for result in self.device.write_batch(&batch) {
                result?;
            }
        }
        self.bytes.clear();
        self.writes.clear();
        Ok(())
    }
}
