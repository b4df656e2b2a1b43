//! The cost of a checkpoint: `LogWriter::append` of payloads like those of metadata, in memory
//! (processor time) and on a file (device time, flushes included).
//!
//! `xfskit-bench journal FILE [SECONDS]`: FILE is created with 256 MiB on the measured disk, and
//! removed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use xfskit::raw::mkfs;
use xfskit_bench::frame::{self, Result, progress, section};
use xfskit_bench::grid::Grid;
use xfskit_block::{BlockDevice, FileDevice, MemDevice};
use xfskit_format::log::item::Regions;
use xfskit_format::log::seed_record;
use xfskit_log::{FlushBefore, Log, LogWriter, Payload};
use xfskit_units::{ByteLen, ByteOffset, Daddr, Geometry, Uuid};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Checkpoints into the journal";

const LOG_BYTES: u64 = 256 << 20;

/// Creates items of about 300 bytes, as file creation logs them, `bytes` in all.
fn payload(bytes: usize) -> Payload {
    let mut payload = Payload::new();
    let lens = [56, 176, 24, 24, 128, 24, 256];
    for (n, len) in lens.iter().cycle().enumerate() {
        let region = vec![u8::try_from(n % 251).unwrap_or(0); *len];
        payload.region(&[&region]);
        if payload.byte_len() >= bytes {
            break;
        }
    }
    payload
}

/// Appends checkpoints of `bytes` in records of `size` for some seconds. Returns MB/s, checkpoints
/// per second, and writes and flushes of a checkpoint.
#[allow(clippy::cast_precision_loss)] // counts far below 2^52
fn append(
    dev: &Arc<dyn BlockDevice>,
    geo: &Geometry,
    size: u32,
    bytes: usize,
    secs: f64,
) -> Result<[f64; 4]> {
    dev.write_at(ByteOffset(0), &seed_record(geo.uuid, 512, true))?;
    dev.write_zeroes(ByteOffset(1024), ByteLen(LOG_BYTES - 1024))?;
    let log = Log::open(&**dev, Daddr(0), geo)?;
    let mut writer = LogWriter::new(&log, Arc::clone(dev), Arc::clone(dev), size)?;
    let payload = payload(bytes);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < secs {
        let tail = writer.next_lsn();
        writer.append(&payload, tail, FlushBefore::Nothing)?;
    }
    let (secs, stats) = (start.elapsed().as_secs_f64(), writer.stats());
    let count = stats.checkpoints as f64;
    Ok([
        stats.bytes as f64 / secs / 1e6,
        count / secs,
        stats.writes as f64 / count,
        (stats.flushes + stats.writes) as f64 / count,
    ])
}

#[derive(clap::Args)]
struct Args {
    /// File to make on the measured disk, 256 MiB; removed afterwards
    file: PathBuf,
    /// Seconds for each point
    #[arg(default_value_t = 1.0)]
    seconds: f64,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 1, measure)
}

fn measure(Args { file: path, seconds }: &Args, turns: usize) -> Result<Vec<Section>> {
    let file: Arc<dyn BlockDevice> = Arc::new(FileDevice::create(path, ByteLen(LOG_BYTES))?);
    let memory: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(LOG_BYTES)));
    let geo = geometry();
    let columns =
        [("rate", "MB/s", 1), ("checkpoints", "1/s", 1), ("writes", "", 1), ("flushes", "", 1)];
    let mut grid = Grid::new("Checkpoints: rates, and writes and flushes of each", &columns);
    for turn in 1..=turns {
        progress(format!("turn {turn}"));
        for (name, dev) in [("memory", &memory), ("a file", &file)] {
            for size in [32 << 10, 256 << 10] {
                for bytes in [1000, 20_000, 1 << 20, 32 << 20] {
                    let row = format!("{bytes} bytes in records of {} KiB", size >> 10);
                    grid.add(row, name, &append(dev, &geo, size, bytes, *seconds)?);
                }
            }
        }
    }
    std::fs::remove_file(path)?;
    Ok(vec![section("Checkpoints", &[], vec![grid.table()])])
}

/// Creates a volume with an external journal of this size.
fn geometry() -> Geometry {
    let log = MemDevice::new(ByteLen(LOG_BYTES));
    let data = MemDevice::new(ByteLen(4 << 30));
    let mut options = mkfs::Options::default();
    options.log_external = true;
    let facts = mkfs::DeviceFacts::of(&data, Some(&log));
    let uuid = Uuid::from_bytes([7; 16]);
    let stamp = mkfs::Stamp { uuid, seconds: 0, nanoseconds: 0, generation: 0 };
    mkfs::plan(&options, &facts, stamp).expect("a plan").geometry
}
