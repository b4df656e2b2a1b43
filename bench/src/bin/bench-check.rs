//! A check of a whole volume: our `check` compared with `xfs_repair -n`, cold and warm, time and
//! memory.
//!
//! `bench-check IMAGE [TURNS [XFS_REPAIR…]]`, as root. Every `XFS_REPAIR` is a contender; the
//! default is the installed one. The image must not be mounted. Each contender is a process of its
//! own; ours is this program again. `/usr/bin/time` reports wall clock, processor time and peak
//! resident memory. *Cold*: all caches are dropped before the turn. *Warm*: a second run directly
//! after it. Both sides must find the volume clean.

use std::path::Path;
use std::process::Command;

use xfskit_bench::kernel::drop_caches;
use xfskit_block::{FileDevice, OpenMode};
use xfskit_check::{Options, check};

/// One run of one contender: seconds of wall clock, seconds of processor time, kilobytes.
type Run = [f64; 3];

/// The hidden first argument that makes this program our contender.
const OURS: &str = "--check";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, image] = &args[..]
        && first == OURS
    {
        return run_check(Path::new(image));
    }
    let image = args.first().ok_or("bench-check IMAGE [TURNS [XFS_REPAIR...]]")?;
    let turns: usize = args.get(1).map_or(Ok(5), |n| n.parse())?;
    let mut contenders = vec![("xfskit check".to_owned(), ours(image)?)];
    let repairs = args.get(2..).filter(|rest| !rest.is_empty());
    for repair in repairs.unwrap_or(&["xfs_repair".to_owned()]) {
        let command = [repair, "-n", "-f", image].map(str::to_owned);
        contenders.push((format!("{} -n", version(repair)?), command.to_vec()));
    }
    let mut cold = vec![Vec::new(); contenders.len()];
    let mut warm = cold.clone();
    for _ in 0..turns {
        for (n, (_, command)) in contenders.iter().enumerate() {
            drop_caches()?;
            cold[n].push(run(command)?);
            warm[n].push(run(command)?);
        }
    }
    let names: Vec<&str> = contenders.iter().map(|(name, _)| name.as_str()).collect();
    report("cold", &names, &mut cold);
    report("warm", &names, &mut warm);
    Ok(())
}

/// Runs our contender: exits with 1 unless the volume is clean.
fn run_check(image: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let dev = FileDevice::open(image, OpenMode::ReadOnly)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { threads, ..Options::default() };
    let report = check(&dev, None, &options, &mut |finding| eprintln!("{finding}"))?;
    if report.clean() { Ok(()) } else { Err("not clean".into()) }
}

fn ours(image: &str) -> std::io::Result<Vec<String>> {
    let own = std::env::current_exe()?.to_string_lossy().into_owned();
    Ok(vec![own, OURS.to_owned(), image.to_owned()])
}

/// Returns the version that the tool prints: "xfs_repair version 6.1.0".
fn version(repair: &str) -> std::io::Result<String> {
    let out = Command::new(repair).arg("-V").output()?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().replace(" version", ""))
}

fn run(command: &[String]) -> Result<Run, Box<dyn std::error::Error>> {
    let out = Command::new("/usr/bin/time").args(["-f", "%e %U %S %M"]).args(command).output()?;
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        return Err(format!("{} finds corruption: {output}", command[0]).into());
    }
    let numbers = output.lines().last().unwrap_or("").split(' ').map(str::parse);
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>()?;
    let [wall, user, system, memory] = numbers[..] else {
        return Err(format!("/usr/bin/time printed {output}").into());
    };
    Ok([wall, user + system, memory])
}

/// Prints the medians of each column, and the other contenders as multiples of the first.
fn report(title: &str, names: &[&str], runs: &mut [Vec<Run>]) {
    println!("{title:<18} {:>8} {:>8} {:>8} {:>9}  against ours", "wall s", "best", "cpu s", "MB");
    let mut ours = [1.0; 3];
    for (n, (name, runs)) in names.iter().zip(runs).enumerate() {
        let column = |of: usize| {
            let mut column: Vec<f64> = runs.iter().map(|run| run[of]).collect();
            column.sort_by(f64::total_cmp);
            (column[column.len() / 2], column[0])
        };
        let ((wall, best), (cpu, _), (memory, _)) = (column(0), column(1), column(2));
        print!("{name:<18} {wall:>8.2} {best:>8.2} {cpu:>8.2} {:>9.1}", memory / 1024.0);
        if n == 0 {
            ours = [wall, cpu, memory];
            println!();
        } else {
            let [w, c, m] = [wall / ours[0], cpu / ours[1], memory / ours[2]];
            println!("  time x{w:.1}, cpu x{c:.1}, memory x{m:.1}");
        }
    }
    println!();
}
