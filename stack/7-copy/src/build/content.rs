//! The bytes of all blocks of inodes.

use xfskit_block::{AlignedBuf, BlockDevice};
use xfskit_bulk::attr::AttrForm;
use xfskit_bulk::bmbt::Shape;
use xfskit_format::bmbt::Extent;
use xfskit_format::symlink;
use xfskit_units::{ByteOffset, DaBlock, Daddr, FileOff, FsBlock, Geometry};

use super::BuildError;
use super::inode_plan::{Content, InodePlan, Map};
use crate::source::Tree;

/// Collects bytes that are contiguous on the device, to write them in one call.
pub(super) struct WriteBuffer<'d> {
    device: &'d dyn BlockDevice,
    /// Called before each write; an error stops a file of any size.
    look: &'d dyn Fn() -> Result<(), BuildError>,
    /// Offset of the collected bytes on the device.
    start: u64,
    bytes: AlignedBuf,
    len: usize,
}

impl<'d> WriteBuffer<'d> {
    /// Makes a buffer that writes at most `capacity` bytes at once, a multiple of all block sizes.
    pub(super) fn new(
        device: &'d dyn BlockDevice,
        capacity: usize,
        look: &'d dyn Fn() -> Result<(), BuildError>,
    ) -> Self {
        Self { device, look, start: 0, bytes: AlignedBuf::new(capacity), len: 0 }
    }

    /// Returns the maximum length of a [`slot`](Self::slot).
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Returns space for `len` bytes for byte `at` of the device. It has old bytes, all of which
    /// must be overwritten.
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

    /// Writes the collected bytes.
    pub(super) fn flush(&mut self) -> Result<(), BuildError> {
        if self.len > 0 {
            (self.look)()?;
            self.device.write_at(ByteOffset(self.start), &self.bytes[..self.len])?;
        }
        self.len = 0;
        Ok(())
    }
}

/// Returns the offset of block `fsbno` on the device.
fn byte(geo: &Geometry, fsbno: FsBlock) -> ByteOffset {
    daddr(geo, fsbno).byte_offset()
}

fn daddr(geo: &Geometry, fsbno: FsBlock) -> Daddr {
    geo.fsb_to_daddr(fsbno).unwrap_or_default()
}

/// Returns the block of `fileoff` in `extents`, which map it.
fn block_at(extents: &[Extent], fileoff: FileOff) -> FsBlock {
    let behind = extents.partition_point(|extent| extent.startoff <= fileoff);
    behind.checked_sub(1).and_then(|index| extents[index].block_at(fileoff)).unwrap_or_default()
}

/// Writes all blocks of `inode` but the inode itself.
pub(super) fn write(
    buffer: &mut WriteBuffer<'_>,
    tree: &Tree,
    geo: &Geometry,
    inode_plan: &InodePlan<'_>,
) -> Result<(), BuildError> {
    let data = &inode_plan.data.extents;
    match &inode_plan.content {
        Content::Local(_) | Content::Device(_) => {}
        Content::Dir(blocks) => {
            for space in blocks.spaces() {
                let end = space.start.0 + u64::from(space.blocks);
                for fileoff in (space.start.0..end).step_by(geo.dirblkfsbs() as usize) {
                    let home = daddr(geo, block_at(data, FileOff(fileoff)));
                    let bytes = blocks.fill(FileOff(fileoff), home);
                    put_at(buffer, geo, data, fileoff, &bytes)?;
                }
            }
        }
        Content::Target(target) => write_target(buffer, geo, inode_plan, target)?,
        Content::File { size } => write_file(buffer, tree, geo, inode_plan, *size)?,
    }
    if let AttrForm::Blocks(blocks) = &inode_plan.attrs.form {
        let extents = &inode_plan.attr.extents;
        for dablk in 0..blocks.blocks() {
            let home = daddr(geo, block_at(extents, FileOff(dablk.into())));
            put_at(buffer, geo, extents, dablk.into(), &blocks.fill(DaBlock(dablk), home))?;
        }
    }
    write_map(buffer, geo, inode_plan, &inode_plan.data)?;
    write_map(buffer, geo, inode_plan, &inode_plan.attr)
}

/// Writes `bytes`, whole blocks, to the blocks of a fork from `fileoff` on.
fn put_at(
    buffer: &mut WriteBuffer<'_>,
    geo: &Geometry,
    extents: &[Extent],
    fileoff: u64,
    bytes: &[u8],
) -> Result<(), BuildError> {
    for (fileoff, block) in (fileoff..).zip(bytes.chunks(geo.blocksize())) {
        buffer.put(byte(geo, block_at(extents, FileOff(fileoff))), block)?;
    }
    Ok(())
}

/// Writes the target of a symbolic link. Each extent of a long target has a header.
fn write_target(
    buffer: &mut WriteBuffer<'_>,
    geo: &Geometry,
    inode_plan: &InodePlan<'_>,
    target: &[u8],
) -> Result<(), BuildError> {
    let mut offset = 0;
    for extent in &inode_plan.data.extents {
        let len = xfskit_units::index(extent.blockcount.0) << geo.blocklog;
        let home = daddr(geo, extent.startblock);
        let mut slot = buffer.slot(home.byte_offset(), len)?;
        slot.fill(0);
        offset += symlink::make(&mut slot, geo, (home, inode_plan.ino), offset, target);
        symlink::stamp(slot);
    }
    Ok(())
}

/// Reads the file's data directly into the write buffer.
fn write_file(
    buffer: &mut WriteBuffer<'_>,
    tree: &Tree,
    geo: &Geometry,
    inode_plan: &InodePlan<'_>,
    size: u64,
) -> Result<(), BuildError> {
    if inode_plan.data.extents.is_empty() {
        return Ok(());
    }
    let content = tree.open(inode_plan.id)?;
    for extent in &inode_plan.data.extents {
        let mut from = extent.startoff.0 << geo.blocklog;
        let mut to = byte(geo, extent.startblock).0;
        let end = extent.end().0 << geo.blocklog;
        while from < end {
            let room = buffer.capacity() as u64;
            let len = (end - from).min(room);
            let slot = buffer.slot(ByteOffset(to), xfskit_units::index(len))?;
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
    buffer: &mut WriteBuffer<'_>,
    geo: &Geometry,
    inode_plan: &InodePlan<'_>,
    map: &Map,
) -> Result<(), BuildError> {
    let Map { extents, shape, places } = map;
    let blocks = Shape::load(shape, geo, inode_plan.ino, extents, places);
    for (place, block) in places.iter().zip(blocks) {
        buffer.put(byte(geo, *place), &block)?;
    }
    Ok(())
}
