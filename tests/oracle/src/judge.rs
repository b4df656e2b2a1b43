//! Everybody who can judge a volume does: `xfskit check`, `xfs_repair -n`, and the kernel, which shows the tree that
//! xfskit shows.

use std::path::Path;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};

use crate::image::{Image, Mount, Scratch};
use crate::manifest::Manifest;
use crate::need::{Need, needs, note};
use crate::tools::Xfsprogs;
use crate::{kernel, ours};

/// Incompatible features that xfs_repair 6.1 knows: parent pointers and exchange are newer.
const KNOWN_TO_6_1: u32 = 0x3f;

/// Judges a volume whose journal is clean. What the machine lacks is named, and left out.
///
/// # Errors
/// What somebody finds.
pub fn volume(image: &Image, scratch: &Scratch) -> Result<(), String> {
    volume_with(repair, image, scratch)
}

/// The same with `repair` in the place of [`repair`].
///
/// # Errors
/// What somebody finds.
pub fn volume_with(
    repair: impl Fn(&Image) -> Result<(), String>,
    image: &Image,
    scratch: &Scratch,
) -> Result<(), String> {
    let verdict = ours::verdict(image);
    if !verdict.is_silent() {
        return Err(format!("check: {verdict:#?}"));
    }
    if needs(&[Need::Xfsprogs]) {
        repair(image)?;
    }
    if needs(&[Need::Xfsprogs, Need::Mount]) {
        match Mount::read_only(image, scratch) {
            Err(why) if may_be_unknown(image) => note(&why),
            _ => drop(shown(image, scratch)?),
        }
    }
    Ok(())
}

/// The same for what lies on a device.
///
/// # Errors
/// What somebody finds.
pub fn device(dev: &dyn BlockDevice) -> Result<(), String> {
    let scratch = Scratch::new("judged");
    volume(&Image::of_device(&scratch, "volume.img", dev), &scratch)
}

/// The same for a file that lies anywhere.
///
/// # Errors
/// What somebody finds, or why the file cannot be read.
pub fn file(path: &Path) -> Result<(), String> {
    let dev = FileDevice::open(path, OpenMode::ReadOnly).map_err(|why| why.to_string())?;
    device(&dev)
}

/// Whether this is a form of volume that not every kernel mounts: blocks larger than a page, names without case.
fn may_be_unknown(image: &Image) -> bool {
    let geo = ours::open(image).geo().clone();
    geo.blocklog > 12 || geo.features.ascii_ci()
}

/// Asks `xfs_repair -n` 6.1, or 6.13 where the older one does not know the volume.
///
/// # Errors
/// What it finds.
pub fn repair(image: &Image) -> Result<(), String> {
    let volume = ours::open(image);
    let old = volume.superblock().features_incompat.get() & !KNOWN_TO_6_1 == 0;
    let tools = if old { Xfsprogs::installed() } else { Xfsprogs::newer() };
    // With no second superblock to compare with, it wants to be told that this is meant.
    let alone = volume.geo().agcount == 1;
    let options: &[&str] = if alone { &["-o", "force_geometry"] } else { &[] };
    tools.map_or(Ok(()), |tools| tools.repair_n(image, options))
}

/// The tree that Linux shows, which must be the one that xfskit shows.
///
/// # Errors
/// Where they differ, or the volume cannot be mounted.
pub fn shown(image: &Image, scratch: &Scratch) -> Result<Manifest, String> {
    let mount = Mount::read_only(image, scratch)?;
    let linux = kernel::manifest(mount.path());
    mount.unmount()?;
    match ours::differences(image, &linux) {
        differences if differences.is_empty() => Ok(linux),
        differences => Err(differences.join("\n")),
    }
}
