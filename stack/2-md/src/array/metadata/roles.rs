//! Roles of the members: devices are added, removed, rebuilt and replaced, and all members record
//! it.
//!
//! The superblocks of all members carry the same role table. A change of the table raises `events`,
//! so that a member that misses the change is stale. Events never fall back over such a change.
//! Only version 1 superblocks support these changes: the table of 0.90 has no field for the
//! progress of a rebuild.

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::{MemberSector, SyncSector, index};
use zerocopy::little_endian::U16;

use super::{ArrayMetadata, Failures, MemberMetadata, State};
use crate::bitmap::Bitmap;
use crate::superblock::Superblock;
use crate::superblock::v1::{FeatureMap, ROLE_SPARE, SuperblockV1};

/// How a device takes a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::array) enum AddMode {
    /// Its content must be rebuilt completely.
    Full,
    /// It was a member before (mdadm: re-add) and needs only the regions that the bitmap names.
    Bitmap,
    /// It is to replace the member that serves the role.
    Replacement,
}

impl AddMode {
    fn features(self) -> FeatureMap {
        FeatureMap::RECOVERY_OFFSET
            | match self {
                Self::Full => FeatureMap::empty(),
                Self::Bitmap => FeatureMap::RECOVERY_BITMAP,
                Self::Replacement => FeatureMap::REPLACEMENT,
            }
    }
}

/// Feature bits that a member in sync does not have.
const UNFINISHED: FeatureMap =
    FeatureMap::RECOVERY_OFFSET.union(FeatureMap::RECOVERY_BITMAP).union(FeatureMap::REPLACEMENT);

impl ArrayMetadata {
    /// Adds replacements that are being filled.
    pub fn with_replacements(self, mut replacements: Vec<MemberMetadata>) -> Self {
        let mut state = self.state.lock();
        if let Some(first) = state.members.first() {
            let utime = first.superblock.utime().seconds;
            for member in &mut replacements {
                member.superblock.set_utime(utime);
            }
        }
        state.replacements = replacements;
        drop(state);
        self
    }

    /// Gives a device a role. Returns `None` if the superblocks cannot express that.
    pub(in crate::array) fn add_device(
        &self,
        device: MemberMetadata,
        mode: AddMode,
    ) -> Option<Failures> {
        let state = &mut *self.state.lock();
        let Superblock::V1(own) = &device.superblock else { return None };
        let Some(Superblock::V1(array)) = state.members.first().map(|member| &member.superblock)
        else {
            return None;
        };
        let mut superblock = superblock_for(array, own);
        superblock.set_features(superblock.features() | mode.features());
        superblock.recovery_offset.set(0);
        let (role, number) = (device.role, own.dev_number.get());
        let superblock = Superblock::V1(Box::new(superblock));
        let added = MemberMetadata { role, device: device.device, superblock };
        let mut failures = state.write_bitmap(&added);
        state.failed.retain(|member| !Arc::ptr_eq(&member.device, &added.device));
        if mode == AddMode::Replacement {
            state.replacements.push(added);
        } else {
            state.members.push(added);
        }
        let mode = u16::try_from(role).unwrap_or(ROLE_SPARE);
        state.update_role_tables(|roles| set_role(roles, number, mode));
        failures.extend(state.publish_change());
        Some(failures)
    }

    /// Forgets a member that failed, and the superblock that it received last.
    pub(in crate::array) fn forget_failed(&self, device: &Arc<dyn BlockDevice>) {
        self.state.lock().failed.retain(|member| !Arc::ptr_eq(&member.device, device));
    }

    /// Returns a copy of the bitmap.
    pub(in crate::array) fn bitmap(&self) -> Option<Bitmap> {
        self.state.lock().bitmap.clone()
    }

    /// Removes device `dev_number` from the role table.
    pub(in crate::array) fn remove_device(&self, dev_number: u32) -> Failures {
        let state = &mut *self.state.lock();
        state.update_role_tables(|roles| set_role(roles, dev_number, ROLE_SPARE));
        state.publish_change()
    }

    /// Records that the member of `role`, or its replacement, is filled up to `until`, durably.
    pub(in crate::array) fn set_recovery_offset(
        &self,
        role: usize,
        replacement: bool,
        until: MemberSector,
    ) -> Failures {
        let state = &mut *self.state.lock();
        let member = state.list(replacement).iter_mut().find(|member| member.role == role);
        let Some(member) = member else { return Vec::new() };
        if let Superblock::V1(superblock) = &mut member.superblock
            && !superblock.has(FeatureMap::RECOVERY_BITMAP)
        {
            superblock.recovery_offset.set(until.0);
        }
        let written = write_one(member);
        if replacement { Vec::new() } else { failure(role, written) }
    }

    /// Records that the member of `role` is fully rebuilt.
    pub(in crate::array) fn finish_recovery(&self, role: usize) -> Failures {
        let state = &mut *self.state.lock();
        for member in state.members.iter_mut().filter(|member| member.role == role) {
            clear_recovery(&mut member.superblock);
        }
        state.publish_recovered()
    }

    /// Makes the replacement of `role` the member of that role. The old member is marked as failed.
    pub(in crate::array) fn finish_replacement(&self, role: usize) -> Failures {
        let state = &mut *self.state.lock();
        let at = state.replacements.iter().position(|member| member.role == role);
        let Some(at) = at else { return Vec::new() };
        // The replacement is still on its list, so its role table lists the old member as failed.
        state.drop_members(role);
        let mut new = state.replacements.remove(at);
        clear_recovery(&mut new.superblock);
        let mut failures = state.write_bitmap(&new);
        state.members.push(new);
        failures.extend(state.publish_recovered());
        failures
    }
}

impl State {
    pub(super) fn list(&mut self, replacements: bool) -> &mut Vec<MemberMetadata> {
        if replacements { &mut self.replacements } else { &mut self.members }
    }

    /// Changes the role tables of all superblocks.
    fn update_role_tables(&mut self, change: impl Fn(&mut [U16])) {
        for member in self.members.iter_mut().chain(&mut self.replacements) {
            if let Superblock::V1(superblock) = &mut member.superblock {
                let count = superblock.roles().len();
                change(&mut superblock.dev_roles[..count]);
            }
        }
    }

    /// Raises events and writes the changed role table to all members.
    fn publish_change(&mut self) -> Failures {
        self.may_rewind_events = false;
        self.events += 1;
        self.write_superblocks()
    }

    /// Does the same after a member was completed. If no member is missing content any more, clears
    /// the bits that were kept for it.
    fn publish_recovered(&mut self) -> Failures {
        let Some(first) = self.members.first() else { return Vec::new() };
        let mut roles = 0..index(u64::from(first.superblock.raid_disks()));
        let whole = |member: &MemberMetadata| member.superblock.recovery_offset().is_none();
        self.degraded = !roles
            .all(|role| self.members.iter().any(|member| member.role == role && whole(member)));
        let mut failures = Vec::new();
        if !self.degraded && self.resync_offset.is_none() {
            if let Some(bitmap) = &mut self.bitmap {
                let idle = bitmap.set_bits().filter(|bit| !self.regions.contains_key(bit));
                for bit in idle.collect::<Vec<_>>() {
                    bitmap.put(bit, false);
                }
            }
            let all = self.bitmap.as_ref().map_or(0, Bitmap::count);
            failures = self.write_bits(0..all);
        }
        failures.extend(self.publish_change());
        failures
    }

    /// Writes the whole bitmap to one device.
    fn write_bitmap(&self, member: &MemberMetadata) -> Failures {
        let (Some(bitmap), Some(at)) = (&self.bitmap, member.superblock.bitmap()) else {
            return Vec::new();
        };
        failure(member.role, member.device.write_at(at.byte_offset(), &bitmap.encode()))
    }

    /// Writes the superblocks of replacements. A replacement that fails is dropped from the list
    /// and becomes stale.
    pub(super) fn write_replacements(&mut self, resync_offset: Option<SyncSector>) {
        let events = self.events;
        let failed = self.replacements.extract_if(.., |member| {
            member.superblock.set_state(events, resync_offset);
            write_one(member).is_err()
        });
        self.failed.extend(failed);
    }
}

fn failure(role: usize, written: xfskit_block::Result<()>) -> Failures {
    written.err().map(|error| (role, error)).into_iter().collect()
}

fn write_one(member: &MemberMetadata) -> xfskit_block::Result<()> {
    member.device.write_at(member.superblock.at().byte_offset(), &member.superblock.own_bytes())?;
    member.device.flush()
}

fn set_role(roles: &mut [U16], dev_number: u32, mode: u16) {
    if let Some(role) = roles.get_mut(index(u64::from(dev_number))) {
        role.set(mode);
    }
}

fn clear_recovery(superblock: &mut Superblock) {
    if let Superblock::V1(superblock) = superblock {
        superblock.set_features(superblock.features() - UNFINISHED);
        superblock.recovery_offset.set(0);
    }
}

/// Returns the array's superblock with the fields of the device that `own` belongs to.
pub(crate) fn superblock_for(array: &SuperblockV1, own: &SuperblockV1) -> SuperblockV1 {
    let member_features = FeatureMap::BAD_BLOCKS | UNFINISHED;
    let mut superblock = array.clone();
    let features = (array.features() - member_features) | (own.features() & FeatureMap::BAD_BLOCKS);
    superblock.set_features(features);
    superblock.bitmap_offset = own.bitmap_offset;
    superblock.data_offset = own.data_offset;
    superblock.data_size = own.data_size;
    superblock.super_offset = own.super_offset;
    superblock.dev_number = own.dev_number;
    superblock.cnt_corrected_read = own.cnt_corrected_read;
    superblock.device_uuid = own.device_uuid;
    superblock.devflags = own.devflags;
    superblock.bblog_shift = own.bblog_shift;
    superblock.bblog_size = own.bblog_size;
    superblock.bblog_offset = own.bblog_offset;
    superblock.recovery_offset.set(0);
    superblock
}
