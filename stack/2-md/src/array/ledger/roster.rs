//! Who is what to the array: members come, go, are filled, and are told of each other.
//!
//! Superblocks of all members carry the same table; a change of it raises `events`, so that who does not
//! hear of it is stale. Events never go back over such a change. Only superblocks of version 1 change
//! so: in a table of 0.90 there is no place for a rebuild that has got somewhere.

use xfskit_units::{MemberSector, Sectors, index};
use zerocopy::little_endian::U16;

use super::{Failures, Kept, Ledger, State};
use crate::bitmap::Bitmap;
use crate::superblock::Superblock;
use crate::superblock::v1::{ROLE_SPARE, SuperblockV1, feature};

/// How a device comes to its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::array) enum Entry {
    /// It holds nothing of it.
    Empty,
    /// It was away, and lacks what the bitmap names.
    ByBitmap,
    /// It is to replace the member that serves.
    Replacement,
}

impl Entry {
    fn features(self) -> u32 {
        feature::RECOVERY_OFFSET
            | match self {
                Self::Empty => 0,
                Self::ByBitmap => feature::RECOVERY_BITMAP,
                Self::Replacement => feature::REPLACEMENT,
            }
    }
}

/// Features that a member in sync does not have.
const UNFINISHED: u32 = feature::RECOVERY_OFFSET | feature::RECOVERY_BITMAP | feature::REPLACEMENT;

impl Ledger {
    /// The same, with devices that are to replace members.
    pub fn with_replacements(self, mut replacements: Vec<Kept>) -> Self {
        let mut state = self.state();
        if let Some(first) = state.members.first() {
            let utime = first.superblock.utime().seconds;
            for kept in &mut replacements {
                kept.superblock.set_utime(utime);
            }
        }
        state.replacements = replacements;
        drop(state);
        self
    }

    /// A device gets a role. `None` where superblocks have no place for that.
    pub(in crate::array) fn seat(&self, newcomer: Kept, entry: Entry) -> Option<Failures> {
        let state = &mut *self.state();
        let Superblock::V1(own) = &newcomer.superblock else { return None };
        let Some(Superblock::V1(array)) = state.members.first().map(|kept| &kept.superblock) else {
            return None;
        };
        let mut superblock = adopt(array, own);
        superblock.feature_map.set(superblock.feature_map.get() | entry.features());
        superblock.recovery_offset.set(0);
        let (role, number) = (newcomer.role, own.dev_number.get());
        let superblock = Superblock::V1(Box::new(superblock));
        let seated = Kept { role, device: newcomer.device, superblock };
        let mut failures = state.write_bitmap(&seated);
        if entry == Entry::Replacement {
            state.replacements.push(seated);
        } else {
            state.members.push(seated);
        }
        let entry = u16::try_from(role).unwrap_or(ROLE_SPARE);
        state.tables(|roles| put(roles, number, entry));
        failures.extend(state.changed());
        Some(failures)
    }

    /// The bitmap as it is now.
    pub(in crate::array) fn bitmap(&self) -> Option<Bitmap> {
        self.state().bitmap.clone()
    }

    /// Device `dev_number` is no part of the array any more.
    pub(in crate::array) fn forget(&self, dev_number: u32) -> Failures {
        let state = &mut *self.state();
        state.tables(|roles| put(roles, dev_number, ROLE_SPARE));
        state.changed()
    }

    /// The member of `role`, or what is to replace it, holds what it should up to here, on the disk.
    pub(in crate::array) fn filled(
        &self,
        role: usize,
        replacement: bool,
        until: MemberSector,
    ) -> Failures {
        let state = &mut *self.state();
        let kept = state.list(replacement).iter_mut().find(|kept| kept.role == role);
        let Some(kept) = kept else { return Vec::new() };
        if let Superblock::V1(superblock) = &mut kept.superblock
            && !superblock.has(feature::RECOVERY_BITMAP)
        {
            superblock.recovery_offset.set(until.0);
        }
        let written = write_one(kept);
        if replacement { Vec::new() } else { failure(role, written) }
    }

    /// The member of `role` holds all that it should.
    pub(in crate::array) fn complete(&self, role: usize) -> Failures {
        let state = &mut *self.state();
        for kept in state.members.iter_mut().filter(|kept| kept.role == role) {
            finish(&mut kept.superblock);
        }
        state.settled()
    }

    /// What was to replace the member of `role` holds all: it serves, and the member is out of use.
    pub(in crate::array) fn replace(&self, role: usize) -> Failures {
        let state = &mut *self.state();
        let at = state.replacements.iter().position(|kept| kept.role == role);
        let Some(at) = at else { return Vec::new() };
        let mut new = state.replacements.remove(at);
        finish(&mut new.superblock);
        let gone = state.members.iter().filter(|kept| kept.role == role);
        let gone: Vec<u32> = gone.map(|kept| kept.superblock.dev_number()).collect();
        state.members.retain(|kept| kept.role != role);
        let mut failures = state.write_bitmap(&new);
        state.members.push(new);
        for number in gone {
            for kept in &mut state.members {
                kept.superblock.set_failed(number);
            }
        }
        failures.extend(state.settled());
        failures
    }
}

impl State {
    pub(super) fn list(&mut self, replacements: bool) -> &mut Vec<Kept> {
        if replacements { &mut self.replacements } else { &mut self.members }
    }

    /// Changes the tables of all superblocks.
    fn tables(&mut self, change: impl Fn(&mut [U16])) {
        for kept in self.members.iter_mut().chain(&mut self.replacements) {
            if let Superblock::V1(superblock) = &mut kept.superblock {
                let count = superblock.roles().len();
                change(&mut superblock.dev_roles[..count]);
            }
        }
    }

    /// The table changed: all members hear of it.
    fn changed(&mut self) -> Failures {
        self.may_go_back = false;
        self.events += 1;
        self.write_superblocks()
    }

    /// The same where a member may have become whole: when all are, no bit needs to be kept.
    fn settled(&mut self) -> Failures {
        let Some(first) = self.members.first() else { return Vec::new() };
        let mut roles = 0..index(u64::from(first.superblock.raid_disks()));
        let whole = |kept: &Kept| kept.superblock.recovery_offset().is_none();
        self.degraded =
            !roles.all(|role| self.members.iter().any(|kept| kept.role == role && whole(kept)));
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
        failures.extend(self.changed());
        failures
    }

    /// Writes all of the bitmap to one device.
    fn write_bitmap(&self, kept: &Kept) -> Failures {
        let (Some(bitmap), Some(at)) = (&self.bitmap, kept.superblock.bitmap()) else {
            return Vec::new();
        };
        failure(kept.role, kept.device.write_at(at.byte_offset(), &bitmap.encode()))
    }

    /// Tells those who are to replace members what the others hear. One that fails stays behind, and is
    /// stale.
    pub(super) fn write_replacements(&mut self, resync_offset: Option<Sectors>) {
        let events = self.events;
        self.replacements.retain_mut(|kept| {
            kept.superblock.set_state(events, resync_offset);
            write_one(kept).is_ok()
        });
    }
}

fn failure(role: usize, written: xfskit_block::Result<()>) -> Failures {
    written.err().map(|error| (role, error)).into_iter().collect()
}

fn write_one(kept: &Kept) -> xfskit_block::Result<()> {
    kept.device.write_at(kept.superblock.at().byte_offset(), &kept.superblock.own_bytes())?;
    kept.device.flush()
}

fn put(roles: &mut [U16], dev_number: u32, entry: u16) {
    if let Some(role) = roles.get_mut(index(u64::from(dev_number))) {
        role.set(entry);
    }
}

fn finish(superblock: &mut Superblock) {
    if let Superblock::V1(superblock) = superblock {
        superblock.feature_map.set(superblock.feature_map.get() & !UNFINISHED);
        superblock.recovery_offset.set(0);
    }
}

/// What the array says, in the words of the device that `own` is of.
pub(crate) fn adopt(array: &SuperblockV1, own: &SuperblockV1) -> SuperblockV1 {
    let theirs = feature::BAD_BLOCKS | UNFINISHED;
    let mut superblock = array.clone();
    let features = array.feature_map.get() & !theirs | own.feature_map.get() & feature::BAD_BLOCKS;
    superblock.feature_map.set(features);
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
