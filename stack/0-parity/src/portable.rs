//! The portable routine: eight words of eight bytes at a time, each byte of a word independently.
//!
//! It also processes the bytes that do not fill another routine's registers, and is the reference
//! for testing the others.

use crate::stripe::{Output, Stripe};

const WORDS: usize = 8;
const BLOCK: usize = WORDS * 8;

/// A block of bytes, eight to a word.
#[derive(Clone, Copy)]
struct Block([u64; WORDS]);

impl Block {
    const ZERO: Block = Block([0; WORDS]);

    /// Loads up to a block of bytes from `at`, padded with zeroes.
    fn load(bytes: &[u8], at: usize) -> Block {
        let rest = &bytes[at..];
        if let Some(whole) = rest.first_chunk::<BLOCK>() {
            return Block::from_bytes(whole);
        }
        let mut padded = [0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        Block::from_bytes(&padded)
    }

    fn from_bytes(bytes: &[u8; BLOCK]) -> Block {
        let (words, _) = bytes.as_chunks::<8>();
        Block(std::array::from_fn(|i| u64::from_le_bytes(words[i])))
    }

    /// Stores as much as fits.
    fn store(self, bytes: &mut [u8], at: usize) {
        for (word, out) in self.0.iter().zip(bytes[at..].chunks_mut(8)) {
            out.copy_from_slice(&word.to_le_bytes()[..out.len()]);
        }
    }

    fn plus(self, other: Block) -> Block {
        Block(std::array::from_fn(|i| self.0[i] ^ other.0[i]))
    }

    /// Doubles every byte. A top bit times 0x1d adds the polynomial to its own byte.
    fn double(self) -> Block {
        const TOP: u64 = 0x8080_8080_8080_8080;
        Block(self.0.map(|w| ((w & !TOP) << 1) ^ (((w & TOP) >> 7) * 0x1d)))
    }

    /// Multiplies every byte by `c`.
    fn times(self, c: u8) -> Block {
        (0..8).rev().fold(Block::ZERO, |sum, bit| {
            if c >> bit & 1 == 0 { sum.double() } else { sum.double().plus(self) }
        })
    }
}

/// Returns the sum of the sources' bytes from `at`.
fn sum<'a>(sources: impl Iterator<Item = &'a [u8]>, at: usize) -> Block {
    sources.fold(Block::ZERO, |sum, source| sum.plus(Block::load(source, at)))
}

/// Returns A.
fn sum_a(stripe: &Stripe, at: usize) -> Block {
    sum(stripe.data.iter().flatten().copied().chain(stripe.p), at)
}

/// Returns A and B, by Horner's rule from the highest exponent down.
fn sums(stripe: &Stripe, at: usize) -> (Block, Block) {
    let (mut a, mut b) = (sum(stripe.p.into_iter(), at), Block::ZERO);
    for source in stripe.data.iter().rev() {
        b = b.double();
        if let Some(source) = source {
            let d = Block::load(source, at);
            (a, b) = (a.plus(d), b.plus(d));
        }
    }
    (a, b.plus(sum(stripe.q.into_iter(), at)))
}

/// Computes `output` for the bytes of `stripe` from `from` to the end, `len`.
pub(crate) fn run(stripe: &Stripe, output: &mut Output, from: usize, len: usize) {
    for at in (from..len).step_by(BLOCK) {
        match output {
            Output::P { p } => sum_a(stripe, at).store(p, at),
            Output::Sums { p, q } => {
                let (a, b) = sums(stripe, at);
                a.store(p, at);
                b.store(q, at);
            }
            Output::Scaled { b: factor, d } => sums(stripe, at).1.times(*factor).store(d, at),
            Output::DataP { b: factor, d, p } => {
                let (a, b) = sums(stripe, at);
                let data = b.times(*factor);
                data.store(d, at);
                a.plus(data).store(p, at);
            }
            Output::DataQ { c, d, q } => {
                let (a, b) = sums(stripe, at);
                a.store(d, at);
                b.plus(a.times(*c)).store(q, at);
            }
            Output::DataData { a: factor_a, b: factor_b, x, y } => {
                let (a, b) = sums(stripe, at);
                let data = a.times(*factor_a).plus(b.times(*factor_b));
                data.store(x, at);
                a.plus(data).store(y, at);
            }
        }
    }
}

/// Computes the sum of `sources` from `from` to the end.
pub(crate) fn xor(sources: &[&[u8]], out: &mut [u8], from: usize) {
    for at in (from..out.len()).step_by(BLOCK) {
        sum(sources.iter().copied(), at).store(out, at);
    }
}

/// Adds `difference` to `p`, and `c` times `difference` to `q`, from `from` to the end.
pub(crate) fn update(c: u8, difference: &[u8], p: &mut [u8], q: &mut [u8], from: usize) {
    for at in (from..difference.len()).step_by(BLOCK) {
        let d = Block::load(difference, at);
        Block::load(p, at).plus(d).store(p, at);
        Block::load(q, at).plus(d.times(c)).store(q, at);
    }
}
