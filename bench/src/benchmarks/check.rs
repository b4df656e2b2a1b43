//! A check of a whole volume: our `check` compared with `xfs_repair -n`, cold and warm, time and
//! memory.
//!
//! `xfskit-bench check IMAGE [XFS_REPAIR…]`, as root. Every `XFS_REPAIR` is a contender; the
//! default is the installed one. The image must not be mounted. Each contender is a process of its
//! own; ours is this program again. `/usr/bin/time` reports wall clock, processor time and peak
//! resident memory. *Cold*: all caches are dropped before the turn. *Warm*: a second run directly
//! after it. Both sides must find the volume clean.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use xfskit_bench::frame::{self, Result, section};
use xfskit_bench::processes::{cold_and_warm, version};
use xfskit_block::{FileDevice, OpenMode};
use xfskit_check::{Options, check};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Check of a whole volume";

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
    let ours = vec![own, "check".to_owned(), OURS.to_owned(), image.to_string()];
    let mut contenders = vec![("xfskit check".to_owned(), ours)];
    for repair in repairs {
        let command = [repair, "-n", "-f", &image].map(str::to_owned).to_vec();
        contenders.push((format!("{} -n", version(repair)?), command));
    }
    let tables = cold_and_warm(&contenders, turns, Path::new(&*image), || Ok(()))?;
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
