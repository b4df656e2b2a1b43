//! P and Q and their recoveries: our routines compared with Intel's ISA-L and with snapraid.
//!
//! The chunks of a stripe stay in the processor's cache. The contenders take many short turns
//! alternately. On a busy machine the best turn shows the processor, and the median the scheduler.
//! Rates are bytes of sources per second.
//!
//! ISA-L is used if its shared library is installed (Debian: libisal2), snapraid if it is installed
//! and `--snapraid` is given. Its own speed test, which needs a minute on an idle machine, gives
//! its rates, and our routines run on a stripe of the same shape.
#![allow(unsafe_code)] // ISA-L speaks C

use std::ffi::c_void;
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use xfskit_bench::contest::{Contest, Quantity};
use xfskit_bench::frame::{self, progress, section};
use xfskit_workload::measure::together::{self, Piece};
use xfskit_workload::report::{Cell, Section, Table};

pub(super) const TITLE: &str = "P and Q";

/// Numbers of data members and block sizes, among them the shapes of ISA-L and snapraid.
const SHAPES: [(usize, usize); 6] =
    [(8, 4096), (16, 4096), (22, 4096), (22, 16_384), (22, 65_536), (22, 524_288)];
const TURN: Duration = Duration::from_micros(150);

/// One stripe in memory: chunks, P and Q, each aligned to 64 bytes with a gap between them.
struct Members {
    memory: Vec<u8>,
    chunks: usize,
    len: usize,
    apart: usize,
}

impl Members {
    /// Allocates `data` chunks, P and Q, and two more blocks for results.
    fn new(data: usize, len: usize) -> Self {
        let (chunks, apart) = (data + 4, len + 1792);
        let mut memory = vec![0u8; chunks * apart + 64];
        let mut state = 1u32;
        for byte in &mut memory {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = state.to_be_bytes()[0];
        }
        Self { memory, chunks, len, apart }
    }

    /// Returns all blocks for writing.
    fn split(&mut self) -> Vec<&mut [u8]> {
        let begin = self.memory.as_ptr().align_offset(64);
        let (len, apart, chunks) = (self.len, self.apart, self.chunks);
        self.memory[begin..].chunks_mut(apart).take(chunks).map(|c| &mut c[..len]).collect()
    }
}

type PqGen = unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> i32;

/// The functions of ISA-L, with the types that raid.h and erasure_code.h declare.
struct Isal {
    pq_gen: PqGen,
    /// The AVX2 routine, for a comparison on processors with AVX-512.
    pq_gen_avx2: Option<PqGen>,
    init_tables: unsafe extern "C" fn(i32, i32, *const u8, *mut u8),
    encode: unsafe extern "C" fn(i32, i32, i32, *const u8, *const *const u8, *const *mut u8),
    _library: libloading::Library,
}

impl Isal {
    fn load() -> Option<Self> {
        // SAFETY: loading ISA-L runs no initializers beyond its own processor detection, and the
        // functions have the types that are declared above.
        unsafe {
            let library = libloading::Library::new("libisal.so.2").ok()?;
            Some(Self {
                pq_gen: *library.get(b"pq_gen\0").ok()?,
                pq_gen_avx2: library.get(b"pq_gen_avx2\0").ok().map(|found| *found),
                init_tables: *library.get(b"ec_init_tables\0").ok()?,
                encode: *library.get(b"ec_encode_data\0").ok()?,
                _library: library,
            })
        }
    }

    /// Expands the factors to ISA-L's tables: two outputs of `k` sources.
    fn tables(&self, factors: &[u8], k: usize) -> Vec<u8> {
        assert_eq!(factors.len(), 2 * k);
        let mut tables = vec![0; 32 * factors.len()];
        // SAFETY: the tables have 32 bytes for each of 2·k factors.
        unsafe { (self.init_tables)(small(k), 2, factors.as_ptr(), tables.as_mut_ptr()) };
        tables
    }
}

fn small(n: usize) -> i32 {
    i32::try_from(n).expect("a block's length")
}

/// Calls the routine until a turn is over, and returns GB per second.
#[allow(clippy::cast_precision_loss)] // counts of bytes, far below 2^52
fn turn(bytes: usize, mut call: impl FnMut()) -> f64 {
    let batch = (2_000_000 / bytes).max(1);
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed() < TURN {
        for _ in 0..batch {
            call();
        }
        calls += batch;
    }
    (calls * bytes) as f64 / 1e9 / start.elapsed().as_secs_f64()
}

fn routines() -> Vec<&'static str> {
    xfskit_parity::routines().iter().filter(|r| r.available()).map(|r| r.name).collect()
}

fn as_sources<'a>(chunks: &'a [&mut [u8]]) -> Vec<Option<&'a [u8]>> {
    chunks.iter().map(|c| Some(&**c)).collect()
}

/// Measures one shape with all contenders: P+Q, and two members recovered.
fn shape(data: usize, len: usize, isal: Option<&Isal>, turns: usize) -> [Contest; 2] {
    progress(format!("{data} data members, blocks of {len} bytes"));
    let mut members = Members::new(data, len);
    let mut blocks = members.split();
    let pointers: Vec<*mut u8> = blocks.iter_mut().map(|b| b.as_mut_ptr()).collect();
    let (chunks, rest) = blocks.split_at_mut(data);
    let [p, q, x, y] = rest else { unreachable!("four blocks behind the data") };
    let routines = routines();
    let own = routines.iter().map(|name| format!("xfskit {name}"));
    let names = own.chain(["ISA-L avx2".into(), "ISA-L".into()]).map(|name| (name, "memory"));
    let names: Vec<(String, &str)> = names.collect();
    let (isal_avx2, isal_best) = (routines.len(), routines.len() + 1);
    let [mut pq, mut recovered] = ["P+Q", "two recovered"].map(|what| {
        let title = format!("{what}: {data} data members, blocks of {len} bytes");
        Contest::new(title, Quantity::rate("GB/s", 1), 0, &names)
    });
    let whole = as_sources(chunks);
    let mut without = whole.clone();
    (without[1], without[data - 2]) = (None, None);
    // The input of ISA-L: the surviving chunks, P and Q, with the factors that give the two lost
    // chunks.
    let factors = recovery_factors(data, 1, data - 2);
    let sources: Vec<*const u8> = (0..data + 2)
        .filter(|i| *i != 1 && *i != data - 2)
        .map(|i| pointers[i].cast_const())
        .collect();
    let tables = isal.map(|isal| isal.tables(&factors, data));
    for _ in 0..turns {
        for (n, name) in routines.iter().enumerate() {
            assert!(xfskit_parity::select(name));
            pq.add(
                n,
                turn(data * len, || {
                    xfskit_parity::pq(black_box(&whole), p, q);
                }),
            );
            recovered.add(
                n,
                turn(data * len, || {
                    xfskit_parity::d_and_d(black_box(&without), 1, data - 2, p, q, x, y);
                }),
            );
        }
        if let (Some(isal), Some(tables)) = (isal, &tables) {
            let mut array: Vec<*mut c_void> =
                pointers[..data + 2].iter().map(|p| p.cast()).collect();
            let mut generate = |pq_gen: PqGen| {
                turn(data * len, || {
                    // SAFETY: the stripe's blocks have `len` bytes each, a multiple of 32, and are
                    // aligned to 32.
                    unsafe { pq_gen(small(data + 2), small(len), black_box(array.as_mut_ptr())) };
                })
            };
            pq.add(isal_best, generate(isal.pq_gen));
            if let Some(pq_gen) = isal.pq_gen_avx2.filter(|_| is_x86_feature_detected!("avx2")) {
                pq.add(isal_avx2, generate(pq_gen));
            }
            let outputs = [x.as_mut_ptr(), y.as_mut_ptr()];
            recovered.add(
                isal_best,
                turn(data * len, || {
                    // SAFETY: `data` sources and two outputs of `len` bytes, and their tables.
                    unsafe {
                        (isal.encode)(
                            small(len),
                            small(data),
                            2,
                            tables.as_ptr(),
                            black_box(sources.as_ptr()),
                            outputs.as_ptr(),
                        );
                    }
                }),
            );
            assert!(Some(&**x) == whole[1], "ISA-L recovers the same");
        }
    }
    [pq, recovered]
}

/// Returns the factors of each source (the chunks except `x` and `y`, then P and Q) that give `x`,
/// then `y`.
fn recovery_factors(data: usize, x: usize, y: usize) -> Vec<u8> {
    use xfskit_parity::field::{inverse, power, product};
    let b = inverse(power(x) ^ power(y));
    let a = product(power(y), b);
    let others = (0..data).filter(|i| *i != x && *i != y);
    let for_x: Vec<u8> = others.map(|i| a ^ product(b, power(i))).chain([a, b]).collect();
    let for_y = for_x.iter().enumerate().map(|(i, f)| f ^ u8::from(i != data - 1));
    for_x.iter().copied().chain(for_y).collect()
}

/// Turns of several threads, and their length: far longer than it takes to wake a thread.
const TURNS_TOGETHER: usize = 40;
const TURN_TOGETHER: Duration = Duration::from_millis(5);

/// Measures P+Q on `threads` threads, each with a stripe of its own. Returns the GB per second of
/// wall time, in the upper quartile of turns in which all threads ran: other load takes
/// processors away in some turns, so the median is useless. `None` if they did not run together.
#[allow(clippy::cast_precision_loss)] // counts of bytes, far below 2^52
fn pq_on(threads: usize, data: usize, len: usize) -> Option<f64> {
    let (barrier, since) = (Barrier::new(threads), Instant::now());
    let all: Vec<Vec<Piece>> = std::thread::scope(|scope| {
        let one = || {
            let mut members = Members::new(data, len);
            let mut blocks = members.split();
            let (chunks, rest) = blocks.split_at_mut(data);
            let [p, q, ..] = rest else { unreachable!("four blocks behind the data") };
            let whole = as_sources(chunks);
            let calls = (2_000_000 / (data * len)).max(1);
            let pieces = (0..TURNS_TOGETHER).map(|_| {
                barrier.wait();
                Piece::of(since, TURN_TOGETHER, || {
                    (0..calls).for_each(|_| xfskit_parity::pq(black_box(&whole), p, q));
                    (calls * data * len) as f64 / 1e9
                })
            });
            pieces.collect()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        running.into_iter().map(|r| r.join().expect("a thread of ours")).collect()
    });
    let turn = |n: usize| all.iter().map(|pieces| pieces[n]).collect();
    let turns: Vec<Vec<Piece>> = (0..TURNS_TOGETHER).map(turn).collect();
    let mut rates = together::rates(&turns)?.values().to_vec();
    rates.sort_by(f64::total_cmp);
    Some(rates[rates.len() * 3 / 4])
}

/// Runs `snapraid -T` and returns its fastest P+Q and two-member recovery in GB per second.
fn snapraid() -> Option<[f64; 2]> {
    let out = Command::new("snapraid").arg("-T").output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let row = |name: &str| {
        let line = text.lines().find(|l| l.trim_start().starts_with(name))?;
        let rates = line.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        Some(rates.fold(0.0, f64::max) / 1e3)
    };
    Some([row("gen2")?, row("rec2")?])
}

#[derive(clap::Args)]
struct Args {
    /// Run snapraid's own speed test too
    #[arg(long)]
    snapraid: bool,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 100, |args, turns| Ok(measure(args, turns)))
}

fn measure(Args { snapraid: with_snapraid }: &Args, turns: usize) -> Vec<Section> {
    let isal = Isal::load();
    let shapes = SHAPES.iter().flat_map(|(data, len)| shape(*data, *len, isal.as_ref(), turns));
    let shapes = shapes.map(|contest| contest.table()).collect();
    let mut sections = vec![section("Routines", &[], shapes), on_threads()];
    if *with_snapraid {
        let mut tables: Vec<Table> =
            shape(8, 262_144, None, turns).iter().map(Contest::table).collect();
        if let Some(rates) = snapraid() {
            let columns = [("P+Q", "GB/s"), ("two recovered", "GB/s")];
            let mut table = Table::new("snapraid -T", &columns);
            table.row("snapraid", "memory", rates.map(|rate| Cell::Number(rate, 1)).into());
            tables.push(table);
        }
        sections.push(section("snapraid, and ours on a stripe of its shape", &[], tables));
    }
    sections
}

/// Measures the fastest routine on one thread and more.
fn on_threads() -> Section {
    assert!(xfskit_parity::select(routines()[0]));
    let title = "P+Q on several threads, 22 members, blocks of 4096 bytes";
    let mut table = Table::new(title, &[("upper quartile", "GB/s"), ("times one", "")]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let one = pq_on(1, 22, 4096);
    for threads in 1..=cores {
        let cells = match (pq_on(threads, 22, 4096), one) {
            (Some(all), Some(one)) => [Cell::Number(all, 1), Cell::Number(all / one, 2)],
            _ => ["they did not run at the same time".into(), String::new()].map(Cell::Text),
        };
        table.row(format!("{threads} threads"), "memory", cells.into());
    }
    section("Threads", &["GB of wall time."], vec![table])
}
