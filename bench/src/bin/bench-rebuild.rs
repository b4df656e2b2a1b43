//! The rebuild of RAID6 members, compared with the bandwidth of the slowest member.
//!
//! `bench-rebuild [MIB]`: 24 members of MIB (default 64) each, chunks of 512 KiB, left-symmetric,
//! in memory or as simulated disks (`LimitedDevice`). One or two members are new. The others are
//! read once from start to end, and the new ones are written once, so the bandwidth of one member
//! bounds the rebuild. The last column is the fraction of that bound. A scrub reads all members. MB
//! are 10^6 bytes.

use std::ops::ControlFlow;
use std::time::Instant;

use xfskit_bench::array::{Members, number, processor};
use xfskit_md::Slot;
use xfskit_md::array::{Array, Options};
use xfskit_units::{ByteLen, MemberSector, Sectors};

struct Bench {
    members: Members,
}

impl Bench {
    /// Assembles the array with the first `new` members empty.
    fn array(&self, speed: Option<u64>, new: usize, threads: usize) -> Array {
        let options = Options { stripe_cache: ByteLen(0), threads };
        let slot = |role, slot| {
            let until = if role < new { MemberSector(0) } else { Slot::ALL_READABLE };
            Slot { readable_until: until, ..slot }
        };
        self.members.array(speed, options, slot)
    }

    fn run(&self, speed: Option<u64>, new: usize, threads: usize) {
        let array = self.array(speed, new, threads);
        let (start, before) = (Instant::now(), processor());
        if new == 0 {
            let rows = 0..array.scrub_stripes();
            array.scrub(rows, false, |_| ControlFlow::Continue(())).expect("all agree");
        } else {
            array.rebuild(|_| ControlFlow::Continue(())).expect("all is there");
        }
        let (elapsed, cpu) = (start.elapsed().as_secs_f64(), processor().saturating_sub(before));
        let bytes = number(self.members.geometry.component_size().byte_len().0);
        let read = number(array.io_stats().read.0);
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

fn main() {
    let mib = std::env::args().nth(1).map_or(64, |word| word.parse().expect("a number of MiB"));
    println!("parity: {}", xfskit_parity::selected());
    let bench = Bench { members: Members::new(Sectors(mib << 11)) };
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
