//! Loop devices: detects that the kernel uses a file through one.
//!
//! A volume in an image file is mounted through a loop device. The kernel takes no lock on the
//! file, so only the list of loop devices shows that another program may write to it. An attached
//! file counts as in use even if nothing is mounted, because the kernel's cache of the file would
//! not see our writes.

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

/// An attached loop device.
#[derive(Debug)]
struct Loop {
    name: String,
    sysfs: PathBuf,
    backing: Backing,
}

impl Loop {
    /// Reads the loop device with this folder in `/sys/block`; `None` if nothing is attached.
    fn read(sysfs: PathBuf) -> Option<Self> {
        let name = sysfs.file_name()?.to_str()?.to_owned();
        let file = fs::read_to_string(sysfs.join("loop/backing_file")).ok()?;
        // The device itself is the best source, if it can be opened: a path may belong to another
        // mount namespace, and ends in ` (deleted)` if the name is gone.
        let backing = match File::open(Path::new("/dev").join(&name))
            .and_then(|device| ioctl::loop_status(&device))
        {
            Ok(status) if status.rdev != 0 => Backing::Device(status.rdev),
            Ok(status) => Backing::File(status.file.0, status.file.1),
            Err(_) => Backing::of(&fs::metadata(file.trim_end_matches('\n')).ok()?),
        };
        Some(Self { name, sysfs, backing })
    }

    fn number(&self, attribute: &str) -> u64 {
        let text = fs::read_to_string(self.sysfs.join(attribute)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Returns the first byte of the file that the device maps, and the byte after the last.
    fn range(&self) -> (u64, u64) {
        let start = self.number("loop/offset");
        (start, start.saturating_add(self.number("size").saturating_mul(512)))
    }

    /// Returns true if both map a common byte of the same file.
    fn overlaps(&self, other: &Self) -> bool {
        let ((start, end), (other_start, other_end)) = (self.range(), other.range());
        self.backing == other.backing && start < other_end && other_start < end
    }

    /// Returns true if the device detaches when its last user closes it.
    fn is_autoclear(&self) -> bool {
        self.number("loop/autoclear") == 1
    }
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
    let own = Path::new("/sys/dev/block").join(format!(
        "{}:{}",
        rustix::fs::major(meta.rdev()),
        rustix::fs::minor(meta.rdev())
    ));
    let own = fs::canonicalize(own).ok().filter(|_| matches!(wanted, Backing::Device(_)));
    let own = own.and_then(Loop::read);
    let in_the_way = |other: &Loop| match &own {
        Some(own) if own.name == other.name => false,
        Some(own) if own.overlaps(other) => true,
        _ => other.backing == wanted,
    };
    let at = loops.iter().position(in_the_way)?;
    Some(loops.swap_remove(at))
}
