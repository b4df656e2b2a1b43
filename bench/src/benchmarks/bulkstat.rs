//! All inodes of a volume: our `bulkstat` compared with the kernel's XFS_IOC_BULKSTAT, cold and
//! warm.
//!
//! `xfskit-bench bulkstat IMAGE [THREADS]`, as root. The image must not be mounted. Both sides
//! list every inode in use on the same number of threads, one group at a time each, and add up the
//! file sizes; the sums must agree. *Cold*: all caches are dropped before every turn, and the
//! kernel reads through a loop device with direct I/O. *Warm*: a second pass over cached data. The
//! measured time excludes the mount and our opening of the volume.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xfskit_bench::contest::{Contest, SECONDS};
use xfskit_bench::frame::{self, Result, agreed, section, time};
use xfskit_bench::kernel::{self, Mount, bulkstat};
use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Bulkstat: all inodes of a volume";

/// Number of inodes, and the sum of their sizes.
type Listed = (u64, u64);

#[derive(clap::Args)]
struct Args {
    /// Volume, not mounted
    image: PathBuf,
    /// Threads
    #[arg(default_value_t = 2)]
    threads: usize,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 5, measure)
}

fn measure(Args { image, threads }: &Args, turns: usize) -> Result<Vec<Section>> {
    let names = [("XFS_IOC_BULKSTAT", "loop device"), ("xfskit", "a file")];
    let mut passes = ["cold", "warm"].map(|cache| Contest::new(cache, SECONDS, 1, &names));
    let mut results = Vec::new();
    for _ in 0..turns {
        let turns = [kernel_turn(image, *threads)?, our_turn(image, *threads)?];
        for (n, turn) in turns.into_iter().enumerate() {
            for (pass, (took, result)) in passes.iter_mut().zip(turn) {
                pass.add_time(n, took);
                results.push(result);
            }
        }
    }
    let (count, _) = agreed("list different inodes", &results)?;
    let text = format!("{count} inodes, {threads} threads.");
    Ok(vec![section("Bulkstat", &[&text], passes.map(|pass| pass.table()).into())])
}

/// Measures the kernel: cold, then warm.
fn kernel_turn(image: &Path, threads: usize) -> io::Result<[(Duration, Listed); 2]> {
    let mounted = Mount::new(image, "ro")?;
    let dir = File::open(mounted.path())?;
    kernel::drop_caches()?;
    let pass = || {
        let inodes = bulkstat::all(&dir, threads)?;
        Ok::<_, io::Error>((inodes.count, inodes.bytes))
    };
    Ok([time(pass)?, time(pass)?])
}

/// Measures ours: cold, then warm.
fn our_turn(image: &Path, threads: usize) -> io::Result<[(Duration, Listed); 2]> {
    kernel::drop_caches()?;
    let vol = open(image)?;
    // The kernel does not list these two inodes.
    let hidden = [vol.geo().rbmino, vol.geo().rsumino];
    let pass = || {
        let (count, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let result = vol.bulkstat(threads, |batch| {
            let sound = batch
                .iter()
                .filter(|entry| !hidden.contains(&Some(entry.ino)))
                .filter_map(|entry| entry.inode.as_ref().ok());
            let size: u64 = sound.clone().map(|inode| inode.size().0).sum();
            count.fetch_add(sound.count() as u64, Ordering::Relaxed);
            bytes.fetch_add(size, Ordering::Relaxed);
            ControlFlow::Continue(())
        });
        result.map_err(io::Error::other)?;
        Ok::<_, io::Error>((count.into_inner(), bytes.into_inner()))
    };
    Ok([time(pass)?, time(pass)?])
}

fn open(image: &Path) -> io::Result<Volume> {
    let dev = FileDevice::open(image, OpenMode::ReadOnly).map_err(io::Error::other)?;
    Volume::open(Arc::new(dev), &OpenOptions::default()).map_err(io::Error::other)
}
