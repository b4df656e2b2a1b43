//! A volume from a tree: `xfskit mkfs --from` compared with mkfs, mount, `cp -a`, sync and umount,
//! and with `mkfs.xfs -p DIR` of xfsprogs 7.2 or later (`MKFS_WITH_TREE` names it).
//!
//! `bench-from TREE DIR SIZE [TURNS] [cold]`, as root, with GNU time. If TREE does not exist, it is
//! created: 100,000 files of 0.1 to 9 KB in 200 directories. Images of SIZE are created in DIR, one
//! at a time, and removed. The measured time of each side includes a sync of the filesystem below
//! the image. The tree is cached, unless `cold` drops all caches before each turn.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use xfskit_bench::kernel::{self, Mount};
use xfskit_bench::turns::{spread, time};

/// One contender.
struct Side {
    name: &'static str,
    make: fn(&Job) -> io::Result<u64>,
    turns: Vec<Duration>,
    /// Peak memory in KiB.
    memory: u64,
}

struct Job {
    tree: PathBuf,
    image: PathBuf,
    size: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "bench-from TREE DIR SIZE [TURNS] [cold]";
    let tree = PathBuf::from(args.next().ok_or(usage)?);
    let dir = PathBuf::from(args.next().ok_or(usage)?);
    let size = args.next().ok_or(usage)?;
    let turns = args.next().map_or(Ok(3), |n| n.parse())?;
    let cold = args.next().is_some_and(|word| word == "cold");
    if !tree.exists() {
        make_tree(&tree)?;
    }
    let job = Job { tree, image: dir.join(format!("from-{}.img", std::process::id())), size };

    let side =
        |name, make: fn(&Job) -> io::Result<u64>| Side { name, make, turns: Vec::new(), memory: 0 };
    let mut sides = vec![side("mkfs, mount, cp -a, umount", with_kernel)];
    if std::env::var_os("MKFS_WITH_TREE").is_some() {
        sides.push(side("mkfs.xfs -p", with_mkfs));
    }
    sides.push(side("xfskit mkfs --from", with_xfskit));
    let files = kernel::run("find", &[&job.tree.to_string_lossy()])?.lines().count();
    for _ in 0..turns {
        for side in &mut sides {
            if cold {
                kernel::drop_caches()?;
            }
            File::create(&job.image)?.set_len(bytes(&job.size)?)?;
            let (took, memory) = time(|| {
                let memory = (side.make)(&job)?;
                rustix::fs::syncfs(File::open(&dir)?)?;
                Ok::<_, io::Error>(memory)
            });
            side.memory = side.memory.max(memory?);
            side.turns.push(took);
            std::fs::remove_file(&job.image)?;
            kernel::run("sync", &[])?;
        }
    }
    println!("{files} files; seconds            median     best    worst     peak KiB");
    let mut medians = Vec::new();
    for side in &mut sides {
        let (median, best, worst) = spread(&mut side.turns);
        println!("  {:<28} {median:>8.3} {best:>8.3} {worst:>8.3} {:>12}", side.name, side.memory);
        medians.push(median);
    }
    let ours = medians.pop().unwrap_or(f64::NAN);
    for (side, median) in sides.iter().zip(medians) {
        println!("  faster than {:<28} {:.1} times", side.name, median / ours);
    }
    Ok(())
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

/// Parses `4G` to bytes.
fn bytes(size: &str) -> io::Result<u64> {
    xfskit::raw::target::size::parse(size).map(|len| len.0).map_err(io::Error::other)
}

/// Runs a command below GNU time, and returns its peak memory in KiB.
fn measured(program: &Path, args: &[&str]) -> io::Result<u64> {
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

fn with_kernel(job: &Job) -> io::Result<u64> {
    kernel::run("mkfs.xfs", &["-q", "-f", &job.image.to_string_lossy()])?;
    let mounted = Mount::new(&job.image, "rw")?;
    let (from, to) = (job.tree.join("."), mounted.path().to_string_lossy());
    let memory = measured(Path::new("cp"), &["-a", &from.to_string_lossy(), &to])?;
    kernel::run("sync", &["-f", &to])?;
    Ok(memory)
}

fn with_mkfs(job: &Job) -> io::Result<u64> {
    let mkfs = std::env::var_os("MKFS_WITH_TREE").unwrap_or_default();
    let (tree, image) = (job.tree.to_string_lossy(), job.image.to_string_lossy());
    measured(Path::new(&mkfs), &["-q", "-f", "-p", &tree, &image])
}

fn with_xfskit(job: &Job) -> io::Result<u64> {
    let xfskit = std::env::current_exe()?.with_file_name("xfskit");
    let (tree, image) = (job.tree.to_string_lossy(), job.image.to_string_lossy());
    measured(&xfskit, &["mkfs", "-q", "-f", "--from", &tree, &image])
}
