//! The owner that a block of a fork names in its header.

use xfskit_format::bytes;
use xfskit_format::log::Stamp;
use xfskit_units::{Daddr, Geometry};

/// Byte of the UUID in a block of an attribute's value.
const REMOTE_UUID: usize = 16;

/// Returns the inode that `block` names as its owner, if it is a block of this volume that names
/// `at` as its own place.
pub(crate) fn owner(geo: &Geometry, block: &[u8], at: Daddr) -> Option<u64> {
    let remote = block.starts_with(b"XARM");
    let (uuid, behind) = match Stamp::of(block, geo) {
        Some(stamp) => (stamp.uuid, stamp.lsn > stamp.uuid),
        None if remote => (REMOTE_UUID, true),
        None => return None,
    };
    let owner = uuid.checked_add(16)?;
    // The place is behind the owner in blocks of values and links, else before LSN and UUID.
    let place = if behind { owner.checked_add(8)? } else { uuid.checked_sub(16)? };
    let own = bytes::array(block, uuid) == Some(*geo.meta_uuid.as_bytes())
        && bytes::be64(block, place) == Some(at.0);
    bytes::be64(block, owner).filter(|_| own)
}
