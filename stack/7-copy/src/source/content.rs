//! The contents of files: in a file of a source directory, in a range of an archive, or in the
//! spool of an unpacked archive.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{self, SeekFrom};
use rustix::io::Errno;

use super::SourceError;
use super::disk::Root;
use super::unread::Reading;

/// A range of a file that has data, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// First byte.
    pub offset: u64,
    /// Its length; not 0.
    pub len: u64,
}

impl Segment {
    /// Returns the segment of a file without holes.
    pub(super) fn whole(size: u64) -> Vec<Self> {
        if size == 0 { Vec::new() } else { vec![Self { offset: 0, len: size }] }
    }

    /// Returns the byte after the last one.
    pub const fn end(self) -> u64 {
        self.offset + self.len
    }
}

/// Location of the content of one file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ContentLocation {
    /// No data, only holes.
    Hole,
    /// In source directory `dir`, under the path of the node.
    Disk { dir: u16, sparse: bool },
    /// In one piece, from byte `at` of store `file`.
    Range { file: u16, at: u64 },
    /// In pieces: segments that are stored one after the other from byte `at` of store `file`.
    Pieces { file: u16, at: u64, segments: Box<[Segment]> },
}

/// From this size on, a file on disk may have holes that its block count does not show (space
/// allocated beyond its end, or a filesystem that counts differently). Asking for holes costs
/// little then.
const ASK_FOR_HOLES: u64 = 64 << 10;

/// Time after which a file that changed is tried again.
const MOMENT: std::time::Duration = std::time::Duration::from_millis(10);

impl ContentLocation {
    /// Returns the bytes that a file of `size` bytes takes in a file of the tree itself.
    pub(super) fn stored(&self, size: u64) -> u64 {
        match self {
            Self::Hole | Self::Disk { .. } => 0,
            Self::Range { .. } => size,
            Self::Pieces { segments, .. } => segments.iter().map(|segment| segment.len).sum(),
        }
    }

    /// Returns true if a file of `size` bytes has no holes for sure.
    pub(super) fn is_dense(&self, size: u64) -> bool {
        match self {
            Self::Disk { sparse, .. } => !sparse && size < ASK_FOR_HOLES,
            Self::Range { .. } => true,
            Self::Hole | Self::Pieces { .. } => false,
        }
    }
}

/// The directories and files that hold contents.
#[derive(Debug, Default)]
pub(super) struct Stores {
    pub(super) dirs: Vec<Root>,
    pub(super) files: Vec<File>,
}

/// The content of one file, open for reading. Threads may share it.
#[derive(Debug)]
pub struct Content<'t> {
    size: u64,
    from: From<'t>,
    path: Vec<u8>,
    /// Set for a file of a directory.
    reading: Option<Reading<'t>>,
}

#[derive(Debug)]
enum From<'t> {
    Hole,
    Disk { file: File, dense: bool },
    Range { file: &'t File, at: u64 },
    Pieces { file: &'t File, at: u64, segments: &'t [Segment] },
}

impl Stores {
    /// Returns the number of the next directory.
    pub(super) fn next_dir(&self) -> Result<u16, SourceError> {
        u16::try_from(self.dirs.len()).map_err(|_| too_many_layers())
    }

    /// Returns the number of the next file.
    pub(super) fn next_file(&self) -> Result<u16, SourceError> {
        u16::try_from(self.files.len()).map_err(|_| too_many_layers())
    }

    /// Opens the content at `place`; `path` is the node's path.
    pub(super) fn open<'t>(
        &'t self,
        place: &'t ContentLocation,
        path: Vec<u8>,
        reading: Reading<'t>,
    ) -> Result<Content<'t>, SourceError> {
        let size = reading.size;
        let store = |file: u16| &self.files[usize::from(file)];
        let from = match place {
            ContentLocation::Hole => From::Hole,
            ContentLocation::Disk { dir, .. } => {
                let root = &self.dirs[usize::from(*dir)];
                let file = open_twice(root, &path, reading)?;
                let (path, dense) = (root.shown(&path), place.is_dense(size));
                let from = file.map_or(From::Hole, |file| From::Disk { file, dense });
                return Ok(Content { size, from, path, reading: Some(reading) });
            }
            ContentLocation::Range { file, at } => From::Range { file: store(*file), at: *at },
            ContentLocation::Pieces { file, at, segments } => {
                From::Pieces { file: store(*file), at: *at, segments }
            }
        };
        Ok(Content { size, from, path, reading: None })
    }
}

/// Opens a file of a directory. A changed file is tried again after a moment, because a program may
/// be writing it. Returns `None` if it is still missing, unless the tree is strict.
fn open_twice(root: &Root, path: &[u8], reading: Reading<'_>) -> Result<Option<File>, SourceError> {
    let size = reading.size;
    let is_as_found =
        |opened: &Result<(File, u64), _>| matches!(opened, Ok((_, now)) if *now == size);
    let mut opened = root.open_file(path);
    if !is_as_found(&opened) {
        std::thread::sleep(MOMENT);
        opened = root.open_file(path);
    }
    match opened {
        Ok((file, now)) => {
            if now != size {
                let path = root.shown(path);
                reading.ends_at(&path, now, SourceError::Changed { path: path.clone() })?;
            }
            Ok(Some(file))
        }
        Err(error) => reading.is_gone(&root.shown(path), error).map(|()| None),
    }
}

fn too_many_layers() -> SourceError {
    SourceError::Unfit { path: b"/".to_vec(), what: "a tree of more than 65536 layers".into() }
}

impl Content<'_> {
    /// Returns an empty content.
    pub(super) fn empty() -> Self {
        Self { size: 0, from: From::Hole, path: Vec::new(), reading: None }
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the segments with data: ascending, not touching, not empty, within its size.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn segments(&self) -> Result<Vec<Segment>, SourceError> {
        match &self.from {
            From::Hole => Ok(Vec::new()),
            From::Range { .. } | From::Disk { dense: true, .. } => Ok(Segment::whole(self.size)),
            From::Pieces { segments, .. } => Ok(segments.to_vec()),
            From::Disk { file, .. } => match data_of(file, self.size) {
                Ok(segments) => Ok(segments),
                Err(error) => {
                    self.ends_at(0, SourceError::io(&self.path, error))?;
                    Ok(Vec::new())
                }
            },
        }
    }

    /// Fills `buf` from byte `offset`, with zeroes for holes.
    ///
    /// # Errors
    /// The file cannot be read, or ends too early.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), SourceError> {
        let end = offset.checked_add(buf.len() as u64).filter(|&end| end <= self.size);
        if end.is_none() {
            return Err(self.short());
        }
        match &self.from {
            From::Hole => {
                buf.fill(0);
                Ok(())
            }
            From::Disk { file, .. } => self.read_live(file, offset, buf),
            From::Range { file, at } => self.read(file, at + offset, buf),
            From::Pieces { file, at, segments } => {
                self.read_pieces(file, *at, segments, offset, buf)
            }
        }
    }

    /// Reads segments that are stored one after the other from `at` of `file`, with zeroes between
    /// them.
    fn read_pieces(
        &self,
        file: &File,
        at: u64,
        segments: &[Segment],
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), SourceError> {
        buf.fill(0);
        let end = offset + buf.len() as u64;
        let mut at = at;
        for segment in segments {
            let (from, to) = (segment.offset.max(offset), segment.end().min(end));
            if from < to {
                let part = &mut buf[to_usize(from - offset)..to_usize(to - offset)];
                self.read(file, at + (from - segment.offset), part)?;
            }
            at += segment.len;
        }
        Ok(())
    }

    /// Reads a file that other programs may change. Bytes that cannot be read are zeroes, and are
    /// recorded unless the tree is strict.
    fn read_live(&self, file: &File, offset: u64, buf: &mut [u8]) -> Result<(), SourceError> {
        let (len, error) = read_as_far(file, offset, buf);
        if len == buf.len() {
            return Ok(());
        }
        buf[len..].fill(0);
        let error = error.map_or_else(|| self.short(), |error| SourceError::io(&self.path, error));
        self.ends_at(offset + len as u64, error)
    }

    fn ends_at(&self, end: u64, error: SourceError) -> Result<(), SourceError> {
        match &self.reading {
            Some(reading) => reading.ends_at(&self.path, end, error),
            None => Err(error),
        }
    }

    fn read(&self, file: &File, at: u64, buf: &mut [u8]) -> Result<(), SourceError> {
        file.read_exact_at(buf, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.short(),
            _ => SourceError::io(&self.path, error),
        })
    }

    fn short(&self) -> SourceError {
        SourceError::Changed { path: self.path.clone() }
    }
}

/// Reads until `buf` is full, the file ends, or reading fails. Returns how much was read.
fn read_as_far(file: &File, offset: u64, buf: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut len = 0;
    while len < buf.len() {
        match file.read_at(&mut buf[len..], offset + len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (len, Some(error)),
        }
    }
    (len, None)
}

/// Returns an offset within a buffer as an index.
#[allow(clippy::cast_possible_truncation)]
fn to_usize(within: u64) -> usize {
    within as usize
}

/// Returns the segments with data of `file`, as its filesystem reports them, or all of the file.
fn data_of(file: &File, size: u64) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut at = 0;
    while at < size {
        let data = match fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.max(at),
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) if at == 0 => return Ok(Segment::whole(size)),
            Err(error) => return Err(error.into()),
        };
        if data >= size {
            break;
        }
        let hole = fs::seek(file, SeekFrom::Hole(data))?.min(size);
        if hole <= data {
            break; // shrunk meanwhile: reading will tell
        }
        segments.push(Segment { offset: data, len: hole - data });
        at = hole;
    }
    Ok(segments)
}
