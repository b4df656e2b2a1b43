//! `xfskit stats DIR`: the requests of a mount, and the counters of its volume.

use std::fmt::Write;

use super::protocol::{Client, Reply, Request, Requests, Stats, Transport};
use super::snapshot;
use crate::exit::{Failure, Outcome};
use crate::out::Out;

/// Prints the requests of the mount on `target`.
pub(crate) fn stats(target: &str, out: &Out) -> Outcome {
    let gone = || Failure::problem(format!("{target}: the mount is gone"));
    let entry = snapshot::entry(target)?.ok_or_else(gone)?;
    let mut client = Client::ask(&entry, Request::Stats)?;
    let Reply::Stats(stats) = client.reply()? else { return Err(client.unexpected()) };
    out.result(&stats, text)?;
    Ok(out.status())
}

#[allow(clippy::cast_precision_loss)] // a mean for people
fn text(stats: &Stats) -> String {
    let Transport { name, device, io_uring } = &stats.transport;
    let mut text =
        format!("transport {name}: {device} requests by the device, {io_uring} by io_uring\n\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:<14} {:>10} {:>10} {:>12} {:>12} {:>12}",
        "request", "count", "seconds", "mean, µs", "half, µs", "99 %, µs"
    );
    for Requests { kind, count, seconds, histogram } in &stats.requests {
        let mean = seconds * 1e6 / *count as f64;
        let (half, most) = (below(histogram, 0.5), below(histogram, 0.99));
        let _ = writeln!(
            text,
            "{kind:<14} {count:>10} {seconds:>10.3} {mean:>12.1} {half:>12} {most:>12}"
        );
    }
    text.push('\n');
    text.push_str(&stats.counters.text());
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
