//! The stress workload as a program, for a kernel in an emulated machine.
//!
//! `xfskit-stress prepare DIR`, `xfskit-stress run DIR MILLISECONDS`. The caller, which mounted the
//! volume, shuts it down meanwhile.

use std::path::Path;
use std::time::Duration;

use xfskit_test_recovery::stress::{EVERYTHING, NAMES, prepare, run_batches};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["prepare", dir] => prepare(Path::new(dir)),
        ["run", dir, time] => {
            let time = Duration::from_millis(time.parse().expect("a number"));
            let work: Vec<_> = EVERYTHING.iter().chain(NAMES).copied().collect();
            run_batches(Path::new(dir), &work, time, || ());
        }
        _ => panic!("stress prepare DIR | stress run DIR MILLISECONDS"),
    }
}
