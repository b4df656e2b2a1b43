//! Three streams at once. Processors start one CRC instruction per cycle, but its result takes
//! three cycles, so three independent checksums cost as much as one.
//!
//! The data is cut into three streams of equal length. The incoming register goes into the first
//! stream, the others begin with zero. By linearity the register of the whole is then
//!
//! ```text
//! first · x^(8·2n)  +  second · x^(8·n)  +  third        (n bytes per stream)
//! ```
//!
//! A multiplication by a known power of x is one carry-less multiplication. The CRC instruction
//! itself reduces its product of 63 bits.

use crate::poly::{times_x_pow, x_pow};

/// Longest stream, in words of eight bytes: as far as [`SHIFTS`] has powers.
pub(crate) const WORDS_MAX: usize = 512;
/// Below this many words in all, one stream is faster.
pub(crate) const WORDS_MIN: usize = 12;

/// `SHIFTS[w]` moves a register over `w` words of eight bytes: x^(64·w - 33). The CRC instruction
/// multiplies by x^32, and the product of two reflected numbers comes out divided by x: hence 33.
pub(crate) static SHIFTS: [u32; 2 * WORDS_MAX + 1] = {
    let mut shifts = [0; 2 * WORDS_MAX + 1];
    let mut power = x_pow(64 - 33);
    let mut words = 1;
    while words < shifts.len() {
        shifts[words] = power;
        power = times_x_pow(power, 64);
        words += 1;
    }
    shifts
};

/// Defines the routine `$name(register, data)`, and `$moved(register, bytes)`, which moves a
/// register over `bytes` zero bytes (`None` beyond 8 KiB), from the processor's instructions:
/// `$word(register, u64)`, `$half(register, u32)` and `$byte(register, u8)` continue a register,
/// `$shift(register, power)` multiplies it.
macro_rules! three_streams {
    ($(#[$attr:meta])* $name:ident, $moved:ident,
     $word:path, $half:path, $byte:path, $shift:path) => {
        #[inline]
        $(#[$attr])*
        fn $moved(mut crc: u32, bytes: usize) -> Option<u32> {
            let (words, rest) = (bytes / 8, bytes % 8);
            if words > 0 {
                crc = $shift(crc, *$crate::three::SHIFTS.get(words)?);
            }
            if rest >= 4 {
                crc = $half(crc, 0);
            }
            for _ in 0..rest % 4 {
                crc = $byte(crc, 0);
            }
            Some(crc)
        }

        $(#[$attr])*
        fn $name(mut crc: u32, data: &[u8]) -> u32 {
            use $crate::three::{SHIFTS, WORDS_MAX, WORDS_MIN};
            let (mut words, rest) = data.as_chunks::<8>();
            while words.len() >= WORDS_MIN {
                let n = (words.len() / 3).min(WORDS_MAX);
                let (first, behind) = words.split_at(n);
                let (second, behind) = behind.split_at(n);
                let (third, behind) = behind.split_at(n);
                let (mut a, mut b, mut c) = (crc, 0, 0);
                for ((x, y), z) in first.iter().zip(second).zip(third) {
                    a = $word(a, u64::from_le_bytes(*x));
                    b = $word(b, u64::from_le_bytes(*y));
                    c = $word(c, u64::from_le_bytes(*z));
                }
                crc = $shift(a, SHIFTS[2 * n]) ^ $shift(b, SHIFTS[n]) ^ c;
                words = behind;
            }
            for word in words {
                crc = $word(crc, u64::from_le_bytes(*word));
            }
            for &byte in rest {
                crc = $byte(crc, byte);
            }
            crc
        }
    };
}
pub(crate) use three_streams;
