//! Reading fields of bytes from a disk, with bounds checks.

use xfskit_block::BlockDevice;
use xfskit_units::{ByteLen, ByteOffset};

/// Returns `N` bytes at `at`.
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Returns the little-endian 32-bit number at byte `at`.
pub(crate) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// Returns the little-endian 64-bit number at byte `at`.
pub(crate) fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Reads `len` bytes of `device` at `offset`. Returns `None` if they exceed the device or cannot be
/// read. The caller bounds `len`.
pub(crate) fn read(device: &dyn BlockDevice, offset: ByteOffset, len: usize) -> Option<Vec<u8>> {
    let end = offset.checked_add(len as u64)?;
    if end.0 > device.size().0 {
        return None;
    }
    let mut bytes = vec![0; len];
    device.read_at(offset, &mut bytes).ok()?;
    Some(bytes)
}

/// Returns the bytes of `count` units of `unit` bytes each.
pub(crate) fn bytes_of(count: u64, unit: u64) -> Option<ByteLen> {
    count.checked_mul(unit).map(ByteLen)
}
