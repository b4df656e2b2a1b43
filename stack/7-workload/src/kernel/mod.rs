//! The kernel side of a comparison: images behind loop devices, mounted until dropped. Needs root.
//!
//! | module | what |
//! | --- | --- |
//! | [`bulkstat`] | the ioctl with which XFS lists its inodes |

pub mod bulkstat;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs a command that must succeed, and returns its output.
///
/// # Errors
/// If the command cannot be started or fails; the error contains its message.
pub fn run(program: &str, args: &[&str]) -> io::Result<String> {
    let failed = |why: &dyn std::fmt::Display| {
        io::Error::other(format!("{program} {}: {why}", args.join(" ")))
    };
    let out = Command::new(program).args(args).output().map_err(|err| failed(&err))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned());
    }
    Err(failed(&String::from_utf8_lossy(&out.stderr).trim()))
}

/// Time in which other processes leave a mount that is taken down.
const LEAVE: Duration = Duration::from_secs(10);

/// Drops all clean pages, inodes and directory entries from the kernel's caches.
///
/// # Errors
/// Without root.
pub fn drop_clean() -> io::Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Writes all dirty data and then drops the kernel's caches.
///
/// # Errors
/// Without root.
pub fn drop_caches() -> io::Result<()> {
    rustix::fs::sync();
    drop_clean()
}

/// How often the kernel's XFS writes all changed metadata in place, however empty its journal is,
/// in hundredths of a second: `fs.xfs.xfssyncd_centisecs`.
const SYNC_INTERVAL: &str = "/proc/sys/fs/xfs/xfssyncd_centisecs";
/// The longest such interval: two hours.
const LONGEST_INTERVAL: &str = "720000";

/// While it exists, the kernel's XFS leaves changes in the journals of volumes that are mounted
/// after it was made. Dropping it restores the interval.
#[derive(Debug)]
pub struct LongSyncInterval {
    before: String,
}

impl LongSyncInterval {
    /// Sets the interval to the longest.
    ///
    /// # Errors
    /// Without root, or without the kernel's XFS.
    pub fn new() -> io::Result<Self> {
        let before = fs::read_to_string(SYNC_INTERVAL)?;
        fs::write(SYNC_INTERVAL, LONGEST_INTERVAL)?;
        Ok(Self { before })
    }
}

impl Drop for LongSyncInterval {
    fn drop(&mut self) {
        let _ = fs::write(SYNC_INTERVAL, self.before.trim());
    }
}

/// Has the kernel's XFS shut a volume down whose image cannot grow any more. Else it writes
/// metadata again for ever, and a program that waits for it cannot be ended.
fn give_up_without_space(device: &str) {
    let name = device.trim_start_matches("/dev/");
    let errors = Path::new("/sys/fs/xfs").join(name).join("error/metadata");
    // A kernel without the parameter retries.
    for error in ["ENOSPC", "EIO", "default"] {
        let _ = fs::write(errors.join(error).join("max_retries"), "0");
    }
}

/// A loop device that is detached when it is dropped.
#[derive(Debug)]
pub struct LoopDevice(String);

impl LoopDevice {
    /// Attaches `image` to a loop device, with direct I/O if the filesystem below supports it.
    ///
    /// # Errors
    /// Without root.
    pub fn new(image: &Path, read_only: bool) -> io::Result<Self> {
        let image =
            image.to_str().ok_or_else(|| io::Error::other("the name of the image is not UTF-8"))?;
        let how: &[&str] = if read_only { &["--read-only"] } else { &[] };
        let attach =
            |more: &[&str]| run("losetup", &[&["--find", "--show"], how, more, &[image]].concat());
        // A tmpfs of older kernels cannot do direct I/O; losetup then warns or fails.
        attach(&["--direct-io=on"]).or_else(|_| attach(&[])).map(Self)
    }

    /// Returns its name: `/dev/loop0`.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run("losetup", &["--detach", &self.0]);
    }
}

/// An XFS image that the kernel has mounted. Dropping it unmounts the image and detaches the loop
/// device.
#[derive(Debug)]
pub struct Mount {
    point: PathBuf,
    mounted: bool,
    device: LoopDevice,
}

impl Mount {
    /// Mounts `image` with options of mount(8); read-only if `ro` is among them.
    ///
    /// # Errors
    /// Without root, or if the kernel refuses the image.
    pub fn new(image: &Path, options: &str) -> io::Result<Self> {
        let device = LoopDevice::new(image, options.split(',').any(|word| word == "ro"))?;
        let name = device.name().trim_start_matches('/').replace('/', "-");
        let name = format!("xfskit-bench-{}-{name}", std::process::id());
        let point = std::env::temp_dir().join(name);
        fs::create_dir_all(&point)?;
        let target = point.to_string_lossy().into_owned();
        match run("mount", &["-t", "xfs", "-o", options, device.name(), &target]) {
            Ok(_) => {
                give_up_without_space(device.name());
                Ok(Self { point, mounted: true, device })
            }
            Err(err) => {
                let _ = fs::remove_dir(&point);
                Err(err)
            }
        }
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Returns the loop device.
    pub fn device(&self) -> &LoopDevice {
        &self.device
    }

    /// Unmounts the image; all data and metadata are then in place.
    ///
    /// # Errors
    /// If files are open on it.
    pub fn unmount(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.mounted) {
            self.leave()?;
            fs::remove_dir(&self.point)?;
        }
        Ok(())
    }
}

impl Mount {
    /// Unmounts. Another process may have something open for a moment: an indexer that found the
    /// mount, or a child between its fork(2) and execve(2).
    fn leave(&self) -> io::Result<()> {
        let end = Instant::now() + LEAVE;
        loop {
            match run("umount", &[&self.point.to_string_lossy()]) {
                Err(err) if Instant::now() < end && err.to_string().contains("busy") => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                left => return left.map(drop),
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(err) = self.end() {
            eprintln!("{err}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_whose_image_cannot_grow_does_not_wait_for_ever() {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let image = dir.path().join("image");
        let made = fs::File::create(&image).and_then(|file| file.set_len(300 << 20));
        made.expect("an image");
        let shown = image.to_string_lossy();
        let mount = run("mkfs.xfs", &["-q", &shown]).and_then(|_| Mount::new(&image, "rw"));
        let mount = match mount {
            Ok(mount) => mount,
            Err(why) => return eprintln!("skipped: the kernel cannot mount an image: {why}"),
        };
        let name = mount.device().name().trim_start_matches("/dev/");
        let retries = format!("/sys/fs/xfs/{name}/error/metadata/ENOSPC/max_retries");
        assert_eq!(fs::read_to_string(retries).expect("a number").trim(), "0");
        mount.unmount().expect("an unmount");
    }
}
