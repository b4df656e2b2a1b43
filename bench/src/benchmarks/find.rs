//! All names of a volume: our sweep compared with mount and `find`, cold.
//!
//! `xfskit-bench find IMAGE`, as root. The image must not be mounted. Both sides search twice, by
//! name alone (`find DIR`) and by file size (`find DIR -size +1k`), and must find the same number.
//! All caches are dropped before every turn. The kernel reads through a loop device with direct
//! I/O. The measured time includes mounting and unmounting, and our opening of the volume: it is
//! the time to look into an image.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};

use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::vfs::{Child, Entry, Error, Visitor};
use xfskit_bench::contest::{Contest, SECONDS};
use xfskit_bench::frame::{self, Result, agreed, section, time};
use xfskit_bench::kernel::{self, Mount};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Search of a whole volume";

/// Limit of the search in bytes: larger files match.
const SIZE: u64 = 1024;

#[derive(clap::Args)]
struct Args {
    /// Volume, not mounted
    image: PathBuf,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 5, measure)
}

fn measure(Args { image }: &Args, turns: usize) -> Result<Vec<Section>> {
    let names = [("mount and find", "loop device"), ("xfskit", "a file")];
    let mut tables = Vec::new();
    for (what, sizes) in [("names", false), ("sizes", true)] {
        let (mut contest, mut counts) = (Contest::new(what, SECONDS, 1, &names), Vec::new());
        for _ in 0..turns {
            for (n, find) in [kernel_find, our_find].into_iter().enumerate() {
                kernel::drop_caches()?;
                let (took, count) = time(|| find(image, sizes))?;
                contest.add_time(n, took);
                counts.push(count);
            }
        }
        let mut table = contest.table();
        table.note(format!("{} found.", agreed("found different things", &counts)?));
        tables.push(table);
    }
    Ok(vec![section("Search, cold", &[], tables)])
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

    fn fault(&self, (): &(), _entry: Option<&Entry>, error: Error) {
        eprintln!("{error}");
    }
}
