//! Sizes as users write them: `4096`, `20G`, `1.5TiB`, `100MB`.
//!
//! K, M, G, T, P and E are powers of 1024, as in mkfs.xfs, and so are KiB, MiB…; only KB, MB… are
//! powers of 1000.

use xfskit_units::ByteLen;

const UNITS: &str = "KMGTPE";

/// Why a size is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a number with one of the suffixes.
    #[error("`{0}` is not a size: expected a number with K, M, G, T, P or E (or KiB, KB, …)")]
    Malformed(String),
    /// More than 2^64 - 1 bytes.
    #[error("`{0}` is more than the 16 EiB that can be addressed")]
    TooLarge(String),
}

/// Parses a size.
///
/// # Errors
/// Returns an error if `text` is not a size, or exceeds 64 bits.
pub fn parse(text: &str) -> Result<ByteLen, Error> {
    let malformed = || Error::Malformed(text.into());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, suffix) = trimmed.split_at(split);
    let unit = unit(suffix.trim_start()).ok_or_else(malformed)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_point = number.contains('.');
    if whole.is_empty() || (has_point && (fraction.is_empty() || unit == 1)) {
        return Err(malformed());
    }
    let too_large = || Error::TooLarge(text.into());
    let digits = |s: &str| s.parse::<u128>().map_err(|_| too_large());
    let mut bytes = digits(whole)?.checked_mul(unit).ok_or_else(too_large)?;
    if has_point {
        if fraction.len() > 15 || fraction.contains('.') {
            return Err(malformed());
        }
        let scale = fraction.bytes().fold(1u128, |scale, _| scale * 10);
        bytes = bytes.saturating_add(digits(fraction)? * unit / scale);
    }
    u64::try_from(bytes).map(ByteLen).map_err(|_| too_large())
}

/// Returns the bytes that a suffix stands for.
fn unit(suffix: &str) -> Option<u128> {
    let mut letters = suffix.chars();
    let Some(first) = letters.next().map(|c| c.to_ascii_uppercase()) else { return Some(1) };
    let rest = letters.as_str().to_ascii_uppercase();
    if first == 'B' && rest.is_empty() {
        return Some(1);
    }
    let power = u32::try_from(UNITS.find(first)?).ok()? + 1;
    match rest.as_str() {
        "" | "IB" => Some(1024u128.pow(power)),
        "B" => Some(1000u128.pow(power)),
        _ => None,
    }
}

/// Formats a size for display: at most two decimals, rounded down, in powers of 1024: `20 GiB`,
/// `1.46 TiB`.
pub fn format(size: ByteLen) -> String {
    let power = (0..=6u32).rev().find(|p| size.0 >> (10 * p) > 0).unwrap_or(0);
    let Some(letter) = UNITS.chars().nth((power as usize).wrapping_sub(1)) else {
        return format!("{size} B");
    };
    let unit = 1u64 << (10 * power);
    let hundredths = u128::from(size.0 % unit) * 100 / u128::from(unit);
    let fraction = format!(".{hundredths:02}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{}{fraction} {letter}iB", size.0 / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_every_suffix() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512b", 512),
            ("1k", 1024),
            ("20G", 20 << 30),
            ("20GiB", 20 << 30),
            ("20 gib", 20 << 30),
            ("500T", 500 << 40),
            ("8E", 8 << 60),
            ("1.5m", 3 << 19),
            ("100MB", 100_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(ByteLen(bytes)), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in ["", "G", "-1", "1X", "1Gi", "1.5", "1.", ".5G", "1.2.3G", "0x10", "1 G G", "µ"]
        {
            assert_eq!(parse(text), Err(Error::Malformed(text.into())), "{text}");
        }
        for text in ["16E", "18446744073709551616", "99999999999999999999999999999999999999999P"] {
            assert_eq!(parse(text), Err(Error::TooLarge(text.into())), "{text}");
        }
    }

    #[test]
    fn sizes_print_short_and_read_back() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (20 << 30, "20 GiB"),
            (3 << 29, "1.5 GiB"),
            ((1 << 30) - 1, "1023.99 MiB"),
            (u64::MAX, "15.99 EiB"),
        ] {
            assert_eq!(format(ByteLen(bytes)), text);
            assert!(parse(text).is_ok());
        }
    }
}
