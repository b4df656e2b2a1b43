//! Test volumes for comparisons: one disk, one format, run by the engine, by the kernel, or by the
//! engine behind a mount.
//!
//! A [`Testbed`] says where volumes are made and with which options. A [`TestVolume`] is one of
//! them: a [`Job`] runs on it, then it is unmounted, inspected and checked. The volumes of all
//! implementations are made by the same `mkfs` with the same plan. The kernel's volume is an image
//! behind a loop device with direct I/O where the filesystem below supports that. Mounting needs
//! root.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use xfskit_block::{BlockDevice, MemDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};
use xfskit_mkfs::options::Quantity;
use xfskit_mkfs::{DeviceFacts, Options, Stamp};
use xfskit_target::{Base, Target};
use xfskit_units::{ByteLen, Uuid};

use crate::Driver;
use crate::driver::engine::{Engine, MEMORY};
use crate::driver::mounted::Mounted;
use crate::image::{self, Image};
use crate::kernel;
use crate::measure::usage::{Stopwatch, Usage, peak_memory, reset_peak_memory};
use crate::mounter::{Mounter, ServedMount};
use crate::repairer::{Repairer, run_watched};

/// Magic number of tmpfs in `statfs`.
const TMPFS: u64 = 0x0102_1994;
/// A directory on tmpfs.
const SHARED_MEMORY: &str = "/dev/shm";

/// An implementation of XFS that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// xfskit, in this process.
    Engine,
    /// The kernel's XFS.
    Kernel,
    /// xfskit, mounted by this process and used through the kernel.
    Mount,
}

impl Implementation {
    /// Returns the name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine => "xfskit",
            Self::Kernel => "kernel XFS",
            Self::Mount => "xfskit mount",
        }
    }
}

/// Where test volumes are made, and with which options.
#[derive(Clone, Debug)]
pub struct Testbed {
    /// The directory of the images; `None` keeps them in the memory of this process.
    pub dir: Option<PathBuf>,
    /// Size of a disk in bytes; the disk is sparse.
    pub size: ByteLen,
    /// Options of mkfs.
    pub mkfs: Options,
    /// Options with which the engine opens the volume.
    pub open: OpenOptions,
    /// Mounts the volumes of [`Implementation::Mount`].
    pub mounter: Option<Arc<dyn Mounter>>,
    /// Repairs the volumes of the engine.
    pub repairer: Option<Arc<dyn Repairer>>,
}

impl Testbed {
    /// Returns a testbed with disks of `size` bytes and the default options of mkfs. Its volumes
    /// keep at most `cache_bytes` of metadata in memory.
    pub fn new(dir: Option<PathBuf>, size: u64, cache_bytes: usize) -> Self {
        let open = OpenOptions { cache_bytes, ..OpenOptions::default() };
        let (mounter, repairer) = (None, None);
        Self { dir, size: ByteLen(size), mkfs: Options::default(), open, mounter, repairer }
    }

    /// Sets the size of the journal in bytes.
    pub fn set_log_size(&mut self, bytes: u64) {
        self.mkfs.log_size = Some(Quantity::Bytes(bytes));
    }

    /// Moves images from process memory to files on tmpfs if the kernel takes part.
    pub fn with_kernel(self, with_kernel: bool) -> Self {
        let dir = match self.dir {
            None if with_kernel => Some(SHARED_MEMORY.into()),
            dir => dir,
        };
        Self { dir, ..self }
    }

    /// Reduces the size of the disks to the largest file that the directory can hold.
    ///
    /// # Errors
    /// If no file can be made in the directory.
    pub fn limited_to_dir(self) -> io::Result<Self> {
        let size = match &self.dir {
            None => self.size,
            Some(dir) => image::largest_size(dir, self.size)?,
        };
        Ok(Self { size, ..self })
    }

    /// Describes the storage of the volumes.
    pub fn storage(&self) -> String {
        let Some(dir) = &self.dir else { return MEMORY.into() };
        if is_tmpfs(dir) {
            return "a file in memory (tmpfs)".into();
        }
        format!("a file in {}", dir.display())
    }

    /// Makes and mounts a new volume for `implementation`.
    ///
    /// # Errors
    /// If there is no space for the image, if the options do not fit it, or if the caller may not
    /// mount the kernel's volume.
    pub fn volume(&self, implementation: Implementation) -> io::Result<TestVolume> {
        let image = self.dir.as_deref().map(|dir| Image::new(dir, self.size)).transpose()?;
        let device: Arc<dyn BlockDevice> = match &image {
            None => Arc::new(MemDevice::new(self.size)),
            Some(image) => Arc::new(image.open()?),
        };
        format(&*device, &self.mkfs)?;
        let name = implementation.name().to_owned();
        let mut volume = TestVolume {
            mount: None,
            device: Some(device),
            image,
            implementation,
            name,
            storage: self.storage(),
            open: self.open.clone(),
            mounter: self.mounter.clone(),
            repairer: self.repairer.clone(),
        };
        volume.mount()?;
        Ok(volume)
    }
}

/// Returns true if `dir` lies in memory.
pub(crate) fn is_tmpfs(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(TMPFS))
}

/// Bytes of `mem:` without a size; sparse.
const MEMORY_BYTES: u64 = 1 << 40;

/// Why a target cannot be used for measurements.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The name leads to no device.
    #[error(transparent)]
    Target(#[from] xfskit_target::Error),
    /// The volume cannot be made, or opened for writing.
    #[error(transparent)]
    Volume(#[from] io::Error),
}

impl TargetError {
    /// Returns what to do about it, if there is advice.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Target(error) => error.hint(),
            Self::Volume(_) => None,
        }
    }
}

/// Opens the volume on the target `name` for writing. Memory (`mem:`, `mem:SIZE`) gets a new one.
///
/// # Errors
/// If the target or the volume cannot be opened for writing.
pub fn engine_on(name: &str, cache_bytes: usize) -> Result<Engine, TargetError> {
    let (device, is_memory): (Arc<dyn BlockDevice>, bool) = if name == "mem:" {
        (Arc::new(MemDevice::new(ByteLen(MEMORY_BYTES))), true)
    } else {
        let target = Target::parse(name)?;
        let is_memory = matches!(target.base, Base::Memory(_));
        (xfskit_target::open(&target, OpenMode::ReadWrite)?, is_memory)
    };
    if is_memory {
        format(&*device, &Options::default())?;
    }
    let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
    Ok(Engine::new(device, options, "xfskit", name)?)
}

/// Makes a volume with the current time and a new UUID.
///
/// # Errors
/// If the options do not fit the device, or writing fails.
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

/// The result of a check or a repair of a whole volume.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// The program that checked or repaired it.
    pub checker: &'static str,
    /// It found no error.
    pub clean: bool,
    /// Inodes checked, if the program reports that.
    pub inodes: Option<u64>,
    /// Time used; wall time only of another program.
    pub usage: Usage,
    /// Peak memory of the process in bytes: this one, or that of another program.
    pub peak_memory: Option<u64>,
}

/// A piece of work that runs on a volume through any driver.
pub trait Job {
    /// What the work returns.
    type Output;

    /// Runs the work.
    ///
    /// # Errors
    /// The errors of the driver.
    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Self::Output>;
}

/// A volume and the implementation that runs it.
#[derive(Debug)]
pub struct TestVolume {
    mount: Option<Mount>,
    /// `None` while the kernel has the volume mounted.
    device: Option<Arc<dyn BlockDevice>>,
    image: Option<Image>,
    implementation: Implementation,
    name: String,
    storage: String,
    open: OpenOptions,
    mounter: Option<Arc<dyn Mounter>>,
    repairer: Option<Arc<dyn Repairer>>,
}

#[derive(Debug)]
enum Mount {
    Engine(Box<Engine>),
    Kernel(KernelMount),
    Served(EngineMount),
}

impl TestVolume {
    /// Returns the implementation that runs this volume.
    pub fn implementation(&self) -> Implementation {
        self.implementation
    }

    /// Returns the name that reports use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Describes the storage of the volume.
    pub fn storage(&self) -> &str {
        &self.storage
    }

    /// Mounts the volume if necessary and runs `job` on it.
    ///
    /// # Errors
    /// The errors of the job and of mounting.
    pub fn run<J: Job>(&mut self, job: &mut J) -> io::Result<J::Output> {
        self.mount()?;
        match &mut self.mount {
            Some(Mount::Engine(engine)) => job.run(&mut **engine),
            Some(Mount::Kernel(kernel)) => job.run(&mut kernel.driver),
            Some(Mount::Served(served)) => job.run(&mut served.driver),
            None => Err(io::Error::other("not mounted")),
        }
    }

    /// Mounts the volume if it is not mounted.
    ///
    /// # Errors
    /// If mounting fails.
    pub fn mount(&mut self) -> io::Result<()> {
        if self.mount.is_some() {
            return Ok(());
        }
        self.mount = Some(match self.implementation {
            Implementation::Engine => {
                let device = self.device()?;
                let engine = Engine::new(device, self.open.clone(), &self.name, &self.storage)?;
                Mount::Engine(Box::new(engine))
            }
            Implementation::Kernel => {
                self.device = None;
                let none = || io::Error::other("the kernel cannot mount memory of a process");
                let image = self.image.as_ref().ok_or_else(none)?;
                Mount::Kernel(KernelMount::new(image.path(), &self.name, &self.storage)?)
            }
            Implementation::Mount => {
                let none = || io::Error::other("this program does not mount volumes");
                let mounter = self.mounter.clone().ok_or_else(none)?;
                let at = ServedMount::new(&*mounter, self.device()?, OpenMode::ReadWrite)?;
                Mount::Served(EngineMount::new(at, &self.name, &self.storage)?)
            }
        });
        Ok(())
    }

    /// Unmounts the volume; all data and metadata are then in place.
    ///
    /// # Errors
    /// If writing fails.
    pub fn unmount(&mut self) -> io::Result<()> {
        match self.mount.take() {
            Some(Mount::Engine(engine)) => engine.close(),
            Some(Mount::Kernel(kernel)) => kernel.unmount(),
            Some(Mount::Served(served)) => served.unmount(),
            None => Ok(()),
        }
    }

    /// Returns the device for access below any driver. With the engine it works while the volume is
    /// mounted, too.
    pub(crate) fn device(&mut self) -> io::Result<Arc<dyn BlockDevice>> {
        let device = match (&self.device, &self.image) {
            (Some(device), _) => device.clone(),
            (None, Some(image)) => Arc::new(image.open()?),
            (None, None) => return Err(io::Error::other("no device")),
        };
        if self.implementation != Implementation::Kernel {
            self.device = Some(device.clone());
        }
        Ok(device)
    }

    /// Returns where the volume is mounted.
    pub(crate) fn mount_point(&self) -> Option<&Path> {
        match &self.mount {
            Some(Mount::Kernel(kernel)) => Some(kernel.at.path()),
            Some(Mount::Served(served)) => Some(served.at.path()),
            Some(Mount::Engine(_)) | None => None,
        }
    }

    /// Returns the image of the volume, which is not mounted any more.
    pub(crate) fn into_image(self) -> Option<Image> {
        self.image
    }

    /// Unmounts the volume and opens it read-only.
    ///
    /// # Errors
    /// If unmounting or reading fails.
    pub fn open_read_only(&mut self) -> io::Result<Volume> {
        self.unmount()?;
        Volume::open(self.device()?, &OpenOptions::default()).map_err(io::Error::other)
    }
}

impl TestVolume {
    /// Unmounts and checks the volume: the engine's with `check`, the kernel's with `xfs_repair
    /// -n`.
    ///
    /// # Errors
    /// If the check cannot run.
    pub fn check(&mut self, threads: usize) -> io::Result<CheckResult> {
        self.unmount()?;
        match (self.implementation, &self.image) {
            (Implementation::Kernel, Some(image)) => run_xfs_repair(&CHECK, image.path()),
            _ => self.check_by_xfskit(threads),
        }
    }

    /// Unmounts and repairs the volume: the engine's with `repair`, the kernel's with `xfs_repair`.
    ///
    /// # Errors
    /// If the repair cannot run.
    pub fn repair(&mut self, threads: usize) -> io::Result<CheckResult> {
        self.unmount()?;
        match (self.implementation, &self.image) {
            (Implementation::Kernel, Some(image)) => run_xfs_repair(&REPAIR, image.path()),
            _ => self.repair_by_xfskit(threads),
        }
    }

    fn repair_by_xfskit(&mut self, threads: usize) -> io::Result<CheckResult> {
        let none = || io::Error::other("this program does not repair volumes");
        let repairer = self.repairer.clone().ok_or_else(none)?;
        let device = self.device()?;
        reset_peak_memory();
        let watch = Stopwatch::start()?;
        let repaired = repairer.repair(device, threads)?;
        Ok(CheckResult {
            checker: "repair",
            clean: repaired.written == 0,
            inodes: Some(repaired.inodes),
            usage: watch.read()?,
            peak_memory: peak_memory(),
        })
    }

    /// Unmounts and checks the volume with `check`, also the kernel's.
    ///
    /// # Errors
    /// If the check cannot run.
    pub(crate) fn check_by_xfskit(&mut self, threads: usize) -> io::Result<CheckResult> {
        self.unmount()?;
        run_check(&*self.device()?, threads)
    }
}

/// Checks the volume on `device`.
pub(crate) fn run_check(device: &dyn BlockDevice, threads: usize) -> io::Result<CheckResult> {
    let options = xfskit_check::Options { threads, ..Default::default() };
    reset_peak_memory();
    let watch = Stopwatch::start()?;
    let report = xfskit_check::check(device, None, &options, &mut |_| ());
    let report = report.map_err(io::Error::other)?;
    Ok(CheckResult {
        checker: "check",
        clean: report.clean(),
        inodes: Some(report.inodes),
        usage: watch.read()?,
        peak_memory: peak_memory(),
    })
}

/// A use of `xfs_repair`. It exits with 0 if it found nothing.
struct XfsRepair {
    name: &'static str,
    options: [&'static str; 2],
    /// The exit status if it found damage.
    damaged: i32,
}

/// Only looks.
const CHECK: XfsRepair = XfsRepair { name: "xfs_repair -n", options: ["-n", "-f"], damaged: 1 };
/// Repairs. With `-e` it tells whether there was something to repair.
const REPAIR: XfsRepair = XfsRepair { name: "xfs_repair", options: ["-e", "-f"], damaged: 4 };

fn run_xfs_repair(how: &XfsRepair, image: &Path) -> io::Result<CheckResult> {
    let watch = Stopwatch::start()?;
    let ended = run_watched(Command::new("xfs_repair").args(how.options).arg(image))?;
    let usage = watch.read()?;
    let clean = match ended.status.code() {
        Some(0) => true,
        Some(status) if status == how.damaged => false,
        _ => return Err(io::Error::other(ended.errors)),
    };
    let (checker, peak_memory) = (how.name, ended.peak_memory);
    Ok(CheckResult { checker, clean, inodes: None, usage, peak_memory })
}

/// A volume of the engine that is mounted. The driver is dropped before the mount.
#[derive(Debug)]
struct EngineMount {
    driver: Mounted,
    at: ServedMount,
}

impl EngineMount {
    fn new(at: ServedMount, name: &str, storage: &str) -> io::Result<Self> {
        Ok(Self { driver: Mounted::new(at.path(), name, storage)?, at })
    }

    fn unmount(self) -> io::Result<()> {
        let Self { driver, at } = self;
        drop(driver);
        at.unmount()
    }
}

/// An image that the kernel has mounted. The driver is dropped before the mount.
#[derive(Debug)]
struct KernelMount {
    driver: Mounted,
    at: kernel::Mount,
}

impl KernelMount {
    fn new(image: &Path, name: &str, storage: &str) -> io::Result<Self> {
        let at = kernel::Mount::new(image, "logbsize=256k")?;
        let driver =
            Mounted::new(at.path(), name, storage)?.with_kernel_counters(at.device().name());
        Ok(Self { driver, at })
    }

    fn unmount(self) -> io::Result<()> {
        let Self { driver, at } = self;
        drop(driver);
        at.unmount()
    }
}
