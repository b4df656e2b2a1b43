//! The sources and outputs of a routine: the sums over one stripe, and what is computed from them.

use crate::EXPONENTS_MAX;

/// The sources of one stripe. The sums A and B are
///
/// ```text
/// A = P + sum of D_i          B = Q + sum of g^i · D_i          (missing terms count as zeroes)
/// ```
pub(crate) struct Stripe<'a> {
    /// The chunks by exponent.
    pub(crate) data: &'a [Option<&'a [u8]>],
    pub(crate) p: Option<&'a [u8]>,
    pub(crate) q: Option<&'a [u8]>,
}

impl<'a> Stripe<'a> {
    /// Returns a stripe of chunks without P and Q.
    pub(crate) fn new(data: &'a [Option<&'a [u8]>]) -> Self {
        Self::with(data, None, None)
    }

    pub(crate) fn with(
        data: &'a [Option<&'a [u8]>],
        p: Option<&'a [u8]>,
        q: Option<&'a [u8]>,
    ) -> Self {
        Self { data, p, q }
    }
}

/// The value to compute from the sums A and B, and where it is stored.
pub(crate) enum Output<'a> {
    /// p = A
    P { p: &'a mut [u8] },
    /// p = A, q = B
    Sums { p: &'a mut [u8], q: &'a mut [u8] },
    /// d = b·B
    Scaled { b: u8, d: &'a mut [u8] },
    /// d = b·B, p = A + d
    DataP { b: u8, d: &'a mut [u8], p: &'a mut [u8] },
    /// d = A, q = B + c·d
    DataQ { c: u8, d: &'a mut [u8], q: &'a mut [u8] },
    /// x = a·A + b·B, y = A + x
    DataData { a: u8, b: u8, x: &'a mut [u8], y: &'a mut [u8] },
}

impl Output<'_> {
    /// Returns the lengths of the results, in bytes.
    fn lens(&self) -> (usize, usize) {
        match self {
            Output::P { p: only } | Output::Scaled { d: only, .. } => (only.len(), only.len()),
            Output::Sums { p: one, q: two }
            | Output::DataP { d: one, p: two, .. }
            | Output::DataQ { d: one, q: two, .. }
            | Output::DataData { x: one, y: two, .. } => (one.len(), two.len()),
        }
    }
}

/// Checks that all lengths are equal, and returns the length in bytes. Routines rely on it.
pub(crate) fn checked_len(stripe: &Stripe, output: &Output) -> usize {
    assert!(stripe.data.len() <= EXPONENTS_MAX, "{} exponents in a stripe", stripe.data.len());
    let (len, second) = output.lens();
    assert_eq!(len, second, "results differ in length");
    let sources = stripe.data.iter().chain([&stripe.p, &stripe.q]).flatten();
    assert!(sources.into_iter().all(|s| s.len() == len), "chunks of a stripe differ in length");
    len
}
