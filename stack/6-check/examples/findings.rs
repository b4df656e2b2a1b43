//! Checks the image named on the command line and prints every finding.
//!
//! `cargo run --release -p xfskit-check --example findings -- IMAGE`

use xfskit_block::{FileDevice, OpenMode};
use xfskit_check::{Options, check};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: findings IMAGE")?;
    let dev = FileDevice::open(path, OpenMode::ReadOnly)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { threads, ..Options::default() };
    let report = check(&dev, None, &options, &mut |finding| println!("{finding}"))?;
    println!("{report:#?}");
    std::process::exit(i32::from(!report.clean()));
}
