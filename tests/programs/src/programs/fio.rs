//! fio: blocks with checksums of their own, written and read again.

use std::time::Duration;

use crate::stage::{Ran, Stage, installed};

/// Time for one job.
const BOUND: Duration = Duration::from_mins(30);

/// The jobs: engine, pattern, size of blocks, and more options.
const JOBS: &[&str] = &[
    "psync write 64k",
    "psync randwrite 4k --fsync=64",
    "psync randwrite 512-100k --bs_unaligned=1 --fallocate=none",
    "psync randrw 4k-64k --fallocate=keep --fdatasync=16",
    "psync write 1m --direct=1",
    "psync randwrite 4k --direct=1",
    "libaio write 128k --direct=1 --iodepth=16",
    "libaio randwrite 4k --direct=1 --iodepth=32",
    "libaio randrw 4k-64k --direct=1 --iodepth=16 --fallocate=none",
    "io_uring randwrite 4k --direct=1 --iodepth=32",
    "io_uring write 64k --iodepth=16",
    "mmap write 4k",
    "mmap randwrite 4k",
    "mmap randrw 4k-32k",
    "sync randwrite 16k --sync=1 --io_size=4m",
    "posixaio randwrite 8k --iodepth=16",
    "splice write 64k",
    "pvsync2 randwrite 4k --random_distribution=zipf:1.1",
];

/// Runs all jobs, each with two processes.
pub(super) fn run(stage: &Stage) -> Ran {
    installed("fio")?;
    let mut volume = stage.volume(6)?;
    let mut not_possible = Vec::new();
    for (number, job) in JOBS.iter().enumerate() {
        let mut words = job.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (engine, pattern, blocks) = (word(), word(), word());
        let range = if blocks.contains('-') { "bsrange" } else { "bs" };
        let mut fio = installed("fio")?;
        fio.arg("--name").arg(format!("job{number}")).arg("--directory").arg(volume.path());
        fio.args([
            format!("--ioengine={engine}"),
            format!("--rw={pattern}"),
            format!("--{range}={blocks}"),
            format!("--size={}m", stage.amount),
            format!("--randseed={}", stage.seed),
        ]);
        fio.args(["--numjobs=2", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1"]);
        fio.args(["--verify_backlog=512", "--group_reporting", "--minimal"]);
        fio.args(words);
        let ended = volume.run(fio.current_dir(stage.scratch.path()), BOUND)?;
        if ended.text.contains("not loadable") || ended.text.contains("not supported") {
            not_possible.push(engine);
            continue;
        }
        ended.success()?;
        // The files of every third job stay, so that they are compared afterwards.
        if number % 3 != 0 {
            for process in 0..2 {
                let _ =
                    std::fs::remove_file(volume.path().join(format!("job{number}.{process}.0")));
            }
        }
    }
    volume.end()?;
    let possible = JOBS.len() - not_possible.len();
    Ok(format!(
        "{possible} jobs of 2 files of {} MiB; not possible: {not_possible:?}",
        stage.amount
    ))
}
