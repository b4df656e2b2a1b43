//! Devices that become members.

use std::path::PathBuf;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_mkfs::existing;
use xfskit_target::{self as target, Base};
use xfskit_units::ByteLen;

use crate::cause::array::ArrayError;
use crate::{Error, Result};

/// How devices become members: whether their content may be lost, and whether files are made.
#[derive(Clone, Debug, Default)]
#[must_use = "options open nothing by themselves"]
pub struct NewDevices {
    size: Option<u64>,
    force: bool,
}

impl NewDevices {
    /// Returns the default: devices that exist, and are empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates files that are missing, of this size in bytes.
    pub fn create(mut self, size: u64) -> Self {
        self.size = Some(size);
        self
    }

    /// Takes devices that hold something, which is lost.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Opens a device that is to become a member. A missing file is created.
    pub(super) fn open(&self, target: &target::Target) -> Result<Arc<dyn BlockDevice>> {
        match self.existing(target)? {
            Some(device) => Ok(device),
            None => self.made(target),
        }
    }

    /// Opens a device that exists; `None` for a file that is to be created.
    pub(super) fn existing(&self, target: &target::Target) -> Result<Option<Arc<dyn BlockDevice>>> {
        match new_file(target) {
            Some(path) if self.size.is_none() => Err(ArrayError::NoFile(path).error()),
            Some(_) => Ok(None),
            None => self.empty(target).map(Some),
        }
    }

    /// Creates a file.
    pub(super) fn made(&self, target: &target::Target) -> Result<Arc<dyn BlockDevice>> {
        target::create(target, ByteLen(self.size.unwrap_or(0))).map_err(Error::new)
    }

    /// Opens a device for writing. One with content is refused without `force`.
    fn empty(&self, target: &target::Target) -> Result<Arc<dyn BlockDevice>> {
        let device = target::open_unchecked(target, OpenMode::ReadWrite).map_err(Error::new)?;
        if self.force {
            return Ok(device);
        }
        match existing::find(&device).map_err(Error::new)? {
            Some(what) => Err(ArrayError::Occupied { name: target.to_string(), what }.error()),
            None => Ok(device),
        }
    }
}

/// Returns the path of a file that does not exist.
pub(super) fn new_file(target: &target::Target) -> Option<PathBuf> {
    match (&target.base, &target.part) {
        (Base::File(path), None) if !path.exists() => Some(path.clone()),
        _ => None,
    }
}
