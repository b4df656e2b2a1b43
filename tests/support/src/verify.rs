//! Verifies a volume with all tools: `xfskit check`, `xfs_repair -n`, and the kernel, which must
//! show the same tree as xfskit.

use std::path::Path;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};

use crate::image::{Image, Mount, Scratch};
use crate::manifest::Manifest;
use crate::need::{Need, needs};
use crate::tools::Xfsprogs;
use crate::{kernel, note, ours};

/// Incompatible features that xfs_repair 6.1 knows. Parent pointers and exchange-range are newer.
const KNOWN_TO_6_1: u32 = 0x3f;

/// Verifies a volume with a clean journal. Tools that the machine lacks are named in a note and
/// left out.
///
/// # Errors
/// The first finding.
pub fn volume(image: &Image, scratch: &Scratch) -> Result<(), String> {
    volume_with(repair, image, scratch)
}

/// Verifies a volume as [`volume`] does, with `repair` in place of [`repair`].
///
/// # Errors
/// The first finding.
pub fn volume_with(
    repair: impl Fn(&Image) -> Result<(), String>,
    image: &Image,
    scratch: &Scratch,
) -> Result<(), String> {
    let report = ours::check(image);
    if !report.is_clean() {
        return Err(format!("check: {report:#?}"));
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

/// Verifies the volume on a device.
///
/// # Errors
/// The first finding.
pub fn device(dev: &dyn BlockDevice) -> Result<(), String> {
    let scratch = Scratch::new("verified");
    volume(&Image::of_device(&scratch, "volume.img", dev), &scratch)
}

/// Verifies the volume in a file at any path.
///
/// # Errors
/// The first finding, or the error that kept the file from being read.
pub fn file(path: &Path) -> Result<(), String> {
    let dev = FileDevice::open(path, OpenMode::ReadOnly).map_err(|why| why.to_string())?;
    device(&dev)
}

/// Returns whether some kernels refuse this volume: blocks larger than a page, or case-insensitive
/// names.
fn may_be_unknown(image: &Image) -> bool {
    let geo = ours::open(image).geo().clone();
    geo.blocklog > 12 || geo.features.ascii_ci()
}

/// Runs `xfs_repair -n` of version 6.1, or 6.13 for features that the older one does not know.
///
/// # Errors
/// Its findings.
pub fn repair(image: &Image) -> Result<(), String> {
    let volume = ours::open(image);
    let old = volume.superblock().features_incompat.get() & !KNOWN_TO_6_1 == 0;
    let tools = if old { Xfsprogs::installed() } else { Xfsprogs::newer() };
    // Without a second superblock to compare with, xfs_repair needs an option to continue.
    let alone = volume.geo().agcount == 1;
    let options: &[&str] = if alone { &["-o", "force_geometry"] } else { &[] };
    tools.map_or(Ok(()), |tools| tools.repair_n(image, options))
}

/// Returns the tree that Linux shows, and compares it with the tree that xfskit shows.
///
/// # Errors
/// The differences, or the error of the mount.
pub fn shown(image: &Image, scratch: &Scratch) -> Result<Manifest, String> {
    let mount = Mount::read_only(image, scratch)?;
    let linux = kernel::manifest(mount.path());
    mount.unmount()?;
    match ours::differences(image, &linux) {
        differences if differences.is_empty() => Ok(linux),
        differences => Err(differences.join("\n")),
    }
}
