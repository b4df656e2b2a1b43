//! Zero-length files: created through the library and by the kernel's own XFS, on one thread, with
//! the final sync in the time.
//!
//! `xfskit-bench create DIR [FILES]`, as root. Images are created in DIR and removed. mkfs.xfs
//! makes both volumes with the same options. The kernel's volume is mounted through a loop device
//! with direct I/O.

#![allow(clippy::cast_precision_loss)] // of rates

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::vfs::NewNode;
use xfskit_bench::contest::{Contest, Quantity};
use xfskit_bench::frame::{self, Result, section, time};
use xfskit_bench::kernel::{self, Mount};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Zero-length files";

/// Directories that the files are distributed over.
const DIRS: usize = 8;

#[derive(clap::Args)]
struct Args {
    /// Directory for an image of 8 GiB
    dir: PathBuf,
    /// Number of files
    #[arg(default_value_t = 200_000)]
    files: usize,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 3, measure)
}

fn measure(Args { dir, files }: &Args, turns: usize) -> Result<Vec<Section>> {
    let image = dir.join(format!("xfskit-bench-create-{}.img", std::process::id()));
    let names = [("kernel", "loop device"), ("xfskit", "a file")];
    let mut creates = Contest::new("creates", Quantity::rate("files/s", 0), 1, &names);
    for _ in 0..turns {
        for (n, create) in [by_kernel, by_us].into_iter().enumerate() {
            fresh(&image)?;
            creates.add(n, *files as f64 / create(&image, *files)?.as_secs_f64());
        }
    }
    std::fs::remove_file(&image)?;
    let text = format!("{files} zero-length files, one thread, sync included.");
    Ok(vec![section("Zero-length files", &[&text], vec![creates.table()])])
}

/// Creates a volume of 8 GiB with 16 groups.
fn fresh(image: &Path) -> io::Result<()> {
    File::create(image)?.set_len(8 << 30)?;
    let image = image.to_string_lossy();
    kernel::run("mkfs.xfs", &["-q", "-f", "-d", "agcount=16", &image]).map(drop)
}

fn by_kernel(image: &Path, files: usize) -> Result<Duration> {
    let mounted = Mount::new(image, "rw")?;
    let root = mounted.path();
    let dirs: Vec<PathBuf> = (0..DIRS).map(|n| root.join(format!("d{n}"))).collect();
    dirs.iter().try_for_each(std::fs::create_dir)?;
    let (took, ()) = time(|| {
        for n in 0..files {
            File::create(dirs[n % DIRS].join(format!("file{n:08}")))?;
        }
        rustix::fs::syncfs(File::open(root)?)?;
        Ok::<_, io::Error>(())
    })?;
    Ok(took)
}

fn by_us(image: &Path, files: usize) -> Result<Duration> {
    let volume = xfskit::VolumeOptions::new().write(true).open(image)?;
    let dirs = make_dirs(&volume)?;
    let (took, ()) = time(|| {
        for n in 0..files {
            let name = format!("file{n:08}");
            volume.fs().make(dirs[n % DIRS], name.as_bytes(), &NewNode::file(0o644))?;
        }
        Ok::<_, frame::Error>(volume.sync()?)
    })?;
    volume.close()?;
    Ok(took)
}

fn make_dirs(volume: &Volume) -> xfskit::Result<Vec<xfskit::raw::units::Ino>> {
    (0..DIRS).map(|n| volume.make(format!("/d{n}"), &NewNode::directory(0o755))).collect()
}
