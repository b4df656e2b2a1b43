//! A check of a whole volume: our `check` compared with `xfs_repair -n`, cold and warm, time and
//! memory.
//!
//! `xfskit-bench check IMAGE [XFS_REPAIR…]`, as root. Every `XFS_REPAIR` is a contender; the
//! default is the installed one. The image must not be mounted. Each contender is a process of its
//! own; ours is this program again. `/usr/bin/time` reports wall clock, processor time and peak
//! resident memory. *Cold*: all caches are dropped before the turn. *Warm*: a second run directly
//! after it. Both sides must find the volume clean.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use xfskit_bench::contest::{Contest, Quantity};
use xfskit_bench::frame::{self, Result, section};
use xfskit_bench::kernel::drop_caches;
use xfskit_block::{FileDevice, OpenMode};
use xfskit_check::{Options, check};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Check of a whole volume";

/// One run of one contender: seconds of wall clock, seconds of processor time, MiB.
type Run = [f64; 3];

/// The hidden first argument that makes this benchmark our contender.
const OURS: &str = "--check";

#[derive(clap::Args)]
struct Args {
    /// Volume, not mounted
    image: PathBuf,
    /// Contenders
    #[arg(value_name = "XFS_REPAIR", default_value = "xfs_repair")]
    repairs: Vec<String>,
}

pub(super) fn main() -> ExitCode {
    let args = frame::arguments();
    if let [_, first, image] = &args[..]
        && first == OURS
    {
        return run_check(Path::new(image));
    }
    frame::run(TITLE, 5, measure)
}

fn measure(Args { image, repairs }: &Args, turns: usize) -> Result<Vec<Section>> {
    let image = image.to_string_lossy();
    let own = std::env::current_exe()?.to_string_lossy().into_owned();
    let mut names = vec!["xfskit check".to_owned()];
    let mut commands = vec![vec![own, "check".to_owned(), OURS.to_owned(), image.to_string()]];
    for repair in repairs {
        names.push(format!("{} -n", version(repair)?));
        commands.push([repair, "-n", "-f", &image].map(str::to_owned).to_vec());
    }
    let names: Vec<(String, &str)> = names.into_iter().map(|name| (name, "a file")).collect();
    let contests = |cache: &str| {
        [("wall time", "s", 2), ("processor time", "s", 2), ("peak memory", "MiB", 1)].map(
            |(what, unit, digits)| {
                Contest::new(format!("{cache}: {what}"), Quantity::cost(unit, digits), 0, &names)
            },
        )
    };
    let (mut cold, mut warm) = (contests("cold"), contests("warm"));
    for _ in 0..turns {
        for (n, command) in commands.iter().enumerate() {
            drop_caches()?;
            for contests in [&mut cold, &mut warm] {
                let run = run(command)?;
                contests.iter_mut().zip(run).for_each(|(contest, value)| contest.add(n, value));
            }
        }
    }
    let tables = cold.iter().chain(&warm).map(Contest::table).collect();
    Ok(vec![section("Check", &[], tables)])
}

/// Runs our contender: fails unless the volume is clean.
fn run_check(image: &Path) -> ExitCode {
    let clean = || -> Result<bool> {
        let dev = FileDevice::open(image, OpenMode::ReadOnly)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let options = Options { threads, ..Options::default() };
        Ok(check(&dev, None, &options, &mut |finding| eprintln!("{finding}"))?.clean())
    };
    match clean() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the version that the tool prints: "xfs_repair version 6.1.0".
fn version(repair: &str) -> std::io::Result<String> {
    let out = Command::new(repair).arg("-V").output()?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().replace(" version", ""))
}

fn run(command: &[String]) -> Result<Run> {
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
    Ok([wall, user + system, memory / 1024.0])
}
