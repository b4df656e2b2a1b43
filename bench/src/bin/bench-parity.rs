//! P and Q and their recoveries: our routines compared with Intel's ISA-L and with snapraid.
//!
//! The chunks of a stripe stay in the processor's cache. The contenders take many short turns
//! alternately, and the median and the best turn are printed. On a busy machine the best shows the
//! processor, and the median the scheduler. Rates are bytes of sources per second.
//!
//! ISA-L is used if its shared library is installed (Debian: libisal2), snapraid if it is installed
//! and `--snapraid` is given. Its own speed test, which needs a minute on an idle machine, gives
//! its rates, and our routines run on a stripe of the same shape.
#![allow(unsafe_code)] // ISA-L speaks C

use std::ffi::c_void;
use std::hint::black_box;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use xfskit_workload::measure::together::{self, Piece};

/// Numbers of data members and block sizes, among them the shapes of ISA-L and snapraid.
const SHAPES: [(usize, usize); 6] =
    [(8, 4096), (16, 4096), (22, 4096), (22, 16_384), (22, 65_536), (22, 524_288)];
const TURNS: usize = 100;
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

/// Calls the routine until a turn is over, and returns bytes per second.
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
    (calls * bytes) as f64 / start.elapsed().as_secs_f64()
}

fn best(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Formats the median and the best turn in GB/s.
fn format_rates(rates: &[f64]) -> String {
    if rates.is_empty() {
        return String::new();
    }
    format!("{:6.1} /{:6.1}", median(rates) / 1e9, best(rates) / 1e9)
}

fn routines() -> Vec<&'static str> {
    xfskit_parity::routines().iter().filter(|r| r.available()).map(|r| r.name).collect()
}

fn as_sources<'a>(chunks: &'a [&mut [u8]]) -> Vec<Option<&'a [u8]>> {
    chunks.iter().map(|c| Some(&**c)).collect()
}

/// Measures one shape with all contenders: the rates of (P+Q, two members recovered).
fn shape(data: usize, len: usize, isal: Option<&Isal>) -> Vec<(String, [Vec<f64>; 2])> {
    let mut members = Members::new(data, len);
    let mut blocks = members.split();
    let pointers: Vec<*mut u8> = blocks.iter_mut().map(|b| b.as_mut_ptr()).collect();
    let (chunks, rest) = blocks.split_at_mut(data);
    let [p, q, x, y] = rest else { unreachable!("four blocks behind the data") };
    let mut all: Vec<(String, [Vec<f64>; 2])> =
        routines().iter().map(|name| (format!("xfskit {name}"), Default::default())).collect();
    all.push(("ISA-L avx2".into(), Default::default()));
    all.push(("ISA-L".into(), Default::default()));
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
    for _ in 0..TURNS {
        for (name, rates) in routines().iter().zip(all.iter_mut().map(|(_, rates)| rates)) {
            assert!(xfskit_parity::select(name));
            rates[0].push(turn(data * len, || {
                xfskit_parity::pq(black_box(&whole), p, q);
            }));
            rates[1].push(turn(data * len, || {
                xfskit_parity::d_and_d(black_box(&without), 1, data - 2, p, q, x, y);
            }));
        }
        if let (Some(isal), Some(tables)) = (isal, &tables) {
            let [.., (_, avx2), (_, rates)] = &mut all[..] else {
                unreachable!("ISA-L is the last")
            };
            let mut array: Vec<*mut c_void> =
                pointers[..data + 2].iter().map(|p| p.cast()).collect();
            let mut generate = |pq_gen: PqGen| {
                turn(data * len, || {
                    // SAFETY: the stripe's blocks have `len` bytes each, a multiple of 32, and are
                    // aligned to 32.
                    unsafe { pq_gen(small(data + 2), small(len), black_box(array.as_mut_ptr())) };
                })
            };
            rates[0].push(generate(isal.pq_gen));
            if let Some(pq_gen) = isal.pq_gen_avx2.filter(|_| is_x86_feature_detected!("avx2")) {
                avx2[0].push(generate(pq_gen));
            }
            let outputs = [x.as_mut_ptr(), y.as_mut_ptr()];
            rates[1].push(turn(data * len, || {
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
            }));
            assert!(Some(&**x) == whole[1], "ISA-L recovers the same");
        }
    }
    all
}

fn table(all: &[(String, [Vec<f64>; 2])]) {
    for (name, [pq, dd]) in all.iter().filter(|(_, [pq, _])| !pq.is_empty()) {
        println!("{name:<22}{:>15}{:>20}", format_rates(pq), format_rates(dd));
    }
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

/// Measures P+Q on `threads` threads, each with a stripe of its own. Returns the bytes per second
/// of wall time, in the upper quartile of turns in which all threads ran: other load takes
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
                    (calls * data * len) as f64
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

/// Runs `snapraid -T` and returns its fastest P+Q and two-member recovery in bytes per second.
fn snapraid() -> Option<[f64; 2]> {
    let out = Command::new("snapraid").arg("-T").output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let row = |name: &str| {
        let line = text.lines().find(|l| l.trim_start().starts_with(name))?;
        let rates = line.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        Some(rates.fold(0.0, f64::max) * 1e6)
    };
    Some([row("gen2")?, row("rec2")?])
}

fn main() {
    let isal = Isal::load();
    for (data, len) in SHAPES {
        println!("\n{data} data members, blocks of {len} bytes; GB/s of sources, median / best");
        println!("{:<22}{:>15}{:>20}", "", "P+Q", "two recovered");
        let all = shape(data, len, isal.as_ref());
        table(&all);
        if let [(name, ours), .., (theirs, isal)] = &all[..]
            && !isal[0].is_empty()
        {
            let times = |i: usize| median(&ours[i]) / median(&isal[i]);
            println!("{name} is {:.2} and {:.2} times {theirs}", times(0), times(1));
        }
    }
    let fastest = routines()[0];
    assert!(xfskit_parity::select(fastest));
    println!(
        "\nP+Q on several threads, 22 members, blocks of 4096 bytes; GB/s of wall time, upper quartile"
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let one = pq_on(1, 22, 4096);
    for threads in 1..=cores {
        match (pq_on(threads, 22, 4096), one) {
            (Some(all), Some(one)) => {
                println!("{threads} threads {:6.1}   {:4.2} times one", all / 1e9, all / one);
            }
            _ => println!("{threads} threads: no figure, they did not run at the same time"),
        }
    }
    if std::env::args().any(|a| a == "--snapraid") {
        println!("\nsnapraid -T, and ours on a stripe of its shape (8 of 262144 bytes)");
        if let Some([pq, dd]) = snapraid() {
            println!("{:<22}{:15.1}{:20.1}", "snapraid", pq / 1e9, dd / 1e9);
        }
        table(&shape(8, 262_144, None));
    }
}
