//! Another UUID for a volume that is there.
//!
//! Every metadata block carries the UUID of its volume. Writing all of them anew is not necessary: with
//! the feature META_UUID the superblock keeps what they carry in `meta_uuid`, and `uuid` is what the user
//! sees. Records of the journal carry `uuid`.
//!
//! Superblocks and journal must agree, but lie apart. A record without a UUID fits every volume, so:
//!
//! 1. the volume is opened and closed: everything is in place, and the journal clean;
//! 2. the journal is marked clean once more, by a record without a UUID;
//! 3. the superblocks change, the primary one last;
//! 4. the journal is marked clean by a record with the new UUID.
//!
//! Cut anywhere, the volume mounts with one of the two UUIDs, and doing it again mends the copies of the
//! superblock. Linux, which is only ever seen with a journal of one UUID, says "null uuid in log" between
//! 2 and 4, and mounts.

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_format::sb::{self, Superblock};
use xfskit_units::features::incompat;
use xfskit_units::{AgNumber, ByteOffset, Geometry, Uuid};
use zerocopy::IntoBytes;

use crate::error::Result;
use crate::options::OpenOptions;
use crate::recovery::open_log;
use crate::volume::Volume;

/// The UUID that a volume is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewUuid {
    /// This one.
    Is(Uuid),
    /// That with which it was made, which its metadata carries.
    Original,
}

/// Gives the volume on `dev` another UUID; answers that, and the one in its metadata.
/// [`OpenOptions::log_dev`] names an external journal.
///
/// # Errors
/// As [`Volume::open`] for writing, [`Error::Superblock`](crate::Error::Superblock) where one of the copies is damaged (nothing is
/// changed then), and where the device fails.
pub fn set_uuid(
    dev: &Arc<dyn BlockDevice>,
    options: &OpenOptions,
    uuid: NewUuid,
) -> Result<(Uuid, Uuid)> {
    let volume = Volume::open(Arc::clone(dev), &OpenOptions { write: true, ..options.clone() })?;
    let geo = volume.geo().clone();
    volume.close()?;
    let new = match uuid {
        NewUuid::Is(uuid) => uuid,
        NewUuid::Original => geo.meta_uuid,
    };
    let changed = |agno| Ok((agno, changed(&**dev, &geo, agno, new)?));
    let all = geo.ags().map(changed).collect::<Result<Vec<_>>>()?;
    let log_dev = options.log_dev.as_deref();
    open_log(&**dev, log_dev, &geo)?.mark_clean_as(Uuid::nil())?;
    for (agno, sector) in all.into_iter().rev() {
        dev.write_at(offset(&geo, agno), &sector)?;
    }
    dev.flush()?;
    open_log(&**dev, log_dev, &Geometry { uuid: new, ..geo.clone() })?.mark_clean()?;
    Ok((new, geo.meta_uuid))
}

/// The sector of the superblock of group `agno`, as it shall be.
fn changed(dev: &dyn BlockDevice, geo: &Geometry, agno: AgNumber, new: Uuid) -> Result<Vec<u8>> {
    let mut sector = vec![0; geo.sectsize()];
    dev.read_at(offset(geo, agno), &mut sector)?;
    let mut sb = Superblock::verify(&sector, agno)?.clone();
    let differs = new != geo.meta_uuid;
    let features = sb.features_incompat.get();
    let (features, meta_uuid) = if differs {
        (features | incompat::META_UUID, *geo.meta_uuid.as_bytes())
    } else {
        (features & !incompat::META_UUID, [0; 16])
    };
    (sb.uuid, sb.meta_uuid) = (*new.as_bytes(), meta_uuid);
    sb.features_incompat = features.into();
    if let Some(head) = sector.get_mut(..size_of::<Superblock>()) {
        head.copy_from_slice(sb.as_bytes());
    }
    xfskit_crc::update(&mut sector, sb::CRC_OFFSET);
    Superblock::verify(&sector, agno)?;
    Ok(sector)
}

/// Where the superblock of group `agno` lies.
fn offset(geo: &Geometry, agno: AgNumber) -> ByteOffset {
    geo.ag_header_daddr(agno, 0).byte_offset()
}
