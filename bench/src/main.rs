//! `xfskit-bench NAME …`: one program for all benchmarks, since each measures with the same stack
//! below it.

mod benchmarks;

use std::fmt::Write as _;
use std::process::ExitCode;

use benchmarks::BENCHMARKS;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if let Some(benchmark) = BENCHMARKS.iter().find(|benchmark| benchmark.name == name) {
        return (benchmark.main)();
    }
    let known = matches!(&*name, "--help" | "-h" | "help");
    let mut usage = "usage: xfskit-bench NAME [ARGUMENTS]\n\n".to_owned();
    for benchmark in BENCHMARKS {
        let _ = writeln!(usage, "  {:<10} {}", benchmark.name, benchmark.title);
    }
    usage.push_str("\n`xfskit-bench NAME --help` lists the arguments of one.\n");
    if known {
        print!("{usage}");
        return ExitCode::SUCCESS;
    }
    if !name.is_empty() {
        eprintln!("{name}: no such benchmark");
    }
    eprint!("{usage}");
    ExitCode::from(2)
}
