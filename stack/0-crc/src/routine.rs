//! The routines there are, and the choice among them.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::CRC_LEN;
#[cfg(target_arch = "aarch64")]
use crate::arm;
use crate::table;
#[cfg(target_arch = "x86_64")]
use crate::x86;

/// One way to compute the sum.
#[derive(Debug)]
pub struct Routine {
    /// What it is called: `table`, `sse4.2`, …
    pub name: &'static str,
    /// Asks the processor for what the kernel needs.
    detect: fn() -> bool,
    /// Continues the register (neither begun nor complemented) over the bytes. Called only after
    /// `detect` has said yes.
    kernel: fn(u32, &[u8]) -> u32,
    /// Moves a register over so many zero bytes, where it can do so in a moment.
    moved: fn(u32, usize) -> Option<u32>,
}

/// All routines, the best first. The portable one is last, and always there.
static ROUTINES: &[Routine] = &[
    #[cfg(target_arch = "x86_64")]
    Routine { name: "avx512", detect: x86::has_avx512, kernel: x86::avx512, moved: x86::moved },
    #[cfg(target_arch = "x86_64")]
    Routine { name: "sse4.2", detect: x86::has_sse42, kernel: x86::sse42, moved: x86::moved },
    #[cfg(target_arch = "aarch64")]
    Routine { name: "armv8-crc", detect: arm::has_crc, kernel: arm::crc, moved: arm::moved },
    Routine { name: "table", detect: || true, kernel: table::run, moved: |_, _| None },
    // Nobody's choice: in its place while sums are skipped, and the same for everything.
    Routine { name: "none", detect: || false, kernel: |_, _| !SKIPPED, moved: |_, _| None },
];

/// What stands in place of sums that are skipped. Not 0: in journal records that says that there is none.
const SKIPPED: u32 = 0x5eed_c0de;

/// Index of the routine in use; [`UNCHOSEN`] before the first sum.
static CHOSEN: AtomicUsize = AtomicUsize::new(UNCHOSEN);
const UNCHOSEN: usize = usize::MAX;

impl Routine {
    /// True where this processor has what the routine needs.
    pub fn available(&self) -> bool {
        (self.detect)()
    }

    /// Continues the register over the bytes. Only routines that are available get here.
    #[inline]
    pub(crate) fn run(&self, register: u32, data: &[u8]) -> u32 {
        (self.kernel)(register, data)
    }

    /// The register of `block`, which holds nothing but zeroes from byte `used` on: they are passed over where the routine can
    /// multiply so far.
    #[inline]
    pub(crate) fn run_padded(&self, block: &[u8], used: usize) -> u32 {
        let (head, zeroes) = block.split_at(used);
        let register = self.run(!0, head);
        (self.moved)(register, zeroes.len()).unwrap_or_else(|| self.run(register, zeroes))
    }

    /// The register of `block` as if the four bytes at `field` were zero. By linearity that is the
    /// block's own register less what the field adds to it: one pass, and a multiplication beside it.
    /// Where the routine cannot multiply so far, three pieces. `None` where the field does not fit.
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

/// The routine in use; the first call takes the best that the processor has.
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

/// All routines of this architecture, the best first, the portable one last.
pub fn routines() -> &'static [Routine] {
    &ROUTINES[..ROUTINES.len() - 1]
}

/// Puts nothing in place of the routine in use; answers which that was.
pub(crate) fn stop_summing() -> usize {
    chosen();
    CHOSEN.swap(ROUTINES.len() - 1, Ordering::Relaxed)
}

/// Uses that routine again.
pub(crate) fn sum_again(routine: usize) {
    CHOSEN.store(routine, Ordering::Relaxed);
}

/// The name of the routine in use.
pub fn selected() -> &'static str {
    chosen().name
}

/// Uses the routine called `name` from now on, in all threads. False, and nothing changes, where
/// there is none of that name or the processor lacks what it needs.
pub fn select(name: &str) -> bool {
    let found = ROUTINES.iter().position(|r| r.name == name && r.available());
    if let Some(i) = found {
        CHOSEN.store(i, Ordering::Relaxed);
    }
    found.is_some()
}

/// How a routine did in [`measure`].
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Which routine.
    pub name: &'static str,
    /// True where it agreed with the portable one.
    pub passed: bool,
    /// Bytes per second over blocks of 512 bytes in the processor's cache.
    pub rate_512: f64,
    /// The same over blocks of 4096 bytes.
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

/// Bytes per second of a routine over the same block again and again.
fn rate(routine: &Routine, block: &[u8]) -> f64 {
    const ROUNDS: u32 = 200;
    let round = || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            black_box(routine.run(black_box(!0), black_box(block)));
        }
        start.elapsed()
    };
    // The best of some: what disturbs a measurement only ever makes it slower.
    let best = (0..10).map(|_| round()).min().unwrap_or(Duration::MAX);
    #[allow(clippy::cast_precision_loss)] // at most 4096 bytes
    let bytes = block.len() as f64 * f64::from(ROUNDS);
    bytes / best.as_secs_f64().max(1e-9)
}

/// Tests and times every routine ([`measure`]), uses the fastest at 512 bytes that passed from now
/// on, and answers its name. The choice at the first sum goes by the processor's abilities alone and
/// costs nothing.
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
    use super::*;

    /// Bytes without a pattern that a mistake could hide in.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        (0..len).map(|_| next()).collect()
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
    fn a_sum_taken_in_pieces_is_the_sum_of_the_whole() {
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
