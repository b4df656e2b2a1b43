//! What is asked of a device after a crash.

use std::sync::Arc;

use xfskit_block::{BlockDevice, Event, OverlayDevice, RecordingDevice};
use xfskit_check::{Options, check};
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_oracle::{Image, Mount, Scratch, judge, kernel};
use xfskit_vfs::Fs;

use crate::crash::{Crash, Crashes, WEARS};
use crate::random::Random;
use crate::run::{Run, open};
use crate::tree::Seen;

/// A volume after its recovery, which was found in order.
#[derive(Debug)]
pub struct Recovered {
    /// What recovery in memory showed, and all that followed.
    seen: Vec<Seen>,
    /// What recovery on the device wrote, until the volume was closed.
    events: Vec<Event>,
    /// The device.
    dev: Arc<dyn BlockDevice>,
    /// Length of its blocks, in bytes.
    blocksize: usize,
}

/// Asks the first three questions of the crate.
///
/// # Errors
/// What is wrong.
pub fn ours(run: &Run, crash: &Crash) -> Result<Recovered, String> {
    let seen = in_memory(run, crash.dev.clone())?;
    run.judge(&seen, crash.returned, crash.begun)?;
    recovered(run, crash.dev.clone(), seen)
}

/// Recovers `dev`, which must show what was `seen` in memory, and go on doing so.
fn recovered(run: &Run, dev: Arc<dyn BlockDevice>, seen: Vec<Seen>) -> Result<Recovered, String> {
    // What follows changes the device.
    let recorder = Arc::new(RecordingDevice::new(Arc::new(OverlayDevice::new(dev))));
    let dev: Arc<dyn BlockDevice> = recorder.clone();
    let fs = open(Arc::clone(&dev)).map_err(|error| format!("recovery: {error}"))?;
    same(&seen, run.seen(&fs), "recovered")?;
    fs.close().map_err(|error| format!("closing: {error}"))?;
    let mut said = Vec::new();
    let report =
        check(&*dev, None, &Options::default(), &mut |finding| said.push(format!("{finding}")));
    let report = report.map_err(|error| format!("check: {error}"))?;
    if !report.clean() || !said.is_empty() {
        return Err(format!("check: {}", said.join("; ")));
    }
    let again =
        Volume::open(dev.clone(), &OpenOptions::default()).map_err(|e| format!("again: {e}"))?;
    if !again.replay().is_none_or(|replay| replay.clean) {
        return Err("the journal is not clean after closing".into());
    }
    let blocksize = 1 << again.geo().blocklog;
    same(&seen, run.seen(&Fs::new(again)), "closed")?;
    let events = recorder.events();
    Ok(Recovered { seen, events, dev, blocksize })
}

fn same<E: std::fmt::Display>(
    seen: &[Seen],
    now: Result<Vec<Seen>, E>,
    when: &str,
) -> Result<(), String> {
    match now {
        Ok(now) if now == seen => Ok(()),
        Ok(_) => Err(format!("another tree when {when}")),
        Err(error) => Err(format!("{when}: {error}")),
    }
}

/// The tree, as recovery in memory shows it.
fn in_memory(run: &Run, dev: Arc<dyn BlockDevice>) -> Result<Vec<Seen>, String> {
    let volume =
        Volume::open(dev, &OpenOptions::default()).map_err(|e| format!("in memory: {e}"))?;
    run.seen(&Fs::new(volume)).map_err(|error| format!("in memory: {error}"))
}

/// Cuts the recovery of `crash` at each of its writes, some of which arrive, and recovers again, to the same. Answers
/// how often it did.
///
/// # Errors
/// What is wrong.
pub fn again(
    run: &Run,
    crash: &Crash,
    first: &Recovered,
    random: &mut Random,
) -> Result<usize, String> {
    let mut cuts = Crashes::new(crash.dev.clone(), &first.events);
    let mut count = 0;
    while cuts.left() > 0 {
        cuts.advance();
        let cut = cuts.crash(WEARS[random.below(WEARS.len())], random);
        let at = format!("recovery cut at {} of {}, {:?}", cut.begun, first.events.len(), cut.wear);
        recovered(run, cut.dev, first.seen.clone()).map_err(|why| format!("{at}: {why}"))?;
        count += 1;
    }
    Ok(count)
}

/// The image as we recovered it, and as the crash left it.
const FILES: [&str; 2] = ["recovered.img", "crashed.img"];

/// A crash for the kernel and `xfs_repair -n` to judge, in files of its own.
#[derive(Debug)]
pub struct Case {
    scratch: Scratch,
    /// The kernel can be asked to recover it, too.
    both: bool,
}

impl Case {
    /// Writes the files.
    ///
    /// # Panics
    /// Where there is no room.
    pub fn new(crash: &Crash, recovered: &Recovered) -> Self {
        let scratch = Scratch::new("crash");
        Image::of_device(&scratch, FILES[0], &*recovered.dev);
        let both = crash.wear.is_all_or_nothing() || crash.wear.sector == recovered.blocksize;
        if both {
            Image::of_device(&scratch, FILES[1], &*crash.dev);
        }
        Self { scratch, both }
    }

    /// Asks: `xfs_repair -n` finds nothing in what we recovered, and the kernel shows the tree that we do. Where no
    /// block can be there in part, which the kernel does not bear, it also recovers the device itself, to that
    /// tree. All this is waiting, mostly.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge(self) -> Result<(), String> {
        let [ours, theirs] = FILES.map(|name| Image::existing(&self.scratch, name));
        let by_us = |why| format!("as we recovered it: {why}");
        judge::repair(&ours).map_err(by_us)?;
        let shown = judge::shown(&ours, &self.scratch).map_err(by_us)?;
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
        judge::repair(&theirs).map_err(|why| format!("as the kernel recovered it: {why}"))
    }
}
