//! Mounted filesystems: `xfskit mount` by the device and by io_uring, the kernel's XFS,
//! passthrough_ll and fuse2fs, used by the same programs.
//!
//! `xfskit-bench mount DIR`, as root. An image is created in DIR and removed; passthrough_ll, which
//! is built from the example of Debian's libfuse3-dev, and the repository of `git` are kept there.
//!
//! | workload | what | programs |
//! | --- | --- | --- |
//! | `names` | empty files made by one writer and eight, looked up, listed, removed | fs_mark, find, rm |
//! | `stream` | a large file, written and read; pages from the cache; direct I/O | |
//! | `dbench` | eight clients of dbench | dbench |
//! | `git` | a clone with its checkout, and its removal | git, rm |
//! | `degraded` | readers of a RAID6 of simulated members through our mount: healthy, one and two missing | |
//!
//! All sides use the same image, one after the other. A side that cannot be measured on this
//! machine is left out, and the report says why.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use xfskit_bench::frame::{self, Result, section};
use xfskit_bench::mount::dbench::Dbench;
use xfskit_bench::mount::degraded::Degraded;
use xfskit_bench::mount::git::Git;
use xfskit_bench::mount::names::Names;
use xfskit_bench::mount::side::Side;
use xfskit_bench::mount::stream::Stream;
use xfskit_bench::mount::{Bench, raise_descriptors, workload};
use xfskit_units::ByteLen;
use xfskit_workload::report::{Cell, Section, Table};

pub(super) const TITLE: &str = "Mounted filesystems";

#[derive(clap::Args)]
struct Args {
    /// Directory for the image and the tools
    dir: PathBuf,
    /// Workloads, with commas between them [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = WORKLOADS.map(|(name, _)| name))]
    only: Vec<String>,
    /// Sides, with commas between them [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    sides: Vec<Side>,
    /// Size of the image in MiB
    #[arg(long, value_name = "MIB", default_value_t = 8192, value_parser = some(300))]
    image: u64,
    /// Files of `names`. passthrough_ll holds a descriptor for each
    #[arg(long, value_name = "NUMBER", default_value_t = 16_000, value_parser = some(8))]
    files: u64,
    /// Size of the large file of `stream` in MiB
    #[arg(long, value_name = "MIB", default_value_t = 2048, value_parser = some(1))]
    size: u64,
    /// Seconds of each random step of `stream`, and of each point of `degraded`
    #[arg(long, value_name = "NUMBER", default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Seconds of a run of dbench
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = some(1))]
    dbench_seconds: u64,
    /// Clients of dbench
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = some(1))]
    clients: u64,
    /// Loadfile of dbench
    #[arg(long, value_name = "FILE", default_value = "/usr/share/dbench/client.txt")]
    load: String,
    /// Files of the repository of `git`
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000, value_parser = some(1))]
    tree: u64,
    /// Readers of `degraded`
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = some(1))]
    readers: u64,
    /// Stripes of 11 MiB of each file of `degraded`
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = some(1))]
    stripes: u64,
    /// Speed of a simulated member in MB/s
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = some(1))]
    speed: u64,
    /// Memory for stripes of the array of `degraded` in MiB [default: that of a mount]
    #[arg(long, value_name = "MIB", value_parser = some(0))]
    stripe_cache: Option<u64>,
    /// Options of our mount, as for `xfskit mount -o`
    #[arg(long, value_name = "OPTION,…")]
    options: Option<String>,
    /// Leave the caches of the machine alone: for trials, because the figures mean nothing then
    #[arg(long)]
    keep_caches: bool,
}

/// Returns the parser of a number that is `least` or more.
fn some(least: u64) -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(least..)
}

fn seconds(text: &str) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}

/// A workload: its name, and the function that measures it.
type Workload = (&'static str, fn(&Args, &Bench) -> Result<Section>);
const WORKLOADS: [Workload; 5] = [
    ("names", |args, bench| workload::measure(bench, &Names { files: args.files })),
    ("stream", |args, bench| {
        workload::measure(bench, &Stream { size: args.size << 20, time: args.seconds })
    }),
    ("dbench", |args, bench| {
        let Args { clients, dbench_seconds: seconds, ref load, .. } = *args;
        workload::measure(bench, &Dbench { clients, seconds, load: load.clone() })
    }),
    ("git", |args, bench| {
        workload::measure(bench, &Git { files: args.tree, dir: bench.dir.clone() })
    }),
    ("degraded", |args, bench| {
        let (readers, speed) = (args.readers, args.speed * 1_000_000);
        let of_a_mount = xfskit_md::array::Options::default().stripe_cache;
        let stripe_cache = args.stripe_cache.map_or(of_a_mount, |mib| ByteLen(mib << 20));
        let (stripes, time) = (args.stripes, args.seconds);
        Degraded { readers, speed, stripes, stripe_cache, time }.measure(bench)
    }),
];

impl Args {
    fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == workload)
    }
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 6, measure)
}

fn measure(args: &Args, turns: usize) -> Result<Vec<Section>> {
    if !rustix::process::geteuid().is_root() {
        return Err("these benchmarks mount volumes and drop caches: run as root".into());
    }
    let mut bench = Bench {
        dir: args.dir.canonicalize().map_err(|error| format!("{}: {error}", args.dir.display()))?,
        sides: Side::ALL.to_vec(),
        turns,
        image_bytes: args.image << 20,
        options: args.options.clone(),
        keeps_caches: args.keep_caches,
        xfskit: std::env::current_exe()?.with_file_name("xfskit"),
    };
    let mut sections = vec![sides(args, &mut bench)];
    let sections = measure_all(args, &bench, &mut sections).map(|()| sections);
    bench.remove();
    sections
}

fn measure_all(args: &Args, bench: &Bench, sections: &mut Vec<Section>) -> Result<()> {
    if WORKLOADS.iter().any(|(name, _)| *name != "degraded" && args.wants(name)) {
        bench.fill_image()?;
    }
    for (_, measure) in WORKLOADS.iter().filter(|(name, _)| args.wants(name)) {
        sections.push(measure(args, bench)?);
    }
    Ok(())
}

/// Finds the sides that can be measured, and returns the section about them.
fn sides(args: &Args, bench: &mut Bench) -> Section {
    let descriptors = raise_descriptors();
    let mut table = Table::new("Sides", &[("measured", "")]);
    for side in Side::ALL {
        let wanted = args.sides.is_empty() || args.sides.contains(&side);
        let missing = if wanted { side.missing(bench) } else { Some("not requested".into()) };
        if missing.is_some() {
            bench.sides.retain(|other| *other != side);
        }
        let measured = missing.map_or("yes".into(), |why| format!("left out: {why}"));
        table.row(side.name(), side.storage(), vec![Cell::Text(measured)]);
    }
    let mut text = vec![format!(
        "All sides use one image of {} MiB in one directory, one after the other, each on a new volume. XFS has {} groups. The limit of open files is {}.",
        args.image,
        bench.groups(),
        Cell::Count(descriptors)
    )];
    text.extend(args.options.iter().map(|options| format!("Options of xfskit mount: {options}.")));
    if args.keep_caches {
        text.push("The caches of the machine were not dropped: these figures mean nothing.".into());
    }
    let text: Vec<&str> = text.iter().map(String::as_str).collect();
    section("Sides", &text, vec![table])
}
