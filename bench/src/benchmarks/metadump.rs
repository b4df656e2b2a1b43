//! The metadata of a volume copied to a file: `xfskit metadump` compared with xfs_metadump, cold
//! and warm, time and memory.
//!
//! `xfskit-bench metadump IMAGE DIR`, as root, with GNU time. The image must not be mounted. Both
//! write their files into DIR, with obfuscated names and with names as they are.

use std::path::PathBuf;
use std::process::ExitCode;

use xfskit_bench::frame::{self, Result, section};
use xfskit_bench::processes::{cold_and_warm, version};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Metadata copied to a file";

#[derive(clap::Args)]
struct Args {
    /// Volume, not mounted
    image: PathBuf,
    /// Directory for the copies
    dir: PathBuf,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 5, measure)
}

fn measure(Args { image, dir }: &Args, turns: usize) -> Result<Vec<Section>> {
    let xfskit = std::env::current_exe()?.with_file_name("xfskit");
    let copy = |name: &str| dir.join(format!("{name}-{}.metadump", std::process::id()));
    let (ours, theirs) = (copy("ours"), copy("theirs"));
    let words = |parts: &[&std::path::Path]| -> Vec<String> {
        parts.iter().map(|part| part.to_string_lossy().into_owned()).collect()
    };
    let mut sections = Vec::new();
    for (title, option) in [("Names obfuscated", None), ("Names as they are", Some("-o"))] {
        let with = |mut command: Vec<String>, program: usize| {
            command.splice(program..program, option.map(str::to_owned));
            command
        };
        let mine = words(&[&xfskit, "metadump".as_ref(), "-q".as_ref(), "--force".as_ref(), image, &ours]);
        let other = words(&["xfs_metadump".as_ref(), image, &theirs]);
        let contenders = [
            ("xfskit metadump".to_owned(), with(mine, 2)),
            (version("xfs_metadump")?, with(other, 1)),
        ];
        sections.push(section(title, &[], cold_and_warm(&contenders, turns, image, || Ok(()))?));
    }
    for file in [ours, theirs] {
        let _ = std::fs::remove_file(file);
    }
    Ok(sections)
}
