//! Loop devices: whether the kernel sees a file through one.
//!
//! A volume in an image file is mounted through a loop device. That takes no lock on the file, so
//! nothing but a look at the loop devices tells that somebody else writes to it. Attached is taken for
//! in use: what the kernel keeps of the file in memory would not see our writes even where nothing is
//! mounted.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::ioctl;

/// How often a device that detaches itself after `umount` is looked at again, and after what time:
/// somebody who looks at it as well (udev) keeps it for a moment.
const LOOKS: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// What is behind a loop device, or what could be.
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

/// A loop device that shows something.
#[derive(Debug)]
struct Loop {
    name: String,
    sysfs: PathBuf,
    backing: Backing,
}

impl Loop {
    /// The loop device with this folder in `/sys/block`; `None` where it shows nothing.
    fn read(sysfs: PathBuf) -> Option<Self> {
        let name = sysfs.file_name()?.to_str()?.to_owned();
        let file = fs::read_to_string(sysfs.join("loop/backing_file")).ok()?;
        // The device itself knows best, if it may be asked: a path may be of another mount namespace,
        // and has ` (deleted)` behind it where the name is gone.
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

    /// The first byte it shows, and the one behind the last.
    fn range(&self) -> (u64, u64) {
        let start = self.number("loop/offset");
        (start, start.saturating_add(self.number("size").saturating_mul(512)))
    }

    /// True where both show a byte of the same file.
    fn overlaps(&self, other: &Self) -> bool {
        let ((start, end), (other_start, other_end)) = (self.range(), other.range());
        self.backing == other.backing && start < other_end && other_start < end
    }

    /// It goes away with its last user.
    fn is_autoclear(&self) -> bool {
        self.number("loop/autoclear") == 1
    }
}

/// All that show something.
fn all() -> Vec<Loop> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    let of_loops = |path: &PathBuf| path.join("loop").is_dir();
    devices.flatten().map(|entry| entry.path()).filter(of_loops).filter_map(Loop::read).collect()
}

/// The loop device through which the kernel sees what `meta` is of. For a loop device that is another
/// one that shows the same bytes.
pub(crate) fn attached_to(meta: &Metadata) -> Option<PathBuf> {
    let mut found = look(meta)?;
    for _ in 0..LOOKS {
        if !found.is_autoclear() {
            break;
        }
        sleep(PAUSE);
        found = look(meta)?;
    }
    Some(Path::new("/dev").join(found.name))
}

fn look(meta: &Metadata) -> Option<Loop> {
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
