//! Changes the UUID of an existing volume.
//!
//! Every metadata block carries the UUID of its volume. They need not be rewritten: with the
//! feature META_UUID the superblock keeps the UUID of the metadata in `meta_uuid`, and `uuid` is
//! the one that users see. Records of the journal carry `uuid`.
//!
//! Superblocks and journal must agree, but cannot be written together. A record without a UUID fits
//! every volume. The steps are therefore:
//!
//! 1. the volume is opened and closed: everything is in place, and the journal clean;
//! 2. the journal is marked clean once more, by a record without a UUID;
//! 3. the superblocks change, the primary one last;
//! 4. the journal is marked clean by a record with the new UUID.
//!
//! After an interruption at any step the volume mounts with one of the two UUIDs. Repeating the
//! change repairs the copies of the superblock. Linux only ever writes a journal of one UUID.
//! Between steps 2 and 4 it logs "null uuid in log", and mounts.

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_format::sb::{self, Superblock};
use xfskit_recovery::open_log;
use xfskit_units::features::Incompat;
use xfskit_units::{AgNumber, ByteOffset, Geometry, Uuid};
use zerocopy::IntoBytes;

use crate::error::Result;
use crate::options::OpenOptions;
use crate::volume::Volume;

/// The UUID that a volume is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewUuid {
    /// The given UUID.
    Is(Uuid),
    /// The UUID that the volume was made with, which its metadata carries.
    Original,
}

/// Changes the UUID of the volume on `dev`. Returns the volume's UUID and its metadata UUID.
/// [`OpenOptions::log_dev`] names an external journal.
///
/// # Errors
/// As [`Volume::open`] for writing; [`Error::Superblock`](crate::Error::Superblock) if one of the
/// copies is damaged, in which case nothing is changed; and errors of the device.
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

/// Returns the changed sector of the superblock of group `agno`.
fn changed(dev: &dyn BlockDevice, geo: &Geometry, agno: AgNumber, new: Uuid) -> Result<Vec<u8>> {
    let mut sector = vec![0; geo.sectsize()];
    dev.read_at(offset(geo, agno), &mut sector)?;
    let mut sb = Superblock::verify(&sector, agno)?.clone();
    let differs = new != geo.meta_uuid;
    let features = Incompat::from_bits_retain(sb.features_incompat.get());
    let (features, meta_uuid) = if differs {
        (features | Incompat::META_UUID, *geo.meta_uuid.as_bytes())
    } else {
        (features - Incompat::META_UUID, [0; 16])
    };
    (sb.uuid, sb.meta_uuid) = (*new.as_bytes(), meta_uuid);
    sb.features_incompat = features.bits().into();
    if let Some(head) = sector.get_mut(..size_of::<Superblock>()) {
        head.copy_from_slice(sb.as_bytes());
    }
    xfskit_crc::update(&mut sector, sb::CRC_OFFSET);
    Superblock::verify(&sector, agno)?;
    Ok(sector)
}

/// Returns the device offset of the superblock of group `agno`.
fn offset(geo: &Geometry, agno: AgNumber) -> ByteOffset {
    geo.ag_header_daddr(agno, 0).byte_offset()
}
