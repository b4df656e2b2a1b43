//! A large file: sequential writes and reads, reads of a page from the cache, and direct reads and
//! writes of a page.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use xfskit_workload::measure::parallel;
use xfskit_workload::random::Random;

use super::aim::Bound::{self, AtLeast};
use super::side::Side;
use super::workload::{Step, Turn, Workload};
use crate::array::number;
use crate::contest::Quantity;
use crate::frame::Result;

/// Bytes of a sequential read or write.
const LARGE: usize = 1 << 20;
/// Bytes of a random one.
const PAGE: usize = 4096;
/// Random reads from the cache between looks at the clock.
const BATCH: usize = 64;
/// The file.
const NAME: &str = "large";

/// A large file.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Its size in bytes, a multiple of 1 MiB.
    pub size: u64,
    /// Time of each random step.
    pub time: Duration,
}

const SPEED: Quantity = Quantity::rate("MB/s", 0);
const RATE: Quantity = Quantity::rate("1/s", 0);

const fn sequential(title: &'static str) -> Step {
    let aims: &[(Side, Bound)] = &[(Side::Passthrough, AtLeast(0.9))];
    Step { title, quantity: SPEED, unit: "MB", aims, round_trips: None }
}

const fn random(title: &'static str, aims: &'static [(Side, Bound)]) -> Step {
    Step { title, quantity: RATE, unit: "4 KiB", aims, round_trips: None }
}

const DIRECT: &[(Side, Bound)] = &[(Side::Kernel, AtLeast(0.8))];

const WRITE: usize = 0;
const READ_COLD: usize = 1;
const READ_WARM: usize = 2;
const READ_CACHED: usize = 3;
const STEPS: &[Step] = &[
    sequential("sequential write, fsync"),
    sequential("sequential read, cold"),
    sequential("sequential read, warm"),
    // Equal, but for the noise of a loop of less than a microsecond.
    random("4 KiB from the cache", &[(Side::Passthrough, AtLeast(0.95))]),
    random("4 KiB direct reads, one thread", DIRECT),
    random("4 KiB direct reads, eight threads", DIRECT),
    random("4 KiB direct writes, one thread, fsync", DIRECT),
    random("4 KiB direct writes, eight threads, fsync", DIRECT),
];

/// A step of direct I/O.
struct Direct {
    step: usize,
    threads: usize,
    writes: bool,
}

const DIRECTS: [Direct; 4] = [
    Direct { step: 4, threads: 1, writes: false },
    Direct { step: 5, threads: 8, writes: false },
    Direct { step: 6, threads: 1, writes: true },
    Direct { step: 7, threads: 8, writes: true },
];

impl Workload for Stream {
    fn title(&self) -> &'static str {
        "A large file"
    }

    fn text(&self) -> Vec<String> {
        let (size, seconds) = (self.size >> 20, self.time.as_secs_f64());
        vec![
            format!(
                "A file of {size} MiB is written and read in calls of 1 MiB. For the cold read it is mounted again without caches; \
                 the warm one is the next. Calls of 4 KiB are at random offsets, for {seconds} seconds each."
            ),
            "Before each step of direct I/O all caches are dropped. Times of writes include the fsync. The \
             servers of xfskit and fuse2fs read the image through the page cache, the loop device past it."
                .into(),
        ]
    }

    fn steps(&self) -> &'static [Step] {
        STEPS
    }

    fn programs(&self) -> &'static [&'static str] {
        &[]
    }

    fn inodes(&self) -> u64 {
        2
    }

    fn turn(&self, turn: &mut Turn<'_>) -> Result<()> {
        let mounted = turn.mount()?;
        let path = mounted.path().join(NAME);
        turn.timed(WRITE, &mounted, || self.write(&path))?;
        turn.unmount(mounted)?;

        turn.bench.drop_caches()?;
        let mounted = turn.mount()?;
        let path = mounted.path().join(NAME);
        turn.timed(READ_COLD, &mounted, || self.read(&path))?;
        turn.timed(READ_WARM, &mounted, || self.read(&path))?;
        turn.timed(READ_CACHED, &mounted, || self.read_cached(&path))?;
        for direct in &DIRECTS {
            turn.bench.drop_caches()?;
            let title = STEPS[direct.step].title;
            turn.timed_if_possible(direct.step, title, &mounted, || self.direct(&path, direct))?;
        }
        turn.unmount(mounted)
    }
}

impl Stream {
    /// Writes the file, and returns its MB.
    fn write(&self, path: &Path) -> Result<f64> {
        let (file, mut buf) = (File::create(path)?, vec![0; LARGE]);
        let mut random = Random::new(7);
        for bytes in buf.chunks_exact_mut(8) {
            bytes.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        for at in (0..self.size).step_by(LARGE) {
            buf[..8].copy_from_slice(&at.to_le_bytes());
            file.write_all_at(&buf, at)?;
        }
        file.sync_all()?;
        Ok(number(self.size) / 1e6)
    }

    /// Reads the file, and returns its MB.
    fn read(&self, path: &Path) -> Result<f64> {
        let (file, mut buf) = (File::open(path)?, vec![0; LARGE]);
        for at in (0..self.size).step_by(LARGE) {
            file.read_exact_at(&mut buf, at)?;
            if buf[..8] != at.to_le_bytes() {
                return Err(format!("byte {at} has wrong data").into());
            }
        }
        Ok(number(self.size) / 1e6)
    }

    /// Reads pages at random offsets from the cache, and returns their number.
    fn read_cached(&self, path: &Path) -> Result<f64> {
        let (file, mut buf) = (File::open(path)?, vec![0; PAGE]);
        let (mut random, mut pages, start) = (Random::new(1), 0, Instant::now());
        while start.elapsed() < self.time {
            for _ in 0..BATCH {
                file.read_exact_at(&mut buf, self.page(&mut random))?;
            }
            pages += BATCH as u64;
        }
        Ok(number(pages))
    }

    /// Returns the offset of a page.
    fn page(&self, random: &mut Random) -> u64 {
        random.below(self.size / PAGE as u64) * PAGE as u64
    }

    /// Reads or writes pages at random offsets past the cache, and returns their number.
    fn direct(&self, path: &Path, direct: &Direct) -> Result<f64> {
        let flags = i32::try_from(OFlags::DIRECT.bits())?;
        let work = |thread: usize| -> io::Result<u64> {
            let mut how = OpenOptions::new();
            how.read(!direct.writes).write(direct.writes).custom_flags(flags);
            let file = how.open(path)?;
            let mut memory = vec![0; 2 * PAGE];
            let aligned = memory.as_ptr().align_offset(PAGE);
            let buf = &mut memory[aligned..aligned + PAGE];
            let mut random = Random::stream(direct.step as u64, thread as u64);
            let (mut pages, start) = (0, Instant::now());
            while start.elapsed() < self.time {
                let at = self.page(&mut random);
                if direct.writes {
                    file.write_all_at(buf, at)?;
                } else {
                    file.read_exact_at(buf, at)?;
                }
                pages += 1;
            }
            Ok(pages)
        };
        let sync = || if direct.writes { File::open(path)?.sync_all() } else { Ok(()) };
        let measured = parallel(direct.threads, work, sync)?;
        Ok(number(measured.outputs.iter().sum()))
    }
}
