//! Programs that do the same to a file: their wall clock, processor time and peak memory.
//!
//! Each contender is a process of its own, measured by GNU time. *Cold*: all caches are dropped
//! before the turn. *Warm*: a second run directly after it.

use std::process::Command;

use xfskit_workload::report::Table;

use crate::contest::{Contest, Quantity};
use crate::frame::Result;
use crate::kernel::drop_caches;

/// A contender: its name, and the words of its command. The first one is ours.
pub type Contender = (String, Vec<String>);

/// One run: seconds of wall clock, seconds of processor time, MiB.
type Run = [f64; 3];

/// The figures of a run: name, unit, digits.
const MEASURED: [(&str, &str, u8); 3] =
    [("wall time", "s", 2), ("processor time", "s", 2), ("peak memory", "MiB", 1)];

/// Measures all contenders in turn, cold and then warm. `before` is called before each run.
///
/// # Errors
/// A contender fails, or `before` does.
pub fn cold_and_warm(
    contenders: &[Contender],
    turns: usize,
    mut before: impl FnMut() -> Result<()>,
) -> Result<Vec<Table>> {
    let (mut cold, mut warm) = (contests("cold", contenders), contests("warm", contenders));
    for _ in 0..turns {
        for (n, (_, command)) in contenders.iter().enumerate() {
            for (contests, is_cold) in [(&mut cold, true), (&mut warm, false)] {
                before()?;
                if is_cold {
                    drop_caches()?;
                }
                let run = run(command)?;
                contests.iter_mut().zip(run).for_each(|(contest, value)| contest.add(n, value));
            }
        }
    }
    Ok(cold.iter().chain(&warm).map(Contest::table).collect())
}

fn contests(cache: &str, contenders: &[Contender]) -> [Contest; 3] {
    let names: Vec<(String, &str)> =
        contenders.iter().map(|(name, _)| (name.clone(), "a file")).collect();
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
    let out = Command::new("/usr/bin/time").args(["-f", "%e %U %S %M"]).args(command).output()?;
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        return Err(format!("{} fails: {output}", command.join(" ")).into());
    }
    let numbers = output.lines().last().unwrap_or("").split(' ').map(str::parse);
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>()?;
    let [wall, user, system, memory] = numbers[..] else {
        return Err(format!("/usr/bin/time printed {output}").into());
    };
    Ok([wall, user + system, memory / 1024.0])
}
