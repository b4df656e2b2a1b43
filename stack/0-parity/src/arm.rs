//! AArch64 registers: NEON, which every AArch64 processor has.
//!
//! Doubling adds a byte to itself, and subtracts the polynomial if the top bit was set; an
//! arithmetic shift makes the mask. Multiplying by a constant takes two lookups in tables of
//! sixteen entries, one per half of the byte.
#![allow(unsafe_code)] // loads and stores through pointers
#![allow(unsafe_op_in_unsafe_fn)] // the contract of `Vector` is all there is to say
#![allow(clippy::inline_always)] // or it is no code of the processor it is for

use std::arch::aarch64::{
    uint8x16_t, vaddq_u8, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8,
    vreinterpretq_s8_u8, vreinterpretq_u8_s8, vshrq_n_s8, vshrq_n_u8, vst1q_u8,
};

use crate::field::{HALVES, POLY};
use crate::vector::{Vector, routine};

routine!(neon, Neon, 1, "neon");

#[derive(Clone, Copy)]
pub(crate) struct Neon(uint8x16_t);

impl Vector for Neon {
    const LEN: usize = 16;
    type Factor = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Self(vld1q_u8(from))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        vst1q_u8(to, self.0);
    }

    #[inline(always)]
    unsafe fn all(byte: u8) -> Self {
        Self(vdupq_n_u8(byte))
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(veorq_u8(self.0, other.0))
    }

    #[inline(always)]
    unsafe fn step(self, d: Self) -> Self {
        let top = vreinterpretq_u8_s8(vshrq_n_s8::<7>(vreinterpretq_s8_u8(self.0)));
        let polynomial = vandq_u8(top, vdupq_n_u8(POLY));
        Self(vaddq_u8(self.0, self.0)).plus(Self(polynomial)).plus(d)
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        let [low, high] = &HALVES[usize::from(c)];
        (vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr()))
    }

    #[inline(always)]
    unsafe fn times(self, (low, high): Self::Factor) -> Self {
        let low = vqtbl1q_u8(low, vandq_u8(self.0, vdupq_n_u8(0x0f)));
        let high = vqtbl1q_u8(high, vshrq_n_u8::<4>(self.0));
        Self(veorq_u8(low, high))
    }
}
