//! Regular files and symlinks: reading file data and symlink targets.
//!
//! Data is read from the device straight into the caller's memory, with all extents of one call in
//! one batch. It does not go through the buffer cache, which is for metadata.

mod content;
mod exchange;
mod fallocate;
mod flush;
mod hint;
mod live;
mod reservation;
mod share;
mod staging;
mod write_symlink;

pub use crate::open_files::{Content, SIZE_MAX};
pub use fallocate::Seek;

use std::ops::Range;

use xfskit_block::IoRead;
use xfskit_format::inode::{FileType, Format};
use xfskit_format::{Expected, Fork, Layout, inode, symlink};
use xfskit_units::{ByteLen, ByteOffset, FsBlock, Geometry, PositionRange, index};

use crate::bmap::{Backing, ExtentList, Segment};
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::volume::Volume;

/// A regular file, open for reading.
#[derive(Clone, Debug)]
pub struct File<'v> {
    vol: &'v Volume,
    map: FileExtents,
}

/// Size and extents of a regular file of a volume that is open for reading. The caller passes the
/// volume to each read, so that a program can keep both together.
#[derive(Clone, Debug)]
pub struct FileExtents {
    size: ByteLen,
    extents: ExtentList,
}

impl Volume {
    /// Opens a regular file's data.
    ///
    /// # Errors
    /// [`Error::NotFile`], [`Error::IsDirectory`], [`Error::Unsupported`] for files on the realtime
    /// device, [`Error::Device`], [`Error::Corrupt`].
    pub fn open_file(&self, inode: &Inode) -> Result<File<'_>> {
        Ok(File { vol: self, map: self.file_extents(inode)? })
    }

    /// Returns the size and the extents of a regular file.
    ///
    /// # Errors
    /// As [`open_file`](Self::open_file).
    pub fn file_extents(&self, inode: &Inode) -> Result<FileExtents> {
        let core = inode.core();
        if !core.is_regular() {
            return Err(Error::not_file(inode.ino(), &core));
        }
        if core.is_realtime() {
            let what = format!("inode {}: content on a realtime device", inode.ino());
            return Err(Error::Unsupported(what));
        }
        let extents = self.extents(inode, Fork::Data)?;
        Ok(FileExtents { size: core.size(), extents })
    }

    /// Reads from byte `offset` of a regular file, and returns the number of bytes read, less than
    /// asked for at the end of the file. To read one file in pieces, [`open_file`](Self::open_file)
    /// is faster.
    ///
    /// # Errors
    /// Those of [`open_file`](Self::open_file).
    pub fn read_at(&self, inode: &Inode, offset: ByteOffset, buf: &mut [u8]) -> Result<usize> {
        self.open_file(inode)?.read_at(offset, buf)
    }

    /// Returns the device offset of `block`, which is part of some extent.
    pub(crate) fn byte_of_block(&self, block: FsBlock) -> Result<ByteOffset> {
        // Extents were verified when they were read; this is a second check.
        self.geo().fsb_to_byte(block).ok_or_else(|| {
            let ctx = self.ctx(xfskit_format::Location::of("extent"));
            let wanted = Expected::Described("a block of the volume".into());
            Error::Corrupt(ctx.corruption("bmbt.rec.startblock", wanted, block))
        })
    }

    /// Returns the target of a symlink: 1 to 1023 bytes, none of them NUL.
    ///
    /// # Errors
    /// [`Error::NotSymlink`], [`Error::Device`], [`Error::Corrupt`].
    pub fn readlink(&self, inode: &Inode) -> Result<Vec<u8>> {
        let core = inode.core();
        if core.file_type() != Some(FileType::Symlink) {
            return Err(Error::NotSymlink(inode.ino()));
        }
        let ctx = self.ctx(inode::location(self.geo(), inode.ino()));
        ctx.within("symlink.length", 1..=symlink::MAX_LEN.into(), core.size().0)?;
        let target = match core.format() {
            Some(Format::Local) => {
                core.data_fork().get(..index(core.size().0)).unwrap_or(&[]).to_vec()
            }
            _ => self.read_remote_target(inode)?,
        };
        ctx.require("symlink.target", !target.contains(&0), "no NUL", "one")?;
        Ok(target)
    }

    /// Collects the target from the data fork's extents, each of which is one buffer.
    fn read_remote_target(&self, inode: &Inode) -> Result<Vec<u8>> {
        let geo = self.geo();
        let size = inode.core().size().0;
        let block_payload = geo.blocksize() - Layout::of(geo).symlink_header;
        let most_blocks = size.div_ceil(block_payload as u64);
        let extents = self.extents(inode, Fork::Data)?;
        let ctx = self.ctx(inode::location(geo, inode.ino()));
        ctx.at_most("symlink.blocks", most_blocks, extents.end().0)?;
        let mut target = Vec::with_capacity(index(size));
        for extent in extents.as_slice() {
            let (offset, left) = (target.len(), ByteLen(size - target.len() as u64));
            let offset = u32::try_from(offset).unwrap_or(u32::MAX);
            let at = symlink::location(geo, extent.startblock, extent.blockcount).ino(inode.ino());
            let buf = self
                .read_buf(at, &|bytes, ctx| symlink::verify(bytes, ctx, offset, left).map(drop))?;
            let ctx = self.ctx(at).crc_known();
            target.extend_from_slice(symlink::verify(&buf, &ctx, offset, left)?);
        }
        ctx.eq("symlink.length", size, target.len() as u64)?;
        Ok(target)
    }
}

impl File<'_> {
    /// Returns the size in bytes.
    pub fn size(&self) -> ByteLen {
        self.map.size()
    }

    /// Returns the extent map.
    pub fn extents(&self) -> &ExtentList {
        &self.map.extents
    }

    /// Reads from byte `offset`, and returns the number of bytes read, less than asked for at the
    /// end of the file. Holes and unwritten blocks read as zeroes.
    ///
    /// # Errors
    /// [`Error::Device`]; then the contents of `buf` are undefined.
    pub fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<usize> {
        self.map.read_at(self.vol, offset, buf)
    }

    /// Returns the ranges of bytes that hold data, in order, with adjacent ranges merged.
    /// Everything between them reads as zeroes.
    pub fn data_ranges(&self) -> Vec<Range<ByteOffset>> {
        self.map.data_ranges(self.vol)
    }
}

/// Takes bytes that were read, in parts.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[&[u8]]);

impl FileExtents {
    /// Returns the size in bytes.
    pub fn size(&self) -> ByteLen {
        self.size
    }

    /// Reads from byte `offset` of the file, which is one of `vol`, as [`File::read_at`] does.
    ///
    /// # Errors
    /// [`Error::Device`]; then the contents of `buf` are undefined.
    pub fn read_at(&self, vol: &Volume, offset: ByteOffset, buf: &mut [u8]) -> Result<usize> {
        self.read_or_lend(vol, offset, buf, None).map(Option::unwrap_or_default)
    }

    /// Reads as [`read_at`](Self::read_at) does, and calls `take` with the bytes, once. They are in
    /// `buf`, or in memory of the device, which saves a copy.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); then `take` was not called.
    pub fn read_with(
        &self,
        vol: &Volume,
        offset: ByteOffset,
        buf: &mut [u8],
        take: &mut dyn FnMut(&[&[u8]]),
    ) -> Result<()> {
        if let Some(read) = self.read_or_lend(vol, offset, buf, Some(take))? {
            take(&[&buf[..read]]);
        }
        Ok(())
    }

    /// Reads from byte `offset`. Returns the number of bytes, or `None` if the device lent them to
    /// `take` instead.
    fn read_or_lend(
        &self,
        vol: &Volume,
        offset: ByteOffset,
        buf: &mut [u8],
        take: Option<Take<'_>>,
    ) -> Result<Option<usize>> {
        let end = ByteOffset(self.size.0);
        let left = end.saturating_distance_from(offset);
        let len = left.min(ByteLen::of(buf));
        let wanted = offset.range(len);
        let mut rest = &mut buf[..len.index()];
        let mut batch = Vec::new();
        for segment in self.segments(vol, &wanted) {
            let bytes = clip(vol.geo(), &segment, &wanted);
            let (part, behind) = rest.split_at_mut(bytes.length().index());
            rest = behind;
            match segment.backing {
                Backing::Written(block) => {
                    let first = vol.geo().fileoff_to_byte(segment.startoff);
                    let offset = vol.byte_of_block(block)?.plus(bytes.start.distance_from(first));
                    batch.push(IoRead { offset, buf: part });
                }
                Backing::Hole | Backing::Unwritten(_) => part.fill(0),
            }
        }
        if let ([io], Some(take)) = (batch.as_slice(), take)
            && ByteLen::of(io.buf) == len
            && vol.device().lend(io.offset, len, left.minus(len), take)
        {
            return Ok(None);
        }
        for result in vol.device().read_batch(&mut batch) {
            result?;
        }
        Ok(Some(len.index()))
    }

    /// Returns the ranges of bytes that hold data: see [`File::data_ranges`].
    fn data_ranges(&self, vol: &Volume) -> Vec<Range<ByteOffset>> {
        let mut ranges: Vec<Range<ByteOffset>> = Vec::new();
        let whole = ByteOffset(0).range(self.size);
        for segment in self.segments(vol, &whole) {
            let Range { start, end } = clip(vol.geo(), &segment, &whole);
            match (segment.backing, ranges.last_mut()) {
                (Backing::Hole | Backing::Unwritten(_), _) => {}
                (Backing::Written(_), Some(last)) if last.end == start => last.end = end,
                (Backing::Written(_), _) => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Returns the segments that hold the bytes of `range`.
    fn segments(
        &self,
        vol: &Volume,
        range: &Range<ByteOffset>,
    ) -> impl Iterator<Item = Segment> + '_ {
        let Range { start, end } = vol.geo().file_blocks_around(range);
        self.extents.segments(start, if range.is_empty() { start } else { end })
    }
}

/// Returns the bytes of `segment` that are in `range`.
fn clip(geo: &Geometry, segment: &Segment, range: &Range<ByteOffset>) -> Range<ByteOffset> {
    let end = segment.startoff.saturating_plus(segment.blockcount);
    (geo.fileoff_to_byte(segment.startoff)..geo.fileoff_to_byte(end)).intersection(range)
}
