//! `xfskit md scrub`: compares the members of an array.

use serde_json::json;
use xfskit::md::{Array, Member, Mismatch, Scrubbed};

use super::failed;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::md::manage::Scrub;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::stop::Stop;

/// Mismatches that are reported one by one.
const REPORTED_MAX: u64 = 1000;

/// `xfskit md scrub`: compares the members of an array, and with `--repair` corrects the wrong
/// ones.
pub(crate) fn run(args: &Scrub, out: &Out) -> Outcome {
    let name = &*args.array.target;
    let stop = Stop::on_signals()?;
    let mut array = super::manage::open(name, args.repair)?;
    let scrubbed = scrub(args, &mut array, &stop, out)?;
    array.close().map_err(|e| failed(name, &e))?;
    let report = json!({
        "target": name,
        "finished": scrubbed.finished,
        "next": scrubbed.next,
        "mismatch_cnt": scrubbed.mismatch_cnt,
        "pages": scrubbed.pages,
        "repaired": scrubbed.repaired,
        "unchecked_sectors": scrubbed.unchecked_sectors,
    });
    out.result(&report, |_| {
        let (sectors, pages, repaired) = (scrubbed.mismatch_cnt, scrubbed.pages, scrubbed.repaired);
        format!("mismatch_cnt {sectors}: {pages} pages do not agree, {repaired} repaired\n")
    })?;
    if scrubbed.unchecked_sectors > 0 {
        let sectors = scrubbed.unchecked_sectors;
        out.note(&format!("{sectors} sectors have nothing to be compared with"));
    }
    if !scrubbed.finished {
        out.note(&format!("--from {} continues from here", scrubbed.next));
        stop.check()?;
    }
    Ok(ExitStatus::of(scrubbed.repaired == scrubbed.pages))
}

fn scrub(args: &Scrub, array: &mut Array, stop: &Stop, out: &Out) -> Result<Scrubbed, Failure> {
    let progress = Progress::new(out, "scrub", Unit::Bytes);
    let members = array.members();
    let (mut count, mut reported) = (0, Ok(()));
    let token = stop.token();
    let found = |mismatch: &Mismatch| {
        count += 1;
        if count <= REPORTED_MAX && reported.is_ok() {
            reported = progress.aside(|| report(mismatch, &members, out));
            if reported.is_err() {
                token.cancel();
            }
        }
    };
    let scrub = xfskit::md::Scrub::new()
        .repair(args.repair)
        .from(args.from)
        .rate(args.rate_options.rate.unwrap_or(0))
        .progress(|at| progress.set(at.done, at.total))
        .cancel(token);
    let scrubbed = scrub.run_with(array, found);
    reported?;
    scrubbed.map_err(|e| failed(&args.array.target, &e))
}

/// Reports one mismatching page.
fn report(mismatch: &Mismatch, members: &[Member], out: &Out) -> Result<(), Failure> {
    let member =
        members.iter().find(|member| mismatch.role.is_some() && member.role == mismatch.role);
    let member = member.map(|member| &*member.name);
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
