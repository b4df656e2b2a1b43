//! What a plain disk does where the device itself says nothing:
//! [`plain!`](macro@crate::plain) puts these functions in place of methods of [`BlockDevice`].

use xfskit_units::{ByteLen, ByteOffset};

use crate::device::{BlockDevice, Error, IoRead, Result};
use crate::topology::Topology;

/// Bytes that [`write_zeroes`] writes at once, at most.
const ZEROES: u64 = 1 << 20;

/// Returns the 512 bytes of a plain disk's sector.
pub fn logical_block_size(_: &(impl BlockDevice + ?Sized)) -> u32 {
    512
}

/// Returns the logical block size.
pub fn physical_block_size(device: &(impl BlockDevice + ?Sized)) -> u32 {
    device.logical_block_size()
}

/// Returns no stripes.
pub fn topology(_: &(impl BlockDevice + ?Sized)) -> Topology {
    Topology::default()
}

/// Returns false.
pub fn is_read_only(_: &(impl BlockDevice + ?Sized)) -> bool {
    false
}

/// Reads one by one.
pub fn read_batch(
    device: &(impl BlockDevice + ?Sized),
    batch: &mut [IoRead<'_>],
) -> Vec<Result<()>> {
    batch.iter_mut().map(|io| device.read_at(io.offset, io.buf)).collect()
}

/// Returns false: nothing is in memory.
pub fn lend(
    _: &(impl BlockDevice + ?Sized),
    _: ByteOffset,
    _: ByteLen,
    _: ByteLen,
    _: &mut dyn FnMut(&[&[u8]]),
) -> bool {
    false
}

/// Writes one by one.
pub fn write_batch(
    device: &(impl BlockDevice + ?Sized),
    batch: &[(ByteOffset, &[u8])],
) -> Vec<Result<()>> {
    batch.iter().map(|(offset, buf)| device.write_at(*offset, buf)).collect()
}

/// Writes, and flushes the whole device.
///
/// # Errors
/// Those of both.
pub fn write_fua(
    device: &(impl BlockDevice + ?Sized),
    offset: ByteOffset,
    buf: &[u8],
) -> Result<()> {
    device.write_at(offset, buf)?;
    device.flush()
}

/// Does nothing.
///
/// # Errors
/// None.
pub fn discard(_: &(impl BlockDevice + ?Sized), _: ByteOffset, _: ByteLen) -> Result<()> {
    Ok(())
}

/// Writes zeroes.
///
/// # Errors
/// Those of [`BlockDevice::write_at`].
pub fn write_zeroes(
    device: &(impl BlockDevice + ?Sized),
    offset: ByteOffset,
    len: ByteLen,
) -> Result<()> {
    let zeroes = vec![0u8; usize::try_from(len.0.min(ZEROES)).unwrap_or(0)];
    let mut done = 0u64;
    while done < len.0 {
        let n = (len.0 - done).min(ZEROES);
        let part = &zeroes[..usize::try_from(n).unwrap_or(zeroes.len())];
        device.write_at(ByteOffset(offset.0 + done), part)?;
        done += n;
    }
    Ok(())
}

/// Does nothing.
pub fn will_need(_: &(impl BlockDevice + ?Sized), _: ByteOffset, _: ByteLen) {}

/// Returns `offset`: any byte may differ from zero.
pub fn skip_hole(_: &(impl BlockDevice + ?Sized), offset: ByteOffset) -> ByteOffset {
    offset
}

/// Returns 1: the disk is its only source.
pub fn alternatives(_: &(impl BlockDevice + ?Sized), _: ByteOffset, _: ByteLen) -> usize {
    1
}

/// Reads from the only source, 0.
///
/// # Errors
/// Those of [`BlockDevice::read_at`], [`Error::NoAlternative`].
pub fn read_alternative(
    device: &(impl BlockDevice + ?Sized),
    offset: ByteOffset,
    buf: &mut [u8],
    k: usize,
) -> Result<()> {
    if k == 0 { device.read_at(offset, buf) } else { Err(Error::NoAlternative(k)) }
}

/// Returns false: there is nothing to heal from.
///
/// # Errors
/// None.
pub fn heal(_: &(impl BlockDevice + ?Sized), _: ByteOffset, _: &[u8], _: usize) -> Result<bool> {
    Ok(false)
}
