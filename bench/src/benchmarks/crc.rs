//! CRC32c: our routines compared with the crates `crc32c` and `crc-fast` and with Intel's ISA-L.
//!
//! Every routine sums the same block repeatedly. The block stays in the processor's cache, like a
//! block that has just been read. Each sum starts with the result of the last one, so that sums do
//! not overlap. The contenders take many short turns. On a busy machine the best shows the
//! processor, and the median the scheduler. The second section is the operation of XFS: `verify`,
//! with the field counted as zero, one block after the other, so these may overlap.
//!
//! ISA-L is used if its shared library is installed (Debian: libisal2).
#![allow(unsafe_code)] // ISA-L speaks C

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use xfskit_bench::contest::{Contest, Quantity};
use xfskit_bench::frame::{self, Result, section};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "CRC32c routines";

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
const TURN: Duration = Duration::from_micros(200);
const RATE: Quantity = Quantity::rate("GB/s", 1);

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

/// Runs one turn and returns GB per second.
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
    (rounds * bytes) as f64 / 1e9 / start.elapsed().as_secs_f64()
}

#[derive(clap::Args)]
struct Args;

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 300, |Args: &Args, turns| {
        let data: Vec<u8> =
            (0..65_536u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        Ok(vec![sums(&data, turns)?, verifications(&data, turns)])
    })
}

/// Measures the sums of blocks of every size.
fn sums(data: &[u8], turns: usize) -> Result<Section> {
    let all = contenders();
    for Contender { name, prepare, sum } in &all {
        prepare();
        let whole = sum(0, b"123456789");
        if [whole, sum(sum(0, b"1234"), b"56789")] != [0xe306_9283; 2] {
            return Err(format!("{name} is not CRC32c").into());
        }
    }
    let names: Vec<(&str, &str)> = all.iter().map(|one| (&*one.name, "memory")).collect();
    let mut contests = SIZES.map(|size| Contest::new(format!("{size} bytes"), RATE, 0, &names));
    for _ in 0..turns {
        for (n, Contender { prepare, sum, .. }) in all.iter().enumerate() {
            prepare();
            for (contest, size) in contests.iter_mut().zip(SIZES) {
                contest.add(n, turn(|seed| sum(seed, black_box(&data[..size])), size));
            }
        }
    }
    Ok(section("Sums", &[], contests.map(|contest| contest.table()).into()))
}

/// Measures `verify` of an inode and of a block.
fn verifications(data: &[u8], turns: usize) -> Section {
    let routines = || xfskit_crc::routines().iter().filter(|routine| routine.available());
    let names: Vec<(String, &str)> =
        routines().map(|routine| (format!("xfskit {}", routine.name), "memory")).collect();
    let shapes =
        [("inode: 512 bytes, field at 100", 512, 100), ("block: 4 KiB, field at 4", 4096, 4)];
    let measure = |(title, size, field): (&str, usize, usize)| {
        let mut contest = Contest::new(title, RATE, 0, &names);
        for (n, routine) in routines().enumerate() {
            xfskit_crc::select(routine.name);
            let block = &data[..size];
            let once = |seed: u32| {
                let block = black_box(block);
                seed ^ u32::from(xfskit_crc::verify(block, field))
            };
            (0..turns).for_each(|_| contest.add(n, turn(once, size)));
        }
        contest.table()
    };
    section("Verify, with the field counted as zero", &[], shapes.map(measure).into())
}
