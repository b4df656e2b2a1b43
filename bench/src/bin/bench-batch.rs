//! A batch of scattered reads: `FileDevice::read_batch` compared with sequential reads, with
//! threads and with io_uring, on data in the page cache and on data that is not.
//!
//! `bench-batch IMAGE [TURNS]`: IMAGE is a file of some GiB on the measured disk. If it does not
//! exist, it is created with 1 GiB of data. "Cold" means that the file's own pages were dropped
//! (`POSIX_FADV_DONTNEED`) before each turn.

#![allow(unsafe_code)] // io_uring takes pointers

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use io_uring::{IoUring, opcode, types};
use xfskit_block::{BlockDevice, FileDevice, IoRead, OpenMode};
use xfskit_units::{ByteLen, ByteOffset};

const READ_BYTES: usize = 4096;
const THREADS: usize = 8;
const RING_ENTRIES: u32 = 256;
const MADE_BYTES: u64 = 1 << 30;

/// A contender: its name, and its function that reads a batch.
type Contender = (&'static str, fn(&FileDevice, &File, &mut [IoRead<'_>]));

fn one_by_one(_: &FileDevice, file: &File, batch: &mut [IoRead<'_>]) {
    for io in batch {
        file.read_exact_at(io.buf, io.offset.0).expect("reads");
    }
}

fn threads(device: &FileDevice, file: &File, batch: &mut [IoRead<'_>]) {
    std::thread::scope(|scope| {
        for part in batch.chunks_mut(batch.len().div_ceil(THREADS)) {
            scope.spawn(|| one_by_one(device, file, part));
        }
    });
}

fn read_batch(device: &FileDevice, _: &File, batch: &mut [IoRead<'_>]) {
    assert!(device.read_batch(batch).iter().all(Result::is_ok));
}

/// A design that was not chosen: the same reads through one io_uring per thread.
fn uring(_: &FileDevice, file: &File, batch: &mut [IoRead<'_>]) {
    thread_local! {
        static RING: RefCell<IoUring> =
            RefCell::new(IoUring::new(RING_ENTRIES).expect("the kernel allows io_uring"));
    }
    RING.with_borrow_mut(|ring| {
        for part in batch.chunks_mut(RING_ENTRIES as usize) {
            for io in &mut *part {
                let len = u32::try_from(io.buf.len()).expect("reads are small");
                let fd = types::Fd(file.as_raw_fd());
                let read = opcode::Read::new(fd, io.buf.as_mut_ptr(), len).offset(io.offset.0);
                // SAFETY: the buffer is borrowed until this function returns, and the read is
                // reaped below before that.
                unsafe { ring.submission().push(&read.build()).expect("the ring has room") };
            }
            ring.submit_and_wait(part.len()).expect("reads are taken");
            assert!(ring.completion().all(|done| done.result() > 0));
        }
    });
}

const CONTESTANTS: [Contender; 4] = [
    ("one by one", one_by_one),
    ("8 threads", threads),
    ("read_batch", read_batch),
    ("io_uring", uring),
];

fn drop_pages(file: &File) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).expect("pages are dropped");
}

fn make(path: &str) {
    let device = FileDevice::create(path, ByteLen(MADE_BYTES)).expect("image is made");
    let piece: Vec<u8> = (0..=255u8).cycle().take(1 << 20).collect();
    for offset in (0..MADE_BYTES).step_by(1 << 20) {
        device.write_at(ByteOffset(offset), &piece).expect("image is written");
    }
    device.flush().expect("image is flushed");
}

/// Microseconds per read of one turn.
#[allow(clippy::cast_precision_loss)] // counts far below 2^52
fn turn(read: impl FnOnce(&mut [IoRead<'_>]), offsets: &[u64]) -> f64 {
    let mut bufs = vec![[0u8; READ_BYTES]; offsets.len()];
    let mut batch: Vec<IoRead<'_>> = bufs
        .iter_mut()
        .zip(offsets)
        .map(|(buf, &offset)| IoRead { offset: ByteOffset(offset), buf })
        .collect();
    let start = Instant::now();
    read(&mut batch);
    start.elapsed().as_secs_f64() * 1e6 / offsets.len() as f64
}

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: bench-batch IMAGE [TURNS]");
        std::process::exit(2);
    };
    let turns: usize = args.next().map_or(11, |n| n.parse().expect("TURNS is a number"));
    if !std::path::Path::new(&path).exists() {
        make(&path);
    }
    let device = FileDevice::open(&path, OpenMode::ReadOnly).expect("image opens");
    let file = File::open(&path).expect("image opens");
    let blocks = device.size().0 / READ_BYTES as u64;
    println!("{:<12}{:>8}{:>16}{:>16}   µs per read, median / best", "", "reads", "cold", "cached");
    for reads in [64usize, 1024] {
        let mut times = vec![(Vec::new(), Vec::new()); CONTESTANTS.len()];
        for round in 0..turns {
            for ((cold, cached), (i, (_, read))) in
                times.iter_mut().zip(CONTESTANTS.iter().enumerate())
            {
                // Scattered offsets that differ in each turn and contender: no cache below helps.
                let seed = (round * CONTESTANTS.len() + i) as u64;
                let offset = |n: u64| {
                    let hash = (seed << 32 | n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    (hash >> 20) % blocks * READ_BYTES as u64
                };
                let offsets: Vec<u64> = (0..reads as u64).map(offset).collect();
                drop_pages(&file);
                cold.push(turn(|batch| read(&device, &file, batch), &offsets));
                cached.push(turn(|batch| read(&device, &file, batch), &offsets));
            }
        }
        for ((name, _), (cold, cached)) in CONTESTANTS.iter().zip(times) {
            let format_times = |mut t: Vec<f64>| {
                t.sort_by(f64::total_cmp);
                format!("{:7.2} /{:7.2}", t[t.len() / 2], t[0])
            };
            println!("{name:<12}{reads:>8} {} {}", format_times(cold), format_times(cached));
        }
    }
}
