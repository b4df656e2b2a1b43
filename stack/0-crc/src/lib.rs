//! Floor 0: CRC32c (Castagnoli) as XFS uses it.
//!
//! Initial register all ones, final complement, and always stored **little-endian**, even where
//! everything around it is big-endian. The field counts as zero while the sum is taken.
//!
//! *Update and verify are two functions, and the types say so.* [`update`] needs `&mut [u8]`: it
//! zeroes the field, runs one pass over the whole block and stores the result. [`verify`] takes
//! `&[u8]`, splits around the field and never writes, for another thread may be reading.

/// Bytes a stored checksum takes.
pub const CRC_LEN: usize = 4;

/// CRC32c of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    append(0, data)
}

/// CRC32c of the concatenation of some earlier bytes, whose sum is `crc`, and `data`.
/// `append(0, data)` starts a new sum.
pub fn append(crc: u32, data: &[u8]) -> u32 {
    table::append(crc, data)
}

/// The sum that `block` ought to carry at byte `field`, reading only: before the field, four
/// zeroes, behind the field. `None` where the field does not fit.
pub fn expected(block: &[u8], field: usize) -> Option<u32> {
    let before = block.get(..field)?;
    let behind = block.get(field.checked_add(CRC_LEN)?..)?;
    Some(append(append(crc32c(before), &[0; CRC_LEN]), behind))
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

/// The portable routine: one table look-up per byte.
mod table {
    const TABLE: [u32; 256] = {
        let mut table = [0u32; 256];
        let mut i = 0;
        while i < 256 {
            #[allow(clippy::cast_possible_truncation)] // i < 256
            let mut crc = i as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 != 0 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };

    pub(super) fn append(crc: u32, data: &[u8]) -> u32 {
        !data
            .iter()
            .fold(!crc, |crc, &byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(byte)) & 0xff) as usize])
    }
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
    fn update_and_verify_agree_wherever_the_field_lies() {
        for field in [0, 4, 100, 508] {
            let mut block: Vec<u8> = (0..512).map(|i| (i % 251) as u8).collect();
            update(&mut block, field);
            assert!(verify(&block, field));
            block[(field + 4) % 512] ^= 1;
            assert!(!verify(&block, field));
        }
        assert!(!verify(&[0; 3], 0), "a block too short to hold its sum is bad, not a panic");
    }
}
