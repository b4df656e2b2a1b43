//! Floor 0: the parity of RAID4, 5 and 6, computed and taken back.
//!
//! Over the field of 256 elements with the polynomial x^8+x^4+x^3+x^2+1 and the generator g = 2
//! (as md and DDF have it), byte by byte over the chunks D_i of one row:
//!
//! ```text
//! P = sum of D_i          Q = sum of g^i · D_i          (sums are exclusive or)
//! ```
//!
//! *Rows.* A row is a slice with one place per exponent: `data[i]` is the chunk whose coefficient in
//! Q is g^i. `None` counts as zeroes: a chunk that is missing, or a place that holds no data (DDF
//! orders count P's and Q's own places). At most 255 places; powers of g repeat after that.
//!
//! *One pass.* Every recovery reads each source once and writes each result once: the sums stay in
//! registers, and what is missing is solved from them before it is stored.
//!
//! *Several routines, one answer.* The first call tests the best routine that the processor has against
//! the portable one, and takes the next where they disagree; [`routines`] lists them, [`select`] takes
//! another, [`measure()`] tests and times them all (docs/design/parity.md has the table).
//!
//! *Where chunks lie.* Best some cache lines off multiples of 4096 from each other: chunks that begin
//! at the same offset of a page all fall into the same few sets of the first cache.
//!
//! # Panics
//! Where chunks of one call differ in length, where there are more than 255 places, where a chunk to
//! be recovered is given, or its place does not exist: the caller's mistakes, never the disk's. Any
//! length and any alignment will do.
//!
//! | module | what |
//! | --- | --- |
//! | [`field`] | the field: products, inverses, powers of g, from the definition |
//! | [`routine`] | the routines there are, and the choice among them |
//! | [`measure`](mod@measure) | every routine tested and timed |
//! | `row` | what a routine is asked for |
//! | `portable` | the portable routine: eight bytes at a time in a word |
//! | `vector` | what the others share: one pass over a row, for any processor's registers |
//! | `x86`, `arm` | the registers of SSSE3 and AVX2, of AVX2 and AVX-512 with GFNI; of NEON |

#[cfg(target_arch = "aarch64")]
mod arm;
pub mod field;
pub mod measure;
mod portable;
pub mod routine;
mod stripe;
#[cfg(test)]
mod tests;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use measure::{Measured, Operation, measure};
pub use routine::{Routine, routines, select, selected};

use field::{inverse, power, product};
use stripe::{Output, Stripe};

/// Most places a row can have.
pub const EXPONENTS_MAX: usize = 255;

/// `out` becomes the sum of `sources` (zeroes where there are none): P of a row, or a chunk from P and
/// all others.
pub fn xor(sources: &[&[u8]], out: &mut [u8]) {
    routine::chosen().xor(sources, out);
}

/// P and Q of a row.
pub fn pq(data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    routine::chosen().run(&Stripe::new(data), Output::Sums { p, q });
}

/// P and Q of a row whose chunk at `exponent` changes by `difference` (old plus new).
pub fn update(exponent: usize, difference: &[u8], p: &mut [u8], q: &mut [u8]) {
    assert!(exponent < EXPONENTS_MAX, "a stripe has no place {exponent}");
    routine::chosen().update(power(exponent), difference, p, q);
}

/// What P and Q of a row ought to be, less what they are: zeroes where the row is consistent
/// ([`locate`] tells what the errors mean).
pub fn errors(data: &[Option<&[u8]>], p: &[u8], q: &[u8], p_error: &mut [u8], q_error: &mut [u8]) {
    routine::chosen()
        .run(&Stripe::with(data, Some(p), Some(q)), Output::Sums { p: p_error, q: q_error });
}

/// The missing chunk from P and the others. (No Q: [`xor`] with P among the sources does the same.)
pub fn d_from_p(data: &[Option<&[u8]>], x: usize, p: &[u8], out: &mut [u8]) {
    missing(data, x);
    routine::chosen().run(&Stripe::with(data, Some(p), None), Output::P { p: out });
}

/// The missing chunk at `x` from Q and the others, where P is not to be trusted or not wanted.
pub fn d_from_q(data: &[Option<&[u8]>], x: usize, q: &[u8], out: &mut [u8]) {
    missing(data, x);
    let b = inverse(power(x));
    routine::chosen().run(&Stripe::with(data, None, Some(q)), Output::Scaled { b, d: out });
}

/// The missing chunk at `x` and P, from Q and the others.
pub fn d_and_p(data: &[Option<&[u8]>], x: usize, q: &[u8], out_d: &mut [u8], out_p: &mut [u8]) {
    missing(data, x);
    let output = Output::DataP { b: inverse(power(x)), d: out_d, p: out_p };
    routine::chosen().run(&Stripe::with(data, None, Some(q)), output);
}

/// The missing chunk at `x` and Q, from P and the others.
pub fn d_and_q(data: &[Option<&[u8]>], x: usize, p: &[u8], out_d: &mut [u8], out_q: &mut [u8]) {
    missing(data, x);
    let output = Output::DataQ { c: power(x), d: out_d, q: out_q };
    routine::chosen().run(&Stripe::with(data, Some(p), None), output);
}

/// The two missing chunks at `x` and `y`, from P, Q and the others.
pub fn d_and_d(
    data: &[Option<&[u8]>],
    x: usize,
    y: usize,
    p: &[u8],
    q: &[u8],
    out_x: &mut [u8],
    out_y: &mut [u8],
) {
    missing(data, x);
    missing(data, y);
    assert_ne!(x, y, "two chunks at one place");
    // With A and B the sums of what is there, P and Q included: D_x + D_y = A and
    // g^x · D_x + g^y · D_y = B.
    let b = inverse(power(x) ^ power(y));
    let a = product(power(y), b);
    routine::chosen()
        .run(&Stripe::with(data, Some(p), Some(q)), Output::DataData { a, b, x: out_x, y: out_y });
}

fn missing(data: &[Option<&[u8]>], x: usize) {
    assert!(matches!(data.get(x), Some(None)), "the chunk at {x} is to be recovered, and given");
}

/// What a row's errors ([`errors`]) say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// The row is consistent.
    Nothing,
    /// P alone is wrong.
    P,
    /// Q alone is wrong.
    Q,
    /// The chunk at this place alone is wrong, by `p_error`.
    Data(usize),
    /// More than one chunk is wrong.
    Several,
}

/// Which single chunk's being wrong explains the errors of P and Q, if any. A place out of use is for
/// the caller to reject. One wrong byte of several members passes for one member's error by chance;
/// the more bytes agree, the surer (`Data`'s error is P's, so the caller can count them).
pub fn locate(p_error: &[u8], q_error: &[u8]) -> Located {
    assert_eq!(p_error.len(), q_error.len(), "errors of one stripe are equally long");
    let mut located = Located::Nothing;
    for (&p, &q) in p_error.iter().zip(q_error) {
        let here = match (p, q) {
            (0, 0) => continue,
            (_, 0) => Located::P,
            (0, _) => Located::Q,
            _ => Located::Data(field::log(product(q, inverse(p)))),
        };
        if located != Located::Nothing && located != here {
            return Located::Several;
        }
        located = here;
    }
    located
}
