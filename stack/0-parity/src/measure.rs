//! Testing every routine against the portable one, and timing it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::field::{inverse, power, product};
use crate::routine::{Routine, portable, routines};
use crate::stripe::{Output, Stripe};

/// An operation that is tested and timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// P of a stripe, or a chunk from P.
    Xor,
    /// P and Q of a stripe.
    Pq,
    /// P and Q updated by a chunk's difference.
    Update,
    /// A chunk from Q.
    DFromQ,
    /// A chunk and P.
    DAndP,
    /// A chunk and Q.
    DAndQ,
    /// Two chunks.
    DAndD,
}

impl Operation {
    /// All operations, in the order of [`Measured::rates`].
    pub const ALL: [Operation; 7] = [
        Operation::Xor,
        Operation::Pq,
        Operation::Update,
        Operation::DFromQ,
        Operation::DAndP,
        Operation::DAndQ,
        Operation::DAndD,
    ];

    /// Returns its name in a table: `xor`, `P+Q`, …
    pub fn name(self) -> &'static str {
        match self {
            Operation::Xor => "xor",
            Operation::Pq => "P+Q",
            Operation::Update => "update",
            Operation::DFromQ => "D from Q",
            Operation::DAndP => "D+P",
            Operation::DAndQ => "D+Q",
            Operation::DAndD => "D+D",
        }
    }
}

/// The result for one routine.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The routine.
    pub name: &'static str,
    /// Whether it agreed with the portable routine in everything.
    pub passed: bool,
    /// Bytes of sources per second, in the order of [`Operation::ALL`].
    pub rates: [f64; Operation::ALL.len()],
}

/// Tests and times every available routine on stripes of `data` chunks of `len` bytes, which stay
/// in the processor's cache if they fit. Takes a few milliseconds per routine.
///
/// # Panics
/// Panics if there are fewer than two chunks or more than 255.
pub fn measure(data: usize, len: usize) -> Vec<Measured> {
    let mut sample = Sample::new(data, len);
    let mut measured = |routine: &Routine| Measured {
        name: routine.name,
        passed: matches_portable(routine),
        rates: Operation::ALL.map(|operation| sample.rate(routine, operation)),
    };
    routines().iter().filter(|routine| routine.available()).map(&mut measured).collect()
}

/// Returns true if `routine` agrees with the portable one in every operation: with stripes longer
/// than a tile, with empty exponents, and with bytes behind the last whole register.
pub(crate) fn matches_portable(routine: &Routine) -> bool {
    [(2, 100), (11, 4096 + 3 * 64 + 21)].into_iter().all(|(data, len)| {
        let mut sample = Sample::new(data, len);
        Operation::ALL.into_iter().all(|operation| {
            let mut results = |routine: &Routine| {
                sample.one.bytes_mut().fill(1);
                sample.two.bytes_mut().fill(2);
                sample.run(routine, operation);
                (sample.one.bytes().to_vec(), sample.two.bytes().to_vec())
            };
            results(routine) == results(portable())
        })
    })
}

/// Bytes aligned to a cache line.
struct Block {
    memory: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Block {
    fn new(len: usize, fill: impl FnMut() -> u8) -> Self {
        let memory: Vec<u8> = std::iter::repeat_with(fill).take(len + 63).collect();
        let begin = memory.as_ptr().align_offset(64).min(63);
        Self { memory, begin, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..][..self.len]
    }
}

/// A stripe of pseudorandom bytes.
struct Sample {
    chunks: Vec<Block>,
    p: Block,
    q: Block,
    one: Block,
    two: Block,
}

impl Sample {
    fn new(data: usize, len: usize) -> Self {
        assert!(data > 1, "two chunks are to be recovered");
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        let mut block = || Block::new(len, &mut noise);
        let chunks = (0..data).map(|_| block()).collect();
        Self { chunks, p: block(), q: block(), one: block(), two: block() }
    }

    /// Runs `operation` with the lowest and a middle chunk treated as missing. P and Q are
    /// arbitrary.
    fn run(&mut self, routine: &Routine, operation: Operation) {
        let (x, y) = (0, self.chunks.len() / 2);
        let (one, two) = (self.one.bytes_mut(), self.two.bytes_mut());
        let (p, q) = (Some(self.p.bytes()), Some(self.q.bytes()));
        let mut data: Vec<Option<&[u8]>> = self.chunks.iter().map(|c| Some(c.bytes())).collect();
        match operation {
            Operation::Xor => {
                let sources: Vec<&[u8]> = self.chunks.iter().map(Block::bytes).collect();
                return routine.xor(&sources, one);
            }
            Operation::Update => {
                return routine.update(power(y), self.chunks[y].bytes(), one, two);
            }
            Operation::Pq => {}
            Operation::DAndD => (data[x], data[y]) = (None, None),
            _ => data[y] = None,
        }
        let (b, c) = (inverse(power(y)), power(y));
        let (stripe, output) = match operation {
            Operation::DFromQ => (Stripe::with(&data, None, q), Output::Scaled { b, d: one }),
            Operation::DAndP => (Stripe::with(&data, None, q), Output::DataP { b, d: one, p: two }),
            Operation::DAndQ => (Stripe::with(&data, p, None), Output::DataQ { c, d: one, q: two }),
            Operation::DAndD => {
                let b = inverse(power(x) ^ power(y));
                let a = product(power(y), b);
                (Stripe::with(&data, p, q), Output::DataData { a, b, x: one, y: two })
            }
            _ => (Stripe::new(&data), Output::Sums { p: one, q: two }),
        };
        routine.run(&stripe, output);
    }

    /// Returns the bytes of sources per second.
    fn rate(&mut self, routine: &Routine, operation: Operation) -> f64 {
        let sources = if operation == Operation::Update { 1 } else { self.chunks.len() };
        let bytes = sources * self.p.len;
        let rounds = (500_000 / bytes.max(1)).max(1);
        let mut round = || {
            let start = Instant::now();
            for _ in 0..rounds {
                black_box(&mut *self).run(routine, operation);
            }
            start.elapsed()
        };
        // Takes the best of several: disturbances only make a measurement slower.
        let best = (0..20).map(|_| round()).min().unwrap_or(Duration::MAX);
        #[allow(clippy::cast_precision_loss)] // counts of bytes, far below 2^52
        let bytes = (rounds * bytes) as f64;
        bytes / best.as_secs_f64().max(1e-9)
    }
}
