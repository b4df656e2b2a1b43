//! `make torture`: a hundred thousand crashes.
//!
//! `xfskit-torture [POINTS [SEED [WORKLOAD]]]`

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xfskit_test_crash::killed;
use xfskit_test_crash::torture::{CrashCounts, Sampling, torture};
use xfskit_test_crash::workload::WORKLOADS;
use xfskit_test_support::{Need, needs};

/// Interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// Number of processes that are killed at the end.
const KILLS: u64 = 300;

/// Progress and results so far.
struct State {
    counts: CrashCounts,
    failed: Vec<String>,
    last_report: Instant,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [writer, image, seed] = &args[..]
        && writer == "writer"
    {
        killed::write_until_killed(image.as_ref(), seed.parse().expect("a number"));
    }
    let number =
        |n: usize, default| args.get(n).map_or(default, |arg| arg.parse().expect("a number"));
    let (points, first) = (number(0, 100_000), number(1, 0));
    let wanted = |name: &str| args.get(2).is_none_or(|arg| arg == name);
    let workloads: Vec<_> = WORKLOADS.iter().filter(|w| wanted(w.name)).collect();
    let with_kernel = needs(&[Need::Mount, Need::Xfsprogs]);
    let sampling = Sampling {
        crash_one_in: 1,
        kernel_one_in: if with_kernel { 19 } else { 0 },
        interrupt_one_in: 100,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{points} crashes on {threads} threads, seeds from {first} on");
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let state = Mutex::new(State {
        counts: CrashCounts::default(),
        failed: Vec::new(),
        last_report: begun,
    });
    let work = || {
        while (state.lock().expect("no panic").counts.crashes as u64) < points {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let many = workloads.len() as u64;
            let workload = workloads[usize::try_from(turn % many).expect("small")];
            let seed = first + turn / many;
            let result = std::panic::catch_unwind(|| torture(workload, seed, sampling));
            let mut state = state.lock().expect("no panic");
            match result {
                Ok(Ok(counts)) => state.counts.add(counts),
                Ok(Err(why)) => {
                    eprintln!("FAILED: {why}");
                    state.failed.push(format!("{} {seed}", workload.name));
                }
                Err(_) => {
                    eprintln!("FAILED: {}, seed {seed}: see above", workload.name);
                    state.failed.push(format!("{} {seed}", workload.name));
                }
            }
            if state.last_report.elapsed() > PROGRESS_INTERVAL {
                println!("{:>6} s: {}", begun.elapsed().as_secs(), state.counts);
                state.last_report = Instant::now();
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let State { counts, mut failed, .. } = state.into_inner().expect("no panic");
    println!("{counts}, in {} s", begun.elapsed().as_secs());
    if with_kernel && args.len() < 3 {
        let program = std::env::current_exe().expect("this program");
        match killed::rounds(&program, KILLS, first) {
            Ok(files) => println!("{KILLS} processes killed; {files} synced files were whole"),
            Err(why) => failed.push(format!("kill -9: {why}")),
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("{} runs failed: {}", failed.len(), failed.join(", "));
    println!("again: cargo run --release -p xfskit-test-crash -- 1 SEED WORKLOAD");
    ExitCode::FAILURE
}
