//! Runs programs that measure: below a directory, or on a volume in this process.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use xfskit::raw::block::{BlockDevice, MemDevice, OpenMode};
use xfskit::raw::core::OpenOptions;
use xfskit::raw::target::{self, Base, Target};
use xfskit::raw::units::ByteLen;
use xfskit_workload::driver::engine::Engine;
use xfskit_workload::driver::mounted::Mounted;
use xfskit_workload::testbed::{self, Job};

use super::open::target_failure;
use crate::exit::Failure;

/// Bytes of `mem:` without a size; sparse.
const MEMORY: u64 = 1 << 40;

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
    let device = device(name)?;
    let options = OpenOptions {
        cache_bytes: xfskit::VolumeOptions::default_cache_bytes(),
        ..OpenOptions::default()
    };
    let mut engine = Engine::new(device, options, "xfskit", name)
        .map_err(|err| Failure::cannot(format!("{name}: {err}")))?;
    let result = job.run(&mut engine);
    // The changes stay, whether or not the job came to its end.
    let closed = engine.close();
    let result = result.map_err(failed)?;
    closed.map_err(failed)?;
    Ok(result)
}

/// Opens the device. Memory gets a new volume.
fn device(name: &str) -> Result<Arc<dyn BlockDevice>, Failure> {
    let made = |device: Arc<dyn BlockDevice>| {
        testbed::format(&*device, &xfskit::raw::mkfs::Options::default()).map_err(failed)?;
        Ok(device)
    };
    if name == "mem:" {
        return made(Arc::new(MemDevice::new(ByteLen(MEMORY))));
    }
    let target = Target::parse(name).map_err(|e| target_failure(name, &e))?;
    let memory = matches!(target.base, Base::Memory(_));
    let device =
        target::open(&target, OpenMode::ReadWrite).map_err(|e| target_failure(name, &e))?;
    if memory { made(device) } else { Ok(device) }
}

fn failed(err: io::Error) -> Failure {
    Failure::cannot(err.to_string())
}
