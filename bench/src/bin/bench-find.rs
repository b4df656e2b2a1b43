//! All names of a volume: our sweep compared with mount and `find`, cold.
//!
//! `bench-find IMAGE [TURNS]`, as root. The image must not be mounted. Both sides search twice, by
//! name alone (`find DIR`) and by file size (`find DIR -size +1k`), and must find the same number.
//! All caches are dropped before every turn. The kernel reads through a loop device with direct
//! I/O. The measured time includes mounting and unmounting, and our opening of the volume: it is
//! the time to look into an image.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::vfs::{Child, Error, Visitor};
use xfskit_bench::kernel::{self, Mount};
use xfskit_bench::turns::{spread, time};

/// Limit of the search in bytes: larger files match.
const SIZE: u64 = 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let image = PathBuf::from(args.next().ok_or("bench-find IMAGE [TURNS]")?);
    let turns = args.next().map_or(Ok(5), |n| n.parse())?;

    for (what, sizes) in [("names", false), ("sizes", true)] {
        let (mut kernel, mut ours): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
        let mut counts = Vec::new();
        for _ in 0..turns {
            for (row, side) in [(&mut kernel, true), (&mut ours, false)] {
                kernel::drop_caches()?;
                let (took, count) =
                    time(
                        || if side { kernel_find(&image, sizes) } else { our_find(&image, sizes) },
                    );
                row.push(took);
                counts.push(count?);
            }
        }
        counts.dedup();
        let [count] = counts[..] else {
            return Err(format!("the two sides found different things: {counts:?}").into());
        };
        println!("{what}: {count} found; seconds   median     best    worst");
        let (theirs, best, worst) = spread(&mut kernel);
        println!("  mount and find           {theirs:>8.3} {best:>8.3} {worst:>8.3}");
        let (own, best, worst) = spread(&mut ours);
        println!("  xfskit                   {own:>8.3} {best:>8.3} {worst:>8.3}");
        println!("  faster: {:.1} times", theirs / own);
    }
    Ok(())
}

fn kernel_find(image: &Path, sizes: bool) -> io::Result<u64> {
    let mounted = Mount::new(image, "ro")?;
    let mut find = Command::new("find");
    find.arg(mounted.path());
    if sizes {
        find.args(["-size", &format!("+{SIZE}c")]);
    }
    let out = find.output()?;
    Ok(out.stdout.iter().map(|&b| u64::from(b == b'\n')).sum())
}

fn our_find(image: &Path, sizes: bool) -> io::Result<u64> {
    let volume = Volume::open(image).map_err(io::Error::other)?;
    let fs = volume.fs();
    let root = fs.root().map_err(io::Error::other)?;
    let first = !sizes || fs.stat(&root).size > SIZE;
    let count = Count { sizes, found: AtomicU64::new(first.into()) };
    fs.sweep((b"/", root), (), 0, &count);
    Ok(count.found.into_inner())
}

/// Counts the matching names.
struct Count {
    sizes: bool,
    found: AtomicU64,
}

impl Visitor for Count {
    type Dir = ();

    fn wants_inodes(&self) -> bool {
        self.sizes
    }

    fn children(&self, (): &(), children: &[Child]) -> Vec<(usize, ())> {
        let large = |child: &&Child| {
            let size = child.inode.as_ref().map(|inode| inode.core().size().0);
            !self.sizes || size.is_some_and(|size| size > SIZE)
        };
        self.found.fetch_add(children.iter().filter(large).count() as u64, Ordering::Relaxed);
        let is_dir = |child: &Child| child.inode.as_ref().is_some_and(|i| i.core().is_dir());
        let dirs = children.iter().enumerate().filter(|(_, child)| is_dir(child));
        dirs.map(|(index, _)| (index, ())).collect()
    }

    fn fault(&self, (): &(), _name: Option<&[u8]>, error: Error) {
        eprintln!("{error}");
    }
}
