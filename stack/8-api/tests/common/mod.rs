//! Volumes and arrays for the tests of the facade.

pub(crate) mod array;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfskit::raw::VolumeOptionsExt as _;
use xfskit::raw::block::{BlockDevice, MemDevice};
use xfskit::raw::units::ByteLen;
use xfskit::{Volume, VolumeOptions};
use xfskit_test_support::{kept, verify};

/// Unpacks a kept image, which the kernel filled.
pub(crate) fn unpacked(name: &str, dir: &Path) -> PathBuf {
    kept::file(name, dir)
}

/// A volume that the kernel filled, open for reading.
pub(crate) fn kept() -> (tempfile::TempDir, Volume) {
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::open(unpacked("v5", dir.path())).unwrap();
    (dir, volume)
}

/// A new volume in memory, open for writing.
pub(crate) fn made() -> (Arc<dyn BlockDevice>, Volume) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(300 << 20)));
    let mut options = xfskit::raw::mkfs::Options::default();
    options.sub("-i", "exchange=1").unwrap();
    let volume = xfskit::raw::make(Arc::clone(&device), &options).unwrap();
    (device, volume)
}

/// A closed volume, opened again for writing after all of it was verified.
pub(crate) fn reopened(device: &Arc<dyn BlockDevice>) -> Volume {
    verify::device(&**device).unwrap();
    VolumeOptions::new().write(true).open_device(Arc::clone(device), None).unwrap()
}
