//! Whether the machine is idle, before a run whose figures need that.
//!
//! Other programs are those that are not this process. The kernel's threads count as well: a disk
//! that still writes what the last run left changes the figures, too.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

/// The time that is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// The time between two looks while the machine is not idle.
const PAUSE: Duration = Duration::from_secs(8);
/// Looks before the run is given up: two minutes.
const LOOKS: usize = 12;

/// An idle machine has at most this part of its processors' time in other programs, in percent.
const BUSY_MAX: f64 = 5.0;
/// On an idle machine some task waits for the disk at most this part of the time, in percent.
const WAITING_MAX: f64 = 10.0;

/// Processes that are named.
const NAMED: usize = 3;
/// A process with less than this part of one processor is not named, in percent.
const NAMED_MIN: f64 = 1.0;

/// Ticks per second of the times in `/proc`, the same on every architecture of Linux.
const TICKS: f64 = 100.0;

/// What other programs do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// The part of all processors' time that they take, in percent.
    pub busy: f64,
    /// The part of the time in which some task waits for a disk, in percent; `None` if the kernel
    /// does not tell.
    pub waiting: Option<f64>,
    /// Name and number of each process, and the part of one processor that it takes, in percent.
    pub processes: Vec<(String, f64)>,
}

impl Load {
    /// Returns true if figures that need an idle machine can be measured.
    pub(super) fn is_idle(&self) -> bool {
        self.busy <= BUSY_MAX && self.waiting.is_none_or(|waiting| waiting <= WAITING_MAX)
    }

    /// Describes the load in figures.
    pub(super) fn figures(&self) -> String {
        let text = format!("other programs take {:.0} % of the processors", self.busy);
        match self.waiting.filter(|waiting| *waiting > WAITING_MAX) {
            Some(waiting) => format!("{text}, and wait for disks {waiting:.0} % of the time"),
            None => text,
        }
    }

    /// Describes the load with the processes that have most of it.
    pub(super) fn describe(&self) -> String {
        let text = self.figures();
        let mut most: Vec<&(String, f64)> =
            self.processes.iter().filter(|(_, percent)| *percent >= NAMED_MIN).collect();
        most.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most: Vec<String> =
            most.iter().take(NAMED).map(|(name, part)| format!("{name} {part:.0} %")).collect();
        if most.is_empty() { text } else { format!("{text} ({} of one)", most.join(", ")) }
    }
}

/// Looks at the load until the machine is idle, and returns the last one. `look` returns the load;
/// `wait` is called with a busy one before the next look, and ends everything with an error.
pub(super) fn wait_until_idle<E>(
    mut look: impl FnMut() -> Result<Load, E>,
    mut wait: impl FnMut(&Load, Duration) -> Result<(), E>,
) -> Result<Load, E> {
    let mut load = look()?;
    for _ in 1..LOOKS {
        if load.is_idle() {
            break;
        }
        wait(&load, PAUSE)?;
        load = look()?;
    }
    Ok(load)
}

/// Returns the time for which [`wait_until_idle`] waits at most.
pub(super) fn wait_max() -> Duration {
    (LOOK + PAUSE) * u32::try_from(LOOKS).unwrap_or(u32::MAX)
}

/// Looks at the load for two seconds.
pub(super) fn look() -> io::Result<Load> {
    let before = Times::now()?;
    std::thread::sleep(LOOK);
    Ok(Times::now()?.since(&before))
}

/// Times so far, as `/proc` has them.
#[derive(Clone, Debug, Default)]
struct Times {
    /// Ticks in which processors were busy, and all of them.
    busy: u64,
    all: u64,
    /// Microseconds in which some task waited for a disk.
    waited: Option<u64>,
    /// Ticks of each process: by its number, with its name.
    processes: BTreeMap<u32, (String, u64)>,
}

impl Times {
    fn now() -> io::Result<Self> {
        let (busy, all) = ticks_of_processors(&fs::read_to_string("/proc/stat")?);
        let waited = fs::read_to_string("/proc/pressure/io").ok();
        let waited = waited.and_then(|text| total_of_some(&text));
        let mut processes = BTreeMap::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process may have ended meanwhile.
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            processes.extend(ticks_of_process(&stat).map(|of| (pid, of)));
        }
        Ok(Self { busy, all, waited, processes })
    }

    #[allow(clippy::cast_precision_loss)] // of a share
    fn since(&self, before: &Self) -> Load {
        let ticks = |(pid, (name, now)): (&u32, &(String, u64))| {
            let earlier = before.processes.get(pid).map_or(0, |(_, ticks)| *ticks);
            (*pid, name.clone(), now.saturating_sub(earlier))
        };
        let own = std::process::id();
        let (mine, others): (Vec<_>, Vec<_>) =
            self.processes.iter().map(ticks).partition(|(pid, ..)| *pid == own);
        let mine: u64 = mine.iter().map(|(.., ticks)| ticks).sum();
        let busy = self.busy.saturating_sub(before.busy).saturating_sub(mine);
        let all = self.all.saturating_sub(before.all).max(1);
        let waited = self.waited.zip(before.waited).map(|(now, then)| now.saturating_sub(then));
        let of_one = |ticks: u64| ticks as f64 / TICKS / LOOK.as_secs_f64() * 100.0;
        Load {
            busy: busy as f64 * 100.0 / all as f64,
            waiting: waited.map(|micros| micros as f64 / 1e6 / LOOK.as_secs_f64() * 100.0),
            processes: others
                .into_iter()
                .map(|(pid, name, ticks)| (format!("{name} ({pid})"), of_one(ticks)))
                .collect(),
        }
    }
}

/// Returns the ticks in which processors were busy, and all ticks, from the first line of
/// `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. Time that was stolen for
/// other machines is not idle. User includes guests.
fn ticks_of_processors(stat: &str) -> (u64, u64) {
    let words = stat.lines().next().unwrap_or("").split_whitespace().skip(1);
    let ticks: Vec<u64> = words.take(8).map(|word| word.parse().unwrap_or(0)).collect();
    let all: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (all - idle, all)
}

/// Returns name and ticks of a process from the text of its `stat`: user and system time are fields
/// 14 and 15. The name, in parentheses, may contain blanks and parentheses.
fn ticks_of_process(stat: &str) -> Option<(String, u64)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((name.to_owned(), user.checked_add(system)?))
}

/// Returns the microseconds in which some task waited, from the text of a file in
/// `/proc/pressure`.
fn total_of_some(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find(|line| line.starts_with("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests;
