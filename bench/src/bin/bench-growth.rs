//! The cost of one operation as a directory, a file or a volume grows: it must grow at most
//! logarithmically.
//!
//! `bench-growth DIR [directory|file|inodes|volume]`: images are created in DIR and removed. Each
//! table has sizes from 10^3 to 10^6. A cell has an operation's cost in microseconds and, behind
//! it, in blocks requested from the buffer cache: the median of batches of 50, of a thousand random
//! operations, with the default cache. Earlier changes are synced first, so that no operation pays
//! for another one. The number of blocks shows the growth independently of the processor's caches,
//! because the search within a block is bounded. The table of the directory also has the kernel's
//! directory, through a loop mount.

#![allow(clippy::cast_precision_loss)] // of means

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::units::Ino;
use xfskit::raw::vfs::{Handle, NewNode};
use xfskit_bench::kernel::{self, Mount};
use xfskit_bench::turns::{spread, time};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A function that measures one table with this image and prints it.
type Table = fn(&Path) -> Result<()>;

/// Operations of one measurement.
const PROBES: usize = 1000;
/// Operations of a batch, which are timed together.
const BATCH: usize = 50;
/// Sizes to measure.
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Bytes of a block.
const BLOCK: u64 = 4096;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("bench-growth DIR [directory|file|inodes|volume]")?);
    let image = dir.join(format!("xfskit-bench-growth-{}.img", std::process::id()));
    let only = args.next();
    let tables: [(&str, Table); 4] =
        [("directory", directory), ("file", file), ("inodes", inodes), ("volume", volume)];
    for (_, table) in tables.iter().filter(|(name, _)| only.as_deref().is_none_or(|o| o == *name)) {
        table(&image)?;
    }
    std::fs::remove_file(&image)?;
    Ok(())
}

/// Creates and opens a volume of `gib` GiB.
fn fresh(image: &Path, gib: u64, options: &[&str]) -> Result<Volume> {
    File::create(image)?.set_len(gib << 30)?;
    let name = image.to_string_lossy();
    kernel::run("mkfs.xfs", &[&["-q", "-f"], options, &[&*name]].concat())?;
    Ok(xfskit::VolumeOptions::new().write(true).open(image)?)
}

/// The cost of one operation.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Microseconds.
    time: f64,
    /// Blocks requested from the cache, if they are counted.
    blocks: Option<f64>,
}

/// Measures the median cost of an operation over [`PROBES`] calls in batches, and then syncs.
fn each(
    volume: &Volume,
    operation: impl FnMut(usize) -> xfskit::raw::vfs::Result<()>,
) -> Result<Cost> {
    let lookups = || volume.fs().volume().cache().stats().lookups;
    let cost = batches(|| Some(lookups()), operation)?;
    volume.sync()?;
    Ok(cost)
}

/// Measures an operation with `blocks` as the block counter.
fn batches<E: Error + 'static>(
    blocks: impl Fn() -> Option<u64>,
    mut operation: impl FnMut(usize) -> std::result::Result<(), E>,
) -> Result<Cost> {
    let (mut times, mut counts) = (Vec::new(), Vec::new());
    for start in (0..PROBES).step_by(BATCH) {
        let before = blocks();
        let (took, done) = time(|| (start..start + BATCH).try_for_each(&mut operation));
        done?;
        times.push(took);
        counts.extend(blocks().zip(before).map(|(after, before)| after - before));
    }
    counts.sort_unstable();
    let (median, ..) = spread(&mut times);
    let blocks = counts.get(counts.len() / 2).map(|&count| count as f64 / BATCH as f64);
    Ok(Cost { time: median * 1e6 / BATCH as f64, blocks })
}

/// Returns index `n` of a thousand different pseudo-random indices below `size`.
fn scattered(n: usize, size: usize) -> usize {
    let step = size / PROBES;
    // 617 and 1000 are coprime.
    n * 617 % PROBES * step + n % step.max(1)
}

fn header(what: &str, columns: &[&str]) {
    print!("{what:<24}");
    for column in columns {
        print!("{column:>16}");
    }
    println!();
}

fn row(size: &str, costs: &[Cost]) {
    print!("{size:>24}");
    for cost in costs {
        let blocks = cost.blocks.map_or(String::new(), |blocks| format!(" {blocks:>6.2}"));
        print!("{:>9.2}{blocks:7}", cost.time);
    }
    println!();
}

/// Returns the name of an existing file or of a probe.
fn name(n: usize) -> String {
    format!("name{n:08}")
}

/// Returns the name of a missing file.
fn missing_name(n: usize) -> String {
    format!("none{n:08}")
}

/// Measures the names of one directory, ours and the kernel's.
fn directory(image: &Path) -> Result<()> {
    let columns = ["create", "look up", "absent", "remove"];
    header(
        "one directory: names",
        &[&columns[..], &["k. create", "k. absent", "k. remove"]].concat(),
    );
    for size in SIZES {
        let own = own_directory(image, size)?;
        let theirs = kernels_directory(image, size)?;
        row(&size.to_string(), &[&own[..], &theirs[..]].concat());
    }
    Ok(())
}

fn own_directory(image: &Path, size: usize) -> Result<[Cost; 4]> {
    let volume = fresh(image, 8, &["-d", "agcount=16"])?;
    let fs = volume.fs();
    let dir = volume.make("/d", &NewNode::directory(0o755))?;
    let make = |n: usize| fs.make(dir, name(n).as_bytes(), &NewNode::file(0o644)).map(drop);
    (0..size).try_for_each(make)?;
    volume.sync()?;
    let create = each(&volume, |n| make(size + n))?;
    let inode = fs.inode(dir)?;
    let look_up = |name: String| fs.lookup(&inode, name.as_bytes()).map(drop);
    let look = each(&volume, |n| look_up(name(scattered(n, size))))?;
    let missing = each(&volume, |n| look_up(missing_name(n)))?;
    let remove = each(&volume, |n| fs.unlink(dir, name(scattered(n, size)).as_bytes()))?;
    volume.close()?;
    Ok([create, look, missing, remove])
}

/// Measures the kernel's directory through system calls: creates, look-ups of missing names, and
/// removals. Existing names would come from the kernel's dentry cache.
fn kernels_directory(image: &Path, size: usize) -> Result<[Cost; 3]> {
    drop(fresh(image, 8, &["-d", "agcount=16"])?);
    let mounted = Mount::new(image, "rw")?;
    let dir = mounted.path().join("d");
    std::fs::create_dir(&dir)?;
    let make = |n: usize| File::create(dir.join(name(n))).map(drop);
    (0..size).try_for_each(make)?;
    let sync = || Ok::<_, io::Error>(rustix::fs::syncfs(File::open(&dir)?)?);
    sync()?;
    let create = batches(|| None, |n| make(size + n))?;
    sync()?;
    let missing = batches(
        || None,
        |n| match std::fs::symlink_metadata(dir.join(missing_name(n))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map(drop),
        },
    )?;
    let remove = batches(|| None, |n| std::fs::remove_file(dir.join(name(scattered(n, size)))))?;
    Ok([create, missing, remove])
}

/// Measures the extents of one file with every second block mapped.
fn file(image: &Path) -> Result<()> {
    header("one file: extents", &["append", "look up", "convert", "share", "CoW", "punch"]);
    for size in SIZES {
        let volume = fresh(image, 16, &["-d", "agcount=16"])?;
        let fs = volume.fs();
        let (ino, copy) = (
            volume.make("/f", &NewNode::file(0o644))?,
            volume.make("/copy", &NewNode::file(0o644))?,
        );
        let (file, copy) = (fs.open(ino)?, fs.open(copy)?);
        for n in 0..size {
            map(&file, n)?;
        }
        volume.sync()?;
        let append = each(&volume, |n| map(&file, size + n))?;
        let probe = |n: usize| {
            let at = start(scattered(n, size));
            at..at + BLOCK
        };
        let mut block = vec![1; 4096];
        let look = each(&volume, |n| file.read(probe(n).start, &mut block).map(drop))?;
        let convert = each(&volume, |n| fs.write(ino, probe(n).start, &block))?;
        let share = each(&volume, |n| copy.share(probe(n).start, &file, probe(n)))?;
        let cow = each(&volume, |n| fs.write(ino, probe(n).start, &block))?;
        let punch = each(&volume, |n| file.punch(probe(n)))?;
        row(&size.to_string(), &[append, look, convert, share, cow, punch]);
        drop((file, copy));
        volume.close()?;
    }
    Ok(())
}

/// Returns the start of extent `n` of the file.
fn start(n: usize) -> u64 {
    n as u64 * 2 * BLOCK
}

/// Allocates the block of extent `n`.
fn map(file: &Handle<'_>, n: usize) -> xfskit::raw::vfs::Result<()> {
    file.preallocate(start(n)..start(n) + BLOCK, false)
}

/// Measures a file that is created, gets a block, loses it, and is removed.
fn lifecycle(volume: &Volume, dirs: &[Ino]) -> Result<[Cost; 5]> {
    let (fs, name) = (volume.fs(), |n: usize| format!("probe{n:08}").into_bytes());
    let dir = |n: usize| dirs[scattered(n, dirs.len().max(PROBES)) % dirs.len()];
    let mut files = Vec::new();
    let create = each(volume, |n| {
        files.push(fs.make(dir(n), &name(n), &NewNode::file(0o644))?);
        Ok(())
    })?;
    let look = each(volume, |n| fs.inode(files[n]).map(drop))?;
    let allocate = each(volume, |n| fs.open(files[n])?.preallocate(0..BLOCK, false))?;
    let free = each(volume, |n| fs.truncate(files[n], 0))?;
    let remove = each(volume, |n| fs.unlink(dir(n), &name(n)))?;
    Ok([create, look, allocate, free, remove])
}

const LIFECYCLE: [&str; 5] = ["create", "look up", "allocate", "free", "remove"];

/// Measures volumes by their inodes, a hundred in each directory.
fn inodes(image: &Path) -> Result<()> {
    header("one volume: inodes", &LIFECYCLE);
    for size in SIZES {
        let volume = fresh(image, 16, &["-d", "agcount=16"])?;
        let dirs = fill(&volume, size / 100)?;
        row(&size.to_string(), &lifecycle(&volume, &dirs)?);
        volume.close()?;
    }
    Ok(())
}

/// Creates `count` directories of 99 files.
fn fill(volume: &Volume, count: usize) -> Result<Vec<Ino>> {
    let mut dirs = Vec::new();
    for d in 0..count {
        let dir = volume.make(format!("/d{d}"), &NewNode::directory(0o755))?;
        for n in 0..99 {
            let name = format!("file{n:02}");
            volume.fs().make(dir, name.as_bytes(), &NewNode::file(0o644))?;
        }
        dirs.push(dir);
    }
    volume.sync()?;
    Ok(dirs)
}

/// Measures volumes by their size, with the default number of groups.
fn volume(image: &Path) -> Result<()> {
    header("one volume: GiB (groups)", &LIFECYCLE);
    for gib in [1, 16, 128, 1024, 8192] {
        let volume = fresh(image, gib, &[])?;
        let groups = volume.fs().volume().geo().agcount;
        let dirs = fill(&volume, 10)?;
        row(&format!("{gib} ({groups})"), &lifecycle(&volume, &dirs)?);
        volume.close()?;
    }
    Ok(())
}
