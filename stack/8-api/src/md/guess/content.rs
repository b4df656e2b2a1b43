//! The content of files, as a guess reads it.
//!
//! A check does not look at files' content, and all metadata may lie right in a wrong array. Behind
//! the end of a file the rest of its last block is zero, in the right array; blocks of files are
//! seldom zero. A digest of everything tells whether two guesses read the same.

use std::hash::{DefaultHasher, Hash, Hasher};

use xfskit_block::BlockDevice;
use xfskit_units::{ByteLen, ByteOffset, PositionRange, index};
use xfskit_vfs::{Fs, Inode, Piece};

use crate::CancelToken;

/// Bytes of content that are read, and files whose ends are looked at.
const BYTES_MAX: u64 = 64 << 20;
const FILES_MAX: usize = 64 << 10;
/// Bytes of one read.
const PIECE: ByteLen = ByteLen(1 << 20);
/// Ends from which on a few wrong ones are a sign.
const ENDS_MIN: u64 = 8;

/// A comparison of the content of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Of all names, sizes and bytes that were read.
    pub(super) digest: u64,
    /// Bytes that were read, and files whose content was read to its end.
    pub(super) bytes: u64,
    pub(super) files: u64,
    /// Not all was read.
    pub(super) is_partial: bool,
    /// Files whose last block was looked at, and those where it goes on behind the file's end.
    pub(super) ends_seen: u64,
    pub(super) ends_wrong: u64,
    /// Blocks of files that were read, and those that are zero.
    pub(super) blocks: u64,
    pub(super) blank: u64,
}

impl Content {
    /// Reads the files of a volume.
    pub(super) fn read(volume: &Fs, cancel: &CancelToken) -> Self {
        let mut reader = Reader::new(volume);
        if let Ok(root) = volume.root() {
            for (i, entry) in volume.walk(b"/", root, usize::MAX).enumerate() {
                if i == FILES_MAX || cancel.is_cancelled() {
                    reader.content.is_partial = true;
                    break;
                }
                match entry {
                    Ok(entry) => reader.file(&entry.path, &entry.inode),
                    Err(_) => reader.digest.write_u8(0),
                }
            }
        }
        Self { digest: reader.digest.finish(), ..reader.content }
    }

    /// Most files do not end where they should.
    pub(super) fn has_no_ends(&self) -> bool {
        self.ends_seen >= ENDS_MIN && self.ends_wrong * 2 > self.ends_seen
    }
}

struct Reader<'a> {
    volume: &'a Fs,
    block: u64,
    digest: DefaultHasher,
    content: Content,
}

impl<'a> Reader<'a> {
    fn new(volume: &'a Fs) -> Self {
        let block = 1 << volume.volume().geo().blocklog;
        Self { volume, block, digest: DefaultHasher::new(), content: Content::default() }
    }

    fn file(&mut self, path: &[u8], inode: &Inode) {
        path.hash(&mut self.digest);
        if !inode.core().is_regular() {
            return;
        }
        let Ok(map) = self.volume.file_map(inode) else { return self.digest.write_u8(1) };
        self.digest.write_u64(map.size().0);
        if map.pieces().iter().all(|piece| self.piece(piece)) {
            self.content.files += 1;
        } else {
            self.content.is_partial = true;
        }
        let (end, rest) = (ByteOffset(map.size().0), map.size().0 % self.block);
        let last = map.pieces().last().filter(|piece| piece.file.end == end && rest > 0);
        let end = last.and_then(|last| last.device?.checked_plus(last.file.length()));
        if let Some(end) = end {
            self.end(end, self.block - rest);
        }
    }

    /// Reads a piece of a file. Returns false if it was not read to its end.
    fn piece(&mut self, piece: &Piece) -> bool {
        let Some(device) = piece.device else { return true };
        let mut at = piece.file.start;
        while at < piece.file.end {
            let len = piece.file.end.distance_from(at).min(PIECE);
            let place = device.checked_plus(at.distance_from(piece.file.start));
            let Some(place) = place.filter(|_| self.content.bytes < BYTES_MAX) else {
                return false;
            };
            self.bytes(place, len.0);
            at = at.plus(len);
        }
        true
    }

    fn bytes(&mut self, at: ByteOffset, len: u64) {
        let mut bytes = vec![0; index(len)];
        self.content.bytes += len;
        if self.volume.volume().device().read_at(at, &mut bytes).is_err() {
            return self.digest.write_u8(2);
        }
        self.digest.write(&bytes);
        for block in bytes.chunks(index(self.block)) {
            self.content.blocks += 1;
            self.content.blank += u64::from(block.iter().all(|byte| *byte == 0));
        }
    }

    /// Looks at what follows the end of a file in its last block.
    fn end(&mut self, at: ByteOffset, len: u64) {
        let mut bytes = vec![0; index(len)];
        if self.volume.volume().device().read_at(at, &mut bytes).is_ok() {
            self.content.ends_seen += 1;
            self.content.ends_wrong += u64::from(bytes.iter().any(|byte| *byte != 0));
        }
    }
}
