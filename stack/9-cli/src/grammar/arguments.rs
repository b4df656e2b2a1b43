//! Parses owners, times and UUIDs of the command line.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Zoned;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use xfskit::{NewUuid, Uuid};

/// `UID:GID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (uid, gid) = text.split_once(':').ok_or("two numbers are needed: UID:GID")?;
        Ok(Self { uid: id(uid)?, gid: id(gid)? })
    }
}

/// `UID`, `:GID` or `UID:GID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerChange {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

impl FromStr for OwnerChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (uid, gid) = text.split_once(':').unwrap_or((text, ""));
        let some = |word: &str| (!word.is_empty()).then(|| id(word)).transpose();
        let change = Self { uid: some(uid)?, gid: some(gid)? };
        if change.uid.is_none() && change.gid.is_none() {
            return Err("a number is needed: UID, UID:GID or :GID".into());
        }
        Ok(change)
    }
}

/// Parses the number of a user or group; all ones is none.
fn id(word: &str) -> Result<u32, String> {
    let id = word.parse().ok().filter(|&id| id != u32::MAX);
    id.ok_or_else(|| format!("{word:?} is not the number of a user or group"))
}

/// Parses a UUID, or one of the words of `xfs_admin -U`.
pub(crate) fn uuid(text: &str) -> Result<NewUuid, String> {
    Ok(match text {
        "generate" => NewUuid::Is(Uuid::new_v4()),
        "nil" => NewUuid::Is(Uuid::nil()),
        "restore" => NewUuid::Original,
        text => NewUuid::Is(Uuid::parse_str(text).map_err(|e| e.to_string())?),
    })
}

/// Parses `@SECONDS`, a date, or a date and time, with or without a zone.
pub(crate) fn time(text: &str) -> Result<SystemTime, String> {
    if let Some(seconds) = text.strip_prefix('@') {
        return since_1970(seconds)
            .ok_or_else(|| format!("{seconds:?} is not a number of seconds since 1970"));
    }
    let zoned = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let time = text.parse::<DateTime>().ok();
        let midnight = || Some(text.parse::<Date>().ok()?.at(0, 0, 0, 0));
        let zoned: Zoned = time.or_else(midnight)?.to_zoned(TimeZone::system()).ok()?;
        Some(zoned.timestamp())
    });
    let time = zoned.ok_or("write for example 2024-02-29, 2024-02-29T12:00:00Z or @1709208000")?;
    Ok(time.into())
}

/// Parses `-1.5` and the like, to the nanosecond.
fn since_1970(text: &str) -> Option<SystemTime> {
    let (is_before, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if fraction.len() > 9 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanoseconds = format!("{fraction:0<9}").parse().ok()?;
    let distance = Duration::new(whole.parse().ok()?, nanoseconds);
    if is_before { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        let after = |sec, nsec| Ok(UNIX_EPOCH + Duration::new(sec, nsec));
        let before = |sec, nsec| Ok(UNIX_EPOCH - Duration::new(sec, nsec));
        assert_eq!(time("@12"), after(12, 0));
        assert_eq!(time("@1.5"), after(1, 500_000_000));
        assert_eq!(time("@-1.25"), before(1, 250_000_000));
        assert_eq!(time("1970-01-02T00:00:00.000000001Z"), after(86_400, 1));
        assert_eq!(time("1969-12-31T23:59:59.5Z"), before(0, 500_000_000));
        assert!(time("2024-02-29").is_ok() && time("2024-02-29 12:00").is_ok());
        assert!(time("@").is_err() && time("@1.x").is_err() && time("soon").is_err());
    }

    #[test]
    fn owners_are_numbers() {
        assert_eq!("1:2".parse(), Ok(Owner { uid: 1, gid: 2 }));
        assert_eq!(":2".parse(), Ok(OwnerChange { uid: None, gid: Some(2) }));
        assert_eq!("1".parse(), Ok(OwnerChange { uid: Some(1), gid: None }));
        assert!(":".parse::<OwnerChange>().is_err() && "jane".parse::<OwnerChange>().is_err());
        assert!("1".parse::<Owner>().is_err() && "4294967295:0".parse::<Owner>().is_err());
    }
}
