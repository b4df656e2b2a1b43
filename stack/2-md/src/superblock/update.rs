//! The changes that writing an array makes to superblocks.

use xfskit_units::{SyncSector, index};
use zerocopy::little_endian::U32;

use super::v1::{FeatureMap, IN_SYNC, ROLE_FAULTY};
use super::{Superblock, v090};

impl Superblock {
    /// Sets the update time, in seconds since 1970.
    pub fn set_utime(&mut self, seconds: u64) {
        match self {
            Self::V1(sb) => sb.utime.set(seconds),
            Self::V090(sb) => sb.fields.utime.set(u32::try_from(seconds).unwrap_or(u32::MAX)),
        }
    }

    /// Sets the event count, and where a resync would have to begin: 0 while the array is active,
    /// `None` if it is clean.
    pub fn set_state(&mut self, events: u64, resync_offset: Option<SyncSector>) {
        match self {
            Self::V1(sb) => {
                sb.events.set(events);
                sb.resync_offset.set(resync_offset.map_or(IN_SYNC, |at| at.0));
            }
            Self::V090(sb) => {
                let halves = sb.halves(events);
                (sb.fields.events, sb.fields.cp_events) = (halves, halves);
                let at = resync_offset.map(|at| u32::try_from(at.0).unwrap_or(0));
                sb.fields.recovery_cp.set(at.unwrap_or(u32::MAX));
                let rest = sb.fields.state.get() & !v090::state::CLEAN;
                let clean = if at.is_none() { v090::state::CLEAN } else { 0 };
                sb.fields.state.set(rest | clean);
            }
        }
    }

    /// Marks device `dev_number` as failed.
    pub fn set_failed(&mut self, dev_number: u32) {
        let number = index(u64::from(dev_number));
        match self {
            Self::V1(sb) => {
                if let Some(role) = sb.dev_roles.get_mut(number) {
                    role.set(ROLE_FAULTY);
                }
            }
            Self::V090(sb) => {
                let Some(disk) = sb.fields.disks.get_mut(number) else { return };
                disk.state.set(v090::disk::FAULTY | v090::disk::REMOVED);
                let change = |count: &mut U32, by: i32| {
                    count.set(count.get().saturating_add_signed(by));
                };
                change(&mut sb.fields.active_disks, -1);
                change(&mut sb.fields.working_disks, -1);
                change(&mut sb.fields.failed_disks, 1);
            }
        }
    }

    /// Copies the role table of `other`, a superblock of the same array.
    pub fn take_table(&mut self, other: &Self) {
        match (self, other) {
            (Self::V1(sb), Self::V1(other)) => {
                sb.max_dev = other.max_dev;
                sb.dev_roles = other.dev_roles;
            }
            (Self::V090(sb), Self::V090(other)) => {
                sb.fields.disks.clone_from(&other.fields.disks);
                sb.fields.active_disks = other.fields.active_disks;
                sb.fields.working_disks = other.fields.working_disks;
                sb.fields.failed_disks = other.fields.failed_disks;
                sb.fields.spare_disks = other.fields.spare_disks;
            }
            _ => {} // members of one array have superblocks of one kind
        }
    }

    /// Marks device `dev_number` as in sync with this role.
    pub fn set_active(&mut self, dev_number: u32, role: u32) {
        let number = index(u64::from(dev_number));
        match self {
            Self::V1(sb) => {
                if let (Some(entry), Ok(role)) = (sb.dev_roles.get_mut(number), u16::try_from(role))
                {
                    entry.set(role);
                }
            }
            Self::V090(sb) => {
                let Some(disk) = sb.fields.disks.get_mut(number) else { return };
                disk.number.set(dev_number);
                disk.raid_disk.set(role);
                disk.state.set(v090::disk::ACTIVE | v090::disk::SYNC);
            }
        }
    }

    /// Sets whether the bad-block log has entries. 0.90 has no such log.
    pub fn set_has_bad_blocks(&mut self, has: bool) {
        if let Self::V1(sb) = self {
            let mut features = sb.features();
            features.set(FeatureMap::BAD_BLOCKS, has);
            sb.set_features(features);
        }
    }

    /// Returns the bytes in use, in whole sectors: what lies behind the role table is not written.
    pub fn own_bytes(&self) -> Vec<u8> {
        let mut bytes = self.encode();
        if let Self::V1(sb) = self {
            let own = 256 + 2 * sb.roles().len();
            bytes.truncate(own.next_multiple_of(512));
        }
        bytes
    }
}
