//! `xfskit targets`: lists the volumes on a disk image.

use serde::Serialize;
use xfskit::target::{self, Found};

use super::open;
use crate::exit::{ExitStatus, Outcome};
use crate::grammar::read::Targets;
use crate::out::Out;
use crate::show;

/// One target on an image.
#[derive(Serialize)]
struct Line {
    /// The name for other commands.
    target: String,
    /// Its first byte and its length, in bytes.
    offset: u64,
    size: u64,
    kind: String,
    xfs: bool,
}

impl Line {
    fn of(found: Found) -> Self {
        let Found { target, offset, size, kind, xfs, .. } = found;
        Self { target: target.to_string(), offset, size, kind, xfs }
    }
}

/// `xfskit targets`: lists the partitions and logical volumes of a disk image, and which of them
/// hold XFS. Exit code 1 if nothing is recognised.
pub(crate) fn run(args: &Targets, out: &Out) -> Outcome {
    let name = args.image.as_str();
    let found = target::discover(name).map_err(|e| open::not_opened(name, &e))?;
    let lines: Vec<Line> = found.into_iter().map(Line::of).collect();
    let width = lines.iter().map(|line| line.target.len()).max().unwrap_or(0);
    for line in &lines {
        out.result(line, |line| {
            let Line { target, kind, .. } = line;
            let size = show::human(line.size);
            let xfs = if line.xfs { "XFS" } else { "-" };
            format!("{target:width$}  {size:>10}  {xfs:3}  {kind}\n")
        })?;
    }
    if lines.is_empty() {
        out.note("neither an XFS volume, nor partitions, nor logical volumes are recognised");
    }
    Ok(ExitStatus::of(!lines.is_empty()))
}
