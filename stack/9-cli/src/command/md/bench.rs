//! `xfskit md bench`: measures the speed of each parity routine, as the kernel does at boot.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use xfskit_workload::parity::{Measured, Operation, measure, selected};

use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::Out;

/// Length of the longest block, in bytes: larger than any processor's cache.
const BLOCK_MAX: usize = 16 << 20;

/// `xfskit md bench`: measures every routine that computes parity, and prints which one is used.
pub(crate) fn run(members: u8, block: u64, out: &Out) -> Outcome {
    let Some(block) = usize::try_from(block).ok().filter(|block| (1..=BLOCK_MAX).contains(block))
    else {
        return Err(Failure::cannot("a block has from 1 byte to 16 MiB"));
    };
    let measured = measure(members.into(), block);
    let report = json!({
        "members": members,
        "block": block,
        "using": selected(),
        "routines": measured.iter().map(object).collect::<Vec<_>>(),
    });
    out.result(&report, |_| table(members, block, &measured))?;
    Ok(if measured.iter().all(|m| m.passed) { ExitStatus::Success } else { ExitStatus::Problem })
}

/// Returns megabytes of source data per second.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below 2^63
fn megabytes(rate: f64) -> u64 {
    (rate / 1e6).round() as u64
}

fn object(measured: &Measured) -> Value {
    let rates: Map<String, Value> = Operation::ALL
        .into_iter()
        .zip(measured.rates)
        .map(|(operation, rate)| (operation.name().into(), megabytes(rate).into()))
        .collect();
    json!({
        "name": measured.name,
        "passed": measured.passed,
        "used": measured.name == selected(),
        "mb_per_s": rates,
    })
}

fn table(members: u8, block: usize, measured: &[Measured]) -> String {
    let mut text = format!(
        "Parity over {members} data members, blocks of {block} bytes, on one core; \
         MB/s of what is read\n{:15}",
        ""
    );
    for operation in Operation::ALL {
        let _ = write!(text, "{:>10}", operation.name());
    }
    for routine in measured {
        let mark = if routine.name == selected() { '*' } else { ' ' };
        let _ = write!(text, "\n{mark} {:13}", routine.name);
        for rate in routine.rates {
            let _ = write!(text, "{:>10}", megabytes(rate));
        }
        if !routine.passed {
            text.push_str("  WRONG: not used");
        }
    }
    let _ = writeln!(text, "\nusing {}", selected());
    text
}
