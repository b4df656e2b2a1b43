//! Loop devices: detects that the kernel uses a file through one.
//!
//! A volume in an image file is mounted through a loop device. The kernel takes no lock on the
//! file, so only the list of loop devices shows that another program may write to it. An attached
//! file counts as in use even if nothing is mounted, because the kernel's cache of the file would
//! not see our writes. Several loop devices may show bytes of one file, whole or by a partition.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::ioctl;

/// Number of retries, and the time between them, for a device that detaches itself after `umount`.
/// Another user (udev) may keep it for a moment.
const RETRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// The file that is, or could be, behind a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    /// A file: its device and its inode number.
    File(u64, u64),
    /// A block device: its number.
    Device(u64),
}

impl Backing {
    fn of(meta: &Metadata) -> Self {
        if meta.file_type().is_block_device() {
            Self::Device(meta.rdev())
        } else {
            Self::File(meta.dev(), meta.ino())
        }
    }
}

/// An attached loop device, or a partition of it.
#[derive(Debug)]
struct Loop {
    /// The name of the loop device.
    name: String,
    /// Its folder.
    disk: PathBuf,
    /// The folder of the partition; that of the loop device for all of it.
    part: PathBuf,
    backing: Backing,
}

impl Loop {
    /// Reads the loop device with this folder in sysfs, or the one of which that is a partition;
    /// `None` if nothing is attached.
    fn read(part: PathBuf) -> Option<Self> {
        let disk = if is_partition(&part) { part.parent()?.to_owned() } else { part.clone() };
        let name = disk.file_name()?.to_str()?.to_owned();
        let file = fs::read_to_string(disk.join("loop/backing_file")).ok()?;
        // The device itself is the best source, if it can be opened: a path may belong to another
        // mount namespace, and ends in ` (deleted)` if the name is gone.
        let backing = match File::open(Path::new("/dev").join(&name))
            .and_then(|device| ioctl::loop_status(&device))
        {
            Ok(status) if status.rdev != 0 => Backing::Device(status.rdev),
            Ok(status) => Backing::File(status.file.0, status.file.1),
            Err(_) => Backing::of(&fs::metadata(file.trim_end_matches('\n')).ok()?),
        };
        Some(Self { name, disk, part, backing })
    }

    /// Returns the first byte of the file that the device maps, and the byte after the last.
    fn range(&self) -> (u64, u64) {
        // Only a partition has a start.
        let ahead = number(&self.part.join("start")).saturating_mul(512);
        let start = number(&self.disk.join("loop/offset")).saturating_add(ahead);
        (start, start.saturating_add(number(&self.part.join("size")).saturating_mul(512)))
    }

    /// Returns true if a partition of the device with this folder is behind this one.
    fn is_on_partition_of(&self, device: &Path) -> bool {
        let Backing::Device(number) = self.backing else { return false };
        sysfs_of(number).is_some_and(|part| is_partition(&part) && part.parent() == Some(device))
    }

    /// Returns true if both map a common byte of the same file.
    fn overlaps(&self, other: &Self) -> bool {
        let ((start, end), (other_start, other_end)) = (self.range(), other.range());
        self.backing == other.backing && start < other_end && other_start < end
    }

    /// Returns true if the device detaches when its last user closes it.
    fn is_autoclear(&self) -> bool {
        number(&self.disk.join("loop/autoclear")) == 1
    }
}

/// Returns true for the folder of a partition.
fn is_partition(sysfs: &Path) -> bool {
    sysfs.join("partition").exists()
}

/// Returns the number in a file of sysfs; 0 if there is none.
fn number(file: &Path) -> u64 {
    fs::read_to_string(file).unwrap_or_default().trim().parse().unwrap_or(0)
}

/// Returns the folder of the block device with this number.
pub(crate) fn sysfs_of(device: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// Returns all attached loop devices.
fn all() -> Vec<Loop> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    let of_loops = |path: &PathBuf| path.join("loop").is_dir();
    devices.flatten().map(|entry| entry.path()).filter(of_loops).filter_map(Loop::read).collect()
}

/// Returns the loop device through which the kernel uses the file of `meta`. If that is itself a
/// loop device, returns another one that maps the same bytes.
pub(crate) fn attached_to(meta: &Metadata) -> Option<PathBuf> {
    let mut found = find(meta)?;
    for _ in 0..RETRIES {
        if !found.is_autoclear() {
            break;
        }
        sleep(PAUSE);
        found = find(meta)?;
    }
    Some(Path::new("/dev").join(found.name))
}

fn find(meta: &Metadata) -> Option<Loop> {
    let wanted = Backing::of(meta);
    let mut loops = all();
    let device = match wanted {
        Backing::Device(number) => sysfs_of(number),
        Backing::File(..) => None,
    };
    let own = device.clone().and_then(Loop::read);
    let in_the_way = |other: &Loop| match &own {
        Some(own) if own.name == other.name => false,
        Some(own) if own.overlaps(other) => true,
        _ => {
            let is_part = |device: &Path| other.is_on_partition_of(device);
            other.backing == wanted || device.as_deref().is_some_and(is_part)
        }
    };
    let at = loops.iter().position(in_the_way)?;
    Some(loops.swap_remove(at))
}
