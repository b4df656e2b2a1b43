//! Zero-length files: created through the library beside the kernel's own XFS, one thread, the final sync
//! timed.
//!
//! `create DIR [FILES] [TURNS]`, as root: images are made in DIR and removed. Both volumes are made by
//! mkfs.xfs with the same options; the kernel's is mounted through a loop device with direct I/O. Then a
//! table: what a create, a look-up and a remove cost in directories of 10^3 to 10^6 names.

#![allow(clippy::cast_precision_loss)] // of rates

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xfskit::Volume;
use xfskit::vfs::NewNode;
use xfskit_bench::kernel::{self, Mounted};
use xfskit_bench::turns::{spread, time};

/// Directories that the files are spread over.
const DIRS: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("create DIR [FILES] [TURNS]")?);
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
    if std::env::args().nth(4).is_none() {
        growth(&image)?;
    }
    std::fs::remove_file(&image)?;
    Ok(())
}

/// A new volume of 8 GiB with 16 groups.
fn fresh(image: &Path) -> io::Result<()> {
    File::create(image)?.set_len(8 << 30)?;
    let image = image.to_string_lossy();
    kernel::run("mkfs.xfs", &["-q", "-f", "-d", "agcount=16", &image]).map(drop)
}

fn by_kernel(image: &Path, files: usize) -> io::Result<Duration> {
    let mounted = Mounted::writable(image)?;
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
    let volume = xfskit::open_for_writing(&image.to_string_lossy())?;
    let dirs = make_dirs(&volume)?;
    let (took, done) = time(|| {
        for n in 0..files {
            let name = format!("file{n:08}");
            volume.fs().make(dirs[n % DIRS], name.as_bytes(), &NewNode::file(0o644))?;
        }
        volume.sync()
    });
    done?;
    volume.close()?;
    Ok(took)
}

fn make_dirs(volume: &Volume) -> xfskit::Result<Vec<xfskit::units::Ino>> {
    (0..DIRS).map(|n| volume.make(format!("/d{n}"), &NewNode::directory(0o755))).collect()
}

/// What one operation costs as a directory grows: it must not grow faster than a logarithm.
fn growth(image: &Path) -> Result<(), Box<dyn std::error::Error>> {
    println!("one directory, microseconds each:     names    create   look up    remove");
    for names in [1_000_usize, 10_000, 100_000, 1_000_000] {
        fresh(image)?;
        let volume = xfskit::open_for_writing(&image.to_string_lossy())?;
        let (fs, probes) = (volume.fs(), 1000.min(names));
        let dir = volume.make("/d", &NewNode::directory(0o755))?;
        let name = |n: usize| format!("name{n:08}").into_bytes();
        for n in 0..names {
            fs.make(dir, &name(n), &NewNode::file(0o644))?;
        }
        // What the names before cost is not these names' to wait for.
        volume.sync()?;
        let each = |took: Duration| took.as_secs_f64() * 1e6 / probes as f64;
        let (create, done) = time(|| {
            (names..names + probes)
                .try_for_each(|n| fs.make(dir, &name(n), &NewNode::file(0o644)).map(drop))
        });
        done?;
        volume.sync()?;
        let inode = fs.inode(dir)?;
        let step = names / probes;
        let (look, done) =
            time(|| (0..probes).try_for_each(|n| fs.lookup(&inode, &name(n * step)).map(drop)));
        done?;
        let (remove, done) = time(|| (0..probes).try_for_each(|n| fs.unlink(dir, &name(n * step))));
        done?;
        let (create, look, remove) = (each(create), each(look), each(remove));
        println!("{names:>43} {create:>9.2} {look:>9.2} {remove:>9.2}");
        volume.close()?;
    }
    Ok(())
}
