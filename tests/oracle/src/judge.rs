//! Everybody who can judge a volume does: `xfskit check`, `xfs_repair -n`, and the kernel, which shows the tree that
//! xfskit shows.

use crate::image::{Image, Mount, Scratch};
use crate::manifest::Manifest;
use crate::need::{Need, needs};
use crate::tools::Xfsprogs;
use crate::{kernel, ours};

/// Incompatible features that xfs_repair 6.1 knows: parent pointers and exchange are newer.
const KNOWN_TO_6_1: u32 = 0x3f;

/// Judges a volume whose journal is clean. What the machine lacks is named, and left out.
///
/// # Errors
/// What somebody finds.
pub fn volume(image: &Image, scratch: &Scratch) -> Result<(), String> {
    let verdict = ours::verdict(image);
    if !verdict.is_silent() {
        return Err(format!("check: {verdict:#?}"));
    }
    if needs(&[Need::Xfsprogs]) {
        repair(image)?;
    }
    if needs(&[Need::Xfsprogs, Need::Mount]) {
        shown(image, scratch)?;
    }
    Ok(())
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
