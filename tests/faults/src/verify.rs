//! Runs of the workload on a faulty device, and the verification of the device afterwards.

use std::sync::Arc;

use xfskit_block::{BlockDevice, FaultDevice, FaultPlan, OverlayDevice, RecordingDevice};
use xfskit_check::{Options, check};
use xfskit_test_support::{Image, Scratch, verify};
use xfskit_vfs::Fs;

use crate::tree::{Tree, tree};
use crate::work::{STEPS, open};

/// A device of three layers: injected faults, a recorder of the writes that arrive, and the
/// content.
#[derive(Debug)]
pub struct Testbed {
    /// The content, without faults.
    pub dev: Arc<OverlayDevice>,
    /// The recorder of the writes that arrived.
    pub recorder: Arc<RecordingDevice>,
    /// The device that the volume sees.
    pub faulty: Arc<FaultDevice>,
}

impl Testbed {
    /// Returns a testbed over `base`, which is never written.
    pub fn new(base: &Arc<dyn BlockDevice>, plan: FaultPlan) -> Self {
        let dev = Arc::new(OverlayDevice::new(Arc::clone(base)));
        let recorder = Arc::new(RecordingDevice::new(dev.clone()));
        let faulty = Arc::new(FaultDevice::new(recorder.clone(), plan));
        Self { dev, recorder, faulty }
    }
}

/// Returns the trees of a run without faults: before the first step and after each.
///
/// # Panics
/// If any step fails.
pub fn expected_trees(base: &Arc<dyn BlockDevice>) -> Vec<Tree> {
    let testbed = Testbed::new(base, FaultPlan::default());
    let fs = open(testbed.faulty).expect("opened");
    let mut trees = vec![tree(&fs).expect("readable")];
    for step in STEPS {
        (step.run)(&fs).unwrap_or_else(|error| panic!("{step:?}: {error}"));
        trees.push(tree(&fs).expect("readable"));
    }
    fs.close().expect("closed");
    trees
}

/// Returns the number of accesses and the number of writes of a run without faults.
///
/// # Panics
/// If any step fails.
pub fn count_accesses(base: &Arc<dyn BlockDevice>) -> (u64, u64) {
    let testbed = Testbed::new(base, FaultPlan::default());
    let fs = open(testbed.faulty.clone()).expect("opened");
    for step in STEPS {
        (step.run)(&fs).unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    fs.close().expect("closed");
    (testbed.faulty.io_count(), testbed.faulty.write_count())
}

/// Opens the device, which no longer fails, so that the volume recovers. Verifies the volume and
/// returns its tree. If `all_tools` is set, the kernel and `xfs_repair` verify it too.
///
/// # Panics
/// If there is a finding.
pub fn recover_and_verify(dev: &Arc<OverlayDevice>, all_tools: bool) -> Tree {
    let fs = open(dev.clone()).expect("recovered");
    let seen = tree(&fs).expect("readable");
    close_and_verify(fs, dev, all_tools);
    seen
}

/// Closes a volume and verifies it.
///
/// # Panics
/// If there is a finding.
pub fn close_and_verify(fs: Fs, dev: &Arc<OverlayDevice>, all_tools: bool) {
    fs.close().expect("closed");
    verify(dev, all_tools);
}

/// Verifies a closed volume.
///
/// # Panics
/// If there is a finding.
pub fn verify(dev: &Arc<OverlayDevice>, all_tools: bool) {
    let mut findings = Vec::new();
    let report =
        check(&**dev, None, &Options::default(), &mut |finding| findings.push(finding.to_string()));
    assert!(report.expect("readable").clean() && findings.is_empty(), "{findings:?}");
    if all_tools {
        let scratch = Scratch::new("faults");
        verify::volume(&Image::of_device(&scratch, "volume.img", &**dev), &scratch).expect("sound");
    }
}
