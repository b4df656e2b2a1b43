//! An array that runs: for one handle, or below an open volume.

use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;
use xfskit_md::array::Array as RunningArray;
use xfskit_md::array::monitor::MonitoredArray;
use xfskit_md::{Assembly, Member};
use xfskit_target::{ArrayName, LiveArray};

use crate::{Error, Result};

/// An array on which a volume is open.
#[derive(Debug)]
pub(crate) struct BelowVolume {
    array: Arc<MonitoredArray>,
    /// The members. Held while devices are added or removed; locks of the array rank below.
    known: Mutex<Known>,
}

/// An array, as the last change of its members left it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) name: ArrayName,
    pub(super) assembly: Assembly,
    /// Members that were removed after they failed. The array that runs keeps them open.
    pub(super) removed: Vec<Member>,
}

impl BelowVolume {
    pub(crate) fn new(name: ArrayName, LiveArray { assembly, array }: LiveArray) -> Self {
        Self { array, known: Mutex::new(Known { name, assembly, removed: Vec::new() }) }
    }

    pub(super) fn known(&self) -> &Mutex<Known> {
        &self.known
    }
}

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
            Self::BelowVolume(below) => below.array.array(),
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
