//! The routine for AArch64: the CRC instruction on three streams.
#![allow(unsafe_code)] // instructions that not every processor has

use std::arch::aarch64::{__crc32cb, __crc32cd, __crc32cw, vmull_p64};
use std::arch::is_aarch64_feature_detected;

use crate::three::three_streams;

pub(crate) fn has_crc() -> bool {
    is_aarch64_feature_detected!("crc") && is_aarch64_feature_detected!("aes")
}

/// Multiplies a register by a power of x (see [`crate::three`]).
#[inline]
#[target_feature(enable = "crc,neon,aes")]
fn shift(crc: u32, power: u32) -> u32 {
    let product = vmull_p64(u64::from(crc), u64::from(power));
    #[allow(clippy::cast_possible_truncation)] // a product of 32 by 32 bits has 63
    let product = product as u64;
    __crc32cd(0, product)
}

three_streams! {
    #[target_feature(enable = "crc,neon,aes")]
    streams, moved_over, __crc32cd, __crc32cw, __crc32cb, shift
}

/// Continues `crc` over `data`. The processor must have [`has_crc`].
pub(crate) fn crc(crc: u32, data: &[u8]) -> u32 {
    debug_assert!(has_crc());
    // SAFETY: routine.rs runs a routine only after its detection has found that the processor has
    // the instructions.
    unsafe { streams(crc, data) }
}

/// Returns `crc` moved over `bytes` zeroes, or `None`. The processor must have [`has_crc`].
pub(crate) fn moved(crc: u32, bytes: usize) -> Option<u32> {
    // SAFETY: as in `crc`.
    unsafe { moved_over(crc, bytes) }
}
