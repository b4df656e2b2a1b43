//! `xfskit stats DIR`: the requests of a mount.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{control, mounts};
use crate::exit::{Failure, Outcome};
use crate::out::Out;

/// What the process that serves a mount says.
#[derive(Debug, Serialize, Deserialize)]
struct Stats {
    requests: Vec<Requests>,
    first_failure: Option<String>,
}

/// Requests of one kind.
#[derive(Debug, Serialize, Deserialize)]
struct Requests {
    kind: String,
    #[serde(rename = "requests")]
    count: u64,
    seconds: f64,
    /// Number of requests below 1 µs, below 2, 4, 8, ….
    histogram: Vec<u64>,
}

/// Returns true if a volume is mounted on `target` by xfskit.
pub(crate) fn is_mounted(target: &str) -> bool {
    matches!(entry(target), Ok(Some(_)))
}

fn entry(target: &str) -> Result<Option<mounts::MountEntry>, Failure> {
    mounts::find(&mounts::absolute(Path::new(target))?)
}

/// Prints the requests of the mount on `target`.
pub(crate) fn stats(target: &str, out: &Out) -> Outcome {
    let gone = || Failure::problem(format!("{target}: the mount is gone"));
    let entry = entry(target)?.ok_or_else(gone)?;
    let stats = control::stats(&entry).ok_or_else(|| {
        Failure::problem(format!("{target}: no process serves the mount"))
            .hint(format!("`xfskit umount {target}` removes it"))
    })?;
    if let Some(error) = stats["error"].as_str() {
        return Err(Failure::cannot(format!("{target}: {error}")));
    }
    let stats: Stats = serde_json::from_value(stats)
        .map_err(|error| Failure::problem(format!("{target}: the reply: {error}")))?;
    out.result(&stats, text)?;
    Ok(out.status())
}

#[allow(clippy::cast_precision_loss)] // a mean for people
fn text(stats: &Stats) -> String {
    let mut text = format!(
        "{:<14} {:>10} {:>10} {:>12} {:>12} {:>12}\n",
        "request", "count", "seconds", "mean, µs", "half, µs", "99 %, µs"
    );
    for Requests { kind, count, seconds, histogram } in &stats.requests {
        let mean = seconds * 1e6 / *count as f64;
        let (half, most) = (below(histogram, 0.5), below(histogram, 0.99));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{kind:<14} {count:>10} {seconds:>10.3} {mean:>12.1} {half:>12} {most:>12}"
        );
    }
    if let Some(failure) = &stats.first_failure {
        let _ = writeln!(text, "first failure: {failure}");
    }
    text
}

/// Returns the bound below which `share` of the requests were.
#[allow(clippy::cast_precision_loss)]
fn below(histogram: &[u64], share: f64) -> String {
    let all: u64 = histogram.iter().sum();
    let mut sum = 0;
    for (bin, count) in histogram.iter().enumerate() {
        sum += count;
        if sum as f64 >= share * all as f64 {
            return format!("< {}", 1_u64 << bin.min(63));
        }
    }
    "-".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_bins() {
        assert_eq!(below(&[0, 10, 0, 1], 0.5), "< 2");
        assert_eq!(below(&[0, 10, 0, 1], 0.99), "< 8");
        assert_eq!(below(&[], 0.5), "-");
    }
}
