//! fsx: random reads, writes, mappings, truncations, copies and holes of one file, compared with
//! what was written.

use std::time::{Duration, Instant};

use crate::command::Running;
use crate::stage::{Ran, Stage, installed};
use crate::volume::Volume;

/// Operations of one run.
const OPERATIONS: u64 = 20_000;
/// Time for one run.
const BOUND: Duration = Duration::from_mins(15);

/// The weights of operations, all above the defaults (0 for some).
const WEIGHTS: &str = "
[weights]
close_open = 2
invalidate = 2
truncate = 6
fsync = 1
fdatasync = 1
read = 10
write = 10
mapread = 8
mapwrite = 10
punch_hole = 8
copy_file_range = 8
posix_fallocate = 4
sendfile = 3
posix_fadvise = 2
";

/// Settings of the files that are used at the same time.
const SETTINGS: [&str; 3] = [
    // Operations of any size and at any offset, in a file of some megabytes.
    "flen = 4194304\n[opsize]\nmin = 1\nmax = 262144\n",
    // Whole blocks, so that copies share extents and holes give blocks back. The program itself
    // does not allocate them so: it would ask for no bytes at times.
    "flen = 16777216\n[opsize]\nmax = 1048576\nalign = 4096\n",
    // A small file, where every operation meets others; mappings are not synced.
    "flen = 200000\nnomsyncafterwrite = true\n[opsize]\nmin = 1\nmax = 65536\n",
];

/// Mount options, in turns.
const OPTIONS: [&str; 3] = ["", "no_open", "noatime"];

/// Runs it with all settings at once, again and again.
pub(super) fn run(stage: &Stage) -> Ran {
    installed("fsx")?;
    let mut volume = stage.volume(4)?;
    // The file system's time of a hole is not the kernel's.
    volume.ignore_times();
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < stage.seconds() {
        if rounds > 0 {
            volume.remount(OPTIONS[usize::try_from(rounds).unwrap_or(0) % OPTIONS.len()])?;
        }
        round(stage, &mut volume, stage.seed * 1000 + rounds)?;
        rounds += 1;
    }
    volume.end()?;
    let operations = rounds * OPERATIONS * SETTINGS.len() as u64;
    Ok(format!("{operations} operations in {} s", begun.elapsed().as_secs()))
}

/// Runs it on one file for each of the settings.
fn round(stage: &Stage, volume: &mut Volume<'_>, seed: u64) -> Result<(), crate::stage::Stop> {
    let mut running = Vec::new();
    for (number, settings) in SETTINGS.iter().enumerate() {
        let path = stage.file(&format!("fsx-{number}.toml"));
        let mut weights = WEIGHTS.to_owned();
        if settings.contains("align") {
            weights = weights.replace("posix_fallocate = 4", "posix_fallocate = 0");
        }
        std::fs::write(&path, format!("{settings}{weights}"))?;
        let mut fsx = installed("fsx")?;
        fsx.args(["-q", "-N", &OPERATIONS.to_string(), "-S", &seed.to_string(), "-f"]);
        fsx.arg(path).arg("-P").arg(stage.scratch.path());
        running.push(Running::start(fsx.arg(volume.path().join(format!("file-{number}"))))?);
    }
    for one in running {
        volume.wait(one, BOUND)?.success()?;
    }
    Ok(())
}
