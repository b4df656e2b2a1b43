//! The studies and their sizes: converts command lines to parameters of suites.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use xfskit::md::Level;
use xfskit::target::Device;
use xfskit::{Mount, Mounted, VolumeOptions};
use xfskit_workload::mounter::{BlockDevice, Mounter, OpenMode, Served};
use xfskit_workload::repairer::{Repaired, Repairer};
use xfskit_workload::suite::raid::members::{MemberKind, Plan};
use xfskit_workload::suite::{
    Observer, Settings, checksum, crc_update, inodes, locks, raid, xattrs,
};
use xfskit_workload::testbed::{Implementation, Testbed};

use crate::grammar::bench::{
    Against, Checksum, CrcUpdate, InodeStep, Inodes, Locks, Program, Raid, Shape, SuiteOptions,
    XattrPart, Xattrs,
};

/// Bytes of a disk if the study does not name a size.
const DISK: u64 = 1 << 40;
/// Threads of the studies of many threads.
const THREADS: usize = 8;

/// Space cases of a quick run: every kind once.
const QUICK_CASES: [&str; 4] = [
    "n20000-40",
    "n20000-120-150-200-220-255-d25",
    "n20000-20-40-60-80-100-o25",
    "n20000--s-50-60--N-8000",
];

pub(super) fn xattrs(args: &Xattrs, observer: &mut dyn Observer) -> io::Result<()> {
    let quick = args.options.quick;
    let usual = |quick_one, full| if quick { quick_one } else { full };
    let mut options = xattrs::Options {
        cost: Some(xattrs::cost::Counts {
            most: args.count.unwrap_or(usual(50_000, 10_000_000)),
            step: args.step.unwrap_or(usual(10_000, 1_000_000)),
        }),
        links: Some(args.links.unwrap_or(usual(10_000, 10_000_000))),
        ..xattrs::Options::default()
    };
    if !args.cases.is_empty() {
        options.cases.clone_from(&args.cases);
        options.overflow = false;
    } else if quick {
        options.overflow = false;
        options.cases = QUICK_CASES.iter().filter_map(|case| case.parse().ok()).collect();
    }
    // Named cases run alone, with any part that numbers are given for.
    let given = |part| match part {
        XattrPart::Space => true,
        XattrPart::Cost => args.count.is_some() || args.step.is_some(),
        XattrPart::Links => args.links.is_some(),
    };
    let wanted = |part| match &args.only[..] {
        [] => args.cases.is_empty() || given(part),
        only => only.contains(&part),
    };
    if !wanted(XattrPart::Space) {
        options.cases.clear();
        options.overflow = false;
    }
    options.cost = options.cost.filter(|_| wanted(XattrPart::Cost));
    options.links = options.links.filter(|_| wanted(XattrPart::Links));
    let settings = settings(&args.options, DISK)?;
    xattrs::run(&options, &settings, observer)
}

/// Bytes of the journal of the study of checksums.
const CHECKSUM_LOG: u64 = 128 << 20;
/// Default repetitions: a single one would prove nothing.
const CHECKSUM_TURNS: [usize; 2] = [5, 3];

pub(super) fn checksum(args: &Checksum, observer: &mut dyn Observer) -> io::Result<()> {
    let quick = args.options.quick;
    let wanted = |program| args.only.is_empty() || args.only.contains(&program);
    let number = |given: Option<u32>, usual: [u32; 2]| {
        usize::try_from(given.unwrap_or(usual[usize::from(quick)])).unwrap_or(usize::MAX)
    };
    let options = checksum::Options {
        files: wanted(Program::FsMark)
            .then(|| args.files.unwrap_or(if quick { 2000 } else { 50_000 })),
        passes: wanted(Program::Dbench).then(|| args.passes.unwrap_or(if quick { 1 } else { 10 })),
        loadfile: args.loadfile.as_deref().map(loadfile).transpose()?,
        originals: true,
        runs: wanted(Program::Compilebench).then(|| number(args.runs, [100, 12])),
        trees: number(args.trees, [10, 3]),
        tree_files: number(args.tree_files, [4000, 200]),
    };
    let mut settings = settings(&args.options, DISK)?;
    settings.threads = args.options.threads.map_or(if quick { 2 } else { THREADS }, usize::from);
    settings.repetitions =
        args.options.repetitions.map_or(CHECKSUM_TURNS[usize::from(quick)], usize::from);
    settings.testbed.mkfs.agcount = u32::try_from(settings.threads * 2).ok();
    settings.testbed.set_log_size(CHECKSUM_LOG);
    checksum::run(&options, &settings, observer)
}

/// Returns the text of a loadfile, and its name.
fn loadfile(path: &std::path::Path) -> io::Result<(String, String)> {
    let failed = |err| io::Error::other(format!("{}: {err}", path.display()));
    let bytes = std::fs::read(path).map_err(failed)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), path.display().to_string()))
}

/// Bytes of a disk of the published test.
const INODES_DISK: u64 = 500 << 40;
/// Bytes of the journal: "hundreds of MB".
const INODES_LOG: u64 = 512 << 20;
/// Largest group.
const GROUP_MAX: u64 = 1 << 40;

pub(super) fn inodes(args: &Inodes, observer: &mut dyn Observer) -> io::Result<()> {
    let mut settings = settings(&args.options, INODES_DISK)?;
    let (files, loops) = if args.options.quick { (2000, 2) } else { (25_000, 4) };
    let options = inodes::Options {
        shapes: args.shape.iter().map(|shape| shape_of(*shape)).collect(),
        steps: args.only.iter().map(|step| step_of(*step)).collect(),
        files: args.files.unwrap_or(files),
        loops: args.loops.unwrap_or(loops),
        file_size: args.file_size,
        subdirs: args.subdirs,
    };
    settings.threads = args.options.threads.map_or(THREADS, usize::from);
    for_many_threads(&mut settings.testbed, settings.threads, args.groups);
    inodes::run(&options, &settings, observer)
}

/// Makes a testbed for many threads: `groups` groups, or at least two for each thread, and a large
/// journal.
fn for_many_threads(testbed: &mut Testbed, threads: usize, groups: Option<u32>) {
    let least = u32::try_from(threads * 2).unwrap_or(u32::MAX);
    let usual = testbed.size.0.div_ceil(GROUP_MAX) >= u64::from(least);
    testbed.mkfs.agcount = groups.or((!usual).then_some(least));
    if testbed.size.0 >= 8 * INODES_LOG {
        testbed.set_log_size(INODES_LOG);
    }
}

/// Time of a point of the locks and the arrays in a quick run.
const QUICK_TIME: Duration = Duration::from_millis(500);

pub(super) fn locks(args: &Locks, observer: &mut dyn Observer) -> io::Result<()> {
    let mut settings = settings(&args.options, DISK)?;
    let options = locks_options(args);
    let most = options.threads.iter().copied().max().unwrap_or(1);
    for_many_threads(&mut settings.testbed, most, None);
    locks::run(&options, &settings, observer)
}

fn locks_options(args: &Locks) -> locks::Options {
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let quick = args.options.quick;
    let mut threads: Vec<usize> = args.at.iter().map(|n| n.get()).collect();
    if threads.is_empty() {
        threads = match args.options.threads {
            Some(threads) => vec![1, threads.get()],
            None => vec![1, here, 2 * here, 8 * here],
        };
        threads.dedup();
    }
    locks::Options {
        threads,
        time: args.time.unwrap_or(if quick { QUICK_TIME } else { Duration::from_secs(1) }),
        processors: args.processors.iter().map(|n| n.get()).collect(),
        events: if quick { 50_000 } else { 2_000_000 },
    }
}

/// Sizes of the stripe cache, in stripes of md.
const CACHES: [u64; 8] = [256, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Bytes of a file in a quick run: a little more than two stripes.
const QUICK_FILE: u64 = 24 << 20;
/// Chunk sizes, in bytes.
const CHUNKS: [u64; 6] = [16 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

/// Sizes of requests, in bytes.
const REQUESTS: [u64; 7] = [4 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20, 4 << 20];
/// Bytes of a megabyte, as disks have it.
const MB: u64 = 1_000_000;
/// Speeds of a member, in bytes per second.
const SPEEDS: [u64; 7] = [50 * MB, 100 * MB, 200 * MB, 400 * MB, 800 * MB, 1600 * MB, 3200 * MB];
/// Limits of a rebuild, in bytes per second of a member.
const REBUILD_LIMITS: [u64; 4] = [100 * MB, 50 * MB, 20 * MB, 10 * MB];

/// Readers of an array.
const READERS: NonZeroUsize = NonZeroUsize::new(50).unwrap();
/// Readers of an array in a quick run: enough requests of each in a short time.
const QUICK_READERS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
/// Bytes of a file on an array.
const FILE: u64 = 48 << 20;

pub(super) fn raid(args: &Raid, observer: &mut dyn Observer) -> io::Result<()> {
    let settings = settings(&args.options, DISK)?;
    raid::run(&raid_options(args)?, &settings, observer)
}

fn raid_options(args: &Raid) -> io::Result<raid::Options> {
    let quick = args.options.quick;
    let members = match (args.speed, &args.options.dir) {
        (Some(speed), _) => MemberKind::Simulated {
            speed: speed.max(1),
            latency: Duration::from_micros(args.latency),
        },
        (None, Some(dir)) => MemberKind::Files(dir.clone()),
        (None, None) => MemberKind::Memory,
    };
    let usual = if quick { QUICK_READERS } else { READERS };
    let readers = args.options.threads.or(args.readers).unwrap_or(usual).get();
    let (level, legs) = level_of(&args.level)?;
    let mut options = raid::Options {
        plan: Plan { level, legs, members: args.members, chunk: args.chunk },
        members,
        readers,
        file_size: args.file_size.unwrap_or(if quick { QUICK_FILE } else { FILE }),
        request: args.request,
        stripe_cache: args.stripe_cache,
        time: args.time.unwrap_or(if quick { QUICK_TIME } else { Duration::from_secs(2) }),
        caches: CACHES.into(),
        chunks: CHUNKS.into(),
        threads: [1, 2, 4, 8, readers].into_iter().filter(|n| *n <= readers).collect(),
        requests: REQUESTS.into(),
        speeds: SPEEDS.into(),
        rebuild_limits: args.rebuild_limit.clone(),
        volume: true,
        raid50: true,
    };
    options.threads.dedup();
    if options.rebuild_limits.is_empty() {
        options.rebuild_limits = REBUILD_LIMITS.into();
    }
    if quick {
        options.requests.retain(|bytes| [4 << 10, 128 << 10, 1 << 20].contains(bytes));
        options.speeds.retain(|speed| [100_000_000, 800_000_000].contains(speed));
        if args.rebuild_limit.is_empty() {
            options.rebuild_limits.retain(|limit| *limit == 20_000_000);
        }
        options.caches.retain(|stripes| [256, 4096, 32_768].contains(stripes));
        options.chunks.retain(|bytes| [64 << 10, 512 << 10].contains(bytes));
        options.threads.retain(|n| [1, 4].contains(n) || *n == readers);
    }
    Ok(options)
}

/// Returns a level, and the number of arrays of it that are striped: RAID50 is two RAID5.
fn level_of(name: &str) -> io::Result<(Level, u32)> {
    let (name, legs) = match name {
        "raid50" | "50" => ("raid5", 2),
        "raid60" | "60" => ("raid6", 2),
        name => (name, 1),
    };
    let unknown = || io::Error::other(format!("{name} is not a level of md"));
    Level::from_name(name).map(|level| (level, legs)).ok_or_else(unknown)
}

/// Bytes of the journal that is recovered in a quick run.
const QUICK_LOG: u64 = 64 << 20;

pub(super) fn crc_update(args: &CrcUpdate, observer: &mut dyn Observer) -> io::Result<()> {
    let mut settings = settings(&args.options, DISK)?;
    settings.threads = args.options.threads.map_or(THREADS, usize::from);
    let mut options = crc_update::Options { bytes: args.bytes, ..crc_update::Options::default() };
    if args.options.quick {
        (options.turn, options.appends) = (Duration::from_micros(50), 1000);
        options.recovery_log = Some(QUICK_LOG);
    }
    options.recovery_log = args.journal.or(options.recovery_log);
    options.appends = args.appends.unwrap_or(options.appends);
    crc_update::run(&options, &settings, observer)
}

fn step_of(step: InodeStep) -> inodes::step::Step {
    use inodes::step::Step;
    match step {
        InodeStep::Create => Step::Create,
        InodeStep::Repair => Step::Repair,
        InodeStep::Check => Step::Check,
        InodeStep::Bulkstat => Step::Bulkstat,
        InodeStep::Find => Step::Find,
        InodeStep::List => Step::List,
        InodeStep::Remove => Step::Remove,
    }
}

fn shape_of(shape: Shape) -> inodes::shape::Shape {
    match shape {
        Shape::Separate => inodes::shape::Shape::Separate,
        Shape::Shared => inodes::shape::Shape::Shared,
        Shape::Deep => inodes::shape::Shape::Deep,
        Shape::Racing => inodes::shape::Shape::Racing,
    }
}

/// Returns the settings of every suite. Its disks have `size` unless the user names one, or as much
/// of that as files in their directory can have.
fn settings(options: &SuiteOptions, size: u64) -> io::Result<Settings> {
    let baselines = options.against.iter().map(|against| match against {
        Against::Kernel => Implementation::Kernel,
        Against::Mount => Implementation::Mount,
    });
    let baselines: Vec<Implementation> = baselines.collect();
    let (dir, size) = (options.dir.clone(), options.size.unwrap_or(size));
    let testbed = Testbed::new(dir, size, VolumeOptions::default_cache_bytes());
    let testbed = testbed.with_kernel(baselines.contains(&Implementation::Kernel));
    let (mounter, repairer) = (Some(Arc::new(Mounts) as _), Some(Arc::new(Repairs) as _));
    let testbed = Testbed { mounter, repairer, ..testbed };
    let testbed = if options.size.is_none() { testbed.limited_to_dir()? } else { testbed };
    Ok(Settings {
        testbed,
        baselines,
        threads: options.threads.map_or(1, usize::from),
        seed: options.seed,
        repetitions: options.repetitions.map_or(1, usize::from),
    })
}

/// Mounts volumes by the facade.
#[derive(Debug)]
struct Mounts;

impl Mounter for Mounts {
    fn mount(
        &self,
        device: Arc<dyn BlockDevice>,
        mode: OpenMode,
        dir: &Path,
    ) -> io::Result<Box<dyn Served>> {
        let options = VolumeOptions::new().write(mode == OpenMode::ReadWrite);
        let volume = options.open_on(&Device::from(device)).map_err(io::Error::other)?;
        let mount = Mount::new().source("xfskit-bench");
        let mounted = mount.start(volume, dir).map_err(io::Error::other)?;
        Ok(Box::new(ServedVolume(mounted)))
    }
}

/// A volume that is mounted by the facade.
#[derive(Debug)]
struct ServedVolume(Mounted);

impl Served for ServedVolume {
    fn unmount(self: Box<Self>) -> io::Result<()> {
        self.0.unmount().map_err(io::Error::other)?;
        self.0.close().map(drop).map_err(io::Error::other)
    }
}

/// Repairs volumes by the facade.
#[derive(Debug)]
struct Repairs;

impl Repairer for Repairs {
    fn repair(&self, device: Arc<dyn BlockDevice>, threads: usize) -> io::Result<Repaired> {
        let repair = xfskit::Repair::new().threads(threads).prepare_device(&Device::from(device));
        let repair = repair.map_err(io::Error::other)?;
        let written = repair.commit(None).map_err(io::Error::other)?;
        Ok(Repaired { inodes: repair.after().inodes, written: written.bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::super::usual;
    use super::*;

    fn quick<T: clap::Args>(words: &str) -> T {
        usual::<T>(&format!("--quick {words}"))
    }

    #[test]
    fn given_numbers_count_in_a_quick_run_of_the_arrays() {
        let options = |words| raid_options(&quick(words)).expect("options");
        let usual = options("");
        assert_eq!((usual.time, usual.readers, usual.file_size), (QUICK_TIME, 8, QUICK_FILE));
        let given = options("--time 3 --readers 50 --file-size 100M --request 64K");
        assert_eq!((given.time, given.readers), (Duration::from_secs(3), 50));
        assert_eq!((given.file_size, given.request), (100 << 20, 64 << 10));
        assert_eq!(options("--threads 5").readers, 5);
        let full = raid_options(&super::super::usual("")).expect("options");
        assert_eq!((full.time, full.readers, full.file_size), (Duration::from_secs(2), 50, FILE));
    }

    #[test]
    fn given_numbers_count_in_a_quick_run_of_the_locks() {
        let given = locks_options(&quick("--time 2.5 --at 3 --processors 9"));
        assert_eq!(given.time, Duration::from_millis(2500));
        assert_eq!((given.threads, given.processors), (vec![3], vec![9]));
        assert_eq!(locks_options(&quick("")).time, QUICK_TIME);
        assert_eq!(locks_options(&usual("")).time, Duration::from_secs(1));
    }
}
