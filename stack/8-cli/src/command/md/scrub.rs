//! `xfskit md scrub`: do members agree with each other?

use std::ops::ControlFlow;

use serde_json::json;
use xfskit::block::OpenMode;
use xfskit::md::Assembly;
use xfskit::md::array::Array;
use xfskit::md::array::scrub::Mismatch;
use xfskit::md::array::sync_action::{Completion, ScrubProgress};

use super::tend::{Tended, Throttle};
use crate::command::open::device_hint;
use crate::exit::{Answer, Failure, Outcome};
use crate::grammar::md::tend::Scrub;
use crate::out::{Out, chain};
use crate::progress::Progress;
use crate::stop::Stop;

/// Mismatches that are told one by one.
const TOLD: u64 = 1000;

/// What was found so far.
#[derive(Default)]
struct Count {
    /// Sectors, as md's `mismatch_cnt` counts them.
    mismatches: u64,
    pages: u64,
    mended: u64,
    /// Sectors that there was nothing to compare with.
    unchecked: u64,
    next: u64,
}

/// `xfskit md scrub`
pub(crate) fn run(args: &Scrub, out: &Out) -> Outcome {
    let mode = if args.repair { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
    let tended = Tended::open(&args.array.target, mode)?;
    let array = if args.repair { tended.array()? } else { tended.to_read()? };
    comparable(&tended, &array)?;
    let stop = Stop::on_signals()?;
    let mut count = Count { next: args.from, ..Count::default() };
    let ended = scrub(args, &array, &tended.assembly, &stop, &mut count, out)?;
    array.close().map_err(|e| failed(args, &e))?;
    let finished = ended == Completion::Finished;
    let answer = json!({
        "target": &*args.array.target,
        "finished": finished,
        "next": count.next,
        "mismatch_cnt": count.mismatches,
        "pages": count.pages,
        "mended": count.mended,
        "unchecked_sectors": count.unchecked,
    });
    out.answer(&answer, |_| {
        let (sectors, pages, mended) = (count.mismatches, count.pages, count.mended);
        format!("mismatch_cnt {sectors}: {pages} pages do not agree, {mended} mended\n")
    })?;
    if count.unchecked > 0 {
        out.note(&format!("{} sectors have nothing to be compared with", count.unchecked));
    }
    if !finished {
        out.note(&format!("--from {} goes on from here", count.next));
        stop.check()?;
    }
    Ok(Answer::of(count.mended == count.pages))
}

/// Only an array that has more than it needs can be compared.
fn comparable(tended: &Tended, array: &Array) -> Result<(), Failure> {
    if array.can_be_scrubbed() {
        return Ok(());
    }
    Err(Failure::cannot(format!("{}: a member is missing or not complete", tended.name))
        .hint("`xfskit md rebuild` makes it whole; there is nothing to compare with before."))
}

fn failed(args: &Scrub, error: &xfskit::block::Error) -> Failure {
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
    let mut throttle = Throttle::new(&args.pace);
    let mut said = Ok(());
    let watch = |found: ScrubProgress| {
        progress.set(found.progress.done, found.progress.total);
        throttle.keep(found.progress.done);
        count.next = found.next;
        count.unchecked = found.progress.bad;
        for mismatch in &found.mismatches {
            count.pages += 1;
            count.mismatches += mismatch.counted;
            count.mended += u64::from(mismatch.repaired);
            if count.pages <= TOLD && said.is_ok() {
                said = progress.aside(|| tell(mismatch, assembly, out));
            }
        }
        if said.is_ok() { stop.flow() } else { ControlFlow::Break(()) }
    };
    let ended = array.scrub(args.from..array.scrub_stripes(), args.repair, watch);
    said?;
    ended.map_err(|e| failed(args, &e))
}

/// One page that does not agree.
fn tell(mismatch: &Mismatch, assembly: &Assembly, out: &Out) -> Result<(), Failure> {
    let member = mismatch.role.and_then(|role| assembly.roles.get(role).copied().flatten());
    let member = member.map(|i| assembly.members[i].name.as_str());
    let answer = json!({
        "sectors": [mismatch.sectors.start.0, mismatch.sectors.end.0],
        "role": mismatch.role,
        "member": member,
        "mended": mismatch.repaired,
    });
    out.answer(&answer, |_| {
        let (start, end) = (mismatch.sectors.start.0, mismatch.sectors.end.0 - 1);
        let who = match (mismatch.role, member) {
            (Some(role), Some(name)) => format!("{name} (role {role}) is wrong"),
            _ => "nobody knows who is wrong".to_owned(),
        };
        let mended = if mismatch.repaired { ", mended" } else { "" };
        format!("member sectors {start} to {end}: {who}{mended}\n")
    })
}
