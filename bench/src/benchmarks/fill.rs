//! Makes a volume for the other benchmarks: `xfskit-bench fill IMAGE DIRS FILES BYTES`, as root.
//!
//! It has DIRS directories of FILES files each. File lengths are uniformly distributed from 0 to
//! twice BYTES, by a fixed rule. `xfskit-bench fill inodes.img 1000 800 0` makes the volume of
//! 800,000 empty files, and `xfskit-bench fill files.img 1000 100 4096` that of 100,000 small ones.
//! The kernel writes the files, on a volume of our mkfs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use xfskit::raw::block::FileDevice;
use xfskit::raw::mkfs;
use xfskit::raw::units::ByteLen;
use xfskit_bench::frame::{self, Result};
use xfskit_bench::kernel::{Mount, run};

pub(super) const TITLE: &str = "Make a volume for the other benchmarks";

/// Make a volume for the other benchmarks
#[derive(Parser)]
struct Args {
    /// File to make
    image: PathBuf,
    /// Number of directories
    dirs: usize,
    /// Number of files in each
    files: usize,
    /// Average bytes of a file
    bytes: usize,
    /// Check the arguments, and make nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn main() -> ExitCode {
    let args = Args::parse_from(frame::arguments());
    match if args.dry_run { Ok(()) } else { make_and_fill(args) } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn make_and_fill(Args { image, dirs, files, bytes, .. }: Args) -> Result<()> {
    // Twice the data in whole blocks, and space for inodes, which may take a quarter of a volume:
    // the file is sparse.
    let need = (dirs * files * (2 * bytes.next_multiple_of(4096) + 8192)) as u64;
    make(&image, ByteLen(need.max(1 << 30)))?;
    {
        let mounted = Mount::new(&image, "rw")?;
        fill(mounted.path(), dirs, files, bytes)?;
    }
    println!("{}: {} files in {dirs} directories", image.display(), dirs * files);
    Ok(())
}

fn make(image: &Path, size: ByteLen) -> Result<()> {
    let device = FileDevice::create(image, size)?;
    let facts = mkfs::DeviceFacts::of(&device, None);
    let uuid = xfskit::raw::units::Uuid::from_u128(0x11111111_2222_3333_4444_555555555555);
    let stamp = mkfs::Stamp { uuid, seconds: 0, nanoseconds: 0, generation: 0 };
    let plan = mkfs::plan(&mkfs::Options::default(), &facts, stamp)?;
    mkfs::make(&device, None, &plan)?;
    Ok(())
}

fn fill(top: &Path, dirs: usize, files: usize, bytes: usize) -> io::Result<()> {
    let content: Vec<u8> = (0..2 * bytes).map(|i| (i % 251).to_le_bytes()[0]).collect();
    for d in 0..dirs {
        let dir = top.join(format!("dir{d:04}"));
        fs::create_dir(&dir)?;
        for f in 0..files {
            let len = (d * 7919 + f * 104_729) % (2 * bytes + 1);
            fs::write(dir.join(format!("file{f:04}")), &content[..len])?;
        }
    }
    run("sync", &[]).map(|_| ())
}
