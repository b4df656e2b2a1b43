//! `xfskit targets`: lists the volumes on a disk image.

use serde::Serialize;
use xfskit::raw::block::{BlockDevice, OpenMode};
use xfskit::raw::target::{self, Target};

use super::open::target_failure;
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

/// `xfskit targets`. Exit code 1 if nothing is recognised.
pub(crate) fn run(args: &Targets, out: &Out) -> Outcome {
    let name = args.image.as_str();
    let failed = |e: target::Error| target_failure(name, &e);
    let target = Target::parse(name).map_err(failed)?;
    let disk = target::open_unchecked(&target, OpenMode::ReadOnly).map_err(failed)?;
    let mut lines: Vec<Line> = target::discover(&disk)
        .into_iter()
        .map(|found| Line {
            target: format!("{}#{}", target.whole(), found.part),
            offset: found.offset.0,
            size: found.len.0,
            kind: found.kind,
            xfs: found.xfs,
        })
        .collect();
    if lines.is_empty() && xfskit::raw::core::superblock::find_superblock(&*disk).is_ok() {
        let (target, size) = (target.to_string(), disk.size().0);
        lines.push(Line { target, offset: 0, size, kind: "whole".into(), xfs: true });
    }
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
