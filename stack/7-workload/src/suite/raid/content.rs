//! The content that readers read: ranges of the array, or files of a volume on it, in process or by
//! a mount.

use std::fs;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::OFlags;
use xfskit_block::{BlockDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};
use xfskit_units::{ByteOffset, Ino};
use xfskit_vfs::{Clock, Fs};

use super::members::RaidArray;
use super::volume;
use crate::mounter::{Mounter, ServedMount};

/// What the readers of a study read.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Ranges of the array in bytes, in order.
    Ranges(Vec<Range<u64>>),
    /// This many files of the volume on the array.
    Volume(usize),
    /// The same files, through a mount.
    Mount(usize, Arc<dyn Mounter>),
}

impl Content {
    /// Returns the number of files, or of ranges that stand for files.
    pub(super) fn files(&self) -> usize {
        match self {
            Self::Ranges(ranges) => ranges.len(),
            Self::Volume(files) | Self::Mount(files, _) => *files,
        }
    }

    /// Opens the content of `array` for reading only: the array may lack a member, which a change
    /// of the volume would leave behind.
    pub(super) fn open<'a>(&'a self, array: &'a RaidArray) -> io::Result<Box<dyn Source + 'a>> {
        match self {
            Self::Ranges(ranges) => Ok(Box::new(Ranges { array, ranges })),
            Self::Volume(files) => {
                let device = Arc::clone(&array.device);
                let opened = Volume::open(device, &OpenOptions::default());
                let fs = Fs::new(opened.map_err(io::Error::other)?, Clock::system());
                let files = (0..*files).map(|n| volume::find(&fs, n)).collect::<io::Result<_>>()?;
                Ok(Box::new(Files { fs, files }))
            }
            Self::Mount(files, mounter) => {
                let device = Arc::clone(&array.device);
                let mount = ServedMount::new(&**mounter, device, OpenMode::ReadOnly)?;
                let paths = (0..*files).map(|n| mount.path().join(volume::name(n))).collect();
                Ok(Box::new(MountedFiles { paths, _mount: mount }))
            }
        }
    }
}

/// Files that many threads read.
pub(super) trait Source: Sync {
    /// Returns the number of files.
    fn files(&self) -> usize;

    /// Reads a file from start to end in requests of the length of `buf`. Calls `each` with the
    /// bytes of every request; stops if it breaks.
    fn read_file(
        &self,
        file: usize,
        buf: &mut [u8],
        each: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> io::Result<()>;
}

/// Files of a mount, read past the kernel's cache: each request reaches the process of the mount.
struct MountedFiles {
    paths: Vec<PathBuf>,
    _mount: ServedMount,
}

impl Source for MountedFiles {
    fn files(&self) -> usize {
        self.paths.len()
    }

    fn read_file(
        &self,
        file: usize,
        buf: &mut [u8],
        each: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let opened =
            fs::OpenOptions::new().read(true).custom_flags(flags).open(&self.paths[file])?;
        read_in_order(file, buf, |at, buf| opened.read_at(buf, at), each)
    }
}

/// Reads file `file` by `read` from its start to its end, and verifies each request.
fn read_in_order(
    file: usize,
    buf: &mut [u8],
    read: impl Fn(u64, &mut [u8]) -> io::Result<usize>,
    each: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut at = 0;
    loop {
        let len = read(at, buf)?;
        if len == 0 {
            return Ok(());
        }
        volume::verify(file, at, &buf[..len])?;
        at += len as u64;
        if each(len).is_break() {
            return Ok(());
        }
    }
}

struct Ranges<'a> {
    array: &'a RaidArray,
    ranges: &'a [Range<u64>],
}

impl Source for Ranges<'_> {
    fn files(&self) -> usize {
        self.ranges.len()
    }

    fn read_file(
        &self,
        file: usize,
        buf: &mut [u8],
        each: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let range = &self.ranges[file];
        // Files start at a full stripe, as allocation on an array aligns large files.
        let start = range.start / self.array.stripe_bytes * self.array.stripe_bytes;
        let end = (start + range.end - range.start).min(self.array.device.size().0);
        let mut at = start.min(end);
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            let len = left.min(buf.len());
            let part = &mut buf[..len];
            self.array.device.read_at(ByteOffset(at), part).map_err(io::Error::other)?;
            at += part.len() as u64;
            if each(part.len()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

struct Files {
    fs: Fs,
    files: Vec<Ino>,
}

impl Source for Files {
    fn files(&self) -> usize {
        self.files.len()
    }

    fn read_file(
        &self,
        file: usize,
        buf: &mut [u8],
        each: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let inode = self.fs.inode(self.files[file]).map_err(io::Error::other)?;
        let opened = self.fs.reader(&inode).map_err(io::Error::other)?;
        let read = |at, buf: &mut [u8]| opened.read_at(at, buf).map_err(io::Error::other);
        read_in_order(file, buf, read, each)
    }
}
