//! The kernel's side of a comparison: images behind loop devices, mounted until dropped. Needs root.
//!
//! | module | what |
//! | --- | --- |
//! | [`bulkstat`] | the ioctl with which XFS lists its inodes |

pub mod bulkstat;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command, which must succeed, and answers with what it printed.
///
/// # Errors
/// Where it cannot be started or fails, with what it said.
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

/// Forgets every page, inode and name that the machine caches and that is not dirty.
///
/// # Errors
/// Without root.
pub fn drop_clean() -> io::Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Writes what is dirty, and then forgets everything that the machine caches.
///
/// # Errors
/// Without root.
pub fn drop_caches() -> io::Result<()> {
    rustix::fs::sync();
    drop_clean()
}

/// An image behind a loop device until dropped.
#[derive(Debug)]
pub struct LoopDevice(String);

impl LoopDevice {
    /// Puts `image` behind one, past the cache of the image's own pages where the filesystem below can do that.
    ///
    /// # Errors
    /// Without root.
    pub fn new(image: &Path, read_only: bool) -> io::Result<Self> {
        let image = image.to_str().ok_or_else(|| io::Error::other("an image name in UTF-8"))?;
        let how: &[&str] = if read_only { &["--read-only"] } else { &[] };
        let attach =
            |more: &[&str]| run("losetup", &[&["--find", "--show"], how, more, &[image]].concat());
        // A tmpfs of older kernels cannot do direct I/O; losetup then warns or fails.
        attach(&["--direct-io=on"]).or_else(|_| attach(&[])).map(Self)
    }

    /// Its name: `/dev/loop0`.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run("losetup", &["--detach", &self.0]);
    }
}

/// An image of XFS that the kernel has mounted. Unmounted when dropped; then the loop device goes.
#[derive(Debug)]
pub struct Mount {
    point: PathBuf,
    mounted: bool,
    device: LoopDevice,
}

impl Mount {
    /// Mounts `image` with these options of mount(8); read-only where `ro` is among them.
    ///
    /// # Errors
    /// Without root, or where the kernel does not take the image.
    pub fn new(image: &Path, options: &str) -> io::Result<Self> {
        let device = LoopDevice::new(image, options.split(',').any(|word| word == "ro"))?;
        let name = device.name().trim_start_matches('/').replace('/', "-");
        let name = format!("xfskit-bench-{}-{name}", std::process::id());
        let point = std::env::temp_dir().join(name);
        fs::create_dir_all(&point)?;
        let target = point.to_string_lossy().into_owned();
        match run("mount", &["-t", "xfs", "-o", options, device.name(), &target]) {
            Ok(_) => Ok(Self { point, mounted: true, device }),
            Err(err) => {
                let _ = fs::remove_dir(&point);
                Err(err)
            }
        }
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// On which device.
    pub fn device(&self) -> &LoopDevice {
        &self.device
    }

    /// Unmounts it: everything is in place.
    ///
    /// # Errors
    /// Where somebody has files open there.
    pub fn unmount(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.mounted) {
            run("umount", &[&self.point.to_string_lossy()])?;
            fs::remove_dir(&self.point)?;
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(err) = self.end() {
            eprintln!("{err}");
        }
    }
}
