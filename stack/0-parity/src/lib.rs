//! Floor 0: parity of RAID4, 5 and 6: computing it, and recovering chunks from it.
//!
//! Parity is computed over the field of 256 elements with the polynomial x^8+x^4+x^3+x^2+1 and the
//! generator g = 2 (as in md and DDF), byte by byte over the chunks D_i of one stripe:
//!
//! ```text
//! P = sum of D_i          Q = sum of g^i · D_i          (sums are exclusive or)
//! ```
//!
//! *Stripes.* A stripe is a slice indexed by exponent: `data[i]` is the chunk whose coefficient in
//! Q is g^i. `None` counts as zeroes: a missing chunk, or an exponent without data (DDF orders also
//! count P and Q). There are at most 255 exponents; powers of g repeat after that.
//!
//! *One pass.* Every recovery reads each source once and writes each result once. The sums stay in
//! registers, and the missing chunks are solved from them before anything is stored.
//!
//! *Several routines, equal results.* The first call tests the best routine that the processor
//! supports against the portable one, and takes the next one if they disagree. [`routines`] lists
//! them, [`select`] chooses another, [`measure()`] tests and times all of them
//! (docs/design/parity.md has the table).
//!
//! *Alignment of chunks.* Chunks should begin some cache lines off multiples of 4096 from each
//! other. Chunks that begin at the same offset of a page all fall into the same few sets of the
//! first cache.
//!
//! # Panics
//! Panics if chunks of one call differ in length, if there are more than 255 exponents, if a chunk
//! to be recovered is given, or if its exponent does not exist. These are errors of the caller,
//! never of the disk. Any length and any alignment is valid.
//!
//! | module | what |
//! | --- | --- |
//! | [`field`] | the field: products, inverses, powers of g, from the definition |
//! | [`routine`] | the routines |
//! | `choice` | the choice among them |
//! | [`measure`](mod@measure) | every routine tested and timed |
//! | `stripe` | the sources and outputs of a routine |
//! | `portable` | the portable routine: eight bytes at a time in a word |
//! | `vector` | the shared code of the others: one pass over a stripe, for any registers |
//! | `x86`, `arm` | the registers of SSSE3 and AVX2, of AVX2 and AVX-512 with GFNI; of NEON |

#[cfg(target_arch = "aarch64")]
mod arm;
mod choice;
pub mod field;
pub mod measure;
mod portable;
pub mod routine;
mod stripe;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use choice::{select, selected};
pub use measure::{Measured, Operation, measure};
pub use routine::{Routine, routines};

use field::{inverse, power, product};
use stripe::{Output, Stripe};

/// The most exponents of a stripe.
pub const EXPONENTS_MAX: usize = 255;

/// Computes the sum of `sources` (zeroes if there are none): P of a stripe, or a chunk from P and
/// all others.
pub fn xor(sources: &[&[u8]], out: &mut [u8]) {
    choice::chosen().xor(sources, out);
}

/// Computes P and Q of a stripe.
pub fn pq(data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    choice::chosen().run(&Stripe::new(data), Output::Sums { p, q });
}

/// Updates P and Q of a stripe whose chunk at `exponent` changes by `difference` (old plus new).
pub fn update(exponent: usize, difference: &[u8], p: &mut [u8], q: &mut [u8]) {
    assert!(exponent < EXPONENTS_MAX, "a stripe has no exponent {exponent}");
    choice::chosen().update(power(exponent), difference, p, q);
}

/// Computes what P and Q of a stripe should be, minus what they are: zeroes if the stripe is
/// consistent. [`locate`] interprets the errors.
pub fn errors(data: &[Option<&[u8]>], p: &[u8], q: &[u8], p_error: &mut [u8], q_error: &mut [u8]) {
    choice::chosen()
        .run(&Stripe::with(data, Some(p), Some(q)), Output::Sums { p: p_error, q: q_error });
}

/// Recovers the chunk at `x` from P and the others. [`xor`] with P among the sources does the same.
pub fn d_from_p(data: &[Option<&[u8]>], x: usize, p: &[u8], out: &mut [u8]) {
    missing(data, x);
    choice::chosen().run(&Stripe::with(data, Some(p), None), Output::P { p: out });
}

/// Recovers the chunk at `x` from Q and the others, if P cannot be trusted or is not needed.
pub fn d_from_q(data: &[Option<&[u8]>], x: usize, q: &[u8], out: &mut [u8]) {
    missing(data, x);
    let b = inverse(power(x));
    choice::chosen().run(&Stripe::with(data, None, Some(q)), Output::Scaled { b, d: out });
}

/// Recovers the chunk at `x` and P, from Q and the others.
pub fn d_and_p(data: &[Option<&[u8]>], x: usize, q: &[u8], out_d: &mut [u8], out_p: &mut [u8]) {
    missing(data, x);
    let output = Output::DataP { b: inverse(power(x)), d: out_d, p: out_p };
    choice::chosen().run(&Stripe::with(data, None, Some(q)), output);
}

/// Recovers the chunk at `x` and Q, from P and the others.
pub fn d_and_q(data: &[Option<&[u8]>], x: usize, p: &[u8], out_d: &mut [u8], out_q: &mut [u8]) {
    missing(data, x);
    let output = Output::DataQ { c: power(x), d: out_d, q: out_q };
    choice::chosen().run(&Stripe::with(data, Some(p), None), output);
}

/// Recovers the chunks at `x` and `y`, from P, Q and the others.
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
    assert_ne!(x, y, "both missing chunks have the same exponent");
    // With A and B the sums of all sources, P and Q included: D_x + D_y = A and g^x · D_x + g^y ·
    // D_y = B.
    let b = inverse(power(x) ^ power(y));
    let a = product(power(y), b);
    choice::chosen()
        .run(&Stripe::with(data, Some(p), Some(q)), Output::DataData { a, b, x: out_x, y: out_y });
}

fn missing(data: &[Option<&[u8]>], x: usize) {
    assert!(
        matches!(data.get(x), Some(None)),
        "the chunk at {x} is to be recovered, but it is given"
    );
}

/// The meaning of a stripe's [`errors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// The stripe is consistent.
    Nothing,
    /// P alone is wrong.
    P,
    /// Q alone is wrong.
    Q,
    /// The chunk at this exponent alone is wrong, by `p_error`.
    Data(usize),
    /// More than one chunk is wrong.
    Several,
}

/// Locates the only chunk whose error explains the errors of P and Q. The caller rejects an
/// exponent that is not in use. One wrong byte of several members can look like one member's error
/// by chance. The more bytes agree, the more certain the result; the caller can count them, because
/// the error of `Data` is that of P.
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
