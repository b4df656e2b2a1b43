//! The cost of one operation as a directory, a file or a volume grows: it must grow at most
//! logarithmically.
//!
//! `xfskit-bench growth DIR [directory|file|inodes|volume]`: images are created in DIR and removed.
//! Each table has sizes from 10^3 to 10^6. An operation has its cost in microseconds and in blocks
//! requested from the buffer cache: the median of batches of 50, of a thousand random operations,
//! with the default cache. A second table has the largest size against the smallest. Earlier
//! changes are synced first, so that no operation pays for another one. The number of blocks shows
//! the growth independently of the processor's caches, because the search within a block is
//! bounded. The table of the directory also has the kernel's directory, through a loop mount.

#![allow(clippy::cast_precision_loss)] // of means

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::units::Ino;
use xfskit::raw::vfs::{Handle, NewNode};
use xfskit_bench::frame::{self, Result, progress, section, time};
use xfskit_bench::grid::Grid;
use xfskit_bench::kernel::{self, Mount};
use xfskit_workload::measure::Samples;
use xfskit_workload::report::{Cell, Section, Table};

pub(super) const TITLE: &str = "The cost of one operation as sizes grow";

/// Operations of one measurement.
const PROBES: usize = 1000;
/// Operations of a batch, which are timed together.
const BATCH: usize = 50;
/// Sizes to measure.
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Bytes of a block.
const BLOCK: u64 = 4096;

/// The costs of one turn: each size with the cost of each operation.
type Sizes = Vec<(String, Vec<Cost>)>;

/// What grows.
struct Part {
    name: &'static str,
    title: &'static str,
    operations: &'static [&'static str],
    /// Measures a turn with this image.
    measure: fn(&Path) -> Result<Sizes>,
}

#[rustfmt::skip]
const PARTS: [Part; 4] = [
    Part { name: "directory", title: "one directory: names", operations: &DIRECTORY, measure: directory },
    Part { name: "file", title: "one file: extents", operations: &FILE, measure: file },
    Part { name: "inodes", title: "one volume: inodes", operations: &LIFECYCLE, measure: inodes },
    Part { name: "volume", title: "one volume: GiB (groups)", operations: &LIFECYCLE, measure: volume },
];

#[derive(clap::Args)]
struct Args {
    /// Directory for an image
    dir: PathBuf,
    /// What grows [default: all]
    #[arg(value_parser = PARTS.map(|part| part.name))]
    part: Option<String>,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 1, measure)
}

fn measure(Args { dir, part }: &Args, turns: usize) -> Result<Vec<Section>> {
    let image = dir.join(format!("xfskit-bench-growth-{}.img", std::process::id()));
    let wanted = PARTS.iter().filter(|one| part.as_ref().is_none_or(|name| name == one.name));
    let sections = wanted.map(|part| part.section(&image, turns)).collect();
    let _ = std::fs::remove_file(&image);
    sections
}

impl Part {
    fn section(&self, image: &Path, turns: usize) -> Result<Section> {
        let mut columns = Vec::new();
        for operation in self.operations {
            columns.push((format!("{operation}: time"), "µs", 2));
            if !operation.starts_with(KERNEL) {
                columns.push((format!("{operation}: blocks"), "", 2));
            }
        }
        let mut grid = Grid::new(self.title, &columns);
        for turn in 1..=turns {
            progress(format!("{}, turn {turn}", self.title));
            for (size, costs) in (self.measure)(image)? {
                let figures = costs.iter().flat_map(|cost| [Some(cost.time), cost.blocks]);
                grid.add(size, "a file", &figures.flatten().collect::<Vec<_>>());
            }
        }
        let growth = growth(&grid, &columns);
        Ok(section(self.title, &[], vec![grid.table(), growth]))
    }
}

/// Returns the table of the last row against the first.
fn growth(grid: &Grid, columns: &[(String, &str, u8)]) -> Table {
    let rows = grid.table().rows;
    let last = rows.len() - 1;
    let title = format!("{} against {}", rows[last].name, rows[0].name);
    let mut growth = Table::new(title, &[("growth", "times"), ("at least", ""), ("at most", "")]);
    for (n, (name, ..)) in columns.iter().enumerate() {
        let ratio = grid.samples(last, n).paired_ratio_to(grid.samples(0, n));
        let cells = [ratio.ratio, ratio.low, ratio.high].map(|ratio| Cell::Number(ratio, 2));
        growth.row(name, "a file", cells.into());
    }
    growth
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
fn batches<E: Error + Send + Sync + 'static>(
    blocks: impl Fn() -> Option<u64>,
    mut operation: impl FnMut(usize) -> Result<(), E>,
) -> Result<Cost> {
    let (mut times, mut counts) = (Samples::default(), Samples::default());
    for start in (0..PROBES).step_by(BATCH) {
        let before = blocks();
        let (took, ()) = time(|| (start..start + BATCH).try_for_each(&mut operation))?;
        times.add(took.as_secs_f64() * 1e6 / BATCH as f64);
        if let Some((after, before)) = blocks().zip(before) {
            counts.add((after - before) as f64 / BATCH as f64);
        }
    }
    Ok(Cost { time: times.median(), blocks: (counts.count() > 0).then(|| counts.median()) })
}

/// Returns index `n` of a thousand different pseudo-random indices below `size`.
fn scattered(n: usize, size: usize) -> usize {
    let step = size / PROBES;
    // 617 and 1000 are coprime.
    n * 617 % PROBES * step + n % step.max(1)
}

/// Returns the name of an existing file or of a probe.
fn name(n: usize) -> String {
    format!("name{n:08}")
}

/// Returns the name of a missing file.
fn missing_name(n: usize) -> String {
    format!("none{n:08}")
}

/// Begins the name of an operation of the kernel.
const KERNEL: &str = "Linux: ";
const DIRECTORY: [&str; 7] = [
    "create",
    "look up",
    "look up a missing name",
    "remove",
    "Linux: create",
    "Linux: look up a missing name",
    "Linux: remove",
];

/// Measures the names of one directory, ours and the kernel's.
fn directory(image: &Path) -> Result<Sizes> {
    let each = |size: usize| {
        let (own, theirs) = (own_directory(image, size)?, kernels_directory(image, size)?);
        Ok((size.to_string(), [&own[..], &theirs].concat()))
    };
    SIZES.into_iter().map(each).collect()
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

const FILE: [&str; 6] = ["append", "look up", "convert", "share", "CoW", "punch"];

/// Measures the extents of one file with every second block mapped.
fn file(image: &Path) -> Result<Sizes> {
    let mut sizes = Sizes::new();
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
        sizes.push((size.to_string(), vec![append, look, convert, share, cow, punch]));
        drop((file, copy));
        volume.close()?;
    }
    Ok(sizes)
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
fn lifecycle(volume: &Volume, dirs: &[Ino]) -> Result<Vec<Cost>> {
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
    Ok(vec![create, look, allocate, free, remove])
}

const LIFECYCLE: [&str; 5] = ["create", "look up", "allocate", "free", "remove"];

/// Measures volumes by their inodes, a hundred in each directory.
fn inodes(image: &Path) -> Result<Sizes> {
    let mut sizes = Sizes::new();
    for size in SIZES {
        let volume = fresh(image, 16, &["-d", "agcount=16"])?;
        let dirs = fill(&volume, size / 100)?;
        sizes.push((size.to_string(), lifecycle(&volume, &dirs)?));
        volume.close()?;
    }
    Ok(sizes)
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
fn volume(image: &Path) -> Result<Sizes> {
    let mut sizes = Sizes::new();
    for gib in [1, 16, 128, 1024, 8192] {
        let volume = fresh(image, gib, &[])?;
        let groups = volume.fs().volume().geo().agcount;
        let dirs = fill(&volume, 10)?;
        sizes.push((format!("{gib} ({groups})"), lifecycle(&volume, &dirs)?));
        volume.close()?;
    }
    Ok(sizes)
}
