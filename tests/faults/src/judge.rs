//! Runs of the workload on a faulty device, and what is asked of the device afterwards.

use std::sync::Arc;

use xfskit_block::{BlockDevice, FaultDevice, FaultPlan, OverlayDevice, RecordingDevice};
use xfskit_check::{Options, check};
use xfskit_test_oracle::{Image, Scratch, judge};
use xfskit_vfs::Fs;

use crate::tree::{Tree, tree};
use crate::work::{STEPS, open};

/// A device of three layers: faults above, what was written beneath them, and the content.
#[derive(Debug)]
pub struct Bench {
    /// The content, without faults.
    pub dev: Arc<OverlayDevice>,
    /// What arrived.
    pub recorder: Arc<RecordingDevice>,
    /// What the volume sees.
    pub faulty: Arc<FaultDevice>,
}

impl Bench {
    /// Over `base`, which stays as it is.
    pub fn new(base: &Arc<dyn BlockDevice>, plan: FaultPlan) -> Self {
        let dev = Arc::new(OverlayDevice::new(Arc::clone(base)));
        let recorder = Arc::new(RecordingDevice::new(dev.clone()));
        let faulty = Arc::new(FaultDevice::new(recorder.clone(), plan));
        Self { dev, recorder, faulty }
    }
}

/// The trees of a run without faults: before the first step and after each.
///
/// # Panics
/// Where something fails.
pub fn trees(base: &Arc<dyn BlockDevice>) -> Vec<Tree> {
    let bench = Bench::new(base, FaultPlan::default());
    let fs = open(bench.faulty).expect("opened");
    let mut trees = vec![tree(&fs).expect("readable")];
    for step in STEPS {
        (step.run)(&fs).unwrap_or_else(|error| panic!("{step:?}: {error}"));
        trees.push(tree(&fs).expect("readable"));
    }
    fs.close().expect("closed");
    trees
}

/// A run without faults and without looking: how many accesses it makes, and how many of them are writes.
///
/// # Panics
/// Where something fails.
pub fn accesses(base: &Arc<dyn BlockDevice>) -> (u64, u64) {
    let bench = Bench::new(base, FaultPlan::default());
    let fs = open(bench.faulty.clone()).expect("opened");
    for step in STEPS {
        (step.run)(&fs).unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    fs.close().expect("closed");
    (bench.faulty.io_count(), bench.faulty.write_count())
}

/// Opens the device anew, now that it is sound: the volume recovers, and all judges are content with what is there, which
/// is answered. The kernel and `xfs_repair` are asked where `everybody` is.
///
/// # Panics
/// Where somebody is not.
pub fn recovered(dev: &Arc<OverlayDevice>, everybody: bool) -> Tree {
    let fs = open(dev.clone()).expect("recovered");
    let seen = tree(&fs).expect("readable");
    closed(fs, dev, everybody);
    seen
}

/// Closes a volume, and lets the judges look.
///
/// # Panics
/// Where they find something.
pub fn closed(fs: Fs, dev: &Arc<OverlayDevice>, everybody: bool) {
    fs.close().expect("closed");
    sound(dev, everybody);
}

/// Lets the judges look at a volume that was closed.
///
/// # Panics
/// Where they find something.
pub fn sound(dev: &Arc<OverlayDevice>, everybody: bool) {
    let mut said = Vec::new();
    let report =
        check(&**dev, None, &Options::default(), &mut |finding| said.push(finding.to_string()));
    assert!(report.expect("readable").clean() && said.is_empty(), "{said:?}");
    if everybody {
        let scratch = Scratch::new("faults");
        judge::volume(&Image::of_device(&scratch, "volume.img", &**dev), &scratch).expect("sound");
    }
}
