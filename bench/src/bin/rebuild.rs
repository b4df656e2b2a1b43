//! A member of a RAID6 is rebuilt: beside the bandwidth of the slowest member.
//!
//! `rebuild [MIB]`: 24 members of MIB (default 64) each, chunks of 512 KiB, left-symmetric, in memory or as
//! simulated disks (`LimitedDevice`); one or two members are new. All others are read from start to end once,
//! the new ones written once, so a rebuild cannot be faster than one member passes: the last column is the
//! fraction of that. A scrub reads all. MB are 10^6 bytes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xfskit_block::{BlockDevice, LimitedDevice, MemDevice};
use xfskit_md::array::{Array, Options};
use xfskit_md::{Geometry, Layout, Level, Slot};
use xfskit_units::{ByteLen, ByteOffset, MemberSector, Sectors};

const MEMBERS: u32 = 24;
const CHUNK: u64 = 512 << 10;

struct Bench {
    members: Vec<Arc<dyn BlockDevice>>,
    geometry: Geometry,
}

impl Bench {
    fn new(mib: u64) -> Self {
        let size = Sectors(mib << 11);
        let layout = Layout::default_of(Level::Raid6);
        let geometry =
            Geometry::new(layout, Sectors(CHUNK / 512), MEMBERS, size, &[]).expect("numbers");
        let members: Vec<Arc<dyn BlockDevice>> =
            (0..MEMBERS).map(|_| Arc::new(MemDevice::new(size.byte_len())) as _).collect();
        let bench = Self { members, geometry };
        let array = bench.array(None, 0, 1);
        let mut row = vec![0; usize::try_from(CHUNK * u64::from(MEMBERS - 2)).expect("fits")];
        let mut x = 1u64;
        for at in (0..array.size().0).step_by(row.len()) {
            for bytes in row.chunks_exact_mut(8) {
                x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                bytes.copy_from_slice(&x.to_le_bytes());
            }
            array.write_at(ByteOffset(at), &row).expect("memory");
        }
        bench
    }

    /// The array, of which the first `new` members hold nothing.
    fn array(&self, speed: Option<u64>, new: usize, threads: usize) -> Array {
        let size = self.geometry.component_size();
        let slot = |(role, member): (usize, &Arc<dyn BlockDevice>)| {
            let member = Arc::clone(member);
            let device = match speed {
                None => member,
                Some(speed) => {
                    let latency = Duration::from_micros(100);
                    Arc::new(LimitedDevice::new(member, speed, latency)) as Arc<dyn BlockDevice>
                }
            };
            let slot = Slot::new(device, format!("m{role}"), Sectors(0), size);
            let until = if role < new { MemberSector(0) } else { Slot::ALL_READABLE };
            Slot { readable_until: until, ..slot }
        };
        let slots = self.members.iter().enumerate().map(slot).collect();
        let options = Options { row_cache: ByteLen(0), threads };
        Array::open_with(self.geometry.clone(), slots, options).expect("an array that runs")
    }

    fn run(&self, speed: Option<u64>, new: usize, threads: usize) {
        let array = self.array(speed, new, threads);
        let (start, before) = (Instant::now(), processor());
        if new == 0 {
            let rows = 0..array.scrub_rows();
            array.scrub(rows, false, |_| ControlFlow::Continue(())).expect("all agree");
        } else {
            array.rebuild(|_| ControlFlow::Continue(())).expect("all is there");
        }
        let (elapsed, cpu) = (start.elapsed().as_secs_f64(), processor().saturating_sub(before));
        let bytes = number(self.geometry.component_size().byte_len().0);
        let read = number(array.touched().read);
        let fraction = speed
            .map_or(String::new(), |speed| format!("{:>9.3}", bytes / number(speed) / elapsed));
        println!(
            "{:>9} {:>8} {threads:>8} {:>9.0} {:>9.0} {:>9.3} {fraction}",
            speed.map_or("memory".into(), |speed| (speed / 1_000_000).to_string()),
            if new == 0 { "scrub".into() } else { new.to_string() },
            bytes / 1e6 / elapsed,
            read / 1e6 / elapsed,
            cpu.as_secs_f64() * 1e9 / read,
        );
    }
}

/// User and system time of this process.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let behind_name = stat.rsplit(')').next().expect("a name in parentheses");
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|n| n.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

#[allow(clippy::cast_precision_loss)] // for printing
fn number(n: u64) -> f64 {
    n as f64
}

fn main() {
    let mib = std::env::args().nth(1).map_or(64, |word| word.parse().expect("a number of MiB"));
    println!("parity: {}", xfskit_parity::selected());
    let bench = Bench::new(mib);
    println!(
        "{:>9} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "MB/s each", "new", "threads", "MB/s", "MB/s read", "ns/byte", "fraction"
    );
    let all = Options::default().threads;
    for speed in [Some(50), Some(100), Some(200), Some(400), None] {
        for new in [1, 2, 0] {
            bench.run(speed.map(|speed: u64| speed * 1_000_000), new, all);
        }
    }
    bench.run(None, 1, 1);
}
