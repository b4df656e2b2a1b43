//! A whole tree out of a volume: our `get` compared with mount and `cp -a`, cold.
//!
//! `bench-get IMAGE DIR [TURNS]`, as root. The image must not be mounted. Copies are made in DIR,
//! one at a time, and removed. All caches are dropped before every turn. The kernel reads through a
//! loop device with direct I/O. The measured time includes mounting and unmounting, our opening of
//! the volume, and a final sync of the receiving filesystem.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::copy::{self, Event, GetOptions};
use xfskit_bench::kernel::{self, Mount};
use xfskit_bench::turns::{spread, time};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "bench-get IMAGE DIR [TURNS]";
    let image = PathBuf::from(args.next().ok_or(usage)?);
    let dir = PathBuf::from(args.next().ok_or(usage)?);
    let turns = args.next().map_or(Ok(3), |n| n.parse())?;

    let (mut kernel, mut ours): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    let mut files = Vec::new();
    for _ in 0..turns {
        for (row, side) in [(&mut kernel, true), (&mut ours, false)] {
            let dest = dir.join(format!("xfskit-bench-{}", std::process::id()));
            kernel::drop_caches()?;
            let (took, copied) = time(|| {
                if side { kernel_get(&image, &dest) } else { our_get(&image, &dest) }?;
                rustix::fs::syncfs(File::open(&dest)?)?;
                Ok::<_, io::Error>(())
            });
            copied?;
            row.push(took);
            files.push(kernel::run("find", &[&dest.to_string_lossy()])?.lines().count());
            std::fs::remove_dir_all(&dest)?;
        }
    }
    files.dedup();
    let [count] = files[..] else {
        return Err(format!("the two sides copied different things: {files:?}").into());
    };
    println!("{count} files copied; seconds   median     best    worst");
    let (theirs, best, worst) = spread(&mut kernel);
    println!("  mount and cp -a          {theirs:>8.3} {best:>8.3} {worst:>8.3}");
    let (own, best, worst) = spread(&mut ours);
    println!("  xfskit get               {own:>8.3} {best:>8.3} {worst:>8.3}");
    println!("  faster: {:.1} times", theirs / own);
    Ok(())
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
