//! The cost of a checkpoint: `LogWriter::append` of payloads like those of metadata, in memory
//! (processor time) and on a file (device time, flushes included).
//!
//! `bench-journal FILE [SECONDS]`: FILE is created with 256 MiB on the measured disk, and removed.

use std::sync::Arc;
use std::time::Instant;

use xfskit::raw::mkfs;
use xfskit_block::{BlockDevice, FileDevice, MemDevice};
use xfskit_format::log::item::Regions;
use xfskit_format::log::seed_record;
use xfskit_log::{FlushBefore, Log, LogWriter, Payload};
use xfskit_units::{ByteLen, ByteOffset, Daddr, Geometry, Uuid};

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

#[allow(clippy::cast_precision_loss)] // counts far below 2^52
fn measure(
    name: &str,
    dev: &Arc<dyn BlockDevice>,
    geo: &Geometry,
    size: u32,
    bytes: usize,
    secs: f64,
) {
    dev.write_at(ByteOffset(0), &seed_record(geo.uuid, 512, true)).expect("written");
    dev.write_zeroes(ByteOffset(1024), ByteLen(LOG_BYTES - 1024)).expect("written");
    let log = Log::open(&**dev, Daddr(0), geo).expect("a journal");
    let mut writer = LogWriter::new(&log, Arc::clone(dev), Arc::clone(dev), size).expect("writes");
    let payload = payload(bytes);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < secs {
        let tail = writer.next_lsn();
        writer.append(&payload, tail, FlushBefore::Nothing).expect("appends");
    }
    let (secs, stats) = (start.elapsed().as_secs_f64(), writer.stats());
    let count = stats.checkpoints as f64;
    println!(
        "{name:6} {:4} KiB records {:8} bytes: {:9.1} MB/s {:9.1} checkpoints/s {:5.1} writes {:5.1} flushes",
        size / 1024,
        payload.byte_len(),
        stats.bytes as f64 / secs / 1e6,
        count / secs,
        stats.writes as f64 / count,
        (stats.flushes + stats.writes) as f64 / count,
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("bench-journal FILE [SECONDS]");
    let secs = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(1.0);
    let file: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::create(&path, ByteLen(LOG_BYTES)).expect("made"));
    let memory: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(ByteLen(LOG_BYTES)));
    let geo = geometry();
    for (name, dev) in [("memory", &memory), ("file", &file)] {
        for size in [32 << 10, 256 << 10] {
            for bytes in [1000, 20_000, 1 << 20, 32 << 20] {
                measure(name, dev, &geo, size, bytes, secs);
            }
        }
    }
    std::fs::remove_file(path).expect("removed");
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
