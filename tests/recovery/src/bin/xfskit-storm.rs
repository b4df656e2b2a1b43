//! The work of a storm, for a kernel that this program is carried to.
//!
//! `xfskit-storm prepare DIR`, `xfskit-storm blow DIR MILLISECONDS`; whoever mounted the volume stops it meanwhile.

use std::path::Path;
use std::time::Duration;

use xfskit_test_recovery::storm::{EVERYTHING, NAMES, blow, prepare};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["prepare", dir] => prepare(Path::new(dir)),
        ["blow", dir, time] => {
            let time = Duration::from_millis(time.parse().expect("a number"));
            let work: Vec<_> = EVERYTHING.iter().chain(NAMES).copied().collect();
            blow(Path::new(dir), &work, time, || ());
        }
        _ => panic!("storm prepare DIR | storm blow DIR MILLISECONDS"),
    }
}
