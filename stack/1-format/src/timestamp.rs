//! Points in time, in the two encodings that inodes use.
//!
//! The older one is 32-bit signed seconds and 32-bit nanoseconds. *Bigtime* counts nanoseconds in
//! 64 bits from the earliest second the older one can express, 1901-12-13T20:45:52Z, and so
//! reaches 2486-07-02. Each inode says which one it uses.

use serde::Serialize;

/// Nanoseconds in a second.
pub const NSEC_PER_SEC: u32 = 1_000_000_000;
/// Earliest second of both encodings, counted from 1970.
pub const SEC_MIN: i64 = -(1 << 31);
/// Last second of the older encoding.
pub const SEC_MAX_LEGACY: i64 = (1 << 31) - 1;
/// Last second of bigtime.
pub const SEC_MAX_BIGTIME: i64 = 16_299_260_424;

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z, as POSIX counts them.
    pub sec: i64,
    /// Nanoseconds into that second. Below 10^9, unless an older encoding on disk holds an invalid
    /// number.
    pub nsec: u32,
}

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self { sec: 0, nsec: 0 };

    /// Returns the year, the month and the day, both from 1, in UTC.
    #[allow(clippy::arithmetic_side_effects)] // days are far below the limits of 64 bits
    pub fn date(self) -> (i64, u8, u8) {
        // Years begin in March, so that the leap day is the last.
        let days = self.sec.div_euclid(86_400) + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = (from_march + 2) % 12 + 1;
        let year = era * 400 + year_of_era + i64::from(month < 3);
        (year, u8::try_from(month).unwrap_or(0), u8::try_from(day).unwrap_or(0))
    }

    /// Reads the older encoding: seconds in the high half of `raw`, nanoseconds in the low half.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // halves of the word
    pub const fn from_legacy(raw: u64) -> Self {
        Self { sec: (raw >> 32) as u32 as i32 as i64, nsec: raw as u32 }
    }

    /// Reads bigtime. The quotient is below 2^35, so nothing can overflow.
    #[allow(clippy::arithmetic_side_effects)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
    pub const fn from_bigtime(raw: u64) -> Self {
        let nsec_per_sec = NSEC_PER_SEC as u64;
        Self { sec: (raw / nsec_per_sec) as i64 + SEC_MIN, nsec: (raw % nsec_per_sec) as u32 }
    }

    /// Returns the older encoding; times it cannot express become the nearest one it can.
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)] // clamped to 32 bits
    pub fn to_legacy(self) -> u64 {
        let (sec, nsec) = self.clamped(SEC_MAX_LEGACY);
        (u64::from(sec as i32 as u32) << 32) | u64::from(nsec)
    }

    /// Returns bigtime; times it cannot express become the nearest one it can.
    pub fn to_bigtime(self) -> u64 {
        let (sec, nsec) = self.clamped(SEC_MAX_BIGTIME);
        let sec = sec.saturating_sub(SEC_MIN);
        sec.unsigned_abs().saturating_mul(NSEC_PER_SEC.into()).saturating_add(nsec.into())
    }

    /// Returns the seconds and nanoseconds of the nearest time of an encoding whose last second is
    /// `max`. As in Linux, the nearest to a time beyond has no nanoseconds.
    fn clamped(self, max: i64) -> (i64, u32) {
        let sec = self.sec.clamp(SEC_MIN, max);
        let nsec = if sec == self.sec { self.nsec.min(NSEC_PER_SEC.saturating_sub(1)) } else { 0 };
        (sec, nsec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bigtime_agrees_with_what_linux_wrote() {
        let then = Timestamp { sec: 4_102_542_245, nsec: 123_456_789 };
        assert_eq!(Timestamp::from_bigtime(0x56bc_8d6f_8c9d_ff15), then);
        assert_eq!(then.to_bigtime(), 0x56bc_8d6f_8c9d_ff15);
        assert_eq!(Timestamp::from_bigtime(0), Timestamp { sec: SEC_MIN, nsec: 0 });
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = |sec| Timestamp { sec, nsec: 0 }.date();
        assert_eq!(date(951_782_400), (2000, 2, 29));
        assert_eq!(date(951_868_800), (2000, 3, 1));
        assert_eq!(date(SEC_MIN), (1901, 12, 13));
        assert_eq!(date(SEC_MAX_BIGTIME), (2486, 7, 2));
    }

    #[test]
    fn both_encodings_keep_what_they_can_express() {
        for (sec, nsec) in [(SEC_MIN, 0), (-1, 999_999_999), (0, 1), (SEC_MAX_LEGACY, 5)] {
            let time = Timestamp { sec, nsec };
            assert_eq!(Timestamp::from_legacy(time.to_legacy()), time);
            assert_eq!(Timestamp::from_bigtime(time.to_bigtime()), time);
        }
    }

    #[test]
    fn times_out_of_range_become_the_nearest_one_within() {
        let (past, future) =
            (Timestamp { sec: i64::MIN, nsec: 5 }, Timestamp { sec: i64::MAX, nsec: 7 });
        assert_eq!(past.to_bigtime(), 0);
        assert_eq!(Timestamp::from_legacy(past.to_legacy()).sec, SEC_MIN);
        assert_eq!(Timestamp::from_legacy(future.to_legacy()).sec, SEC_MAX_LEGACY);
        let nearest = Timestamp { sec: SEC_MAX_BIGTIME, nsec: 0 };
        assert_eq!(Timestamp::from_bigtime(future.to_bigtime()), nearest);
    }
}
