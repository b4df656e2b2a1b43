//! Tests every routine against the definition, over lengths, alignments, exponents and erasures,
//! and the field against its own.
//!
//! These are tests from outside, because the routines of four register sets are slow to compile:
//! unit tests would compile them twice.

use std::sync::{Mutex, MutexGuard};

use xfskit_parity::field::{POLY, inverse, log, power, product};
use xfskit_parity::{EXPONENTS_MAX, Located, Routine, locate, measure, routines, select};
use xfskit_test_support::Random;

/// A stripe with its parity by the definition. Every chunk is `len` bytes, `align` behind a
/// multiple of 64.
struct Sample {
    chunks: Vec<Vec<u8>>,
    /// Exponents without data (as those of P and Q in DDF orders).
    empty: Vec<bool>,
    align: usize,
    len: usize,
    p: Vec<u8>,
    q: Vec<u8>,
}

impl Sample {
    fn new(exponents: usize, len: usize, align: usize, random: &mut Random) -> Self {
        let empty: Vec<bool> =
            (0..exponents).map(|_| exponents > 3 && random.below(8) == 0).collect();
        let chunks: Vec<_> = (0..exponents).map(|_| random.bytes(len + 128)).collect();
        let mut sample = Self { chunks, empty, align, len, p: Vec::new(), q: Vec::new() };
        let (mut p, mut q) = (vec![0; len], vec![0; len]);
        for (i, data) in sample.data(&[]).into_iter().enumerate() {
            let coefficient: Vec<u8> = (0..=255).map(|d| product(d, power(i))).collect();
            for (at, &d) in data.into_iter().flatten().enumerate() {
                p[at] ^= d;
                q[at] ^= coefficient[usize::from(d)];
            }
        }
        (sample.p, sample.q) = (p, q);
        sample
    }

    /// Returns the stripe without the chunks at `lost`.
    fn data(&self, lost: &[usize]) -> Vec<Option<&[u8]>> {
        let there = |i: usize| !self.empty[i] && !lost.contains(&i);
        (0..self.chunks.len()).map(|i| there(i).then(|| self.chunk(i))).collect()
    }

    fn chunk(&self, i: usize) -> &[u8] {
        let away = self.chunks[i].as_ptr().align_offset(64) + self.align;
        &self.chunks[i][away..away + self.len]
    }

    /// Returns two exponents with data, in order; `None` if there are not so many.
    fn two(&self, random: &mut Random) -> Option<(usize, usize)> {
        let used: Vec<usize> = (0..self.chunks.len()).filter(|&i| !self.empty[i]).collect();
        let second = (used.len() > 1).then(|| 1 + random.below(used.len() - 1))?;
        Some((used[random.below(second)], used[second]))
    }
}

/// Buffers for results, with guards on both sides.
struct Out {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Out {
    fn new(len: usize, align: usize) -> Self {
        let bytes = vec![0xa5; len + 256];
        let at = bytes.as_ptr().align_offset(64) + 64 + align;
        Self { bytes, at, len }
    }

    fn buf(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..self.at + self.len]
    }

    #[track_caller]
    fn is(&self, expected: &[u8], what: &str) {
        let end = self.at + self.len;
        assert!(self.bytes[self.at..end] == *expected, "{what}: wrong");
        let mut guards = self.bytes[..self.at].iter().chain(&self.bytes[end..]);
        assert!(guards.all(|&b| b == 0xa5), "{what}: wrote outside its buffer");
    }
}

/// Held by the test whose routine all operations use.
static SELECTED: Mutex<()> = Mutex::new(());

/// A routine that all operations use while this exists.
struct Using {
    routine: &'static Routine,
    _held: MutexGuard<'static, ()>,
}

impl Using {
    /// Returns the routines of this processor, one after the other.
    fn each() -> impl Iterator<Item = Self> {
        routines().iter().filter(|routine| routine.available()).map(|routine| {
            let held = SELECTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            assert!(select(routine.name), "{} is available", routine.name);
            Self { routine, _held: held }
        })
    }
}

/// Checks every operation of the routine in use on one sample.
fn check_operations(using: &Using, sample: &Sample, random: &mut Random) {
    let Sample { p, q, len, align, .. } = sample;
    let (len, align) = (*len, *align);
    let exponents = sample.chunks.len();
    let what = |op: &str| {
        format!("{}, {op}: {exponents} exponents, {len} bytes at {align}", using.routine.name)
    };
    let out = || (Out::new(len, align), Out::new(len, (align * 7 + 3) % 64));
    let all = sample.data(&[]);

    let (mut one, mut two) = out();
    xfskit_parity::pq(&all, one.buf(), two.buf());
    one.is(p, &what("P of P+Q"));
    two.is(q, &what("Q of P+Q"));

    let given: Vec<&[u8]> = all.iter().copied().flatten().collect();
    let (mut one, _) = out();
    xfskit_parity::xor(&given, one.buf());
    one.is(p, &what("xor"));

    let (mut one, mut two) = out();
    xfskit_parity::errors(&all, p, q, one.buf(), two.buf());
    one.is(&vec![0; len], &what("P's error"));
    two.is(&vec![0; len], &what("Q's error"));

    let exponent = random.below(EXPONENTS_MAX);
    let difference = random.bytes(len);
    let plus = |a: &[u8], c: u8| -> Vec<u8> {
        a.iter().zip(&difference).map(|(a, &d)| a ^ product(c, d)).collect()
    };
    let (mut one, mut two) = out();
    one.buf().copy_from_slice(p);
    two.buf().copy_from_slice(q);
    xfskit_parity::update(exponent, &difference, one.buf(), two.buf());
    one.is(&plus(p, 1), &what("P of update"));
    two.is(&plus(q, power(exponent)), &what("Q of update"));

    let Some((x, y)) = sample.two(random) else { return };
    let without = sample.data(&[x]);
    let (mut one, _) = out();
    xfskit_parity::d_from_p(&without, x, p, one.buf());
    one.is(sample.chunk(x), &what("D from P"));

    let (mut one, _) = out();
    xfskit_parity::d_from_q(&without, x, q, one.buf());
    one.is(sample.chunk(x), &what("D from Q"));

    let (mut one, mut two) = out();
    xfskit_parity::d_and_p(&without, x, q, one.buf(), two.buf());
    one.is(sample.chunk(x), &what("D of D+P"));
    two.is(p, &what("P of D+P"));

    let (mut one, mut two) = out();
    xfskit_parity::d_and_q(&without, x, p, one.buf(), two.buf());
    one.is(sample.chunk(x), &what("D of D+Q"));
    two.is(q, &what("Q of D+Q"));

    let without = sample.data(&[x, y]);
    let (mut one, mut two) = out();
    xfskit_parity::d_and_d(&without, x, y, p, q, one.buf(), two.buf());
    one.is(sample.chunk(x), &what("X of D+D"));
    two.is(sample.chunk(y), &what("Y of D+D"));
}

#[test]
fn every_routine_agrees_with_the_definition_at_every_length() {
    let random = &mut Random::of_test(1);
    for using in Using::each() {
        for len in (0..=300).chain([511, 512, 513, 1000, 4095, 4096, 4097, 10_001]) {
            let sample = Sample::new(1 + random.below(9), len, random.below(64), random);
            check_operations(&using, &sample, random);
        }
    }
}

#[test]
fn every_routine_agrees_with_the_definition_at_every_alignment() {
    let random = &mut Random::of_test(2);
    for using in Using::each() {
        for align in 0..64 {
            for len in [61, 512, 1531] {
                let sample = Sample::new(6, len, align, random);
                check_operations(&using, &sample, random);
            }
        }
    }
}

#[test]
fn every_routine_agrees_with_the_definition_at_every_number_of_exponents() {
    let random = &mut Random::of_test(3);
    for using in Using::each() {
        for exponents in 0..=EXPONENTS_MAX {
            let sample = Sample::new(exponents, 560, random.below(64), random);
            check_operations(&using, &sample, random);
        }
    }
}

/// Covers every product: all bytes with all coefficients.
#[test]
fn every_routine_multiplies_every_byte_by_every_power() {
    let bytes: Vec<u8> = (0..=255).collect();
    for using in Using::each() {
        for exponent in 0..EXPONENTS_MAX {
            let mut data: Vec<Option<&[u8]>> = vec![None; exponent + 1];
            data[exponent] = Some(&bytes);
            let (mut p, mut q) = (vec![0; 256], vec![0; 256]);
            xfskit_parity::pq(&data, &mut p, &mut q);
            let products: Vec<u8> = (0..=255).map(|d| product(d, power(exponent))).collect();
            assert_eq!(p, bytes);
            assert_eq!(q, products, "{}: g^{exponent}", using.routine.name);
        }
    }
}

#[test]
fn one_wrong_chunk_is_located_and_two_are_distinguished() {
    let random = &mut Random::of_test(4);
    let sample = Sample::new(22, 512, 0, random);
    let (x, y) = sample.two(random).expect("twenty exponents");
    let (mut p_error, mut q_error) = (vec![0; 512], vec![0; 512]);
    let mut located = |wrong: &[(usize, usize, u8)], p_wrong: u8, q_wrong: u8| {
        let mut chunks: Vec<Vec<u8>> = (0..22).map(|i| sample.chunk(i).to_vec()).collect();
        for &(chunk, at, by) in wrong {
            chunks[chunk][at] ^= by;
        }
        let (mut p, mut q) = (sample.p.clone(), sample.q.clone());
        p[3] ^= p_wrong;
        q[4] ^= q_wrong;
        let data: Vec<_> =
            chunks.iter().zip(&sample.empty).map(|(c, &e)| (!e).then_some(&c[..])).collect();
        xfskit_parity::errors(&data, &p, &q, &mut p_error, &mut q_error);
        locate(&p_error, &q_error)
    };
    assert_eq!(located(&[], 0, 0), Located::Nothing);
    assert_eq!(located(&[], 1, 0), Located::P);
    assert_eq!(located(&[], 0, POLY), Located::Q);
    assert_eq!(located(&[(x, 9, 0x80), (x, 500, 3)], 0, 0), Located::Data(x));
    assert_eq!(located(&[(y, 0, 0x80)], 0, 0), Located::Data(y));
    assert_eq!(located(&[(x, 9, 1), (y, 10, 1)], 0, 0), Located::Several);
    assert_eq!(located(&[], 1, 1), Located::Several);
}

#[test]
#[should_panic(expected = "differ in length")]
fn chunks_of_different_lengths_are_refused() {
    xfskit_parity::pq(&[Some(&[0; 8]), Some(&[0; 7])], &mut [0; 8], &mut [0; 8]);
}

#[test]
#[should_panic(expected = "is to be recovered, but it is given")]
fn a_chunk_that_is_there_is_not_recovered() {
    xfskit_parity::d_from_p(&[Some(&[0; 8])], 0, &[0; 8], &mut [0; 8]);
}

#[test]
fn powers_of_two_are_all_elements_but_zero() {
    let first = [1, 2, 4, 8, 16, 32, 64, 128, 29, 58, 116, 232, 205, 135, 19, 38];
    let mut all: Vec<u8> = (0..EXPONENTS_MAX).map(power).collect();
    assert_eq!(all[..16], first);
    assert_eq!(product(2, all[254]), 1);
    all.sort_unstable();
    assert!(all.into_iter().eq(1..=255));
}

#[test]
fn products_agree_with_sums_of_logarithms_and_inverses_undo_them() {
    for a in 1..=255u8 {
        assert_eq!(power(log(a)), a);
        assert_eq!(product(a, inverse(a)), 1);
        for b in 1..=255u8 {
            assert_eq!(product(a, b), power(log(a) + log(b)));
        }
        assert_eq!(product(a, 0) | product(0, a), 0);
    }
}

#[test]
fn every_available_routine_passes_and_is_timed() {
    let all = measure(3, 512);
    assert_eq!(all.len(), routines().iter().filter(|routine| routine.available()).count());
    assert!(all.iter().all(|one| one.passed && one.rates.iter().all(|&rate| rate > 0.0)));
}
