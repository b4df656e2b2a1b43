//! Volumes that this program mounts, so that any program can use them.
//!
//! The server of mounts is on the same floor as this crate: a caller from above hands it in.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use xfskit_block::{BlockDevice, OpenMode};

/// Mounts volumes.
pub trait Mounter: Debug + Send + Sync {
    /// Opens the volume on `device` and mounts it on `dir`. It is unmounted and closed when the
    /// result is dropped.
    ///
    /// # Errors
    /// The volume cannot be opened, or the caller may not mount.
    fn mount(
        &self,
        device: Arc<dyn BlockDevice>,
        mode: OpenMode,
        dir: &Path,
    ) -> io::Result<Box<dyn Served>>;
}

/// A volume that is mounted.
pub trait Served: Debug + Send + Sync {
    /// Unmounts, and closes the volume.
    ///
    /// # Errors
    /// Content or metadata cannot be written.
    fn unmount(self: Box<Self>) -> io::Result<()>;
}

/// A volume that is mounted on a directory of its own, until this is dropped.
#[derive(Debug)]
pub(crate) struct ServedMount {
    /// `None` when it is unmounted.
    served: Option<Box<dyn Served>>,
    dir: PathBuf,
}

impl ServedMount {
    /// Mounts the volume on `device`.
    pub(crate) fn new(
        mounter: &dyn Mounter,
        device: Arc<dyn BlockDevice>,
        mode: OpenMode,
    ) -> io::Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("xfskit-bench-{}-mount-{number}", std::process::id());
        let mut mount = Self { served: None, dir: std::env::temp_dir().join(name) };
        std::fs::create_dir_all(&mount.dir)?;
        mount.served = Some(mounter.mount(device, mode, &mount.dir)?);
        Ok(mount)
    }

    /// Returns the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Unmounts; all data and metadata are then in place.
    pub(crate) fn unmount(mut self) -> io::Result<()> {
        self.served.take().map_or(Ok(()), Served::unmount)
    }
}

impl Drop for ServedMount {
    fn drop(&mut self) {
        drop(self.served.take());
        let _ = std::fs::remove_dir(&self.dir);
    }
}
