//! `make torture`: crashes by the hundred thousand.
//!
//! `xfskit-torture [POINTS [SEED [WORKLOAD]]]`

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xfskit_test_crash::killed;
use xfskit_test_crash::torture::{Tally, Zeal, torture};
use xfskit_test_crash::workload::WORKLOADS;
use xfskit_test_oracle::need::Need;
use xfskit_test_oracle::needs;

/// How often it is told how far the work is.
const NEWS: Duration = Duration::from_secs(30);

/// Processes that are killed in the end.
const KILLS: u64 = 300;

/// What is known so far.
struct State {
    tally: Tally,
    failed: Vec<String>,
    told: Instant,
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
    let ask_kernel = needs(&[Need::Mount, Need::Xfsprogs]);
    let zeal =
        Zeal { crash_one_in: 1, kernel_one_in: if ask_kernel { 19 } else { 0 }, again_one_in: 100 };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{points} crashes on {threads} threads, seeds from {first} on");
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let state = Mutex::new(State { tally: Tally::default(), failed: Vec::new(), told: begun });
    let work = || {
        while (state.lock().expect("no panic").tally.crashes as u64) < points {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let many = workloads.len() as u64;
            let workload = workloads[usize::try_from(turn % many).expect("small")];
            let seed = first + turn / many;
            let answer = std::panic::catch_unwind(|| torture(workload, seed, zeal));
            let mut state = state.lock().expect("no panic");
            match answer {
                Ok(Ok(tally)) => state.tally.add(tally),
                Ok(Err(why)) => {
                    eprintln!("FAILED: {why}");
                    state.failed.push(format!("{} {seed}", workload.name));
                }
                Err(_) => {
                    eprintln!("FAILED: {}, seed {seed}: see above", workload.name);
                    state.failed.push(format!("{} {seed}", workload.name));
                }
            }
            if state.told.elapsed() > NEWS {
                println!("{:>6} s: {}", begun.elapsed().as_secs(), state.tally);
                state.told = Instant::now();
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let State { tally, mut failed, .. } = state.into_inner().expect("no panic");
    println!("{tally}, in {} s", begun.elapsed().as_secs());
    if ask_kernel && args.len() < 3 {
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
