//! The bytes of an archive, in order.
//!
//! A plain archive in a file is read where it is: contents are skipped, and read from it later. Of
//! all else the contents go to a *spool*, a file without a name, one after the other. What comes
//! compressed is known by its first bytes.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::super::SourceError;
use super::super::content::Stores;
use super::BLOCK;
use super::header::Block;

/// Longest of the [`Packing`]s' first bytes.
const MAGIC_MAX: u64 = 6;
/// Bytes read or written at once.
const ROOM: usize = 256 << 10;
/// Most memory for decompression with xz, in KiB: `xz -9` needs 65 MiB.
const XZ_MEMORY_KIB: u32 = 256 << 10;
/// Largest window of zstd, as a power of two: `zstd --long` has 27.
const ZSTD_WINDOW_LOG: u32 = 27;

/// An archive being read.
pub(in super::super) struct Input {
    /// As messages show it.
    name: String,
    from: From,
    /// Bytes of the uncompressed archive read so far.
    at: u64,
}

enum From {
    /// Read in place.
    File {
        file: BufReader<File>,
        len: u64,
    },
    Stream {
        stream: Box<dyn Read>,
        taken: Arc<AtomicU64>,
        spool: Spool,
    },
}

/// Contents, one after the other.
struct Spool {
    file: File,
    /// Not yet written.
    room: Vec<u8>,
    /// Bytes in it.
    len: u64,
}

/// Counts what is read through it.
struct Counted<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buf)?;
        self.taken.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

impl Input {
    /// Opens the archive `path`.
    pub(in super::super) fn open(path: &Path, spool_dir: &Path) -> Result<Self, SourceError> {
        let name = path.display().to_string();
        let failed = |error| SourceError::io(name.as_bytes(), error);
        let mut file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        let mut magic = Vec::new();
        if meta.is_file() {
            (&mut file).take(MAGIC_MAX).read_to_end(&mut magic).map_err(failed)?;
            file.rewind().map_err(failed)?;
            if Packing::of(&magic) == Packing::Plain {
                let file = BufReader::with_capacity(ROOM, file);
                return Ok(Self { name, from: From::File { file, len: meta.len() }, at: 0 });
            }
        }
        Self::stream(name, file, spool_dir)
    }

    /// Reads the archive from `input`, to its end.
    pub(in super::super) fn stream(
        name: String,
        input: impl Read + 'static,
        spool_dir: &Path,
    ) -> Result<Self, SourceError> {
        let failed = |error| SourceError::io(name.as_bytes(), error);
        let taken = Arc::<AtomicU64>::default();
        let counted = Counted { inner: input, taken: Arc::clone(&taken) };
        let mut input = BufReader::with_capacity(ROOM, counted);
        let mut magic = Vec::new();
        (&mut input).take(MAGIC_MAX).read_to_end(&mut magic).map_err(failed)?;
        let packing = Packing::of(&magic);
        let input = io::Cursor::new(magic).chain(input);
        let stream: Box<dyn Read> = match packing {
            Packing::Plain => Box::new(input),
            Packing::Gzip => Box::new(BufReader::with_capacity(ROOM, MultiGzDecoder::new(input))),
            Packing::Zstd => {
                let mut zstd = zstd::Decoder::with_buffer(input).map_err(failed)?;
                zstd.window_log_max(ZSTD_WINDOW_LOG).map_err(failed)?;
                Box::new(BufReader::with_capacity(ROOM, zstd))
            }
            Packing::Xz => {
                let xz = XzReader::new_mem_limit(input, true, XZ_MEMORY_KIB);
                Box::new(BufReader::with_capacity(ROOM, xz))
            }
            Packing::Bzip2 => {
                let what = "bzip2 is not supported; unpack it: bzcat FILE | …".to_owned();
                return Err(SourceError::Archive { archive: name, at: 0, what });
            }
        };
        let shown = spool_dir.as_os_str().as_encoded_bytes();
        let file = tempfile::tempfile_in(spool_dir).map_err(|e| SourceError::io(shown, e))?;
        let spool = Spool { file, room: Vec::with_capacity(ROOM), len: 0 };
        Ok(Self { name, from: From::Stream { stream, taken, spool }, at: 0 })
    }

    /// Bytes of the uncompressed archive read so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes taken from where the archive comes from.
    pub(super) fn taken(&self) -> u64 {
        match &self.from {
            From::File { .. } => self.at,
            From::Stream { taken, .. } => taken.load(Ordering::Relaxed),
        }
    }

    /// The error that `what` is wrong at byte `at`.
    pub(super) fn wrong(&self, at: u64, what: impl Into<String>) -> SourceError {
        SourceError::Archive { archive: self.name.clone(), at, what: what.into() }
    }

    /// The error of reading at the present place.
    fn failed(&self, error: io::Error) -> SourceError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return self.wrong(self.at, "the archive ends too early; is it cut off?");
        }
        self.wrong(self.at, error.to_string())
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<(), SourceError> {
        let read = match &mut self.from {
            From::File { file, .. } => file.read_exact(buf),
            From::Stream { stream, .. } => stream.read_exact(buf),
        };
        read.map_err(|error| self.failed(error))?;
        self.at += buf.len() as u64;
        Ok(())
    }

    /// The next block.
    pub(super) fn block(&mut self) -> Result<Block, SourceError> {
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        Ok(block)
    }

    /// The next `len` bytes, and the rest of their last block away. Memory grows with what comes,
    /// not with what is said.
    pub(super) fn padded(&mut self, len: u64) -> Result<Vec<u8>, SourceError> {
        let mut bytes = Vec::new();
        let mut left = len;
        while left > 0 {
            let block = self.block()?;
            let part = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            bytes.extend_from_slice(&block[..part]);
            left -= part as u64;
        }
        Ok(bytes)
    }

    /// Passes over the next `len` bytes, and the rest of their last block.
    pub(super) fn skip_padded(&mut self, len: u64) -> Result<(), SourceError> {
        self.pass(len, false)?;
        self.pass(padding(len), false)
    }

    /// Keeps the next `len` bytes as the content of a file, and passes over the rest of their last
    /// block. Answers with where in the store they begin.
    pub(super) fn keep(&mut self, len: u64) -> Result<u64, SourceError> {
        let place = match &self.from {
            From::File { .. } => self.at,
            From::Stream { spool, .. } => spool.len,
        };
        self.pass(len, true)?;
        self.pass(padding(len), false)?;
        Ok(place)
    }

    fn pass(&mut self, len: u64, keep: bool) -> Result<(), SourceError> {
        let passed = match &mut self.from {
            From::File { file, len: end } => skip(file, *end, self.at, len),
            From::Stream { stream, spool, .. } if keep => spool.copy(stream, len),
            From::Stream { stream, .. } => discard(stream, len),
        };
        passed.map_err(|error| self.failed(error))?;
        self.at += len;
        Ok(())
    }

    /// Reads what comes behind the end of the archive: a writer at the other end of a pipe should
    /// not be left alone, and decompressors check sums at the end.
    pub(super) fn drain(&mut self) -> Result<(), SourceError> {
        let From::Stream { stream, .. } = &mut self.from else { return Ok(()) };
        io::copy(stream, &mut io::sink()).map(|_| ()).map_err(|error| self.failed(error))
    }

    /// Leaves what was kept with `stores`, as its next file.
    pub(super) fn finish(self, stores: &mut Stores) -> Result<(), SourceError> {
        let file = match self.from {
            From::File { file, .. } => file.into_inner(),
            From::Stream { mut spool, .. } => {
                spool.flush().map_err(|error| SourceError::io(self.name.as_bytes(), error))?;
                spool.file
            }
        };
        stores.files.push(file);
        Ok(())
    }
}

/// What fills the last block of `len` bytes.
fn padding(len: u64) -> u64 {
    len.wrapping_neg() % BLOCK as u64
}

/// Passes over `len` bytes from `at` of a file with `end` bytes.
fn skip(file: &mut BufReader<File>, end: u64, at: u64, len: u64) -> io::Result<()> {
    if at.checked_add(len).is_none_or(|to| to > end) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.seek_relative(i64::try_from(len).map_err(io::Error::other)?)
}

fn discard(stream: &mut impl Read, len: u64) -> io::Result<()> {
    let passed = io::copy(&mut stream.take(len), &mut io::sink())?;
    if passed == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl Spool {
    fn copy(&mut self, stream: &mut impl Read, len: u64) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            if self.room.len() == ROOM {
                self.flush()?;
            }
            let part = left.min((ROOM - self.room.len()) as u64);
            let read = stream.take(part).read_to_end(&mut self.room)?;
            if (read as u64) < part {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= part;
            self.len += part;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.room)?;
        self.room.clear();
        Ok(())
    }
}

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Packing {
    /// From the first bytes.
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or one to be skipped in front of it.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', ..] => Self::Bzip2,
            _ => Self::Plain,
        }
    }
}
