//! Spares and re-added members.
//!
//! A spare takes the role of a failed member at once: the role table records it, and writes go to
//! the spare as well. Its data come with the next rebuild. A member that was away and is re-added
//! needs only what the write-intent bitmap names.

use std::sync::Arc;

use xfskit_block::{BlockDevice, Result};
use xfskit_units::{MemberByte, MemberSector, Sectors};

use crate::array::member::Member;
use crate::array::metadata::MemberMetadata;
use crate::array::metadata::roles::AddMode;
use crate::array::{Array, survives};
use crate::geometry::{Replacement, Slot};
use crate::superblock::Superblock;

/// A device that waits for a member to fail.
#[derive(Clone, Debug)]
pub struct Spare {
    /// Its name in messages.
    pub name: String,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Its superblock.
    pub superblock: Superblock,
}

/// A member that was away and can be brought up to date by the bitmap (mdadm: `--re-add`).
#[derive(Clone, Debug)]
pub struct ReAddCandidate {
    /// The device.
    pub spare: Spare,
    /// The role that it had, and that no member serves.
    pub role: usize,
}

impl Spare {
    fn member_metadata(&self, role: usize) -> MemberMetadata {
        let device = Arc::clone(&self.device);
        MemberMetadata { role, device, superblock: self.superblock.clone() }
    }

    fn slot(&self, by_bitmap: bool) -> Slot {
        let (offset, size) = (self.superblock.data_offset(), self.superblock.data_size());
        let slot = Slot::new(Arc::clone(&self.device), self.name.clone(), offset, size);
        Slot { readable_until: MemberSector(0), by_bitmap, ..slot }
    }
}

impl Array {
    /// Sets the devices that take over when members fail.
    pub fn with_spares(mut self, spares: Vec<Spare>) -> Self {
        self.spares = spares.into();
        self
    }

    /// Adds a device to those that take over when members fail.
    pub fn add_spare(&self, spare: Spare) {
        self.spares.lock().push(spare);
    }

    /// Takes a device off the list of those that wait. Returns false if it does not wait: by now it
    /// may serve a role.
    pub fn remove_spare(&self, device: &Arc<dyn BlockDevice>) -> bool {
        let mut spares = self.spares.lock();
        let count = spares.len();
        spares.retain(|spare| !Arc::ptr_eq(&spare.device, device));
        spares.len() < count
    }

    /// Gives roles without a member to spares, as far as there are any. Returns the roles and the
    /// names of the spares.
    ///
    /// # Errors
    /// Returns an error if superblocks cannot be written on more members than the level tolerates.
    pub fn activate_spares(&self) -> Result<Vec<(usize, String)>> {
        let mut taken = Vec::new();
        for role in 0..self.members.len() {
            if self.members[role].device().is_none() {
                taken.extend(self.activate_spare(role)?.map(|name| (role, name)));
            }
        }
        Ok(taken)
    }

    /// Gives this role to a spare that is large enough. Returns the spare's name.
    pub(in crate::array) fn activate_spare(&self, role: usize) -> Result<Option<String>> {
        let Some(spare) = self.fitting_spare(None) else { return Ok(None) };
        self.add_device(&spare, role, AddMode::Full)?;
        Ok(Some(spare.name))
    }

    /// Takes a spare that is large enough off the list; if `name` is given, the one with this name.
    fn fitting_spare(&self, name: Option<&str>) -> Option<Spare> {
        let Superblock::V1(_) = self.spares.lock().first()?.superblock else { return None };
        let needed = self.geometry.component_size();
        let fits = |spare: &Spare| {
            let announces = self.logs.is_none() || spare.superblock.ppl().is_some();
            let fits = announces && spare.superblock.data_size() >= needed;
            fits && name.is_none_or(|name| spare.name == name)
        };
        let mut spares = self.spares.lock();
        let at = spares.iter().position(fits)?;
        Some(spares.remove(at))
    }

    fn add_device(&self, spare: &Spare, role: usize, mode: AddMode) -> Result<()> {
        let ppl = spare.superblock.ppl();
        let log = self.open_ppl(&spare.device, ppl)?;
        let failures = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.add_device(spare.member_metadata(role), mode));
        let Some(failures) = failures else { return Ok(()) };
        self.is_optimal.store(false, std::sync::atomic::Ordering::Release);
        if mode == AddMode::Replacement {
            self.members[role].set_replacement(Replacement {
                device: Arc::clone(&spare.device),
                name: spare.name.clone(),
                data_offset: spare.superblock.data_offset(),
                filled: MemberSector(0),
                bad_blocks: Vec::new(),
                ppl,
            });
        } else {
            let member = Member::new(spare.slot(mode == AddMode::Bitmap));
            member.set_log(log);
            self.members[role].set_successor(member);
        }
        failures.into_iter().try_for_each(|(role, error)| self.fail_member(role, error))
    }

    /// Lets a member that was away serve its role again. What it missed comes with the next
    /// rebuild.
    ///
    /// # Errors
    /// See [`activate_spares`](Self::activate_spares).
    pub fn re_add(&self, candidate: &ReAddCandidate) -> Result<()> {
        self.add_device(&candidate.spare, candidate.role, AddMode::Bitmap)
    }

    /// Makes a spare the replacement of this role's member, which serves until the replacement is
    /// filled. Returns the spare's name; `None` if there is no such spare, or the member already
    /// has a replacement.
    ///
    /// # Errors
    /// See [`activate_spares`](Self::activate_spares).
    pub fn replace(&self, role: usize, with: Option<&str>) -> Result<Option<String>> {
        let free = |member: &Member| member.device().is_some() && member.replacement().is_none();
        if !self.members.get(role).is_some_and(free) {
            return Ok(None);
        }
        let Some(spare) = self.fitting_spare(with) else { return Ok(None) };
        self.add_device(&spare, role, AddMode::Replacement)?;
        Ok(Some(spare.name))
    }

    /// Removes the device with this number, which must be faulty, from the array.
    ///
    /// # Errors
    /// See [`activate_spares`](Self::activate_spares).
    pub fn remove(&self, dev_number: u32, device: &Arc<dyn BlockDevice>) -> Result<()> {
        self.forget_failed(device);
        self.update_metadata(|metadata| metadata.remove_device(dev_number))
    }

    /// Forgets a member that failed, after the last write to it: the device gets another content.
    pub(crate) fn forget_failed(&self, device: &Arc<dyn BlockDevice>) {
        for lock in &self.stripe_locks {
            drop(lock.write()); // writes of members are below these
        }
        if let Some(metadata) = &self.metadata {
            metadata.forget_failed(device);
        }
    }

    /// Returns true if all data remain readable without this role and without the roles that are
    /// not completely filled.
    pub(in crate::array) fn survives_without(&self, role: usize) -> bool {
        let size = |role| MemberByte(self.geometry.member_size(role).byte_len().0);
        let lacks = |r: &usize| {
            let member = &self.members[*r];
            *r == role || member.device().is_none() || member.readable_until() < size(*r)
        };
        let missing: Vec<usize> = (0..self.members.len()).filter(lacks).collect();
        survives(&self.geometry, &missing)
    }

    /// Returns the data sectors that a device needs to become a member.
    pub fn member_sectors(&self) -> Sectors {
        self.geometry.component_size()
    }
}
