//! `make programs`: other people's programs in a mount.
//!
//! `xfskit-programs [--long] [--list] [NAME[=AMOUNT]…]`

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use xfskit_test_programs::command::Log;
use xfskit_test_programs::programs::{self, ALL, Program};
use xfskit_test_programs::served::xfskit;
use xfskit_test_programs::stage::{Ran, Stage, Stop};
use xfskit_test_support::{Need, Scratch, needs};

const USAGE: &str = "\
Usage: xfskit-programs [--long] [--list] [NAME[=AMOUNT]…]

Runs programs in a volume that `xfskit mount` serves, and verifies the volume after each. Needs
root and /dev/fuse. Prints a line for each program, and exits 1 if one of them failed.

  --long    Amounts of `make torture`
  --list    Print the programs and the amounts of their work

Environment: XFSKIT=PATH is the command (default: beside this program); XFSKIT_SEED=N chooses other
random numbers and the makers of volumes; XFSKIT_SCRATCH=DIR has space for images; XFSKIT_KEEP=1
keeps them.";

/// What the command line asks for.
struct Arguments {
    is_long: bool,
    /// Names with amounts; all programs if there are none.
    chosen: Vec<(String, Option<u64>)>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [walk, options, dir] = &args[..]
        && walk == "walk"
    {
        programs::hostile::walk(options, Path::new(dir));
        return ExitCode::SUCCESS;
    }
    if args.iter().any(|arg| arg == "--list") {
        for Program { name, unit, short, long, .. } in ALL {
            println!("{name:<12} {short:>6} {long:>6}  {unit}");
        }
        return ExitCode::SUCCESS;
    }
    match parse(&args) {
        Ok(arguments) if possible() => run_all(&arguments),
        Ok(_) => ExitCode::from(2),
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(args: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments { is_long: false, chosen: Vec::new() };
    for arg in args {
        if arg == "--long" {
            arguments.is_long = true;
            continue;
        }
        let (name, amount) = match arg.split_once('=') {
            Some((name, amount)) => {
                let amount = amount.parse().map_err(|_| format!("{arg}: not a number"))?;
                (name, Some(amount))
            }
            None => (arg.as_str(), None),
        };
        if !ALL.iter().any(|program| program.name == name) {
            return Err(format!("{name}: no such program"));
        }
        arguments.chosen.push((name.to_owned(), amount));
    }
    Ok(arguments)
}

/// Returns whether volumes can be mounted here.
fn possible() -> bool {
    let command = xfskit();
    let missing = if !command.is_file() {
        Some(format!("{}: build it with `cargo build --release`", command.display()))
    } else if !Path::new("/dev/fuse").exists() {
        Some("/dev/fuse is missing".into())
    } else {
        None
    };
    if let Some(missing) = missing {
        eprintln!("{missing}");
        return false;
    }
    needs(&[Need::Xfsprogs, Need::Mount])
}

/// Runs the programs one after the other.
fn run_all(arguments: &Arguments) -> ExitCode {
    let logs = std::env::current_exe().expect("this program").with_file_name("programs");
    std::fs::create_dir_all(&logs).expect("a directory for logs");
    let (mut failed, mut skipped) = (Vec::new(), 0);
    let begun = Instant::now();
    for (number, program) in ALL.iter().enumerate() {
        let chosen = arguments.chosen.iter().find(|(name, _)| name == program.name);
        if chosen.is_none() && !arguments.chosen.is_empty() {
            continue;
        }
        let usual = if arguments.is_long { program.long } else { program.short };
        let amount = chosen.and_then(|(_, amount)| *amount).unwrap_or(usual);
        let (ran, log, seconds) = run_one(program, amount, arguments.is_long, number, &logs);
        let (name, log) = (program.name, log.display());
        match ran {
            Ok(done) => println!("passed  {name:<12} {seconds:>5} s  {done}"),
            Err(Stop::Skipped(why)) => {
                skipped += 1;
                println!("skipped {name:<12}          {why}");
            }
            Err(Stop::Failed(why)) => {
                failed.push(name);
                println!("FAILED  {name:<12} {seconds:>5} s  {why}\n  log: {log}");
            }
        }
    }
    let seconds = begun.elapsed().as_secs();
    if failed.is_empty() {
        println!("no program failed, {skipped} skipped, in {seconds} s");
        return ExitCode::SUCCESS;
    }
    println!("{} failed: {}; {skipped} skipped, in {seconds} s", failed.len(), failed.join(", "));
    println!("again: xfskit-programs NAME=AMOUNT");
    ExitCode::FAILURE
}

/// Runs one program. A panic, for example of a verification, is a failure.
fn run_one(
    program: &Program,
    amount: u64,
    is_long: bool,
    number: usize,
    logs: &Path,
) -> (Ran, PathBuf, u64) {
    let begun = Instant::now();
    let path = logs.join(format!("{}.log", program.name));
    let run = || -> Ran {
        let log = Log::new(path.clone())?;
        let scratch = Scratch::on_disk(program.name);
        let stage = Stage::new(scratch, log, amount, is_long, number);
        (program.run)(&stage)
    };
    let ran = catch_unwind(AssertUnwindSafe(run));
    let ran = ran.unwrap_or_else(|_| Err("a panic: see above".into()));
    (ran, path, begun.elapsed().as_secs())
}
