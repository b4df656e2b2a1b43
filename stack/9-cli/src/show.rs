//! Parses and formats numbers, modes, times and names.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::quote::moves_cursor;

/// Parses a size with the usual suffixes, for clap.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    xfskit::target::parse_size(text).map_err(|e| e.to_string())
}

/// Formats a size for people: `1.46 TiB`.
pub(crate) fn human(bytes: u64) -> String {
    xfskit::target::format_size(bytes)
}

/// Formats type and permissions as `ls -l` does.
pub(crate) fn mode(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o010_000 => 'p',
        0o020_000 => 'c',
        0o040_000 => 'd',
        0o060_000 => 'b',
        0o100_000 => '-',
        0o120_000 => 'l',
        0o140_000 => 's',
        _ => '?',
    };
    let mut text = String::from(kind);
    for (shift, special, (set, bare)) in
        [(6, 0o4000, ('s', 'S')), (3, 0o2000, ('s', 'S')), (0, 0o1000, ('t', 'T'))]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => set,
            (true, false) => bare,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Returns the name of a file type.
pub(crate) fn kind(mode: u32) -> &'static str {
    match mode & 0o170_000 {
        0o010_000 => "fifo",
        0o020_000 => "character special file",
        0o040_000 => "directory",
        0o060_000 => "block special file",
        0o100_000 => "regular file",
        0o120_000 => "symbolic link",
        0o140_000 => "socket",
        _ => "unknown",
    }
}

/// Converts a time to the local zone; `None` if no calendar has it.
fn zoned(sec: i64, nsec: u32) -> Option<Zoned> {
    let nsec = i32::try_from(nsec).ok()?;
    Some(Timestamp::new(sec, nsec).ok()?.to_zoned(TimeZone::system()))
}

/// Formats a time as `ls -l` does: with the hour within half a year of `now`, else with the year.
pub(crate) fn time_short(sec: i64, now: i64) -> String {
    const HALF_YEAR: i64 = 31_556_952 / 2;
    let Some(time) = zoned(sec, 0) else { return sec.to_string() };
    let recent = sec <= now && now.saturating_sub(sec) < HALF_YEAR;
    time.strftime(if recent { "%b %e %H:%M" } else { "%b %e  %Y" }).to_string()
}

/// Formats a time in full, to the nanosecond.
pub(crate) fn time_full(sec: i64, nsec: u32) -> String {
    zoned(sec, nsec).map_or_else(
        || format!("{sec}.{nsec:09}"),
        |time| time.strftime("%Y-%m-%d %H:%M:%S.%9f %z").to_string(),
    )
}

/// Formats a time as `mdadm` and `date` do in the C locale.
pub(crate) fn time_c(sec: i64) -> String {
    zoned(sec, 0)
        .map_or_else(|| sec.to_string(), |time| time.strftime("%a %b %e %H:%M:%S %Y").to_string())
}

/// Returns the present time in seconds since 1970.
pub(crate) fn now() -> i64 {
    Timestamp::now().as_second()
}

/// Formats a name or path for a line of text. Characters that confuse a terminal are escaped as in
/// C.
pub(crate) fn name(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if moves_cursor(c) || c == '\\' {
                let _ = write!(text, "{}", c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A name for JSON, flattened into its object: always text, and if the bytes are not UTF-8,
/// `KEY_bytes` beside it has them in base64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a>(pub &'static str, pub &'a [u8]);

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(key, bytes) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(key, &String::from_utf8_lossy(bytes))?;
        if std::str::from_utf8(bytes).is_err() {
            map.serialize_entry(&format!("{key}_bytes"), &base64(bytes))?;
        }
        map.end()
    }
}

/// Escapes characters that move the cursor of a terminal, except newlines and tabs.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if moves_cursor(c) && c != '\n' && c != '\t' {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Encodes bytes in base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_as_ls_shows_them() {
        assert_eq!(mode(0o040_755), "drwxr-xr-x");
        assert_eq!(mode(0o104_755), "-rwsr-xr-x");
        assert_eq!(mode(0o102_644), "-rw-r-Sr--");
        assert_eq!(mode(0o041_777), "drwxrwxrwt");
        assert_eq!(mode(0o120_777), "lrwxrwxrwx");
    }

    #[test]
    fn a_name_for_json_is_text_with_its_bytes_beside_it_where_it_has_to() {
        let json = |bytes| serde_json::to_string(&Named("path", bytes)).unwrap();
        assert_eq!(json(b"/a"), r#"{"path":"/a"}"#);
        assert_eq!(json(b"/\xff"), "{\"path\":\"/\u{fffd}\",\"path_bytes\":\"L/8=\"}");
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(name(b"plain \xc3\xa4"), "plain \u{e4}");
        assert_eq!(name(b"a\nb\x1b[2J\xff\\"), "a\\nb\\u{1b}[2J\\xff\\\\");
    }
}
