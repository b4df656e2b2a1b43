//! Times as programs have them, and as the disk has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xfskit_vfs::Timestamp;

const NSEC_PER_SEC: u32 = 1_000_000_000;

/// Returns `time` in the form of the disk, at most as far from 1970 as that can express.
pub(crate) fn timestamp(time: SystemTime) -> Timestamp {
    let secs = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { sec: secs(since), nsec: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let (sec, nsec) = (secs(before), before.subsec_nanos());
            match nsec {
                0 => Timestamp { sec: -sec, nsec },
                _ => Timestamp { sec: -sec - 1, nsec: NSEC_PER_SEC - nsec },
            }
        }
    }
}

/// Returns `time` in the form of the standard library. Where that cannot express it, 1970.
pub(crate) fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.sec.unsigned_abs());
    let start =
        if time.sec < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    let part = Duration::from_nanos(time.nsec.into());
    start.and_then(|start| start.checked_add(part)).unwrap_or(UNIX_EPOCH)
}
