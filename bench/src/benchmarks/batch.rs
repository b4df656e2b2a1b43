//! A batch of scattered reads: `FileDevice::read_batch` compared with sequential reads, with
//! threads and with io_uring, on data in the page cache and on data that is not.
//!
//! `xfskit-bench batch IMAGE`: IMAGE is a file of some GiB on the measured disk. If it does not
//! exist, it is created with 1 GiB of data. "Cold" means that the file's own pages were dropped
//! (`POSIX_FADV_DONTNEED`) before each turn.

#![allow(unsafe_code)] // io_uring takes pointers

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use io_uring::{IoUring, opcode, types};
use xfskit_bench::contest::{Contest, Quantity};
use xfskit_bench::frame::{self, Result, section};
use xfskit_block::{BlockDevice, FileDevice, IoRead, OpenMode};
use xfskit_units::{ByteLen, ByteOffset};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Scattered reads: read_batch and other ways";

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

const CONTENDERS: [Contender; 4] = [
    ("one by one", one_by_one),
    ("8 threads", threads),
    ("read_batch", read_batch),
    ("io_uring", uring),
];
/// `read_batch` among the contenders.
const OURS: usize = 2;

fn drop_pages(file: &File) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).expect("pages are dropped");
}

fn make(path: &Path) {
    let device = FileDevice::create(path, ByteLen(MADE_BYTES)).expect("image is made");
    let piece: Vec<u8> = (0..=255u8).cycle().take(1 << 20).collect();
    for offset in (0..MADE_BYTES).step_by(1 << 20) {
        device.write_at(ByteOffset(offset), &piece).expect("image is written");
    }
    device.flush().expect("image is flushed");
}

/// Returns the microseconds per read of one turn.
#[allow(clippy::cast_precision_loss)] // counts far below 2^52
fn microseconds(read: impl FnOnce(&mut [IoRead<'_>]), offsets: &[u64]) -> f64 {
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

#[derive(clap::Args)]
struct Args {
    /// File of some GiB on the measured disk; made with 1 GiB if missing
    image: PathBuf,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 11, measure)
}

fn measure(Args { image }: &Args, turns: usize) -> Result<Vec<Section>> {
    if !image.exists() {
        make(image);
    }
    let (device, file) = (FileDevice::open(image, OpenMode::ReadOnly)?, File::open(image)?);
    let blocks = device.size().0 / READ_BYTES as u64;
    let mut tables = Vec::new();
    for reads in [64usize, 1024] {
        let each = Quantity::cost("µs per read", 2);
        let names = CONTENDERS.map(|(name, _)| (name, "a file"));
        let contest = |cache| Contest::new(format!("{reads} reads, {cache}"), each, OURS, &names);
        let (mut cold, mut cached) = (contest("cold"), contest("cached"));
        for turn in 0..turns {
            for (n, (_, read)) in CONTENDERS.iter().enumerate() {
                // Scattered offsets that differ in each turn and contender: no cache below helps.
                let seed = (turn * CONTENDERS.len() + n) as u64;
                let offset = |n: u64| {
                    let hash = (seed << 32 | n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    (hash >> 20) % blocks * READ_BYTES as u64
                };
                let offsets: Vec<u64> = (0..reads as u64).map(offset).collect();
                drop_pages(&file);
                cold.add(n, microseconds(|batch| read(&device, &file, batch), &offsets));
                cached.add(n, microseconds(|batch| read(&device, &file, batch), &offsets));
            }
        }
        tables.extend([cold.table(), cached.table()]);
    }
    Ok(vec![section("Scattered reads of 4 KiB", &[], tables)])
}
