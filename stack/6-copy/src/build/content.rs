//! The bytes of all blocks that hang off inodes.

use xfskit_block::{AlignedBuf, BlockDevice};
use xfskit_core::bulk::attr::AttrForm;
use xfskit_core::bulk::bmbt::Shape;
use xfskit_format::bmbt::Extent;
use xfskit_format::symlink;
use xfskit_units::{ByteOffset, DaBlock, Daddr, FileOff, FsBlock, Geometry};

use super::BuildError;
use super::anatomy::{Anatomy, Content, Map};
use crate::source::Tree;

/// Bytes on their way to the device: those that follow each other there go in one write.
pub(super) struct Stage<'d> {
    device: &'d dyn BlockDevice,
    /// Where on the device the collected bytes begin.
    start: u64,
    bytes: AlignedBuf,
    len: usize,
}

impl<'d> Stage<'d> {
    /// Writes in pieces of at most `capacity` bytes, a multiple of all block sizes.
    pub(super) fn new(device: &'d dyn BlockDevice, capacity: usize) -> Self {
        Self { device, start: 0, bytes: AlignedBuf::new(capacity), len: 0 }
    }

    /// At most how much [`slot`](Self::slot) gives.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Room for `len` bytes that belong to byte `at` of the device. What stands there is old: all
    /// of it must be written over.
    pub(super) fn slot(&mut self, at: ByteOffset, len: usize) -> Result<&mut [u8], BuildError> {
        let goes_on = self.start + self.len as u64 == at.0 && self.len + len <= self.bytes.len();
        if !goes_on {
            self.flush()?;
            self.start = at.0;
        }
        let from = self.len;
        self.len += len;
        Ok(&mut self.bytes[from..from + len])
    }

    fn put(&mut self, at: ByteOffset, bytes: &[u8]) -> Result<(), BuildError> {
        self.slot(at, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes what is collected.
    pub(super) fn flush(&mut self) -> Result<(), BuildError> {
        if self.len > 0 {
            self.device.write_at(ByteOffset(self.start), &self.bytes[..self.len])?;
        }
        self.len = 0;
        Ok(())
    }
}

/// Where block `fsbno` of a plan is on the device.
fn byte(geo: &Geometry, fsbno: FsBlock) -> ByteOffset {
    daddr(geo, fsbno).byte_offset()
}

fn daddr(geo: &Geometry, fsbno: FsBlock) -> Daddr {
    geo.fsb_to_daddr(fsbno).unwrap_or_default()
}

/// Where `fileoff` is by `extents`, which map it.
fn block_at(extents: &[Extent], fileoff: FileOff) -> FsBlock {
    let behind = extents.partition_point(|extent| extent.startoff <= fileoff);
    behind.checked_sub(1).and_then(|index| extents[index].block_at(fileoff)).unwrap_or_default()
}

/// Writes all blocks of `anatomy` but its inode.
pub(super) fn write(
    stage: &mut Stage<'_>,
    tree: &Tree,
    geo: &Geometry,
    anatomy: &Anatomy<'_>,
) -> Result<(), BuildError> {
    let data = &anatomy.data.extents;
    match &anatomy.content {
        Content::Local(_) | Content::Device(_) => {}
        Content::Dir(blocks) => {
            for space in blocks.spaces() {
                let end = space.start.0 + u64::from(space.blocks);
                for fileoff in (space.start.0..end).step_by(geo.dirblkfsbs() as usize) {
                    let home = daddr(geo, block_at(data, FileOff(fileoff)));
                    let bytes = blocks.fill(FileOff(fileoff), home);
                    put_at(stage, geo, data, fileoff, &bytes)?;
                }
            }
        }
        Content::Target(target) => write_target(stage, geo, anatomy, target)?,
        Content::File { size } => write_file(stage, tree, geo, anatomy, *size)?,
    }
    if let AttrForm::Blocks(blocks) = &anatomy.attrs.form {
        let extents = &anatomy.attr.extents;
        for dablk in 0..blocks.blocks() {
            let home = daddr(geo, block_at(extents, FileOff(dablk.into())));
            put_at(stage, geo, extents, dablk.into(), &blocks.fill(DaBlock(dablk), home))?;
        }
    }
    write_map(stage, geo, anatomy, &anatomy.data)?;
    write_map(stage, geo, anatomy, &anatomy.attr)
}

/// Writes `bytes`, whole blocks, which begin at block `fileoff` of a fork.
fn put_at(
    stage: &mut Stage<'_>,
    geo: &Geometry,
    extents: &[Extent],
    fileoff: u64,
    bytes: &[u8],
) -> Result<(), BuildError> {
    for (fileoff, block) in (fileoff..).zip(bytes.chunks(geo.blocksize())) {
        stage.put(byte(geo, block_at(extents, FileOff(fileoff))), block)?;
    }
    Ok(())
}

/// Each extent of a long target has a head of its own.
fn write_target(
    stage: &mut Stage<'_>,
    geo: &Geometry,
    anatomy: &Anatomy<'_>,
    target: &[u8],
) -> Result<(), BuildError> {
    let mut offset = 0;
    for extent in &anatomy.data.extents {
        let len = xfskit_units::index(extent.blockcount.0) << geo.blocklog;
        let home = daddr(geo, extent.startblock);
        let mut slot = stage.slot(home.byte_offset(), len)?;
        slot.fill(0);
        offset += symlink::make(&mut slot, geo, (home, anatomy.ino), offset, target);
        symlink::stamp(slot);
    }
    Ok(())
}

/// Reads the file's data straight to where it will be written from.
fn write_file(
    stage: &mut Stage<'_>,
    tree: &Tree,
    geo: &Geometry,
    anatomy: &Anatomy<'_>,
    size: u64,
) -> Result<(), BuildError> {
    if anatomy.data.extents.is_empty() {
        return Ok(());
    }
    let content = tree.open(anatomy.id)?;
    for extent in &anatomy.data.extents {
        let mut from = extent.startoff.0 << geo.blocklog;
        let mut to = byte(geo, extent.startblock).0;
        let end = extent.end().0 << geo.blocklog;
        while from < end {
            let room = stage.capacity() as u64;
            let len = (end - from).min(room);
            let slot = stage.slot(ByteOffset(to), xfskit_units::index(len))?;
            let there = xfskit_units::index(size.saturating_sub(from).min(len));
            let (data, behind) = slot.split_at_mut(there);
            content.read_at(from, data)?;
            behind.fill(0);
            (from, to) = (from + len, to + len);
        }
    }
    Ok(())
}

fn write_map(
    stage: &mut Stage<'_>,
    geo: &Geometry,
    anatomy: &Anatomy<'_>,
    map: &Map,
) -> Result<(), BuildError> {
    let Map { extents, shape, places } = map;
    let blocks = Shape::load(shape, geo, anatomy.ino, extents, places);
    for (place, block) in places.iter().zip(blocks) {
        stage.put(byte(geo, *place), &block)?;
    }
    Ok(())
}
