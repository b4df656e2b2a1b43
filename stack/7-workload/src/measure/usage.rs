//! Wall time, processor time and memory.

use std::fs;
use std::io;
use std::ops::Sub;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::share;

/// Ticks per second of the times in `/proc`, the same on every architecture of Linux.
const TICKS: u64 = 100;

/// Time used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Wall time.
    pub wall: Duration,
    /// User time of this process, in steps of 10 ms.
    pub user: Duration,
    /// System time of this process, in steps of 10 ms.
    pub system: Duration,
    /// User and system time of this process together, in nanoseconds.
    pub processor: Duration,
    /// Busy time of all processors. It includes kernel threads, but also other programs.
    pub machine: Duration,
    /// Busy and idle time of all processors, by the same clock as `machine`.
    pub machine_all: Duration,
}

impl Usage {
    /// Returns the part of all processors that was busy, in percent; `None` if the time is too
    /// short.
    ///
    /// # Errors
    /// If more time was busy than there was.
    pub fn busy_percent(&self) -> io::Result<Option<f64>> {
        share::of_time("busy processors", self.machine, self.machine_all)
    }

    /// Returns the part of all processors that other programs and the kernel's threads used, in
    /// percent; `None` if the time is too short.
    ///
    /// # Errors
    /// As [`busy_percent`](Self::busy_percent).
    pub fn others_percent(&self) -> io::Result<Option<f64>> {
        let others = self.machine.saturating_sub(self.processor);
        share::of_time("processors used by other programs", others, self.machine_all)
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            wall: self.wall.saturating_sub(before.wall),
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            processor: self.processor.saturating_sub(before.processor),
            machine: self.machine.saturating_sub(before.machine),
            machine_all: self.machine_all.saturating_sub(before.machine_all),
        }
    }
}

/// A running stopwatch.
#[derive(Debug)]
pub struct Stopwatch {
    start: Instant,
    before: Usage,
}

impl Stopwatch {
    /// Starts the stopwatch.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn start() -> io::Result<Self> {
        Ok(Self { before: usage_so_far()?, start: Instant::now() })
    }

    /// Returns the time since the start.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn read(&self) -> io::Result<Usage> {
        let wall = self.start.elapsed();
        Ok(Usage { wall, ..usage_so_far()? - self.before })
    }
}

fn ticks(word: Option<&str>) -> Duration {
    let ticks: u64 = word.and_then(|word| word.parse().ok()).unwrap_or(0);
    Duration::from_millis(ticks.saturating_mul(1000 / TICKS))
}

/// Returns the processor time so far; wall time is zero.
fn usage_so_far() -> io::Result<Usage> {
    // proc(5): utime and stime are fields 14 and 15. Field 2, in parentheses, may contain blanks.
    let own = fs::read_to_string("/proc/self/stat")?;
    let words: Vec<&str> =
        own.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let (user, system) = (ticks(words.get(11).copied()), ticks(words.get(12).copied()));
    let all = fs::read_to_string("/proc/stat")?;
    let (machine, machine_all) = machine_time(all.lines().next().unwrap_or(""));
    let processor = clock_gettime(ClockId::ProcessCPUTime);
    let processor = Duration::try_from(processor).unwrap_or_default();
    Ok(Usage { wall: Duration::ZERO, user, system, processor, machine, machine_all })
}

/// Returns the busy time of all processors, and their whole time, from the first line of
/// `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. User includes guests.
fn machine_time(line: &str) -> (Duration, Duration) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let sum = |fields: &[usize]| fields.iter().map(|&n| ticks(words.get(n).copied())).sum();
    (sum(&[1, 2, 3, 6, 7]), sum(&[1, 2, 3, 4, 5, 6, 7, 8]))
}

/// Returns the processor time of the calling thread so far.
pub fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Resets the peak that [`peak_memory`] reports.
pub fn reset_peak_memory() {
    // Without permission the peak is that of the whole run, which is an upper bound.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak memory of this process since its start or the last reset, in bytes.
pub fn peak_memory() -> Option<u64> {
    peak_in(&fs::read_to_string("/proc/self/status").ok()?)
}

/// Returns the peak memory of process `pid` since its start, in bytes; `None` if it has ended.
pub(crate) fn peak_memory_of(pid: u32) -> Option<u64> {
    peak_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn peak_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the bytes of memory that programs can still take, as `/proc/meminfo` estimates them.
pub fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let watch = Stopwatch::start().expect("/proc");
        let mut sum = 0_u64;
        while watch.start.elapsed() < Duration::from_millis(60) {
            sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
        }
        let usage = watch.read().expect("/proc");
        assert!(usage.wall >= Duration::from_millis(60));
        assert!(usage.machine >= usage.processor / 2, "{usage:?}");
    }

    #[test]
    fn busy_time_is_a_part_of_the_time_of_the_same_clock() {
        let (busy, all) = machine_time("cpu  100 10 40 300 20 5 5 20 7 0");
        assert_eq!((busy, all), (Duration::from_millis(1600), Duration::from_secs(5)));
        let usage = Usage { machine: busy, machine_all: all, ..Usage::default() };
        assert_eq!(usage.busy_percent().expect("a part"), Some(32.0));
        // This process used 1.1 of the 1.6 seconds.
        let usage = Usage { processor: Duration::from_millis(1100), ..usage };
        assert_eq!(usage.others_percent().expect("a part"), Some(10.0));
        let wrong = Usage { machine_all: Duration::from_secs(1), ..usage };
        assert!(wrong.busy_percent().is_err());
        assert_eq!(Usage::default().busy_percent().expect("too short"), None);
    }

    #[test]
    fn touched_memory_counts() {
        reset_peak_memory();
        let before = peak_memory().expect("/proc");
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(peak_memory().expect("/proc") >= before + (32 << 20));
        drop(touched);
    }
}
