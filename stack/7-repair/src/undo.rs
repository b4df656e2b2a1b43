//! The undo file: the content of every range that a commit overwrites.
//!
//! ```text
//! header | record | record | … | end
//! header  magic, version, UUID of the volume, size of the device
//! record  offset, length, number of states; of each state the CRC32c of each sector; the old bytes
//! end     the number of records, in the place of a record's length 0
//! ```
//!
//! All numbers are little-endian. Header, records and end each end with a CRC32c of their own. The
//! file is durable before the first write to the volume. The states are those that the commit
//! writes: that after the replay of the journal, and the last one; zeroes too, where the first
//! sector of a damaged journal is. A sector has 512 bytes: a commit that was interrupted leaves
//! each sector old or in one of the states, and can be taken back.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use xfskit_block::BlockDevice;
use xfskit_format::sb;
use xfskit_units::{ByteLen, ByteOffset, Uuid};

use crate::error::{Error, Result};
use crate::superblocks;

const MAGIC: [u8; 8] = *b"XFSKUNDO";
const VERSION: u32 = 1;
/// Bytes of a sector.
const SECTOR: usize = 512;
/// Most states of a record.
const STATES_MAX: usize = 3;
/// Longest record, in bytes.
pub(crate) const RECORD_MAX: usize = 1 << 20;

/// An undo file that is being written. One that is not finished is removed: no repair began.
#[derive(Debug)]
pub struct UndoFile {
    path: PathBuf,
    to: io::BufWriter<File>,
    records: u64,
    is_finished: bool,
}

impl Drop for UndoFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // What stays of it says itself that no repair began.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A repair that was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undone {
    /// Ranges that were written.
    pub ranges: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A record as it was read.
struct Record {
    offset: ByteOffset,
    /// For each state, the CRC32c of each sector.
    states: Vec<Vec<u32>>,
    old: Vec<u8>,
}

impl Record {
    /// Returns true if each sector of `now` is old, or in a state of the commit. The first one of
    /// the volume may also be a superblock with the mark of a commit.
    fn is_known(&self, now: &[u8]) -> bool {
        let is_state = |n: usize, sector: &[u8]| {
            let crc = xfskit_crc::crc32c(sector);
            self.states.iter().any(|state| state.get(n) == Some(&crc))
        };
        let sectors = now.chunks(SECTOR).zip(self.old.chunks(SECTOR));
        sectors.enumerate().all(|(n, (now, old))| {
            let may_be_marked = n == 0 && self.offset.0 == 0;
            now == old || is_state(n, now) || (may_be_marked && superblocks::is_marked(now))
        })
    }
}

impl UndoFile {
    /// Creates the file for a volume; one that exists is not overwritten.
    ///
    /// # Errors
    /// [`Error::UndoFile`].
    pub fn create(path: &Path, uuid: Uuid, size: ByteLen) -> Result<Self> {
        let failed = |source| Error::UndoFile { path: path.to_owned(), source };
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        let to = io::BufWriter::new(file);
        let mut undo = Self { path: path.to_owned(), to, records: 0, is_finished: false };
        let header =
            [&MAGIC[..], &VERSION.to_le_bytes(), uuid.as_bytes(), &size.0.to_le_bytes()].concat();
        undo.put(&[&header])?;
        Ok(undo)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a range, which is at most [`RECORD_MAX`] long, with its states.
    pub(crate) fn add(&mut self, offset: ByteOffset, old: &[u8], states: &[&[u8]]) -> Result<()> {
        let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let mut head =
            [&offset.0.to_le_bytes()[..], &word(old.len()), &word(states.len())].concat();
        for sector in states.iter().flat_map(|state| state.chunks(SECTOR)) {
            head.extend(xfskit_crc::crc32c(sector).to_le_bytes());
        }
        self.records += 1;
        self.put(&[&head, old])
    }

    /// Ends the file, durably.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let end = [&self.records.to_le_bytes()[..], &[0; 8]].concat();
        self.put(&[&end])?;
        let durable = self.to.flush().and_then(|()| self.to.get_ref().sync_all());
        let in_place = durable.and_then(|()| match self.path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => File::open(dir)?.sync_all(),
            _ => File::open(".")?.sync_all(),
        });
        in_place.map_err(|source| Error::UndoFile { path: self.path.clone(), source })?;
        self.is_finished = true;
        Ok(())
    }

    /// Has the file removed in the end: the repair does not begin.
    pub(crate) fn give_up(&mut self) {
        self.is_finished = false;
    }

    /// Writes parts and their checksum.
    fn put(&mut self, parts: &[&[u8]]) -> Result<()> {
        let crc = parts.iter().fold(0, |crc, part| xfskit_crc::append(crc, part));
        let mut write = || {
            parts.iter().try_for_each(|part| self.to.write_all(part))?;
            self.to.write_all(&crc.to_le_bytes())
        };
        write().map_err(|source| Error::UndoFile { path: self.path.clone(), source })
    }
}

/// Takes the repair back that wrote the undo file at `path`, on the volume of `dev`. Verifies the
/// whole file, and that every range has what the repair wrote or found there, before it writes.
///
/// # Errors
/// [`Error::UndoUnreadable`], [`Error::UndoDamaged`], [`Error::UndoOfSize`],
/// [`Error::UndoOfOther`], [`Error::ChangedSince`]: nothing was written. [`Error::Commit`]: the
/// same call finishes it.
pub fn undo(path: &Path, dev: &dyn BlockDevice) -> Result<Undone> {
    let mut reader = Reader::open(path)?;
    let (uuid, size) = reader.header()?;
    if size != dev.size() {
        let (file, device) = (size.0, dev.size().0);
        return Err(Error::UndoOfSize { path: path.to_owned(), file, device });
    }
    let mut sector = vec![0; 512];
    dev.read_at(ByteOffset(0), &mut sector)?;
    let (mut changed, mut all) = (0, 0);
    while let Some(record) = reader.record()? {
        let mut now = vec![0; record.old.len()];
        let is_there = dev.read_at(record.offset, &mut now).is_ok();
        changed += usize::from(!is_there || !record.is_known(&now));
        all += 1;
    }
    let is_other = sector.starts_with(&sb::MAGIC.to_be_bytes()) && !has_uuid(&sector, uuid);
    if changed > 0 && is_other {
        let volume = sector.get(UUID).and_then(|bytes| Uuid::from_slice(bytes).ok());
        return Err(Error::UndoOfOther {
            path: path.to_owned(),
            file: uuid.to_string(),
            volume: volume.unwrap_or_default().to_string(),
        });
    }
    if changed > 0 {
        return Err(Error::ChangedSince { changed, all });
    }
    put_back(path, dev)
}

/// Bytes of a superblock that have the UUID.
const UUID: std::ops::Range<usize> = 32..48;

/// Returns whether a superblock has this UUID.
fn has_uuid(superblock: &[u8], uuid: Uuid) -> bool {
    superblock.get(UUID) == Some(&uuid.as_bytes()[..])
}

/// Writes what the file has. The superblock is the last: until then the volume stays marked.
fn put_back(path: &Path, dev: &dyn BlockDevice) -> Result<Undone> {
    let mut reader = Reader::open(path)?;
    reader.header()?;
    let (mut done, mut first) = (Undone { ranges: 0, bytes: 0 }, None);
    while let Some(record) = reader.record()? {
        done.ranges += 1;
        done.bytes += record.old.len() as u64;
        if record.offset.0 == 0 {
            first = Some(record.old);
        } else {
            dev.write_at(record.offset, &record.old).map_err(Error::Commit)?;
        }
    }
    dev.flush().map_err(Error::Commit)?;
    if let Some(old) = first {
        dev.write_at(ByteOffset(0), &old).map_err(Error::Commit)?;
    }
    dev.flush().map_err(Error::Commit)?;
    Ok(done)
}

/// Reads an undo file from its start.
struct Reader<'p> {
    path: &'p Path,
    from: io::BufReader<File>,
    records: u64,
}

impl<'p> Reader<'p> {
    fn open(path: &'p Path) -> Result<Self> {
        let failed = |source| Error::UndoUnreadable { path: path.to_owned(), source };
        Ok(Self { path, from: io::BufReader::new(File::open(path).map_err(failed)?), records: 0 })
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::UndoDamaged { path: self.path.to_owned(), what }
    }

    fn take(&mut self, buf: &mut [u8]) -> Result<()> {
        match self.from.read_exact(buf) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.damaged("it ends early: the repair had not begun to write"))
            }
            Err(source) => Err(Error::UndoUnreadable { path: self.path.to_owned(), source }),
        }
    }

    fn verify(&mut self, parts: &[&[u8]]) -> Result<()> {
        let mut crc = [0; 4];
        self.take(&mut crc)?;
        let right = parts.iter().fold(0, |crc, part| xfskit_crc::append(crc, part));
        if crc == right.to_le_bytes() { Ok(()) } else { Err(self.damaged("a checksum is wrong")) }
    }

    fn header(&mut self) -> Result<(Uuid, ByteLen)> {
        let mut header = [0; 36];
        match self.take(&mut header[..MAGIC.len()]) {
            Err(Error::UndoDamaged { .. }) => return Err(self.damaged("it is no undo file")),
            taken => taken?,
        }
        if header[..MAGIC.len()] != MAGIC {
            return Err(self.damaged("it is no undo file"));
        }
        self.take(&mut header[MAGIC.len()..])?;
        self.verify(&[&header])?;
        if header[8..12] != VERSION.to_le_bytes() {
            return Err(self.damaged("its version is not known"));
        }
        let uuid = Uuid::from_slice(&header[12..28]).unwrap_or_default();
        Ok((uuid, ByteLen(u64_at(&header, 28))))
    }

    /// Returns the next record; `None` at the end.
    fn record(&mut self) -> Result<Option<Record>> {
        let mut head = [0; 16];
        self.take(&mut head)?;
        let (len, states) = (u32_at(&head, 8) as usize, u32_at(&head, 12) as usize);
        if len == 0 {
            self.verify(&[&head])?;
            if u64_at(&head, 0) != self.records {
                return Err(self.damaged("records are missing"));
            }
            return Ok(None);
        }
        if len > RECORD_MAX || states > STATES_MAX {
            return Err(self.damaged("a record is too long"));
        }
        let of_state = 4 * len.div_ceil(SECTOR);
        let (mut crcs, mut old) = (vec![0; states * of_state], vec![0; len]);
        self.take(&mut crcs)?;
        self.take(&mut old)?;
        self.verify(&[&head, &crcs, &old])?;
        self.records += 1;
        let numbers = |state: &[u8]| state.chunks_exact(4).map(|crc| u32_at(crc, 0)).collect();
        let states = crcs.chunks_exact(of_state).map(numbers).collect();
        Ok(Some(Record { offset: ByteOffset(u64_at(&head, 0)), states, old }))
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}
