//! Changes of the superblock: quota flags, the ATTR bit, counters, the label.

use std::mem::offset_of;

use xfskit_format::sb::{self, Superblock};
use xfskit_format::{Ctx, Image, VerifyResult};
use xfskit_trans::Held;
use xfskit_units::AgNumber;
use xfskit_units::features::VersionNum;
use zerocopy::big_endian::{U16, U64};

use crate::error::{Error, Result};
use crate::volume::Volume;

/// Longest label in bytes.
const LABEL_MAX: usize = 12;

/// Clears the quota-checked flags in the superblock, before the first change. Quota is not counted
/// here. As after a mount of Linux without quota, the next mount with quota counts anew.
///
/// # Errors
/// As [`Volume::transact`].
pub(crate) fn reset_quota(volume: &Volume) -> Result<()> {
    if volume.superblock().qflags.get() == 0 {
        return Ok(());
    }
    edit_superblock(volume, |image| image.put(offset_of!(Superblock, qflags), &U16::new(0)))
}

/// Sets the ATTR bit in the superblock, in a transaction before the one that makes the first
/// attribute. Linux' online check calls every attribute fork of a volume without that bit corrupt.
///
/// # Errors
/// As [`Volume::transact`].
pub(crate) fn set_attr_bit(volume: &Volume) -> Result<()> {
    let with_bit = U16::new(volume.superblock().versionnum.get() | VersionNum::ATTR.bits());
    edit_superblock(volume, |image| image.put(offset_of!(Superblock, versionnum), &with_bit))
}

/// Writes the superblock's current counters.
///
/// # Errors
/// As [`Volume::transact`].
pub(crate) fn log_counters(volume: &Volume) -> Result<()> {
    let engine = volume.engine()?;
    engine.commit_parked();
    let now = engine.counters().get();
    let counter = |value: i64| U64::new(u64::try_from(value).unwrap_or(0));
    edit_superblock(volume, |image| {
        image.put(offset_of!(Superblock, icount), &counter(now.icount));
        image.put(offset_of!(Superblock, ifree), &counter(now.ifree));
        image.put(offset_of!(Superblock, fdblocks), &counter(now.fdblocks));
    })
}

impl Volume {
    /// Returns true if the superblock has the ATTR bit.
    pub(crate) fn has_attr_bit(&self) -> bool {
        self.space().versionnum().contains(VersionNum::ATTR)
    }

    /// Returns the current label.
    pub fn label(&self) -> Vec<u8> {
        let fname = self.superblock().fname;
        fname.split(|&b| b == 0).next().unwrap_or_default().to_vec()
    }

    /// Updates [`Volume::superblock`] from the buffer cache.
    fn reread_superblock(&self) -> Result<()> {
        let place = sb::location(self.geo(), AgNumber(0));
        let buf = self.read_buf(place, &|bytes, _| verify(bytes, AgNumber(0)))?;
        if let Some(sb) = Superblock::parse(&buf) {
            self.space().set_superblock(sb.clone());
        }
        Ok(())
    }

    /// Sets the label, at most 12 bytes, in all superblocks.
    ///
    /// # Errors
    /// [`Error::Limit`] for a longer one or one with zeroes in it, and as [`Volume::transact`].
    pub fn set_label(&self, label: &[u8]) -> Result<()> {
        let mut fname = [0; LABEL_MAX];
        match fname.get_mut(..label.len()) {
            Some(room) if !label.contains(&0) => room.copy_from_slice(label),
            _ => return Err(Error::Limit("a label has at most 12 bytes, none of them zero")),
        }
        for agno in self.geo().ags() {
            edit_superblock_of(self, agno, |image| {
                image.put(offset_of!(Superblock, fname), &fname);
            })?;
        }
        Ok(())
    }
}

/// Changes the primary superblock in a transaction of its own.
pub(crate) fn edit_superblock(volume: &Volume, edit: impl Fn(&mut Held<'_, '_>)) -> Result<()> {
    edit_superblock_of(volume, AgNumber(0), edit)
}

/// Changes the superblock copy in group `agno` in a transaction of its own.
fn edit_superblock_of(
    volume: &Volume,
    agno: AgNumber,
    edit: impl Fn(&mut Held<'_, '_>),
) -> Result<()> {
    // A superblock has no rank in the lock order: a thread that waits for one holds nothing else,
    // and releases it at once.
    let engine = volume.engine()?;
    engine.commit_parked();
    volume.transact(|tx| {
        let verify = |bytes: &[u8], _: &Ctx<'_>| verify(bytes, agno);
        let handle = tx.read_buf(sb::location(volume.geo(), agno), &verify)?;
        edit(&mut tx.image(handle));
        Ok(())
    })?;
    engine.commit_parked();
    if agno == AgNumber(0) {
        volume.reread_superblock()?;
    }
    Ok(())
}

/// Verifies the superblock of group `agno`, as a metadata block.
fn verify(bytes: &[u8], agno: AgNumber) -> VerifyResult {
    Superblock::verify(bytes, agno).map(drop).map_err(|error| error.corruption())
}
