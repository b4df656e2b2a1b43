//! Names the device of the kernel that is built on a block device: an array that mdadm has
//! assembled (at boot, without being asked), a logical volume, an opened LUKS container.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::device::Holder;
use crate::loops;

/// Returns the holder of a block device that cannot be opened exclusively.
pub(crate) fn of(meta: &Metadata) -> Holder {
    let sysfs = loops::sysfs_of(meta.rdev());
    sysfs.and_then(|sysfs| first(&sysfs)).map_or(Holder::Kernel, Holder::Stacked)
}

/// Returns the first device, by name, that is built on the one with the folder `sysfs`.
fn first(sysfs: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(sysfs.join("holders")).ok()?.flatten().map(|entry| entry.file_name());
    Some(Path::new("/dev").join(names.min()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_holder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(first(dir.path()), None);
        fs::create_dir(dir.path().join("holders")).unwrap();
        assert_eq!(first(dir.path()), None);
        for name in ["md127", "dm-0"] {
            fs::create_dir(dir.path().join("holders").join(name)).unwrap();
        }
        assert_eq!(first(dir.path()), Some("/dev/dm-0".into()));
    }
}
