//! Zero-length files: created through the library and by the kernel's own XFS, on one thread, with
//! the final sync in the time.
//!
//! `bench-create DIR [FILES] [TURNS]`, as root. Images are created in DIR and removed. mkfs.xfs
//! makes both volumes with the same options. The kernel's volume is mounted through a loop device
//! with direct I/O.

#![allow(clippy::cast_precision_loss)] // of rates

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::vfs::NewNode;
use xfskit_bench::kernel::{self, Mount};
use xfskit_bench::turns::{spread, time};

/// Directories that the files are distributed over.
const DIRS: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("bench-create DIR [FILES] [TURNS]")?);
    let files = args.next().map_or(Ok(200_000), |n| n.parse())?;
    let turns = args.next().map_or(Ok(3), |n| n.parse())?;
    let image = dir.join(format!("xfskit-bench-create-{}.img", std::process::id()));
    let (mut kernel, mut ours): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        for (row, theirs) in [(&mut kernel, true), (&mut ours, false)] {
            fresh(&image)?;
            row.push(if theirs { by_kernel(&image, files)? } else { by_us(&image, files)? });
        }
    }
    println!("{files} zero-length files, one thread, sync included; files/s  median  best  worst");
    let rate = |(median, best, worst): (f64, f64, f64)| {
        let per_second = |seconds: f64| files as f64 / seconds;
        (per_second(median), per_second(best), per_second(worst))
    };
    let theirs = rate(spread(&mut kernel));
    println!("  kernel   {:>9.0} {:>9.0} {:>9.0}", theirs.0, theirs.1, theirs.2);
    let own = rate(spread(&mut ours));
    println!("  xfskit   {:>9.0} {:>9.0} {:>9.0}", own.0, own.1, own.2);
    println!("  faster: {:.1} times", own.0 / theirs.0);
    std::fs::remove_file(&image)?;
    Ok(())
}

/// Creates a volume of 8 GiB with 16 groups.
fn fresh(image: &Path) -> io::Result<()> {
    File::create(image)?.set_len(8 << 30)?;
    let image = image.to_string_lossy();
    kernel::run("mkfs.xfs", &["-q", "-f", "-d", "agcount=16", &image]).map(drop)
}

fn by_kernel(image: &Path, files: usize) -> io::Result<Duration> {
    let mounted = Mount::new(image, "rw")?;
    let root = mounted.path();
    let dirs: Vec<PathBuf> = (0..DIRS).map(|n| root.join(format!("d{n}"))).collect();
    dirs.iter().try_for_each(std::fs::create_dir)?;
    let (took, done) = time(|| {
        for n in 0..files {
            File::create(dirs[n % DIRS].join(format!("file{n:08}")))?;
        }
        rustix::fs::syncfs(File::open(root)?)?;
        Ok::<_, io::Error>(())
    });
    done.map(|()| took)
}

fn by_us(image: &Path, files: usize) -> Result<Duration, Box<dyn std::error::Error>> {
    let volume = xfskit::VolumeOptions::new().write(true).open(image)?;
    let dirs = make_dirs(&volume)?;
    let (took, done) = time(|| {
        for n in 0..files {
            let name = format!("file{n:08}");
            volume.fs().make(dirs[n % DIRS], name.as_bytes(), &NewNode::file(0o644))?;
        }
        Ok::<_, Box<dyn std::error::Error>>(volume.sync()?)
    });
    done?;
    volume.close()?;
    Ok(took)
}

fn make_dirs(volume: &Volume) -> xfskit::Result<Vec<xfskit::raw::units::Ino>> {
    (0..DIRS).map(|n| volume.make(format!("/d{n}"), &NewNode::directory(0o755))).collect()
}
