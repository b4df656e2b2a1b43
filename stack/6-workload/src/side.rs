//! The sides of a comparison: one disk, one format, and on it the engine or the kernel.
//!
//! [`Bed`] says where volumes are made and how. A [`Side`] is a volume there: a [`Job`] is done on it, it is
//! unmounted, looked at, judged. Both sides are made by the same `mkfs` with the same plan. The kernel's
//! is an image behind a loop device, past the cache of the image's own pages where the filesystem below can
//! do that; mounting needs root.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::{OpenOptions, Volume};
use xfskit_mkfs::{DeviceFacts, Options, Stamp};
use xfskit_units::{ByteLen, Uuid};

use crate::Driver;
use crate::driver::engine::Engine;
use crate::driver::mounted::Mounted;
use crate::image::{self, Image};
use crate::kernel;
use crate::measure::usage::{Usage, Watch, peak_memory, reset_peak_memory};

/// On what a volume lies that has no file.
pub const MEMORY: &str = "memory";
/// Magic number of tmpfs, as `statfs` tells it.
const TMPFS: u64 = 0x0102_1994;
/// Where files are memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Who works on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// xfskit, in this process.
    Engine,
    /// The kernel's XFS.
    Kernel,
}

impl Who {
    /// As reports name them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine => "xfskit",
            Self::Kernel => "kernel XFS",
        }
    }
}

/// Where volumes are made, and how.
#[derive(Clone, Debug)]
pub struct Bed {
    /// Images are made in this directory; `None`: in the memory of this process.
    pub dir: Option<PathBuf>,
    /// Bytes of a disk, sparse.
    pub size: ByteLen,
    /// The format.
    pub mkfs: Options,
    /// How the engine opens it.
    pub open: OpenOptions,
}

impl Bed {
    /// This bed, or where the kernel is to lie in it too and it is memory of this process: files in memory.
    pub fn shared(self, with_kernel: bool) -> Self {
        let dir = match self.dir {
            None if with_kernel => Some(SHARED_MEMORY.into()),
            dir => dir,
        };
        Self { dir, ..self }
    }

    /// This bed with disks no larger than files in its directory can be.
    ///
    /// # Errors
    /// Where no file can be made there.
    pub fn fitting(self) -> io::Result<Self> {
        let size = match &self.dir {
            None => self.size,
            Some(dir) => image::largest(dir, self.size)?,
        };
        Ok(Self { size, ..self })
    }

    /// On what volumes lie, in words.
    pub fn on(&self) -> String {
        let Some(dir) = &self.dir else { return MEMORY.into() };
        if is_tmpfs(dir) {
            return "a file in memory (tmpfs)".into();
        }
        format!("a file in {}", dir.display())
    }

    /// A new volume for `who`.
    ///
    /// # Errors
    /// Where there is no room for the image, or options do not fit it; for the kernel where the caller
    /// may not mount, in words.
    pub fn side(&self, who: Who) -> io::Result<Side> {
        let image = self.dir.as_deref().map(|dir| Image::new(dir, self.size)).transpose()?;
        let device: Arc<dyn BlockDevice> = match &image {
            None => Arc::new(MemDevice::new(self.size)),
            Some(image) => Arc::new(image.open()?),
        };
        format(&*device, &self.mkfs)?;
        let name = who.name().to_owned();
        let mut side = Side {
            mount: None,
            device: Some(device),
            image,
            who,
            name,
            on: self.on(),
            open: self.open.clone(),
        };
        side.mount()?;
        Ok(side)
    }
}

fn is_tmpfs(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(TMPFS))
}

/// Makes a volume of now with a UUID of its own.
///
/// # Errors
/// Where the options do not fit the device, or it cannot be written.
pub fn format(device: &dyn BlockDevice, options: &Options) -> io::Result<()> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let stamp = Stamp {
        uuid: Uuid::new_v4(),
        seconds: i64::try_from(since.as_secs()).unwrap_or(0),
        nanoseconds: since.subsec_nanos(),
        generation: since.subsec_nanos(),
    };
    let plan = xfskit_mkfs::plan(options, &DeviceFacts::of(device, None), stamp);
    let plan = plan.map_err(io::Error::other)?;
    xfskit_mkfs::make(device, None, &plan).map_err(io::Error::other)
}

/// What judging a volume came to.
#[derive(Clone, Debug)]
pub struct VerifyResult {
    /// By whom.
    pub judge: &'static str,
    /// Nothing is wrong.
    pub clean: bool,
    /// Inodes judged, where that is told.
    pub inodes: Option<u64>,
    /// Time; of another program wall time only.
    pub usage: Usage,
    /// Memory of this process at most, in bytes; nothing of another program.
    pub peak_memory: Option<u64>,
}

/// What is done on a side, whoever drives it.
pub trait Job {
    /// What it finds out.
    type Answer;

    /// Does it.
    ///
    /// # Errors
    /// Those of the driver.
    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Self::Answer>;
}

/// A volume with somebody who works on it.
#[derive(Debug)]
pub struct Side {
    mount: Option<Mount>,
    /// Not while the kernel has it.
    device: Option<Arc<dyn BlockDevice>>,
    image: Option<Image>,
    who: Who,
    name: String,
    on: String,
    open: OpenOptions,
}

#[derive(Debug)]
enum Mount {
    Engine(Box<Engine>),
    Kernel(KernelMount),
}

impl Side {
    /// Who works on it.
    pub fn who(&self) -> Who {
        self.who
    }

    /// As reports call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// On what it lies.
    pub fn on(&self) -> &str {
        &self.on
    }

    /// Does `job` on the volume, which is mounted for that.
    ///
    /// # Errors
    /// Those of the job, and of mounting.
    pub fn run<J: Job>(&mut self, job: &mut J) -> io::Result<J::Answer> {
        self.mount()?;
        match &mut self.mount {
            Some(Mount::Engine(engine)) => job.run(&mut **engine),
            Some(Mount::Kernel(kernel)) => job.run(&mut kernel.driver),
            None => Err(io::Error::other("not mounted")),
        }
    }

    /// Mounts it, where it is not.
    ///
    /// # Errors
    /// Where that is refused.
    pub fn mount(&mut self) -> io::Result<()> {
        if self.mount.is_some() {
            return Ok(());
        }
        self.mount = Some(match self.who {
            Who::Engine => {
                let device = self.device()?;
                let engine = Engine::new(device, self.open.clone(), &self.name, &self.on)?;
                Mount::Engine(Box::new(engine))
            }
            Who::Kernel => {
                self.device = None;
                let none = || io::Error::other("the kernel mounts files, not memory of a process");
                let image = self.image.as_ref().ok_or_else(none)?;
                Mount::Kernel(KernelMount::new(image.path(), &self.name, &self.on)?)
            }
        });
        Ok(())
    }

    /// Unmounts it: everything is in place.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn unmount(&mut self) -> io::Result<()> {
        match self.mount.take() {
            Some(Mount::Engine(engine)) => engine.close(),
            Some(Mount::Kernel(kernel)) => kernel.unmount(),
            None => Ok(()),
        }
    }

    /// The device, for who looks at it past any driver: the engine's while it is mounted, too.
    pub(crate) fn device(&mut self) -> io::Result<Arc<dyn BlockDevice>> {
        let device = match (&self.device, &self.image) {
            (Some(device), _) => device.clone(),
            (None, Some(image)) => Arc::new(image.open()?),
            (None, None) => return Err(io::Error::other("no device")),
        };
        if self.who == Who::Engine {
            self.device = Some(device.clone());
        }
        Ok(device)
    }

    /// The volume, unmounted and opened for reading.
    ///
    /// # Errors
    /// Where it cannot be unmounted, or read.
    pub fn look(&mut self) -> io::Result<Volume> {
        self.unmount()?;
        Volume::open(self.device()?, &OpenOptions::default()).map_err(io::Error::other)
    }
}

impl Side {
    /// Judges the volume, unmounted: the engine's by `check`, the kernel's by `xfs_repair -n`.
    ///
    /// # Errors
    /// Where it cannot be judged at all.
    pub fn judge(&mut self, threads: usize) -> io::Result<VerifyResult> {
        self.unmount()?;
        match (self.who, &self.image) {
            (Who::Kernel, Some(image)) => judge_by_repair(image.path()),
            _ => judge_by_check(&*self.device()?, threads),
        }
    }
}

fn judge_by_check(device: &dyn BlockDevice, threads: usize) -> io::Result<VerifyResult> {
    let options = xfskit_check::Options { threads, ..Default::default() };
    reset_peak_memory();
    let watch = Watch::start()?;
    let report = xfskit_check::check(device, None, &options, &mut |_| ());
    let report = report.map_err(io::Error::other)?;
    Ok(VerifyResult {
        judge: "check",
        clean: report.clean(),
        inodes: Some(report.inodes),
        usage: watch.read()?,
        peak_memory: peak_memory(),
    })
}

/// It ends with 0 where nothing is wrong, with 1 where something is.
fn judge_by_repair(image: &Path) -> io::Result<VerifyResult> {
    let watch = Watch::start()?;
    let out = Command::new("xfs_repair").args(["-n", "-f"]).arg(image).output()?;
    let usage = watch.read()?;
    let clean = match out.status.code() {
        Some(0) => true,
        Some(1) => false,
        _ => return Err(io::Error::other(String::from_utf8_lossy(&out.stderr).into_owned())),
    };
    Ok(VerifyResult { judge: "xfs_repair -n", clean, inodes: None, usage, peak_memory: None })
}

/// An image that the kernel has mounted. Fields go in this order.
#[derive(Debug)]
struct KernelMount {
    driver: Mounted,
    at: kernel::Mount,
}

impl KernelMount {
    fn new(image: &Path, name: &str, on: &str) -> io::Result<Self> {
        let at = kernel::Mount::new(image, "logbsize=256k")?;
        let driver = Mounted::new(at.path(), name, on)?.counted(at.device().name());
        Ok(Self { driver, at })
    }

    fn unmount(self) -> io::Result<()> {
        let Self { driver, at } = self;
        drop(driver);
        at.unmount()
    }
}
