//! A volume from a tree: `xfskit mkfs --from` compared with mkfs, mount, `cp -a`, sync and umount,
//! and with `mkfs.xfs -p DIR` of xfsprogs 7.2 or later (`MKFS_WITH_TREE` names it).
//!
//! `xfskit-bench from TREE DIR SIZE [cold]`, as root, with GNU time. If TREE does not exist, it is
//! created: 100,000 files of 0.1 to 9 KB in 200 directories. Images of SIZE are created in DIR, one
//! at a time, and removed. The measured time of each side includes a sync of the filesystem below
//! the image. The tree is cached, unless `cold` drops all caches before each turn.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::ValueEnum;
use xfskit_bench::contest::{Contest, Quantity, SECONDS};
use xfskit_bench::frame::{self, Result, section, time};
use xfskit_bench::kernel::{self, Mount};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "A volume from a tree";

#[derive(clap::Args)]
struct Args {
    /// Tree to copy; made if missing
    tree: PathBuf,
    /// Directory for the images
    dir: PathBuf,
    /// Size of an image, such as 4G
    size: String,
    /// State of the caches before each turn
    #[arg(default_value = "cached")]
    cache: Cache,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Cache {
    Cached,
    Cold,
}

/// A contender: its name, and its function that makes the volume and returns its peak memory in
/// KiB.
type Contender = (&'static str, fn(&Job) -> io::Result<u32>);

struct Job {
    tree: PathBuf,
    image: PathBuf,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 3, measure)
}

fn measure(Args { tree, dir, size, cache }: &Args, turns: usize) -> Result<Vec<Section>> {
    if !tree.exists() {
        make_tree(tree)?;
    }
    let size = xfskit::raw::target::size::parse(size)?;
    let image = dir.join(format!("from-{}.img", std::process::id()));
    let job = Job { tree: tree.clone(), image };
    let mut contenders: Vec<Contender> = vec![("mkfs, mount, cp -a, umount", with_kernel)];
    if std::env::var_os("MKFS_WITH_TREE").is_some() {
        contenders.push(("mkfs.xfs -p", with_mkfs));
    }
    contenders.push(("xfskit mkfs --from", with_xfskit));
    let (ours, names) =
        (contenders.len() - 1, contenders.iter().map(|(name, _)| (*name, "a file")));
    let names: Vec<(&str, &str)> = names.collect();
    let mut times = Contest::new("time", SECONDS, ours, &names);
    let mut memory = Contest::new("peak memory", Quantity::cost("MiB", 0), ours, &names);
    let files = kernel::run("find", &[&job.tree.to_string_lossy()])?.lines().count();
    for _ in 0..turns {
        for (n, (_, make)) in contenders.iter().enumerate() {
            if *cache == Cache::Cold {
                kernel::drop_caches()?;
            }
            File::create(&job.image)?.set_len(size.0)?;
            let (took, peak) = time(|| {
                let peak = make(&job)?;
                rustix::fs::syncfs(File::open(dir)?)?;
                Ok::<_, io::Error>(peak)
            })?;
            times.add_time(n, took);
            memory.add(n, f64::from(peak) / 1024.0);
            std::fs::remove_file(&job.image)?;
            kernel::run("sync", &[])?;
        }
    }
    let text = format!("{files} names.");
    Ok(vec![section("A volume from a tree", &[&text], vec![times.table(), memory.table()])])
}

/// Directories of the generated tree, and files in each.
const DIRS: usize = 200;
const FILES: usize = 500;
/// Sizes of the files in bytes.
const SIZES: Range<usize> = 100..9000;

fn make_tree(tree: &Path) -> io::Result<()> {
    let content: Vec<u8> = (0..SIZES.end).map(|n| (n * n / 7).to_le_bytes()[0]).collect();
    for dir in 0..DIRS {
        let path = tree.join(format!("dir{dir:03}"));
        std::fs::create_dir_all(&path)?;
        for file in 0..FILES {
            let spread = (dir * FILES + file).wrapping_mul(0x9e37_79b9) >> 8;
            let size = SIZES.start + spread % SIZES.len();
            std::fs::write(path.join(format!("file{file:04}.dat")), &content[..size])?;
        }
    }
    kernel::run("sync", &[]).map(|_| ())
}

/// Runs a command below GNU time, and returns its peak memory in KiB.
fn measured(program: &Path, args: &[&str]) -> io::Result<u32> {
    let report = std::env::temp_dir().join(format!("xfskit-bench-time-{}", std::process::id()));
    let out = Command::new("time")
        .args(["-f", "%M", "-o"])
        .arg(&report)
        .arg(program)
        .args(args)
        .output()?;
    if !out.status.success() {
        let output = String::from_utf8_lossy(&out.stderr).into_owned();
        return Err(io::Error::other(format!("{}: {output}", program.display())));
    }
    let text = std::fs::read_to_string(&report)?;
    std::fs::remove_file(&report)?;
    text.trim().parse().map_err(io::Error::other)
}

fn with_kernel(job: &Job) -> io::Result<u32> {
    kernel::run("mkfs.xfs", &["-q", "-f", &job.image.to_string_lossy()])?;
    let mounted = Mount::new(&job.image, "rw")?;
    let (from, to) = (job.tree.join("."), mounted.path().to_string_lossy());
    let memory = measured(Path::new("cp"), &["-a", &from.to_string_lossy(), &to])?;
    kernel::run("sync", &["-f", &to])?;
    Ok(memory)
}

fn with_mkfs(job: &Job) -> io::Result<u32> {
    let mkfs = std::env::var_os("MKFS_WITH_TREE").unwrap_or_default();
    let (tree, image) = (job.tree.to_string_lossy(), job.image.to_string_lossy());
    measured(Path::new(&mkfs), &["-q", "-f", "-p", &tree, &image])
}

fn with_xfskit(job: &Job) -> io::Result<u32> {
    let xfskit = std::env::current_exe()?.with_file_name("xfskit");
    let (tree, image) = (job.tree.to_string_lossy(), job.image.to_string_lossy());
    measured(&xfskit, &["mkfs", "-q", "-f", "--from", &tree, &image])
}
