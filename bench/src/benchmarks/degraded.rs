//! Sequential readers of a degraded RAID6, compared with the same readers of the healthy array.
//!
//! `xfskit-bench degraded [SECONDS [TABLE…]]`: 24 members, chunks of 512 KiB, left-symmetric, 50
//! readers. Each reader reads its own file (a range of the array) repeatedly for SECONDS (3 unless
//! given). Tables:
//!
//! | table | what |
//! | --- | --- |
//! | `disks` | members of 100 MB/s: throughput compared with the bandwidth of the remaining members |
//! | `speed` | as `disks`, with increasingly fast members |
//! | `memory` | members in memory without a limit: throughput, processor time, memory traffic |
//! | `requests` | as `memory`, by the size of the readers' requests |
//! | `cache` | members of 100 MB/s, small requests: by the size of the stripe cache, in md's unit |
//! | `threads` | members in memory: 1 to N readers |
//!
//! Members are in memory. "Disks" are simulated (`LimitedDevice`). MB are 10^6 bytes.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use xfskit_bench::array::{CHUNK, MEMBERS, Members, STRIPE, number};
use xfskit_bench::frame::{self, Result, progress, section};
use xfskit_bench::grid::Grid;
use xfskit_block::BlockDevice;
use xfskit_md::Slot;
use xfskit_md::array::{Array, IoStats, Options};
use xfskit_units::{ByteLen, ByteOffset, Sectors};
use xfskit_workload::measure::usage::{Stopwatch, Usage};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Reads from a degraded RAID6 of 24 members";

const READERS: u64 = 50;
/// Full stripes of each reader's file: 22 MB.
const FILE_STRIPES: u64 = 2;

/// The parameters of one line of a table.
#[derive(Clone, Copy)]
struct Setup {
    /// Bytes per second of each member; `None` for no limit.
    speed: Option<u64>,
    missing: usize,
    readers: u64,
    request: u64,
    stripe_cache: ByteLen,
}

/// The result of a measurement.
struct Outcome {
    bytes: u64,
    usage: Usage,
    io_stats: IoStats,
}

impl Outcome {
    fn megabytes_per_second(&self) -> f64 {
        number(self.bytes) / 1e6 / self.usage.wall.as_secs_f64()
    }

    fn nanoseconds_per_byte(&self) -> f64 {
        self.usage.processor.as_secs_f64() * 1e9 / number(self.bytes)
    }
}

struct Bench {
    members: Members,
    seconds: f64,
    turns: usize,
}

impl Bench {
    fn array(&self, setup: Setup) -> Array {
        let gone = |role| [5, 14].into_iter().take(setup.missing).any(|gone| gone == role);
        let options = Options { stripe_cache: setup.stripe_cache, ..Options::default() };
        let slot = |role, slot| if gone(role) { Slot::missing() } else { slot };
        self.members.array(setup.speed, options, slot)
    }

    fn run(&self, setup: Setup) -> Result<Outcome> {
        let Setup { readers, request, .. } = setup;
        let array = self.array(setup);
        let (bytes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let counts = || (bytes.load(Ordering::Relaxed), array.io_stats());
        std::thread::scope(|scope| {
            for reader in 0..readers {
                let (array, bytes, stop) = (&array, &bytes, &stop);
                scope.spawn(move || read_file(array, reader, request, bytes, stop));
            }
            // The first moments are not counted: all readers start at the same member, and the
            // memory of the stripe cache is used for the first time.
            std::thread::sleep(Duration::from_millis(1500));
            let (watch, before) = (Stopwatch::start(), counts());
            std::thread::sleep(Duration::from_secs_f64(self.seconds));
            let (usage, after) = (watch.and_then(|watch| watch.read()), counts());
            stop.store(true, Ordering::Relaxed);
            let io_stats = IoStats {
                read: after.1.read.minus(before.1.read),
                loaded: after.1.loaded.minus(before.1.loaded),
                stored: after.1.stored.minus(before.1.stored),
            };
            Ok(Outcome { bytes: after.0 - before.0, usage: usage?, io_stats })
        })
    }

    /// Measures 0, 1 and 2 missing members. The throughput is a fraction of the healthy one scaled
    /// by the members that are left.
    fn against_the_ceiling(&self, grid: &mut Grid, row: &str, setup: Setup) -> Result<()> {
        progress(row);
        for _ in 0..self.turns {
            let healthy = self.run(Setup { missing: 0, ..setup })?;
            let speed = healthy.megabytes_per_second();
            let mut figures = vec![speed, healthy.nanoseconds_per_byte()];
            for missing in 1..=2 {
                let degraded = self.run(Setup { missing, ..setup })?;
                let left = number(u64::from(MEMBERS) - missing as u64) / f64::from(MEMBERS);
                let delivered = degraded.megabytes_per_second();
                let read = number(degraded.io_stats.read.0) / number(degraded.bytes);
                let fraction = delivered / (speed * left);
                figures.extend([delivered, fraction, read, degraded.nanoseconds_per_byte()]);
            }
            grid.add(row, "simulated members", &figures);
        }
        Ok(())
    }

    /// Measures 0, 1 and 2 missing members without a limit.
    fn in_memory(&self, grid: &mut Grid, row: &str, setup: Setup) -> Result<()> {
        progress(row);
        for _ in 0..self.turns {
            let mut healthy = f64::NAN;
            for missing in 0..=2 {
                let outcome = self.run(Setup { missing, ..setup })?;
                let speed = outcome.megabytes_per_second();
                if missing == 0 {
                    healthy = speed;
                }
                let per_byte = |part: ByteLen| number(part.0) / number(outcome.bytes);
                let IoStats { read, loaded, stored } = outcome.io_stats;
                let touched = number(loaded.plus(stored).0) / number(read.0);
                let time = outcome.nanoseconds_per_byte();
                let parts = [read, loaded, stored].map(per_byte);
                let figures = [&[speed, speed / healthy, time][..], &parts, &[touched]].concat();
                grid.add(format!("{row}{missing} missing"), "memory", &figures);
            }
        }
        Ok(())
    }
}

/// Returns a grid of fractions of the bandwidth of the members that are left.
fn ceiling_grid(title: &str) -> Grid {
    let mut columns = vec![("healthy".to_owned(), "MB/s", 0), ("healthy".into(), "ns/byte", 3)];
    for gone in ["one gone", "two gone"] {
        let column = |what: &str| format!("{gone}{what}");
        columns.extend([
            (column(""), "MB/s", 0),
            (column(": fraction"), "", 3),
            (column(": read"), "bytes/byte", 2),
            (column(""), "ns/byte", 3),
        ]);
    }
    Grid::new(title, &columns)
}

/// Returns a grid of bytes per byte delivered.
fn memory_grid(title: &str) -> Grid {
    let columns = [
        ("throughput", "MB/s", 0),
        ("of healthy", "", 3),
        ("processor", "ns/byte", 3),
        ("read", "bytes/byte", 3),
        ("loaded", "bytes/byte", 3),
        ("stored", "bytes/byte", 3),
        ("touched", "bytes/byte read", 3),
    ];
    Grid::new(title, &columns)
}

/// Reads a file from start to end until `stop` is set; readers start at different offsets.
fn read_file(array: &Array, reader: u64, request: u64, bytes: &AtomicU64, stop: &AtomicBool) {
    let (start, len) = (reader * FILE_STRIPES * STRIPE, FILE_STRIPES * STRIPE);
    let mut buf = vec![0; usize::try_from(request).expect("fits")];
    let mut at = reader * STRIPE / 7 / request * request % len;
    while !stop.load(Ordering::Relaxed) {
        let part = &mut buf[..usize::try_from(request.min(len - at)).expect("fits")];
        array.read_at(ByteOffset(start + at), part).expect("all is there");
        bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
        at = (at + part.len() as u64) % len;
    }
}

const DISK: u64 = 100_000_000;

fn disks(bench: &Bench, setup: Setup) -> Result<Grid> {
    let mut grid = ceiling_grid("Members of 100 MB/s, requests of a full stripe");
    let setup = Setup { speed: Some(DISK), ..setup };
    bench.against_the_ceiling(&mut grid, "100 MB/s each", setup)?;
    Ok(grid)
}

fn speed(bench: &Bench, setup: Setup) -> Result<Grid> {
    let mut grid = ceiling_grid("Requests of a full stripe, by the speed of a member");
    for speed in [50, 100, 200, 300, 400, 600] {
        let setup = Setup { speed: Some(speed * 1_000_000), ..setup };
        bench.against_the_ceiling(&mut grid, &format!("{speed} MB/s each"), setup)?;
    }
    Ok(grid)
}

fn memory(bench: &Bench, setup: Setup) -> Result<Grid> {
    let mut grid = memory_grid("Members in memory, requests of a full stripe");
    bench.in_memory(&mut grid, "", setup)?;
    Ok(grid)
}

fn requests(bench: &Bench, setup: Setup) -> Result<Grid> {
    let mut grid = memory_grid("By the size of a request, with a stripe cache for every reader");
    for request in [64 << 10, 256 << 10, 1 << 20, 4 << 20, STRIPE, 2 * STRIPE] {
        let setup = Setup { request, stripe_cache: ByteLen(1 << 30), ..setup };
        bench.in_memory(&mut grid, &format!("{} KiB, ", request >> 10), setup)?;
    }
    Ok(grid)
}

fn cache(bench: &Bench, setup: Setup) -> Result<Grid> {
    let mut grid = ceiling_grid("Members of 100 MB/s, requests of 1 MiB, by the stripe cache");
    for stripes in [256, 1024, 2048, 4096, 8192, 16384, 32768] {
        let stripe_cache = ByteLen(stripes * 4096 * u64::from(MEMBERS));
        let setup = Setup { speed: Some(DISK), request: 1 << 20, stripe_cache, ..setup };
        let row = format!("{stripes} stripes of md, {} MiB", stripe_cache.0 >> 20);
        bench.against_the_ceiling(&mut grid, &row, setup)?;
    }
    Ok(grid)
}

fn threads(bench: &Bench, setup: Setup) -> Result<Grid> {
    let mut grid = memory_grid("Members in memory, requests of a full stripe, by readers");
    for readers in [1, 2, 4, 8, 50] {
        bench.in_memory(&mut grid, &format!("{readers} readers, "), Setup { readers, ..setup })?;
    }
    Ok(grid)
}

/// A table: its name, and the function that measures it.
type Table = (&'static str, fn(&Bench, Setup) -> Result<Grid>);
const TABLES: [Table; 6] = [
    ("disks", disks),
    ("speed", speed),
    ("memory", memory),
    ("requests", requests),
    ("cache", cache),
    ("threads", threads),
];

#[derive(clap::Args)]
struct Args {
    /// Seconds for each point
    #[arg(default_value_t = 3.0)]
    seconds: f64,
    /// Tables [default: all]
    #[arg(value_parser = TABLES.map(|(name, _)| name))]
    tables: Vec<String>,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 1, measure)
}

fn measure(Args { seconds, tables }: &Args, turns: usize) -> Result<Vec<Section>> {
    let sectors = Sectors(READERS * FILE_STRIPES * CHUNK / 512);
    let bench = Bench { members: Members::new(sectors), seconds: *seconds, turns };
    let setup = Setup {
        speed: None,
        missing: 0,
        readers: READERS,
        request: STRIPE,
        stripe_cache: ByteLen(256 << 20),
    };
    let wanted = |name: &str| tables.is_empty() || tables.iter().any(|table| table == name);
    let wanted = TABLES.iter().filter(|(name, _)| wanted(name));
    let grids = wanted.map(|(_, table)| Ok(table(&bench, setup)?.table()));
    let text = [
        "A fraction is that of the healthy throughput times the part of the members that is left.",
        &format!("Parity: {}.", xfskit_parity::selected()),
    ];
    Ok(vec![section("Degraded reads", &text, grids.collect::<Result<_>>()?)])
}
