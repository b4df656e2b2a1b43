//! Many threads: the engine compared with the kernel's own XFS.
//!
//! `bench-scale DIR [names|threads|fsync|crc|memory] [COUNT] [TURNS]`, as root. An image of 8 GiB
//! is created in DIR and removed.
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

use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use xfskit::raw::VolumeExt as _;
use xfskit::raw::core::LockStats;
use xfskit::raw::units::Ino;
use xfskit::raw::vfs::NewNode;
use xfskit::{Volume, VolumeOptions};
use xfskit_bench::kernel::{self, IoCounters, Mount};
use xfskit_bench::turns::{spread, time};
use xfskit_crc::{meter, routines, select};
use xfskit_workload::measure::share::percent_of;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Number of writers and of directories.
const WRITERS: usize = 8;
/// Bytes of an append.
const APPEND: usize = 100;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let usage = "bench-scale DIR [names|threads|fsync|crc|memory] [COUNT] [TURNS]";
    let dir = PathBuf::from(args.next().ok_or(usage)?);
    let part = args.next();
    let count = args.next().map(|n| n.parse()).transpose()?;
    let turns = args.next().map_or(Ok(3), |n| n.parse())?;
    let image = dir.join(format!("xfskit-bench-scale-{}.img", std::process::id()));
    let is = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if is("names") {
        names(&image, count.unwrap_or(400_000), turns)?;
    }
    if is("threads") {
        threads(&image, count.unwrap_or(400_000), turns)?;
    }
    if is("fsync") {
        fsyncs(&image, count.unwrap_or(4_000), turns)?;
    }
    if is("crc") {
        checksums(&image, count.unwrap_or(400_000), turns)?;
    }
    if part.as_deref() == Some("memory") {
        let kept = memory(&image, count.unwrap_or(20_000_000));
        std::fs::remove_file(&image)?;
        return kept;
    }
    std::fs::remove_file(&image)?;
    Ok(())
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

/// Returns the processor time of this process so far in seconds: user and system.
fn processor_seconds() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let mut ticks = behind.split_whitespace().skip(11).map(|t| t.parse().unwrap_or(0.0) / 100.0);
    [(); 2].map(|()| ticks.next().unwrap_or(0.0))
}

/// Adds the processor time since `before` to `sum`.
fn add_since(sum: &mut [f64; 2], before: [f64; 2]) {
    let now = processor_seconds();
    (0..2).for_each(|i| sum[i] += now[i] - before[i]);
}

/// Formats the processor time per operation.
fn of_each(seconds: [f64; 2], count: usize) -> String {
    let [own, system] = seconds.map(|seconds| seconds * 1e6 / count as f64);
    format!("processor time of a create: {:.2} µs ({own:.2} own, {system:.2} system)", own + system)
}

/// Runs `work` in `count` threads, and returns the total elapsed time.
fn in_threads(count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<Duration> {
    let (took, done) = time(|| {
        thread::scope(|scope| {
            let work = &work;
            let all: Vec<_> = (0..count).map(|n| scope.spawn(move || work(n))).collect();
            all.into_iter()
                .try_for_each(|thread| thread.join().expect("a thread that does not panic"))
        })
    });
    done.map(|()| took)
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

/// Seconds of the three steps, of all turns.
#[derive(Default)]
struct Steps {
    create: Vec<Duration>,
    stat: Vec<Duration>,
    unlink: Vec<Duration>,
    /// Processor time of the creates.
    processor: [f64; 2],
    /// Lock statistics after the creates.
    locks: Vec<(&'static str, LockStats)>,
}

fn names(image: &Path, files: usize, turns: usize) -> Result<()> {
    let (mut kernel, mut ours) = (Steps::default(), Steps::default());
    for _ in 0..turns {
        fresh(image)?;
        names_by_kernel(image, files, &mut kernel)?;
        fresh(image)?;
        names_by_us(image, files, &mut ours)?;
    }
    println!(
        "{files} zero-length files, {WRITERS} writers in {WRITERS} directories; operations/s, median (best, worst)"
    );
    for (what, theirs, own) in [
        ("create, sync", &mut kernel.create, &mut ours.create),
        ("stat, cold", &mut kernel.stat, &mut ours.stat),
        ("unlink, sync", &mut kernel.unlink, &mut ours.unlink),
    ] {
        let (theirs, own) = (spread(theirs), spread(own));
        let rate = |(median, best, worst): (f64, f64, f64)| {
            let rate = |seconds: f64| files as f64 / seconds;
            format!("{:>9.0} ({:.0}, {:.0})", rate(median), rate(best), rate(worst))
        };
        println!(
            "  {what:<13} kernel {:<30} xfskit {:<30} {:.1} times",
            rate(theirs),
            rate(own),
            theirs.0 / own.0
        );
    }
    println!("  {}", of_each(ours.processor, files * turns));
    for (name, lock) in ours.locks.iter().filter(|(_, lock)| lock.waits > 0) {
        let (taken, waits, ms) = (lock.taken, lock.waits, lock.wait_nanos / 1_000_000);
        println!("  lock {name:<12} taken {taken:>9} times, {waits:>6} waits, {ms:>5} ms in all");
    }
    Ok(())
}

fn names_by_kernel(image: &Path, files: usize, steps: &mut Steps) -> Result<()> {
    let path = |root: &Path, dir: usize, n: usize| root.join(format!("d{dir}")).join(name_of(n));
    let each = files / WRITERS;
    {
        let mounted = Mount::new(image, "rw")?;
        let root = mounted.path();
        (0..WRITERS).try_for_each(|dir| std::fs::create_dir(root.join(format!("d{dir}"))))?;
        let (took, done) = time(|| -> Result<()> {
            in_threads(WRITERS, |dir| {
                (0..each).try_for_each(|n| File::create(path(root, dir, n)).map(drop))?;
                Ok(())
            })?;
            Ok(rustix::fs::syncfs(File::open(root)?)?)
        });
        done?;
        steps.create.push(took);
    }
    kernel::drop_caches()?;
    {
        let mounted = Mount::new(image, "ro")?;
        let root = mounted.path();
        steps.stat.push(in_threads(WRITERS, |dir| {
            (0..each).try_for_each(|n| path(root, dir, n).symlink_metadata().map(drop))?;
            Ok(())
        })?);
    }
    let mounted = Mount::new(image, "rw")?;
    let root = mounted.path();
    let (took, done) = time(|| -> Result<()> {
        in_threads(WRITERS, |dir| {
            Ok((0..each).try_for_each(|n| std::fs::remove_file(path(root, dir, n)))?)
        })?;
        Ok(rustix::fs::syncfs(File::open(root)?)?)
    });
    done?;
    steps.unlink.push(took);
    Ok(())
}

fn names_by_us(image: &Path, files: usize, steps: &mut Steps) -> Result<()> {
    let each = files / WRITERS;
    let volume = open(image, true)?;
    let dirs = make_dirs(&volume)?;
    let before = processor_seconds();
    steps.create.push(create_all(&volume, &dirs, WRITERS, each)?);
    add_since(&mut steps.processor, before);
    steps.locks = volume.close()?.stats.locks;

    kernel::drop_caches()?;
    let volume = open(image, false)?;
    let fs = volume.fs();
    steps.stat.push(in_threads(WRITERS, |dir| {
        let dir = fs.inode(dirs[dir])?;
        for n in 0..each {
            let ino = fs.lookup(&dir, name_of(n).as_bytes())?.ok_or("a file is missing")?;
            fs.stat(&fs.inode(ino)?);
        }
        Ok(())
    })?);
    drop(volume);

    let volume = open(image, true)?;
    let (took, done) = time(|| -> Result<()> {
        in_threads(WRITERS, |dir| {
            for n in 0..each {
                volume.fs().unlink(dirs[dir], name_of(n).as_bytes())?;
            }
            Ok(())
        })?;
        Ok(volume.sync()?)
    });
    done?;
    steps.unlink.push(took);
    volume.close()?;
    Ok(())
}

fn make_dirs(volume: &Volume) -> Result<Vec<Ino>> {
    let make = |n| volume.make(format!("/d{n}"), &NewNode::directory(0o755));
    Ok((0..WRITERS).map(make).collect::<std::result::Result<_, _>>()?)
}

/// Creates `each` files in every directory, with the directories divided among `threads` threads;
/// then syncs.
fn create_all(volume: &Volume, dirs: &[Ino], threads: usize, each: usize) -> Result<Duration> {
    let (took, done) = time(|| -> Result<()> {
        in_threads(threads, |thread| {
            for n in 0..each {
                for dir in dirs.iter().skip(thread).step_by(threads) {
                    volume.fs().make(*dir, name_of(n).as_bytes(), &NewNode::file(0o644))?;
                }
            }
            Ok(())
        })?;
        Ok(volume.sync()?)
    });
    done.map(|()| took)
}

// ---- threads ------------------------------------------------------------------------------------

/// Number of creating threads, and of processors that they and the engine's own threads may use.
struct Crew {
    threads: usize,
    processors: usize,
    took: Vec<Duration>,
    processor: [f64; 2],
}

impl Crew {
    fn new(threads: usize, processors: usize) -> Self {
        Self { threads, processors, took: Vec::new(), processor: [0.0; 2] }
    }

    fn create(&mut self, image: &Path, files: usize) -> Result<()> {
        fresh(image)?;
        let all = sched_getaffinity(None)?;
        let mut some = CpuSet::new();
        let of_all = (0..CpuSet::MAX_CPU).filter(|number| all.is_set(*number));
        of_all.take(self.processors).for_each(|number| some.set(number));
        // New threads inherit the affinity.
        sched_setaffinity(None, &some)?;
        let volume = open(image, true)?;
        let dirs = make_dirs(&volume)?;
        let before = processor_seconds();
        self.took.push(create_all(&volume, &dirs, self.threads, files / WRITERS)?);
        add_since(&mut self.processor, before);
        volume.close()?;
        Ok(sched_setaffinity(None, &all)?)
    }
}

/// Compares numbers of threads. Two threads against one show how many processors the engine's own
/// threads leave idle. One thread on one processor against two on two show how the engine scales.
fn threads(image: &Path, files: usize, turns: usize) -> Result<()> {
    let all = thread::available_parallelism()?.get();
    let mut crews = [(1, 1), (2, 2), (1, all), (2, all), (WRITERS, all)]
        .map(|(threads, processors)| Crew::new(threads, processors));
    for _ in 0..turns {
        crews.iter_mut().try_for_each(|crew| crew.create(image, files))?;
    }
    println!("{files} zero-length files by some threads; files/s, median (best, worst)");
    let medians = crews.each_mut().map(|crew| {
        let (median, best, worst) = spread(&mut crew.took);
        let rate = |seconds: f64| files as f64 / seconds;
        println!(
            "  {} on {} processors {:>9.0} ({:.0}, {:.0}); {}",
            crew.threads,
            crew.processors,
            rate(median),
            rate(best),
            rate(worst),
            of_each(crew.processor, files * turns)
        );
        median
    });
    println!("  two threads: {:.2} times one", medians[2] / medians[3]);
    println!("  two threads on two processors: {:.2} times one on one", medians[0] / medians[1]);
    Ok(())
}

// ---- fsync --------------------------------------------------------------------------------------

/// Times and counters of appends with fsync.
#[derive(Default)]
struct Appends {
    took: Vec<Duration>,
    /// Seconds of all turns.
    costs: IoCounters,
    /// Cost of the log's checksums, if they are counted.
    sums: meter::Cost,
}

fn fsyncs(image: &Path, count: usize, turns: usize) -> Result<()> {
    let (mut kernel, mut ours) = (Appends::default(), Appends::default());
    for _ in 0..turns {
        fresh(image)?;
        fsyncs_by_kernel(image, count / WRITERS, &mut kernel)?;
        fresh(image)?;
        fsyncs_by_us(image, count / WRITERS, &mut ours)?;
    }
    println!("{count} appends of {APPEND} bytes, each with fsync, {WRITERS} threads");
    println!("          fsyncs/s, median (best, worst)   flushes, log writes, log bytes of each");
    for (name, mut appends) in [("kernel", kernel), ("xfskit", ours)] {
        let (median, best, worst) = spread(&mut appends.took);
        let rate = |seconds: f64| count as f64 / seconds;
        let rates = format!("{:.0} ({:.0}, {:.0})", rate(median), rate(best), rate(worst));
        let IoCounters { flushes, log_writes, log_bytes } = appends.costs;
        let each = |cost: u64| cost as f64 / (count * turns) as f64;
        let (flushes, log_writes, log_bytes) = (each(flushes), each(log_writes), each(log_bytes));
        println!("  {name}  {rates:<32} {flushes:.2}  {log_writes:.2}  {log_bytes:.0}");
    }
    Ok(())
}

fn fsyncs_by_kernel(image: &Path, each: usize, sum: &mut Appends) -> Result<()> {
    let mounted = Mount::new(image, "rw")?;
    let root = mounted.path();
    let before = IoCounters::of(&mounted)?;
    sum.took.push(in_threads(WRITERS, |n| {
        let mut file = File::create(root.join(name_of(n)))?;
        for _ in 0..each {
            file.write_all(&[1; APPEND])?;
            file.sync_all()?;
        }
        Ok(())
    })?);
    let after = IoCounters::of(&mounted)?;
    sum.costs.flushes += after.flushes - before.flushes;
    sum.costs.log_writes += after.log_writes - before.log_writes;
    sum.costs.log_bytes += after.log_bytes - before.log_bytes;
    Ok(())
}

fn fsyncs_by_us(image: &Path, each: usize, sum: &mut Appends) -> Result<()> {
    let volume = open(image, true)?;
    sum.took.push(in_threads(WRITERS, |n| {
        let ino = volume.make(Path::new("/").join(name_of(n)), &NewNode::file(0o644))?;
        let file = volume.fs().open(ino)?;
        for i in 0..each {
            file.write((i * APPEND) as u64, &[1; APPEND])?;
            file.fsync()?;
        }
        Ok(())
    })?);
    let stats = volume.stats();
    let log = stats.log;
    sum.costs.flushes += log.flushes + log.data_flushes + log.writes + stats.ail.flushes;
    sum.costs.log_writes += log.writes;
    sum.costs.log_bytes += log.bytes;
    sum.sums = sum.sums + log.sums;
    volume.close()?;
    Ok(())
}

// ---- checksums ----------------------------------------------------------------------------------

/// The cost of checksums in one run of creates.
struct Sums {
    /// Percentage of busy cycles.
    busy: f64,
    /// Nanoseconds per file, and the part that reading the clock before and after each sum takes.
    nanos: f64,
    clock: f64,
    /// Checksums and bytes per file.
    count: f64,
    bytes: f64,
}

fn checksums(image: &Path, files: usize, turns: usize) -> Result<()> {
    let cores = thread::available_parallelism()?.get() as f64;
    println!(
        "checksums: of busy cycles, ns of each file; the log's, of elapsed time of {cores} processors; median (best, worst)"
    );
    let best = routines().iter().find(|r| r.available()).map_or("table", |r| r.name);
    for routine in [best, "table"] {
        select(routine);
        meter::turn_on(true);
        let creates =
            (0..turns).map(|_| sums_of_creates(image, files)).collect::<Result<Vec<_>>>()?;
        let middle = |of: fn(&Sums) -> f64| {
            let mut all: Vec<f64> = creates.iter().map(of).collect();
            all.sort_unstable_by(f64::total_cmp);
            (all[all.len() / 2], all[0], all[all.len() - 1])
        };
        let (busy, least, most) = middle(|sums| sums.busy);
        println!("  {routine:<8} create: {busy:.2} % of busy cycles ({least:.2}, {most:.2})");
        let (nanos, least, most) = middle(|sums| sums.nanos);
        println!(
            "  {routine:<8} create: {nanos:.0} ns of each file ({least:.0}, {most:.0}), {:.0} of them the clock's own; {:.1} sums, {:.0} bytes",
            middle(|sums| sums.clock).0,
            middle(|sums| sums.count).0,
            middle(|sums| sums.bytes).0,
        );
        fresh(image)?;
        let mut appends = Appends::default();
        fsyncs_by_us(image, 500, &mut appends)?;
        let elapsed = appends.took[0].as_secs_f64() * cores;
        let seconds = scaled(appends.sums)? / cycles_per_second();
        let share = percent_of("checksums of the log", seconds, elapsed)?;
        println!("  {routine:<8} fsync: the log's {share:.4} % of elapsed time");
        meter::turn_on(false);
    }
    Ok(())
}

/// Returns the cycles of all checksums.
fn scaled(cost: meter::Cost) -> Result<f64> {
    Ok(cost.scaled_cycles().ok_or("every checksum was interrupted: no cost of one is known")?)
}

fn cycles_per_second() -> f64 {
    let start = meter::now();
    thread::sleep(Duration::from_millis(100));
    (meter::now() - start) as f64 * 10.0
}

/// Returns the cycles between two consecutive readings of the clock.
fn clock_cycles() -> f64 {
    const READINGS: u64 = 100_000;
    let between: u64 = (0..READINGS)
        .map(|_| {
            let start = meter::now();
            std::hint::black_box(meter::now()) - start
        })
        .sum();
    between as f64 / READINGS as f64
}

fn sums_of_creates(image: &Path, files: usize) -> Result<Sums> {
    fresh(image)?;
    let volume = open(image, true)?;
    let dirs = make_dirs(&volume)?;
    let (before, start) = (meter::cost(), processor_seconds());
    create_all(&volume, &dirs, WRITERS, files / WRITERS)?;
    let mut taken = [0.0; 2];
    add_since(&mut taken, start);
    let cost = meter::cost();
    volume.close()?;
    let per_second = cycles_per_second();
    let seconds = scaled(cost - before)? / per_second;
    let each = |count: u64| count as f64 / files as f64;
    let sums = each(cost.sums - before.sums);
    Ok(Sums {
        busy: percent_of("checksums of the creates", seconds, taken.iter().sum())?,
        nanos: seconds * 1e9 / files as f64,
        clock: clock_cycles() / per_second * 1e9 * sums,
        count: sums,
        bytes: each(cost.bytes - before.bytes),
    })
}

// ---- memory -------------------------------------------------------------------------------------

fn memory(image: &Path, files: usize) -> Result<()> {
    const CACHE: usize = 256 << 20;
    // Inodes may take a quarter of the volume.
    File::create(image)?.set_len(64 << 30)?;
    mkfs(image)?;
    xfskit::allocator::keep_to(CACHE);
    let volume = VolumeOptions::new().write(true).cache_bytes(CACHE).open(image)?;
    let dirs = make_dirs(&volume)?;
    let took = create_all(&volume, &dirs, WRITERS, files / WRITERS)?;
    volume.close()?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).ok_or("no VmHWM")?;
    let peak: usize = peak.trim().parse()?;
    let rate = files as f64 / took.as_secs_f64();
    println!(
        "{files} files below a cache of {} MiB: {rate:.0} files/s; peak {} MiB",
        CACHE >> 20,
        peak >> 10
    );
    if peak << 10 > CACHE {
        return Err("more memory than the cache was given".into());
    }
    Ok(())
}
