//! Floor 0: CRC32c (Castagnoli) as XFS uses it.
//!
//! Initial register all ones, final complement, and always stored **little-endian**, even where
//! everything around it is big-endian. The field counts as zero while the sum is taken.
//!
//! *Update and verify are two functions, and the types say so.* [`update`] needs `&mut [u8]`: it
//! zeroes the field, runs one pass over the whole block and stores the result. [`verify`] takes
//! `&[u8]` and never writes, for another thread may be reading: it splits around the field, or sums
//! the whole block and takes off what the field added.
//!
//! *Several routines, one answer.* The first sum chooses the best routine the processor has;
//! [`routines`] lists them, [`select`] takes another (what does software CRC cost?), [`fastest`]
//! tests and times them all. Every routine is tested against the portable one.
//!
//! | module | what |
//! | --- | --- |
//! | [`routine`] | the routines there are, and the choice among them |
//! | [`meter`] | what sums cost, for who asks |
//! | [`skip`](mod@skip) | no sums at all, for studies of what they cost |
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

/// Bytes a stored checksum takes.
pub const CRC_LEN: usize = 4;

/// CRC32c of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    append(0, data)
}

/// CRC32c of the concatenation of some earlier bytes, whose sum is `crc`, and `data`.
/// `append(0, data)` starts a new sum.
pub fn append(crc: u32, data: &[u8]) -> u32 {
    meter::counted(data.len(), || !routine::chosen().run(!crc, data))
}

/// The sum that `block` ought to carry at byte `field`, reading only; the field counts as zero.
/// `None` where the field does not fit.
pub fn expected(block: &[u8], field: usize) -> Option<u32> {
    let sum = || routine::chosen().run_without(block, field).map(|register| !register);
    meter::counted(block.len(), sum)
}

/// The sum stored in `block` at byte `field`; `None` where the field does not fit.
pub fn stored(block: &[u8], field: usize) -> Option<u32> {
    let bytes = block.get(field..field.checked_add(CRC_LEN)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// True where `block` carries its right sum at byte `field`.
pub fn verify(block: &[u8], field: usize) -> bool {
    expected(block, field).is_some_and(|crc| stored(block, field) == Some(crc))
}

/// Zeroes the field at byte `field` of `block`, sums the block in one pass and stores the sum.
///
/// # Panics
/// When the field does not fit into the block: the caller's mistake, never the disk's.
pub fn update(block: &mut [u8], field: usize) {
    block[field..field + CRC_LEN].fill(0);
    let crc = crc32c(block);
    block[field..field + CRC_LEN].copy_from_slice(&crc.to_le_bytes());
}

/// [`update`] for a block that holds nothing but zeroes from byte `used` on, which are not read.
///
/// # Panics
/// As [`update`], and where `used` lies beyond the block.
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
