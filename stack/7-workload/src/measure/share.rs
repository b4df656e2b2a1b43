//! Parts of a whole: shares of processor time, utilisation of devices.
//!
//! 1. A part is never larger than its whole. If a measurement says so, it is wrong: the row fails,
//!    and no figure is cut to 100 percent.
//! 2. A share of a time that is too short for its clock is no figure: [`of_time`] returns `None`.

use std::io;
use std::time::{Duration, Instant};

use xfskit_crc::meter::{self, Cost};

/// Processor time is exact for threads that do not run at the moment, and up to a timer tick late
/// for the others. Shares of less than ten ticks of 10 ms are no figures.
pub const TIME_MIN: Duration = Duration::from_millis(100);

/// Returns `part` in percent of `whole`; NaN if both are zero. `what` names the part.
///
/// # Errors
/// If the part is larger than its whole, or negative: the measurement is wrong.
pub fn percent_of(what: &str, part: f64, whole: f64) -> io::Result<f64> {
    if part == 0.0 && whole == 0.0 {
        return Ok(f64::NAN);
    }
    let percent = part * 100.0 / whole;
    if part >= 0.0 && part <= whole {
        return Ok(percent);
    }
    Err(io::Error::other(format!(
        "{what}: {percent:.1} % of the whole ({part:.6} of {whole:.6}). A part cannot be larger \
         than its whole: this measurement is wrong, and its figures are not reported"
    )))
}

/// Returns `part` in percent of `whole`, or `None` if `whole` is shorter than [`TIME_MIN`].
///
/// # Errors
/// As [`percent_of`].
pub fn of_time(what: &str, part: Duration, whole: Duration) -> io::Result<Option<f64>> {
    if whole < TIME_MIN {
        return Ok(None);
    }
    percent_of(what, part.as_secs_f64(), whole.as_secs_f64()).map(Some)
}

/// The meter of checksums, turned on until this is dropped.
#[derive(Debug)]
pub struct Metering {
    start: Instant,
    first: u64,
}

impl Metering {
    /// Turns the meter on.
    pub fn start() -> Self {
        meter::turn_on(true);
        Self { start: Instant::now(), first: meter::now() }
    }

    /// Returns the processor time of `cost`. The length of a cycle is that since the start.
    ///
    /// # Errors
    /// If no checksum ran without an interruption.
    #[allow(clippy::cast_precision_loss)] // of a measurement
    pub fn time(&self, cost: Cost) -> io::Result<Duration> {
        let (cycles, elapsed) = (meter::now().saturating_sub(self.first), self.start.elapsed());
        scaled_time(cost, cycles.max(1) as f64 / elapsed.as_secs_f64())
    }
}

impl Drop for Metering {
    fn drop(&mut self) {
        meter::turn_on(false);
    }
}

/// Returns the processor time of `cost` with this number of cycles per second.
fn scaled_time(cost: Cost, cycles_per_second: f64) -> io::Result<Duration> {
    let cycles = cost.scaled_cycles().ok_or_else(|| {
        io::Error::other("every checksum was interrupted: the time of checksums is not known")
    })?;
    Duration::try_from_secs_f64(cycles / cycles_per_second).map_err(io::Error::other)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // of values that are exact
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_larger_than_its_whole_is_an_error_and_not_a_figure() {
        assert_eq!(percent_of("a", 1.0, 4.0).unwrap(), 25.0);
        assert_eq!(percent_of("a", 4.0, 4.0).unwrap(), 100.0);
        assert!(percent_of("a", 0.0, 0.0).unwrap().is_nan());
        for (part, whole) in [(2.26, 2.0), (1.0, 0.0), (-1.0, 1.0), (f64::NAN, 1.0)] {
            let error = percent_of("checksums of create", part, whole).unwrap_err().to_string();
            assert!(error.contains("checksums of create"), "{error}");
        }
        let error = percent_of("m3", 5.13, 1.0).unwrap_err().to_string();
        assert!(error.starts_with("m3: 513.0 %"), "{error}");
    }

    #[test]
    fn a_share_of_a_time_that_is_too_short_is_no_figure() {
        let ms = Duration::from_millis;
        assert_eq!(of_time("a", ms(50), ms(200)).unwrap(), Some(25.0));
        assert_eq!(of_time("a", ms(50), ms(99)).unwrap(), None);
        assert!(of_time("a", ms(201), ms(200)).is_err());
    }

    #[test]
    fn cycles_are_converted_by_the_rate_of_the_counter() {
        let cost = Cost { cycles: 3_000_000, bytes: 1 << 20, sums: 256, ..Cost::default() };
        assert_eq!(scaled_time(cost, 3e9).unwrap(), Duration::from_millis(1));
        // Half of the bytes were interrupted: the other half stands for them.
        let half = Cost { interrupted_bytes: 1 << 19, interrupted_sums: 1, ..cost };
        assert_eq!(scaled_time(half, 3e9).unwrap(), Duration::from_millis(2));
        let none = Cost { interrupted_bytes: 1 << 20, interrupted_sums: 256, ..cost };
        assert!(scaled_time(none, 3e9).is_err());
    }
}
