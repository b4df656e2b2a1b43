//! The bytes of an archive, in order.
//!
//! A plain archive in a file is read in place: contents are skipped, and read from it later. For
//! all other input the contents go to a *spool*, an unnamed file, one after the other, in which
//! long runs of zeroes take no space. Compression is recognised by the first bytes.
//!
//! Everything read is charged to the [`Budget`].

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::super::SourceError;
use super::super::budget::{Budget, Limit};
use super::super::content::Stores;
use super::BLOCK;
use super::header::Block;
use crate::stdin::Stdin;

/// Length of the longest magic of a [`Packing`].
const MAGIC_MAX: u64 = 6;
/// The message for input that does not begin as an archive does.
pub(super) const NO_ARCHIVE: &str =
    "neither a directory nor a tar archive (as it is, or packed with gzip, xz or zstd)";
/// Number of bytes read or written at once.
const BUFFER: usize = 256 << 10;
/// This many zeroes, at a multiple of as many bytes, become a hole of the spool.
static ZEROES: [u8; 32 << 10] = [0; 32 << 10];
/// Bytes read between two calls of the progress function.
const BYTES_PER_LOOK: u64 = 1 << 20;
/// Memory for parsing an extended header, as a multiple of its size.
const EXTENSION_GROWTH: u64 = 8;
/// Maximum number of bytes after the end of an archive.
const TAIL_MAX: u64 = 1 << 30;
/// Maximum memory for decompression with xz, in KiB: `xz -9` needs 65 MiB.
const XZ_MEMORY_KIB: u32 = 256 << 10;
/// Largest window of zstd, as a power of two: `zstd --long` has 27.
const ZSTD_WINDOW_LOG: u32 = 27;

/// An archive that is being read.
pub(in super::super) struct Input<'b, 'p> {
    /// The name in messages.
    name: String,
    from: From,
    /// Bytes of the uncompressed archive read so far.
    at: u64,
    /// Path of the current member, if it is known.
    pub(super) member: Vec<u8>,
    pub(super) budget: &'b mut Budget<'p>,
    /// Bytes of the other archives before this one.
    before: u64,
}

enum From {
    /// A file that is read in place.
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

/// A file of contents, one after the other.
struct Spool {
    file: File,
    /// Bytes not yet written.
    buffer: Vec<u8>,
    /// Length of the contents in bytes.
    len: u64,
    /// Bytes that its filesystem still has for it.
    free: u64,
}

/// Counts the bytes that are read through it.
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

impl<'b, 'p> Input<'b, 'p> {
    /// Opens the archive `path`. If it is a pipe, `stdin` can end the wait for it.
    pub(in super::super) fn open(
        path: &Path,
        spool_dir: &Path,
        stdin: &Stdin,
        budget: &'b mut Budget<'p>,
    ) -> Result<Self, SourceError> {
        let name = path.display().to_string();
        let failed = |error| SourceError::io(name.as_bytes(), error);
        let mut file = Stdin::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        let mut magic = Vec::new();
        if meta.is_file() {
            (&mut file).take(MAGIC_MAX).read_to_end(&mut magic).map_err(failed)?;
            file.rewind().map_err(failed)?;
            if Packing::of(&magic) == Packing::Plain {
                let file = BufReader::with_capacity(BUFFER, file);
                return Ok(Self::new(name, From::File { file, len: meta.len() }, budget));
            }
        }
        Self::stream(name, stdin.of(file), spool_dir, budget)
    }

    /// Reads the archive from `input`, to its end.
    pub(in super::super) fn stream(
        name: String,
        input: impl Read + 'static,
        spool_dir: &Path,
        budget: &'b mut Budget<'p>,
    ) -> Result<Self, SourceError> {
        let failed = |error| SourceError::io(name.as_bytes(), error);
        let taken = Arc::<AtomicU64>::default();
        let counted = Counted { inner: input, taken: Arc::clone(&taken) };
        let mut input = BufReader::with_capacity(BUFFER, counted);
        let mut magic = Vec::new();
        (&mut input).take(MAGIC_MAX).read_to_end(&mut magic).map_err(failed)?;
        let packing = Packing::of(&magic);
        let input = io::Cursor::new(magic).chain(input);
        let stream: Box<dyn Read> = match packing {
            Packing::Plain => Box::new(input),
            Packing::Gzip => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(input))),
            Packing::Zstd => {
                let mut zstd = zstd::Decoder::with_buffer(input).map_err(failed)?;
                zstd.window_log_max(ZSTD_WINDOW_LOG).map_err(failed)?;
                Box::new(BufReader::with_capacity(BUFFER, zstd))
            }
            Packing::Xz => {
                let xz = XzReader::new_mem_limit(input, true, XZ_MEMORY_KIB);
                Box::new(BufReader::with_capacity(BUFFER, xz))
            }
            Packing::Bzip2 => {
                let what = "bzip2 is not supported; unpack it: bzcat FILE | …".to_owned();
                return Err(SourceError::Archive { archive: name, at: 0, what });
            }
        };
        let shown = spool_dir.as_os_str().as_encoded_bytes();
        let spool = Spool::new(spool_dir).map_err(|error| SourceError::io(shown, error))?;
        Ok(Self::new(name, From::Stream { stream, taken, spool }, budget))
    }

    fn new(name: String, from: From, budget: &'b mut Budget<'p>) -> Self {
        let before = budget.progress.bytes;
        Self { name, from, at: 0, member: Vec::new(), budget, before }
    }

    /// Returns the bytes of the uncompressed archive read so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Charges the budget for `len` more bytes of the uncompressed archive, and for the bytes of
    /// input they took.
    fn passed(&mut self, len: u64) {
        self.at += len;
        let taken = match &self.from {
            From::File { .. } => self.at,
            From::Stream { taken, .. } => taken.load(Ordering::Relaxed),
        };
        self.budget.progress.bytes = self.before + taken;
    }

    /// Returns the error that `what` is wrong at byte `at`.
    pub(super) fn wrong(&self, at: u64, what: impl Into<String>) -> SourceError {
        SourceError::Archive { archive: self.name.clone(), at, what: what.into() }
    }

    /// Returns the error that the archive exceeds a limit.
    pub(super) fn exceeded(&self, limit: Limit) -> SourceError {
        if limit == Limit::Stopped {
            return SourceError::Stopped;
        }
        let (archive, path) = (self.name.clone(), self.member.clone());
        SourceError::Limit { archive, at: self.at, path, limit }
    }

    /// Counts steps of work.
    pub(super) fn work(&mut self, steps: u64) -> Result<(), SourceError> {
        self.budget.work(steps).map_err(|limit| self.exceeded(limit))
    }

    /// Takes memory, in bytes, that the tree keeps.
    pub(super) fn keep_memory(&mut self, bytes: u64) -> Result<(), SourceError> {
        self.budget.keep(bytes).map_err(|limit| self.exceeded(limit))
    }

    /// Checks that there is memory for some bytes that will be freed again.
    pub(super) fn borrow_memory(&self, bytes: u64) -> Result<(), SourceError> {
        self.budget.borrow(bytes).map_err(|limit| self.exceeded(limit))
    }

    /// Returns the error of reading at the current position.
    fn failed(&self, error: io::Error) -> SourceError {
        if error.kind() == io::ErrorKind::UnexpectedEof && self.at == 0 {
            return self.wrong(0, NO_ARCHIVE);
        }
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
        self.passed(buf.len() as u64);
        Ok(())
    }

    /// Returns the next block.
    pub(super) fn block(&mut self) -> Result<Block, SourceError> {
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        self.work(1)?;
        Ok(block)
    }

    /// Returns the next `len` bytes, an extended header, and skips the padding. Memory grows with
    /// the bytes read, not with the length in the header.
    pub(super) fn padded(&mut self, len: u64) -> Result<Vec<u8>, SourceError> {
        let mut bytes = Vec::new();
        let mut left = len;
        while left > 0 {
            let block = self.block()?;
            self.borrow_memory(EXTENSION_GROWTH * (bytes.len() + BLOCK) as u64)?;
            let part = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            bytes.extend_from_slice(&block[..part]);
            left -= part as u64;
        }
        Ok(bytes)
    }

    /// Skips the next `len` bytes and the padding.
    pub(super) fn skip_padded(&mut self, len: u64) -> Result<(), SourceError> {
        self.pass(len, false)?;
        self.pass(padding(len), false)
    }

    /// Stores the next `len` bytes as the content of a file, and skips the padding. Returns their
    /// first byte in the store.
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
        if let From::File { file, len: end } = &mut self.from {
            skip(file, *end, self.at, len).map_err(|error| self.failed(error))?;
            self.passed(len);
            return Ok(());
        }
        let mut left = len;
        while left > 0 {
            let part = left.min(BYTES_PER_LOOK);
            let passed = match &mut self.from {
                From::Stream { stream, spool, .. } if keep => spool.copy(stream, part),
                From::Stream { stream, .. } => discard(stream, part),
                From::File { .. } => Ok(()),
            };
            passed.map_err(|error| self.failed(error))?;
            self.passed(part);
            left -= part;
            if keep {
                self.budget.look().map_err(|limit| self.exceeded(limit))?;
            } else {
                self.work(part.div_ceil(BLOCK as u64))?;
            }
        }
        Ok(())
    }

    /// Reads everything after the end of the archive: a writer at the other end of a pipe should
    /// not get SIGPIPE, and decompressors verify checksums at the end.
    pub(super) fn drain(&mut self) -> Result<(), SourceError> {
        for _ in 0..TAIL_MAX / BYTES_PER_LOOK {
            let From::Stream { stream, .. } = &mut self.from else { return Ok(()) };
            let more = io::copy(&mut stream.take(BYTES_PER_LOOK), &mut io::sink());
            if more.map_err(|error| self.failed(error))? == 0 {
                return Ok(());
            }
            self.budget.look().map_err(|limit| self.exceeded(limit))?;
        }
        Err(self
            .wrong(self.at, format!("more than {TAIL_MAX} bytes follow the end of the archive")))
    }

    /// Adds the stored contents to `stores`, as its next file.
    pub(super) fn finish(self, stores: &mut Stores) -> Result<(), SourceError> {
        let file = match self.from {
            From::File { file, .. } => file.into_inner(),
            From::Stream { spool, .. } => {
                spool.finish().map_err(|error| SourceError::io(self.name.as_bytes(), error))?
            }
        };
        stores.files.push(file);
        Ok(())
    }
}

/// Returns the padding of the last block of `len` bytes.
fn padding(len: u64) -> u64 {
    len.wrapping_neg() % BLOCK as u64
}

/// Skips `len` bytes from `at` of a file with `end` bytes.
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
    /// Makes an empty spool. It leaves a tenth of the free space in `dir` to others.
    fn new(dir: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(dir)?;
        let stat = rustix::fs::fstatvfs(&file)?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize) / 10 * 9;
        Ok(Self { file, buffer: Vec::with_capacity(BUFFER), len: 0, free })
    }

    fn copy(&mut self, stream: &mut impl Read, len: u64) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            if self.buffer.len() == BUFFER {
                self.flush()?;
            }
            let part = left.min((BUFFER - self.buffer.len()) as u64);
            let read = stream.take(part).read_to_end(&mut self.buffer)?;
            if (read as u64) < part {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= part;
            self.len += part;
        }
        Ok(())
    }

    /// Writes the bytes that are not zero.
    fn flush(&mut self) -> io::Result<()> {
        let mut at = self.len - self.buffer.len() as u64;
        for piece in self.buffer.chunks(ZEROES.len()) {
            if *piece != ZEROES[..piece.len()] {
                let left = self.free.checked_sub(piece.len() as u64);
                self.free = left.ok_or_else(|| {
                    let why =
                        "too little buffer for what is unpacked; set TMPDIR to a larger place";
                    io::Error::new(io::ErrorKind::StorageFull, why)
                })?;
                self.file.write_all_at(piece, at)?;
            }
            at += piece.len() as u64;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Returns the file with all contents.
    fn finish(mut self) -> io::Result<File> {
        self.flush()?;
        self.file.set_len(self.len)?;
        Ok(self.file)
    }
}

/// The compression of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Packing {
    /// Recognises the compression by the first bytes.
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a frame to be skipped in front of it.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', ..] => Self::Bzip2,
            _ => Self::Plain,
        }
    }
}
