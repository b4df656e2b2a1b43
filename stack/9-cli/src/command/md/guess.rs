//! `xfskit md guess`: finds the array of members without superblocks.
//!
//! The members are searched for [`evidence`](mod@target::evidence), [`guess`] finds the arrays that
//! explain it, and [`judge`] checks the volumes on them. A doubtful guess is not a result. Equally
//! good guesses are all printed and are not a result either; [`content`] shows whether they read
//! the same.

mod content;
mod judge;

use std::ops::ControlFlow;

use serde_json::json;
use xfskit::raw::block::OpenMode;
use xfskit::raw::md::Member;
use xfskit::raw::md::guess::{self, Evidence, Guess, MemberDevices};
use xfskit::raw::target::{self, ArrayName, Base, Part, Target};

use crate::command::open;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::Out;
use crate::progress::Progress;
use crate::stop::Stop;
use judge::{JudgedGuess, Sureness};

/// Number of guesses that are checked.
const CHECKED_MAX: usize = 128;
/// Guesses with this many more contradictions are not reported.
const MARGIN: u64 = 3;
/// Number of members that may be missing without being named `missing`, for a hint.
const MORE_MAX: usize = 2;

/// `xfskit md guess`. Exit code 1 if there is no guess, if all are doubtful, or if several are
/// equally good.
pub(crate) fn run(names: &[String], scan: u64, out: &Out) -> Outcome {
    let stop = Stop::on_signals()?;
    let members = members(names)?;
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
    let mut best = best(guess::guess(&devices, &evidence), &members, &stop, out)?;
    let mut is_answered = false;
    for judged in best.equals.iter_mut().take(COMPARED_MAX) {
        judge::compare(judged, &members, &stop);
    }
    for judged in &best.equals {
        is_answered |= say(judged, &best, &members, out)?;
    }
    best.say_equals(out);
    if !is_answered {
        let found = evidence.found.len();
        if best.equals.is_empty() {
            out.note(&format!(
                "no array of these members explains half of the {found} pieces found"
            ));
        }
        let astray = best.equals.first().map_or(found, |judged| judged.guess.astray());
        hint_at_missing(&devices, &evidence, astray, out);
    }
    Ok(ExitStatus::of(is_answered))
}

/// Returns the members that these arguments name, with patterns expanded; `None` for `missing`.
fn members(names: &[String]) -> Result<Vec<Option<Member>>, Failure> {
    let name = super::array_target(names)?.to_string();
    let target = Target::parse(&name).map_err(|e| open::not_opened(&name, &e.into()))?;
    let Base::Array(array) = &target.base else {
        return Err(Failure::cannot(format!("{name}: not an array")));
    };
    target::members(array, OpenMode::ReadOnly).map_err(|e| open::not_opened(&name, &e.into()))
}

/// Number of equal guesses whose stripes are compared.
const COMPARED_MAX: usize = 4;

/// The guesses that are better than all others.
struct Best {
    equals: Vec<JudgedGuess>,
    /// By how many contradictions all others are worse.
    margin: u64,
    /// Number of guesses that may be as good and were not checked.
    unchecked: usize,
}

impl Best {
    /// Returns true if all best guesses read the same.
    fn reads_same(&self) -> bool {
        let digest = |judged: &JudgedGuess| judged.checked.map(|checked| checked.content.digest);
        self.unchecked == 0 && self.equals.windows(2).all(|two| digest(&two[0]) == digest(&two[1]))
    }

    /// Reports several equal guesses.
    fn say_equals(&self, out: &Out) {
        let count = self.equals.len();
        if count + self.unchecked < 2 {
            return;
        }
        let partial = |judged: &JudgedGuess| judged.checked.is_some_and(|c| c.content.is_partial);
        let what = match (self.reads_same(), self.equals.iter().any(partial)) {
            (true, false) => "read the same: for reading, any of them will do",
            (true, true) => "read the same as far as files were compared",
            (false, _) => "differ in what their files hold: look at the files that each gives",
        };
        out.note(&format!("undecided: these {count} candidates {what}"));
        if self.unchecked > 0 {
            out.note(&format!("{} more may be as good, and were not checked", self.unchecked));
        }
    }
}

/// Checks guesses, the best first, until the others are known to be worse.
fn best(
    guesses: Vec<Guess>,
    members: &[Option<Member>],
    stop: &Stop,
    out: &Out,
) -> Result<Best, Failure> {
    let mut judged: Vec<JudgedGuess> = Vec::new();
    let (mut least, mut next_least, mut unchecked) = (u64::MAX, u64::MAX, 0);
    for guess in guesses {
        stop.check()?;
        let known = guess.contradictions() as u64;
        if known > least.saturating_add((least / 8).max(MARGIN)) {
            next_least = next_least.min(known);
            break;
        }
        if judged.len() == CHECKED_MAX {
            unchecked += usize::from(is_equal(known, least));
            continue;
        }
        let target = target(&guess, members)?;
        let guess = judge::judge(guess, target, stop, out);
        stop.check()?;
        if let Some(contradictions) = guess.contradictions() {
            least = least.min(contradictions);
            judged.push(guess);
        }
    }
    let others = judged.iter().filter_map(JudgedGuess::contradictions);
    let others = others.filter(|contradictions| !is_equal(*contradictions, least));
    next_least = others.fold(next_least, u64::min);
    judged.retain(|guess| guess.contradictions().is_some_and(|c| is_equal(c, least)));
    // Blocks of files are seldom zero.
    let blank = |guess: &JudgedGuess| guess.checked.map_or(0, |checked| checked.content.blank);
    let fewest = judged.iter().map(blank).min().unwrap_or(0);
    judged.retain(|guess| blank(guess) <= fewest * 2 + BLANK_MIN);
    judged.sort_by_key(|guess| (guess.contradictions(), blank(guess)));
    let margin = next_least.saturating_sub(least);
    Ok(Best { equals: judged, margin, unchecked })
}

/// Number of zero blocks in files that does not show a wrong guess.
const BLANK_MIN: u64 = 8;

/// Returns true if the contradictions are hardly more than the least.
fn is_equal(contradictions: u64, least: u64) -> bool {
    contradictions <= least.saturating_add(least / 8)
}

/// Prints a guess, unless it is doubtful, and the evidence against it. Returns true if it is the
/// result.
fn say(
    judged: &JudgedGuess,
    best: &Best,
    members: &[Option<Member>],
    out: &Out,
) -> Result<bool, Failure> {
    let (guess, target) = (&judged.guess, &judged.target);
    let others = best.equals.len() - 1 + best.unchecked;
    let sureness = judged.sureness(others, best.margin);
    let against = judged.against(others, members);
    let is_answer = matches!(sureness, Sureness::Certain | Sureness::Likely);
    if sureness != Sureness::Doubtful {
        let content = judged.checked.map(|checked| checked.content).unwrap_or_default();
        let object = json!({
            "target": target,
            "sureness": sureness.word(),
            "certain": sureness == Sureness::Certain,
            "candidates": others + 1,
            "reads_same": best.reads_same(),
            "pieces_right": guess.right,
            "pieces_found": guess.found,
            "samples_compared": guess.agreement.compared,
            "samples_wrong": guess.agreement.wrong,
            "check_errors": judged.checked.map(|checked| checked.errors),
            "check_complete": judged.checked.is_some_and(|checked| checked.is_complete),
            "ends_compared": content.ends_seen,
            "ends_wrong": content.ends_wrong,
            "rows_compared": judged.rows_compared,
            "rows_wrong": judged.rows_wrong,
            "against": against,
        });
        out.result(&object, |_| format!("{target}\n"))?;
    }
    let what = match sureness {
        Sureness::Doubtful => format!("no answer: doubtful is {target}"),
        Sureness::Undecided if others > 0 => return Ok(false),
        sure => format!("this is {}", sure.word()),
    };
    let (right, found) = (guess.right, guess.found);
    out.note(&format!("{what}; {right} of {found} pieces that were found lie where they should"));
    for why in &against {
        out.note(&format!("against it: {why}"));
    }
    Ok(is_answer)
}

/// Prints a hint if an array with missing members leaves fewer than `astray` pieces
/// unexplained.
fn hint_at_missing(members: &MemberDevices, evidence: &Evidence, astray: usize, out: &Out) {
    for more in 1..=MORE_MAX {
        let with: Vec<_> = members.iter().cloned().chain(std::iter::repeat_n(None, more)).collect();
        let guesses = guess::guess(&with, evidence);
        if let Some(best) = guesses.first().filter(|best| best.astray() < astray) {
            out.note(&format!(
                "with {more} more, {} of {} pieces would lie right: give the word missing for each member \
                 that is not there",
                best.right, best.found
            ));
            return;
        }
    }
}

/// Returns the target of a guess.
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
