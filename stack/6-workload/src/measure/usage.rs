//! Wall time, processor time, memory.

use std::fs;
use std::io;
use std::ops::Sub;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Ticks in a second of the times below `/proc`, on all processors that Linux runs on.
const TICKS: u64 = 100;

/// Time taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// On the wall.
    pub wall: Duration,
    /// Of processors, in this process, in steps of 10 ms.
    pub user: Duration,
    /// Of processors, in the kernel for this process, in steps of 10 ms.
    pub system: Duration,
    /// Of processors, in this process, user and system together, to the nanosecond.
    pub processor: Duration,
    /// Of processors, for whoever it was: kernel threads too, but also other programs.
    pub machine: Duration,
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
        }
    }
}

/// A stop watch that is running.
#[derive(Debug)]
pub struct Watch {
    start: Instant,
    before: Usage,
}

impl Watch {
    /// Starts it.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn start() -> io::Result<Self> {
        Ok(Self { before: so_far()?, start: Instant::now() })
    }

    /// What was taken since.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn read(&self) -> io::Result<Usage> {
        let wall = self.start.elapsed();
        Ok(Usage { wall, ..so_far()? - self.before })
    }
}

fn ticks(word: Option<&str>) -> Duration {
    let ticks: u64 = word.and_then(|word| word.parse().ok()).unwrap_or(0);
    Duration::from_millis(ticks.saturating_mul(1000 / TICKS))
}

/// Processor time so far; no wall time.
fn so_far() -> io::Result<Usage> {
    // proc(5): utime and stime are words 14 and 15; the second may have blanks, within parentheses.
    let own = fs::read_to_string("/proc/self/stat")?;
    let words: Vec<&str> =
        own.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let (user, system) = (ticks(words.get(11).copied()), ticks(words.get(12).copied()));
    // user, nice, system, (idle, iowait,) irq, softirq of all processors.
    let all = fs::read_to_string("/proc/stat")?;
    let words: Vec<&str> = all.lines().next().unwrap_or("").split_whitespace().collect();
    let machine = [1, 2, 3, 6, 7].iter().map(|&n| ticks(words.get(n).copied())).sum();
    let processor = clock_gettime(ClockId::ProcessCPUTime);
    let processor = Duration::try_from(processor).unwrap_or_default();
    Ok(Usage { wall: Duration::ZERO, user, system, processor, machine })
}

/// Processor time of the thread that asks, so far.
pub fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Forgets how much memory this process had at most, so that [`peak_memory`] tells of what comes.
pub fn reset_peak_memory() {
    // Where that is not allowed the peak is that of the whole run; it is an upper bound then.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most memory this process had since it began, or since the reset, in bytes.
pub fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let watch = Watch::start().expect("/proc");
        let mut sum = 0_u64;
        while watch.start.elapsed() < Duration::from_millis(60) {
            sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
        }
        let usage = watch.read().expect("/proc");
        assert!(usage.wall >= Duration::from_millis(60));
        assert!(usage.machine >= usage.processor / 2, "{usage:?}");
    }

    #[test]
    fn memory_that_was_touched_counts() {
        reset_peak_memory();
        let before = peak_memory().expect("/proc");
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(peak_memory().expect("/proc") >= before + (32 << 20));
        drop(touched);
    }
}
