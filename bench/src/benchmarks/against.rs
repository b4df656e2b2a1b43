//! Debian's fs_mark and dbench, compared with ours on one directory.
//!
//! `xfskit-bench against DIR`: DIR is on the measured filesystem. Each run has an empty directory
//! and begins after a sync. The first program leaves dirty state to the second, so another one is
//! first in every other turn. The rates should lie within each other's spread.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use xfskit_bench::contest::{Contest, Quantity};
use xfskit_bench::frame::{self, Result, progress, section};
use xfskit_bench::kernel;
use xfskit_bench::mount::dbench::throughput;
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Debian's fs_mark and dbench, and ours";

#[derive(clap::Args)]
struct Args {
    /// Directory on the measured filesystem
    dir: PathBuf,
    /// Loadfile of dbench
    #[arg(long, value_name = "FILE", default_value = "/usr/share/dbench/client.txt")]
    load: String,
    /// Seconds of a run of dbench
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    seconds: u32,
    /// Clients of dbench
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    clients: u32,
    /// Files of each iteration of fs_mark with an fsync of each; twenty times as many without
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    files: u32,
}

/// A load: its title, the unit of its rate, the words of its command, and its function that finds
/// the rate in the output.
struct Load {
    title: &'static str,
    unit: &'static str,
    words: Vec<String>,
    rate: fn(&str) -> Option<f64>,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 6, measure)
}

fn measure(args: &Args, turns: usize) -> Result<Vec<Section>> {
    let loads = loads(args, &std::path::absolute(&args.load)?.to_string_lossy());
    let work = args.dir.join(format!("xfskit-against-{}", std::process::id()));
    let names = [("Debian", "a directory"), ("xfskit", "a directory")];
    let contest = |load: &Load| Contest::new(load.title, Quantity::rate(load.unit, 0), 1, &names);
    let mut contests: Vec<Contest> = loads.iter().map(contest).collect();
    for turn in 1..=turns {
        for (load, contest) in loads.iter().zip(&mut contests) {
            progress(format!("{}, turn {turn}", load.title));
            let mut order = [0, 1];
            order.rotate_left(turn % 2);
            for of in order {
                contest.add(of, run(load, &work, of == 1)?);
            }
        }
    }
    let tables = contests.iter().map(Contest::table).collect();
    let text = "The rates should lie within each other's spread.";
    Ok(vec![section("Debian's programs and ours", &[text], tables)])
}

fn loads(Args { seconds, clients, files, .. }: &Args, load: &str) -> Vec<Load> {
    let words = |line: String| line.split(' ').map(str::to_owned).collect();
    let without = 20 * files;
    // fs_mark accepts names of less than 40 bytes: the directory is relative.
    let empty = words(format!("fs_mark -n {without} -s 0 -S 0 -L 4 -d files"));
    let fsync = words(format!("fs_mark -n {files} -s 4096 -S 1 -L 2 -d files"));
    let clients = words(format!("dbench -t {seconds} -c {load} -D . {clients}"));
    let marks = |title, words| Load { title, unit: "files/s", words, rate: files_per_second };
    vec![
        marks("fs_mark, empty files", empty),
        marks("fs_mark, 4 KiB, fsync each", fsync),
        Load { title: "dbench", unit: "MB/s", words: clients, rate: throughput },
    ]
}

/// Runs a load in an empty directory, by xfskit or by Debian's program. Returns its rate.
fn run(load: &Load, work: &Path, by_us: bool) -> Result<f64> {
    fs::create_dir_all(work.join("files"))?;
    kernel::run("sync", &[])?;
    let [program, options @ ..] = &load.words[..] else { return Err("no program".into()) };
    let mut command = if by_us {
        let mut xfskit = Command::new(std::env::current_exe()?.with_file_name("xfskit"));
        xfskit.arg(program);
        xfskit
    } else {
        Command::new(program)
    };
    command.args(options).current_dir(work);
    let shown = format!("{} {}", if by_us { "xfskit" } else { "Debian's" }, load.words.join(" "));
    let out = command.output().map_err(|error| format!("{shown}: {error}"))?;
    fs::remove_dir_all(work)?;
    let output = String::from_utf8_lossy(&out.stdout);
    let rate = (load.rate)(&output).filter(|_| out.status.success());
    rate.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&out.stderr);
        format!("{shown}: {}\n{output}{errors}", out.status).into()
    })
}

/// Returns fs_mark's Files/sec, the mean over the iterations.
fn files_per_second(output: &str) -> Option<f64> {
    let rate = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_row = words.len() >= 5 && words[0].bytes().all(|byte| byte.is_ascii_digit());
        is_row.then(|| words[3].parse::<f64>().ok()).flatten()
    };
    let rates: Vec<f64> = output.lines().filter_map(rate).collect();
    let count = u32::try_from(rates.len()).ok().filter(|count| *count > 0)?;
    Some(rates.iter().sum::<f64>() / f64::from(count))
}
