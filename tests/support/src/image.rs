//! Scratch directories, sparse images and mounts. Each ends when its guard drops, also when a test
//! panics. The borrows force the order mount, image, scratch.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use xfskit_block::BlockDevice;
use xfskit_units::{ByteOffset, index};

use crate::loops::{Loop, retried};
use crate::tools::run;

/// The directory of one test, removed with its contents at the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a fresh directory; `purpose` is part of its name.
    pub fn new(purpose: &str) -> Self {
        Self::below(&Self::root(), purpose)
    }

    /// Creates a fresh directory on a disk, with space for gigabytes of data.
    pub fn on_disk(purpose: &str) -> Self {
        let chosen = std::env::var_os("XFSKIT_SCRATCH").map(PathBuf::from);
        Self::below(&chosen.unwrap_or_else(std::env::temp_dir), purpose)
    }

    fn below(root: &Path, purpose: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("xfskit-oracle.{}.{number}.{purpose}", std::process::id());
        let path = root.join(name);
        fs::create_dir_all(&path).expect("scratch directory");
        Self(path)
    }

    /// Returns `/dev/shm` if it is large enough (images are sparse), else the temporary directory.
    fn root() -> PathBuf {
        if let Some(chosen) = std::env::var_os("XFSKIT_SCRATCH") {
            return PathBuf::from(chosen);
        }
        let memory = Path::new("/dev/shm");
        let roomy = rustix::fs::statvfs(memory)
            .is_ok_and(|vfs| vfs.f_bavail.saturating_mul(vfs.f_frsize) >= 6 << 30);
        if roomy { memory.to_path_buf() } else { std::env::temp_dir() }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns whether sparse files of `bytes` bytes are possible here (ext4 ends at 16 TiB).
    pub fn holds(&self, bytes: u64) -> bool {
        let path = self.0.join("holds");
        let made = File::create(&path).and_then(|file| file.set_len(bytes));
        let _ = fs::remove_file(path);
        made.is_ok()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::env::var_os("XFSKIT_KEEP").is_none() {
            // A directory that cannot be removed, for example because of a stuck mount, is left
            // behind.
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A sparse file that holds a volume.
#[derive(Debug)]
pub struct Image<'scratch> {
    path: PathBuf,
    scratch: &'scratch Scratch,
    /// External log, for `-l logdev=`.
    log: Option<PathBuf>,
}

impl<'scratch> Image<'scratch> {
    /// Creates a file of `bytes` bytes without data.
    pub fn sparse(scratch: &'scratch Scratch, name: &str, bytes: u64) -> Self {
        let path = scratch.path().join(name);
        File::create(&path).and_then(|file| file.set_len(bytes)).expect("sparse image");
        Self { path, scratch, log: None }
    }

    /// Returns an image over the file of that name in `scratch`.
    pub fn existing(scratch: &'scratch Scratch, name: &str) -> Self {
        Self { path: scratch.path().join(name), scratch, log: None }
    }

    /// Creates a copy of a device's content, with holes kept.
    pub fn of_device(scratch: &'scratch Scratch, name: &str, device: &dyn BlockDevice) -> Self {
        let image = Self::sparse(scratch, name, device.size().0);
        let file = File::options().write(true).open(&image.path).expect("the image");
        let (mut piece, zeroes) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        for start in (0..device.size().0).step_by(piece.len()) {
            let len = index(device.size().0 - start).min(piece.len());
            device.read_at(ByteOffset(start), &mut piece[..len]).expect("readable");
            if piece[..len] != zeroes[..len] {
                file.write_all_at(&piece[..len], start).expect("written");
            }
        }
        image
    }

    /// Adds a second file of `log_bytes` bytes for the log; [`Self::log`] returns its path.
    pub fn with_external_log(mut self, log_bytes: u64) -> Self {
        let path = self.path.with_extension("log");
        File::create(&path).and_then(|file| file.set_len(log_bytes)).expect("sparse log");
        self.log = Some(path);
        self
    }

    /// Creates a copy of the current bytes, with holes kept.
    pub fn copy(&self, name: &str) -> Self {
        let path = self.scratch.path().join(name);
        let copy = |from: &Path, to: &Path| {
            run(Command::new("cp").arg("--sparse=always").arg(from).arg(to)).expect("copy");
        };
        copy(&self.path, &path);
        let log = self.log.as_deref().map(|log| {
            let to = path.with_extension("log");
            copy(log, &to);
            to
        });
        Self { path, scratch: self.scratch, log }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the external log, if there is one.
    pub fn log(&self) -> Option<&Path> {
        self.log.as_deref()
    }
}

/// A mounted image, unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    log: Option<Loop>,
}

impl Mount {
    /// Mounts the image for writing.
    pub fn read_write(image: &Image, scratch: &Scratch) -> Result<Self, String> {
        Self::read_write_with(image, scratch, "")
    }

    /// Mounts the image for writing with more mount options, separated by commas.
    pub fn read_write_with(image: &Image, scratch: &Scratch, more: &str) -> Result<Self, String> {
        let options = ["loop,nouuid", more].join(if more.is_empty() { "" } else { "," });
        Self::with_options(image, scratch, &options)
    }

    /// Mounts the image for writing, with the kernel's check for duplicate UUIDs.
    pub fn checked(image: &Image, scratch: &Scratch) -> Result<Self, String> {
        Self::with_options(image, scratch, "loop")
    }

    /// Mounts the image read-only. The kernel refuses a dirty log, since the loop device cannot be
    /// written.
    pub fn read_only(image: &Image, scratch: &Scratch) -> Result<Self, String> {
        Self::with_options(image, scratch, "loop,nouuid,ro,noatime")
    }

    fn with_options(image: &Image, scratch: &Scratch, options: &str) -> Result<Self, String> {
        let log = image.log().map(|log| Loop::attach(log, &[])).transpose()?;
        let mut options = options.to_owned();
        if let Some(device) = &log {
            options = format!("{options},logdev={}", device.path().display());
        }
        let mut mounted = Self::of(image.path(), scratch, &options)?;
        mounted.log = log;
        Ok(mounted)
    }

    /// Mounts a device, or an image with the option `loop`.
    pub fn of(device: &Path, scratch: &Scratch, options: &str) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = scratch.path().join(format!("mnt{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        run(Command::new("mount").args(["-t", "xfs", "-o", options]).arg(device).arg(&path))?;
        Ok(Self { path, log: None })
    }

    /// Lets the kernel recover the log, and unmounts.
    pub fn recover(image: &Image, scratch: &Scratch) -> Result<(), String> {
        Self::read_write(image, scratch)?.unmount()
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Shuts the volume down at once, as a crash would, after a log flush if `flush_log` is set.
    pub fn shutdown(&self, flush_log: bool) -> Result<(), String> {
        let command = if flush_log { "shutdown -f" } else { "shutdown" };
        run(Command::new("xfs_io").args(["-x", "-c", command]).arg(&self.path)).map(drop)
    }

    /// Unmounts and returns the error, which `drop` cannot.
    pub fn unmount(mut self) -> Result<(), String> {
        self.leave()
    }

    fn leave(&mut self) -> Result<(), String> {
        if self.path.as_os_str().is_empty() {
            return Ok(());
        }
        let path = std::mem::take(&mut self.path);
        // Another process may hold the mount for a moment: a desktop's indexer, or a child between
        // fork and exec, which closes its copies of the parent's files first. Where one of these is
        // below a frozen mount, the child waits for the thaw.
        let unmounted =
            retried(Duration::from_mins(1), || run(Command::new("umount").arg(&path)).map(drop));
        if let Err(refusal) = unmounted {
            let held = holders(&path);
            let _ = Command::new("umount").arg("--lazy").arg(&path).status();
            return Err(format!("{refusal}held by {held:?}"));
        }
        let _ = fs::remove_dir(&path);
        Ok(())
    }
}

/// Returns the processes that have files or directories below `mount` open: the name of each, and
/// what it holds.
fn holders(mount: &Path) -> Vec<String> {
    let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let mut held = Vec::new();
    for process in list(Path::new("/proc")) {
        let process = process.path();
        let links = list(&process.join("fd")).map(|fd| fd.path());
        for link in links.chain([process.join("cwd"), process.join("root")]) {
            if fs::read_link(&link).is_ok_and(|place| place.starts_with(mount)) {
                let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
                held.push(format!("{} {}", name.trim(), link.display()));
            }
        }
    }
    held
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(why) = self.leave()
            && !std::thread::panicking()
        {
            panic!("{why}");
        }
    }
}
