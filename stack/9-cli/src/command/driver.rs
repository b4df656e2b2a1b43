//! Runs programs that measure: below a directory, or on a volume in this process.

use std::fs;
use std::io;
use std::path::Path;

use xfskit::VolumeOptions;
use xfskit_workload::driver::mounted::Mounted;
use xfskit_workload::testbed::{Job, TargetError, engine_on};

use super::open::{about, hinted};
use crate::exit::Failure;

/// Runs `job` on the volume `engine`, or else below `dir`, which is made if it is missing.
pub(crate) fn run<J: Job>(
    dir: &Path,
    engine: Option<&str>,
    job: &mut J,
) -> Result<J::Output, Failure> {
    if let Some(name) = engine {
        return on_engine(name, job);
    }
    job.run(&mut directory(dir)?).map_err(failed)
}

/// Returns the driver of a directory, which is made if it is missing. It passes whole paths to the
/// kernel, as the programs that it replaces do.
pub(crate) fn directory(dir: &Path) -> Result<Mounted, Failure> {
    match fs::create_dir(dir) {
        Err(err) if err.kind() != io::ErrorKind::AlreadyExists => Err(err),
        _ => Mounted::new(dir, "mounted", dir.to_string_lossy()).map(|it| it.with_full_paths(dir)),
    }
    .map_err(|err| Failure::cannot(format!("{}: {err}", dir.display())))
}

/// Runs `job` on the volume `name`.
pub(crate) fn on_engine<J: Job>(name: &str, job: &mut J) -> Result<J::Output, Failure> {
    let opened = engine_on(name, VolumeOptions::default_cache_bytes());
    let mut engine = opened.map_err(|err| not_opened(name, &err))?;
    let result = job.run(&mut engine);
    // The changes stay, whether or not the job came to its end.
    let closed = engine.close();
    let result = result.map_err(failed)?;
    closed.map_err(failed)?;
    Ok(result)
}

/// Returns the failure of opening the volume `name`.
fn not_opened(name: &str, error: &TargetError) -> Failure {
    hinted(Failure::cannot(about(name, error)), error.hint())
}

fn failed(err: io::Error) -> Failure {
    Failure::cannot(err.to_string())
}
