//! The rebuild of RAID6 members, compared with the bandwidth of the slowest member.
//!
//! `xfskit-bench rebuild [MIB]`: 24 members of MIB (default 64) each, chunks of 512 KiB,
//! left-symmetric, in memory or as simulated disks (`LimitedDevice`). One or two members are new.
//! The others are read once from start to end, and the new ones are written once, so the bandwidth
//! of one member bounds the rebuild. The last column is the fraction of that bound. A scrub reads
//! all members. MB are 10^6 bytes.

use std::ops::ControlFlow;
use std::process::ExitCode;

use xfskit_bench::array::{Members, number};
use xfskit_bench::frame::{self, Result, progress, section};
use xfskit_bench::grid::Grid;
use xfskit_md::Slot;
use xfskit_md::array::{Array, Options};
use xfskit_units::{ByteLen, MemberSector, Sectors};
use xfskit_workload::measure::usage::Stopwatch;
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Rebuild of a RAID6 of 24 members";

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

    /// Measures a rebuild of `new` members, or a scrub without any. Returns MB/s of a member, MB/s
    /// read, processor time in ns per byte read, and the fraction of `speed`.
    fn run(&self, speed: Option<u64>, new: usize, threads: usize) -> Result<[f64; 4]> {
        let array = self.array(speed, new, threads);
        let watch = Stopwatch::start()?;
        if new == 0 {
            let rows = 0..array.scrub_stripes();
            array.scrub(rows, false, |_| ControlFlow::Continue(()))?;
        } else {
            array.rebuild(|_| ControlFlow::Continue(()))?;
        }
        let usage = watch.read()?;
        let bytes = number(self.members.geometry.component_size().byte_len().0);
        let read = number(array.io_stats().read.0);
        let rate = bytes / usage.wall.as_secs_f64();
        Ok([
            rate / 1e6,
            read / 1e6 / usage.wall.as_secs_f64(),
            usage.processor.as_secs_f64() * 1e9 / read,
            speed.map_or(f64::NAN, |speed| rate / number(speed)),
        ])
    }
}

#[derive(clap::Args)]
struct Args {
    /// MiB of a member
    #[arg(default_value_t = 64)]
    mib: u64,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 1, measure)
}

fn measure(Args { mib }: &Args, turns: usize) -> Result<Vec<Section>> {
    let bench = Bench { members: Members::new(Sectors(mib << 11)) };
    let all = Options::default().threads;
    let speeds = [Some(50), Some(100), Some(200), Some(400), None];
    let points = speeds.iter().flat_map(|speed| [1, 2, 0].map(|new| (*speed, new, all)));
    let points: Vec<_> = points.chain([(None, 1, 1)]).collect();
    let columns = [
        ("of a member", "MB/s", 0),
        ("read", "MB/s", 0),
        ("processor", "ns/byte read", 3),
        ("of the member's speed", "", 3),
    ];
    let mut grid = Grid::new("Rebuilds and scrubs", &columns);
    for turn in 1..=turns {
        progress(format!("turn {turn}"));
        for (speed, new, threads) in &points {
            let what = if *new == 0 { "scrub".into() } else { format!("{new} new") };
            let members = speed.map_or("memory".into(), |speed| format!("{speed} MB/s each"));
            let storage = if speed.is_some() { "simulated members" } else { "memory" };
            let figures = bench.run(speed.map(|speed| speed * 1_000_000), *new, *threads)?;
            grid.add(format!("{members}: {what}, {threads} threads"), storage, &figures);
        }
    }
    let text = format!("Parity: {}.", xfskit_parity::selected());
    Ok(vec![section("Rebuild", &[&text], vec![grid.table()])])
}
