//! An array that stopped half-way through a reshape, for reading.
//!
//! A reshape moves the data from one geometry to another, stripe by stripe, and records its
//! position. Here both geometries are opened as arrays of their own, and each serves its part. The
//! size is the smaller of the two: added space appears when the reshape is done.

use xfskit_block::device::check_range;
use xfskit_block::{BlockDevice, Error, Result};
use xfskit_units::{ArraySector, ByteLen, ByteOffset};

use crate::array::Array;

/// The two geometries of one array. Read-only.
#[derive(Debug)]
pub struct ReshapingDevice {
    /// Serves everything before `position`.
    first: Array,
    /// Serves everything from `position` on.
    second: Array,
    position: ByteOffset,
}

impl ReshapingDevice {
    /// Returns a device that reads `first` up to `position` and `second` from there on.
    pub fn new(first: Array, second: Array, position: ArraySector) -> Self {
        Self { first, second, position: position.byte_offset() }
    }

    /// Returns the array that holds the byte at `offset`, and how far it holds the bytes from there
    /// on.
    fn part(&self, offset: ByteOffset) -> (&Array, ByteLen) {
        let rest = self.position.saturating_distance_from(offset);
        if rest.is_zero() { (&self.second, ByteLen(u64::MAX)) } else { (&self.first, rest) }
    }
}

impl BlockDevice for ReshapingDevice {
    xfskit_block::plain!(
        lend,
        logical_block_size,
        physical_block_size,
        topology,
        read_batch,
        write_batch,
        write_fua,
        discard,
        write_zeroes,
        will_need,
        skip_hole,
        alternatives,
        read_alternative,
        heal
    );
    fn size(&self) -> ByteLen {
        self.first.size().min(self.second.size())
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        check_range("read", self.size(), offset, buf.len())?;
        let (array, rest) = self.part(offset);
        let (here, there) = buf.split_at_mut(buf.len().min(rest.index()));
        array.read_at(offset, here)?;
        if there.is_empty() {
            return Ok(());
        }
        self.second.read_at(self.position, there)
    }
    fn write_at(&self, _offset: ByteOffset, _buf: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
}
