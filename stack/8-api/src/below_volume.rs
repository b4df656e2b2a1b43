//! The array below an open volume.

use std::sync::Arc;

use parking_lot::Mutex;
use xfskit_md::array::Array;
use xfskit_md::array::monitor::MonitoredArray;
use xfskit_md::{Assembly, Member};
use xfskit_target::{ArrayName, LiveArray};

/// An array on which a volume is open.
#[derive(Debug)]
pub(crate) struct BelowVolume {
    array: Arc<MonitoredArray>,
    /// The members. Held while devices are added or removed; locks of the array rank below.
    known: Mutex<Known>,
}

/// An array, as the last change of its members left it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub name: ArrayName,
    pub assembly: Assembly,
    /// Members that were removed after they failed. The array that runs keeps them open.
    pub removed: Vec<Member>,
}

impl BelowVolume {
    pub(crate) fn new(name: ArrayName, LiveArray { assembly, array }: LiveArray) -> Self {
        Self { array, known: Mutex::new(Known { name, assembly, removed: Vec::new() }) }
    }

    /// Returns the array.
    pub(crate) fn array(&self) -> &Array {
        self.array.array()
    }

    pub(crate) fn known(&self) -> &Mutex<Known> {
        &self.known
    }
}
