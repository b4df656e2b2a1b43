//! x86-64 registers: SSSE3, AVX2, AVX2 and AVX-512 with GFNI.
//!
//! *Doubling in three instructions.* Twice a byte is the byte plus itself, minus the polynomial if
//! the top bit was set. PSHUFB returns zero for a byte whose top bit is set, and otherwise looks up
//! its low four bits. With the polynomial in all sixteen entries of its table, it returns the
//! polynomial exactly where none is due. So `(b+b) ^ pshufb(poly, b)` is 2·b + poly: a doubling and
//! a constant. If b is off by k with k = 2·k + poly, that is k = poly / 3, the result is off by k
//! again. The sum therefore starts with k, and ends by subtracting it. (The usual doubling compares
//! with zero, masks, adds and subtracts: four.)
//!
//! *Multiplying* by any constant takes two lookups in tables of sixteen entries, one per half of
//! the byte.
//!
//! *GFNI* has one instruction that multiplies each byte by a matrix of 8 by 8 bits, which can
//! express any constant. (Its other instruction multiplies in another field.) Four exponents go
//! together: 16·b + 8·d3 + 4·d2 + 2·d1 + d0 are four independent products, where a sequence would
//! make each wait for the previous one. AVX-512 adds three registers in one instruction.
#![allow(unsafe_code)] // instructions that not every processor has, loads and stores through pointers
#![allow(unsafe_op_in_unsafe_fn)] // the contract of `Vector` is all there is to say
#![allow(clippy::inline_always)] // or it is no code of the processor it is for

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_add_epi8, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8,
    _mm_shuffle_epi8, _mm_srli_epi16, _mm_storeu_si128, _mm_xor_si128, _mm256_add_epi8,
    _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_gf2p8affine_epi64_epi8,
    _mm256_loadu_si256, _mm256_set1_epi8, _mm256_set1_epi64x, _mm256_shuffle_epi8,
    _mm256_srli_epi16, _mm256_storeu_si256, _mm256_xor_si256, _mm512_gf2p8affine_epi64_epi8,
    _mm512_loadu_si512, _mm512_set1_epi8, _mm512_set1_epi64, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use crate::field::{HALVES, POLY, inverse, product};
use crate::vector::{Vector, routine};

pub(crate) fn has_ssse3() -> bool {
    is_x86_feature_detected!("ssse3")
}

pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

pub(crate) fn has_avx2_gfni() -> bool {
    has_avx2() && is_x86_feature_detected!("gfni")
}

pub(crate) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("gfni")
}

routine!(ssse3, Ssse3, 4, "ssse3");
routine!(avx2, Avx2, 4, "avx2");
routine!(avx2_gfni, Avx2Gfni, 1, "avx2,gfni");
routine!(avx512, Avx512, 1, "avx512f,avx512bw,gfni");

/// The constant by which B is off: k = 2·k + poly.
const THIRD_OF_POLY: u8 = product(POLY, inverse(3));

/// Returns the matrix that multiplies by `c`: its byte 7-i is the row that makes bit i.
const fn matrix(c: u8) -> i64 {
    let mut rows = [0u8; 8];
    let mut column = 0;
    while column < 8 {
        let image = product(c, 1 << column);
        let mut row = 0;
        while row < 8 {
            rows[7 - row] |= (image >> row & 1) << column;
            row += 1;
        }
        column += 1;
    }
    i64::from_le_bytes(rows)
}

#[allow(clippy::cast_possible_truncation)] // below 256
static MATRICES: [i64; 256] = {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        matrices[c] = matrix(c as u8);
        c += 1;
    }
    matrices
};

#[derive(Clone, Copy)]
pub(crate) struct Ssse3(__m128i);

impl Vector for Ssse3 {
    const LEN: usize = 16;
    const OFFSET: u8 = THIRD_OF_POLY;
    type Factor = (__m128i, __m128i);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Self(_mm_loadu_si128(from.cast()))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        _mm_storeu_si128(to.cast(), self.0);
    }

    #[inline(always)]
    unsafe fn all(byte: u8) -> Self {
        Self(_mm_set1_epi8(byte.cast_signed()))
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(_mm_xor_si128(self.0, other.0))
    }

    #[inline(always)]
    unsafe fn step(self, d: Self) -> Self {
        let polynomial = _mm_shuffle_epi8(Self::all(POLY).0, self.0);
        Self(_mm_add_epi8(self.0, self.0)).plus(Self(polynomial).plus(d))
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let [low, high] = &HALVES[usize::from(c)];
        (Self::load(low.as_ptr()).0, Self::load(high.as_ptr()).0)
    }

    #[inline(always)]
    unsafe fn times(self, (low, high): Self::Factor) -> Self {
        let half = Self::all(0x0f).0;
        let low = _mm_shuffle_epi8(low, _mm_and_si128(self.0, half));
        let high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi16::<4>(self.0), half));
        Self(_mm_xor_si128(low, high))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256i);

impl Vector for Avx2 {
    const LEN: usize = 32;
    const OFFSET: u8 = THIRD_OF_POLY;
    type Factor = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Self(_mm256_loadu_si256(from.cast()))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        _mm256_storeu_si256(to.cast(), self.0);
    }

    #[inline(always)]
    unsafe fn all(byte: u8) -> Self {
        Self(_mm256_set1_epi8(byte.cast_signed()))
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(_mm256_xor_si256(self.0, other.0))
    }

    #[inline(always)]
    unsafe fn step(self, d: Self) -> Self {
        let polynomial = _mm256_shuffle_epi8(Self::all(POLY).0, self.0);
        Self(_mm256_add_epi8(self.0, self.0)).plus(Self(polynomial).plus(d))
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let (low, high) = Ssse3::factor(c);
        (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high))
    }

    #[inline(always)]
    unsafe fn times(self, (low, high): Self::Factor) -> Self {
        let half = Self::all(0x0f).0;
        let low = _mm256_shuffle_epi8(low, _mm256_and_si256(self.0, half));
        let high =
            _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(self.0), half));
        Self(_mm256_xor_si256(low, high))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Avx2Gfni(__m256i);

impl Avx2Gfni {
    #[inline(always)]
    unsafe fn times_known<const C: u8>(self) -> Self {
        self.times(_mm256_set1_epi64x(const { matrix(C) }))
    }
}

impl Vector for Avx2Gfni {
    const LEN: usize = 32;
    type Factor = __m256i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Self(Avx2::load(from).0)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        Avx2(self.0).store(to);
    }

    #[inline(always)]
    unsafe fn all(byte: u8) -> Self {
        Self(Avx2::all(byte).0)
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(Avx2(self.0).plus(Avx2(other.0)).0)
    }

    #[inline(always)]
    unsafe fn step(self, d: Self) -> Self {
        self.times_known::<2>().plus(d)
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        _mm256_set1_epi64x(MATRICES[usize::from(c)])
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        Self(_mm256_gf2p8affine_epi64_epi8::<0>(self.0, factor))
    }

    #[inline(always)]
    unsafe fn step_four(self, [d0, d1, d2, d3]: [Self; 4]) -> Self {
        let new = d3.times_known::<8>().plus(d2.times_known::<4>());
        let new = new.plus(d1.times_known::<2>().plus(d0));
        self.times_known::<16>().plus(new)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512i);

impl Avx512 {
    #[inline(always)]
    unsafe fn times_known<const C: u8>(self) -> Self {
        self.times(_mm512_set1_epi64(const { matrix(C) }))
    }

    /// Returns the sum of three.
    #[inline(always)]
    unsafe fn plus_two(self, one: Self, two: Self) -> Self {
        Self(_mm512_ternarylogic_epi64::<0x96>(self.0, one.0, two.0))
    }
}

impl Vector for Avx512 {
    const LEN: usize = 64;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Self(_mm512_loadu_si512(from.cast()))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        _mm512_storeu_si512(to.cast(), self.0);
    }

    #[inline(always)]
    unsafe fn all(byte: u8) -> Self {
        Self(_mm512_set1_epi8(byte.cast_signed()))
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(_mm512_xor_si512(self.0, other.0))
    }

    #[inline(always)]
    unsafe fn step(self, d: Self) -> Self {
        self.times_known::<2>().plus(d)
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        _mm512_set1_epi64(MATRICES[usize::from(c)])
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        Self(_mm512_gf2p8affine_epi64_epi8::<0>(self.0, factor))
    }

    #[inline(always)]
    unsafe fn plus_four(self, [d0, d1, d2, d3]: [Self; 4]) -> Self {
        self.plus_two(d0, d1).plus_two(d2, d3)
    }

    #[inline(always)]
    unsafe fn step_four(self, [d0, d1, d2, d3]: [Self; 4]) -> Self {
        let new = d3.times_known::<8>().plus_two(d2.times_known::<4>(), d1.times_known::<2>());
        new.plus_two(self.times_known::<16>(), d0)
    }
}
