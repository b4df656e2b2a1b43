//! What is asked of a device after a crash.

use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_check::{Options, check};
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_oracle::{Image, Mount, Scratch, Xfsprogs};
use xfskit_test_recovery::{compare, complaints};
use xfskit_vfs::Fs;

use crate::crash::Crash;
use crate::run::{Run, open};
use crate::tree;

/// Asks the first three questions of the crate.
///
/// # Errors
/// What is wrong.
pub fn ours(run: &Run, crash: &Crash) -> Result<(), String> {
    let seen = in_memory(crash.dev.clone())?;
    let allowed = run.allowed(crash.returned, crash.begun);
    if !allowed.contains(&seen) {
        return Err(format!("a tree that never was ({} were allowed)", allowed.len()));
    }
    // What follows changes the device.
    let dev: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::new(crash.dev.clone()));
    let fs = open(Arc::clone(&dev)).map_err(|error| format!("recovery: {error}"))?;
    same(seen, tree::digest(&fs), "recovered")?;
    fs.close().map_err(|error| format!("closing: {error}"))?;
    let mut said = Vec::new();
    let report =
        check(&*dev, None, &Options::default(), &mut |finding| said.push(format!("{finding}")));
    let report = report.map_err(|error| format!("check: {error}"))?;
    if !report.clean() || !said.is_empty() {
        return Err(format!("check: {}", said.join("; ")));
    }
    let again = Volume::open(dev, &OpenOptions::default()).map_err(|e| format!("again: {e}"))?;
    if !again.replay().is_none_or(|replay| replay.clean) {
        return Err("the journal is not clean after closing".into());
    }
    same(seen, tree::digest(&Fs::new(again)), "closed")
}

fn same<E: std::fmt::Display>(seen: u64, now: Result<u64, E>, when: &str) -> Result<(), String> {
    match now {
        Ok(now) if now == seen => Ok(()),
        Ok(_) => Err(format!("another tree when {when}")),
        Err(error) => Err(format!("{when}: {error}")),
    }
}

/// The tree, as recovery in memory shows it.
fn in_memory(dev: Arc<OverlayDevice>) -> Result<u64, String> {
    let volume =
        Volume::open(dev, &OpenOptions::default()).map_err(|e| format!("in memory: {e}"))?;
    tree::digest(&Fs::new(volume)).map_err(|error| format!("in memory: {error}"))
}

/// Asks the kernel: it recovers the device, to our tree, and `xfs_repair -n` finds nothing.
///
/// # Errors
/// What is wrong.
///
/// # Panics
/// Where the kernel does not recover it, or to another tree.
pub fn kernels(name: &str, crash: &Crash) -> Result<(), String> {
    let scratch = Scratch::new(name);
    let image = Image::of_device(&scratch, "crashed.img", &*crash.dev);
    compare(name, &image, &scratch);
    let theirs = image.copy("kernels.img");
    Mount::recover(&theirs, &scratch)?;
    let tools = Xfsprogs::installed().ok_or("no xfsprogs")?;
    match complaints(&tools, &theirs) {
        said if said.is_empty() => Ok(()),
        said => Err(said),
    }
}
