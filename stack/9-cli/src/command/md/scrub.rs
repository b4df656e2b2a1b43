//! `xfskit md scrub`: compares the members of an array.

use std::ops::ControlFlow;

use serde_json::json;
use xfskit::raw::block::OpenMode;
use xfskit::raw::md::Assembly;
use xfskit::raw::md::array::Array;
use xfskit::raw::md::array::scrub::Mismatch;
use xfskit::raw::md::array::sync_action::{Completion, ScrubProgress};

use super::manage::{ManagedArray, Throttle};
use crate::command::open::device_hint;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::md::manage::Scrub;
use crate::out::{Out, chain};
use crate::progress::Progress;
use crate::stop::Stop;

/// Mismatches that are reported one by one.
const REPORTED_MAX: u64 = 1000;

/// The counts so far.
#[derive(Default)]
struct Count {
    /// Sectors, as in md's `mismatch_cnt`.
    mismatches: u64,
    pages: u64,
    repaired: u64,
    /// Sectors that had nothing to be compared with.
    unchecked: u64,
    next: u64,
}

/// `xfskit md scrub`
pub(crate) fn run(args: &Scrub, out: &Out) -> Outcome {
    let mode = if args.repair { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
    let managed = ManagedArray::open(&args.array.target, mode)?;
    let array = if args.repair { managed.array()? } else { managed.to_read()? };
    comparable(&managed, &array)?;
    let stop = Stop::on_signals()?;
    let mut count = Count { next: args.from, ..Count::default() };
    let ended = scrub(args, &array, &managed.assembly, &stop, &mut count, out)?;
    array.close().map_err(|e| failed(args, &e))?;
    let finished = ended == Completion::Finished;
    let report = json!({
        "target": &*args.array.target,
        "finished": finished,
        "next": count.next,
        "mismatch_cnt": count.mismatches,
        "pages": count.pages,
        "repaired": count.repaired,
        "unchecked_sectors": count.unchecked,
    });
    out.result(&report, |_| {
        let (sectors, pages, repaired) = (count.mismatches, count.pages, count.repaired);
        format!("mismatch_cnt {sectors}: {pages} pages do not agree, {repaired} repaired\n")
    })?;
    if count.unchecked > 0 {
        out.note(&format!("{} sectors have nothing to be compared with", count.unchecked));
    }
    if !finished {
        out.note(&format!("--from {} continues from here", count.next));
        stop.check()?;
    }
    Ok(ExitStatus::of(count.repaired == count.pages))
}

/// Refuses an array without redundancy left to compare.
fn comparable(managed: &ManagedArray, array: &Array) -> Result<(), Failure> {
    if array.can_be_scrubbed() {
        return Ok(());
    }
    Err(Failure::cannot(format!("{}: a member is missing or not complete", managed.name))
        .hint("`xfskit md rebuild` completes the array; scrub it after that."))
}

fn failed(args: &Scrub, error: &xfskit::raw::block::Error) -> Failure {
    device_hint(Failure::cannot(format!("{}: {}", args.array.target, chain(error))), error)
}

fn scrub(
    args: &Scrub,
    array: &Array,
    assembly: &Assembly,
    stop: &Stop,
    count: &mut Count,
    out: &Out,
) -> Result<Completion, Failure> {
    let progress = Progress::new(out, "scrub", "bytes");
    let mut throttle = Throttle::new(&args.rate_options);
    let mut reported = Ok(());
    let watch = |found: ScrubProgress| {
        progress.set(found.progress.done.0, found.progress.total.0);
        throttle.keep(found.progress.done);
        count.next = found.next;
        count.unchecked = found.progress.bad.0;
        for mismatch in &found.mismatches {
            count.pages += 1;
            count.mismatches += mismatch.counted.0;
            count.repaired += u64::from(mismatch.repaired);
            if count.pages <= REPORTED_MAX && reported.is_ok() {
                reported = progress.aside(|| report(mismatch, assembly, out));
            }
        }
        if reported.is_ok() { stop.flow() } else { ControlFlow::Break(()) }
    };
    let ended = array.scrub(args.from..array.scrub_stripes(), args.repair, watch);
    reported?;
    ended.map_err(|e| failed(args, &e))
}

/// Reports one mismatching page.
fn report(mismatch: &Mismatch, assembly: &Assembly, out: &Out) -> Result<(), Failure> {
    let member = mismatch.role.and_then(|role| assembly.roles.get(role).copied().flatten());
    let member = member.map(|i| assembly.members[i].name.as_str());
    let report = json!({
        "sectors": [mismatch.sectors.start.0, mismatch.sectors.end.0],
        "role": mismatch.role,
        "member": member,
        "repaired": mismatch.repaired,
    });
    out.result(&report, |_| {
        let (start, end) = (mismatch.sectors.start.0, mismatch.sectors.end.0 - 1);
        let wrong = match (mismatch.role, member) {
            (Some(role), Some(name)) => format!("{name} (role {role}) is wrong"),
            _ => "the wrong member is unknown".to_owned(),
        };
        let repaired = if mismatch.repaired { ", repaired" } else { "" };
        format!("member sectors {start} to {end}: {wrong}{repaired}\n")
    })
}
