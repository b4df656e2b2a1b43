//! The routines for x86-64: the CRC instruction on three streams, and carry-less multiplication of
//! 64 bytes at once.
//!
//! *Folding.* As a polynomial, data that lies D bits before the end is congruent to its halves
//! multiplied by x^D mod P each. So sixteen bytes can be moved D bits towards the end with two
//! carry-less multiplications and added to the bytes there. Four registers of 64 bytes run through
//! the data, 256 bytes a step. They fold into one register, then into sixteen bytes, which two CRC
//! instructions finish.
//!
//! *No tail.* Zeroes in front of a message do not change its checksum when the register begins with
//! zero. So the remainder beyond a multiple of 256 bytes is taken from the front. The first step
//! gets as many zero registers, and its first partial register as many zero bytes, as fill it up.
//! The incoming register is added to the first four bytes.
#![allow(unsafe_code)] // instructions that not every processor has, loads through pointers

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{
    __m128i, __m512i, _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64,
    _mm_cvtsi32_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_xor_si128, _mm512_castsi512_si128,
    _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_loadu_si512,
    _mm512_maskz_permutexvar_epi8, _mm512_set_epi64, _mm512_set1_epi8, _mm512_setzero_si512,
    _mm512_sub_epi8, _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
};

use crate::poly::x_pow;
use crate::three::three_streams;

pub(crate) fn has_sse42() -> bool {
    is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq")
}

pub(crate) fn has_avx512() -> bool {
    has_sse42()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("vpclmulqdq")
}

/// Continues `crc` over `data`. The processor must have [`has_sse42`].
pub(crate) fn sse42(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: routine.rs runs a routine only after its detection has found that the processor has
    // the instructions.
    unsafe { streams(crc, data) }
}

/// Returns `crc` moved over `bytes` zeroes, or `None`. The processor must have [`has_sse42`].
pub(crate) fn moved(crc: u32, bytes: usize) -> Option<u32> {
    // SAFETY: as in `sse42`.
    unsafe { moved_over(crc, bytes) }
}

/// Continues `crc` over `data`. The processor must have [`has_avx512`].
pub(crate) fn avx512(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: as in `sse42`.
    unsafe { fold(crc, data) }
}

/// Runs one step of the CRC instruction over eight bytes.
#[inline]
#[target_feature(enable = "sse4.2")]
fn word(crc: u32, word: u64) -> u32 {
    #[allow(clippy::cast_possible_truncation)] // the upper half is zero
    let crc = _mm_crc32_u64(u64::from(crc), word) as u32;
    crc
}

/// Multiplies a register by a power of x (see [`crate::three`]).
#[inline]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn shift(crc: u32, power: u32) -> u32 {
    let (a, b) = (_mm_cvtsi32_si128(crc.cast_signed()), _mm_cvtsi32_si128(power.cast_signed()));
    word(0, _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0>(a, b)).cast_unsigned())
}

three_streams! {
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    streams, moved_over, word, _mm_crc32_u32, _mm_crc32_u8, shift
}

/// Returns the factors that move sixteen bytes by `bits`: (for the later eight, for the earlier
/// eight).
const fn factors(bits: u32) -> (i64, i64) {
    (((x_pow(bits - 32) as u64) << 1).cast_signed(), ((x_pow(bits + 32) as u64) << 1).cast_signed())
}

/// Returns [`factors`] in all four lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn all_lanes((later, earlier): (i64, i64)) -> __m512i {
    _mm512_set_epi64(later, earlier, later, earlier, later, earlier, later, earlier)
}

/// Moves `acc` by the distance of `factors` and adds `next`.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold_onto(acc: __m512i, factors: __m512i, next: __m512i) -> __m512i {
    let earlier = _mm512_clmulepi64_epi128::<0x00>(acc, factors);
    let later = _mm512_clmulepi64_epi128::<0x11>(acc, factors);
    _mm512_ternarylogic_epi64::<0x96>(earlier, later, next) // the sum of all three
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference is valid for 64 bytes, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Bytes of one register, and of one step.
const REGISTER: usize = 64;

#[target_feature(enable = "sse4.2,pclmulqdq,avx512f,avx512bw,avx512vbmi,vpclmulqdq")]
fn fold(crc: u32, data: &[u8]) -> u32 {
    // The incoming register must fit into the first partial register, and the data must be long
    // enough to gain.
    let odd = data.len() % REGISTER;
    let Some(first) = data.first_chunk::<REGISTER>().filter(|_| odd == 0 || odd >= 4) else {
        return streams(crc, data);
    };
    let begin = _mm512_zextsi128_si512(_mm_cvtsi32_si128(crc.cast_signed()));
    let mut first = _mm512_xor_si512(load(first), begin);
    let (mut registers, _) = data[odd..].as_chunks::<REGISTER>();
    if odd == 0 {
        registers = &registers[1..];
    } else {
        first = behind_zeroes(first, odd);
    }
    // Zero registers in front, so that the rest comes in fours.
    let zero = _mm512_setzero_si512();
    let (head, steps) = registers.split_at(registers.len() % 4);
    let mut acc = match head {
        [] => [zero, zero, zero, first],
        [b] => [zero, zero, first, load(b)],
        [b, c] => [zero, first, load(b), load(c)],
        [b, c, d, ..] => [first, load(b), load(c), load(d)],
    };
    let by_256 = all_lanes(const { factors(256 * 8) });
    for step in steps.as_chunks::<4>().0 {
        for (acc, next) in acc.iter_mut().zip(step) {
            *acc = fold_onto(*acc, by_256, load(next));
        }
    }
    finish(acc)
}

/// Reduces 256 bytes in four registers to the CRC register.
#[inline]
#[target_feature(enable = "sse4.2,pclmulqdq,avx512f,vpclmulqdq")]
fn finish([a, b, c, d]: [__m512i; 4]) -> u32 {
    let d = fold_onto(c, all_lanes(const { factors(64 * 8) }), d);
    let b = fold_onto(a, all_lanes(const { factors(64 * 8) }), b);
    let all = fold_onto(b, all_lanes(const { factors(128 * 8) }), d);
    // The first three lanes move onto the last one, by 48, 32 and 16 bytes.
    let (k48, k32, k16) = const { (factors(48 * 8), factors(32 * 8), factors(16 * 8)) };
    let by_lane = _mm512_set_epi64(0, 0, k16.0, k16.1, k32.0, k32.1, k48.0, k48.1);
    let moved = fold_onto(all, by_lane, _mm512_setzero_si512());
    let sum = |a: __m128i, b: __m128i| _mm_xor_si128(a, b);
    let front = sum(_mm512_castsi512_si128(moved), _mm512_extracti32x4_epi32::<1>(moved));
    let back = sum(_mm512_extracti32x4_epi32::<2>(moved), _mm512_extracti32x4_epi32::<3>(all));
    let last = sum(front, back);
    let crc = word(0, _mm_cvtsi128_si64(last).cast_unsigned());
    word(crc, _mm_extract_epi64::<1>(last).cast_unsigned())
}

/// Returns the first `n` bytes of a register, moved to its end; zeroes before them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn behind_zeroes(register: __m512i, n: usize) -> __m512i {
    const LANES: [u8; REGISTER] = {
        let mut lanes = [0; REGISTER];
        let mut i = 0u8;
        while i < 64 {
            lanes[i as usize] = i;
            i += 1;
        }
        lanes
    };
    let zeroes = REGISTER - n;
    let away = _mm512_set1_epi8(i8::try_from(zeroes).unwrap_or(0));
    _mm512_maskz_permutexvar_epi8(!0 << zeroes, _mm512_sub_epi8(load(&LANES), away), register)
}
