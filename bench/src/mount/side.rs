//! The filesystems that are measured, and their mounts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;

use super::requests::Requests;
use super::server::{Server, ServerUsage};
use super::uring::Offer;
use super::{Bench, is_installed, passthrough};
use crate::frame::Result;
use crate::kernel;

/// Attempts to reach our mount.
const CONTROL_LOOKS: u32 = 100;
/// Time between them.
const CONTROL_LOOK: Duration = Duration::from_millis(20);

/// A filesystem that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// `xfskit mount` of an image with XFS.
    Xfskit,
    /// The kernel's XFS, on a loop device with direct I/O.
    Kernel,
    /// passthrough_ll of libfuse over such a mount.
    #[value(name = "passthrough_ll")]
    Passthrough,
    /// fuse2fs of e2fsprogs on an image with ext4.
    Fuse2fs,
    /// `xfskit mount -o io_uring`.
    #[value(name = "xfskit-ring")]
    Ring,
}

impl Side {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::Xfskit, Self::Kernel, Self::Passthrough, Self::Fuse2fs, Self::Ring];

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xfskit => "xfskit mount",
            Self::Kernel => "kernel",
            Self::Passthrough => "passthrough_ll",
            Self::Fuse2fs => "fuse2fs",
            Self::Ring => "xfskit-ring",
        }
    }

    /// Returns true for our mounts.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Xfskit | Self::Ring)
    }

    /// Returns true if a failure of this side ends the run.
    pub fn must_work(self) -> bool {
        self.is_ours() || self == Self::Kernel
    }

    /// Describes its storage.
    pub fn storage(self) -> &'static str {
        match self {
            Self::Xfskit => "a file",
            Self::Ring => "a file, io_uring",
            Self::Kernel => "loop device",
            Self::Passthrough => "kernel, loop device",
            Self::Fuse2fs => "a file, ext4",
        }
    }

    /// Returns its position in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns why this side cannot be measured here, if so. passthrough_ll is built first.
    pub fn missing(self, bench: &Bench) -> Option<String> {
        let missing = |program: &str| (!is_installed(program)).then(|| format!("no {program}"));
        let served = || (!Path::new("/dev/fuse").exists()).then(|| "no /dev/fuse".to_owned());
        match self {
            Self::Xfskit | Self::Ring if !bench.xfskit.exists() => {
                Some(format!("no {}", bench.xfskit.display()))
            }
            Self::Xfskit => missing("mkfs.xfs").or_else(served),
            Self::Ring => {
                let refused = || Offer::new().err().map(|error| error.to_string());
                missing("mkfs.xfs").or_else(served).or_else(refused)
            }
            Self::Kernel => missing("mkfs.xfs"),
            Self::Passthrough => {
                let built = || passthrough::program(&bench.dir).err();
                let built = || built().map(|error| error.to_string());
                missing("mkfs.xfs").or_else(served).or_else(built)
            }
            Self::Fuse2fs => missing("fuse2fs").or_else(|| missing("mke2fs")).or_else(served),
        }
    }

    /// Mounts the volume on the image.
    ///
    /// # Errors
    /// If the program or the kernel refuses.
    pub fn mount(self, bench: &Bench) -> Result<Mounted> {
        let (image, dir) = (bench.image(), bench.mount_point());
        let _offer = (self == Self::Ring).then(Offer::new).transpose()?;
        let mut mounted = Mounted {
            side: self,
            dir: dir.clone(),
            server: None,
            kernel: None,
            xfskit: bench.xfskit.clone(),
        };
        if matches!(self, Self::Kernel | Self::Passthrough) {
            mounted.kernel = Some(kernel::Mount::new(&image, "rw")?);
        }
        if let Some(mut command) = self.server(bench, mounted.kernel.as_ref())? {
            fs::create_dir_all(&dir)?;
            mounted.server = Some(Server::start(&mut command, &dir)?);
        }
        mounted.wait_for_control()?;
        Ok(mounted)
    }

    /// Returns the command that serves this side in the foreground; `None` for the kernel's.
    fn server(self, bench: &Bench, below: Option<&kernel::Mount>) -> Result<Option<Command>> {
        let mut command = match self {
            Self::Kernel => return Ok(None),
            Self::Xfskit | Self::Ring => {
                let mut command = Command::new(&bench.xfskit);
                command.args(["mount", "--foreground"]);
                command.args((self == Self::Ring).then_some("-oio_uring"));
                command.args(bench.options.iter().flat_map(|options| ["-o", options]));
                command.arg(bench.image());
                command
            }
            Self::Passthrough => {
                let source = below.ok_or("nothing to pass through")?.path().display();
                let options = format!("writeback,cache=always,timeout=86400,source={source}");
                let mut command = Command::new(passthrough::program(&bench.dir)?);
                command.args(["-f", "-o", &options]);
                command
            }
            Self::Fuse2fs => {
                let mut command = Command::new("fuse2fs");
                command.arg("-f").arg(bench.image());
                command
            }
        };
        command.arg(bench.mount_point());
        Ok(Some(command))
    }
}

/// A mounted filesystem. It is taken down when this is dropped.
#[derive(Debug)]
pub struct Mounted {
    side: Side,
    dir: PathBuf,
    server: Option<Server>,
    /// The kernel's XFS: the side itself, or below passthrough_ll.
    kernel: Option<kernel::Mount>,
    xfskit: PathBuf,
}

impl Mounted {
    /// Returns the directory that it is mounted on.
    pub fn path(&self) -> &Path {
        match (&self.server, &self.kernel) {
            (None, Some(kernel)) => kernel.path(),
            _ => &self.dir,
        }
    }

    /// Writes what the kernel has cached of the content of files.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_back(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(File::open(self.path())?)?)
    }

    /// Makes all changes of names below `dirs` durable, and those of the root. FUSE has no message
    /// for syncfs(2) of such a mount, but for fsync(2) of a directory, which makes it durable
    /// together with all earlier changes: all sides have journals, except for fuse2fs, which writes
    /// everything.
    ///
    /// # Errors
    /// If writing fails.
    pub fn sync<P: AsRef<Path>>(&self, dirs: &[P]) -> Result<()> {
        let root = File::open(self.path())?;
        rustix::fs::syncfs(&root)?;
        for dir in dirs {
            File::open(self.path().join(dir))?.sync_all()?;
        }
        Ok(root.sync_all()?)
    }

    /// Waits until our mount replies to `xfskit stats`, which is shortly after it is there.
    fn wait_for_control(&self) -> Result<()> {
        let mut looks = 0;
        while let Err(error) = self.requests() {
            looks += 1;
            if looks == CONTROL_LOOKS {
                return Err(error);
            }
            thread::sleep(CONTROL_LOOK);
        }
        Ok(())
    }

    /// Returns the memory and time of the server so far; `None` if the kernel is the server.
    pub fn server_usage(&self) -> Option<ServerUsage> {
        self.server.as_ref().map(Server::usage)
    }

    /// Returns the kernel's requests to our mount so far; `None` of other sides.
    ///
    /// # Errors
    /// If the mount does not say.
    pub fn requests(&self) -> Result<Option<Requests>> {
        let of = || Requests::of(&self.xfskit, &self.dir, self.side == Side::Ring);
        self.side.is_ours().then(of).transpose()
    }

    /// Unmounts, after which all changes are durable. Returns the memory and time of the server;
    /// `None` if the kernel is the server.
    ///
    /// # Errors
    /// If it is in use, or writing fails.
    pub fn unmount(mut self) -> Result<Option<ServerUsage>> {
        let mut used = None;
        if let Some(server) = &mut self.server {
            let before = server.usage();
            let dir = self.dir.to_string_lossy();
            match self.side {
                Side::Xfskit | Side::Ring => {
                    kernel::run(&self.xfskit.to_string_lossy(), &["umount", &dir])?
                }
                _ => kernel::run("umount", &[&dir])?,
            };
            used = Some(ServerUsage { processor: server.wait()?, ..before });
        }
        self.server = None;
        if let Some(kernel) = self.kernel.take() {
            kernel.unmount()?;
        }
        Ok(used)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.server.is_some() {
            let _ = kernel::run("umount", &["--lazy", &self.dir.to_string_lossy()]);
        }
    }
}
