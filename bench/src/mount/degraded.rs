//! Readers of a degraded array through our mount.
//!
//! The array is a RAID6 of 24 members in memory, each behind a [`LimitedDevice`] with the speed of
//! a disk, so no command can mount it: this process does. Each reader reads its own file from start
//! to end, again and again, and drops from the page cache what it has read: fewer pages are touched
//! for the first time, which takes longer than to read them.
//!
//! [`LimitedDevice`]: xfskit_block::LimitedDevice

use std::fs::{self, File};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use xfskit::raw::VolumeOptionsExt as _;
use xfskit::raw::mkfs;
use xfskit::{Mount, VolumeOptions};
use xfskit_block::BlockDevice;
use xfskit_md::Slot;
use xfskit_md::array::{Array, Options};
use xfskit_units::{ByteLen, Sectors};
use xfskit_workload::measure::Samples;
use xfskit_workload::measure::usage::{Stopwatch, Usage};
use xfskit_workload::report::Section;

use super::Bench;
use super::aim::{Aims, Bound};
use super::side::Side;
use super::uring::Offer;
use crate::array::{CHUNK, MEMBERS, Members, STRIPE, number};
use crate::frame::{Result, progress, section};
use crate::grid::Grid;

/// Bytes of a read.
const REQUEST: usize = 1 << 20;
/// Bytes of the array besides the files, for the journal and the rest of the metadata.
const ROOM: u64 = 512 << 20;
/// Members that may be missing, in this order.
const GONE: [usize; 2] = [5, 14];
/// Time that is not counted: all readers begin at the same member.
const BEGIN: Duration = Duration::from_millis(1500);
/// The part of what the remaining members can deliver that is to be reached.
const AIM: f64 = 0.95;

/// Readers of an array.
#[derive(Clone, Copy, Debug)]
pub struct Degraded {
    /// Number of readers.
    pub readers: u64,
    /// Bytes per second of a member.
    pub speed: u64,
    /// Stripes of each reader's file. Where it begins and ends, it shares one with its neighbours.
    pub stripes: u64,
    /// Memory for stripes of the degraded array.
    pub stripe_cache: ByteLen,
    /// Time of each point.
    pub time: Duration,
}

/// The result of a point.
#[derive(Clone, Copy, Default)]
struct Outcome {
    bytes: u64,
    /// Bytes that were read from members meanwhile.
    read: u64,
    usage: Usage,
}

impl Outcome {
    fn megabytes_per_second(&self) -> f64 {
        number(self.bytes) / 1e6 / self.usage.wall.as_secs_f64()
    }

    fn nanoseconds_per_byte(&self) -> f64 {
        self.usage.processor.as_secs_f64() * 1e9 / number(self.bytes)
    }

    fn read_per_byte(&self) -> f64 {
        number(self.read) / number(self.bytes)
    }
}

impl Degraded {
    /// Measures the healthy array, and with one and two members missing.
    ///
    /// # Errors
    /// If a volume cannot be made or mounted, or a file has wrong data.
    pub fn measure(&self, bench: &Bench) -> Result<Section> {
        let members = self.members()?;
        let columns = [
            ("healthy", "MB/s", 0),
            ("healthy", "ns/byte", 2),
            ("one missing", "MB/s", 0),
            ("one missing: fraction", "", 3),
            ("one missing: read", "bytes/byte", 2),
            ("one missing", "ns/byte", 2),
            ("two missing", "MB/s", 0),
            ("two missing: fraction", "", 3),
            ("two missing: read", "bytes/byte", 2),
            ("two missing", "ns/byte", 2),
        ];
        let sides: Vec<Side> = bench.sides.iter().copied().filter(|side| side.is_ours()).collect();
        let mut grid = Grid::new("Throughput and processor time", &columns);
        let mut fractions = vec![[(); 2].map(|()| Samples::default()); sides.len()];
        for turn in 1..=bench.turns {
            let mut order: Vec<usize> = (0..sides.len()).collect();
            order.rotate_left((turn - 1) % sides.len().max(1));
            for number in order {
                let side = sides[number];
                progress(format!("Degraded reads, {}, turn {turn}", side.name()));
                let (figures, found) = self.turn(bench, &members, side, turn)?;
                for (samples, fraction) in fractions[number].iter_mut().zip(found) {
                    samples.add(fraction);
                }
                grid.add(side.name(), "simulated members", &figures);
            }
        }
        let mut aims = Aims::default();
        for (side, fractions) in sides.iter().zip(&fractions) {
            for (missing, fraction) in ["one missing", "two missing"].iter().zip(fractions) {
                let found = (fraction.count() > 0).then(|| fraction.median_interval());
                let name = match side {
                    Side::Xfskit => (*missing).to_owned(),
                    _ => format!("{}, {missing}", side.name()),
                };
                aims.add(name, "fraction", Bound::AtLeast(AIM), found);
            }
        }
        let tables = [grid.table()].into_iter().chain(aims.table()).collect();
        Ok(section("Reads from a degraded array", &[&self.text()], tables))
    }

    /// Measures each state of the array once. Returns the figures, and the fractions.
    fn turn(
        &self,
        bench: &Bench,
        members: &Members,
        side: Side,
        turn: usize,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut order = [0, 1, 2];
        order.rotate_left((turn - 1) % 3);
        let mut outcomes = [Outcome::default(); 3];
        for missing in order {
            outcomes[missing] = self.run(bench, members, side, missing)?;
        }
        let [healthy, degraded @ ..] = outcomes;
        let speed = healthy.megabytes_per_second();
        let (mut figures, mut fractions) =
            (vec![speed, healthy.nanoseconds_per_byte()], Vec::new());
        for (n, outcome) in degraded.iter().enumerate() {
            let left = number(u64::from(MEMBERS) - 1 - n as u64) / f64::from(MEMBERS);
            let fraction = outcome.megabytes_per_second() / (speed * left);
            fractions.push(fraction);
            let (read, time) = (outcome.read_per_byte(), outcome.nanoseconds_per_byte());
            figures.extend([outcome.megabytes_per_second(), fraction, read, time]);
        }
        Ok((figures, fractions))
    }

    fn text(&self) -> String {
        let (speed, size) = (self.speed / 1_000_000, (self.stripes * STRIPE) >> 20);
        format!(
            "A RAID6 of {MEMBERS} members with {speed} MB/s each, {} MB/s together, chunks of {} KiB. {} readers each read a file of \
             {size} MiB in calls of 1 MiB, for {} seconds, and drop what they have read from the cache. {} MiB of memory for stripes. \
             This process mounts the volume and reads. A fraction is that of the healthy throughput times the part of the members that is left. Bytes read are those \
             of members, for each byte delivered.",
            speed * u64::from(MEMBERS),
            CHUNK >> 10,
            self.readers,
            self.time.as_secs_f64(),
            self.stripe_cache.0 >> 20,
        )
    }

    /// Makes the members, with a volume that has a file for each reader.
    fn members(&self) -> Result<Members> {
        let bytes = self.readers * self.stripes * STRIPE * 11 / 10 + ROOM;
        let stripes = bytes.div_ceil(STRIPE);
        let members = Members::new(Sectors(stripes * CHUNK / 512));
        let device: Arc<dyn BlockDevice> =
            Arc::new(members.array(None, Options::default(), |_, slot| slot));
        let volume = xfskit::raw::make(device, &mkfs::Options::default())?;
        let mut data = vec![0; REQUEST];
        for reader in 0..self.readers {
            let file = volume.create(format!("/{}", name(reader)))?;
            for at in (0..self.stripes * STRIPE).step_by(REQUEST) {
                data[..16].copy_from_slice(&mark(reader, at));
                file.write_at(&data, at)?;
            }
        }
        volume.close()?;
        Ok(members)
    }

    fn run(&self, bench: &Bench, members: &Members, side: Side, missing: usize) -> Result<Outcome> {
        let gone = |role| GONE[..missing].contains(&role);
        let slot = |role, slot| if gone(role) { Slot::missing() } else { slot };
        let options = Options { stripe_cache: self.stripe_cache, ..Options::default() };
        let array = Arc::new(members.array(Some(self.speed), options, slot));
        let volume = VolumeOptions::new().open_device(Arc::clone(&array) as _, None)?;
        let dir = bench.mount_point();
        fs::create_dir_all(&dir)?;
        let mut mount = Mount::new().source("degraded");
        if let Some(options) = &bench.options {
            mount = mount.options(options)?;
        }
        let _offer = (side == Side::Ring).then(Offer::new).transpose()?;
        if side == Side::Ring {
            mount = mount.options("io_uring")?;
        }
        let mounted = mount.start(volume, &dir)?;
        let outcome = self.read(&dir, &array);
        mounted.unmount()?;
        mounted.close()?;
        outcome
    }

    fn read(&self, dir: &Path, array: &Array) -> Result<Outcome> {
        let (bytes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let count = || (bytes.load(Ordering::Relaxed), array.io_stats().read.0);
        thread::scope(|scope| {
            let start = |reader| {
                let (bytes, stop) = (&bytes, &stop);
                scope.spawn(move || read_file(dir, reader, bytes, stop))
            };
            let readers: Vec<_> = (0..self.readers).map(start).collect();
            thread::sleep(BEGIN);
            let (watch, before) = (Stopwatch::start(), count());
            thread::sleep(self.time);
            let (usage, after) = (watch.and_then(|watch| watch.read()), count());
            stop.store(true, Ordering::Relaxed);
            for reader in readers {
                reader.join().map_err(|_| "a reader panicked")??;
            }
            Ok(Outcome { bytes: after.0 - before.0, read: after.1 - before.1, usage: usage? })
        })
    }
}

fn name(reader: u64) -> String {
    format!("file{reader}")
}

/// Returns the beginning of the megabyte at byte `at` of a reader's file.
fn mark(reader: u64, at: u64) -> [u8; 16] {
    (u128::from(reader) << 64 | u128::from(at)).to_le_bytes()
}

/// Reads a file from start to end until `stop` is set; readers start at different offsets.
fn read_file(dir: &Path, reader: u64, bytes: &AtomicU64, stop: &AtomicBool) -> Result<()> {
    let file = File::open(dir.join(name(reader)))?;
    let len = file.metadata()?.len();
    let mut buf = vec![0; REQUEST];
    let mut at = reader * STRIPE / 7 / REQUEST as u64 * REQUEST as u64 % len;
    while !stop.load(Ordering::Relaxed) {
        file.read_exact_at(&mut buf, at)?;
        if buf[..16] != mark(reader, at) {
            return Err(format!("{}: wrong data at byte {at}", name(reader)).into());
        }
        bytes.fetch_add(REQUEST as u64, Ordering::Relaxed);
        at += REQUEST as u64;
        if at >= len || at.is_multiple_of(STRIPE) {
            fadvise(&file, 0, NonZeroU64::new(at), Advice::DontNeed)?;
        }
        if at >= len {
            at = 0;
        }
    }
    Ok(())
}
