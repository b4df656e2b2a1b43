//! `xfskit md scrub`: compares the members of an array.

use serde_json::json;
use xfskit::md::{Array, Member, Mismatch, Scrub as SyncScrub, Scrubbed};

use super::{failed, run_on};
use crate::command::action::{Action, Job};
use crate::command::console::{Console, Step};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::md::manage::Scrub;
use crate::out::Out;

/// Mismatches that are reported one by one.
const REPORTED_MAX: u64 = 1000;

/// `xfskit md scrub`.
pub(crate) fn run(args: &Scrub, out: &Out) -> Outcome {
    let action = Action::Scrub { repair: args.repair, from: args.from };
    run_on(&args.array.target, &Job::new(action, args.rate_options.rate), out)
}

/// Compares the members of an array, and with `repair` corrects the wrong ones.
pub(super) fn scrub(
    array: &mut Array,
    repair: bool,
    from: u64,
    rate: Option<u64>,
    console: &dyn Console,
) -> Outcome {
    let name = array.name();
    let scrub = SyncScrub::new().repair(repair).from(from).rate(rate.unwrap_or(0));
    let scrubbed = compare(scrub, array, console)?;
    array.mark_clean().map_err(|e| failed(&name, &e))?;
    let report = json!({
        "target": name,
        "finished": scrubbed.finished,
        "next": scrubbed.next,
        "mismatch_cnt": scrubbed.mismatch_cnt,
        "pages": scrubbed.pages,
        "repaired": scrubbed.repaired,
        "unchecked_sectors": scrubbed.unchecked_sectors,
    });
    let (sectors, pages, repaired) = (scrubbed.mismatch_cnt, scrubbed.pages, scrubbed.repaired);
    let text = format!("mismatch_cnt {sectors}: {pages} pages do not agree, {repaired} repaired\n");
    console.result(&report, &text)?;
    if scrubbed.unchecked_sectors > 0 {
        let sectors = scrubbed.unchecked_sectors;
        console.note(&format!("{sectors} sectors have nothing to be compared with"));
    }
    if !scrubbed.finished {
        console.note(&format!("--from {} continues from here", scrubbed.next));
        console.check()?;
    }
    Ok(ExitStatus::of(scrubbed.repaired == scrubbed.pages))
}

fn compare(
    scrub: SyncScrub<'_>,
    array: &mut Array,
    console: &dyn Console,
) -> Result<Scrubbed, Failure> {
    let (name, members) = (array.name(), array.members());
    let (mut count, mut reported) = (0, Ok(()));
    let found = |mismatch: &Mismatch| {
        count += 1;
        if count <= REPORTED_MAX && reported.is_ok() {
            reported = report(mismatch, &members, console);
            if reported.is_err() {
                console.token().cancel();
            }
        }
    };
    let scrub = scrub
        .progress(|at| console.progress(Step::Scrub, at.done, at.total))
        .cancel(console.token());
    let scrubbed = scrub.run_with(array, found);
    reported?;
    scrubbed.map_err(|e| failed(&name, &e))
}

/// Reports one mismatching page.
fn report(mismatch: &Mismatch, members: &[Member], console: &dyn Console) -> Result<(), Failure> {
    let member =
        members.iter().find(|member| mismatch.role.is_some() && member.role == mismatch.role);
    let member = member.map(|member| &*member.name);
    let report = json!({
        "sectors": [mismatch.sectors.start.0, mismatch.sectors.end.0],
        "role": mismatch.role,
        "member": member,
        "repaired": mismatch.repaired,
    });
    let (start, end) = (mismatch.sectors.start.0, mismatch.sectors.end.0 - 1);
    let wrong = match (mismatch.role, member) {
        (Some(role), Some(name)) => format!("{name} (role {role}) is wrong"),
        _ => "the wrong member is unknown".to_owned(),
    };
    let repaired = if mismatch.repaired { ", repaired" } else { "" };
    console.result(&report, &format!("member sectors {start} to {end}: {wrong}{repaired}\n"))
}
