//! CRC32c: our routines compared with the crates `crc32c` and `crc-fast` and with Intel's ISA-L.
//!
//! Every routine sums the same block repeatedly. The block stays in the processor's cache, like a
//! block that has just been read. Each sum starts with the result of the last one, so that sums do
//! not overlap. The contenders take many short turns, and the median and the best turn are printed.
//! On a busy machine the best shows the processor, and the median the scheduler. The second table
//! is the operation of XFS: `verify`, with the field counted as zero, one block after the other, so
//! these may overlap.
//!
//! ISA-L is used if its shared library is installed (Debian: libisal2).
#![allow(unsafe_code)] // ISA-L speaks C

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A contender: its name, its preparation of a turn, and its function that sums.
struct Contender {
    name: String,
    prepare: Box<dyn Fn()>,
    sum: Sum,
}

type Sum = Box<dyn Fn(u32, &[u8]) -> u32>;

impl Contender {
    fn new(name: &str, sum: Sum) -> Self {
        Self { name: name.into(), prepare: Box::new(|| ()), sum }
    }
}

const SIZES: [usize; 4] = [128, 512, 4096, 65_536];
const TURNS: usize = 300;
const TURN: Duration = Duration::from_micros(200);

type IsalCrc = unsafe extern "C" fn(*mut u8, i32, u32) -> u32;

/// Loads `crc32_iscsi` of ISA-L, which takes and returns the register.
fn isal() -> Option<Contender> {
    // SAFETY: loading ISA-L runs no initializers beyond its own processor detection.
    let library = unsafe { libloading::Library::new("libisal.so.2") }.ok()?;
    // SAFETY: this is the function's type as ISA-L's crc.h declares it.
    let crc: IsalCrc = unsafe { *library.get(b"crc32_iscsi\0").ok()? };
    let sum = move |seed: u32, data: &[u8]| {
        let _keep = &library;
        let len = i32::try_from(data.len()).expect("blocks are small");
        // SAFETY: it reads `len` bytes and, in spite of its type, writes none.
        !unsafe { crc(data.as_ptr().cast_mut(), len, !seed) }
    };
    Some(Contender::new("ISA-L crc32_iscsi", Box::new(sum)))
}

fn contenders() -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for routine in xfskit_crc::routines().iter().filter(|routine| routine.available()) {
        all.push(Contender {
            name: format!("xfskit {}", routine.name),
            prepare: Box::new(|| assert!(xfskit_crc::select(routine.name))),
            sum: Box::new(xfskit_crc::append),
        });
    }
    all.push(Contender::new("crate crc32c", Box::new(crc32c::crc32c_append)));
    let fast = |seed: u32, data: &[u8]| {
        let mut digest = crc_fast::Digest::new_with_init_state(
            crc_fast::CrcAlgorithm::Crc32Iscsi,
            u64::from(!seed),
        );
        digest.update(data);
        u32::try_from(digest.finalize()).expect("32 bits")
    };
    all.push(Contender::new("crate crc-fast", Box::new(fast)));
    all.extend(isal());
    all
}

/// Runs one turn and returns bytes per second.
#[allow(clippy::cast_precision_loss)] // counts of bytes, far below 2^52
fn turn(mut sum: impl FnMut(u32) -> u32, bytes: usize) -> f64 {
    let (start, mut rounds, mut seed) = (Instant::now(), 0usize, 0);
    while start.elapsed() < TURN {
        for _ in 0..20 {
            seed = sum(black_box(seed));
        }
        rounds += 20;
    }
    black_box(seed);
    (rounds * bytes) as f64 / start.elapsed().as_secs_f64()
}

/// Formats the median and the best turn in GB/s.
fn format_rates(mut rates: Vec<f64>) -> String {
    rates.sort_by(f64::total_cmp);
    format!("{:5.1} /{:5.1}", rates[rates.len() / 2] / 1e9, rates[rates.len() - 1] / 1e9)
}

fn main() {
    let data: Vec<u8> =
        (0..65_536u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let all = contenders();
    for Contender { name, prepare, sum } in &all {
        prepare();
        assert_eq!(sum(0, b"123456789"), 0xe306_9283, "{name} is not CRC32c");
        assert_eq!(sum(sum(0, b"1234"), b"56789"), 0xe306_9283, "{name} does not append");
    }
    println!(
        "{:<20}{:>15}{:>15}{:>15}{:>15}   GB/s, median / best",
        "", "128 B", "512 B", "4 KiB", "64 KiB"
    );
    let mut rates = vec![vec![Vec::new(); SIZES.len()]; all.len()];
    for _ in 0..TURNS {
        for (rates, Contender { prepare, sum, .. }) in rates.iter_mut().zip(&all) {
            prepare();
            for (rates, size) in rates.iter_mut().zip(SIZES) {
                rates.push(turn(|seed| sum(seed, black_box(&data[..size])), size));
            }
        }
    }
    for (rates, Contender { name, .. }) in rates.into_iter().zip(&all) {
        let columns: Vec<String> = rates.into_iter().map(format_rates).collect();
        println!("{name:<20}   {}", columns.join("   "));
    }
    println!("\nverify, with the field counted as zero (inode: 512 B at 100; block: 4 KiB at 4)");
    for routine in xfskit_crc::routines().iter().filter(|routine| routine.available()) {
        xfskit_crc::select(routine.name);
        let verify = |size: usize, field: usize| {
            let block = &data[..size];
            let once = |seed: u32| {
                let block = black_box(block);
                seed ^ u32::from(xfskit_crc::verify(block, field))
            };
            format_rates((0..TURNS).map(|_| turn(once, size)).collect())
        };
        let (inode, block) = (verify(512, 100), verify(4096, 4));
        println!("{:<20}   {inode}   {block}", format!("xfskit {}", routine.name));
    }
}
