//! Many threads: the engine compared with the kernel's own XFS.
//!
//! `xfskit-bench scale DIR [names|threads|fsync|crc|memory] [COUNT]`, as root. An image of 8 GiB is
//! created in DIR and removed.
//!
//! | part | what | COUNT |
//! | --- | --- | --- |
//! | `names` | eight writers in eight directories of a volume with 16 groups: zero-length creates with sync; cold look-up and stat of all; unlink of all with sync | files, 400,000 |
//! | `threads` | the same creates on one, two and eight threads; on one thread with one processor, and two with two | files, 400,000 |
//! | `fsync` | eight threads that append 100 bytes and fsync, each to its own file | fsyncs, 4,000 |
//! | `crc` | the cost of checksums in the creates and the fsyncs, hardware routine and table | files, 400,000 |
//! | `memory` | creates with a cache of 256 MiB, which bounds the memory of the process: only on request | files, 20,000,000 |
//!
//! mkfs.xfs makes the volumes of both sides with the same options, and the sides take turns.
//! Processor time is that of this process, without the kernel's threads.

#![allow(clippy::cast_precision_loss)] // of rates

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use xfskit::raw::VolumeExt as _;
use xfskit::raw::core::LockStats;
use xfskit::raw::units::Ino;
use xfskit::raw::vfs::NewNode;
use xfskit::{Volume, VolumeOptions};
use xfskit_bench::contest::{Contest, Quantity};
use xfskit_bench::frame::{self, Result, progress, section};
use xfskit_bench::grid::Grid;
use xfskit_bench::kernel::{self, IoCounters, Mount};
use xfskit_crc::{meter, routines, select};
use xfskit_workload::measure::share::{Metering, percent_of};
use xfskit_workload::measure::usage::peak_memory;
use xfskit_workload::measure::{Ratio, Usage, parallel};
use xfskit_workload::report::{Cell, Section, Table};

pub(super) const TITLE: &str = "Many threads";

/// Number of writers and of directories.
const WRITERS: usize = 8;
/// Bytes of an append.
const APPEND: usize = 100;

const RATE: Quantity = Quantity::rate("1/s", 0);
/// The contenders, and where their volumes are.
const SIDES: [(&str, &str); 2] = [("kernel", "loop device"), ("xfskit", "a file")];
/// xfskit among them.
const OURS: usize = 1;

#[derive(clap::Args)]
struct Args {
    /// Directory for an image of 8 GiB
    dir: PathBuf,
    /// Part [default: all but memory]
    #[arg(value_parser = PARTS.map(|part| part.0))]
    part: Option<String>,
    /// Number of files or fsyncs
    count: Option<usize>,
}

/// The parts: name, usual count, and the function that measures it.
type Part = (&'static str, usize, fn(&Path, usize, usize) -> Result<Section>);
const PARTS: [Part; 5] = [
    ("names", 400_000, names),
    ("threads", 400_000, threads),
    ("fsync", 4_000, fsyncs),
    ("crc", 400_000, checksums),
    ("memory", 20_000_000, memory),
];

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 3, measure)
}

fn measure(Args { dir, part, count }: &Args, turns: usize) -> Result<Vec<Section>> {
    let image = dir.join(format!("xfskit-bench-scale-{}.img", std::process::id()));
    let wanted = |name| part.as_ref().map_or(name != "memory", |part| part == name);
    let sections = PARTS
        .iter()
        .filter(|(name, ..)| wanted(*name))
        .map(|(_, usual, measure)| measure(&image, count.unwrap_or(*usual), turns))
        .collect();
    let _ = std::fs::remove_file(&image);
    sections
}

/// Creates a volume of 8 GiB with 16 groups. The image is written from end to end first, so that
/// the filesystem below does not allocate during the measurement, as a disk would not either.
fn fresh(image: &Path) -> Result<()> {
    if !image.exists() {
        let (mut file, zeroes) = (File::create(image)?, vec![0; 16 << 20]);
        (0..512).try_for_each(|_| file.write_all(&zeroes))?;
        file.sync_all()?;
    }
    mkfs(image)
}

fn mkfs(image: &Path) -> Result<()> {
    let image = image.to_string_lossy();
    kernel::run("mkfs.xfs", &["-q", "-f", "-K", "-d", "agcount=16", &image])?;
    Ok(())
}

fn open(image: &Path, write: bool) -> Result<Volume> {
    Ok(VolumeOptions::new().write(write).open(image)?)
}

/// Runs `work` in `count` threads and then `finish`, and returns the time of both.
fn in_threads(
    count: usize,
    work: impl Fn(usize) -> Result<()> + Sync,
    finish: impl FnOnce() -> Result<()>,
) -> Result<Usage> {
    let work = |n| work(n).map_err(io::Error::other);
    Ok(parallel(count, work, || finish().map_err(io::Error::other))?.usage)
}

/// Returns operations per second.
fn rate(count: usize, usage: &Usage) -> f64 {
    count as f64 / usage.wall.as_secs_f64()
}

/// Returns the columns of the processor time of an operation.
const PROCESSOR: [(&str, &str, u8); 3] =
    [("processor time", "µs", 2), ("own", "µs", 2), ("system", "µs", 2)];

/// Returns the processor time of an operation in µs: all, user and system.
fn processor_of_each(usage: &Usage, count: usize) -> [f64; 3] {
    [usage.processor, usage.user, usage.system].map(|time| time.as_secs_f64() * 1e6 / count as f64)
}

/// Formats `file00000042` without the formatting machinery, because the times of both sides include
/// it.
fn name_of(n: usize) -> Name {
    let mut name = *b"file00000000";
    let mut rest = n;
    for digit in name[4..].iter_mut().rev() {
        *digit = b"0123456789"[rest % 10];
        rest /= 10;
    }
    Name(name)
}

/// The name of a file.
struct Name([u8; 12]);

impl Name {
    fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<Path> for Name {
    fn as_ref(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

// ---- names --------------------------------------------------------------------------------------

fn names(image: &Path, files: usize, turns: usize) -> Result<Section> {
    let mut steps = ["create, sync", "stat, cold", "unlink, sync"]
        .map(|step| Contest::new(step, RATE, OURS, &SIDES));
    let mut processor = Grid::new("Processor time of a create", &PROCESSOR);
    let mut locks = Vec::new();
    for turn in 1..=turns {
        progress(format!("names, turn {turn}"));
        fresh(image)?;
        let theirs = names_by_kernel(image, files)?;
        fresh(image)?;
        let (own, locks_now) = names_by_us(image, files)?;
        for (step, (theirs, own)) in steps.iter_mut().zip(theirs.iter().zip(&own)) {
            step.add(0, rate(files, theirs));
            step.add(OURS, rate(files, own));
        }
        processor.add("xfskit", "a file", &processor_of_each(&own[0], files));
        locks = locks_now;
    }
    let text = format!("{files} zero-length files, {WRITERS} writers in {WRITERS} directories.");
    let tables = steps.iter().map(Contest::table).chain([processor.table(), locks_table(&locks)]);
    Ok(section("Names", &[&text], tables.collect()))
}

/// Returns the table of locks that threads waited for.
fn locks_table(locks: &[(&'static str, LockStats)]) -> Table {
    let columns = [("taken", ""), ("waits", ""), ("waited", "ms")];
    let mut table = Table::new("Locks of the creates, last turn", &columns);
    for (name, lock) in locks.iter().filter(|(_, lock)| lock.waits > 0) {
        let figures = [lock.taken, lock.waits, lock.wait_nanos / 1_000_000];
        table.row(*name, "a file", figures.map(Cell::Count).into());
    }
    table
}

/// Returns the times of creates, look-ups and unlinks.
fn names_by_kernel(image: &Path, files: usize) -> Result<[Usage; 3]> {
    let path = |root: &Path, dir: usize, n: usize| root.join(format!("d{dir}")).join(name_of(n));
    let each = files / WRITERS;
    let create = {
        let mounted = Mount::new(image, "rw")?;
        let root = mounted.path();
        (0..WRITERS).try_for_each(|dir| std::fs::create_dir(root.join(format!("d{dir}"))))?;
        let create =
            |dir| Ok((0..each).try_for_each(|n| File::create(path(root, dir, n)).map(drop))?);
        in_threads(WRITERS, create, || Ok(rustix::fs::syncfs(File::open(root)?)?))?
    };
    kernel::drop_caches()?;
    let stat = {
        let mounted = Mount::new(image, "ro")?;
        let root = mounted.path();
        let stat =
            |dir| Ok((0..each).try_for_each(|n| path(root, dir, n).symlink_metadata().map(drop))?);
        in_threads(WRITERS, stat, || Ok(()))?
    };
    let mounted = Mount::new(image, "rw")?;
    let root = mounted.path();
    let unlink = |dir| Ok((0..each).try_for_each(|n| std::fs::remove_file(path(root, dir, n)))?);
    let unlink = in_threads(WRITERS, unlink, || Ok(rustix::fs::syncfs(File::open(root)?)?))?;
    Ok([create, stat, unlink])
}

/// Statistics of locks by name.
type Locks = Vec<(&'static str, LockStats)>;

/// Returns the times of creates, look-ups and unlinks, and the locks of the creates.
fn names_by_us(image: &Path, files: usize) -> Result<([Usage; 3], Locks)> {
    let each = files / WRITERS;
    let volume = open(image, true)?;
    let dirs = make_dirs(&volume)?;
    let create = create_all(&volume, &dirs, WRITERS, each)?;
    let locks = volume.close()?.stats.locks;

    kernel::drop_caches()?;
    let volume = open(image, false)?;
    let fs = volume.fs();
    let stat = |dir: usize| {
        let dir = fs.inode(dirs[dir])?;
        for n in 0..each {
            let ino = fs.lookup(&dir, name_of(n).as_bytes())?.ok_or("a file is missing")?;
            fs.stat(&fs.inode(ino)?);
        }
        Ok(())
    };
    let stat = in_threads(WRITERS, stat, || Ok(()))?;
    drop(volume);

    let volume = open(image, true)?;
    let unlink = |dir: usize| {
        (0..each).try_for_each(|n| volume.fs().unlink(dirs[dir], name_of(n).as_bytes()))?;
        Ok(())
    };
    let unlink = in_threads(WRITERS, unlink, || Ok(volume.sync()?))?;
    volume.close()?;
    Ok(([create, stat, unlink], locks))
}

fn make_dirs(volume: &Volume) -> Result<Vec<Ino>> {
    let make = |n| volume.make(format!("/d{n}"), &NewNode::directory(0o755));
    Ok((0..WRITERS).map(make).collect::<std::result::Result<_, _>>()?)
}

/// Creates `each` files in every directory, with the directories divided among `threads` threads;
/// then syncs.
fn create_all(volume: &Volume, dirs: &[Ino], threads: usize, each: usize) -> Result<Usage> {
    let create = |thread: usize| {
        for n in 0..each {
            for dir in dirs.iter().skip(thread).step_by(threads) {
                volume.fs().make(*dir, name_of(n).as_bytes(), &NewNode::file(0o644))?;
            }
        }
        Ok(())
    };
    in_threads(threads, create, || Ok(volume.sync()?))
}

// ---- threads ------------------------------------------------------------------------------------

/// Creates files with this number of threads, on this number of processors, which the engine's own
/// threads use too.
fn create_on(image: &Path, files: usize, threads: usize, processors: usize) -> Result<Usage> {
    fresh(image)?;
    let all = sched_getaffinity(None)?;
    let mut some = CpuSet::new();
    let of_all = (0..CpuSet::MAX_CPU).filter(|number| all.is_set(*number));
    of_all.take(processors).for_each(|number| some.set(number));
    // New threads inherit the affinity.
    sched_setaffinity(None, &some)?;
    let volume = open(image, true)?;
    let dirs = make_dirs(&volume)?;
    let usage = create_all(&volume, &dirs, threads, files / WRITERS)?;
    volume.close()?;
    sched_setaffinity(None, &all)?;
    Ok(usage)
}

/// Compares numbers of threads. Two threads against one show how many processors the engine's own
/// threads leave idle. One thread on one processor against two on two show how the engine scales.
fn threads(image: &Path, files: usize, turns: usize) -> Result<Section> {
    let all = thread::available_parallelism()?.get();
    let crews = [(1, 1), (2, 2), (1, all), (2, all), (WRITERS, all)];
    let mut grid = Grid::new("Creates", &[&[("rate", "files/s", 0)], &PROCESSOR[..]].concat());
    for turn in 1..=turns {
        for (n, (threads, processors)) in crews.into_iter().enumerate() {
            progress(format!("turn {turn}: {threads} threads on {processors} processors"));
            let usage = create_on(image, files, threads, processors)?;
            let figures = [&[rate(files, &usage)][..], &processor_of_each(&usage, files)].concat();
            let of_all = if n < 2 { "" } else { " (all)" };
            grid.add(format!("{threads} on {processors}{of_all}"), "a file", &figures);
        }
    }
    let columns = [("rates", "times"), ("at least", ""), ("at most", "")];
    let mut ratios = Table::new("Ratios", &columns);
    for (name, more, less) in [
        ("two threads to one", 3, 2),
        ("two threads on two processors to one on one", 1, 0),
        ("two threads on two processors to one on all", 1, 2),
    ] {
        let Ratio { ratio, low, high } =
            grid.samples(more, 0).paired_ratio_to(grid.samples(less, 0));
        let cells = [ratio, low, high].map(|ratio| Cell::Number(ratio, 2));
        ratios.row(name, "a file", cells.into());
    }
    let text = format!("{files} zero-length files by some threads.");
    Ok(section("Threads", &[&text], vec![grid.table(), ratios]))
}

// ---- fsync --------------------------------------------------------------------------------------

/// Time and counters of appends with fsync.
struct Appends {
    usage: Usage,
    counters: IoCounters,
    /// Cost of the log's checksums, if they are counted.
    sums: meter::Cost,
}

fn fsyncs(image: &Path, count: usize, turns: usize) -> Result<Section> {
    let mut rates = Contest::new("fsyncs", RATE, OURS, &SIDES);
    let columns = [("flushes", "", 2), ("log writes", "", 2), ("log bytes", "", 0)];
    let mut costs = Grid::new("Each fsync", &columns);
    for turn in 1..=turns {
        progress(format!("fsync, turn {turn}"));
        for (n, append) in [fsyncs_by_kernel, fsyncs_by_us].into_iter().enumerate() {
            fresh(image)?;
            let Appends { usage, counters, .. } = append(image, count / WRITERS)?;
            rates.add(n, rate(count, &usage));
            let each = [counters.flushes, counters.log_writes, counters.log_bytes]
                .map(|cost| cost as f64 / count as f64);
            costs.add(SIDES[n].0, SIDES[n].1, &each);
        }
    }
    let text = format!("{count} appends of {APPEND} bytes, each with fsync, {WRITERS} threads.");
    Ok(section("fsync", &[&text], vec![rates.table(), costs.table()]))
}

fn fsyncs_by_kernel(image: &Path, each: usize) -> Result<Appends> {
    let mounted = Mount::new(image, "rw")?;
    let root = mounted.path();
    let before = IoCounters::of(&mounted)?;
    let append = |n| {
        let mut file = File::create(root.join(name_of(n)))?;
        for _ in 0..each {
            file.write_all(&[1; APPEND])?;
            file.sync_all()?;
        }
        Ok(())
    };
    let usage = in_threads(WRITERS, append, || Ok(()))?;
    let after = IoCounters::of(&mounted)?;
    let counters = IoCounters {
        flushes: after.flushes - before.flushes,
        log_writes: after.log_writes - before.log_writes,
        log_bytes: after.log_bytes - before.log_bytes,
    };
    Ok(Appends { usage, counters, sums: meter::Cost::default() })
}

fn fsyncs_by_us(image: &Path, each: usize) -> Result<Appends> {
    let volume = open(image, true)?;
    let append = |n| {
        let ino = volume.make(Path::new("/").join(name_of(n)), &NewNode::file(0o644))?;
        let file = volume.fs().open(ino)?;
        for i in 0..each {
            file.write((i * APPEND) as u64, &[1; APPEND])?;
            file.fsync()?;
        }
        Ok(())
    };
    let usage = in_threads(WRITERS, append, || Ok(()))?;
    let stats = volume.stats();
    let log = stats.log;
    let flushes = log.flushes + log.data_flushes + log.writes + stats.ail.flushes;
    let counters = IoCounters { flushes, log_writes: log.writes, log_bytes: log.bytes };
    volume.close()?;
    Ok(Appends { usage, counters, sums: log.sums })
}

// ---- checksums ----------------------------------------------------------------------------------

fn checksums(image: &Path, files: usize, turns: usize) -> Result<Section> {
    let cores = thread::available_parallelism()?.get() as f64;
    let columns = [
        ("of busy time", "%", 2),
        ("of each file", "ns", 0),
        ("the clock's own", "ns", 0),
        ("sums of each file", "", 1),
        ("bytes of each file", "", 0),
    ];
    let mut creates = Grid::new("Checksums of creates", &columns);
    let title = format!("Checksums of the log, in fsyncs, of the time of {cores} processors");
    let mut fsyncs = Grid::new(title, &[("share", "%", 4)]);
    let best = routines().iter().find(|r| r.available()).map_or("table", |r| r.name);
    for routine in [best, "table"] {
        select(routine);
        let metering = Metering::start();
        for turn in 1..=turns {
            progress(format!("checksums by {routine}, turn {turn}"));
            creates.add(routine, "a file", &sums_of_creates(image, files, &metering)?);
        }
        fresh(image)?;
        let Appends { usage, sums, .. } = fsyncs_by_us(image, 500)?;
        let (sums, elapsed) = (metering.time(sums)?, usage.wall.as_secs_f64() * cores);
        let share = percent_of("checksums of the log", sums.as_secs_f64(), elapsed)?;
        fsyncs.add(routine, "a file", &[share]);
    }
    select(best);
    Ok(section("Checksums", &[], vec![creates.table(), fsyncs.table()]))
}

/// Returns the nanoseconds of one reading of the clock that each checksum reads before and after.
fn clock_nanos() -> f64 {
    const READINGS: u32 = 100_000;
    let start = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(meter::now());
    }
    start.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

/// Returns the cost of checksums in one run of creates: the percentage of busy time; nanoseconds of
/// each file, and the part of them that reading the clock takes; checksums and bytes of each file.
fn sums_of_creates(image: &Path, files: usize, metering: &Metering) -> Result<[f64; 5]> {
    fresh(image)?;
    let volume = open(image, true)?;
    let dirs = make_dirs(&volume)?;
    let before = meter::cost();
    let usage = create_all(&volume, &dirs, WRITERS, files / WRITERS)?;
    let cost = meter::cost() - before;
    volume.close()?;
    let seconds = metering.time(cost)?.as_secs_f64();
    let busy = percent_of("checksums of the creates", seconds, usage.processor.as_secs_f64())?;
    let each = |count: u64| count as f64 / files as f64;
    let sums = each(cost.sums);
    Ok([busy, seconds * 1e9 / files as f64, clock_nanos() * sums, sums, each(cost.bytes)])
}

// ---- memory -------------------------------------------------------------------------------------

fn memory(image: &Path, files: usize, _turns: usize) -> Result<Section> {
    const CACHE: usize = 256 << 20;
    // Inodes may take a quarter of the volume.
    File::create(image)?.set_len(64 << 30)?;
    mkfs(image)?;
    xfskit::allocator::keep_to(CACHE);
    let volume = VolumeOptions::new().write(true).cache_bytes(CACHE).open(image)?;
    let dirs = make_dirs(&volume)?;
    let usage = create_all(&volume, &dirs, WRITERS, files / WRITERS)?;
    volume.close()?;
    let peak = peak_memory().ok_or("no VmHWM")?;
    if peak > CACHE as u64 {
        return Err(format!("more memory than the cache was given: {peak} bytes").into());
    }
    let columns = [("rate", "files/s"), ("peak memory", "MiB")];
    let mut table = Table::new("Creates below a cache of 256 MiB", &columns);
    let cells = vec![Cell::Number(rate(files, &usage), 0), Cell::Count(peak >> 20)];
    table.row(format!("{files} files"), "a file", cells);
    Ok(section("Memory", &[], vec![table]))
}
