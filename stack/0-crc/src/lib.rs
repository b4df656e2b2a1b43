//! Floor 0: CRC32c (Castagnoli) as XFS uses it.
//!
//! The register begins with all ones and is complemented at the end. The result is always stored
//! **little-endian**, even where everything around it is big-endian. The field counts as zero while
//! the checksum is computed.
//!
//! *Update and verify are two functions with different borrows.* [`update`] takes `&mut [u8]`: it
//! zeroes the field, runs one pass over the whole block and stores the result. [`verify`] takes
//! `&[u8]` and never writes, because another thread may be reading. It either splits the block
//! around the field, or sums the whole block and subtracts the field's share.
//!
//! *Several routines, one result.* The first checksum chooses the best routine of the processor.
//! [`routines`] lists them, [`select`] takes a named one (to measure software CRC, for example),
//! [`fastest`] tests and times them all. Every routine is tested against the portable one.
//!
//! | module | content |
//! | --- | --- |
//! | [`routine`] | the available routines, and the choice among them |
//! | [`meter`] | measures the cost of checksums on request |
//! | [`skip`](mod@skip) | skips checksums, for studies of their cost |
//! | `table` | the portable routine: eight table look-ups per eight bytes |
//! | `poly` | powers of x modulo the polynomial, computed by the compiler |
//! | `x86` | the CRC instruction on three streams; carry-less multiplication of 64 bytes at once |
//! | `arm` | the CRC instruction on three streams |

#[cfg(target_arch = "aarch64")]
mod arm;
pub mod meter;
mod poly;
pub mod routine;
pub mod skip;
mod table;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod three;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use routine::{Measured, Routine, fastest, measure, routines, select, selected};
pub use skip::{Skipping, skip};

/// Size of a stored checksum, in bytes.
pub const CRC_LEN: usize = 4;

/// Returns the CRC32c of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    append(0, data)
}

/// Continues a checksum: returns the CRC32c of some earlier bytes, whose checksum is `crc`,
/// followed by `data`. `append(0, data)` starts a new one.
pub fn append(crc: u32, data: &[u8]) -> u32 {
    meter::counted(data.len(), || !routine::chosen().run(!crc, data))
}

/// Computes the checksum that `block` should carry at byte `field`, without writing. The field
/// counts as zero. `None` if the field does not fit.
pub fn expected(block: &[u8], field: usize) -> Option<u32> {
    let sum = || routine::chosen().run_without(block, field).map(|register| !register);
    meter::counted(block.len(), sum)
}

/// Returns the checksum stored in `block` at byte `field`; `None` if the field does not fit.
pub fn stored(block: &[u8], field: usize) -> Option<u32> {
    let bytes = block.get(field..field.checked_add(CRC_LEN)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Returns true if `block` carries its correct checksum at byte `field`.
pub fn verify(block: &[u8], field: usize) -> bool {
    expected(block, field).is_some_and(|crc| stored(block, field) == Some(crc))
}

/// Zeroes the field at byte `field` of `block`, computes the checksum in one pass and stores it.
///
/// # Panics
/// If the field does not fit into the block, which is the caller's mistake, never the disk's.
pub fn update(block: &mut [u8], field: usize) {
    block[field..field + CRC_LEN].fill(0);
    let crc = crc32c(block);
    block[field..field + CRC_LEN].copy_from_slice(&crc.to_le_bytes());
}

/// Does what [`update`] does for a block that holds only zeroes from byte `used` on. The zeroes are
/// not read.
///
/// # Panics
/// Like [`update`], and if `used` lies beyond the block.
pub fn update_padded(block: &mut [u8], field: usize, used: usize) {
    debug_assert!(block[used..].iter().all(|&byte| byte == 0), "the rest of the block is zeroes");
    block[field..field + CRC_LEN].fill(0);
    let crc = meter::counted(used, || !routine::chosen().run_padded(block, used));
    block[field..field + CRC_LEN].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn zeroes_at_the_end_need_not_be_read() {
        for (len, used) in [(512, 176), (512, 512), (2048, 176), (1024, 179), (64 << 10, 200)] {
            let mut block = vec![0; len];
            block[..used].iter_mut().zip((1..=251u8).cycle()).for_each(|(byte, n)| *byte = n);
            let mut other = block.clone();
            update_padded(&mut block, 100, used);
            update(&mut other, 100);
            assert_eq!(block, other, "{used} of {len}");
        }
    }

    #[test]
    fn update_and_verify_agree_wherever_the_field_lies() {
        for field in [0, 4, 100, 508] {
            let mut block: Vec<u8> = (0..=250u8).cycle().take(512).collect();
            update(&mut block, field);
            assert!(verify(&block, field));
            block[(field + 4) % 512] ^= 1;
            assert!(!verify(&block, field));
        }
        assert!(!verify(&[0; 3], 0), "a block too short to hold its sum is bad, not a panic");
    }
}
