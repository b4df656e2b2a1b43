//! Sequential readers of a degraded RAID6, compared with the same readers of the healthy array.
//!
//! `bench-degraded [SECONDS] [TABLE…]`: 24 members, chunks of 512 KiB, left-symmetric, 50 readers.
//! Each reader reads its own file (a range of the array) repeatedly for SECONDS (default 3).
//! Tables:
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

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xfskit_bench::array::{CHUNK, MEMBERS, Members, STRIPE, number, processor};
use xfskit_block::BlockDevice;
use xfskit_md::Slot;
use xfskit_md::array::{Array, IoStats, Options};
use xfskit_units::{ByteLen, ByteOffset, Sectors};

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
    elapsed: Duration,
    processor: Duration,
    io_stats: IoStats,
}

impl Outcome {
    fn megabytes_per_second(&self) -> f64 {
        number(self.bytes) / 1e6 / self.elapsed.as_secs_f64()
    }

    fn nanoseconds_per_byte(&self) -> f64 {
        self.processor.as_secs_f64() * 1e9 / number(self.bytes)
    }
}

struct Bench {
    members: Members,
    seconds: f64,
}

impl Bench {
    fn new(seconds: f64) -> Self {
        let sectors = Sectors(READERS * FILE_STRIPES * CHUNK / 512);
        Self { members: Members::new(sectors), seconds }
    }

    fn array(&self, setup: Setup) -> Array {
        let gone = |role| [5, 14].into_iter().take(setup.missing).any(|gone| gone == role);
        let options = Options { stripe_cache: setup.stripe_cache, ..Options::default() };
        let slot = |role, slot| if gone(role) { Slot::missing() } else { slot };
        self.members.array(setup.speed, options, slot)
    }

    fn run(&self, setup: Setup) -> Outcome {
        let Setup { readers, request, .. } = setup;
        let array = self.array(setup);
        let (bytes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let counts = || (bytes.load(Ordering::Relaxed), array.io_stats(), processor());
        std::thread::scope(|scope| {
            for reader in 0..readers {
                let (array, bytes, stop) = (&array, &bytes, &stop);
                scope.spawn(move || read_file(array, reader, request, bytes, stop));
            }
            // The first moments are not counted: all readers start at the same member, and the
            // memory of the stripe cache is used for the first time.
            std::thread::sleep(Duration::from_millis(1500));
            let (start, before) = (Instant::now(), counts());
            std::thread::sleep(Duration::from_secs_f64(self.seconds));
            let (elapsed, after) = (start.elapsed(), counts());
            stop.store(true, Ordering::Relaxed);
            let io_stats = IoStats {
                read: after.1.read.minus(before.1.read),
                loaded: after.1.loaded.minus(before.1.loaded),
                stored: after.1.stored.minus(before.1.stored),
            };
            let processor = after.2.saturating_sub(before.2);
            Outcome { bytes: after.0 - before.0, elapsed, processor, io_stats }
        })
    }

    /// Measures 0, 1 and 2 missing members. Prints the throughput as a fraction of the healthy one
    /// scaled by the members that are left, the bytes read from members per byte delivered, and the
    /// nanoseconds of processor time per byte.
    fn against_the_ceiling(&self, setup: Setup) -> String {
        let healthy = self.run(Setup { missing: 0, ..setup });
        let speed = healthy.megabytes_per_second();
        let mut line = format!("{speed:>7.0} {:>5.3}", healthy.nanoseconds_per_byte());
        for missing in 1..=2 {
            let degraded = self.run(Setup { missing, ..setup });
            let left = number(u64::from(MEMBERS) - missing as u64) / f64::from(MEMBERS);
            let fraction = degraded.megabytes_per_second() / (speed * left);
            let read = number(degraded.io_stats.read.0) / number(degraded.bytes);
            let (speed, time) = (degraded.megabytes_per_second(), degraded.nanoseconds_per_byte());
            write!(line, " | {speed:>7.0} {fraction:>8.3} {read:>5.2} {time:>5.3}")
                .expect("a string");
        }
        line
    }
}

const CEILING_HEAD: &str =
    "healthy ns/by | one gone fraction  read ns/by | two gone fraction  read ns/by";

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

type Table = fn(&Bench, Setup);

fn disks(bench: &Bench, setup: Setup) {
    println!(
        "\nmembers of 100 MB/s, requests of a full stripe; fractions of (members left) x (healthy)"
    );
    println!("{CEILING_HEAD}");
    println!("{}", bench.against_the_ceiling(Setup { speed: Some(100_000_000), ..setup }));
}

fn speed(bench: &Bench, setup: Setup) {
    println!("\nthe same by the speed of a member");
    println!("{:>9} {CEILING_HEAD}", "MB/s each");
    for speed in [50, 100, 200, 300, 400, 600] {
        let line = bench.against_the_ceiling(Setup { speed: Some(speed * 1_000_000), ..setup });
        println!("{speed:>9} {line}");
    }
}

fn memory_line(bench: &Bench, setup: Setup, healthy: &mut f64) -> String {
    let outcome = bench.run(setup);
    let speed = outcome.megabytes_per_second();
    if setup.missing == 0 {
        *healthy = speed;
    }
    let per_byte = |part: ByteLen| number(part.0) / number(outcome.bytes);
    let IoStats { read, loaded, stored } = outcome.io_stats;
    format!(
        "{:>7} {speed:>9.0} {:>8.3} {:>9.3} {:>7.3} {:>7.3} {:>7.3} {:>9.3}",
        setup.missing,
        speed / *healthy,
        outcome.nanoseconds_per_byte(),
        per_byte(read),
        per_byte(loaded),
        per_byte(stored),
        number(loaded.plus(stored).0) / number(read.0),
    )
}

const MEMORY_HEAD: &str =
    "missing      MB/s fraction   ns/byte    read  loaded  stored touched/read";

fn memory(bench: &Bench, setup: Setup) {
    println!("\nmembers in memory, requests of a full stripe; bytes per byte delivered");
    println!("{MEMORY_HEAD}");
    let mut healthy = 0.0;
    for missing in 0..=2 {
        println!("{}", memory_line(bench, Setup { missing, ..setup }, &mut healthy));
    }
}

fn requests(bench: &Bench, setup: Setup) {
    println!("\nthe same by size of request (bytes), with a stripe cache for every reader");
    println!("{:>9} {MEMORY_HEAD}", "request");
    for request in [64 << 10, 256 << 10, 1 << 20, 4 << 20, STRIPE, 2 * STRIPE] {
        let mut healthy = 0.0;
        for missing in 0..=2 {
            let setup = Setup { missing, request, stripe_cache: ByteLen(1 << 30), ..setup };
            println!("{request:>9} {}", memory_line(bench, setup, &mut healthy));
        }
    }
}

fn cache(bench: &Bench, setup: Setup) {
    println!(
        "\nmembers of 100 MB/s, requests of 1 MiB, by stripe cache (md's stripes of 4 KiB x members)"
    );
    println!("{:>9} {:>9} {CEILING_HEAD}", "stripes", "MiB");
    for stripes in [256, 1024, 2048, 4096, 8192, 16384, 32768] {
        let stripe_cache = ByteLen(stripes * 4096 * u64::from(MEMBERS));
        let setup = Setup { speed: Some(100_000_000), request: 1 << 20, stripe_cache, ..setup };
        let line = bench.against_the_ceiling(setup);
        println!("{stripes:>9} {:>9} {line}", stripe_cache.0 >> 20);
    }
}

fn threads(bench: &Bench, setup: Setup) {
    println!("\nmembers in memory, requests of a full stripe, by readers");
    println!("{:>9} {MEMORY_HEAD}", "readers");
    for readers in [1, 2, 4, 8, 50] {
        let mut healthy = 0.0;
        for missing in 0..=2 {
            let line = memory_line(bench, Setup { missing, readers, ..setup }, &mut healthy);
            println!("{readers:>9} {line}");
        }
    }
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let seconds = match words.first().map(|word| word.parse()) {
        Some(Ok(seconds)) => {
            words.remove(0);
            seconds
        }
        _ => 3.0,
    };
    println!("parity: {}", xfskit_parity::selected());
    let bench = Bench::new(seconds);
    let setup = Setup {
        speed: None,
        missing: 0,
        readers: READERS,
        request: STRIPE,
        stripe_cache: ByteLen(256 << 20),
    };
    let tables: [(&str, Table); 6] = [
        ("disks", disks),
        ("speed", speed),
        ("memory", memory),
        ("requests", requests),
        ("cache", cache),
        ("threads", threads),
    ];
    for (name, table) in tables {
        if words.is_empty() || words.iter().any(|word| word == name) {
            table(&bench, setup);
        }
    }
}
