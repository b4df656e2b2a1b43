//! The available routines, and the choice among them.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::CRC_LEN;
#[cfg(target_arch = "aarch64")]
use crate::arm;
use crate::table;
#[cfg(target_arch = "x86_64")]
use crate::x86;

/// One implementation of the checksum.
#[derive(Debug)]
pub struct Routine {
    /// Name: `table`, `sse4.2`, …
    pub name: &'static str,
    /// Detects whether the processor has what the kernel needs.
    detect: fn() -> bool,
    /// Continues the register (neither initialized nor complemented) over the bytes. Called only
    /// after `detect` has returned true.
    kernel: fn(u32, &[u8]) -> u32,
    /// Moves a register over so many zero bytes, if the routine can do so in constant time.
    moved: fn(u32, usize) -> Option<u32>,
}

/// All routines, the best first. The portable one is last, and always available.
static ROUTINES: &[Routine] = &[
    #[cfg(target_arch = "x86_64")]
    Routine { name: "avx512", detect: x86::has_avx512, kernel: x86::avx512, moved: x86::moved },
    #[cfg(target_arch = "x86_64")]
    Routine { name: "sse4.2", detect: x86::has_sse42, kernel: x86::sse42, moved: x86::moved },
    #[cfg(target_arch = "aarch64")]
    Routine { name: "armv8-crc", detect: arm::has_crc, kernel: arm::crc, moved: arm::moved },
    Routine { name: "table", detect: || true, kernel: table::run, moved: |_, _| None },
    // Cannot be selected: used while checksums are skipped, and the same for all data.
    Routine { name: "none", detect: || false, kernel: |_, _| !SKIPPED, moved: |_, _| None },
];

/// The constant that replaces skipped checksums. It is not 0, which means "no checksum" in journal
/// records.
const SKIPPED: u32 = 0x5eed_c0de;

/// Index of the routine in use; [`UNCHOSEN`] before the first checksum.
static CHOSEN: AtomicUsize = AtomicUsize::new(UNCHOSEN);
const UNCHOSEN: usize = usize::MAX;

impl Routine {
    /// Returns true if this processor has what the routine needs.
    pub fn available(&self) -> bool {
        (self.detect)()
    }

    /// Continues the register over the bytes. The routine must be available.
    #[inline]
    pub(crate) fn run(&self, register: u32, data: &[u8]) -> u32 {
        (self.kernel)(register, data)
    }

    /// Returns the register of `block`, which holds only zeroes from byte `used` on. The zeroes are
    /// skipped if the routine can multiply so far.
    #[inline]
    pub(crate) fn run_padded(&self, block: &[u8], used: usize) -> u32 {
        let (head, zeroes) = block.split_at(used);
        let register = self.run(!0, head);
        (self.moved)(register, zeroes.len()).unwrap_or_else(|| self.run(register, zeroes))
    }

    /// Returns the register of `block` as if the four bytes at `field` were zero. By linearity that
    /// is the block's own register minus the contribution of the field: one pass, and a
    /// multiplication beside it. If the routine cannot multiply so far, the block is summed in
    /// three pieces. `None` if the field does not fit.
    #[inline]
    pub(crate) fn run_without(&self, block: &[u8], field: usize) -> Option<u32> {
        let (before, rest) = block.split_at_checked(field)?;
        let (stored, behind) = rest.split_first_chunk::<CRC_LEN>()?;
        Some(match (self.moved)(u32::from_le_bytes(*stored), rest.len()) {
            Some(added) => self.run(!0, block) ^ added,
            None => self.run(self.run(self.run(!0, before), &[0; CRC_LEN]), behind),
        })
    }
}

/// Returns the routine in use. The first call chooses the best that the processor has.
#[inline]
pub(crate) fn chosen() -> &'static Routine {
    ROUTINES.get(CHOSEN.load(Ordering::Relaxed)).unwrap_or_else(choose)
}

#[cold]
fn choose() -> &'static Routine {
    let best = ROUTINES.iter().position(Routine::available).unwrap_or(0);
    CHOSEN.store(best, Ordering::Relaxed);
    &ROUTINES[best]
}

/// Returns all routines of this architecture, the best first, the portable one last.
pub fn routines() -> &'static [Routine] {
    &ROUTINES[..ROUTINES.len() - 1]
}

/// Stops computing checksums. Returns the index of the routine that was in use.
pub(crate) fn stop_summing() -> usize {
    chosen();
    CHOSEN.swap(ROUTINES.len() - 1, Ordering::Relaxed)
}

/// Resumes computing checksums with this routine.
pub(crate) fn sum_again(routine: usize) {
    CHOSEN.store(routine, Ordering::Relaxed);
}

/// Returns the name of the routine in use.
pub fn selected() -> &'static str {
    chosen().name
}

/// Selects the routine called `name` in all threads from now on. Returns false, and changes
/// nothing, if there is no such routine or the processor lacks what it needs.
pub fn select(name: &str) -> bool {
    let found = ROUTINES.iter().position(|r| r.name == name && r.available());
    if let Some(i) = found {
        CHOSEN.store(i, Ordering::Relaxed);
    }
    found.is_some()
}

/// The result of one routine in [`measure`].
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Name of the routine.
    pub name: &'static str,
    /// True if it agreed with the portable one.
    pub passed: bool,
    /// Bytes per second over blocks of 512 bytes in the processor's cache.
    pub rate_512: f64,
    /// Bytes per second over blocks of 4096 bytes in the processor's cache.
    pub rate_4096: f64,
}

/// Tests and times every available routine: a few milliseconds each.
pub fn measure() -> Vec<Measured> {
    let data: Vec<u8> =
        (0..4096u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let lens = [0, 1, 3, 15, 63, 64, 65, 100, 255, 256, 404, 512, 1000, 4095, 4096];
    let measured = |routine: &Routine| Measured {
        name: routine.name,
        passed: lens.iter().all(|&n| routine.run(!0, &data[..n]) == table::run(!0, &data[..n])),
        rate_512: rate(routine, &data[..512]),
        rate_4096: rate(routine, &data),
    };
    ROUTINES.iter().filter(|routine| routine.available()).map(measured).collect()
}

/// Returns the bytes per second of a routine that sums the same block repeatedly.
fn rate(routine: &Routine, block: &[u8]) -> f64 {
    const ROUNDS: u32 = 200;
    let round = || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            black_box(routine.run(black_box(!0), black_box(block)));
        }
        start.elapsed()
    };
    // The best of several rounds: a disturbance only ever makes a measurement slower.
    let best = (0..10).map(|_| round()).min().unwrap_or(Duration::MAX);
    #[allow(clippy::cast_precision_loss)] // at most 4096 bytes
    let bytes = block.len() as f64 * f64::from(ROUNDS);
    bytes / best.as_secs_f64().max(1e-9)
}

/// Tests and times every routine ([`measure`]), selects the one that passed and is fastest at 512
/// bytes, and returns its name. The choice at the first checksum goes by the processor's features
/// alone and costs nothing.
pub fn fastest() -> &'static str {
    let best = measure()
        .into_iter()
        .filter(|m| m.passed)
        .max_by(|a, b| a.rate_512.total_cmp(&b.rate_512))
        .map_or("table", |m| m.name);
    select(best);
    best
}

#[cfg(test)]
mod tests {
    use xfskit_test_support::Random;

    use super::*;

    /// Returns bytes without a pattern, so that no mistake can hide.
    fn noise(len: usize) -> Vec<u8> {
        Random::of_test(1).bytes(len)
    }

    fn available() -> impl Iterator<Item = &'static Routine> {
        routines().iter().filter(|routine| routine.available())
    }

    #[test]
    fn every_routine_agrees_with_the_table_over_all_lengths_and_alignments() {
        let data = noise(4096 + 64);
        for routine in available() {
            for align in [0, 1, 4, 7, 8, 31, 63] {
                for len in 0..=4096 {
                    let bytes = &data[align..align + len];
                    let register = if len % 2 == 0 { !0 } else { 0x1234_5678 };
                    assert_eq!(
                        routine.run(register, bytes),
                        table::run(register, bytes),
                        "{}: {len} bytes at {align}",
                        routine.name
                    );
                }
            }
        }
    }

    #[test]
    fn every_routine_agrees_with_the_table_on_large_data() {
        let data = noise(300_001);
        for routine in available() {
            for len in [8191, 12_288, 12_289, 24_600, 65_536, 100_000, 300_001] {
                let bytes = &data[..len];
                assert_eq!(
                    routine.run(!0, bytes),
                    table::run(!0, bytes),
                    "{}: {len}",
                    routine.name
                );
            }
        }
    }

    #[test]
    fn a_checksum_in_pieces_equals_the_checksum_of_the_whole() {
        let data = noise(2000);
        let whole = table::run(!0, &data);
        for routine in available() {
            for cut in 0..=data.len() {
                let register = routine.run(!0, &data[..cut]);
                assert_eq!(routine.run(register, &data[cut..]), whole, "{} at {cut}", routine.name);
            }
        }
    }

    #[test]
    fn the_field_counts_as_zero_wherever_it_lies_and_whatever_it_holds() {
        let data = noise(20_000);
        for routine in available() {
            for (len, fields) in [(512, 0..509), (4096, 0..300), (20_000, 11_790..11_830)] {
                for field in fields {
                    let mut zeroed = data[..len].to_vec();
                    zeroed[field..field + CRC_LEN].fill(0);
                    assert_eq!(
                        routine.run_without(&data[..len], field),
                        Some(table::run(!0, &zeroed)),
                        "{}: {len} bytes, field at {field}",
                        routine.name
                    );
                }
            }
            assert_eq!(routine.run_without(&data[..512], 509), None);
            assert_eq!(routine.run_without(&data[..512], usize::MAX), None);
        }
    }

    #[test]
    fn the_portable_routine_can_be_selected_and_unknown_ones_cannot() {
        assert!(!select("abacus"));
        assert!(select("table"));
        assert_eq!(selected(), "table");
        let best = fastest();
        assert_eq!(selected(), best);
        assert!(measure().iter().all(|m| m.passed && m.rate_512 > 0.0 && m.rate_4096 > 0.0));
    }
}
