//! Reads and writes integers at byte offsets, where no struct fits: packed short forms, and blocks
//! whose layout depends on the volume. Reads out of range return `None`.

/// Returns the `N` bytes at `offset`.
pub fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// Returns the big-endian 16-bit number at byte `offset`.
pub fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_be_bytes)
}

/// Returns the big-endian 32-bit number at byte `offset`.
pub fn be32(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_be_bytes)
}

/// Returns the big-endian 64-bit number at byte `offset`.
pub fn be64(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_be_bytes)
}

/// Returns the little-endian 16-bit number at byte `offset` (log items).
pub fn le16(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

/// Returns the little-endian 32-bit number at byte `offset` (log items).
pub fn le32(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

/// Returns the little-endian 64-bit number at byte `offset` (log items).
pub fn le64(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

/// Returns the part of `bytes` from `offset`, `len` long.
pub fn slice(bytes: &[u8], offset: usize, len: usize) -> Option<&[u8]> {
    bytes.get(offset..offset.checked_add(len)?)
}

/// Rounds `n` up to a multiple of `to`, which is a power of two; saturates.
pub const fn round_up(n: usize, to: usize) -> usize {
    n.saturating_add(to.saturating_sub(1)) & !to.saturating_sub(1)
}
