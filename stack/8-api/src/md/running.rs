//! An array that runs: for one handle, or below an open volume.

use std::ops::Deref;
use std::sync::Arc;

use xfskit_md::array::Array as RunningArray;

use crate::below_volume::BelowVolume;
use crate::{Error, Result};

/// An array that runs.
#[derive(Debug)]
pub(super) enum Running {
    /// It ends with the handle.
    Own(Box<RunningArray>),
    /// A volume is read and written on it.
    BelowVolume(Arc<BelowVolume>),
}

impl Deref for Running {
    type Target = RunningArray;

    fn deref(&self) -> &RunningArray {
        match self {
            Self::Own(array) => array,
            Self::BelowVolume(below) => below.array(),
        }
    }
}

impl Running {
    /// Makes everything durable and marks the array clean. Below a volume, its monitor does that
    /// when nothing is written.
    pub(super) fn settle(&self) -> Result<()> {
        match self {
            Self::Own(array) => array.close().map_err(Error::new),
            Self::BelowVolume(_) => Ok(()),
        }
    }

    /// Returns true if a volume is open on it.
    pub(super) fn is_below_volume(&self) -> bool {
        matches!(self, Self::BelowVolume(_))
    }
}
