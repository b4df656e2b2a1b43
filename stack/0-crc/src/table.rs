//! The portable routine: eight bytes at a time, each looked up in a table of its own.

use crate::poly::times_x_pow;

/// `TABLES[k][b]`: the effect of byte `b` on the register when `k` bytes follow it.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::cast_possible_truncation)] // byte < 256
        let mut crc = byte as u32;
        let mut k = 0;
        while k < 8 {
            crc = times_x_pow(crc, 8);
            tables[k][byte] = crc;
            k += 1;
        }
        byte += 1;
    }
    tables
};

pub(crate) fn run(mut crc: u32, data: &[u8]) -> u32 {
    let (words, rest) = data.as_chunks::<8>();
    for &word in words {
        let bytes = (u64::from_le_bytes(word) ^ u64::from(crc)).to_le_bytes();
        crc = bytes
            .iter()
            .zip(TABLES.iter().rev())
            .fold(0, |crc, (&byte, table)| crc ^ table[usize::from(byte)]);
    }
    rest.iter()
        .fold(crc, |crc, &byte| (crc >> 8) ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poly::POLY;

    #[test]
    fn the_table_agrees_with_the_definition_bit_by_bit() {
        let data: Vec<u8> = (0..100u8).map(|i| i.wrapping_mul(i)).collect();
        for len in 0..data.len() {
            let mut crc = !0u32;
            for &byte in &data[..len] {
                crc ^= u32::from(byte);
                for _ in 0..8 {
                    crc = if crc & 1 != 0 { (crc >> 1) ^ POLY } else { crc >> 1 };
                }
            }
            assert_eq!(run(!0, &data[..len]), crc, "{len} bytes");
        }
    }
}
