//! Powers of x modulo the Castagnoli polynomial, computed by the compiler.
//!
//! Polynomials are reflected, as in the CRC register: bit 31 is the coefficient of x^0.

/// The polynomial without its term x^32.
pub(crate) const POLY: u32 = 0x82f6_3b78;

/// Returns x^`n` modulo the polynomial.
pub(crate) const fn x_pow(n: u32) -> u32 {
    times_x_pow(1 << 31, n)
}

/// Returns `p` times x^`n` modulo the polynomial.
pub(crate) const fn times_x_pow(mut p: u32, n: u32) -> u32 {
    let mut i = 0;
    while i < n {
        p = if p & 1 != 0 { (p >> 1) ^ POLY } else { p >> 1 };
        i += 1;
    }
    p
}
