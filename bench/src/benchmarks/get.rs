//! A whole tree out of a volume: our `get` compared with mount and `cp -a`, cold.
//!
//! `xfskit-bench get IMAGE DIR`, as root. The image must not be mounted. Copies are made in DIR,
//! one at a time, and removed. All caches are dropped before every turn. The kernel reads through a
//! loop device with direct I/O. The measured time includes mounting and unmounting, our opening of
//! the volume, and a final sync of the receiving filesystem.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::copy::{self, Event, GetOptions};
use xfskit_bench::contest::{Contest, SECONDS};
use xfskit_bench::frame::{self, Result, agreed, section, time};
use xfskit_bench::kernel::{self, Mount};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "A tree out of a volume";

#[derive(clap::Args)]
struct Args {
    /// Volume, not mounted
    image: PathBuf,
    /// Directory for the copies
    dir: PathBuf,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 3, measure)
}

fn measure(Args { image, dir }: &Args, turns: usize) -> Result<Vec<Section>> {
    let names = [("mount and cp -a", "loop device"), ("xfskit get", "a file")];
    let (mut copies, mut counts) = (Contest::new("copies", SECONDS, 1, &names), Vec::new());
    let dest = dir.join(format!("xfskit-bench-{}", std::process::id()));
    for _ in 0..turns {
        for (n, get) in [kernel_get, our_get].into_iter().enumerate() {
            kernel::drop_caches()?;
            let (took, ()) = time(|| {
                get(image, &dest)?;
                Ok::<_, io::Error>(rustix::fs::syncfs(File::open(&dest)?)?)
            })?;
            copies.add_time(n, took);
            counts.push(kernel::run("find", &[&dest.to_string_lossy()])?.lines().count());
            std::fs::remove_dir_all(&dest)?;
        }
    }
    let text = format!("{} files copied.", agreed("copied different things", &counts)?);
    Ok(vec![section("A tree out of a volume, cold", &[&text], vec![copies.table()])])
}

fn kernel_get(image: &Path, dest: &Path) -> io::Result<()> {
    let mounted = Mount::new(image, "ro")?;
    let from = mounted.path().to_string_lossy();
    kernel::run("cp", &["-a", &from, &dest.to_string_lossy()]).map(drop)
}

fn our_get(image: &Path, dest: &Path) -> io::Result<()> {
    let volume = Volume::open(image).map_err(io::Error::other)?;
    let root = volume.fs().root().map_err(io::Error::other)?;
    let complain = |event: Event<'_>| {
        if !matches!(event, Event::Done { .. }) {
            eprintln!("{event:?}");
        }
    };
    copy::get(volume.fs(), b"/", root, dest, GetOptions::default(), &complain)
        .map(drop)
        .map_err(io::Error::other)
}
