//! Measures the cost of checksums in processor cycles, while it is turned on.
//!
//! Metering is off until [`turn_on`] is called; then each checksum costs one test of a flag.
//!
//! The time stamp counter continues while a thread has no processor. A thread that loses its
//! processor within a checksum would therefore count the time of other threads. Such a checksum is
//! recognised by its length, which no routine reaches, and its cycles are left out. The cycles of
//! the others are scaled to all bytes ([`Cost::scaled_cycles`]), as perf scales a counter that did
//! not run all the time.
#![allow(unsafe_code)] // the time stamp counter

use std::cell::Cell;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A checksum that takes more cycles than these and [`CYCLES_PER_BYTE_MAX`] was interrupted. They
/// are 15 to 60 µs, which is less than a time slice.
const CYCLES_MAX: u64 = 60_000;
/// Most cycles per byte of an uninterrupted checksum: the portable routine needs 2 to 4 with its
/// data in memory.
const CYCLES_PER_BYTE_MAX: u64 = 12;

static ON: AtomicBool = AtomicBool::new(false);
static TOTAL: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

thread_local! {
    static OF_THREAD: Cell<Cost> = const { Cell::new(Cost::ZERO) };
}

/// The totals so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cycles of the time stamp counter ([`now`]) in uninterrupted checksums, including those of
    /// reading it: about 40 for each checksum.
    pub cycles: u64,
    /// Bytes that were checksummed.
    pub bytes: u64,
    /// Checksums.
    pub sums: u64,
    /// Bytes of the interrupted checksums.
    pub interrupted_bytes: u64,
    /// Interrupted checksums.
    pub interrupted_sums: u64,
}

impl Cost {
    const ZERO: Self =
        Self { cycles: 0, bytes: 0, sums: 0, interrupted_bytes: 0, interrupted_sums: 0 };

    /// Returns the cost of one checksum over `bytes` bytes, between whose begin and end the counter
    /// advanced by `cycles`.
    fn of_sum(bytes: u64, cycles: u64) -> Self {
        let interrupted =
            cycles > bytes.saturating_mul(CYCLES_PER_BYTE_MAX).saturating_add(CYCLES_MAX);
        Self {
            cycles: if interrupted { 0 } else { cycles },
            bytes,
            sums: 1,
            interrupted_bytes: if interrupted { bytes } else { 0 },
            interrupted_sums: u64::from(interrupted),
        }
    }

    /// Returns the cycles of all checksums: those of the uninterrupted ones, scaled to all bytes.
    /// `None` if every checksum was interrupted.
    #[allow(clippy::cast_precision_loss)] // of a measurement
    pub fn scaled_cycles(&self) -> Option<f64> {
        if self.interrupted_sums == 0 {
            return Some(self.cycles as f64);
        }
        let whole = self.bytes.saturating_sub(self.interrupted_bytes);
        (whole > 0).then(|| self.cycles as f64 * (self.bytes as f64 / whole as f64))
    }

    fn figures(self) -> [u64; 5] {
        let Self { cycles, bytes, sums, interrupted_bytes, interrupted_sums } = self;
        [cycles, bytes, sums, interrupted_bytes, interrupted_sums]
    }

    fn from_figures(figures: [u64; 5]) -> Self {
        let [cycles, bytes, sums, interrupted_bytes, interrupted_sums] = figures;
        Self { cycles, bytes, sums, interrupted_bytes, interrupted_sums }
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let other = other.figures();
        let mut sum = self.figures();
        sum.iter_mut().zip(other).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        Self::from_figures(sum)
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        let before = before.figures();
        let mut rest = self.figures();
        rest.iter_mut().zip(before).for_each(|(rest, less)| *rest = rest.saturating_sub(less));
        Self::from_figures(rest)
    }
}

/// Starts or stops metering in all threads.
pub fn turn_on(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Returns the totals of all threads so far.
pub fn cost() -> Cost {
    let mut figures = [0; 5];
    figures.iter_mut().zip(&TOTAL).for_each(|(read, total)| *read = total.load(Ordering::Relaxed));
    Cost::from_figures(figures)
}

/// Returns what this thread has spent on checksums so far.
pub fn of_thread() -> Cost {
    OF_THREAD.get()
}

/// Returns the time stamp counter; nanoseconds where the processor has none.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it touches nothing.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::time::Instant;
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Computes a checksum over `bytes` bytes and counts it if metering is on.
#[inline]
pub(crate) fn counted<T>(bytes: usize, sum: impl FnOnce() -> T) -> T {
    if !ON.load(Ordering::Relaxed) {
        return sum();
    }
    let start = now();
    let answer = sum();
    let cost = Cost::of_sum(bytes as u64, now().saturating_sub(start));
    OF_THREAD.set(OF_THREAD.get() + cost);
    for (total, more) in TOTAL.iter().zip(cost.figures()) {
        if more > 0 {
            total.fetch_add(more, Ordering::Relaxed);
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_counted_while_metering_is_on() {
        let block = [7; 4096];
        let quiet = (crate::crc32c(&block), of_thread());
        assert_eq!(quiet.1, Cost::default());
        turn_on(true);
        let before = cost();
        let sums = [crate::crc32c(&block), !crate::append(0, &block)];
        turn_on(false);
        assert_eq!(sums, [quiet.0, !quiet.0]);
        // Other tests compute checksums at the same time.
        let mine = of_thread();
        assert_eq!((mine.sums, mine.bytes), (2, 8192));
        let all = cost() - before;
        assert!(all.sums >= 2 && all.bytes >= 8192 && all.cycles >= mine.cycles);
    }

    #[test]
    #[allow(clippy::float_cmp)] // of values that are exact
    fn the_time_without_a_processor_is_no_cost_of_a_checksum() {
        // A checksum of 4 KiB takes 400 cycles. The thread loses its processor in the third one,
        // for a time slice of 3 ms.
        let sums = [400, 400, 9_000_000, 400].map(|cycles| Cost::of_sum(4096, cycles));
        let all = sums.into_iter().fold(Cost::default(), Cost::add);
        assert_eq!((all.sums, all.interrupted_sums, all.interrupted_bytes), (4, 1, 4096));
        assert_eq!(all.scaled_cycles(), Some(1600.0));
        assert_eq!((all - sums[2]).scaled_cycles(), Some(1200.0));
    }

    #[test]
    fn a_slow_checksum_is_not_taken_for_an_interrupted_one() {
        // The portable routine on a large record: 256 KiB in 2 ms at 500 MHz.
        assert_eq!(Cost::of_sum(256 << 10, 1_000_000).interrupted_sums, 0);
        assert_eq!(Cost::of_sum(512, 60_000).interrupted_sums, 0);
    }

    #[test]
    fn without_a_whole_checksum_there_is_no_cost() {
        assert_eq!(Cost::of_sum(512, u64::MAX).scaled_cycles(), None);
        assert_eq!(Cost::default().scaled_cycles(), Some(0.0));
    }
}
