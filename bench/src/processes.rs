//! Programs that do the same to a file: their wall clock, processor time, peak memory, and what
//! they read from the disk.
//!
//! Each contender is a process of its own, below GNU time. *Cold*: all caches are dropped before
//! the turn. *Warm*: a second run directly after it. After its cold run the disk alone reads as
//! many bytes of the same file as ours did: a bound of all programs that read them.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use xfskit_workload::report::Table;

use crate::array::number;
use crate::contest::{Contest, Quantity};
use crate::disk::{IN_FLIGHT, read_past_cache};
use crate::frame::Result;
use crate::kernel::drop_caches;

/// A contender: its name, and the words of its command. The first one is ours.
pub type Contender = (String, Vec<String>);

/// One run.
struct Run {
    /// Seconds of wall clock, seconds of processor time, MiB of memory, MiB read from the disk.
    figures: [f64; 4],
    /// Bytes read from the disk.
    read: u64,
}

/// The figures of a run: name, unit, digits.
const MEASURED: [(&str, &str, u8); 4] = [
    ("wall time", "s", 3),
    ("processor time", "s", 2),
    ("peak memory", "MiB", 1),
    ("read from the disk", "MiB", 1),
];
/// Places of figures.
const WALL: usize = 0;
const FROM_DISK: usize = 3;

/// Bytes of a MiB.
const MIB: f64 = 1048576.0;
/// Bytes that GNU time counts input in.
const SECTOR: u64 = 512;

/// Measures all contenders in turn, cold and then warm, and the disk alone that `file` is on.
/// `before` is called before each run.
///
/// # Errors
/// A contender fails, or `before` does, or the file cannot be read past the cache.
pub fn cold_and_warm(
    contenders: &[Contender],
    turns: usize,
    file: &Path,
    mut before: impl FnMut() -> Result<()>,
) -> Result<Vec<Table>> {
    let disk =
        (format!("the disk alone, {IN_FLIGHT} requests of up to 1 MiB in flight"), Vec::new());
    let cold_ones: Vec<Contender> = contenders.iter().cloned().chain([disk]).collect();
    let (mut cold, mut warm) = (contests("cold", &cold_ones), contests("warm", contenders));
    for _ in 0..turns {
        for (n, (_, command)) in contenders.iter().enumerate() {
            before()?;
            drop_caches()?;
            let measured = run(command)?;
            add(&mut cold, n, measured.figures);
            if n == 0 {
                cold[WALL].add_time(contenders.len(), read_past_cache(file, measured.read)?);
            }
            before()?;
            add(&mut warm, n, run(command)?.figures);
        }
    }
    Ok(cold.iter().chain(&warm[..FROM_DISK]).map(Contest::table).collect())
}

/// Adds the figures of a run of contender number `of`.
fn add(contests: &mut [Contest], of: usize, figures: [f64; 4]) {
    contests.iter_mut().zip(figures).for_each(|(contest, value)| contest.add(of, value));
}

fn contests(cache: &str, contenders: &[Contender]) -> [Contest; 4] {
    let names: Vec<(&str, &str)> =
        contenders.iter().map(|(name, _)| (name.as_str(), "a file")).collect();
    MEASURED.map(|(what, unit, digits)| {
        Contest::new(format!("{cache}: {what}"), Quantity::cost(unit, digits), 0, &names)
    })
}

/// Returns the version that a tool of xfsprogs prints: "xfs_repair 6.1.0".
///
/// # Errors
/// The tool is missing.
pub fn version(tool: &str) -> std::io::Result<String> {
    let out = Command::new(tool).arg("-V").output()?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().replace(" version", ""))
}

fn run(command: &[String]) -> Result<Run> {
    let begun = Instant::now();
    let out = Command::new("/usr/bin/time").args(["-f", "%U %S %M %I"]).args(command).output()?;
    let wall = begun.elapsed().as_secs_f64();
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        return Err(format!("{} fails: {output}", command.join(" ")).into());
    }
    let words: Vec<&str> = output.lines().last().unwrap_or("").split(' ').collect();
    let [user, system, kib, sectors] = words[..] else {
        return Err(format!("/usr/bin/time printed {output}").into());
    };
    let processor = user.parse::<f64>()? + system.parse::<f64>()?;
    let read = sectors.parse::<u64>()? * SECTOR;
    let figures = [wall, processor, kib.parse::<f64>()? / 1024.0, number(read) / MIB];
    Ok(Run { figures, read })
}
