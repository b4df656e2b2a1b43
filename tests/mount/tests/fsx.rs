//! A minute of fsx (crate `fsx`): random reads, writes, mappings, holes and copies of one file.
//! `make programs` runs it for longer, beside other programs.

use std::process::Command;
use std::time::{Duration, Instant};

use xfskit_test_mount::pair::{Served, empty, possible};
use xfskit_test_support::image::Scratch;
use xfskit_test_support::transport::Transport;
use xfskit_test_support::{repository, seed, skip};

/// Time in which runs are begun.
const TIME: Duration = Duration::from_mins(1);
/// Operations of one run.
const OPERATIONS: &str = "5000";
/// The weights of all operations are above the defaults, of which some are 0.
const SETTINGS: &str = "
flen = 1000000
[opsize]
max = 131072
[weights]
close_open = 2
invalidate = 2
truncate = 6
fsync = 1
fdatasync = 1
read = 10
write = 10
mapread = 8
mapwrite = 10
punch_hole = 8
copy_file_range = 8
posix_fallocate = 4
sendfile = 3
posix_fadvise = 2
";

#[test]
fn fsx_reads_what_it_wrote() {
    let fsx = repository().join(".cache/programs/bin/fsx");
    if !fsx.is_file() {
        return skip::skip("fsx (tests/programs/setup.sh)");
    }
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-fsx");
    let served: Vec<Served<'_>> = Transport::all()
        .into_iter()
        .map(|transport| {
            Served::by(transport, empty(&scratch, transport.name(), &[]), &scratch, "")
        })
        .collect();
    let settings = scratch.path().join("fsx.toml");
    std::fs::write(&settings, SETTINGS).expect("settings");
    let begun = Instant::now();
    for (seed, served) in (seed(1)..).zip(served.iter().cycle()) {
        let mut run = Command::new(&fsx);
        run.args(["-q", "-N", OPERATIONS, "-S", &seed.to_string(), "-f"]).arg(&settings);
        run.arg("-P").arg(scratch.path()).arg(served.path().join("file"));
        let output = run.output().expect("fsx");
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let ended = output.status.success() || asks_for_nothing(&said);
        assert!(ended, "seed {seed}: {}: {said}", output.status);
        if begun.elapsed() > TIME {
            break;
        }
    }
    for served in served {
        served.end();
    }
}

/// Returns true if fsx ended because it had called posix_fallocate(3) for no bytes, as some seeds
/// do: that is EINVAL on every filesystem, and fsx takes it for a feature that is missing.
fn asks_for_nothing(said: &str) -> bool {
    let mut calls = said.lines().filter(|line| line.contains("POSIX_FALLOCATE"));
    said.starts_with("Test file system does not support posix_fallocate")
        && calls.next_back().is_some_and(|last| last.contains("(    0x0 bytes)"))
}
