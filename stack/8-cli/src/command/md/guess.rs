//! `xfskit md guess`: members whose superblocks are gone.
//!
//! [`evidence`](mod@target::evidence) are looked for on the members, [`guess`] says what explains
//! them, and [`judge`] checks the volumes that come out. What is doubtful even then is no answer.

mod judge;

use std::cmp::Reverse;
use std::ops::ControlFlow;

use serde_json::json;
use xfskit::md::Member;
use xfskit::md::guess::{self, Evidence, Guess, MemberDevices};
use xfskit::target::{self, ArrayName, Base, Part, Target};

use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::Out;
use crate::progress::Progress;
use crate::stop::Stop;
use judge::{AssembledMember, Sureness};

/// Guesses that are checked.
const CHECKED_MAX: usize = 8;
/// Members that may be missing without being named so, for a hint.
const MORE_MAX: usize = 2;

/// `xfskit md guess`. The answer is no where nothing can be told, and where all is doubtful.
pub(crate) fn run(names: &[String], scan: u64, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    let members = super::members(names)?;
    let device = |member: &Member| member.device.clone();
    let devices: Vec<_> = members.iter().map(|member| member.as_ref().map(device)).collect();
    let progress = Progress::new(out, "searching", "bytes");
    let told = |done, total| {
        progress.set(done, total);
        stop.flow()
    };
    let found = target::find_evidence(&devices, scan, &told);
    drop(progress);
    let evidence = match found {
        ControlFlow::Break(()) => return Err(Failure::stopped()),
        ControlFlow::Continue(None) => {
            out.note("no XFS volume is found on them that could tell");
            return Ok(ExitStatus::Problem);
        }
        ControlFlow::Continue(Some(evidence)) => evidence,
    };
    let mut checked = Vec::new();
    for guess in guess::guess(&devices, &evidence).into_iter().take(CHECKED_MAX) {
        stop.check()?;
        let target = target(&guess, &members)?;
        checked.push(judge::judge(guess, target, &members, &stop, out));
        stop.check()?;
    }
    checked
        .sort_by_key(|checked| (checked.errors.unwrap_or(u64::MAX), Reverse(checked.guess.right)));
    let best = |other: &AssembledMember| {
        let rank = |j: &AssembledMember| (j.errors.unwrap_or(u64::MAX), Reverse(j.guess.right));
        checked.first().is_some_and(|first| rank(first) == rank(other))
    };
    let best: Vec<&AssembledMember> = checked.iter().filter(|other| best(other)).collect();
    let mut is_answered = false;
    for checked in &best {
        is_answered |= say(checked, best.len() - 1, &members, out)?;
    }
    if !is_answered {
        hint_at_missing(
            &devices,
            &evidence,
            best.first().map_or(0, |checked| checked.guess.right),
            out,
        );
    }
    Ok(ExitStatus::of(is_answered))
}

/// Prints a guess, unless it is doubtful, and what speaks against it. True where it is an answer.
fn say(
    checked: &AssembledMember,
    others: usize,
    members: &[Option<Member>],
    out: &Out,
) -> Result<bool, Failure> {
    let (guess, target) = (&checked.guess, &checked.target);
    let sureness = checked.sureness(others);
    let against = checked.against(others, members);
    let is_answer = sureness != Sureness::Doubtful;
    if is_answer {
        let object = json!({
            "target": target,
            "sureness": sureness.word(),
            "certain": sureness == Sureness::Certain,
            "pieces_right": guess.right,
            "pieces_found": guess.found,
            "check_errors": checked.errors,
            "check_complete": checked.is_complete,
            "rows_compared": checked.rows_compared,
            "rows_wrong": checked.rows_wrong,
            "against": against,
        });
        out.result(&object, |_| format!("{target}\n"))?;
    }
    let what = if is_answer { "this is" } else { "no report:" };
    let name = if is_answer { String::new() } else { format!(" is {target}") };
    out.note(&format!(
        "{what} {}{name}; {} of {} pieces that were found lie where they should",
        sureness.word(),
        guess.right,
        guess.found
    ));
    for why in &against {
        out.note(&format!("against it: {why}"));
    }
    Ok(is_answer)
}

/// Tells where an array with members that are missing explains more than `right` pieces.
fn hint_at_missing(members: &MemberDevices, evidence: &Evidence, right: usize, out: &Out) {
    for more in 1..=MORE_MAX {
        let with: Vec<_> = members.iter().cloned().chain(std::iter::repeat_n(None, more)).collect();
        let guesses = guess::guess(&with, evidence);
        if let Some(best) = guesses.first().filter(|best| best.right > right) {
            out.note(&format!(
                "with {more} more, {} of {} pieces would lie right: give the word missing for each member \
                 that is not there",
                best.right, best.found
            ));
            return;
        }
    }
}

/// The target that a guess comes to.
fn target(guess: &Guess, members: &[Option<Member>]) -> Result<String, Failure> {
    let named = |role: &Option<usize>| match role.and_then(|i| members[i].as_ref()) {
        None => Ok(None),
        Some(member) => Target::parse(&member.name).map(Some),
    };
    let members: Result<Vec<_>, _> = guess.order.iter().map(named).collect();
    let members = members.map_err(|e| Failure::cannot(e.to_string()))?;
    let base = Base::Array(Box::new(ArrayName::new(Some(guess.manual), members)));
    Ok(Target { base, part: Part::parse(&guess.part) }.to_string())
}
