//! Writes a [`Plan`] to a device.
//!
//! 1. Existing contents are recognised, and without `force` left alone.
//! 2. Both ends of the device are zeroed, because old signatures are there. The log is zeroed and
//!    seeded.
//! 3. Every group is written: headers and roots in one buffer, many buffers in one batch. The
//!    primary superblock has "in progress" set.
//! 4. The first inodes are written.
//! 5. A flush; then the primary superblock without "in progress", and another flush. An unfinished
//!    volume cannot be mistaken for a finished one.

use std::borrow::Borrow;

use xfskit_block::BlockDevice;
use xfskit_format::log::seed_record;
use xfskit_units::{AgNumber, ByteLen, ByteOffset, Daddr, Geometry};

use crate::error::Error;
use crate::existing;
use crate::geometry::Plan;
use crate::group::{self, Group, Totals};
use crate::inodes;

/// Bytes zeroed at both ends of the device.
const WIPE: u64 = 128 * 1024;
/// Maximum number of bytes of groups that are written in one batch.
const BATCH: usize = 4 << 20;

/// Makes the volume `plan` on `data`, and its log on `log` if the plan has an external one.
///
/// # Errors
/// [`Error::Occupied`] if the device has contents and the plan does not force;
/// [`Error::LogDevice`]; [`Error::Device`], after which the device holds an unfinished volume.
pub fn make(
    data: &dyn BlockDevice,
    log: Option<&dyn BlockDevice>,
    plan: &Plan,
) -> Result<(), Error> {
    let geo = &plan.geometry;
    let totals = Totals::of(plan);
    begin(data, log, plan, &totals)?;
    write_groups(data, plan, &totals, geo.ags().map(|agno| Group::empty(geo, agno)))?;
    write_inodes(data, plan)?;
    finish(data, plan, &totals)
}

/// Does the first part of [`make`]: erases old signatures, writes the log, and writes the primary
/// superblock with "in progress" set. A caller that fills the volume does so between this and
/// [`finish`].
///
/// # Errors
/// As [`make`].
pub fn begin(
    data: &dyn BlockDevice,
    log: Option<&dyn BlockDevice>,
    plan: &Plan,
    totals: &Totals,
) -> Result<(), Error> {
    let geo = &plan.geometry;
    if data.size() < geo.data_bytes() {
        return Err(Error::Device(xfskit_block::Error::BeyondEnd {
            op: "write",
            offset: ByteOffset(0),
            len: geo.data_bytes(),
            size: data.size(),
        }));
    }
    if let Some(what) = existing::find(data)?.filter(|_| !plan.force) {
        return Err(Error::Occupied { what });
    }
    existing::wipe_old_superblocks(data)?;
    if plan.discard {
        data.discard(ByteOffset(0), data.size())?;
    }
    zero_ends(data)?;
    write_log(data, log, geo)?;
    data.write_at(ByteOffset(0), &group::superblock(plan, AgNumber(0), totals, true))?;
    Ok(())
}

/// Does the last part of [`make`]: makes all that was written durable, then writes the primary
/// superblock without "in progress".
///
/// # Errors
/// [`Error::Device`].
pub fn finish(data: &dyn BlockDevice, plan: &Plan, totals: &Totals) -> Result<(), Error> {
    data.flush()?;
    data.write_at(ByteOffset(0), &group::superblock(plan, AgNumber(0), totals, false))?;
    data.flush()?;
    Ok(())
}

fn zero_ends(data: &dyn BlockDevice) -> Result<(), Error> {
    let size = data.size().0;
    let len = WIPE.min(size);
    data.write_zeroes(ByteOffset(0), ByteLen(len))?;
    data.write_zeroes(ByteOffset(size - len), ByteLen(len))?;
    Ok(())
}

fn write_log(
    data: &dyn BlockDevice,
    external: Option<&dyn BlockDevice>,
    geo: &Geometry,
) -> Result<(), Error> {
    let (device, at) = match (geo.log_daddr(), external) {
        (Some(at), _) => (data, at),
        (None, Some(device)) => (device, Daddr(0)),
        (None, None) => return Err(Error::LogDevice),
    };
    let len = ByteLen(u64::from(geo.logblocks) << geo.blocklog);
    if external.is_some() && device.size() < len {
        return Err(Error::LogDevice);
    }
    device.write_zeroes(at.byte_offset(), len)?;
    device.write_at(at.byte_offset(), &seed_record(geo.uuid, geo.logsunit, true))?;
    // On the data device it becomes durable with everything else.
    if geo.log_daddr().is_none() {
        device.flush()?;
    }
    Ok(())
}

/// Writes headers and trees of all `groups`, consecutive blocks in one piece.
///
/// # Errors
/// [`Error::Device`].
pub fn write_groups(
    data: &dyn BlockDevice,
    plan: &Plan,
    totals: &Totals,
    groups: impl Iterator<Item = impl Borrow<Group>>,
) -> Result<(), Error> {
    let geo = &plan.geometry;
    let mut pending: Vec<(ByteOffset, Vec<u8>)> = Vec::new();
    let mut bytes = 0;
    for group in groups {
        let group = group.borrow();
        for (agbno, block) in group.blocks(plan, totals) {
            let at = geo.agb_to_daddr(group.agno, agbno).byte_offset();
            bytes += block.len();
            match pending.last_mut() {
                Some((start, image)) if start.0 + image.len() as u64 == at.0 => image.extend(block),
                _ => pending.push((at, block)),
            }
        }
        if bytes >= BATCH {
            write_pending(data, &mut pending)?;
            bytes = 0;
        }
    }
    write_pending(data, &mut pending)
}

fn write_pending(
    data: &dyn BlockDevice,
    pending: &mut Vec<(ByteOffset, Vec<u8>)>,
) -> Result<(), Error> {
    let batch: Vec<_> = pending.iter().map(|(at, image)| (*at, image.as_slice())).collect();
    data.write_batch(&batch).into_iter().collect::<Result<(), _>>()?;
    pending.clear();
    Ok(())
}

fn write_inodes(data: &dyn BlockDevice, plan: &Plan) -> Result<(), Error> {
    if let Some(at) = plan.geometry.ino_to_byte(plan.geometry.rootino) {
        data.write_at(at, &inodes::first_chunk(plan))?;
    }
    Ok(())
}
