//! What one operation costs as a directory, a file or a volume grows: no more than a logarithm.
//!
//! `bench-growth DIR [directory|file|inodes|volume]`: images are made in DIR and removed. Each table has the size
//! from 10^3 to 10^6 downwards, and an operation's cost in microseconds and, behind it, in blocks that it asked the
//! buffer cache for: of a thousand at places all over, the median of batches of 50, in a volume with the default cache.
//! What was made before is synced first, so that nobody pays for others. The blocks say how the cost grows, whatever
//! the processor's caches do: what is searched within a block is bounded by the block. Beside the directory stands the
//! same one of the kernel's, through a loop mount.

#![allow(clippy::cast_precision_loss)] // of means

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use xfskit::Volume;
use xfskit::units::Ino;
use xfskit::vfs::{Handle, NewNode};
use xfskit_bench::kernel::{self, Mount};
use xfskit_bench::turns::{spread, time};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures and prints, with this image.
type Table = fn(&Path) -> Result<()>;

/// Operations of one measurement.
const PROBES: usize = 1000;
/// Operations that are timed together.
const BATCH: usize = 50;
/// Sizes that are measured.
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

/// A new volume of `gib` GiB, open.
fn fresh(image: &Path, gib: u64, options: &[&str]) -> Result<Volume> {
    File::create(image)?.set_len(gib << 30)?;
    let name = image.to_string_lossy();
    kernel::run("mkfs.xfs", &[&["-q", "-f"], options, &[&*name]].concat())?;
    Ok(xfskit::open_for_writing(&name)?)
}

/// What one operation costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Microseconds.
    time: f64,
    /// Blocks that it asked the cache for, where they are counted.
    blocks: Option<f64>,
}

/// What one of [`PROBES`] operations costs, the median of batches; what they left is synced afterwards.
fn each(volume: &Volume, operation: impl FnMut(usize) -> xfskit::vfs::Result<()>) -> Result<Cost> {
    let lookups = || volume.fs().volume().cache().stats().lookups;
    let cost = batches(|| Some(lookups()), operation)?;
    volume.sync()?;
    Ok(cost)
}

/// The same with what counts blocks, where something does.
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

/// Numbers below `size` in no order, none twice: probe `n` of a thousand.
fn somewhere(n: usize, size: usize) -> usize {
    let step = size / PROBES;
    // 617 has no divisor in common with 1000.
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

/// A probe's name, or that of a file that is there.
fn name(n: usize) -> String {
    format!("name{n:08}")
}

/// One that is not.
fn absent(n: usize) -> String {
    format!("none{n:08}")
}

/// Names of one directory, ours and the kernel's.
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
    let look = each(&volume, |n| look_up(name(somewhere(n, size))))?;
    let none = each(&volume, |n| look_up(absent(n)))?;
    let remove = each(&volume, |n| fs.unlink(dir, name(somewhere(n, size)).as_bytes()))?;
    volume.close()?;
    Ok([create, look, none, remove])
}

/// The same through system calls: creates, look-ups of what is not there (of what is, the kernel has the answer elsewhere),
/// removals.
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
    let none = batches(
        || None,
        |n| match std::fs::symlink_metadata(dir.join(absent(n))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            answer => answer.map(drop),
        },
    )?;
    let remove = batches(|| None, |n| std::fs::remove_file(dir.join(name(somewhere(n, size)))))?;
    Ok([create, none, remove])
}

/// Extents of one file: every second block is mapped.
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
            let at = start(somewhere(n, size));
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

/// Where extent `n` of the file begins.
fn start(n: usize) -> u64 {
    n as u64 * 2 * BLOCK
}

/// Gives extent `n` its block.
fn map(file: &Handle<'_>, n: usize) -> xfskit::vfs::Result<()> {
    file.preallocate(start(n)..start(n) + BLOCK, false)
}

/// What a file costs that is made, given a block, loses it, and goes.
fn life(volume: &Volume, dirs: &[Ino]) -> Result<[Cost; 5]> {
    let (fs, name) = (volume.fs(), |n: usize| format!("probe{n:08}").into_bytes());
    let dir = |n: usize| dirs[somewhere(n, dirs.len().max(PROBES)) % dirs.len()];
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

const LIFE: [&str; 5] = ["create", "look up", "allocate", "free", "remove"];

/// Inodes of a volume, a hundred in each directory.
fn inodes(image: &Path) -> Result<()> {
    header("one volume: inodes", &LIFE);
    for size in SIZES {
        let volume = fresh(image, 16, &["-d", "agcount=16"])?;
        let dirs = fill(&volume, size / 100)?;
        row(&size.to_string(), &life(&volume, &dirs)?);
        volume.close()?;
    }
    Ok(())
}

/// `count` directories of 99 files.
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

/// Size of a volume, with the groups that mkfs gives it.
fn volume(image: &Path) -> Result<()> {
    header("one volume: GiB (groups)", &LIFE);
    for gib in [1, 16, 128, 1024, 8192] {
        let volume = fresh(image, gib, &[])?;
        let groups = volume.fs().volume().geo().agcount;
        let dirs = fill(&volume, 10)?;
        row(&format!("{gib} ({groups})"), &life(&volume, &dirs)?);
        volume.close()?;
    }
    Ok(())
}
