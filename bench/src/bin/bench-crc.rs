//! CRC32c: our routines beside the crates `crc32c` and `crc-fast` and Intel's ISA-L, from one run.
//!
//! Every routine sums the same block again and again (it stays in the processor's cache, as a block
//! does that has just been read), each sum beginning with the last one's result, so that sums do not
//! overlap. The contestants take many short turns; the median turn and the best are printed (on a
//! machine that does other work besides, the best is the processor's and the median the scheduler's).
//! The second table is what XFS asks for: `verify`, the field counting as zero; one block after the
//! other, so these may overlap.
//!
//! ISA-L is used where its shared library is installed (Debian: libisal2).
#![allow(unsafe_code)] // ISA-L speaks C

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A contestant: its name, what it does before a turn, and how it sums.
struct Contestant {
    name: String,
    prepare: Box<dyn Fn()>,
    sum: Sum,
}

type Sum = Box<dyn Fn(u32, &[u8]) -> u32>;

impl Contestant {
    fn new(name: &str, sum: Sum) -> Self {
        Self { name: name.into(), prepare: Box::new(|| ()), sum }
    }
}

const SIZES: [usize; 4] = [128, 512, 4096, 65_536];
const TURNS: usize = 300;
const TURN: Duration = Duration::from_micros(200);

type IsalCrc = unsafe extern "C" fn(*mut u8, i32, u32) -> u32;

/// ISA-L's `crc32_iscsi`: the register in, the register out.
fn isal() -> Option<Contestant> {
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
    Some(Contestant::new("ISA-L crc32_iscsi", Box::new(sum)))
}

fn contestants() -> Vec<Contestant> {
    let mut all: Vec<Contestant> = Vec::new();
    for routine in xfskit_crc::routines().iter().filter(|routine| routine.available()) {
        all.push(Contestant {
            name: format!("xfskit {}", routine.name),
            prepare: Box::new(|| assert!(xfskit_crc::select(routine.name))),
            sum: Box::new(xfskit_crc::append),
        });
    }
    all.push(Contestant::new("crate crc32c", Box::new(crc32c::crc32c_append)));
    let fast = |seed: u32, data: &[u8]| {
        let mut digest = crc_fast::Digest::new_with_init_state(
            crc_fast::CrcAlgorithm::Crc32Iscsi,
            u64::from(!seed),
        );
        digest.update(data);
        u32::try_from(digest.finalize()).expect("32 bits")
    };
    all.push(Contestant::new("crate crc-fast", Box::new(fast)));
    all.extend(isal());
    all
}

/// Bytes per second of one turn.
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

/// The median and the best turn, in GB/s.
fn told(mut rates: Vec<f64>) -> String {
    rates.sort_by(f64::total_cmp);
    format!("{:5.1} /{:5.1}", rates[rates.len() / 2] / 1e9, rates[rates.len() - 1] / 1e9)
}

fn main() {
    let data: Vec<u8> =
        (0..65_536u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let all = contestants();
    for Contestant { name, prepare, sum } in &all {
        prepare();
        assert_eq!(sum(0, b"123456789"), 0xe306_9283, "{name} is no CRC32c");
        assert_eq!(sum(sum(0, b"1234"), b"56789"), 0xe306_9283, "{name} does not append");
    }
    println!(
        "{:<20}{:>15}{:>15}{:>15}{:>15}   GB/s, median / best",
        "", "128 B", "512 B", "4 KiB", "64 KiB"
    );
    let mut rates = vec![vec![Vec::new(); SIZES.len()]; all.len()];
    for _ in 0..TURNS {
        for (rates, Contestant { prepare, sum, .. }) in rates.iter_mut().zip(&all) {
            prepare();
            for (rates, size) in rates.iter_mut().zip(SIZES) {
                rates.push(turn(|seed| sum(seed, black_box(&data[..size])), size));
            }
        }
    }
    for (rates, Contestant { name, .. }) in rates.into_iter().zip(&all) {
        let columns: Vec<String> = rates.into_iter().map(told).collect();
        println!("{name:<20}   {}", columns.join("   "));
    }
    println!("\nverify, the field counting as zero (inode: 512 B at 100; block: 4 KiB at 4)");
    for routine in xfskit_crc::routines().iter().filter(|routine| routine.available()) {
        xfskit_crc::select(routine.name);
        let verify = |size: usize, field: usize| {
            let block = &data[..size];
            let once = |seed: u32| {
                let block = black_box(block);
                seed ^ u32::from(xfskit_crc::verify(block, field))
            };
            told((0..TURNS).map(|_| turn(once, size)).collect())
        };
        let (inode, block) = (verify(512, 100), verify(4096, 4));
        println!("{:<20}   {inode}   {block}", format!("xfskit {}", routine.name));
    }
}
