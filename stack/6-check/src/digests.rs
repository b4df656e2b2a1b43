//! A digest of each file, by which two checks of a volume are compared.
//!
//! A digest stands for what must not change of a file without a reason: type and size, the maps of
//! both forks, and what they hold in the inode itself. That of a directory leaves its data fork
//! out, for a directory may be packed anew: its files show whether its entries are there.
//!
//! Digests are stored by rank while inodes are checked: those of a piece fill a page. A file that
//! is empty, without attributes, has the digest 0, and pages of zeroes are not stored. So digests
//! take at most 8 bytes for each inode, in memory up to a bound, and 16 for each chunk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use xfskit_block::{BlockDevice, Error, MemDevice, OverlayDevice, Result};
use xfskit_format::inobt::INODES_PER_CHUNK;
use xfskit_units::{ByteLen, ByteOffset, Ino, index};

use crate::digest::{IS_DIRECTORY, OF_ATTRIBUTES};
use crate::spill::Memory;

/// Inodes of a chunk.
const SLOTS: usize = INODES_PER_CHUNK as usize;
/// Bytes of a digest.
const DIGEST_BYTES: usize = size_of::<u64>();
/// Bytes of the digests of a chunk.
const CHUNK_BYTES: usize = SLOTS * DIGEST_BYTES;
/// Bytes that can be stored. A volume has fewer inodes.
const SIZE: u64 = 1 << 60;

/// A digest of each file in use that has a name, as a check found them.
#[derive(Debug)]
pub struct FileDigests {
    /// In the order of their inodes; the digests of each follow those of the one before.
    chunks: Vec<NamedChunk>,
    digests: Arc<OverlayDevice>,
    /// Every directory was below the root, so that every file that has a name could be reached.
    connected: bool,
}

/// The inodes of a chunk that have digests.
#[derive(Clone, Copy, Debug)]
struct NamedChunk {
    first: Ino,
    /// A bit for each inode that is in use, has a name, and whose maps are sound.
    kept: u64,
}

/// How a file differs between two checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The file.
    pub ino: Ino,
    /// It is a directory.
    pub is_dir: bool,
    /// The parts that differ.
    pub parts: Parts,
}

/// The parts of a file that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// It is not in use any more, or has no name.
    All,
    /// Type, size, or the map of its content.
    Content,
    /// Its attributes.
    Attributes,
    /// Content and attributes.
    ContentAndAttributes,
}

impl FileDigests {
    /// Returns true if every directory was below the root. Otherwise files may have had names that
    /// no path led to.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Passes each file that is here and differs in `after` to `each`, in order.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub fn differences(&self, after: &Self, each: &mut dyn FnMut(Difference)) -> Result<()> {
        let mut own = Reader::new(self);
        let mut other = Reader::new(after);
        for chunk in self.chunks.iter().filter(|chunk| chunk.kept != 0) {
            for slot in (0..u64::from(INODES_PER_CHUNK)).filter(|slot| chunk.kept >> slot & 1 == 1)
            {
                let ino = chunk.first.saturating_add(slot);
                let Some(before) = own.digest(ino)? else { continue };
                let Some(parts) = parts(before, other.digest(ino)?) else { continue };
                each(Difference { ino, is_dir: before & IS_DIRECTORY != 0, parts });
            }
        }
        Ok(())
    }
}

/// Returns the parts that differ between two digests.
fn parts(before: u64, after: Option<u64>) -> Option<Parts> {
    let Some(after) = after else { return Some(Parts::All) };
    let differing = before ^ after;
    match (differing & !OF_ATTRIBUTES != 0, differing & OF_ATTRIBUTES != 0) {
        (false, false) => None,
        (true, false) => Some(Parts::Content),
        (false, true) => Some(Parts::Attributes),
        (true, true) => Some(Parts::ContentAndAttributes),
    }
}

/// Reads digests, a chunk at a time.
struct Reader<'s> {
    of: &'s FileDigests,
    /// Index of the chunk whose digests are in `bytes`.
    loaded: Option<usize>,
    bytes: [u8; CHUNK_BYTES],
}

impl<'s> Reader<'s> {
    fn new(of: &'s FileDigests) -> Self {
        Self { of, loaded: None, bytes: [0; CHUNK_BYTES] }
    }

    /// Returns the digest of an inode; `None` if there is none.
    fn digest(&mut self, ino: Ino) -> Result<Option<u64>> {
        let chunks = &self.of.chunks;
        let behind = chunks.partition_point(|chunk| chunk.first <= ino);
        let Some(at) = behind.checked_sub(1) else { return Ok(None) };
        let slot = index(ino.0 - chunks[at].first.0);
        if slot >= SLOTS || chunks[at].kept >> slot & 1 == 0 {
            return Ok(None);
        }
        if self.loaded != Some(at) {
            self.loaded = None;
            let start = ByteOffset((at * CHUNK_BYTES) as u64);
            self.of.digests.read_at(start, &mut self.bytes)?;
            self.loaded = Some(at);
        }
        let (digests, _) = self.bytes.as_chunks::<DIGEST_BYTES>();
        Ok(digests.get(slot).map(|bytes| u64::from_le_bytes(*bytes)))
    }
}

/// Collects digests while a check runs.
pub(crate) struct Gatherer {
    /// By rank.
    digests: Arc<OverlayDevice>,
    /// For each chunk, a bit for each inode whose maps are sound.
    sound: Vec<AtomicU64>,
    /// The first failure of storing a digest. A leaf lock.
    failed: Mutex<Option<Error>>,
}

impl Gatherer {
    /// Makes an empty one for so many chunks.
    pub(crate) fn new(chunks: usize, memory: Option<Memory<'_>>) -> Self {
        let digests = OverlayDevice::new(Arc::new(MemDevice::new(ByteLen(SIZE))));
        let digests = match memory {
            // A repair has up to three of them.
            Some(memory) => digests.limited_to(ByteLen(memory.bytes.0 / 3), memory.dir),
            None => digests,
        };
        let sound = std::iter::repeat_with(AtomicU64::default).take(chunks).collect();
        Self { digests: Arc::new(digests), sound, failed: Mutex::default() }
    }

    /// Stores the digests of consecutive ranks.
    fn store(&self, first: usize, digests: &[u8]) {
        if digests.iter().all(|byte| *byte == 0) {
            return;
        }
        let at = ByteOffset((first * DIGEST_BYTES) as u64);
        if let Err(error) = self.digests.write_at(at, digests) {
            self.failed.lock().get_or_insert(error);
        }
    }

    /// Returns the digests of files that `is_named` accepts, by number and rank, once links were
    /// counted. `chunks`: the first inode of each chunk, in order. `connected`: see
    /// [`FileDigests::is_connected`].
    pub(crate) fn finish(
        &self,
        chunks: impl Iterator<Item = Ino>,
        connected: bool,
        is_named: impl Fn(Ino, usize) -> bool,
    ) -> Result<FileDigests> {
        if let Some(error) = self.failed.lock().take() {
            return Err(error);
        }
        let sound = self.sound.iter().map(|bits| bits.load(Ordering::Relaxed));
        let named = chunks.zip(sound).zip((0..).step_by(SLOTS)).map(|((first, sound), rank)| {
            let slots = (0..SLOTS).filter(|slot| sound >> slot & 1 == 1);
            let named = slots.filter(|&slot| is_named(at(first, slot), rank + slot));
            NamedChunk { first, kept: named.fold(0, |kept, slot| kept | 1 << slot) }
        });
        Ok(FileDigests { chunks: named.collect(), digests: Arc::clone(&self.digests), connected })
    }
}

/// Returns the inode of a chunk at `slot`.
fn at(first: Ino, slot: usize) -> Ino {
    first.saturating_add(slot as u64)
}

/// The digests of a worker, until they are handed to the [`Gatherer`].
#[derive(Default)]
pub(crate) struct Pending {
    /// The rank of the first one.
    first: usize,
    bytes: Vec<u8>,
}

impl Pending {
    /// Takes the digest of the inode at `rank`, whose maps are sound.
    pub(crate) fn add(&mut self, gatherer: &Gatherer, rank: usize, digest: u64) {
        if let Some(sound) = gatherer.sound.get(rank / SLOTS) {
            sound.fetch_or(1 << (rank % SLOTS), Ordering::Relaxed);
        }
        let next = self.first + self.bytes.len() / DIGEST_BYTES;
        let gap = rank.checked_sub(next).filter(|gap| *gap < SLOTS && !self.bytes.is_empty());
        if let Some(gap) = gap {
            // The inodes between are in the same piece.
            self.bytes.resize(self.bytes.len() + gap * DIGEST_BYTES, 0);
        } else {
            self.flush(gatherer);
            self.first = rank;
        }
        self.bytes.extend_from_slice(&digest.to_le_bytes());
    }

    /// Hands the digests over, at the end of a piece.
    pub(crate) fn flush(&mut self, gatherer: &Gatherer) {
        gatherer.store(self.first, &self.bytes);
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns these digests of inodes.
    fn file_digests(inodes: &[(u64, u64)]) -> FileDigests {
        let digests = OverlayDevice::new(Arc::new(MemDevice::new(ByteLen(SIZE))));
        let mut chunks: Vec<NamedChunk> = Vec::new();
        for (ino, digest) in inodes {
            let first = Ino(ino / 64 * 64);
            if chunks.last().is_none_or(|last| last.first != first) {
                chunks.push(NamedChunk { first, kept: 0 });
            }
            let slot = ino % 64;
            chunks.last_mut().unwrap().kept |= 1 << slot;
            let at = (chunks.len() - 1) * CHUNK_BYTES + index(slot) * DIGEST_BYTES;
            digests.write_at(ByteOffset(at as u64), &digest.to_le_bytes()).unwrap();
        }
        FileDigests { chunks, digests: Arc::new(digests), connected: true }
    }

    fn differences(before: &FileDigests, after: &FileDigests) -> Vec<(u64, Parts)> {
        let mut found = Vec::new();
        before.differences(after, &mut |d| found.push((d.ino.0, d.parts))).unwrap();
        found
    }

    #[test]
    fn each_file_that_is_gone_or_other_is_found_and_a_new_one_is_none() {
        let before = file_digests(&[(64, 0), (65, 5 << 20), (130, 7), (700, 9 << 20), (701, 0)]);
        assert_eq!(differences(&before, &before), []);
        // Other chunks before and between, and one that is gone.
        let after =
            file_digests(&[(3, 3), (65, 6 << 20), (66, 1), (130, 8), (640, 1), (700, 7 << 19)]);
        assert_eq!(
            differences(&before, &after),
            [
                (64, Parts::All),
                (65, Parts::Content),
                (130, Parts::Attributes),
                (700, Parts::Content),
                (701, Parts::All)
            ]
        );
        let other = file_digests(&[(64, 0), (65, 1), (130, 7), (700, 9 << 20), (701, 0)]);
        assert_eq!(differences(&before, &other), [(65, Parts::ContentAndAttributes)]);
        let none = file_digests(&[]);
        assert_eq!(differences(&none, &before), []);
        assert_eq!(differences(&before, &none).len(), 5);
    }

    #[test]
    fn digests_of_pieces_are_stored_by_rank() {
        let gatherer = Gatherer::new(4, None);
        let mut pending = Pending::default();
        for rank in [3, 4, 9, 200, 201] {
            pending.add(&gatherer, rank, rank as u64);
        }
        pending.flush(&gatherer);
        pending.add(&gatherer, 64, 64);
        pending.flush(&gatherer);
        let mut bytes = vec![0; 4 * CHUNK_BYTES];
        gatherer.digests.read_at(ByteOffset(0), &mut bytes).unwrap();
        let (stored, _) = bytes.as_chunks::<8>();
        for (rank, digest) in stored.iter().enumerate() {
            let is_there = [3, 4, 9, 64, 200, 201].contains(&rank);
            assert_eq!(u64::from_le_bytes(*digest), if is_there { rank as u64 } else { 0 });
        }
        let sound: Vec<_> =
            gatherer.sound.iter().map(|bits| bits.load(Ordering::Relaxed)).collect();
        assert_eq!(sound, [1 << 3 | 1 << 4 | 1 << 9, 1, 0, 1 << 8 | 1 << 9]);
    }
}
