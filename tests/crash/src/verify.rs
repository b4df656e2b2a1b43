//! Verification of a device after a crash.

use std::sync::Arc;

use xfskit_block::{BlockDevice, Event, OverlayDevice, RecordingDevice};
use xfskit_check::{Options, check};
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_support::{Image, Mount, Random, Scratch, kernel, verify};
use xfskit_vfs::{Clock, Fs};

use crate::crash::{Crash, Crashes, WRITE_LOSSES};
use crate::run::{Run, open};
use crate::tree::TreeState;

/// A recovered volume that was found sound.
#[derive(Debug)]
pub struct Recovered {
    /// The tree after recovery in memory, which all later recoveries must show.
    seen: Vec<TreeState>,
    /// The writes of the recovery on the device, until the volume was closed.
    events: Vec<Event>,
    /// The recovered device.
    dev: Arc<dyn BlockDevice>,
    /// Size of a filesystem block, in bytes.
    blocksize: usize,
}

/// Verifies claims 1 to 3 of the crate.
///
/// # Errors
/// The first violation.
pub fn recovery(run: &Run, crash: &Crash) -> Result<Recovered, String> {
    let seen = in_memory(run, crash.dev.clone())?;
    run.verify(&seen, crash.returned, crash.begun)?;
    recovered(run, crash.dev.clone(), seen)
}

/// Recovers `dev`, which must show the tree of the recovery in memory, `seen`, and keep showing it.
fn recovered(
    run: &Run,
    dev: Arc<dyn BlockDevice>,
    seen: Vec<TreeState>,
) -> Result<Recovered, String> {
    // The next steps change the device.
    let recorder = Arc::new(RecordingDevice::new(Arc::new(OverlayDevice::new(dev))));
    let dev: Arc<dyn BlockDevice> = recorder.clone();
    let fs = open(Arc::clone(&dev)).map_err(|error| format!("recovery: {error}"))?;
    same(&seen, run.state(&fs), "recovered")?;
    fs.close().map_err(|error| format!("closing: {error}"))?;
    let mut findings = Vec::new();
    let report =
        check(&*dev, None, &Options::default(), &mut |finding| findings.push(format!("{finding}")));
    let report = report.map_err(|error| format!("check: {error}"))?;
    if !report.clean() || !findings.is_empty() {
        return Err(format!("check: {}", findings.join("; ")));
    }
    let again =
        Volume::open(dev.clone(), &OpenOptions::default()).map_err(|e| format!("again: {e}"))?;
    if !again.replay().is_none_or(|replay| replay.clean) {
        return Err("the journal is not clean after closing".into());
    }
    let blocksize = 1 << again.geo().blocklog;
    same(&seen, run.state(&Fs::new(again, Clock::system())), "closed")?;
    let events = recorder.events();
    Ok(Recovered { seen, events, dev, blocksize })
}

fn same<E: std::fmt::Display>(
    seen: &[TreeState],
    now: Result<Vec<TreeState>, E>,
    when: &str,
) -> Result<(), String> {
    match now {
        Ok(now) if now == seen => Ok(()),
        Ok(_) => Err(format!("another tree when {when}")),
        Err(error) => Err(format!("{when}: {error}")),
    }
}

/// Returns the tree that recovery in memory shows.
fn in_memory(run: &Run, dev: Arc<dyn BlockDevice>) -> Result<Vec<TreeState>, String> {
    let volume =
        Volume::open(dev, &OpenOptions::default()).map_err(|e| format!("in memory: {e}"))?;
    run.state(&Fs::new(volume, Clock::system())).map_err(|error| format!("in memory: {error}"))
}

/// Interrupts the recovery of `crash` at each of its writes, some of which arrive, and recovers
/// again, with the same result. Returns the number of interruptions.
///
/// # Errors
/// The first violation.
pub fn interrupted_recovery(
    run: &Run,
    crash: &Crash,
    first: &Recovered,
    random: &mut Random,
) -> Result<usize, String> {
    let mut cuts = Crashes::new(crash.dev.clone(), &first.events);
    let mut count = 0;
    while cuts.left() > 0 {
        cuts.advance();
        let cut = cuts.crash(WRITE_LOSSES[random.below(WRITE_LOSSES.len())], random);
        let at = format!("recovery cut at {} of {}, {:?}", cut.begun, first.events.len(), cut.loss);
        recovered(run, cut.dev, first.seen.clone()).map_err(|why| format!("{at}: {why}"))?;
        count += 1;
    }
    Ok(count)
}

/// The image as xfskit recovered it, and as the crash left it.
const FILES: [&str; 2] = ["recovered.img", "crashed.img"];

/// A crash that the kernel and `xfs_repair -n` verify, in files of its own.
#[derive(Debug)]
pub struct Case {
    scratch: Scratch,
    /// Whether the kernel can recover the crashed device, too.
    both: bool,
}

impl Case {
    /// Writes the files.
    ///
    /// # Panics
    /// If there is no space for them.
    pub fn new(crash: &Crash, recovered: &Recovered) -> Self {
        let scratch = Scratch::new("crash");
        Image::of_device(&scratch, FILES[0], &*recovered.dev);
        let both = crash.loss.is_all_or_nothing() || crash.loss.sector == recovered.blocksize;
        if both {
            Image::of_device(&scratch, FILES[1], &*crash.dev);
        }
        Self { scratch, both }
    }

    /// Verifies that `xfs_repair -n` finds nothing in the volume that xfskit recovered, and that
    /// the kernel shows the same tree. If no block can be torn, which the kernel does not handle,
    /// the kernel also recovers the crashed device to that tree. Most of the time is spent waiting.
    ///
    /// # Errors
    /// The first violation.
    pub fn verify(self) -> Result<(), String> {
        let [ours, theirs] = FILES.map(|name| Image::existing(&self.scratch, name));
        let by_us = |why| format!("as xfskit recovered it: {why}");
        verify::repair(&ours).map_err(by_us)?;
        let shown = verify::shown(&ours, &self.scratch).map_err(by_us)?;
        if !self.both {
            return Ok(());
        }
        let mount = Mount::read_write_with(&theirs, &self.scratch, "noatime")?;
        let linux = kernel::manifest(mount.path());
        mount.unmount()?;
        let differences = linux.differences(&shown, 10);
        if !differences.is_empty() {
            let differences = differences.join("\n");
            return Err(format!("the kernel recovers another tree: {differences}"));
        }
        verify::repair(&theirs).map_err(|why| format!("as the kernel recovered it: {why}"))
    }
}
