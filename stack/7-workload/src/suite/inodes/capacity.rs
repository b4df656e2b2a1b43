//! The number of files for which there is space. A run of an hour that ends in ENOSPC would be
//! wasted, so the space is checked before.

use std::io;

use super::shape::{Plan, Shape};
use crate::measure::usage::available_memory;
use crate::report::Cell;
use crate::testbed::{Testbed, is_tmpfs};

/// Bytes of an inode by default, and its part of the inode btrees.
const INODE: u64 = 512 + 4;
/// Bytes of a directory entry with a name of 40 bytes, in the block of names (56) and in the hash
/// index (8, which is two thirds full at least).
const ENTRY: u64 = 56 + 12;
/// Bytes of a filesystem block.
const BLOCK: u64 = 4096;
/// Bytes that a volume takes without files: its journal, and the headers of its groups.
const EMPTY: u64 = 640 << 20;

/// Fails if the files of `plan` do not fit on all `volumes`, and names the largest number that
/// does. The free space below a loop device is not known.
pub(super) fn verify(plan: &Plan, testbed: &Testbed, volumes: usize) -> io::Result<()> {
    let Some(free) = free_bytes(testbed)? else { return Ok(()) };
    let all = plan.all_files();
    let most = most_files(plan, free / (volumes as u64).max(1));
    // Small runs fit where the estimate of an empty volume, which is generous, does not.
    if all <= most || needed(plan, all) < EMPTY {
        return Ok(());
    }
    let gb = |bytes: u64| format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10);
    let place = testbed.dir.as_ref().map_or("memory".into(), |dir| dir.display().to_string());
    let each = if volumes == 1 { String::new() } else { format!(" on each of {volumes} volumes") };
    let fit = match most / plan.creators().max(1) / plan.loops.max(1) {
        0 => "No number fits: name a directory with more space (--dir)".into(),
        files => format!(
            "The largest number that fits is {}: --files {files} with {} threads and {} iterations",
            Cell::Count(most),
            plan.threads,
            plan.loops,
        ),
    };
    Err(io::Error::other(format!(
        "{place}: {} files need {}{each}, and {} are free. {fit}",
        Cell::Count(all),
        gb(EMPTY + needed(plan, all)),
        gb(free),
    )))
}

/// Returns the bytes that `files` take.
fn needed(plan: &Plan, files: u64) -> u64 {
    let content = plan.size.div_ceil(BLOCK).saturating_mul(BLOCK);
    let each = match plan.shape {
        // Removed as fast as they are created.
        Shape::Racing => 0,
        _ => INODE + ENTRY + content,
    };
    files.saturating_mul(each)
}

/// Returns the largest number of files that fit in `bytes`.
fn most_files(plan: &Plan, bytes: u64) -> u64 {
    match needed(plan, 1) {
        0 => u64::MAX,
        each => bytes.saturating_sub(EMPTY) / each,
    }
}

/// Returns the free bytes for all volumes; `None` if they are not known.
fn free_bytes(testbed: &Testbed) -> io::Result<Option<u64>> {
    let cache = testbed.open.cache_bytes as u64;
    let memory = available_memory().map(|bytes| bytes.saturating_sub(cache));
    let Some(dir) = &testbed.dir else { return Ok(memory) };
    let stat = rustix::fs::statvfs(dir)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    Ok(Some(match memory {
        Some(memory) if is_tmpfs(dir) => free.min(memory),
        _ => free,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(files: u64) -> Plan {
        let shape = Shape::Separate;
        Plan { shape, threads: 100, files, loops: 4, size: 0, subdirs: 10, seed: 0 }
    }

    #[test]
    fn fifty_million_files_need_thirty_gigabytes() {
        let (all, gb) = (plan(125_000).all_files(), 1_000_000_000);
        assert_eq!(all, 50_000_000);
        let bytes = needed(&plan(125_000), all);
        assert!((28 * gb..31 * gb).contains(&bytes), "{bytes}");
        let most = most_files(&plan(1), 20 * gb);
        assert!(needed(&plan(1), most) + EMPTY <= 20 * gb);
        assert!(needed(&plan(1), most + 1) + EMPTY > 20 * gb);
    }

    #[test]
    fn a_run_that_cannot_fit_names_the_largest_that_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let testbed = Testbed::new(Some(dir.path().into()), 1 << 40, 1 << 20);
        let error = verify(&plan(1 << 40), &testbed, 2).unwrap_err().to_string();
        assert!(error.contains("The largest number that fits is"), "{error}");
        verify(&plan(1000), &testbed, 2).expect("fits");
        let many = Plan { loops: 1 << 40, ..plan(1) };
        let error = verify(&many, &testbed, 2).unwrap_err().to_string();
        assert!(error.contains("No number fits: name a directory with more space"), "{error}");
    }
}
