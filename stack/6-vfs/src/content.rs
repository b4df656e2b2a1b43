//! The content of files: its locations, and reading it in the order of the disk.
//!
//! A [`FileMap`] has the bytes of a file that are stored, with their locations. The others are
//! holes, or allocated but never written, which reads the same. Many small files are best read
//! together: [`Fs::read_ahead_content`] joins neighbours on disk into a few long reads, and
//! [`Fs::read_piece`] then takes the bytes from there.

use std::io;
use std::ops::Range;

use xfskit_block::IoRead;
use xfskit_core::file::Seek;
use xfskit_core::{Error as Core, Inode};
use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_units::{ByteLen, ByteOffset, FileOff, Geometry, PositionRange};

use crate::{Error, Fs, Handle, Result};

/// Bytes of one read of a long piece.
const CHUNK: ByteLen = ByteLen(1 << 20);
/// Bytes of one read around an error of the device.
const PAGE: ByteLen = ByteLen(4 << 10);
/// Maximum distance on disk of pieces that are read together.
const JOIN_GAP: ByteLen = ByteLen(32 << 10);
/// Longest joined read.
const JOIN_MAX: ByteLen = ByteLen(4 << 20);

/// Bytes of a file that are stored contiguously.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Range of the file.
    pub file: Range<ByteOffset>,
    /// Location of the first byte on the data device; `None` on a volume that is open for writing,
    /// where content moves.
    pub device: Option<ByteOffset>,
}

impl Piece {
    fn len(&self) -> ByteLen {
        self.file.length()
    }

    /// Returns at most `len` bytes of it, from byte `at` of the file on, which is in it.
    fn part(&self, at: ByteOffset, len: ByteLen) -> Self {
        let device = self.device.map(|device| device.plus(at.distance_from(self.file.start)));
        Self { file: at..at.saturating_plus(len).min(self.file.end), device }
    }

    /// Returns its range on the device, if it does not move.
    fn on_device(&self) -> Option<Range<ByteOffset>> {
        let start = self.device?;
        Some(start..start.saturating_plus(self.len()))
    }
}

/// The stored ranges of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMap {
    size: ByteLen,
    pieces: Vec<Piece>,
}

impl FileMap {
    /// Makes the map of a file of `size` from `extents`, ascending, as the volume verified them.
    fn new(geo: &Geometry, extents: &[Extent], size: ByteLen) -> Self {
        let mut pieces: Vec<Piece> = Vec::new();
        for extent in extents.iter().filter(|e| !e.unwritten) {
            let Some(device) = geo.fsb_to_byte(extent.startblock) else { continue };
            let byte = |blocks: FileOff| {
                ByteOffset(blocks.0.saturating_mul(1 << geo.blocklog).min(size.0))
            };
            let file = byte(extent.startoff)..byte(extent.end());
            match pieces.last_mut() {
                _ if file.is_empty() => {}
                Some(p)
                    if p.file.end == file.start
                        && p.on_device().is_some_and(|there| there.end == device) =>
                {
                    p.file.end = file.end;
                }
                _ => pieces.push(Piece { file, device: Some(device) }),
            }
        }
        Self { size, pieces }
    }

    /// Makes the map of a file that may change: its present data.
    fn live(file: &Handle<'_>) -> Result<Self> {
        let (mut pieces, mut at, size) = (Vec::new(), ByteOffset(0), ByteLen(file.size()));
        let (data, end) = (|at| file.seek(at, Seek::Data), ByteOffset(size.0));
        while let Some(start) = data(at.0)?.map(ByteOffset).filter(|&start| start < end) {
            at = file.seek(start.0, Seek::Hole)?.map_or(end, ByteOffset).min(end);
            pieces.push(Piece { file: start..at, device: None });
            if at <= start {
                break;
            }
        }
        Ok(Self { size, pieces })
    }

    /// Returns the length of the file.
    pub fn size(&self) -> ByteLen {
        self.size
    }

    /// Returns the stored pieces, in the order of the file. The rest are holes.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the stored ranges of the file; neighbours are joined even if they are apart on disk.
    pub fn data(&self) -> Vec<Range<ByteOffset>> {
        let mut ranges: Vec<Range<ByteOffset>> = Vec::new();
        for Piece { file, .. } in &self.pieces {
            match ranges.last_mut() {
                Some(last) if last.end == file.start => last.end = file.end,
                _ => ranges.push(file.clone()),
            }
        }
        ranges
    }
}

/// Content in memory, by its location on the device.
#[derive(Debug, Default)]
pub struct ReadAhead {
    /// Runs of the device, ascending.
    runs: Vec<(ByteOffset, Vec<u8>)>,
}

impl ReadAhead {
    fn get(&self, piece: &Piece) -> Option<&[u8]> {
        let device = piece.device?;
        let after = self.runs.partition_point(|(start, _)| *start <= device);
        let (start, bytes) = self.runs.get(after.checked_sub(1)?)?;
        let from = device.distance_from(*start).index();
        bytes.get(from..from.checked_add(piece.len().index())?)
    }
}

/// A part of a file that is lost.
#[derive(Debug)]
pub struct Lost {
    /// The range in bytes of the file, perhaps with holes. Empty where the damage costs no content.
    pub range: Range<ByteOffset>,
    /// The reason.
    pub error: Error,
}

/// The reason why content could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The volume could not be read.
    #[error(transparent)]
    Volume(#[from] Error),
    /// The receiver failed.
    #[error(transparent)]
    Sink(#[from] io::Error),
}

/// Receives content: the offset in the file, and the bytes.
pub type Sink<'a> = &'a mut dyn FnMut(ByteOffset, &[u8]) -> io::Result<()>;

impl Fs {
    /// Returns the map of a regular file.
    ///
    /// # Errors
    /// The inode is not a regular file, is on the realtime device, or its map is damaged.
    pub fn file_map(&self, inode: &Inode) -> Result<FileMap> {
        if self.volume().engine().is_ok() {
            return FileMap::live(&self.open_to_read(inode)?);
        }
        let file = self.volume().open_file(inode)?;
        Ok(FileMap::new(self.volume().geo(), file.extents().as_slice(), file.size()))
    }

    /// Returns the map of a regular file as far as it can be read, and the ranges whose location is
    /// lost, which are holes of the map.
    pub fn salvage_map(&self, inode: &Inode) -> (FileMap, Vec<Lost>) {
        let error = match self.file_map(inode) {
            Ok(map) => return (map, Vec::new()),
            Err(error) => error,
        };
        let (geo, size) = (self.volume().geo(), inode.core().size());
        let core = matches!(&error, Error::Core(Core::Corrupt(_) | Core::Device(_)));
        if !core || self.volume().engine().is_ok() {
            let lost = Lost { range: ByteOffset(0).range(size), error };
            return (FileMap { size, pieces: Vec::new() }, vec![lost]);
        }
        let (extents, lost) = self.volume().salvage_extents(inode, Fork::Data);
        let byte =
            |block: FileOff| ByteOffset(block.0.saturating_mul(1 << geo.blocklog).min(size.0));
        let lost = lost.into_iter().map(|lost| Lost {
            range: byte(lost.blocks.start)..byte(lost.blocks.end),
            error: lost.error.into(),
        });
        (FileMap::new(geo, extents.as_slice(), size), lost.collect())
    }

    /// Reads all content of `maps` into memory, neighbours on disk in one read. What cannot be read
    /// now is left out, and [`read_piece`](Self::read_piece) tries it again.
    pub fn read_ahead_content<'m>(&self, maps: impl Iterator<Item = &'m FileMap>) -> ReadAhead {
        let mut wanted: Vec<Range<ByteOffset>> =
            maps.flat_map(FileMap::pieces).filter_map(Piece::on_device).collect();
        wanted.sort_unstable_by_key(|range| range.start);
        let mut runs: Vec<Range<ByteOffset>> = Vec::new();
        for range in wanted {
            match runs.last_mut() {
                Some(run)
                    if range.start <= run.end.saturating_plus(JOIN_GAP)
                        && range.end.max(run.end).distance_from(run.start) <= JOIN_MAX =>
                {
                    run.end = run.end.max(range.end);
                }
                _ => runs.push(range),
            }
        }
        let mut bufs: Vec<_> = runs.iter().map(|run| vec![0; run.length().index()]).collect();
        let mut batch: Vec<IoRead<'_>> = runs
            .iter()
            .zip(&mut bufs)
            .map(|(run, buf)| IoRead { offset: run.start, buf })
            .collect();
        let results = self.volume().device().read_batch(&mut batch);
        let read = runs.into_iter().zip(bufs).zip(results).filter(|(_, result)| result.is_ok());
        ReadAhead { runs: read.map(|((run, buf), _)| (run.start, buf)).collect() }
    }

    /// Passes the bytes of `piece` of the file `inode` to `sink`, in order, from `ahead` if they
    /// are there. Bytes that a truncation removed meanwhile are zeroes.
    ///
    /// # Errors
    /// [`ReadError::Volume`] if the device fails, [`ReadError::Sink`] if `sink` does.
    pub fn read_piece(
        &self,
        inode: &Inode,
        piece: &Piece,
        ahead: &ReadAhead,
        sink: Sink<'_>,
    ) -> std::result::Result<(), ReadError> {
        if let Some(bytes) = ahead.get(piece) {
            return Ok(sink(piece.file.start, bytes)?);
        }
        let mut buf = vec![0; piece.len().min(CHUNK).index()];
        let mut done = ByteLen(0);
        while done < piece.len() {
            let part = &mut buf[..piece.len().minus(done).min(CHUNK).index()];
            let offset = piece.file.start.plus(done);
            if let Some(device) = piece.device {
                let read = self.volume().device().read_at(device.plus(done), part);
                read.map_err(|e| Error::Core(e.into()))?;
            } else {
                let len = self.reader(inode)?.read_at(offset.0, part)?;
                part[len..].fill(0);
            }
            sink(offset, part)?;
            done = done.plus(ByteLen::of(part));
        }
        Ok(())
    }

    /// Passes the bytes of `piece` to `sink` like [`read_piece`](Self::read_piece). Where the
    /// device fails, the pages around are read one by one, and the others are passed to `lost`,
    /// neighbours together.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn salvage_piece(
        &self,
        inode: &Inode,
        piece: &Piece,
        ahead: &ReadAhead,
        sink: Sink<'_>,
        lost: &mut dyn FnMut(Lost),
    ) -> io::Result<()> {
        let mut at = piece.file.start;
        while at < piece.file.end {
            let read =
                self.read_piece(inode, &piece.part(at, piece.len()), ahead, &mut |from, bytes| {
                    sink(from, bytes)?;
                    at = from.plus(ByteLen::of(bytes));
                    Ok(())
                });
            match read {
                Ok(()) => break,
                Err(ReadError::Sink(error)) => return Err(error),
                Err(ReadError::Volume(_)) => {
                    let part = piece.part(at, CHUNK);
                    at = part.file.end;
                    self.salvage_pages(inode, &part, sink, lost)?;
                }
            }
        }
        Ok(())
    }

    /// Reads `part` page by page.
    fn salvage_pages(
        &self,
        inode: &Inode,
        part: &Piece,
        sink: Sink<'_>,
        lost: &mut dyn FnMut(Lost),
    ) -> io::Result<()> {
        let mut at = part.file.start;
        let mut gap: Option<Lost> = None;
        while at < part.file.end {
            let page = part.part(at, PAGE);
            match self.read_piece(inode, &page, &ReadAhead::default(), sink) {
                Ok(()) => gap.take().into_iter().for_each(&mut *lost),
                Err(ReadError::Sink(error)) => return Err(error),
                Err(ReadError::Volume(error)) => {
                    let range = page.file.clone();
                    gap.get_or_insert(Lost { range, error }).range.end = page.file.end;
                }
            }
            at = page.file.end;
        }
        gap.into_iter().for_each(lost);
        Ok(())
    }
}
