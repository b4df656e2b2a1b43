//! Opening an assembly as a device.

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::{MemberSector, Sectors, SyncSector};

use super::{AssembledMember, Assembly, Error, Freshness, new_data_offset};
use crate::array::Array;
use crate::array::metadata::{ArrayMetadata, JOURNAL, MemberMetadata};
use crate::bad_blocks;
use crate::geometry::{Geometry, Slot};
use crate::layout::Level;
use crate::reshape::ReshapingDevice;
use crate::superblock::Reshape;

impl Assembly {
    /// Opens the array as a read-only device, also while it is reshaped.
    ///
    /// # Errors
    /// Returns an error if the array cannot run.
    pub fn open(&self) -> Result<Arc<dyn BlockDevice>, Error> {
        let array = self.open_array()?;
        let Some(reshaped) = &self.reshaped else { return Ok(Arc::new(array)) };
        let new = slots(self, &reshaped.geometry, Some(&reshaped.reshape))?;
        let new = Array::open(reshaped.geometry.clone(), new)?;
        let position = reshaped.reshape.position;
        let (first, second) = if reshaped.reshape.backwards { (array, new) } else { (new, array) };
        Ok(Arc::new(ReshapingDevice::new(first, second, position)))
    }

    /// Opens the array for writing. Its superblocks and bitmap are maintained as md maintains them.
    /// `now`, in seconds since 1970, is the update time that superblocks will carry. The caller has
    /// checked [`write_refusal`](Self::write_refusal).
    ///
    /// If the array was not shut down cleanly, the regions that its bitmap names are resynced
    /// first. Without a bitmap it stays dirty until [`Array::resync`] is called.
    ///
    /// # Errors
    /// Returns an error if the array cannot run, or the resync fails.
    pub fn open_writable(&self, now: u64) -> Result<Array, Error> {
        self.replayed()?.open_with_metadata(now)
    }

    /// Does what [`open_writable`](Self::open_writable) does, after logs were replayed.
    fn open_with_metadata(&self, now: u64) -> Result<Array, Error> {
        let array = self.open_members()?;
        if matches!(self.geometry.level(), Level::Linear | Level::Raid0) {
            return Ok(array); // nothing to be kept: there is no redundancy to lose
        }
        let kept = |role: usize| Some(self.member_metadata(role, &self.members[self.roles[role]?]));
        let journal = self.journal().map(|i| self.member_metadata(JOURNAL, &self.members[i]));
        let kept = (0..self.roles.len()).filter_map(kept).chain(journal).collect();
        let degraded = self.is_degraded();
        let bitmap = self.bitmap.clone();
        let mut metadata = ArrayMetadata::new(kept, bitmap, degraded, self.resync_from(), now)
            .with_replacements(self.replacements());
        let failed = |source| Error::Device { name: "the array".into(), source };
        let writer = self.journal_writer(now).map_err(failed)?;
        if writer.is_some() {
            metadata = metadata.journaled();
        }
        let mut array = array.with_metadata(metadata).map_err(failed)?.with_spares(self.spares());
        if self.has_partial_parity() {
            let logs = self.partial_parity_logs().map_err(failed)?;
            array = array.with_ppl(self.superblock().set_uuid(), logs);
        }
        if let Some(writer) = writer {
            array = array.with_journal(writer);
        }
        if self.bitmap.is_some() {
            array.resync(|_, _| true).map_err(failed)?;
        }
        Ok(array)
    }

    /// Returns a member's superblock, to be maintained from now on, with the role table of the
    /// newest superblock. A member may have missed the last change of the table in a crash.
    pub(super) fn member_metadata(&self, role: usize, member: &AssembledMember) -> MemberMetadata {
        let mut superblock = member.superblock.clone();
        superblock.take_table(self.superblock());
        MemberMetadata { role, device: Arc::clone(&member.device), superblock }
    }

    /// Returns where the resync of an array that was not shut down cleanly continues.
    fn resync_from(&self) -> Option<SyncSector> {
        if self.is_replayed || (self.is_forced && self.is_parity_untrusted()) {
            return None;
        }
        let all = self.bitmap_is_stale.then_some(SyncSector(0));
        let recorded = self.superblock().resync_offset().filter(|_| self.is_dirty());
        all.or(recorded)
    }

    /// Opens the array as its superblocks describe it, with its logs replayed (in memory if members
    /// are read-only). While the array is reshaped, only the part that is not reshaped yet is
    /// right.
    ///
    /// # Errors
    /// Returns an error if the array cannot run.
    pub fn open_array(&self) -> Result<Array, Error> {
        self.replayed()?.open_members()
    }

    /// Opens the array of the members as they are.
    pub(super) fn open_members(&self) -> Result<Array, Error> {
        let array = Array::open(self.geometry.clone(), slots(self, &self.geometry, None)?)?;
        Ok(match self.resync_from() {
            Some(from) => array.with_resync_from(from),
            None => array,
        })
    }
}

/// Returns the members in role order as `geometry` has them; with `reshape`, where they will be
/// when it is done.
fn slots(
    assembly: &Assembly,
    geometry: &Geometry,
    reshape: Option<&Reshape>,
) -> Result<Vec<Slot>, Error> {
    (0..)
        .zip(0..geometry.raid_disks())
        .map(|(role, _): (usize, u32)| {
            match assembly.roles.get(role).copied().flatten().map(|i| &assembly.members[i]) {
                None => Ok(Slot::missing()),
                Some(member) => {
                    let replacement = assembly.replacement(role)?;
                    Ok(Slot { replacement, ..slot(member, reshape)? })
                }
            }
        })
        .collect()
}

fn slot(member: &AssembledMember, reshape: Option<&Reshape>) -> Result<Slot, Error> {
    let sb = &member.superblock;
    let failed = |source| Error::Device { name: member.name.clone(), source };
    let bad_blocks = bad_blocks::read(&member.device, sb).map_err(failed)?;
    let offset = sb.data_offset();
    let moved = reshape.and_then(|reshape| new_data_offset(sb, reshape)).unwrap_or(offset);
    // Bad blocks are counted from where the data began before the reshape.
    let shift = |sector: MemberSector| {
        MemberSector(sector.0.saturating_add(offset.0).saturating_sub(moved.0))
    };
    let readable_until = match member.freshness {
        Freshness::Rebuilding { until, .. } => until,
        _ => Slot::ALL_READABLE,
    };
    // The data area grows by what lies before the data, and shrinks by what moves behind them.
    let data_size = Sectors(sb.data_size().0.saturating_add(offset.0).saturating_sub(moved.0));
    Ok(Slot {
        device: Some(Arc::clone(&member.device)),
        name: member.name.clone(),
        data_offset: moved,
        data_size,
        readable_until,
        bad_blocks: bad_blocks.iter().map(|range| shift(range.start)..shift(range.end)).collect(),
        write_mostly: sb.write_mostly(),
        by_bitmap: sb.recovers_by_bitmap(),
        replacement: None,
    })
}
