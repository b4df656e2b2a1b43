//! The field of 256 elements in which Q is computed, from its definition.
//!
//! Addition is exclusive or. 2·a is `a` shifted left, minus the polynomial if the top bit was set.
//! Two is a generator g: its powers are all elements except zero, and repeat after 255.

/// The polynomial x^8+x^4+x^3+x^2+1 without its x^8.
pub const POLY: u8 = 0x1d;

/// Returns twice `a`.
pub const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 != 0 { POLY } else { 0 }
}

/// Returns `a` times `b`.
pub const fn product(a: u8, b: u8) -> u8 {
    let (mut sum, mut a, mut b) = (0, a, b);
    while b != 0 {
        if b & 1 != 0 {
            sum ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    sum
}

const POWERS: [u8; 255] = {
    let mut powers = [1; 255];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = double(powers[i - 1]);
        i += 1;
    }
    powers
};

const LOGS: [u8; 256] = {
    let mut logs = [0; 256];
    let mut i = 0u8;
    while i < 255 {
        logs[POWERS[i as usize] as usize] = i;
        i += 1;
    }
    logs
};

/// Returns g to the power `n`.
pub const fn power(n: usize) -> u8 {
    POWERS[n % 255]
}

/// Returns the `n` below 255 with g^`n` = `a`.
///
/// # Panics
/// Panics for zero, which is not a power of g.
pub const fn log(a: u8) -> usize {
    assert!(a != 0, "zero is no power");
    LOGS[a as usize] as usize
}

/// Returns the element whose product with `a` is one.
///
/// # Panics
/// Panics for zero, which has no inverse.
pub const fn inverse(a: u8) -> u8 {
    power(255 - log(a))
}

/// For each `c`, its products with the sixteen low halves of a byte and with the sixteen high
/// halves.
#[allow(clippy::cast_possible_truncation)] // below 256, below 16
pub(crate) static HALVES: [[[u8; 16]; 2]; 256] = {
    let mut halves = [[[0; 16]; 2]; 256];
    let mut i = 0;
    while i < 256 * 16 {
        let (c, half) = (i / 16, i % 16);
        halves[c][0][half] = product(c as u8, half as u8);
        halves[c][1][half] = product(c as u8, (half as u8) << 4);
        i += 1;
    }
    halves
};
