//! Measures the cost of checksums in processor cycles, while it is turned on.
//!
//! Metering is off until [`turn_on`] is called; then each checksum costs one test of a flag.
#![allow(unsafe_code)] // the time stamp counter

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
static CYCLES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static SUMS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

/// The totals so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cycles of the time stamp counter ([`now`]), including those of reading it: about 40 for each
    /// checksum.
    pub cycles: u64,
    /// Bytes that were checksummed.
    pub bytes: u64,
    /// Checksums.
    pub sums: u64,
}

/// Starts or stops metering in all threads.
pub fn turn_on(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Returns the totals of all threads so far.
pub fn cost() -> Cost {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Cost { cycles: read(&CYCLES), bytes: read(&BYTES), sums: read(&SUMS) }
}

/// Returns the cycles that this thread has spent on checksums so far.
pub fn of_thread() -> u64 {
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
    let cycles = now().saturating_sub(start);
    OF_THREAD.set(OF_THREAD.get() + cycles);
    CYCLES.fetch_add(cycles, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    SUMS.fetch_add(1, Ordering::Relaxed);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_counted_while_metering_is_on() {
        let block = [7; 4096];
        let quiet = (crate::crc32c(&block), of_thread());
        assert_eq!(quiet.1, 0);
        turn_on(true);
        let before = cost();
        let sums = [crate::crc32c(&block), !crate::append(0, &block)];
        turn_on(false);
        assert_eq!(sums, [quiet.0, !quiet.0]);
        // Other tests compute checksums at the same time.
        assert!(of_thread() > 0 && cost().cycles >= of_thread());
        assert!(cost().sums >= before.sums + 2 && cost().bytes >= before.bytes + 8192);
    }
}
