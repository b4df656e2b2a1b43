//! The array as a device.

use xfskit_units::ByteLen;

use crate::geometry::{Geometry, Slot};

/// Why members make no array that can run.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Fewer or more slots than the geometry has roles.
    #[error("{found} members were given for {expected} roles")]
    SlotCount {
        /// How many roles there are.
        expected: u32,
        /// How many slots came.
        found: usize,
    },
    /// A member has less room than the array uses of it.
    #[error("member {name} (role {role}) has {found} bytes, the array needs {needed}")]
    TooSmall {
        /// The member.
        name: String,
        /// Its role.
        role: usize,
        /// Bytes that the array uses of it, its data offset included.
        needed: ByteLen,
        /// Bytes that it has.
        found: ByteLen,
    },
    /// More roles are missing than the level bears.
    #[error("roles {roles:?} are missing, {level} of {raid_disks} members cannot run without them",
        level = geometry.level(), raid_disks = geometry.raid_disks())]
    TooManyMissing {
        /// The missing roles, ascending.
        roles: Vec<usize>,
        /// The array.
        geometry: Box<Geometry>,
    },
}

/// An array of members: a device like any other.
#[derive(Debug)]
pub struct Array {
    geometry: Geometry,
    slots: Vec<Slot>,
}

impl Array {
    /// The array of `slots`, one per role in role order.
    ///
    /// # Errors
    /// [`OpenError`] where it cannot run.
    pub fn open(geometry: Geometry, slots: Vec<Slot>) -> Result<Self, OpenError> {
        if slots.len() != geometry.raid_disks() as usize {
            let (expected, found) = (geometry.raid_disks(), slots.len());
            return Err(OpenError::SlotCount { expected, found });
        }
        Ok(Self { geometry, slots })
    }

    /// The numbers of the array.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The members, by role.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }
}
