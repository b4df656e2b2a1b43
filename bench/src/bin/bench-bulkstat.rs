//! All inodes of a volume: our `bulkstat` compared with the kernel's XFS_IOC_BULKSTAT, cold and
//! warm.
//!
//! `bench-bulkstat IMAGE [THREADS [TURNS]]`, as root. The image must not be mounted. Both sides
//! list every inode in use on the same number of threads, one group at a time each, and add up the
//! file sizes; the sums must agree. *Cold*: all caches are dropped before every turn, and the
//! kernel reads through a loop device with direct I/O. *Warm*: a second pass over cached data. The
//! measured time excludes the mount and our opening of the volume.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xfskit_bench::kernel::{self, Mount, bulkstat};
use xfskit_bench::turns::{spread, time};
use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};

/// Number of inodes, and the sum of their sizes.
type Listed = (u64, u64);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let image = PathBuf::from(args.next().ok_or("bench-bulkstat IMAGE [THREADS [TURNS]]")?);
    let threads = args.next().map_or(Ok(2), |n| n.parse())?;
    let turns = args.next().map_or(Ok(5), |n| n.parse())?;

    let mut rows = [const { Vec::new() }; 4];
    let mut results = Vec::new();
    for _ in 0..turns {
        let (kernel, ours) = (kernel_turn(&image, threads)?, our_turn(&image, threads)?);
        for (row, (took, result)) in rows.iter_mut().zip(kernel.into_iter().chain(ours)) {
            row.push(took);
            results.push(result);
        }
    }
    results.dedup();
    let [(count, _)] = results[..] else {
        return Err(format!("the two sides list different inodes: {results:?}").into());
    };
    report(count, threads, &mut rows);
    Ok(())
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
    let (cold, first) = time(pass);
    let (warm, second) = time(pass);
    Ok([(cold, first?), (warm, second?)])
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
    let (cold, first) = time(pass);
    let (warm, second) = time(pass);
    Ok([(cold, first?), (warm, second?)])
}

fn open(image: &Path) -> io::Result<Volume> {
    let dev = FileDevice::open(image, OpenMode::ReadOnly).map_err(io::Error::other)?;
    Volume::open(Arc::new(dev), &OpenOptions::default()).map_err(io::Error::other)
}

fn report(count: u64, threads: usize, rows: &mut [Vec<Duration>; 4]) {
    println!("{count} inodes, {threads} threads; seconds, and thousands of inodes in a second\n");
    println!("{:<12} {:>8} {:>8} {:>8} {:>10}", "", "median", "best", "worst", "k/s");
    let names = ["kernel cold", "kernel warm", "xfskit cold", "xfskit warm"];
    #[allow(clippy::cast_precision_loss)] // for people to read
    let rate = |seconds: f64| count as f64 / seconds / 1000.0;
    let mut medians = [0.0; 4];
    for ((name, row), median) in names.iter().zip(rows).zip(&mut medians) {
        let (middle, best, worst) = spread(row);
        *median = middle;
        println!("{name:<12} {middle:>8.3} {best:>8.3} {worst:>8.3} {:>10.0}", rate(middle));
    }
    let [kernel_cold, kernel_warm, cold, warm] = medians;
    println!("\nfaster: cold {:.1} times, warm {:.1}", kernel_cold / cold, kernel_warm / warm);
}
