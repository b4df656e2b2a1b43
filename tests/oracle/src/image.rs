//! Scratch directories, sparse images and mounts. Each ends with its guard, also when a test
//! panics; the guards drop in the order mount, image, scratch because they borrow in that order.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use xfskit_block::BlockDevice;
use xfskit_units::{ByteOffset, index};

use crate::tools::run;

/// A directory of one test, removed with everything in it at the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A fresh directory; `purpose` is part of its name.
    pub fn new(purpose: &str) -> Self {
        Self::below(&Self::root(), purpose)
    }

    /// The same where gigabytes of data have room.
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

    /// Memory where there is plenty of it (images are sparse), else the temporary directory.
    fn root() -> PathBuf {
        if let Some(chosen) = std::env::var_os("XFSKIT_SCRATCH") {
            return PathBuf::from(chosen);
        }
        let memory = Path::new("/dev/shm");
        let roomy = rustix::fs::statvfs(memory)
            .is_ok_and(|vfs| vfs.f_bavail.saturating_mul(vfs.f_frsize) >= 6 << 30);
        if roomy { memory.to_path_buf() } else { std::env::temp_dir() }
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether sparse files of `bytes` bytes are possible here (16 TiB is the end on ext4).
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
            // What cannot be removed (a mount that would not end) is left for the reader.
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A file that holds a volume, sparse.
#[derive(Debug)]
pub struct Image<'scratch> {
    path: PathBuf,
    scratch: &'scratch Scratch,
    /// External log, for `-l logdev=`.
    log: Option<PathBuf>,
}

impl<'scratch> Image<'scratch> {
    /// An all-hole file of `bytes` bytes.
    pub fn sparse(scratch: &'scratch Scratch, name: &str, bytes: u64) -> Self {
        let path = scratch.path().join(name);
        File::create(&path).and_then(|file| file.set_len(bytes)).expect("sparse image");
        Self { path, scratch, log: None }
    }

    /// The file of that name that is in `scratch` already.
    pub fn existing(scratch: &'scratch Scratch, name: &str) -> Self {
        Self { path: scratch.path().join(name), scratch, log: None }
    }

    /// A file that holds what a device does, holes kept.
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

    /// The same with a second file of `log_bytes` bytes for the log; [`Self::log`] names it.
    pub fn with_external_log(mut self, log_bytes: u64) -> Self {
        let path = self.path.with_extension("log");
        File::create(&path).and_then(|file| file.set_len(log_bytes)).expect("sparse log");
        self.log = Some(path);
        self
    }

    /// A copy of the bytes as they are now, holes kept.
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

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the external log, if there is one.
    pub fn log(&self) -> Option<&Path> {
        self.log.as_deref()
    }
}

/// A loop device over a file, for what `mount -o loop` does not attach by itself.
#[derive(Debug)]
struct Loop(PathBuf);

impl Loop {
    fn attach(file: &Path) -> Result<Self, String> {
        let device = run(Command::new("losetup").args(["--find", "--show"]).arg(file))?;
        Ok(Self(PathBuf::from(device.trim())))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A mounted image; unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    _log: Option<Loop>,
}

impl Mount {
    /// Mounts to change the tree.
    pub fn read_write(image: &Image, scratch: &Scratch) -> Result<Self, String> {
        Self::read_write_with(image, scratch, "")
    }

    /// The same with more mount options, separated by commas.
    pub fn read_write_with(image: &Image, scratch: &Scratch, more: &str) -> Result<Self, String> {
        let options = ["loop,nouuid", more].join(if more.is_empty() { "" } else { "," });
        Self::with_options(image, scratch, &options)
    }

    /// Mounts to change the tree, unless another volume with the same UUID is mounted.
    pub fn checked(image: &Image, scratch: &Scratch) -> Result<Self, String> {
        Self::with_options(image, scratch, "loop")
    }

    /// Mounts to look. A dirty log is refused: the loop device cannot be written.
    pub fn read_only(image: &Image, scratch: &Scratch) -> Result<Self, String> {
        Self::with_options(image, scratch, "loop,nouuid,ro,noatime")
    }

    fn with_options(image: &Image, scratch: &Scratch, options: &str) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = scratch.path().join(format!("mnt{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let log = image.log().map(Loop::attach).transpose()?;
        let mut options = options.to_owned();
        if let Some(Loop(device)) = &log {
            options = format!("{options},logdev={}", device.display());
        }
        run(Command::new("mount")
            .args(["-t", "xfs", "-o", &options])
            .arg(image.path())
            .arg(&path))?;
        Ok(Self { path, _log: log })
    }

    /// Has the kernel recover the log, and nothing else.
    pub fn recover(image: &Image, scratch: &Scratch) -> Result<(), String> {
        Self::read_write(image, scratch)?.unmount()
    }

    /// Where the volume's root directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stops the volume at once, as a crash would, with its log flushed first or not.
    pub fn shutdown(&self, flush_log: bool) -> Result<(), String> {
        let command = if flush_log { "shutdown -f" } else { "shutdown" };
        run(Command::new("xfs_io").args(["-x", "-c", command]).arg(&self.path)).map(drop)
    }

    /// Unmounts and says whether that went well, which `drop` cannot.
    pub fn unmount(mut self) -> Result<(), String> {
        self.leave()
    }

    fn leave(&mut self) -> Result<(), String> {
        if self.path.as_os_str().is_empty() {
            return Ok(());
        }
        let path = std::mem::take(&mut self.path);
        let mut refusal = String::new();
        // Somebody (a desktop's indexer, a child that is being born or dying) may hold it for a moment.
        for n in 0..12 {
            match run(Command::new("umount").arg(&path)) {
                Ok(_) => {
                    let _ = fs::remove_dir(&path);
                    return Ok(());
                }
                Err(why) => refusal = why,
            }
            std::thread::sleep(Duration::from_millis(2 << n));
        }
        let _ = Command::new("umount").arg("--lazy").arg(&path).status();
        Err(refusal)
    }
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
