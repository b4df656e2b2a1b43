//! Fingerprints: what a device is, and its state. An overlay records both for each device that it
//! is made on.
//!
//! | device | identity | state |
//! | --- | --- | --- |
//! | member of an array | UUIDs of array and member | events, and when they were last counted |
//! | XFS volume | its UUID | checksum of the superblock's sector, and the journal's head |
//! | disk with parts | those of each part that is an XFS volume | those of each part |
//! | anything else | none | checksum of its first 64 KiB |
//!
//! The journal's head moves with every change that Linux or xfskit makes to a volume.

use std::sync::Arc;

use uuid::Uuid;
use xfskit_block::{BlockDevice, WindowDevice, cow::Fingerprint};
use xfskit_format::sb::Superblock;
use xfskit_log::Log;
use xfskit_md::superblock::{self, hex};
use xfskit_units::{AgNumber, ByteLen, ByteOffset, index};

use crate::discover::discover;
use crate::partition::has_xfs_magic;

/// Bytes of an otherwise unknown device that make its state.
const START: u64 = 64 << 10;

/// Bytes of the largest superblock's sector.
const SECTOR_MAX: u64 = 32768;

/// Volumes of a disk that are examined.
const PARTS_MAX: usize = 8;

/// Returns the fingerprint of `device`. What cannot be read counts as empty.
pub(crate) fn of(device: &Arc<dyn BlockDevice>) -> Fingerprint {
    // The order matters: a member of a mirror also has an XFS superblock.
    if let Ok(Some(found)) = superblock::read(&**device)
        && found.corruption.is_none()
    {
        return of_member(&found.superblock);
    }
    let volumes: Vec<Fingerprint> = if has_xfs_magic(&**device, ByteOffset(0)) {
        of_volume(&**device).into_iter().collect()
    } else {
        let parts = discover(&**device).into_iter().filter(|part| part.xfs).take(PARTS_MAX);
        parts
            .filter_map(|part| {
                of_volume(&WindowDevice::new(Arc::clone(device), part.offset, part.len).ok()?)
            })
            .collect()
    };
    if volumes.is_empty() {
        return of_start(&**device);
    }
    let all =
        |text: fn(&Fingerprint) -> &str| volumes.iter().map(text).collect::<Vec<_>>().join(" and ");
    Fingerprint { identity: all(|v| &v.identity), state: all(|v| &v.state) }
}

fn of_member(sb: &superblock::Superblock) -> Fingerprint {
    let own = sb.device_uuid().map_or_else(|| sb.dev_number().to_string(), hex);
    Fingerprint {
        identity: format!("member {own} of array {}", hex(sb.set_uuid())),
        state: format!("{} events, {:?}", sb.events(), sb.utime()),
    }
}

/// Returns `None` if the superblock is invalid.
fn of_volume(device: &dyn BlockDevice) -> Option<Fingerprint> {
    let mut start = vec![0; index(device.size().0.min(SECTOR_MAX))];
    device.read_at(ByteOffset(0), &mut start).ok()?;
    let sectsize = usize::from(Superblock::parse(&start)?.sectsize.get());
    let sector = start.get(..sectsize)?;
    let sb = Superblock::verify(sector, AgNumber(0)).ok()?;
    let geo = sb.check_readable().ok().map(|()| sb.geometry())?;
    let head = geo.log_daddr().map(|start| {
        let log = Log::open(device, start, &geo);
        log.map_or_else(|_| "unreadable".to_owned(), |log| log.head().to_string())
    });
    let head = head.unwrap_or_else(|| "elsewhere".into());
    Some(Fingerprint {
        identity: format!("XFS volume {}", Uuid::from_bytes(sb.uuid)),
        state: format!("superblock {:#010x}, journal at {head}", crc32fast::hash(sector)),
    })
}

fn of_start(device: &dyn BlockDevice) -> Fingerprint {
    let ByteLen(size) = device.size();
    let mut start = vec![0; index(size.min(START))];
    let read = device.read_at(ByteOffset(0), &mut start);
    let state = match read {
        Ok(()) => format!("first bytes {:#010x}", crc32fast::hash(&start)),
        Err(_) => "unreadable".into(),
    };
    Fingerprint { identity: String::new(), state }
}
